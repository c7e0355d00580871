"""Changes of single operators and constants of the package, and whether the tests notice them: a program.

    python tests/mutants.py lines FILE                         # which tests run which lines: FILE.python, FILE.kernels
    python tests/mutants.py draw OLD NEW --seed 1 > LIST       # of functions that are the same in two checkouts
    python tests/mutants.py run LIST CHECKOUT FILE > OUTCOMES  # a line for each: killed or survives

Tests that were rewritten are no weaker if they kill all that the old tests killed. Each mutant runs the tests that run
its line and ends at the first that fails; the checkout is mutated in place, and left as it was. Kernels run without
compilation (``NUMBA_DISABLE_JIT=1``), with the tests that are fast enough for it. Examples of hypothesis are the same
in each run.
"""

import argparse
import ast
import copy
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from coverage import CoverageData

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 900  # after which a mutant counts as killed: it may loop forever
OPERATORS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
}  # fmt: skip
KERNEL_TESTS = ["tests/test_kernels.py", "tests/test_segment_kernels.py", "tests/test_objectives.py"]


def functions(root):
    """Yield path, qualified name, node and hash of each function that is in no other function."""
    for path in sorted((root / "sklearn_hocrf").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for name, node in _members(tree, ""):
            digest = hashlib.sha256(ast.dump(node).encode()).hexdigest()[:16]
            yield str(path.relative_to(root)), name, node, digest


def _members(node, prefix):
    for child in node.body:
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield prefix + child.name, child
        elif isinstance(child, ast.ClassDef):
            yield from _members(child, f"{prefix}{child.name}.")


def places(function):
    """Yield what may be changed in a body: nodes with an operator or a constant, in a fixed order."""
    nodes = [node for statement in function.body for node in ast.walk(statement)]
    in_texts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    for node in nodes:
        if isinstance(node, ast.Constant):
            may_change = isinstance(node.value, (bool, int, float))
        else:
            operator = node.ops[0] if isinstance(node, ast.Compare) else getattr(node, "op", None)
            may_change = type(operator) in OPERATORS
        if may_change and id(node) not in in_texts:  # before Python 3.12, parts of f-strings have wrong positions
            yield node


def change(node):
    """Change a node in place."""
    if isinstance(node, ast.Constant):
        node.value = not node.value if isinstance(node.value, bool) else node.value + 1
    elif isinstance(node, ast.Compare):
        node.ops[0] = OPERATORS[type(node.ops[0])]()
    else:
        node.op = OPERATORS[type(node.op)]()


def draw(old, new, seed, numbers):
    """Return mutants of functions that both checkouts have: so many outside of the kernels, and in them."""
    kept = {(name, digest) for _, name, _, digest in functions(new)}
    kinds: dict = {"python": [], "kernels": []}
    for path, name, node, digest in functions(old):
        kind = "kernels" if "/_kernels/" in path and "_jit" not in path else "python"
        kinds[kind] += [(name, digest, i) for i, _ in enumerate(places(node))]
    chosen = []
    for kind, number in zip(kinds, numbers, strict=True):
        random.Random(seed).shuffle(kinds[kind])
        alive = [mutant for mutant in kinds[kind] if mutant[:2] in kept]
        chosen += [{"kind": kind, "name": name, "digest": digest, "place": i} for name, digest, i in alive[:number]]
    return chosen


def mutate(root, mutant):
    """Write a mutant into a checkout; return path, old and new text of the changed code, its lines, the old file."""
    wanted = (mutant["name"], mutant["digest"])
    path, node = next((path, node) for path, *named, node, digest in functions(root) if (*named, digest) == wanted)
    source = (root / path).read_text(encoding="utf-8")
    (place,) = [place for i, place in enumerate(places(node)) if i == mutant["place"]]
    changed = copy.deepcopy(place)
    change(changed)
    lines = source.encode().splitlines(keepends=True)
    start = sum(map(len, lines[: place.lineno - 1])) + place.col_offset
    stop = sum(map(len, lines[: place.end_lineno - 1])) + place.end_col_offset
    new = f"({ast.unparse(changed)})" if not isinstance(place, ast.AugAssign) else ast.unparse(changed)
    text = source.encode()
    (root / path).write_bytes(text[:start] + new.encode() + text[stop:])
    return path, text[start:stop].decode(), new, range(place.lineno, place.end_lineno + 1), source


def tests_of(data, path, lines):
    """Return the tests that run some lines of a file, as pytest names them."""
    (measured,) = [file for file in data.measured_files() if file.endswith(f"/{path}")] or [None]
    contexts = data.contexts_by_lineno(measured) if measured else {}
    names = {name for line in lines for name in contexts.get(line, ()) if name}
    tests = set()
    for name in names:
        parts = name.split(".")
        (at,) = [i for i, part in enumerate(parts) if part.startswith("test_")][:1] or [None]
        if at is not None and at + 1 < len(parts):
            tests.add("::".join([f"tests/{parts[at]}.py", *parts[at + 1 : at + 2]]))
    return sorted(tests)


def environment(kind, root):
    switch = {"NUMBA_DISABLE_JIT": "1"} if kind == "kernels" else {}
    return {**os.environ, "CI": "1", "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1", **switch}


def write_lines(file):
    """Run the tests, and write which of them run which lines."""
    for kind, tests in (("python", ["-m", "not slow", "tests"]), ("kernels", KERNEL_TESTS)):
        settings = f"[run]\nsource_pkgs = sklearn_hocrf\ndynamic_context = test_function\ndata_file = {file}.{kind}\n"
        with tempfile.NamedTemporaryFile("w", suffix=".rc") as stream:
            stream.write(settings + ("omit = */_kernels/*\n" if kind == "python" else "include = */_kernels/*\n"))
            stream.flush()
            call = ["-m", "coverage", "run", f"--rcfile={stream.name}", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
            subprocess.run([sys.executable, *call, *tests], cwd=ROOT, env=environment(kind, ROOT), check=False)


def outcome(mutant, root, data):
    """Return whether a mutant is killed, by what, and what was changed."""
    path, old, new, lines, source = mutate(root, mutant)
    where = f"{path}:{lines[0]} {mutant['name']}: {' '.join(old.split())[:50]} -> {' '.join(new.split())[:50]}"
    try:
        tests = [test for test in tests_of(data, path, lines) if (root / test.partition("::")[0]).exists()]
        if not tests:
            return "survives", where, "no test runs it"
        call = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            "--tb=no",
            "-m",
            "not slow",
            *tests,
        ]
        try:
            done = subprocess.run(
                call, cwd=root, env=environment(mutant["kind"], root), capture_output=True, text=True, timeout=SECONDS
            )
        except subprocess.TimeoutExpired:
            return "killed", where, f"no end in {SECONDS} s"
        failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        if done.returncode not in (0, 1, 2) and not failed:  # a file that fails at its import is killed, too
            return "unclear", where, done.stdout[-300:] + done.stderr[-300:]
        return "killed" if done.returncode else "survives", where, (failed or [f"{len(tests)} tests"])[0][:120]
    finally:
        (root / path).write_text(source, encoding="utf-8")


def main():
    """Write which tests run which lines, draw mutants, or run them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("task", choices=["lines", "draw", "run"])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--numbers", type=int, nargs=2, default=(40, 20), help="outside of the kernels, and in them")
    options = parser.parse_args()
    if options.task == "lines":
        write_lines(*options.files)
    elif options.task == "draw":
        json.dump(draw(*map(Path, options.files), options.seed, options.numbers), sys.stdout, indent=1)
    else:
        listed, checkout, file = options.files
        mutants = json.loads(Path(listed).read_text(encoding="utf-8"))
        data = {kind: CoverageData(f"{file}.{kind}") for kind in ("python", "kernels")}
        for kind in data.values():
            kind.read()
        for i, mutant in enumerate(mutants):
            print(i, mutant["kind"], *outcome(mutant, Path(checkout), data[mutant["kind"]]), sep="\t", flush=True)


if __name__ == "__main__":
    main()
