"""Small fitted models of every kind that the documentation shows, whose files must load."""

import warnings
from functools import cache

from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from sklearn_hocrf import (
    Constraints,
    HighOrderCRF,
    HighOrderSemiCRF,
    StackedSequenceLabeler,
    make_pipeline,
    training,
)
from sklearn_hocrf.feature_extraction import (
    SegmentFeatureExtractor,
    SegmentLogOddsEncoder,
    SequenceFeatureExtractor,
    TokenTransformer,
    WindowFeatures,
    phrase_marks,
)
from sklearn_hocrf.model_selection import CalibratedSequenceLabeler, ConformalSequenceLabeler, PenaltySearchCV

WORDS = [["Ann", "Lee", "met", "Bob"], ["met", "Ánna"], ["Bob", "met", "Ann", "Lee"], ["it", "rains"]] * 2
TAGS = [["B-PER", "I-PER", "O", "B-PER"], ["O", "B-PER"], ["B-PER", "O", "B-PER", "I-PER"], ["O", "O"]] * 2
COLUMNS = [[(word, float(len(word))) for word in words] for words in WORDS]
DICTS = [[{"w": word, "title": word.istitle(), "n": len(word)} for word in words] for words in WORDS]
NAMES = [[[f"w:{word}", "bias"] for word in words] for words in WORDS]
ROWS = [[[float(len(word)), float(word.istitle())] for word in words] for words in WORDS]


def n_tokens(tokens, starts, stops):
    """Return the lengths of segments."""
    return stops - starts


def ends_in_vowel(tokens, starts, stops):
    """Return a feature of segments, as a user's function."""
    return [token[-1] in "aeiou" for token in tokens[stops - 1]]


def parts_of(label):
    """Return the parts of a label, as a user's function."""
    return label.split("-")


def chain(**params):
    return HighOrderCRF(**{"max_iter": 3, **params})


def segments(**params):
    return HighOrderSemiCRF(**{"scheme": "bio", "max_iter": 3, **params})


def estimators():
    """Return pairs (model, its X) by name, before fitting."""
    w = SequenceFeatureExtractor([("w", 0)])
    own = {
        "likelihood": {"solver": training.LBFGS(), "max_iter": 3},
        "elastic net": {"l1_reg": 0.1, "solver": training.LBFGS(), "max_iter": 3},
        "matching": {"objective": "local_feature_matching"},
        "sgd": {"solver": training.SGD(), "random_state": 0},
        "groups": {"sigma_reg": {("features", 0): 1.0, ("patterns", 1): 0.5, None: 2.0}},
        "constraints": {"constraints": Constraints(forbid=[("O", "I-PER")])},
        "scheme": {"constraints": "bio", "max_order": 2},
        "pruning": {"pruning": 2, "max_order": 2},
        "segments": {"history": "segments", "max_order": 3},
        "parts": {"label_parts": parts_of},
    }
    models = {f"CRF, {name}": (chain(**params), NAMES) for name, params in own.items()}
    return models | {
        "CRF on dicts": (chain(max_order=2), DICTS),
        "CRF on rows": (chain(), ROWS),
        "stacked": (StackedSequenceLabeler(LogisticRegression(), chain(), cv=2), ROWS),
        "default extractor": (make_pipeline(SequenceFeatureExtractor(), chain()), WORDS),
        "functions": (
            make_pipeline(SequenceFeatureExtractor(token_features=[(0, "lower"), "prefix2", "is_title"]), chain()),
            COLUMNS,
        ),
        "hashing": (make_pipeline(SequenceFeatureExtractor(n_features=64), chain()), WORDS),
        "vectorizer": (
            make_pipeline(SequenceFeatureExtractor("attributes", min_count=2), chain()),
            DICTS,
        ),
        "templates": (
            make_pipeline(SequenceFeatureExtractor(["U:%x[0,0]", "B:%x[-1,0]"]), chain(feature_order={"B": (1,)})),
            WORDS,
        ),
        "calibrated": (CalibratedSequenceLabeler(make_pipeline(w, chain()), cv=2), WORDS),
        "conformal": (ConformalSequenceLabeler(chain(), alpha=0.5), NAMES),
        "phrases": (
            make_pipeline(SequenceFeatureExtractor([("w", 0), ("x", 0)], {"x": phrase_marks(["Ann"])}), chain()),
            WORDS,
        ),
        "penalties": (PenaltySearchCV(chain(), cv=2, max_steps=1), NAMES),
        "semi-CRF on dicts": (segments(segment_length=3), DICTS),
        "places": (
            make_pipeline(
                w, SegmentFeatureExtractor(begin=True, tags="bigrams", length="capped", scheme="bio"), segments()
            ),
            WORDS,
        ),
        "texts": (
            make_pipeline(
                SequenceFeatureExtractor([("w", 0)]),
                SegmentFeatureExtractor(bag="w[0]=", identity="w", scheme="bio"),
                SegmentLogOddsEncoder(scheme="bio", field="w"),
                segments(segment_length=(1, None)),
            ),
            DICTS,
        ),
        "numbers": (
            make_pipeline(SequenceFeatureExtractor(), SegmentFeatureExtractor(end=True, length="gamma"), segments()),
            ROWS,
        ),
        "recordings": (make_pipeline(WindowFeatures(1, 1), TokenTransformer(StandardScaler()), chain()), ROWS),
        "a function of the user": (
            make_pipeline(SegmentFeatureExtractor(functions=[ends_in_vowel, n_tokens], scheme="bio"), segments()),
            WORDS,
        ),
    }


@cache
def fitted(name):
    """Return a pair (model, its X) after fitting."""
    with warnings.catch_warnings(action="ignore"):  # not converged; scale of rows
        if name == "stream":
            return chain(solver="sgd", random_state=0).partial_fit(NAMES, TAGS), NAMES
        model, X = estimators()[name]
        if name == "conformal":
            model.estimator.fit(X, TAGS)
        return model.fit(X, TAGS), X
