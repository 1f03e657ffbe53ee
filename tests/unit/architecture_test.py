"""The import rule: the packages that each package may import."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = (
    *("common", "configuration", "models", "data_pipeline", "model_directory", "decoding"),
    *("serving", "training", "command_line"),
)
# Package -> (our packages that it may import, foreign packages that it may import at the top).
ALLOWED = {
    "common": ((), {"tqdm"}),
    "models": ((), {"keras", "numpy"}),
    "data_pipeline": (("common",), {"numpy", "sentencepiece", "tensorflow"}),
    "configuration": (("common", "models", "data_pipeline"), set()),
    "model_directory": (
        ("common", "configuration", "models", "data_pipeline"),
        {"numpy", "tensorflow"},
    ),
    "decoding": (
        ("common", "configuration", "models", "data_pipeline", "model_directory"),
        {"numpy", "tensorflow"},
    ),
    "serving": (
        ("common", "configuration", "models", "data_pipeline", "model_directory", "decoding"),
        {"numpy", "tensorflow", "google", "starlette"},
    ),
    "training": (
        tuple({*ROOMS} - {"serving"}),
        {"keras", "numpy", "tensorflow"},
    ),
    "command_line": (ROOMS, {"absl", "tensorflow", "uvicorn"}),
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
            if node.module == "nmt_zoo":
                names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            yield name.removeprefix("nmt_zoo.").split(".")[0], id(node) in at_top


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
    path = ROOT / "command_line" / f"{script}.py"
    assert "training" not in {package for package, _ in imports(path)}


def test_only_the_command_line_touches_flags():
    for room in {*ROOMS} - {"command_line"}:
        for path in (ROOT / room).rglob("*.py"):
            assert "absl" not in {package for package, _ in imports(path)}, path


def test_the_names_of_a_model_directory_are_known_in_one_room():
    for room in {*ROOMS} - {"model_directory"}:
        for path in (ROOT / room).rglob("*.py"):
            assert '"best.npz"' not in path.read_text(encoding="utf-8"), path


def product_files():
    """Yields every Python file of the rooms and the scripts."""
    yield from ROOT.glob("*.py")
    for room in ROOMS:
        yield from (ROOT / room).rglob("*.py")


def test_functions_have_at_most_seven_arguments():
    for path in product_files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name != "__init__":
                arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                names = {argument.arg for argument in arguments} - {"self", "cls"}
                assert len(names) <= 7, f"{path.relative_to(ROOT)}: {node.name}"
