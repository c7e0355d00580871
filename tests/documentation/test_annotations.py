"""Everything public has annotated parameters and results; mypy tests whether they are correct."""

import importlib
import inspect

import pytest

MODULES = [
    "",
    ".metrics",
    ".datasets",
    ".feature_extraction",
    ".inspection",
    ".model_selection",
    "._estimator.pipeline",
    ".tagger",
    ".text",
    ".training",
]
# the methods that both estimators inherit
ELSEWHERE = ("sklearn_hocrf._estimator.answers", "sklearn_hocrf._estimator.base")


def functions(owner):
    """Yield the name and the function of what is public in a module, and in its classes."""
    own = [name for name, value in vars(owner).items() if getattr(value, "__module__", "") == owner.__name__]
    for name in getattr(owner, "__all__", [name for name in own if not name.startswith("_")]):
        value = getattr(owner, name)
        if inspect.isfunction(value):
            yield name, value
        elif inspect.isclass(value):
            for attribute in ["__init__", *(text for text in dir(value) if not text.startswith("_"))]:
                function = inspect.getattr_static(value, attribute)
                function = getattr(function, "fn", getattr(function, "fget", getattr(function, "__func__", function)))
                if inspect.isfunction(function):
                    yield f"{name}.{attribute}", inspect.unwrap(function)


def lacking(function):
    """Return the parameters without a type, and "return"."""
    signature = inspect.signature(function)
    names = [name for name, one in signature.parameters.items() if one.annotation is one.empty]
    names += ["return"] if signature.return_annotation is signature.empty else []
    return [name for name in names if name not in ("self", "cls")]


@pytest.mark.parametrize("module", MODULES)
def test_public_functions_are_annotated(module):
    package = importlib.import_module(f"sklearn_hocrf{module}")
    found = {
        name: lacking(function)
        for name, function in functions(package)
        if function.__module__.startswith("sklearn_hocrf") and not function.__module__.startswith(ELSEWHERE)
    }
    assert {name: names for name, names in found.items() if names} == {}
