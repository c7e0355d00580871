"""How a tagger, which knows nothing of this package, makes the features of an extractor; ``tagger`` has the format."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from .._data.arrays import offsets_of
from .._validation._delegation import TaggerFeatures, checked_name
from ._attributes import FittedExtractor
from ._templates import BOS, EOS
from ._token_functions import Phrases

__all__ = ["features_of_templates"]

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
    lists = {name: pair for name, pair in functions.items() if isinstance(pair[1], Phrases)}
    field_index = {name: i for i, name in enumerate([*fitted.fields, *lists])}
    every = fitted.vocabularies.all
    starts = offsets_of(list(map(len, every)))
    rows = [np.flatnonzero(kept[start:stop]) for start, stop in pairwise(starts.tolist())]
    columns, new_codes, texts = [], {}, []
    for name, table in fitted.vocabularies.tables.items():
        field, function = functions.get(name, (name, None)) if name not in lists else (name, None)
        new_codes[name], values = _renumbered(name, table, every, rows)
        columns.append(_column(field_index[field], name, function, table.labels is None, len(values)))
        texts += values
    column_index, code = {name: i for i, name in enumerate(new_codes)}, [np.empty(0, np.int64)]
    for own, chosen in zip(every, rows, strict=True):
        code += [new_codes[name][of_pair[chosen]] for (name, _), of_pair in zip(own.template, own.codes, strict=True)]
    entry = {
        "kind": "templates",
        "fields": _fields(fitted, field_index, lists),
        "by_position": fitted.by_position,
        "marks": marks,
        "columns": columns,
        "templates": [
            {"places": [[column_index[name], offset] for name, offset in own.template], "attributes": len(chosen)}
            for own, chosen in zip(every, rows, strict=True)
        ],
        **_phrases(lists, field_index, texts),
    }
    attributes = [start + chosen for start, chosen in zip(starts, rows, strict=False)]
    outside = [(ALWAYS[name], i) for i, name in enumerate(always, start=int(starts[-1])) if i < len(kept)]
    own = {name: own.normalize if isinstance(own, Phrases) else own for name, (_, own) in functions.items()}
    return TaggerFeatures(
        entry,
        np.concatenate([np.empty(0, np.int64), *attributes]),
        texts,
        np.concatenate(code),
        outside,
        {name: function for name, function in own.items() if callable(function)},
    )


def _renumbered(name, table, every, rows) -> tuple[np.ndarray, list]:
    """Return the new code of each code of a field, and its values; those of no attribute are left out."""
    used = np.arange(table.n_codes) >= (0 if table.labels is None else table.size)
    for own, chosen in zip(every, rows, strict=True):
        for (field, _), code in zip(own.template, own.codes, strict=True):
            if field == name:
                used[code[chosen]] = True
    values = [] if table.labels is None else [table.labels[i] for i in np.flatnonzero(used[:-2]).tolist()]
    return np.cumsum(used) - 1, values


def _column(field, name, function, numeric, n_values) -> dict:
    own = function is not None and not isinstance(function, str)
    called = _called(function) if own else function
    entry = {"field": field, "name": checked_name(name), "function": called, "own": own}
    return {**entry, "numeric": numeric, "values": n_values}


def _phrases(lists, field_index, texts) -> dict:
    """Return the entry of phrases, whose texts are added."""
    entries = []
    for name, (field, own) in lists.items():
        if any("\0" in word for words in own.words for word in words):
            raise ValueError(f"a tagger has no phrases with the character 0, as in the list {name!r:.60}")
        texts += ["\0".join(words) for words in own.words]
        of_user = callable(own.normalize)
        normalize = _called(own.normalize) if of_user else own.normalize
        sizes = [[checked_name(name), len(own.words)]]
        entries.append({"field": field_index[field], "normalize": normalize, "own": of_user, "lists": sizes})
    return {"phrases": entries} if entries else {}


def _fields(fitted, names, lists) -> list:
    text, complete = {*fitted.text_fields, *lists}, set(fitted.complete_fields)
    return [{"name": checked_name(n), "numeric": n not in text, "complete": n in complete} for n in names]


def _called(function) -> str:
    """Return the name of a function of the user, for messages."""
    return getattr(function, "__qualname__", type(function).__name__)
