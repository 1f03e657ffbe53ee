"""The texts of public tutorials, brought into the form in which each of them trains.

    python train.py --dataset=docs/tutorials/texts.py:keras_io ...

All are made of the file of English-Spanish pairs that `--dataset=anki_en_es` downloads. NAME_honest
is NAME, divided so that no English sentence is in two of training, validation and test text.
"""

import re
import string
import unicodedata
import zipfile
from collections.abc import Callable
from pathlib import Path

import nmt_zoo
from nmt_zoo.common.files import read_lines, write_lines
from nmt_zoo.data_pipeline import datasets
from nmt_zoo.data_pipeline.datasets import SPLITS, Included, Split

_PUNCTUATION = re.compile(f"[{re.escape(string.punctuation)}¿]")


def lowered(line: str) -> str:
    """Lower-cases a line, as KerasHub's example does."""
    return line.lower()


def without_marks(line: str) -> str:
    """Lower-cases a line and drops marks, as keras.io's example does."""
    return " ".join(_PUNCTUATION.sub("", line.lower()).split())


def without_accents(line: str) -> str:
    """Keeps a to z and five marks, which become words, as tensorflow.org's tutorial does."""
    line = re.sub("[^ a-z.?!,¿]", "", unicodedata.normalize("NFKD", line).lower())
    return " ".join(re.sub("[.?!,¿]", r" \g<0> ", line).split())


def with_marks_apart(line: str) -> str:
    """Lower-cases a line and makes four marks words, as d2l.ai's chapters do."""
    return " ".join(re.sub(r"(?<=[^ ])([,.!?])", r" \1", line.lower()).split())


def _divided(form: Callable, source: str, target: str, honest: bool = False) -> Callable:
    """Returns a function that writes the pairs of `anki_en_es` in a form."""
    name = f"anki_{source}_{target}" + "_honest" * honest

    def prepare(folder, downloads):
        texts = datasets.DATASETS[name].prepare(folder.with_name(name), downloads)
        return {split: _written(folder, split, map(read_lines, texts[split]), form, source, target)
                for split in SPLITS}  # fmt: skip

    return prepare


def _first(form: Callable, num_train: int, num_valid: int) -> Callable:
    """Returns a function that writes the first, shortest pairs; it tests as it validates."""

    def prepare(folder, downloads):
        with zipfile.ZipFile(*downloads.fetch([datasets._ANKI])) as archive:
            lines = archive.read("spa-eng/spa.txt").decode("utf-8").split("\n")
        pairs = [line.split("\t") for line in lines[: num_train + num_valid]]
        valid = pairs[num_train:]
        return {
            split: _written(folder, split, zip(*part, strict=True), form, "en", "es")
            for split, part in {"train": pairs[:num_train], "valid": valid, "test": valid}.items()
        }

    return prepare


def _written(folder: Path, split, sides, form, *languages):
    paths = [folder / f"{split}.{language}" for language in languages]
    for path, lines in zip(paths, sides, strict=True):
        lines = [form(line) for line in lines]
        if not path.is_file() or read_lines(path) != lines:
            write_lines(path, lines)
    return Split(*paths)


def _register(name, prepare, about):
    _, _, size, licence, citation = datasets.DATASETS["anki_en_es"]
    nmt_zoo.register(Included(prepare, about, size, licence, citation), name=name)


FORMS = {
    "keras_io": (without_marks, "en", "es"),
    "keras_hub": (lowered, "en", "es"),
    "tensorflow_attention": (without_accents, "es", "en"),
    "tensorflow_transformer": (lowered, "es", "en"),
}
for _name, _form in FORMS.items():
    _register(_name, _divided(*_form), f"text of a tutorial: {_form[0].__doc__}")
    _register(f"{_name}_honest", _divided(*_form, honest=True), f"{_name}, no English side twice")
_register("characters", _first(str, 8000, 2000), "the first 10,000 pairs, the last 2,000 to test")
_register("d2l", _first(with_marks_apart, 512, 128), "the first 640 pairs, the last 128 to test")
