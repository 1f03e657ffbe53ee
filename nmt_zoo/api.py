"""What Python programs and notebooks call; the scripts of the top level do the same with flags."""

import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt_zoo.common import process
from nmt_zoo.common.errors import UserError, texts_of
from nmt_zoo.common.files import write_lines
from nmt_zoo.registry import register

if TYPE_CHECKING:  # At run time, TensorFlow is imported by the functions that need it.
    from nmt_zoo.trained_model import TrainedModel

__all__ = ["UserError", "align", "import_model", "load", "register", "train"]

_TEXTS = ("train_source", "train_target", "valid_source", "valid_target")


def train(
    model: str = "",
    *,
    model_dir: str | os.PathLike = "",
    settings: dict[str, Any] | None = None,
    data_dir: str | os.PathLike = "data",
    **options: Any,
) -> "TrainedModel":
    """Trains a model, or resumes its training, as train.py does.

    Args:
        model: name of a model, or `my_model.py:Name` for a model of your own; "" as in train.py.
        model_dir: folder of the run; "": runs/demo, for the demo corpus alone.
        settings: name -> value, settings of the model that differ from its own.
        data_dir: folder of downloads, prepared corpora and caches.
        **options: any flag of train.py, such as `max_minutes=10`. The texts `train_source`,
            `train_target`, `valid_source` and `valid_target` are files or lists of lines; without
            them and without `dataset`, the demo corpus is the text.

    Raises UserError: texts, options, settings and folder do not fit together.
    Raises KeyboardInterrupt: Ctrl-C stopped the training; the same call resumes it.

    Example:
        nmt_zoo.train("ibm1", model_dir="runs/x", train_source=["a dog"], train_target=["ein Hund"])
    """
    process.start_tensorflow()  # Before anything else imports it.
    from nmt_zoo.command_line.calls import call

    for name in {*_TEXTS} & {*options}:
        if not isinstance(options[name], str | os.PathLike | None):
            options[name] = _file_of(options[name], name, Path(data_dir) / "lines")
    call("train", model=model, model_dir=model_dir, set=settings, data_dir=data_dir, **options)
    return load(model_dir or "runs/demo")


def import_model(model: str, model_dir: str | os.PathLike, **options: Any) -> "TrainedModel":
    """Makes a model directory of a public model, as import_model.py does, and opens it.

    `model` is OWNER/NAME on Hugging Face's hub, or a folder with its files; `options` are further
    flags of import_model.py, such as `target_language="de"`.
    Raises UserError: the model cannot be downloaded or read, or the directory is not free.
    """
    process.start_tensorflow()
    from nmt_zoo.command_line.calls import call

    call("import_model", model=model, model_dir=model_dir, **options)
    return load(model_dir)


def load(
    model_dir: str | os.PathLike,
    *,
    source_language: str = "",
    target_language: str = "",
    precision: str = "float32",
) -> "TrainedModel":
    """Opens the directory of a trained model, which `train`, train.py or import_model.py wrote.

    Several with the same vocabularies, separated by commas, are an ensemble. The languages, for a
    model of several, and `precision` are as of translate.py.
    Raises UserError: there is no trained model, it is damaged, or cannot have this precision.
    """
    process.start_tensorflow()
    from nmt_zoo.trained_model import TrainedModel

    return TrainedModel(model_dir, (source_language, target_language), precision)


def align(
    source_lines: Sequence[str],
    target_lines: Sequence[str],
    *,
    model: str = "fertility",
    iterations: int | None = None,
    threshold: float | None = None,
) -> list[list[tuple[int, int]]]:
    """Links the words of a text with those of its translation, by a model trained on this text.

    Both directions are trained to agree, as in align.py. Needs no TensorFlow. Returns for every
    pair the sorted list of (source position, target position), counted from 0.

    Args:
        source_lines: sentences; words are separated by white space.
        model: "ibm1", "ibm2", "hmm" or "fertility".
        iterations: of each stage of the training; None: as align.py.
        threshold: weight that a link must exceed, in [0, 1]; None: as align.py.

    Raises UserError: the numbers of lines differ, there are none, or there is no such model.
    """
    from nmt_zoo.data_pipeline.text_form import split_words
    from nmt_zoo.decoding.alignment.links import AGREED
    from nmt_zoo.training.ways.expectation_maximisation import text_alignment

    lines = texts_of(source_lines=source_lines, target_lines=target_lines)
    if not lines[0] or (iterations is not None and iterations < 1):
        raise UserError("expected at least one line of each side, and at least one iteration")
    if model not in text_alignment.ITERATIONS:
        raise UserError(f"model={model!r}: expected one of {', '.join(text_alignment.ITERATIONS)}")
    sides = [text_alignment.number_words(map(split_words, side)) for side in lines]
    if threshold is None:
        threshold = text_alignment.LIKELY if model == "fertility" else AGREED
    how = {"threshold": threshold, "shows": len(lines[0]) >= 1000}  # A short text takes no time.
    (links,) = text_alignment.align_text(sides, model, iterations, **how)
    return [[(int(source), int(target)) for source, target in pair] for pair in links]


def _file_of(lines: Any, name: str, folder: Path) -> Path:
    """Writes lines into a file that is named by what it holds, so that a run can be resumed."""
    (lines,) = texts_of(**{name: lines})
    if not lines or any("\n" in line for line in lines):
        raise UserError(f"{name}: expected at least one line, and no line feed in a line")
    checksum, side = zlib.crc32("\n".join(lines).encode()), name.split("_")[1]
    path = folder / f"{checksum:08x}.{side}"
    write_lines(path, lines)
    return path
