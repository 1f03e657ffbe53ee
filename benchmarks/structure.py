"""Counts how the code is put together, for the table in docs/results.md.

    python benchmarks/structure.py --output=docs/results/structure.json
    python benchmarks/structure.py --root=../older

Counted are Python files outside tests/ and benchmarks/. A branch by kind of model or of training is
an `if`, a conditional expression or a lookup whose condition names a class of models, a way of
training, or a fact by which either is asked for (`NAMES`). Branches inside models/ and inside the
ways of training do not count: there they belong. Places to edit are the files that a diff of
docs/extending.md changes, without those of tests.
"""

import argparse
import ast
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Names that only a question about a kind of model or of training has.
NAMES = {
    *("LANGUAGE_MODELS", "AlignmentModel", "NgramLanguageModel", "WordAttention", "CoverageModel"),
    *("Transformer", "SimpleTransformer", "RecurrentTranslationModel", "is_table", "twin"),
    *("is_language_model", "targets_suffice", "LikelihoodUpdate", "REPLICATED", "reads_source"),
    *("corpus_sizes", "takes_batches", "has_plan", "predicts", "tracks_coverage", "of_counts"),
}
WAYS = {"em", "gradient", "counting"}
# Files and folders of the ways of training, today and before they had folders.
WITHIN = re.compile(
    r"^(models|training/(updates|expectation_maximisation|ngrams))/"
    r"|^training/(updates|em|em_training|agreement|agreement_training|word_pairs|positions|hmm"
    r"|packed_positions|dirichlet|losses|ngram|ngram_training)\.py$"
)


def product_files(root):
    """Yields (path below the root, its syntax tree) of each Python file of the product."""
    for path in sorted(root.rglob("*.py")):
        below = path.relative_to(root)
        if below.parts[0] not in ("tests", "benchmarks", ".venv"):
            yield below, ast.parse(path.read_text(encoding="utf-8"))


def asks_for_a_kind(node):
    """Whether a condition names a kind of model or of training."""
    for part in ast.walk(node):
        name = getattr(part, "id", None) or getattr(part, "attr", None)
        if name in NAMES or (isinstance(part, ast.Compare) and _compares_ways(part)):
            return True
    return False


def _compares_ways(comparison):
    sides = [comparison.left, *comparison.comparators]
    return any(isinstance(side, ast.Constant) and side.value in WAYS for side in sides)


def branches(tree):
    """Yields the line of each branch by kind of model or of training."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.If, ast.IfExp, ast.While)):
            condition = node.test
        elif isinstance(node, ast.comprehension) and node.ifs:
            condition = ast.Tuple(node.ifs)
        elif isinstance(node, ast.Assign) and isinstance(node.value, (ast.Compare, ast.BoolOp)):
            condition = node.value
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            condition = ast.Tuple([key for key in node.value.keys if key])
        else:
            continue
        if asks_for_a_kind(condition):
            yield getattr(node, "lineno", None) or node.target.lineno


def widest_function(files):
    """Returns (number of arguments, place) of the function with most; constructors do not count."""
    found = []
    for path, tree in files:
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name != "__init__":
                arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                count = sum(argument.arg not in ("self", "cls") for argument in arguments)
                found.append((count, f"{path}: {node.name}"))
    return max(found)


def largest_folder(files):
    """Returns (number of files, folder) of the folder with most; `__init__.py` does not count."""
    folders = [str(path.parent) for path, _ in files if path.name != "__init__.py"]
    return max((folders.count(folder), folder) for folder in set(folders) - {"."})


def places_to_edit(root):
    """Returns the number of files that each diff of docs/extending.md changes, by its heading."""
    document = root / "docs" / "extending.md"
    text = document.read_text(encoding="utf-8") if document.exists() else ""
    sections = re.findall("^## (.*?)\n(.*?)^```diff\n(.*?)^```$", text, re.M | re.S)
    return {
        heading: len(
            [path for path in re.findall(r"^\+\+\+ b/(\S+)", diff, re.M) if path[:6] != "tests/"]
        )
        for heading, _, diff in sections
    }


def main():
    """Reads the command line; prints the counts, or writes them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=ROOT, help="folder of the project")
    parser.add_argument("--output", type=Path, help="JSON file to write")
    given = parser.parse_args()
    files = list(product_files(given.root))
    asked = [
        f"{path}:{line}"
        for path, tree in files
        if not WITHIN.match(path.as_posix())
        for line in sorted(branches(tree))
    ]
    record = {
        "command": f"python {' '.join(sys.argv)}",
        "largest_folder": largest_folder(files),
        "widest_function": widest_function(files),
        "places_to_edit": places_to_edit(given.root),
        "branches": asked,
    }
    text = json.dumps(record, indent=2) + "\n"
    if given.output:
        given.output.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
