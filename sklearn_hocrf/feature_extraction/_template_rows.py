"""Rows of features that templates build from the columns of tokens.

The module also writes the description from which a tagger computes the same features, in the format of ``tagger``.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from .._data.arrays import offsets_of
from .._reading.labels import position_name
from .._sklearn.layers import TaggerFeatures, checked_name
from ._attributes import GivenNames
from ._columns import apply_function, is_text, read_tokens, texts_of, without_arrays
from ._input_space import TemplateCounts, lacks_counts
from ._names import hash_names
from ._plan import FeaturePlan, plan_of
from ._templates import BOS, EOS, TemplateVocabularies, Window
from ._token_functions import Phrases, as_function

if TYPE_CHECKING:
    from .._sklearn.layers import TaggerFeatures

NO_ATTRIBUTES = TemplateVocabularies([], {})  # if attributes are hashed
ALWAYS = {"bias": 0, BOS: 1, EOS: 2}  # rows of the array ``always`` in tagger files
FEW_TOKENS = 1000  # the most tokens whose attributes are looked up in dicts, one sequence after the other


@dataclass(frozen=True)
class FieldTemplates(GivenNames):
    """Templates of (field, offset) pairs, with which an extractor creates attributes."""

    templates: list  # only those that produce attributes
    functions: dict  # {name: (field, function or its name)}
    padding: str
    bias: bool
    n_features: int | None  # for hashing

    paddings: ClassVar[tuple] = ("mark", "drop")
    unused: ClassVar[str | None] = None  # all parameters have a use
    read = staticmethod(read_tokens)

    def plan(self, parameters, columns, of_all) -> tuple[FeaturePlan, list]:
        is_fixed = of_all or self.n_features is not None  # with hashing, nothing may depend on the strings
        settings = parameters.templates, parameters.token_features, parameters.affixes
        plan = plan_of(*settings, columns, is_fixed=is_fixed)
        used = [field for template in plan.templates for field, _ in template]
        return plan, used + [field for field, _ in plan.functions.values()]

    def learn(self, table, min_count) -> tuple[TemplateVocabularies, tuple]:
        vocabularies, ids, values = self._of_many(table, min_count=min_count)
        rows = self._rows(vocabularies, table, ids, values)
        if self.n_features is not None:  # only the distinction between text and numbers remains
            nothing = {vocabulary.template: np.zeros(len(vocabulary), bool) for vocabulary in vocabularies.all}
            vocabularies = vocabularies.chosen(self.templates, nothing)
        return vocabularies, rows

    def rows(self, vocabularies, table) -> tuple:
        attributes = self._of_few(vocabularies, table) if table.offsets[-1] <= FEW_TOKENS else None
        return self._rows(vocabularies, table, *(attributes or self._of_many(table, vocabularies)[1:]))

    def counts(self, table) -> TemplateCounts:
        if self.n_features is not None:
            return TemplateCounts(NO_ATTRIBUTES, {})
        vocabularies, ids, _ = self._of_many(table)
        pairs = zip(vocabularies.all, ids, strict=True)
        n_of = {v.template: np.bincount(attribute_ids + 1, minlength=len(v) + 1)[1:] for v, attribute_ids in pairs}
        return TemplateCounts(vocabularies, n_of)

    def finish(self, counts, min_count, fields) -> TemplateVocabularies:
        templates = [] if self.n_features is not None else self.templates
        for template in templates:
            if template not in counts.n_of:
                raise lacks_counts(f"the template {template!r}", fields)
        return counts.vocabularies.chosen(templates, {template: n >= min_count for template, n in counts.n_of.items()})

    def tagger_features(self, extractor, vocabularies, text_fields, kept) -> TaggerFeatures:
        if self.n_features is not None:
            raise ValueError("a tagger finds attributes by their values, so hashing (n_features) is not for it")
        fields, always = extractor.fields_, self.names_of_always()
        n_attributes, is_kept = len(vocabularies), np.zeros(len(vocabularies) + len(always), bool)
        is_kept[: len(kept)] = kept
        parts = np.split(is_kept, np.cumsum(list(map(len, vocabularies.all))))  # the last: not from templates
        of_template = {v.template: part for v, part in zip(vocabularies.all, parts, strict=False)}
        chosen = vocabularies.chosen(list(of_template), of_template)
        lists = {name: pair for name, pair in self.functions.items() if isinstance(pair[1], Phrases)}
        field_index = {name: i for i, name in enumerate([*fields, *lists])}
        columns, column_index = [], {name: i for i, name in enumerate(chosen.tables)}
        texts: list[str] = []
        for name, table in chosen.tables.items():
            field, function = self.functions.get(name, (name, None)) if name not in lists else (name, None)
            columns.append(_column(field_index[field], name, function, table.labels))
            texts += table.labels or []
        is_text, is_complete = {*text_fields, *lists}, set(extractor.complete_fields_)
        entry = {
            "kind": "templates",
            "fields": [
                {"name": checked_name(name), "numeric": name not in is_text, "complete": name in is_complete}
                for name in field_index
            ],
            "by_position": extractor.fields is not None or fields == list(range(len(fields))),
            "marks": self.padding == "mark",
            "columns": columns,
            "templates": [
                {"places": [[column_index[name], offset] for name, offset in v.template], "attributes": len(v)}
                for v in chosen.all
            ],
            **_phrases(lists, field_index, texts),
        }
        code = np.concatenate([np.empty(0, np.int32), *chain.from_iterable(v.codes for v in chosen.all)])
        outside = [(ALWAYS[name], i) for i, name in enumerate(always, start=n_attributes) if is_kept[i]]
        return TaggerFeatures(entry, np.flatnonzero(is_kept[:n_attributes]), texts, code, outside)

    def derived(self, table) -> dict:
        """Return the columns of the tokens and those of the token features."""
        derived = {
            name: apply_function(as_function(function), table.columns[field], name)
            for name, (field, function) in self.functions.items()
            if not isinstance(function, Phrases)
        }
        return {**self.with_phrases(table), **derived}

    def with_phrases(self, table) -> dict:
        """Return the columns of the tokens and the marks of phrases, which depend on neighbouring tokens."""
        lists = ((name, *pair) for name, pair in self.functions.items() if isinstance(pair[1], Phrases))
        marks = {n: phrases.column(table.columns[field], table.offsets, n) for n, field, phrases in lists}
        return {**table.columns, **marks}

    def _of_few(self, vocabularies, table) -> tuple | None:
        """Look up attributes by their values; return None if there are no tokens or if ``find`` returns None."""
        if self.n_features is not None or not table.offsets[-1] or not vocabularies.all:
            return None
        columns = without_arrays(self.with_phrases(table))
        cells = {name: texts_of(column) if is_text(column) else column.tolist() for name, column in columns.items()}
        bounds = [(a, b) for a, b in pairwise(table.offsets.tolist()) if a < b]
        parts = ({name: column[a:b] for name, column in cells.items()} for a, b in bounds)
        attributes = [vocabularies.find(part, self.functions, self.padding == "mark") for part in parts]
        if any(part is None for part in attributes):
            return None
        values = [np.ones(ids.shape) if amounts is None else amounts for ids, amounts in attributes]
        are_one = all(amounts is None for _, amounts in attributes)
        return np.concatenate([ids for ids, _ in attributes], axis=1), () if are_one else np.concatenate(values, axis=1)

    def ids_of_one(self, vocabularies, columns, n_tokens) -> tuple | None:
        """Return the attributes of a sequence, given its columns as lists, in the form of ``Vocabulary.ids_of``."""
        n_hashed = self.n_features
        if len(vocabularies.all) != len(self.templates) or (n_hashed is not None and len(vocabularies)):
            return None  # from another fit or an earlier version
        always, marks = np.empty((0, n_tokens), np.intp), self.padding == "mark"
        if self.bias or not marks:
            names = self.names_of_always()
            ids = len(vocabularies) + np.arange(len(names)) if n_hashed is None else hash_names(names, n_hashed)
            always = np.where(self.always(Window(np.array([0, n_tokens]))), ids[:, None], -1)
        return vocabularies.ids_of_texts(columns, self.functions, marks, always, n_hashed)

    def _of_many(self, table, vocabularies=None, min_count=1) -> tuple[TemplateVocabularies, list, list]:
        """Return the vocabularies and, for each template, the ids and values of the tokens.

        The ids, of shape (N,), index the attributes of a template, or hashed features; -1 means no attribute. The
        values are float64, or None if all are 1. If ``vocabularies`` is None, they are learned.
        """
        window, columns, ids, values = Window(table.offsets), self.derived(table), [], []
        is_new = vocabularies is None or self.n_features is not None
        if is_new:
            vocabularies = TemplateVocabularies.from_columns(self.templates, columns)
        codes, numbers = {}, {}
        for field, field_table in vocabularies.tables.items():
            outside = (field_table.size, field_table.size + 1) if self.padding == "mark" else (-1, -1)
            codes[field] = field_table.encode(columns[field], field), *outside
            if not is_text(columns[field]):
                numbers[field] = np.nan_to_num(columns[field], nan=0.0)
        shifted = {
            (field, offset): window.shift(codes[field][0], offset, *codes[field][1:])
            for field, offset in dict.fromkeys(pair for vocabulary in vocabularies.all for pair in vocabulary.template)
        }
        for vocabulary in vocabularies.all:
            rows, pairs = [shifted[pair] for pair in vocabulary.template], vocabulary.template
            factors = [window.shift(numbers[f], offset, 1.0, 1.0) for f, offset in pairs if f in numbers]
            product = None
            if factors:
                with np.errstate(over="ignore"):
                    product = np.prod(factors, axis=0)
                if not np.isfinite(product).all():
                    where = position_name(table.offsets, int(np.argmin(np.isfinite(product))))
                    raise ValueError(f"{where}: the product of the template {pairs!r} is inf")
                rows[0] = np.where(product == 0, np.int32(-1), rows[0])  # a product may underflow
            ids.append(vocabulary.learn(rows, min_count) if is_new else vocabulary.lookup(rows))
            values.append(product)
            if self.n_features is not None:
                ids[-1] = np.append(hash_names(vocabulary.names(), self.n_features), np.int32(-1))[ids[-1]]
        return vocabularies, ids, values

    def _rows(self, vocabularies, table, ids, values) -> tuple:
        """Return the attributes of all tokens as CSR arrays, given the ids and values of each template."""
        names, window = self.names_of_always(), Window(table.offsets)
        firsts = offsets_of([*(vocabulary.codes[0].size for vocabulary in vocabularies.all), *[1] * len(names)])[:-1]
        if self.n_features is not None:
            firsts = np.append(np.zeros(len(ids), np.int64), hash_names(names, self.n_features))
        columns = [*ids, *(np.where(present, 0, -1) for present in self.always(window))]
        indices = np.empty((int(table.offsets[-1]), len(columns)), dtype=np.int32)
        for j, column in enumerate(columns):
            indices[:, j] = column
        present = indices >= 0
        indices += firsts.astype(np.int32)
        indices, indptr = indices[present], offsets_of(present.sum(axis=1))
        if all(column is None for column in values):
            return indptr, indices, None
        data = np.ones(present.shape)
        for j, column in enumerate(values):
            data[:, j] = 1.0 if column is None else column
        data = data[present]
        return indptr, indices, None if (data == 1).all() else data

    def always(self, window) -> list:
        """Return, for each attribute that does not come from templates, a mask of the tokens that have it."""
        present = [window.from_begin >= 0] if self.bias else []
        return [*present, window.from_begin == 0, window.to_end == 0] if self.padding == "drop" else present

    def names_of_always(self) -> list[str]:
        """Return the names of the attributes that do not come from templates."""
        return (["bias"] if self.bias else []) + ([BOS, EOS] if self.padding == "drop" else [])


def _column(field, name, function, labels) -> dict:
    of_user = function is not None and not isinstance(function, str)
    called = getattr(function, "__qualname__", type(function).__name__) if of_user else function  # for messages
    entry = {"field": field, "name": checked_name(name), "function": called, "own": of_user}
    return {**entry, "numeric": labels is None, "values": len(labels or [])}


def _phrases(lists, field_index, texts) -> dict:
    """Return the entry of the phrases, and append their strings to ``texts``."""
    entries = []
    for name, (field, phrases) in lists.items():
        if any("\0" in word for words in phrases.words for word in words):
            raise ValueError(f"a tagger has no phrases with the character 0, as in the list {name!r:.60}")
        texts += ["\0".join(words) for words in phrases.words]
        entry = {"field": field_index[field], "name": checked_name(name), "size": len(phrases.words)}
        entries.append({**entry, "normalize": phrases.normalize})
    return {"phrases": entries} if entries else {}
