"""Measures how the code is put together: size, functions, flags, types, walks, places to edit.

    python benchmarks/house.py --output=docs/results/structure/now.json
    python benchmarks/house.py --root=../older --output=docs/results/structure/eb9171d.json

The script only reads: syntax trees, and what ruff finds. Lines are those of Python files. A public
function has no leading underscore, at the top of a module or in a class; it is typed if all its
arguments and its result have annotations.

A walk follows one parameter of a function. Every call that passes it on, or an attribute of it, or
a local name for one of these, leads to the function that is called, if its name tells which: an
imported function, a function of the same file, a class (its `__init__` or its fields), a method of
`self`, `cls` or of an imported class, or a method whose name only one class of the project has.
Each pair of function and parameter is one stop, however often it is reached; files are those of the
stops.
"""

import argparse
import ast
import collections
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.parts.scripts import own_command, write_record
from nmt_zoo.command_line import console
from nmt_zoo.common.errors import UserError

LONGEST = 60  # Lines of a function.
MOST_COMPLEX = 10
NOT_PRODUCT = ("tests", "benchmarks")
ADDITIONS = ("model", "option", "way of training", "dataset", "decoding rule")
WALKS = ("nmt_zoo/training/opening.py:open_run:request",)
_DEFINES = re.compile(r"DEFINE_\w+|Option|(\w+_)?flag|define_(?!flags|options|run|text)\w+")
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef


class Function(NamedTuple):
    """A function or method of the product.

    Attributes:
        path: its file, below the root.
        owner: name of its class, or "".
        node: its syntax tree.
    """

    path: str
    owner: str
    node: Any

    @property
    def parameters(self) -> list[str]:
        """Names of the parameters, in order, without `self` and `cls`."""
        found = [a.arg for a in (*self.node.args.posonlyargs, *self.node.args.args)]
        return found[1:] if found[:1] in (["self"], ["cls"]) else found

    @property
    def is_public(self) -> bool:
        """Returns whether neither the function nor its class has a leading underscore."""
        return not (self.node.name.startswith("_") or self.owner.startswith("_"))

    @property
    def is_typed(self) -> bool:
        """Returns whether all arguments and the result have annotations."""
        a = self.node.args
        every = [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))]
        return bool(self.node.returns) and all(
            one.annotation or one.arg in ("self", "cls") for one in every
        )


def python_files(root: Path) -> dict[str, ast.Module]:
    """Returns path below the root -> syntax tree, for the files that git knows."""
    command = ["git", "-C", str(root), "ls-files", "*.py"]
    names = subprocess.check_output(command, text=True).split("\n")
    paths = [name for name in names if name and (root / name).is_file()]
    return {name: ast.parse((root / name).read_text(encoding="utf-8")) for name in paths}


def room_of(path: str) -> str:
    """Returns the first folder of a path; "scripts" for files at the top."""
    return path.split("/")[0] if "/" in path else "scripts"


def lines_by_room(root: Path, paths: list[str]) -> dict[str, int]:
    """Counts lines of Python by room, and those of the product, of tests and of benchmarks."""
    found: collections.Counter = collections.Counter()
    for path in paths:
        count = len((root / path).read_text(encoding="utf-8").splitlines())
        room = room_of(path)
        found[room] += count
        found["all product"] += count * (room not in NOT_PRODUCT)
    return dict(sorted(found.items()))


def functions_of(path: str, tree: ast.Module) -> list[Function]:
    """Returns the functions at the top of a file and in its classes."""
    found = []
    for node in tree.body:
        if isinstance(node, FUNCTIONS):
            found.append(Function(path, "", node))
        elif isinstance(node, ast.ClassDef):
            found += [Function(path, node.name, n) for n in node.body if isinstance(n, FUNCTIONS)]
    return found


def long_functions(trees: dict[str, ast.Module]) -> list[str]:
    """Returns the functions of more than `LONGEST` lines."""
    return [
        f"{path}: {node.name} ({node.end_lineno - node.lineno + 1} lines)"
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, FUNCTIONS) and node.end_lineno - node.lineno + 1 > LONGEST
    ]


