"""CRF++ and Wapiti templates: strings with macros, which are replaced by strings of tokens.

``U01:%x[-1,0]/%x[0,1]`` produces attributes such as ``U01:the/NN``. Equal strings are the same attribute, whichever
template they come from. The first letter, in upper or lower case, determines what the attributes are paired with: ``U``
for labels, ``B`` for pairs of labels, ``*`` for both.
"""

from __future__ import annotations

import re
from itertools import chain, pairwise
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._data.batch import SequenceBatch
from .._data.checks import short
from .._data.tagger import filled_templates, template_form, text_outside
from .._reading.attributes import Vocabulary, known_batch, sort_vocabulary
from .._reading.labels import position_name
from ._attributes import GivenNames
from ._columns import TokenTable, is_text, read_tokens
from ._plan import FeaturePlan
from ._template_rows import FEW_TOKENS
from ._templates import Window, distinct_rows

if TYPE_CHECKING:
    from .._sklearn.layers import TaggerFeatures

_MACRO = re.compile(r"%([A-Za-z])(?:\[\s*(@?)\s*([-+]?\d+)\s*,\s*(\d+)\s*((?:,[^\]]*)?)\])?")


class TemplateLine(NamedTuple):
    """A template, which is one line of a file."""

    orders: tuple[int, ...]  # of the label patterns with which its features are paired
    texts: list[str]  # before, between and after the macros
    macros: list[tuple[int, int, bool]]  # offset, column, and whether the string becomes lower-case
    text: str


class StringTemplates(GivenNames):
    """Compiled CRF++ or Wapiti templates, from which an extractor creates attribute names.

    Parameters
    ----------
    templates : sequence of str

    Raises
    ------
    ValueError
        If a template is invalid.
    """

    unused = "templates of CRF++ and Wapiti have"
    read = staticmethod(read_tokens)

    def __init__(self, templates):
        self.lines = list(map(_parsed_line, templates))
        self.style = "wapiti" if any(line.text[0] in "*ub" for line in self.lines) else "crf++"
        self.making = [line for line in self.lines if len(line.text) > 1]  # the others represent only pairs of labels
        self.n_columns = 1 + max((column for line in self.making for _, column, _ in line.macros), default=0)

    @property
    def max_order(self) -> int:
        """The highest order of label patterns that the templates require."""
        return max((max(line.orders) for line in self.lines), default=0)

    @property
    def feature_order(self) -> int | dict[str, Any]:
        """The orders of the label patterns that are paired with features, by the first letter of feature names."""
        orders = {line.text[0]: line.orders for line in self.making if max(line.orders)}
        return {letter: 1 if len(of_letter) == 2 else of_letter for letter, of_letter in sorted(orders.items())} or 0

    def plan(self, parameters, columns, of_all) -> tuple[FeaturePlan, list]:
        return FeaturePlan([line.text for line in self.lines], {}, {}), list(columns)[: self.n_columns]

    def tagger_features(self, extractor, vocabularies, text_fields, kept) -> TaggerFeatures:
        from .._sklearn.layers import checked_name  # imported here, because few users write such files

        templates = []
        for line in self.making:
            pairs = zip(line.macros, line.texts[1:], strict=True)
            templates.append([line.texts[0], *chain.from_iterable((list(macro), text) for macro, text in pairs)])
        fields = list(map(checked_name, extractor.fields_[: self.n_columns]))
        names = {} if fields == list(range(len(fields))) else {"fields": fields}
        entry = {"kind": "strings", "templates": templates, "outside": self.style, **names}
        return super().tagger_features(extractor, vocabularies, text_fields, kept)._replace(entry=entry)

    def tokens(self, table) -> list[list[list[str]]]:
        """Return the attributes of each token of each sequence, in the order of the templates; some may repeat."""
        columns = [column.values[column.codes].tolist() for column in self._columns(table)]
        forms = [(template_form(line.texts), line.macros) for line in self.making]
        sequences = []
        for start, stop in pairwise(table.offsets.tolist()):
            made = filled_templates(forms, [column[start:stop] for column in columns], self.style)
            sequences.append(list(map(list, zip(*made, strict=True))) if made else [[]] * (stop - start))
        return sequences

    def learned(self, table) -> tuple[SequenceBatch, Vocabulary]:
        names, indptr, ids = self._names(table)
        return sort_vocabulary(SequenceBatch(table.offsets, indptr, ids, None, len(names)), Vocabulary(names))

    def rows(self, vocabularies, table) -> tuple:
        if table.offsets[-1] <= FEW_TOKENS:
            return super().rows(vocabularies, table)
        names, indptr, ids = self._names(table)
        known = np.fromiter(map(vocabularies.vocabulary.__getitem__, names), np.int32, len(names))
        if (known < 0).all():  # this method issues the warning
            return super().rows(vocabularies, table)
        batch = known_batch(table.offsets, indptr, known[ids], None, len(vocabularies), vocabularies.names())
        return batch.indptr, batch.indices, batch.values

    def _names(self, table) -> tuple[dict, np.ndarray, np.ndarray]:
        """Return a dict from attribute names to ids, and the tokens' ids, some of which may repeat, as CSR arrays.

        Each template creates a name only once for each distinct combination of strings that its macros read.
        """
        window, columns, read = Window(table.offsets), self._columns(table), {}
        for macro in dict.fromkeys(chain.from_iterable(line.macros for line in self.making)):
            read[macro] = self._read_by(window, columns[macro[1]], *macro[::2])
        names: dict[str, int] = {}
        ids = np.zeros((int(table.offsets[-1]), len(self.making)), np.int32)
        for j, line in enumerate(self.making):
            form, parts = template_form(line.texts), [read[macro] for macro in line.macros]
            if not parts:
                ids[:, j] = names.setdefault(form % (), len(names))
                continue
            position, _, row_of = distinct_rows([codes for codes, _ in parts], [len(texts) for _, texts in parts])
            rows = row_of[:-1]
            made = map(form.__mod__, zip(*(texts[codes[rows]].tolist() for codes, texts in parts), strict=True))
            ids[:, j] = np.array([names.setdefault(text, len(names)) for text in made], np.int32)[position]
        return names, np.arange(len(ids) + 1) * ids.shape[1], ids.ravel()

    def _read_by(self, window, column, offset, is_lower) -> tuple[np.ndarray, np.ndarray]:
        """Return the codes of the strings that a macro reads at each token, (N,), and the strings."""
        texts = column.values.tolist()
        distance = -offset - window.from_begin if offset < 0 else offset - window.to_end
        far = np.unique(distance[distance > 0])
        codes = window.shift(column.codes, offset, 0, 0)
        codes = np.where(distance > 0, len(texts) + np.searchsorted(far, distance), codes)
        outside = [text_outside(d if offset > 0 else -d, 1, self.style) for d in far.tolist()]
        return codes, np.array([*(map(str.lower, texts) if is_lower else texts), *outside], dtype=object)

    def _columns(self, table) -> list:
        """Return the columns that the templates read, or raise an error if a column or a string is missing."""
        fields = list(table.columns)[: self.n_columns]
        if len(fields) < self.n_columns:
            raise ValueError(
                f"the tokens have the columns {short(fields)}, but the templates read {self.n_columns} columns"
            )
        return [_text_column(table, field) for field in fields]


