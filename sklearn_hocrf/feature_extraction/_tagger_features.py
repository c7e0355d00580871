"""How a tagger, which knows nothing of this package, makes the features of an extractor; ``tagger`` has the format."""

from __future__ import annotations

import numpy as np

from .._sklearn.layers import TaggerFeatures, checked_name
from ._attributes import FittedExtractor
from ._templates import BOS, EOS
from ._token_functions import Phrases

ALWAYS = {"bias": 0, BOS: 1, EOS: 2}  # rows of the array of that name


def features_of_templates(fitted: FittedExtractor, functions, always, marks, kept) -> TaggerFeatures:
    """Return the description of templates of fields.

    Parameters
    ----------
    fitted : FittedExtractor
    functions : dict
        Token features by name: a field, and a function or its name.
    always : list of str
        Names of the attributes after those of templates.
    marks : bool
        Whether neighbours before the first and after the last token are marked.
    kept : (n_attributes,) bool
        The attributes of the file.
    """
    every, n_attributes = fitted.vocabularies.all, len(fitted.vocabularies)
    is_kept = np.zeros(n_attributes + len(always), bool)
    is_kept[: len(kept)] = kept
    parts = np.split(is_kept, np.cumsum(list(map(len, every))))  # the last is of those outside the templates
    of_template = {own.template: part for own, part in zip(every, parts, strict=False)}
    chosen = fitted.vocabularies.chosen(list(of_template), of_template)
    lists = {name: pair for name, pair in functions.items() if isinstance(pair[1], Phrases)}
    field_index = {name: i for i, name in enumerate([*fitted.fields, *lists])}
    columns, column_index = [], {name: i for i, name in enumerate(chosen.tables)}
    texts: list[str] = []
    for name, table in chosen.tables.items():
        field, function = functions.get(name, (name, None)) if name not in lists else (name, None)
        columns.append(_column(field_index[field], name, function, table.labels))
        texts += table.labels or []
    entry = {
        "kind": "templates",
        "fields": _fields(fitted, field_index, lists),
        "by_position": fitted.by_position,
        "marks": marks,
        "columns": columns,
        "templates": [
            {"places": [[column_index[name], offset] for name, offset in own.template], "attributes": len(own)}
            for own in chosen.all
        ],
        **_phrases(lists, field_index, texts),
    }
    own = {name: own.normalize if isinstance(own, Phrases) else own for name, (_, own) in functions.items()}
    code = np.concatenate([np.empty(0, np.int32), *(code for own in chosen.all for code in own.codes)])
    outside = [(ALWAYS[name], i) for i, name in enumerate(always, start=n_attributes) if is_kept[i]]
    of_user = {name: function for name, function in own.items() if callable(function)}
    return TaggerFeatures(entry, np.flatnonzero(is_kept[:n_attributes]), texts, code, outside, of_user)


def _column(field, name, function, labels) -> dict:
    own = function is not None and not isinstance(function, str)
    called = _called(function) if own else function
    entry = {"field": field, "name": checked_name(name), "function": called, "own": own}
    return {**entry, "numeric": labels is None, "values": len(labels or [])}


def _phrases(lists, field_index, texts) -> dict:
    """Return the entry of phrases, whose texts are added."""
    entries = []
    for name, (field, own) in lists.items():
        if any("\0" in word for words in own.words for word in words):
            raise ValueError(f"a tagger has no phrases with the character 0, as in the list {name!r:.60}")
        texts += ["\0".join(words) for words in own.words]
        of_user = callable(own.normalize)
        normalize = _called(own.normalize) if of_user else own.normalize
        entry = {"field": field_index[field], "name": checked_name(name), "size": len(own.words)}
        entries.append({**entry, "normalize": normalize, "own": of_user})
    return {"phrases": entries} if entries else {}


def _fields(fitted, names, lists) -> list:
    text, complete = {*fitted.text_fields, *lists}, set(fitted.complete_fields)
    return [{"name": checked_name(n), "numeric": n not in text, "complete": n in complete} for n in names]


def _called(function) -> str:
    """Return the name of a function of the user, for messages."""
    return getattr(function, "__qualname__", type(function).__name__)
