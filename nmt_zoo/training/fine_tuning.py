"""Training that starts from the weights of another model directory."""

from typing import Any, NamedTuple

import keras
import numpy as np

from nmt_zoo import models
from nmt_zoo.common.errors import UserError
from nmt_zoo.configuration import recipes
from nmt_zoo.configuration.options import VOCABULARY
from nmt_zoo.data_pipeline.noise import NONE
from nmt_zoo.data_pipeline.tokenization.tokenizers import SIDES, Tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import SPECIALS
from nmt_zoo.model_directory.directory import ModelDirectory


def inherit(
    path: str, model: keras.Model, user_options: dict[str, Any], user_settings: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the options and settings that a new run inherits from the model it starts from.

    `path` is that model's directory, `model` a preset name; `user_options` and `user_settings` are
    those that the user gave. The options returned are those of the vocabulary, and the noise.

    Raises:
        UserError: there is no model directory, or its model, vocabulary or settings differ from
            the given ones.
    """
    config = ModelDirectory(path).config()
    if config["model"] != model:
        raise UserError(
            f"--init_from={path} holds {config['model']}, not {model}; give --model="
            f"{config['model']}, or another directory"
        )
    if models.model_class(model).corpus_sizes:
        raise UserError(
            f"--init_from={path}: {model} has a table of the words of its own corpus, so a model "
            "of other text cannot start from it, but from one of --model=transformer_tiny"
        )
    options = {name: config["options"][name] for name in VOCABULARY}
    fixed = options
    if user_options.get("new_vocabulary"):
        options = {**options, "vocab_file": ""}
        fixed = {"tokenizer": config["options"]["tokenizer"]}  # Pieces of another kind differ.
    settings = models.preset_settings(model, **config["settings"])
    # Dropout has no weights, and another rate may suit the new text.
    settings = {name: value for name, value in settings.items() if "dropout" not in name}
    of_vocabulary, of_model = changes(fixed, user_options), changes(settings, user_settings)
    if of_vocabulary or of_model:
        remedy = "leave these flags out"
        if not (of_model or user_options.get("new_vocabulary")):
            remedy += ", or add --new_vocabulary to make another vocabulary of the same kind"
        raise UserError(
            f"--init_from={path}: vocabulary and settings come from that model, but "
            f"{', '.join(of_vocabulary + of_model)}; {remedy}"
        )
    options["noise"] = config["options"].get("noise", NONE)
    if is_imported(path):  # Far more text has trained it than will tune it.
        options |= recipes.OF_IMPORTED
    return options, config["settings"]


def is_imported(path: str) -> bool:
    """Returns whether a model is one of `import_model.py`, or was tuned from one."""
    return "imported" in ModelDirectory(path).config()


def changes(was: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Lists the values of `now` that `was` has too, but differently, in words."""
    return [
        f"{name} was {was[name]!r}, is {value!r}"
        for name, value in now.items()
        if name in was and was[name] != value
    ]


def start(model: keras.Model, tokenizer: Tokenizer, path: str) -> None:
    """Copies the best weights of another model directory into a fresh model; prints their step.

    If the vocabulary is another, an entry that both have keeps its weights, and a new one gets the
    mean of the entries of which it consists; the numbers of both are printed.
    """
    directory = ModelDirectory(path)
    trained, old_tokenizer, config = directory.load()
    step = directory.summary()["best"].get("step", 0)
    print(f"starting from the best weights of {path}, of step {step:,}", flush=True)
    if tokenizer.fingerprint() == old_tokenizer.fingerprint():
        for weight, value in zip(model.weights, trained.weights, strict=True):
            weight.assign(value)
        return
    mappings = {}
    for side in SIDES:
        of_side = mapping(*(getattr(t, side) for t in (tokenizer, old_tokenizer)))
        mappings[side] = of_side
        name = "both sides" if tokenizer.shared else side
        if side == SIDES[0] or not tokenizer.shared:
            print(f"vocabulary of {name}: {of_side}", flush=True)
    weights = zip(model.weights, trained.weights, vocabulary_axes(config), strict=True)
    for weight, value, axes in weights:
        array, fresh = value.numpy(), weight.numpy()
        for axis, side in axes.items():
            array = mappings[side].apply(array, axis)
        for axis, side in axes.items():
            places = (slice(None),) * axis + (mappings[side].unknown,)
            array[places] = fresh[places]
        weight.assign(array)


class Mapping(NamedTuple):
    """How the entries of a new vocabulary come from those of an old one."""

    parts: list  # by entry: old ids, its own or those of its parts; empty if there are none
    num_old: int  # entries of the old vocabulary
    num_kept: int  # entries that both have

    @property
    def unknown(self) -> list[int]:
        """Ids of the entries without known parts."""
        return [i for i, ids in enumerate(self.parts) if not ids]

    def apply(self, array: np.ndarray, axis: int) -> np.ndarray:
        """Returns an array with the means of the parts along an axis; 0 where there are none."""
        rows = np.moveaxis(array, axis, 0)
        means = np.zeros((len(self.parts), *rows.shape[1:]), array.dtype)
        for i, ids in enumerate(self.parts):
            if ids:
                means[i] = rows[ids].mean(axis=0)
        return np.moveaxis(means, 0, axis)

    def __str__(self):
        new, unknown = len(self.parts) - self.num_kept, len(self.unknown)
        return (
            f"{self.num_kept:,} of {self.num_old:,} entries kept, {new:,} new ones, of which "
            f"{new - unknown:,} start from their parts and {unknown:,} at random"
        )


def mapping(new: Any, old: Any) -> Mapping:
    """Returns the `Mapping` of a vocabulary to an older one of the same kind.

    The parts of an entry are the longest old entries that it begins with, read from left to right.
    """
    index = {piece: i for i, piece in enumerate(old.pieces(range(len(old))))}
    longest = max(map(len, index))
    parts, num_kept = [], 0
    for i, piece in enumerate(new.pieces(range(len(new)))):
        if i < len(SPECIALS):
            parts.append([i])
            num_kept += 1
            continue
        ids, start = [], 0
        while start < len(piece):
            ends = range(min(len(piece), start + longest), start, -1)
            end = next((end for end in ends if piece[start:end] in index), None)
            if end:
                ids.append(index[piece[start:end]])
            start = end or start + 1
        num_kept += piece in index
        parts.append(ids)
    return Mapping(parts, len(old), num_kept)


def vocabulary_axes(config: dict[str, Any]) -> list[dict[int, str]]:
    """Finds the axes of a model's weights that count the entries of a vocabulary.

    Returns for each weight a dict: axis -> "source" or "target". In a matrix that both sides share
    it is "target".
    """

    def shapes(source, target):
        sketch = models.sketch(config["model"], source, target, **config["settings"])
        return [tuple(weight.shape) for weight in sketch.weights]

    try:
        before, after = shapes(1000, 1000), shapes(1001, 1002)
    except models.SettingError:  # One matrix for both sides.
        before, after = shapes(1000, 1000), shapes(1002, 1002)
    sides = {1: "source", 2: "target"}
    return [
        {axis: sides[b - a] for axis, (a, b) in enumerate(zip(*both, strict=True)) if a != b}
        for both in zip(before, after, strict=True)
    ]
