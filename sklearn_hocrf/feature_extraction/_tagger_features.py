"""How a tagger, which knows nothing of this package, makes the features of an extractor; ``tagger`` has the format."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from .._data.arrays import offsets_of
from .._tagger import MAX_KEY
from .._validation._delegation import TaggerFeatures
from ._string_templates import StringTemplates
from ._templates import BOS, EOS, TemplateVocabularies
from ._token_functions import Phrases

__all__ = ["FittedTemplates", "features_of_strings", "features_of_templates"]

LARGEST_PREFIX = 1 << 52  # keys of the first columns of a template, before these are joined to one
ALWAYS = {"bias": 0, BOS: 1, EOS: 2}  # rows of the array of that name


class FittedTemplates(NamedTuple):
    """The fitted state of an extractor with templates of fields."""

    vocabularies: TemplateVocabularies
    always: list  # names of the attributes after those of templates: bias, and those of the first and the last token
    functions: dict  # token features: field, and function or its name
    fields: list
    text_fields: set
    complete_fields: list
    by_position: bool  # tokens may be tuples
    marks: bool  # neighbours before the first and after the last token are marked


def features_of_strings(compiled: StringTemplates, fields, names, kept) -> TaggerFeatures:
    """Return the description of templates of CRF++ or Wapiti, which make attributes of such names."""
    templates = []
    for line in compiled.making:
        parts: list = [line.texts[0]]
        for macro, text in zip(line.macros, line.texts[1:], strict=True):
            parts += [list(macro), text]
        templates.append(parts)
    fields = list(map(_checked_name, fields[: compiled.n_columns]))
    named = {} if fields == list(range(len(fields))) else {"fields": fields}
    entry = {"kind": "strings", "templates": templates, "outside": compiled.style, **named}
    return TaggerFeatures.of_names(names, kept)._replace(entry=entry)


def features_of_templates(fitted: FittedTemplates, kept) -> TaggerFeatures:
    """Return the description of templates."""
    return _Templates(fitted).features(kept)


class _Joined(NamedTuple):
    """Columns that stand for the first columns of templates, where there would be too many keys."""

    entries: list  # of the header
    keys: list  # of ndarray


class _Templates:
    """A fitted extractor as a tagger describes it."""

    def __init__(self, fitted):
        self.fitted = fitted
        self.phrases = {
            name: (field, own) for name, (field, own) in fitted.functions.items() if isinstance(own, Phrases)
        }
        self.field_index = {name: i for i, name in enumerate([*fitted.fields, *self.phrases])}
        self.tables = fitted.vocabularies.tables
        self.names = list(self.tables)
        self.column_index = {name: i for i, name in enumerate(self.names)}
        self.joined, self.texts = _Joined([], []), []

    def features(self, kept) -> TaggerFeatures:
        """Return the description of features."""
        starts = offsets_of(list(map(len, self.fitted.vocabularies.all)))
        chosen = [np.flatnonzero(kept[start:stop]) for start, stop in pairwise(starts.tolist())]
        codes = [own.codes(rows) for own, rows in zip(self.fitted.vocabularies.all, chosen, strict=True)]
        columns, new_codes = self._columns(codes)
        radices = [4 if column["numeric"] else column["values"] + 3 for column in columns]
        templates, keys, first = [], [np.empty(0, np.int64)], 0
        for own, of_parts in zip(self.fitted.vocabularies.all, codes, strict=True):
            parts = [[self.column_index[field], offset] for field, offset in own.template]
            new = [new_codes[column][code] for (column, _), code in zip(parts, of_parts, strict=True)]
            parts, new = self._join(parts, new, radices)
            templates.append(parts)
            key, size = _keys(parts, new, radices)
            keys.append(first + key)
            first += size
        if first >= MAX_KEY:
            raise ValueError("the templates have too many columns with too many values for a tagger")
        key = np.concatenate(keys)
        order, n_attributes = np.argsort(key), int(starts[-1])
        fields, phrases = self._fields(), self._phrases()
        flags = {"by_position": self.fitted.by_position, "marks": self.fitted.marks}
        entries = {"columns": columns, "joined": self.joined.entries, "templates": templates}
        always = [(ALWAYS[name], n_attributes + i) for i, name in enumerate(self.fitted.always)]
        return TaggerFeatures(
            {"kind": "templates", "fields": fields, **flags, **entries, **phrases},
            np.flatnonzero(kept[:n_attributes])[order],
            self.texts,
            np.diff(key[order], prepend=0),
            np.concatenate([np.empty(0, np.int64), *self.joined.keys]),
            [(row, attribute) for row, attribute in always if attribute < len(kept)],
            self._functions(),
        )

    def _functions(self) -> dict:
        """Return the functions of the user, those of phrases included."""
        pairs = self.fitted.functions.items()
        own = {name: own.normalize if isinstance(own, Phrases) else own for name, (_, own) in pairs}
        return {name: function for name, function in own.items() if callable(function)}

    def _phrases(self) -> dict:
        """Return the entry of phrases, whose texts are added."""
        entries = []
        for name, (field, own) in self.phrases.items():
            if any("\0" in word for words in own.words for word in words):
                raise ValueError(f"a tagger has no phrases with the character 0, as in the list {name!r:.60}")
            self.texts += ["\0".join(words) for words in own.words]
            of_user = callable(own.normalize)
            normalize = _called(own.normalize) if of_user else own.normalize
            lists = [[_checked_name(name), len(own.words)]]
            entries.append({"field": self.field_index[field], "normalize": normalize, "own": of_user, "lists": lists})
        return {"phrases": entries} if entries else {}

    def _fields(self) -> list:
        complete, fields = set(self.fitted.complete_fields), []
        for name in self.field_index:
            numeric = name not in self.fitted.text_fields and name not in self.phrases
            fields.append({"name": _checked_name(name), "numeric": numeric, "complete": name in complete})
        return fields

    def _columns(self, codes):
        """Return the columns of the header, and the new code of each code of their values; those in no key have 0."""
        columns, new_codes = [], []
        for name, table in self.tables.items():
            field, function = self.fitted.functions.get(name, (name, None))
            if name in self.phrases:
                field, function = name, None
            own = function is not None and not isinstance(function, str)
            used = np.zeros(table.size, bool)
            for template, of_parts in zip(self.fitted.vocabularies.all, codes, strict=True):
                for (part, _), code in zip(template.template, of_parts, strict=True):
                    if part == name:
                        used[code[code < table.size]] = True
            used |= table.labels is None
            new_code = np.append(np.cumsum(used), used.sum() + np.array([1, 2]))
            columns.append(
                {
                    "field": self.field_index[field],
                    "name": _checked_name(name),
                    "function": _called(function) if own else function,
                    "own": own,
                    "numeric": table.labels is None,
                    "values": 0 if table.labels is None else int(used.sum()),
                }
            )
            new_codes.append(new_code)
            self.texts += [] if table.labels is None else [table.labels[i] for i in np.flatnonzero(used).tolist()]
        return columns, new_codes

    def _join(self, parts, codes, radices):
        """Return the parts of a template and their codes; the first ones are joined where keys would be too large."""
        size = radices[parts[0][0]]
        for i in range(1, len(parts)):
            size *= radices[parts[i][0]]
            if size > LARGEST_PREFIX and i > 1:
                key, _ = _keys(parts[:i], codes[:i], radices)
                known, rank = np.unique(key, return_inverse=True)
                self.joined.entries.append({"parts": parts[:i], "n_keys": len(known)})
                self.joined.keys.append(np.diff(known, prepend=0))
                radices.append(len(known) + 1)
                column = len(self.tables) + len(self.joined.entries) - 1
                return self._join([[column, 0], *parts[i:]], [rank + 1, *codes[i:]], radices)
        return parts, codes


def _called(function) -> str:
    """Return the name of a function of the user, for messages."""
    return getattr(function, "__qualname__", type(function).__name__)


def _checked_name(name):
    if not isinstance(name, (str, int)) or isinstance(name, bool):
        raise ValueError(f"a tagger has names of fields that are texts or integers, not {name!r:.60}")
    return name


def _keys(parts, codes, radices):
    """Return keys in mixed radix, and how many there could be."""
    key, size = np.zeros(len(codes[0]), np.int64), 1
    for (column, _), code in zip(parts, codes, strict=True):
        key = key * radices[column] + code
        size *= radices[column]
    return key, size