def complex_functions(root: Path, rooms: list[str]) -> list[str]:
    """Returns the functions whose cyclomatic complexity ruff finds above `MOST_COMPLEX`."""
    limit = f"lint.mccabe.max-complexity={MOST_COMPLEX}"
    ruff = [str(Path(sys.executable).with_name("ruff")), "check", "--isolated", "--no-cache"]
    ruff += ["--select=C901", f"--config={limit}", "--output-format=concise", *rooms]
    done = subprocess.run(ruff, cwd=root, capture_output=True, text=True)
    found = re.findall(r"^(\S+?):\d+:\d+: C901 `(\w+)`.*?(\d+) >", done.stdout, re.MULTILINE)
    return [f"{path}: {name} ({complexity})" for path, name, complexity in found]


def flags_of_scripts(trees: dict[str, ast.Module]) -> int:
    """Counts the calls that define a flag: of absl, of `flag_values.py`, an `Option`."""
    count = 0
    for path, tree in trees.items():
        for node in ast.walk(tree) if not path.endswith("flag_values.py") else ():
            if isinstance(node, ast.Call):
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                # The flags of two texts with two sides are defined in a loop.
                is_loop = node.args and isinstance(node.args[0], ast.JoinedStr)
                count += bool(_DEFINES.fullmatch(name)) * (4 if is_loop else 1)
    return count


class Project:
    """Finds the function that a call leads to.

    Args:
        trees: path -> syntax tree of the product.
    """

    def __init__(self, trees: dict[str, ast.Module]):
        self.trees = trees
        every = [one for path, tree in trees.items() for one in functions_of(path, tree)]
        self.functions = {(one.path, one.owner, one.node.name): one for one in every}
        self.classes = {
            (path, node.name): node
            for path, tree in trees.items()
            for node in tree.body
            if isinstance(node, ast.ClassDef)
        }
        for (path, name), node in self.classes.items():
            fields = [n.target.id for n in node.body if isinstance(n, ast.AnnAssign)]
            if (path, name, "__init__") not in self.functions and fields:
                made = ast.parse(f"def __init__(self, {', '.join(fields)}): pass").body[0]
                self.functions[path, name, "__init__"] = Function(path, name, made)
        methods = collections.defaultdict(list)
        for one in every:
            if one.owner:
                methods[one.node.name].append(one)
        self.methods = {name: found[0] for name, found in methods.items() if len(found) == 1}
        self.imports = {path: self._imports_of(tree) for path, tree in trees.items()}

    def _imports_of(self, tree: ast.Module) -> dict[str, tuple[str, str]]:
        """Returns local name -> (file, name in it; "" for the file itself)."""
        found = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    module = self._file_of(node.module)
                    whole = self._file_of(f"{node.module}.{alias.name}")
                    if whole or module:
                        local = alias.asname or alias.name
                        found[local] = (whole, "") if whole else (module, alias.name)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    if path := self._file_of(alias.name):
                        found[alias.asname or alias.name] = (path, "")
        return found

    def _file_of(self, module: str) -> str:
        """Returns the file of a module of the project, or ""."""
        path = module.removeprefix("nmt_zoo.").replace(".", "/")
        return next((p for p in (f"{path}.py", f"{path}/__init__.py") if p in self.trees), "")

    def _at(self, path: str, name: str) -> Function | None:
        """Returns a function, or the constructor of a class, by its name in a file."""
        for _ in range(3):  # Through the names that a package exports.
            if (path, "", name) in self.functions:
                return self.functions[path, "", name]
            if (path, name) in self.classes:
                return self.functions.get((path, name, "__init__"))
            path, name = self.imports.get(path, {}).get(name, ("", ""))
        return None

    def target(self, caller: Function, call: ast.Call) -> Function | None:
        """Returns the function that a call leads to; None if its name does not tell."""
        function = call.func
        if isinstance(function, ast.Name):
            return self._at(caller.path, function.id)
        if not isinstance(function, ast.Attribute):
            return None
        if isinstance(function.value, ast.Name):
            owner = function.value.id
            if owner in ("self", "cls"):
                found = self.functions.get((caller.path, caller.owner, function.attr))
                return found or self.methods.get(function.attr)
            path, name = self.imports[caller.path].get(owner, ("", ""))
            if path and not name:
                return self._at(path, function.attr)
            if path and (path, name, function.attr) in self.functions:
                return self.functions[path, name, function.attr]
            if (caller.path, owner, function.attr) in self.functions:
                return self.functions[caller.path, owner, function.attr]
        return self.methods.get(function.attr)

    def walk(self, start: str) -> dict[str, Any]:
        """Follows a parameter.

        Args:
            start: `file:function:parameter`.

        Returns:
            Numbers of stops and files, and the stops in the order in which they are reached.
        """
        path, name, parameter = start.split(":")
        owner, _, name = name.rpartition(".")
        stops, waiting = [], [(self.functions[path, owner, name], parameter)]
        while waiting:
            function, parameter = waiting.pop()
            stop = (function.path, f"{function.owner}.{function.node.name}".strip("."), parameter)
            if stop not in stops:
                stops.append(stop)
                waiting += reversed(self._next(function, parameter))
        shown = [f"{path}: {name}({parameter})" for path, name, parameter in stops]
        return {"stops": len(stops), "files": len({stop[0] for stop in stops}), "walk": shown}

    def _next(self, function: Function, parameter: str) -> list[tuple[Function, str]]:
        """Returns the functions and parameters that get a parameter of a function."""
        names, found = aliases(function.node, parameter), []
        for node in ast.walk(function.node):
            if isinstance(node, ast.Call) and (target := self.target(function, node)):
                given = zip(target.parameters, node.args, strict=False)
                by_name = [(k.arg, k.value) for k in node.keywords if k.arg]
                for name, value in (*given, *by_name):
                    if is_part(value, names):
                        found.append((target, name))
        return found


