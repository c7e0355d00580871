"""Print numbers on the size of the package and of its interface, for one or more checkouts.

    python tests/budget.py            # of this checkout
    python tests/budget.py FOLDER...  # of other checkouts, in columns next to each other

Code lines exclude blank lines, comments and docstrings; words are those of ``wc -w``. The program imports nothing from
the package, so it can count a checkout without its dependencies, or of another version.
"""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ESTIMATORS = {"HighOrderCRF": "_estimator/token_labeler.py", "HighOrderSemiCRF": "_estimator/segment_labeler.py"}


def code_lines(source):
    """Return the number of lines of Python that are neither blank nor comments nor docstrings."""
    lines = {n for n, line in enumerate(source.split("\n"), 1) if line.strip() and not line.lstrip().startswith("#")}
    docstrings = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Constant, ast.JoinedStr)):  # a text has lines that look like blanks and comments
            lines.update(range(node.lineno, node.end_lineno + 1))
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(getattr(first.value, "value", None), str):
                docstrings.update(range(first.lineno, first.end_lineno + 1))
    return len(lines - docstrings)


def code_lines_of(paths):
    return sum(code_lines(path.read_text(encoding="utf-8")) for path in paths)


def listed(path):
    """Return the names in ``__all__`` of a file, including those that are added under a condition."""
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(getattr(target, "id", None) == "__all__" for target in targets):
            names += ast.literal_eval(node.value)
    return names


def public_names(root):
    """Return the public names of each public module, without dunder names; the key of the top level is ""."""
    package = root / "sklearn_hocrf"
    found, names = {}, [name for name in listed(package / "__init__.py") if name[:2] != "__"]
    for name in names:
        for path in (package / f"{name}.py", package / name / "__init__.py"):
            if path.exists():
                found[name] = listed(path)
    found[""] = [name for name in names if name not in found]
    return found


def n_parameters(root, estimator):
    """Return the number of parameters of an estimator's constructor."""
    tree = ast.parse((root / "sklearn_hocrf" / ESTIMATORS[estimator]).read_text(encoding="utf-8"))
    (made,) = [
        node
        for kind in ast.walk(tree)
        if isinstance(kind, ast.ClassDef) and kind.name == estimator
        for node in kind.body
        if isinstance(node, ast.FunctionDef) and node.name == "__init__"
    ]
    return len(made.args.args) + len(made.args.kwonlyargs) - 1


def n_loose(paths):
    """Return the number of functions of which a parameter or result is typed, at least in part, as Any or object."""
    functions = [
        node
        for path in paths
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    ]
    typed = [[part for part in (node.args, node.returns) if part is not None] for node in functions]
    names = [{getattr(name, "id", None) for part in parts for name in ast.walk(part)} for parts in typed]
    return sum(not found.isdisjoint({"Any", "object"}) for found in names)


def n_reasons(root):
    """Return the number of reasons in the guide why two features cannot be combined."""
    (page,) = (root / "docs").glob("*/matrix.md")
    lines = page.read_text(encoding="utf-8").splitlines()
    return sum(line[:1].isdigit() and ". " in line[:4] for line in lines)


def words(paths):
    """Return the number of words in pages, as ``wc -w`` counts them."""
    return sum(len(path.read_text(encoding="utf-8").split()) for path in paths)


def budget(root):
    """Return the numbers of a checkout, by name."""
    package = sorted((root / "sklearn_hocrf").rglob("*.py"))
    tests = sorted((root / "tests").rglob("*.py"))
    benchmarks = [path for path in tests if "benchmarks" in path.parts]
    names, docs = public_names(root), root / "docs"
    return {
        "public names": len({name for listed in names.values() for name in listed}),
        "modules of public names": len(names),
        **{f"parameters of {name}": n_parameters(root, name) for name in ESTIMATORS},
        "reasons why two features refuse each other": n_reasons(root),
        "code lines of the package": code_lines_of(package),
        "files of the package": len(package),
        "functions of the package with Any or object": n_loose(package),
        "likewise in _estimator": n_loose(path for path in package if "_estimator" in path.parts),
        "code lines of tests and benchmarks": code_lines_of(tests),
        "code lines of benchmarks": code_lines_of(benchmarks),
        "words of docs/guide": words((docs / "guide").glob("*.md")),
        "words of docs/develop": words((docs / "develop").glob("*.md")),
        "words of other pages of docs": words(
            [*docs.glob("*.md"), *docs.glob("examples/*.md"), *docs.glob("api/*.md")]
        ),
        "words of README and CONTRIBUTING": words([root / "README.md", root / "CONTRIBUTING.md"]),
    }


def main():
    """Print the numbers of the checkouts, one column each."""
    columns = [budget(Path(folder)) for folder in sys.argv[1:] or [ROOT]]
    for name in columns[0]:
        print(f"{name:45}", *(f"{column[name]:8,}" for column in columns))


if __name__ == "__main__":
    main()
