"""What makes the package hard to change, in numbers: a program that prints them for a checkout.

python tests/house.py [FOLDER] [-v]     # of this checkout, or of another one; -v: with the places
"""

import ast
import importlib
import sys
import warnings
from collections import defaultdict
from pathlib import Path

HANDED = {"n_jobs", "mask", "plan"}  # what a batch is asked with; a Posterior has them
MOST_LINES, MOST_LINES_OF_BODY = 700, 70


def files(root):
    """Return the text and the tree of each file of the package, by name."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted((root / "sklearn_hocrf").rglob("*.py"))}
    return {str(path.relative_to(root)): (text, ast.parse(text)) for path, text in texts.items()}


def functions(found):
    """Yield each function with its place."""
    for name, (_, tree) in found.items():
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield f"{name}:{node.lineno} {node.name}", node


def parameters_handed(found):
    """Return the functions that are given ``n_jobs``, ``mask`` or ``plan``."""
    for place, node in functions(found):
        if HANDED & {argument.arg for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}:
            yield place


def names_defined_twice(found):
    """Yield the functions, classes and variables of the top level of more than one file."""
    places = defaultdict(set)
    for name, (_, tree) in found.items():
        for node in tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", node)]
            for own in (getattr(target, "name", getattr(target, "id", "__")) for target in targets):
                places[own].add(name)
    return (f"{own}: {', '.join(sorted(where))}" for own, where in places.items() if len(where) > 1 and own[:2] != "__")


def private_of_estimators(found):
    """Return the lines with ``self.estimator._...``."""
    for name, (text, _) in found.items():
        for line in text.splitlines():
            yield from [f"{name} {line.strip()}"] * line.count("self.estimator._")


def long_files(found):
    """Return the files above a number of lines."""
    return [name for name, (text, _) in found.items() if text.count("\n") > MOST_LINES]


def long_functions(found):
    """Return the functions whose body, without its docstring, is above a number of lines."""
    for place, node in functions(found):
        body = node.body[ast.get_docstring(node) is not None :]
        if body and body[-1].end_lineno - body[0].lineno + 1 > MOST_LINES_OF_BODY:
            yield place


def journey(root):
    """Return the modules and the calls from one into another in a plain fit, until its solver is called.

    A first fit has compiled all kernels. The modules of the package are those of ``root``.
    """
    sys.path.insert(0, str(root.resolve()))
    model = importlib.import_module("sklearn_hocrf").HighOrderCRF(max_order=2, max_iter=1)
    data = [[["the"], ["old"], ["man"]], [["the"], ["man"]]], [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
    modules, crossings = {}, []

    def module(frame):
        while frame and "sklearn_hocrf/" not in frame.f_code.co_filename:
            frame = frame.f_back  # a library that calls back
        return frame and frame.f_code.co_filename

    def note(frame, event, _):
        here, before = frame.f_code.co_filename, module(frame.f_back)
        if frame.f_code.co_name == "solve":
            sys.setprofile(None)
        elif event == "call" and here == module(frame):
            modules[here] = modules.get(here, 0) + 1
            crossings.extend([f"{before} -> {here}"] * (before not in (None, here)))

    with warnings.catch_warnings(action="ignore"):
        model.fit(*data)
        sys.setprofile(note)
        model.fit(*data)
    return sorted(modules), crossings


COUNTS = {
    "signatures with n_jobs, mask or plan (below 30)": parameters_handed,
    "names defined in more than one file (at most 40)": names_defined_twice,
    "accesses to self.estimator._ (0)": private_of_estimators,
    f"files above {MOST_LINES} lines (1)": long_files,
    f"functions with a body above {MOST_LINES_OF_BODY} lines (0)": long_functions,
}

if __name__ == "__main__":
    folder = next((argument for argument in sys.argv[1:] if argument != "-v"), Path(__file__).resolve().parents[1])
    package = files(Path(folder))
    for title, count in COUNTS.items():
        places = list(count(package))
        print(f"{len(places):4}  {title}", *(places if "-v" in sys.argv else []), sep="\n        ")
    for title, places in zip(("modules (40)", "crossings (170)"), journey(Path(folder)), strict=True):
        print(f"{len(places):4}  {title} of a plain fit before its solver")
