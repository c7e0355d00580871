"""Text in, entities out: tokens with character offsets, tags from spans of characters, and spans from tags.

:func:`tokenize` cuts texts into tokens, :func:`tags_from_spans` turns annotated spans of characters into labels of
tokens, :func:`spans_from_tags` turns predicted labels into spans; :func:`convert_tags` converts between tagging schemes
and repairs invalid tags. Positions count the characters of a Python string, which are code points, as in spaCy;
JavaScript and Java count UTF-16 units, of which an emoji has two.

Other libraries read and write annotation formats; the alignment connects them to the estimators. This package has
:func:`~sklearn_hocrf.datasets.load_conll` and :func:`~sklearn_hocrf.datasets.dump_conll` for columns, and
:func:`~sklearn_hocrf.datasets.load_doccano` and :func:`~sklearn_hocrf.datasets.dump_doccano`. BRAT's standoff files are
not supported: their spans may have gaps, which label sequences cannot express.

CoNLL-U, with the package conllu; ``source`` is the content of a file::

    import conllu
    sentences = conllu.parse(source)
    X = [[{"form": token["form"], "lemma": token["lemma"]} for token in sentence] for sentence in sentences]
    y = [[token["upos"] for token in sentence] for sentence in sentences]

spaCy; ``docs`` are its documents, and its tokens are kept::

    X = [TokenizedText(doc.text, [(t.idx, t.idx + len(t)) for t in doc if not t.is_space]) for doc in docs]
    y = tags_from_spans(X, [[(e.start_char, e.end_char, e.label_) for e in doc.ents] for doc in docs])

spaCy entities from predicted tags of these tokens::

    for doc, spans in zip(docs, spans_from_tags(X, y_pred)):
        doc.ents = [doc.char_span(*span) for span in spans]

spaCy files, which contain such documents; ``nlp`` is a pipeline, and ``path`` a file written by its ``convert``::

    from spacy.tokens import DocBin
    docs = list(DocBin().from_disk(path).get_docs(nlp.vocab))

spaCy spans with their probabilities; ``spans`` are (start, stop, label, probability), and they may overlap::

    from spacy.tokens import SpanGroup
    for doc, of_text in zip(docs, spans):
        found = [doc.char_span(start, stop, label) for start, stop, label, _ in of_text]
        scores = [probability for *_, probability in of_text]
        doc.spans["sc"] = SpanGroup(doc, name="sc", spans=found, attrs={"scores": scores})

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

Labels that Hugging Face's trainers ignore (-100); ``rows`` has the columns "tokens" and "labels"::

    model = make_pipeline(SequenceFeatureExtractor(), HighOrderCRF(missing_label=-100))
    model.fit(list(rows["tokens"]), list(rows["labels"]))

nervaluate, scores of partial matches::

    from nervaluate import Evaluator
    result = Evaluator(y_true, y_pred, tags=labels, loader="list").evaluate()

Label Studio exports; ``source`` is the content of a JSON file, not in the "min" format::

    import json
    tasks = json.loads(source)
    texts = [task["data"]["text"] for task in tasks]
    results = [task["annotations"][0]["result"] for task in tasks]
    values = [[result["value"] for result in of_text if result["type"] == "labels"] for of_text in results]
    spans = [[(value["start"], value["end"], value["labels"][0]) for value in of_text] for of_text in values]

Label Studio, spans with probabilities as predictions to import; use the names in the project's configuration::

    names = {"from_name": "label", "to_name": "text", "type": "labels"}
    results = [
        [{**names, "value": {"start": s, "end": e, "labels": [label]}, "score": p} for s, e, label, p in of_text]
        for of_text in spans
    ]
    predictions = [
        {"data": {"text": text}, "predictions": [{"result": result}]} for text, result in zip(texts, results)
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
from ._conversion import convert_tags
from ._tokens import TokenizedText, tokenize

__all__ = ["TokenizedText", "convert_tags", "spans_from_tags", "tags_from_spans", "tokenize"]
