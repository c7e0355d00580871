"""Text in, entities out: tokens that know their characters, tags from spans of characters, and spans from tags.

:func:`tokenize` cuts texts into tokens, :func:`tags_from_spans` turns annotated spans of characters into labels of
tokens, :func:`spans_from_tags` turns predicted labels into spans. Positions count the characters of a Python string,
which are code points, as in spaCy; JavaScript and Java count UTF-16 units, of which an emoji has two.

Other libraries read and write the formats of annotations; the alignment joins them to the estimators.

CoNLL-U, by the package conllu; ``source`` is the content of a file::

    import conllu
    sentences = conllu.parse(source)
    X = [[{"form": token["form"], "lemma": token["lemma"]} for token in sentence] for sentence in sentences]
    y = [[token["upos"] for token in sentence] for sentence in sentences]

spaCy; ``docs`` are its documents, and its tokens stay::

    X = [TokenizedText(doc.text, [(t.idx, t.idx + len(t)) for t in doc if not t.is_space]) for doc in docs]
    y = tags_from_spans(X, [[(e.start_char, e.end_char, e.label_) for e in doc.ents] for doc in docs])

Entities of spaCy from predicted tags of these tokens::

    for doc, spans in zip(docs, spans_from_tags(X, y_pred)):
        doc.ents = [doc.char_span(*span) for span in spans]

displaCy, spans in coloured text::

    from spacy import displacy
    documents = [
        {"text": tokens.text, "ents": [{"start": s, "end": e, "label": label} for s, e, label, *_ in of_text]}
        for tokens, of_text in zip(tokenized, spans)
    ]
    html = displacy.render(documents, style="ent", manual=True, jupyter=False)

Hugging Face; ``data`` is a dataset with the columns "tokens" and "ner_tags"::

    names = data.features["ner_tags"].feature.names
    X = list(data["tokens"])
    y = [[names[tag] for tag in tags] for tags in data["ner_tags"]]

nervaluate, scores of partial matches::

    from nervaluate import Evaluator
    result = Evaluator(y_true, y_pred, tags=labels, loader="list").evaluate()

Label Studio; spans with probabilities as the results of its predictions::

    predictions = [
        [{"value": {"start": s, "end": e, "labels": [label]}, "score": p} for s, e, label, p in of_text]
        for of_text in spans
    ]

Examples
--------
>>> from sklearn_hocrf import HighOrderCRF
>>> from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
>>> from sklearn_hocrf.pipeline import make_pipeline
>>> from sklearn_hocrf.text import spans_from_tags, tags_from_spans, tokenize
>>> texts = ["Ann Lee lives in Oslo.", "Bob met Ann in Bergen.", "In Oslo, Bob met Eve."]
>>> spans = [[(0, 7, "PER"), (17, 21, "LOC")], [(0, 3, "PER"), (8, 11, "PER"), (15, 21, "LOC")],
...          [(3, 7, "LOC"), (9, 12, "PER"), (17, 20, "PER")]]
>>> X = tokenize(texts)
>>> model = make_pipeline(SequenceFeatureExtractor(), HighOrderCRF(constraints="bio")).fit(X, tags_from_spans(X, spans))
>>> new = tokenize(["Eve lives in Bergen."])
>>> spans_from_tags(new, model.predict(new))
[[(0, 3, 'PER'), (13, 19, 'LOC')]]
"""

from ._alignment import spans_from_tags, tags_from_spans
from ._tokens import TokenizedText, tokenize

__all__ = ["TokenizedText", "spans_from_tags", "tags_from_spans", "tokenize"]
