"""Print the shape of the package: rooms, floors, arrows, circles, and the longest pieces of code.

A *room* is a module or a subpackage of ``sklearn_hocrf``; an *arrow* leads from a room to one that it imports. A room
stands one floor above the highest room that it imports. An arrow is *upward* if its end does not stand on a lower floor
than its start, which happens on a circle only. Imports within a room are looked at for circles between its modules.

    python tests/import_graph.py [FOLDER]
"""

import ast
import re
import sys
from graphlib import CycleError, TopologicalSorter
from itertools import groupby
from pathlib import Path

NAME = "sklearn_hocrf"


def imports_of(path, root):
    """Return the dotted names, below the package, of the modules that a file imports at any depth of its code.

    Imports for type checkers alone count, too: a reader follows them.
    """
    package = path.relative_to(root).with_suffix("").parts[:-1]
    imports = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else ()
            parts = (*base, *(node.module or "").split("."))
            if not node.level:
                if parts[0] != NAME:
                    continue
                parts = parts[1:]
            imports |= {(*filter(None, parts), alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            imports |= {tuple(alias.name.split(".")[1:]) for alias in node.names if alias.name.split(".")[0] == NAME}
        elif isinstance(node, ast.Call) and re.fullmatch(rf"import_module\('{NAME}\.[\w.]+'\)", ast.unparse(node)):
            imports |= {tuple(node.args[0].value.split(".")[1:])}
    return imports


def module_of(parts, modules):
    """Return the longest prefix that is a module: the rest is a name in it."""
    while parts and parts not in modules:
        parts = parts[:-1]
    return parts


def read_graph(root):
    """Return the modules that each module imports; modules are tuples of names, those of packages without __init__."""
    paths = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        paths[parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts] = path
    return {
        parts: {module_of(target, paths) or ("__init__",) for target in imports_of(path, root)} - {parts}
        for parts, path in paths.items()
    }


def rooms_of(graph):
    """Return the rooms that each room imports."""
    rooms = {parts[0]: set() for parts in graph}
    for parts, targets in graph.items():
        rooms[parts[0]] |= {target[0] for target in targets} - {parts[0]}
    return rooms


def circle_in(graph):
    """Return the nodes of a circle, or None."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return None


def module_circle(graph):
    """Return the modules of a circle, as text, or None.

    A package's own file, which lists its names, may be imported by what is in it.
    """
    inner = {parts: {t for t in targets if t not in (("__init__",), parts[:1])} for parts, targets in graph.items()}
    circle = circle_in(inner)
    return circle and " -> ".join(".".join(parts) for parts in circle)


def floors_of(rooms):
    """Return the floor of each room, from 0; of rooms without circles."""
    floor = {}
    for room in TopologicalSorter(rooms).static_order():
        floor[room] = 1 + max((floor[target] for target in rooms[room]), default=-1)
    return floor


def functions_of(root):
    """Yield (lines of code without docstring, number of parameters, name) of all functions."""
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                first = node.body[1] if ast.get_docstring(node) and len(node.body) > 1 else node.body[0]
                parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                count = len([one for one in parameters if one.arg not in ("self", "cls")])
                yield node.end_lineno - first.lineno + 1, count, f"{path.relative_to(root)}::{node.name}"


def lines_of(folder):
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in folder.rglob("*.py"))


def report(top):
    root = top / NAME
    graph = read_graph(root)
    rooms = rooms_of(graph)
    print(f"modules {len(graph)}, rooms {len(rooms)}, arrows {sum(map(len, rooms.values()))}")
    circle = circle_in(rooms)
    if circle:
        print("circle of rooms:", " -> ".join(circle))
    else:
        floor = floors_of(rooms)
        upward = [(a, b) for a, targets in rooms.items() for b in targets if floor[b] >= floor[a]]
        print(f"floors {max(floor.values()) + 1}, circles of rooms 0, upward arrows {len(upward)}")
        for height, group in groupby(sorted(rooms, key=floor.get, reverse=True), key=floor.get):
            print(f"  {height:2d}  " + ", ".join(sorted(group)))
    print("circles of modules:", module_circle(graph) or 0)
    functions = list(functions_of(root))
    kernels = [one for one in functions if "_kernels" in one[2]]
    for title, chosen in (("package", functions), ("kernels", kernels)):
        longest, most = max(chosen), max(chosen, key=lambda one: one[1])
        print(f"{title}: longest function {longest[0]} lines ({longest[2]}), most parameters {most[1]} ({most[2]})")
    benchmarks = lines_of(top / "tests" / "benchmarks")
    print(f"lines: package {lines_of(root)}, tests {lines_of(top / 'tests') - benchmarks}, benchmarks {benchmarks}")


if __name__ == "__main__":
    report(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1])
