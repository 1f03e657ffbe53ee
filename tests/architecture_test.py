"""The import rule: the packages that each package may import."""

import ast
import importlib.util
import pkgutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("models", "data_pipeline", "model_directory", "decoding", "training", "command_line")
# Package -> (our packages that it may import, foreign packages that it may import at the top).
ALLOWED = {
    "models": ((), {"keras", "numpy"}),
    "data_pipeline": ((), {"numpy", "sentencepiece", "tensorflow", "tqdm"}),
    "model_directory": (("models", "data_pipeline"), {"numpy", "tensorflow"}),
    "decoding": (
        ("models", "data_pipeline", "model_directory"),
        {"numpy", "tensorflow", "google", "starlette"},
    ),
    "training": (
        ("models", "data_pipeline", "model_directory", "decoding", "command_line"),
        {"keras", "numpy", "tensorflow"},
    ),
    "command_line": (
        ("models", "data_pipeline", "model_directory", "decoding"),
        {"absl", "tensorflow"},
    ),
}
LAZY = {"sklearn", "ctranslate2", "matplotlib", "sacrebleu", "tensorflow_text"}
LAZY |= {"grpc", "tensorflow_serving"}
# Modules of benchmarks -> the optional package without which they cannot be imported.
NEEDS = {"benchmarks.parts.torch_networks": "torch"}


def imports(path):
    """Returns (top-level package, whether it is imported at the top) of every import."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    at_top = {id(node) for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))}
    for function in ast.walk(tree):
        if isinstance(function, (ast.FunctionDef, ast.Lambda)):
            at_top -= {id(node) for node in ast.walk(function)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [node.module]
        else:
            continue
        for name in names:
            yield name.split(".")[0], id(node) in at_top


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_knows_only_those_below_it(room):
    ours, foreign = ALLOWED[room]
    files = list((ROOT / room).rglob("*.py"))
    assert files
    for path in files:
        for package, at_top in imports(path):
            if package in sys.stdlib_module_names or package == room or package in ours:
                continue
            allowed = package in foreign or (package in LAZY and not at_top)
            assert allowed, f"{path.relative_to(ROOT)} imports {package}"


@pytest.mark.parametrize("script", ["translate", "visualize_attention", "export", "serve"])
def test_a_script_that_only_uses_a_model_imports_nothing_of_training(script):
    assert "training" not in {package for package, _ in imports(ROOT / f"{script}.py")}


def test_only_scripts_and_their_command_line_touch_flags():
    for room in ROOMS:
        for path in {*(ROOT / room).rglob("*.py")} - {ROOT / "command_line" / "flag_values.py"}:
            assert "flags" not in [
                alias.name
                for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
                if isinstance(node, ast.ImportFrom) and node.module == "absl"
                for alias in node.names
            ], path


def test_the_names_of_a_model_directory_are_known_in_one_room():
    for room in {*ROOMS} - {"model_directory"}:
        for path in (ROOT / room).rglob("*.py"):
            assert '"best.npz"' not in path.read_text(encoding="utf-8"), path


def product_files():
    """Yields every Python file of the rooms and the scripts."""
    yield from ROOT.glob("*.py")
    for room in ROOMS:
        yield from (ROOT / room).rglob("*.py")


def test_folders_are_small_and_file_names_are_unique():
    files = [path for path in product_files() if path.name != "__init__.py"]
    names, folders = [path.name for path in files], [path.parent for path in files]
    assert not {name for name in names if names.count(name) > 1}
    assert max(map(folders.count, folders)) <= 16


def test_functions_have_at_most_seven_arguments():
    for path in product_files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name != "__init__":
                arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                names = {argument.arg for argument in arguments} - {"self", "cls"}
                assert len(names) <= 7, f"{path.relative_to(ROOT)}: {node.name}"


def names_of_ours(path):
    """Yields the dotted name of everything of our packages that a file imports or looks up."""
    known, tree = {}, ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] in (*ROOMS, "benchmarks"):
            known |= {x.asname or x.name: f"{node.module}.{x.name}" for x in node.names}
        elif isinstance(node, ast.Import):
            known |= {x.name: x.name for x in node.names if x.name in ROOMS}
    yield from known.values()
    for node in ast.walk(tree):
        looked_up = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        if looked_up and node.value.id in known:
            yield f"{known[node.value.id]}.{node.attr}"


def test_every_name_exists_where_it_is_looked_up():
    # No test runs most benchmarks, and an import inside a function fails only when it is called.
    missing = {}
    unknown = tuple(module for module in NEEDS if not importlib.util.find_spec(NEEDS[module]))
    for path in (*product_files(), *(ROOT / "benchmarks").rglob("*.py")):
        for name in names_of_ours(path):
            if name.startswith(unknown):
                continue
            try:
                pkgutil.resolve_name(name)
            except (ImportError, AttributeError) as error:
                missing[str(path.relative_to(ROOT)), name] = error
    assert not missing
