"""Write the golden files of the tagger that are absent:  ``python tests/golden/write_tagger.py``.

``tagger-NAME-1.hocrf`` are files of format 1; ``tagger-1.json`` contains tokens and the predictions of the estimators.
"""

import json
import sys
from pathlib import Path

GOLDEN = Path(__file__).resolve().parent


def golden_models():
    """Return the names of the models."""
    return ["names", "orders", "attributes", "strings", "phrases"]


def expected(tagger, tokens):
    """Return the answers of a tagger for a sequence, for JSON."""
    return {
        "labels": tagger.predict(tokens),
        "marginals": tagger.predict_marginals(tokens).tolist(),
        "segments": [list(segment) for segment in tagger.predict_segments(tokens, with_probability=True).tolist()],
        "nbest": [list(one) for one in tagger.predict_nbest(tokens, 3)],
    }


def answers_of(model, tokens):
    """Return the same of an estimator."""
    (segments,) = model.predict_segments([tokens], with_probability=True)
    return {
        "labels": list(model.predict([tokens])[0]),
        "marginals": model.predict_marginals([tokens])[0].tolist(),
        "segments": [list(segment) for segment in segments.tolist()],
        "nbest": [[list(one.labels), one.score, one.log_probability] for one in model.predict_nbest([tokens], 3)[0]],
    }


def main():
    from sklearn_hocrf import HighOrderCRF, datasets, make_pipeline
    from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor, phrase_marks
    from sklearn_hocrf.tagger import export_tagger

    X, y = datasets.make_name_sentences(12, random_state=0)
    rows = [[{"w": word, "n": len(word) % 3 - 1} for word in words] for words in X]
    kinds = [[label[-3:] for label in labels] for labels in y]
    templates = [("w", -1), ("w", 0), ("n", 1), (("low", -1), ("n", 0), ("w", 1))]
    attributes = [[{"w": token["w"], "n": token["n"], "sub": {"x": ["a", "b"]}} for token in tokens] for tokens in rows]
    columns = [[[word, word[-1:]] for word in words] for words in X]
    strings = SequenceFeatureExtractor(["U1:%x[0,0]", "u:%X[-1,0]/%x[5,1]", "*:%x[ +1,1]%", "*"])
    lists = {"city": ["York", "new york", "KYOTO"], "company": [["York", "&", "Co"], "Berg"]}
    names = {name: phrase_marks(phrases) for name, phrases in lists.items()}
    marks = [("w", 0), ("city", 0), ("company", -1), (("city", 0), ("company", 1))]
    models = {
        "phrases": (make_pipeline(SequenceFeatureExtractor(marks, names), HighOrderCRF(2)), X, y),
        "names": (make_pipeline(SequenceFeatureExtractor(affixes=1), HighOrderCRF(constraints="bio")), X, y),
        "orders": (
            make_pipeline(
                SequenceFeatureExtractor(templates, {"low": "lower"}, padding="drop", bias=True),
                HighOrderCRF(3, feature_order=1),
            ),
            rows,
            kinds,
        ),
        "strings": (make_pipeline(strings, HighOrderCRF(1, feature_order=strings.feature_order)), columns, y),
        "attributes": (HighOrderCRF(2, label_parts=lambda label: label.split("-")), attributes, y),
    }
    answers = GOLDEN / "tagger-1.json"
    known = json.loads(answers.read_text(encoding="utf-8")) if answers.exists() else {}
    for name, (model, X_model, y_model) in models.items():
        path = GOLDEN / f"tagger-{name}-1.hocrf"
        if path.exists():
            continue
        model.fit(X_model, y_model)
        export_tagger(model, path, dtype="float64", compress=name in ("attributes", "strings"))
        known[name] = {"X": X_model[:6], "answers": [answers_of(model, tokens) for tokens in X_model[:6]]}
    answers.write_text(json.dumps(known), encoding="utf-8")
    sys.stdout.write(f"{sorted(known)}\n")


if __name__ == "__main__":
    main()
