"""Holds out a part of a training text for validation and test."""

import contextlib
import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import FilePath, growing_file
from nmt_zoo.common.progress import Progress
from nmt_zoo.data_pipeline.downloads.corpora import Split
from nmt_zoo.data_pipeline.lines import open_split, open_target
from nmt_zoo.data_pipeline.text_form import core, is_blank

_LONGEST = 1000  # Characters of a line that may be held out.
_MOST_VALID = 1000
_PARTS = {"train": 0, "valid": 1, "test": 2}  # Name -> number of a part.
_DROPPED = 3  # The pairs that are in no part.


class HeldOut(NamedTuple):
    """A text of which parts are held out."""

    splits: dict[str, Split]  # {"train": `Split`, ...} with "valid" and "test" as asked for
    sizes: dict[str, int]  # the number of pairs in each of them
    num_dropped: int  # pairs that are in none, because their sentence is held out


def hold_out(
    train: Split,
    folder: FilePath,
    *,
    valid_size: int | None = None,
    test_size: int = 0,
    by_target: bool = False,
) -> HeldOut:
    """Divides a training text; the same text is divided in the same way every time.

    The sentences of the parts are drawn at random, but depend on the text of the sentence alone. If
    a source sentence is held out, its first pair goes to that part, and all its other pairs are
    dropped; case, punctuation and spaces make no other sentence. Sentences that are blank or have
    over 1,000 characters are not held out.

    Args:
        train: the text; its source may be an empty name.
        folder: where the parts are written, in a folder of their own. They are not written again.
        valid_size: pairs for validation; None: one for twenty different sentences, at most 1,000.
            If that is none, there is no "valid".
        by_target: whether it is target sentences that are in one part only, as a language model
            needs, which reads nothing else; always so without a source.

    Raises UserError: a file cannot be read or written, there are too few different sentences,
    nothing is left of one of several corpora, or the name of their folder has a comma.
    """
    sides = open_split(train) if train.source else [open_target(train)]
    if len(sides[0].sizes) > 1 and "," in str(folder):
        raise UserError(
            f"{folder}: the name has a comma, which separates the files of several corpora; give "
            "another --data_dir, or --valid_source and --valid_target"
        )
    part_of, valid_size = _divided(sides, -1 if by_target else 0, valid_size, test_size)
    _check_corpora(sides[0], part_of)
    held_out = {"valid": valid_size, "test": test_size}
    names = ["train", *(name for name, size in held_out.items() if size)]
    digest = hashlib.sha256(b"".join(side.digest for side in sides))
    digest.update(repr((held_out, sides[0].sizes, "core")).encode())
    if by_target and len(sides) > 1:
        digest.update(b"by target")
    folder = Path(folder, digest.hexdigest()[:16])
    endings = ["source", "target"][-len(sides) :]
    count = len(sides[0].sizes)  # Of the corpora: only their training files are numbered.
    numbers = {"train": [f".{i}" for i in range(count)]} if count > 1 else {}
    paths = {
        name: [[folder / f"{name}{n}.{end}" for n in numbers.get(name, [""])] for end in endings]
        for name in names
    }
    if not all(path.exists() for side in paths.values() for files in side for path in files):
        _write(sides, part_of, paths)
    splits = {
        # A single path stays a path, because its folder may have a comma in its name.
        name: Split(
            *[""] * (2 - len(files)),
            *(side[0] if len(side) == 1 else ",".join(map(str, side)) for side in files),
        )
        for name, files in paths.items()
    }
    sizes = {name: int(np.sum(part_of == _PARTS[name])) for name in names}
    return HeldOut(splits, sizes, int(np.sum(part_of == _DROPPED)))


def _divided(sides, side, valid_size, test_size):
    """Returns (`[pairs]` int8, the part of each pair; the number of pairs for validation).

    No sentence of the side with index `side` is in two parts.
    """
    keys = np.zeros(len(sides[0]), np.uint64)
    may = np.zeros(keys.size, bool)
    with Progress("dividing the text", keys.size, "lines") as progress:
        for i, pair in enumerate(zip(*sides, strict=True)):
            words = core(pair[side]).encode()
            keys[i] = int.from_bytes(hashlib.blake2b(words, digest_size=8).digest(), "big")
            may[i] = all(len(line) <= _LONGEST and not is_blank(line) for line in pair)
            progress.update(1)
    # In the order of their hashes, which is a random one.
    chosen, first = np.unique(keys[may], return_index=True)
    first = np.flatnonzero(may)[first]
    if valid_size is None:  # Of the different sentences, because all pairs of a sentence leave.
        valid_size = min(chosen.size // 20, _MOST_VALID)
    together = valid_size + test_size
    if together >= max(chosen.size, 1):
        remedy = "give --valid_source and --valid_target, or smaller --valid_size and --test_size"
        raise UserError(
            f"{sides[side].paths[0]}: {chosen.size:,} different sentences of at most {_LONGEST:,} "
            f"characters; too few to hold out {together:,}; "
            + (remedy if valid_size else "give a smaller --test_size")
        )
    is_gone = np.isin(keys, chosen[:together])
    part_of = np.where(is_gone, _DROPPED, _PARTS["train"]).astype(np.int8)
    part_of[first[:valid_size]] = _PARTS["valid"]
    part_of[first[valid_size:together]] = _PARTS["test"]
    return part_of, valid_size


def _check_corpora(side, part_of):
    """Raises `UserError` if one of the corpora has no pair to train on."""
    corpora = np.split(part_of, np.cumsum(side.sizes)[:-1])
    for path, parts in zip(side.paths, corpora, strict=True):
        if not (parts == _PARTS["train"]).any():
            raise UserError(
                f"{path}: all of its {parts.size:,} lines are held out or repeat a sentence that "
                "is; leave this corpus out, or hold out fewer pairs"
            )


def _write(sides, part_of, paths):
    """Writes each line of a text into the file of its part; all files appear at the end."""
    ends = np.cumsum(sides[0].sizes)
    with contextlib.ExitStack() as stack, Progress("writing", part_of.size, "lines") as progress:
        append = {
            (name, side, number): stack.enter_context(growing_file(path))
            for name, files in paths.items()
            for side, numbered in enumerate(files)
            for number, path in enumerate(numbered)
        }
        names = {_PARTS[name]: name for name in paths}
        for i, pair in enumerate(zip(*sides, strict=True)):
            name = names.get(part_of[i])
            if name:
                number = int(np.searchsorted(ends, i, side="right")) if name == "train" else 0
                for side, line in enumerate(pair):
                    append[name, side, number]([line])
            progress.update(1)
