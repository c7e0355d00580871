"""The templates and token functions of a SequenceFeatureExtractor, derived from its parameters and tokens."""

from __future__ import annotations

from typing import NamedTuple

from .._data.checks import short
from .._data.tagger import named_function
from ._columns import ArrayColumn, is_text
from ._templates import check_templates
from ._token_functions import affix_names, as_function, named_functions

DEFAULT_AFFIXES = 5  # chosen from 0, 3, 4, 5, 6 and 10 by measurement: docs/develop/design.md


class FeaturePlan(NamedTuple):
    """The templates and token functions of a fitted SequenceFeatureExtractor."""

    templates: list
    functions: dict  # {name: (field, function or its name)}
    widths: dict  # array length of each array field


def plan_of(templates, token_features, affixes, columns, *, is_fixed) -> FeaturePlan:
    """Return the plan for parameters and training columns; with ``is_fixed``, the plan does not depend on strings."""
    first_text = next((field for field, column in columns.items() if is_text(column)), None)
    is_auto = isinstance(token_features, str) and token_features == "auto"
    chosen = _default_templates(columns) if templates is None else check_templates(templates)
    if is_auto and templates is None and first_text is not None:
        names = _automatic(columns, first_text, affixes, is_fixed)
        chosen += _main_templates("shape") if "shape" in names else []
        functions = named_functions(names, first_text)
    else:
        names = [name for name in affix_names(affixes or 0) if name not in columns]
        if names and first_text is None:
            raise ValueError(f"affixes={affixes}, but no field of the tokens holds text")
        user_features = () if is_auto or token_features is None else token_features
        functions = named_functions(names, first_text) | named_functions(user_features, first_text)
    widths = {field: column.values.shape[1] for field, column in columns.items() if isinstance(column, ArrayColumn)}
    known = f"the tokens have the fields {short(list(columns))} and the token features {short(list(functions))}"
    _check_functions(functions, columns, widths, known)
    for template in chosen:
        _check_template_fields(template, {*columns, *functions}, widths, known)
    used = {field for template in chosen for field, _ in template}
    return FeaturePlan(chosen + [((name, 0),) for name in functions if name not in used], functions, widths)


def _automatic(columns, field, affixes, is_fixed) -> list:
    """Return the names of the functions that "auto" selects for a text field."""
    names = ["lower", *affix_names(DEFAULT_AFFIXES if affixes is None else affixes), "shape"]
    names = [name for name in names if name not in columns]
    if is_fixed:
        return names
    texts = columns[field].values.tolist()
    return [name for name in names if _changes_any(as_function(name), texts)]


def _changes_any(function, texts) -> bool:
    return any(function(text) != text for text in texts)


def _check_functions(functions, columns, widths, known):
    for name, (field, _) in functions.items():
        what = f"token_features: {name!r}"
        if field not in columns:
            raise ValueError(f"{what} is for the field {field!r}; {known}")
        if field in widths:
            raise ValueError(f"{what} is for the field {field!r}, which holds arrays")
        if name in columns:
            raise ValueError(f"{what} is the name of a field of the tokens; choose another name")


def _check_template_fields(template, names, widths, known):
    for field, _ in template:
        if field not in names:
            is_function = isinstance(field, str) and named_function(field) is not None
            hint = f"; put it into token_features=[{field!r}]" if is_function else ""
            raise ValueError(f"the template {template!r} names the field {field!r}; {known}{hint}")
        if len(template) > 1 and field in widths:
            raise ValueError(f"the template {template!r} joins a field of arrays with others; use it separately")


def _default_templates(columns) -> list:
    """Return the templates for ``templates=None``: for text fields, the templates of CRFsuite's chunking example."""
    templates = []
    texts = [field for field, column in columns.items() if is_text(column)]
    for field in columns:
        if field not in texts:
            templates.append(((field, 0),))
        elif field == texts[0]:
            templates += _main_templates(field)
        else:
            templates += _ngrams(field, 1) + _ngrams(field, 2) + _ngrams(field, 3)
    return templates


def _main_templates(field) -> list:
    return [*_ngrams(field, 1), ((field, -1), (field, 0)), ((field, 0), (field, 1))]


def _ngrams(field, n) -> list:
    """Return the templates of n neighbouring tokens within offsets -2 to 2."""
    return [tuple((field, offset + i) for i in range(n)) for offset in range(-2, 4 - n)]