def read_template_lines(path: str | PathLike[str]) -> list[str]:
    """Return the templates of a file; if one is invalid, raise a ValueError that names its line."""
    lines = {}
    for lineno, line in enumerate(_template_text(path).split("\n"), start=1):
        template = line.strip(" \t\r")  # only these: other spaces belong to the template
        if template and not template.startswith("#"):
            lines[lineno] = template
    for lineno, template in lines.items():
        try:
            _parsed_line(template)
        except ValueError as error:
            raise ValueError(f"{path}, line {lineno}: {error}") from None
    if not lines:
        raise ValueError(f"{path} has no templates")
    return list(lines.values())


def _template_text(path: str | PathLike[str]) -> str:
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8: {error.reason}, {error.object[error.start]:#x}") from None


def _parsed_line(text: str) -> TemplateLine:
    if not text or text[0] not in "UuBb*":
        raise ValueError(f"a template of CRF++ or Wapiti begins with U, B or *, got {short(text)}")
    orders = {"u": (0,), "b": (1,), "*": (0, 1)}[text[0].lower()]
    texts, macros, last = [], [], 0
    for macro in _MACRO.finditer(text):
        letter, is_absolute, offset, column, rest = macro.groups()
        if letter.lower() != "x" or offset is None or is_absolute or rest:
            why = "tests are not supported" if letter.lower() in "tm" else "this is not a place such as %x[-1,0]"
            raise ValueError(f"{macro.group()} in {short(text)}: {why}")
        texts.append(text[last : macro.start()])
        macros.append((int(offset), int(column), letter == "X"))
        last = macro.end()
    return TemplateLine(orders, [*texts, text[last:]], macros, text)


def _text_column(table: TokenTable, field) -> Any:
    """Return a column of strings, or raise an error if it contains numbers or missing values."""
    column: Any = table.columns[field]
    if not is_text(column):
        raise TypeError(f"templates of CRF++ and Wapiti read texts, but the field {short(field)} holds numbers")
    if (column.codes < 0).any():
        where = position_name(table.offsets, int(np.argmin(column.codes)))
        raise ValueError(f"{where}: the field {short(field)} is missing, which the templates read")
    return column


def are_strings(templates) -> bool:
    """Return whether the templates are strings, as in CRF++ and Wapiti."""
    return isinstance(templates, (list, tuple)) and bool(templates) and all(isinstance(text, str) for text in templates)
