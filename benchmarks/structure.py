"""Counts how the code is put together, for the table in docs/results.md.

    python benchmarks/structure.py --output=docs/results/structure/now.json
    python benchmarks/structure.py --root=../older --output=docs/results/structure/62569a9.json

The script reads the Python files outside tests/ and benchmarks/. A branch by kind is a condition,
or a table, that names a class of models or compares a way of training (`KINDS`, `WAYS`); a branch
by a fact asks what a class of models or a way of training states about itself (`FACTS`). Branches
inside models/ and inside the ways of training do not count: they belong there. Places to edit are
the files that a diff of docs/extending.md changes, without files of tests.
"""

import argparse
import ast
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.parts.scripts import own_command, write_record
from nmt_zoo.command_line import console
from nmt_zoo.common.errors import UserError

# Names that occur only in questions about the kind of a model or of its training.
KINDS = {
    *("LANGUAGE_MODELS", "AlignmentModel", "NgramLanguageModel", "WordAttention", "CoverageModel"),
    *("Transformer", "SimpleTransformer", "RecurrentTranslationModel", "is_table", "twin"),
    *("LikelihoodUpdate", "REPLICATED", "of_counts"),
}
FACTS = {
    *("is_language_model", "targets_suffice", "reads_source", "corpus_sizes", "takes_batches"),
    *("has_plan", "predicts", "tracks_coverage", "has_alignment"),
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


def names_in(node):
    """Yields the names that a condition mentions, and "a way of training" if it compares one."""
    for part in ast.walk(node):
        yield getattr(part, "id", None) or getattr(part, "attr", None)
        if isinstance(part, ast.Compare):
            sides = [part.left, *part.comparators]
            if any(isinstance(side, ast.Constant) and side.value in WAYS for side in sides):
                yield "a way of training"


def conditions(tree):
    """Yields (line, condition) of each `if`, each comparison that gets a name, and each table."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.If, ast.IfExp, ast.While)):
            yield node.lineno, node.test
        elif isinstance(node, ast.comprehension) and node.ifs:
            yield node.target.lineno, ast.Tuple(node.ifs)
        elif isinstance(node, ast.Assign) and isinstance(node.value, (ast.Compare, ast.BoolOp)):
            yield node.lineno, node.value
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            yield node.lineno, ast.Tuple([key for key in node.value.keys if key])


def branches(files, names):
    """Returns the places, outside of `WITHIN`, of the conditions that mention one of some names."""
    return [
        f"{path}:{line}"
        for path, tree in files
        if not WITHIN.match(path.as_posix())
        for line, condition in sorted(conditions(tree), key=lambda found: found[0])
        if names & set(names_in(condition))
    ]


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


def main(argv):
    """Reads the command line; prints the counts, or writes them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=ROOT, help="folder of the project")
    parser.add_argument("--output", type=Path, help="JSON file to write")
    given = parser.parse_args(argv[1:])
    files = list(product_files(given.root))
    if not files:
        raise UserError(f"{given.root}: no Python files; expected the folder of the project")
    record = {
        "command": own_command(),
        "largest_folder": largest_folder(files),
        "widest_function": widest_function(files),
        "places_to_edit": places_to_edit(given.root),
        "branches_by_kind": branches(files, KINDS | {"a way of training"}),
        "branches_by_fact": branches(files, FACTS),
    }
    if given.output:
        write_record(given.output, record)
    print(json.dumps(record, indent=2))


if __name__ == "__main__":
    sys.exit(console.one_line_errors(main)(sys.argv))
