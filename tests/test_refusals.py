"""What is refused, with which exception and words: each row of ``refusals.txt``.

A row is a call, the names of exceptions, and a regular expression of the message. Names are those of the test module
in the line above it, of the package's public modules, of the table's first lines, and ``tmp_path``. What is refused
leaves the object that was asked as it was, and no file behind; ``conftest`` sees to the length of the messages.
"""

import ast
import builtins
import importlib
import pkgutil
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import internals
import pytest
from sklearn import exceptions

import sklearn_hocrf


class Row(NamedTuple):
    """A refusal: the module whose names the call uses, the call, what it raises."""

    module: str
    call: str
    errors: str
    words: str


LINES = Path(__file__).with_name("refusals.txt").read_text(encoding="utf-8").splitlines()
IMPORTS = LINES[: LINES.index("")]


def table():
    module = ""
    for line in LINES[len(IMPORTS) :]:
        if line.startswith("# "):
            module = line[2:]
        elif line:
            call, error = line.split(" !! ")
            yield Row(module, call, *error.split(": ", 1))


@cache
def public_names():
    """Return all public names of the package."""
    modules = [m.name for m in pkgutil.iter_modules(sklearn_hocrf.__path__) if m.name[0] != "_" and m.name != "dask"]
    found = [sklearn_hocrf, *(importlib.import_module(f"sklearn_hocrf.{name}") for name in modules)]
    names = {name: getattr(module, name) for module in found for name in module.__all__} | vars(internals)
    exec("\n".join(IMPORTS), names)
    return names


MODULES = list(dict.fromkeys(row.module for row in table()))


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_refusals(module, tmp_path):
    own, wrong = vars(importlib.import_module(module)), {}
    for number, row in enumerate(row for row in table() if row.module == module):
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            check(row, public_names() | own | {"tmp_path": folder})
        except (Exception, pytest.fail.Exception) as error:
            wrong[row.call] = f"{type(error).__name__}: {error}"
    assert not wrong, "\n".join(f"{call} -> {error}" for call, error in wrong.items())


def check(row, names):
    errors = tuple(getattr(builtins, name, None) or getattr(exceptions, name) for name in row.errors.split("|"))
    function = ast.parse(row.call, mode="eval").body.func
    asked, call = None, row.call
    if isinstance(function, ast.Attribute):
        asked = names["asked"] = eval(ast.unparse(function.value), names)
        call = row.call.replace(ast.unparse(function), f"asked.{function.attr}", 1)
    before = fitted_attributes(asked)
    with pytest.raises(errors, match=row.words):
        eval(call, names)
    assert fitted_attributes(asked) == before
    assert "write(" in row.call or not list(names["tmp_path"].iterdir())


def fitted_attributes(asked):
    """Return the attributes that a fit sets, by name, each by its identity."""
    attributes = {} if isinstance(asked, ModuleType) else getattr(asked, "__dict__", {})
    return {name: id(value) for name, value in attributes.items() if name[-1] == "_" and name[0] != "_"}