def is_part(node: ast.AST, names: set[str]) -> bool:
    """Returns whether an expression is one of some names, or an attribute or item of one."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        node = node.value
    return isinstance(node, ast.Name) and node.id in names


def aliases(function: ast.AST, parameter: str) -> set[str]:
    """Returns a parameter and the local names for it or for parts of it."""
    names = {parameter}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            pairs = [(node.targets[0], node.value)]
            if isinstance(node.targets[0], ast.Tuple):
                targets = node.targets[0].elts
                is_tuple = isinstance(node.value, ast.Tuple)
                values = node.value.elts if is_tuple else [node.value] * len(targets)
                pairs = list(zip(targets, values, strict=False))
            names |= {
                target.id
                for target, value in pairs
                if isinstance(target, ast.Name) and is_part(value, names)
            }
    return names


def places_to_edit(root: Path) -> dict[str, int]:
    """Counts, for each kind of addition, the files that docs/extending.md has one write or edit.

    A diff has a file for each of its headers; a file of one's own counts once.
    """
    document = root / "docs" / "extending.md"
    text = document.read_text(encoding="utf-8") if document.exists() else ""
    found = {}
    for section in re.split("^## ", text, flags=re.MULTILINE)[1:]:
        edited = re.findall(r"^\+\+\+ b/(?!tests/)(\S+)", section, re.MULTILINE)
        own = re.findall(r"^```python\n# (\w+\.py)$", section, re.MULTILINE)
        for kind in ADDITIONS:
            if kind in section.partition("\n")[0]:
                found[kind] = len({*edited, *own})
    return found


def measure(root: Path) -> dict[str, Any]:
    """Returns all that the script finds of a project."""
    every = python_files(root)
    if not every:
        raise UserError(f"{root}: no Python files; expected the folder of the project")
    product = {path: tree for path, tree in every.items() if room_of(path) not in NOT_PRODUCT}
    project = Project(product)
    public = [one for p, tree in product.items() for one in functions_of(p, tree) if one.is_public]
    rooms = sorted({path.split("/")[0] for path in product})
    return {
        "lines": lines_by_room(root, list(every)),
        "functions": sum(
            isinstance(n, FUNCTIONS) for tree in product.values() for n in ast.walk(tree)
        ),
        "long_functions": long_functions(product),
        "complex_functions": complex_functions(root, rooms),
        "flags": flags_of_scripts(product),
        "public_functions": len(public),
        "typed_public_functions": sum(one.is_typed for one in public),
        "places_to_edit": places_to_edit(root),
        "walks": {start: project.walk(start) for start in WALKS},
    }


def main(argv):
    """Reads the command line; prints the measures, or writes them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=ROOT, help="folder of the project")
    parser.add_argument("--output", type=Path, help="JSON file to write")
    given = parser.parse_args(argv[1:])
    record = {"command": own_command(), **measure(given.root)}
    if given.output:
        write_record(given.output, record)
    print(json.dumps(record, indent=2))


if __name__ == "__main__":
    sys.exit(console.one_line_errors(main)(sys.argv))
