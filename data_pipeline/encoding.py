"""Encodes text as ids, once: on all cores, filtered, cached in files that are memory-mapped."""

import collections
import contextlib
import hashlib
import itertools
import json
import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import FilePath, atomic_path, write_text
from nmt_zoo.common.locks import locked_file
from nmt_zoo.common.parallel import map_in_order, num_cores
from nmt_zoo.common.progress import Progress
from nmt_zoo.data_pipeline.encoded import EncodedCorpus, EncodedSide, PairFilter
from nmt_zoo.data_pipeline.lines import AnyLines
from nmt_zoo.data_pipeline.tokenization.tokenizers import SIDES, Tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import Vocabulary

_VERSION = 2
_PAIRS_AT_ONCE = 5_000
_CHECKED_AT_ONCE = 1 << 24
_ARRAYS = tuple(f"{side}_{array}" for side in SIDES for array in ("ids", "lengths"))
_INDEX = "index.json"


class Encoded(NamedTuple):
    """The result of `encode_pairs`."""

    corpus: EncodedCorpus  # the pairs that were kept
    dropped: dict[str, int]  # {reason: number of pairs dropped}
    sizes: list[int]  # number of pairs kept of each of the joined corpora


def encode_lines(vocabulary: Vocabulary, lines: Sequence[str]) -> EncodedSide:
    """Encodes lines as an `EncodedSide`."""
    ids = vocabulary.encode(lines)
    lengths = np.fromiter(map(len, ids), np.int32, len(ids))
    flat = np.fromiter(itertools.chain.from_iterable(ids), np.int32, int(lengths.sum()))
    return EncodedSide(flat, lengths)


def text_hash(source_lines: AnyLines, target_lines: AnyLines) -> str:
    """Hashes parallel text: 32 hexadecimal digits that change with any character of either side."""
    sides = (
        getattr(lines, "digest", None) or hashlib.sha256("\n".join(lines).encode()).digest()
        for lines in (source_lines, target_lines)
    )
    return hashlib.sha256(b"".join(sides)).hexdigest()[:32]


def encode_pairs(
    source_lines: AnyLines,
    target_lines: AnyLines,
    tokenizer: Tokenizer,
    cache_dir: FilePath,
    name: str = "corpus",
    pair_filter: PairFilter | None = None,
) -> Encoded:
    """Encodes both sides, or memory-maps the result of an earlier call.

    The cache is a folder in `cache_dir` whose name is a hash of the text, the tokenizer and the
    filter, so a change of any of these makes another cache. Before use, the CRC-32 of every file is
    checked; a damaged cache is made anew. If several processes call this at once, one of them does
    the work. The progress bar shows `name`. `pair_filter=None` keeps every pair.

    Raises UserError: no pair is left, the cache cannot be written, or the text cannot be read.
    """
    settings = {
        "version": _VERSION,
        "text": text_hash(source_lines, target_lines),
        "parts": getattr(source_lines, "sizes", [len(source_lines)]),
        "tokenizer": tokenizer.fingerprint(),
        "filter": pair_filter and pair_filter._asdict(),
    }
    key = hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:32]
    folder = Path(cache_dir, f"encoded-{key}")
    encoded = _read(folder)
    if encoded is None:
        with locked_file(
            folder / "lock",
            folder,
            advice="remove it, or give another --data_dir",
            waiting=f"waiting for another process that is writing {folder}",
        ):
            encoded = _read(folder)  # Another process may have been faster.
            if encoded is None:
                chunks = encoded_chunks(source_lines, target_lines, tokenizer)
                _write(folder, settings, chunks, name, pair_filter)
                encoded = _read(folder)
    if encoded is None:
        raise UserError(f"{folder}: the files just written cannot be read; check the disk")
    return encoded


def encoded_chunks(
    source_lines: AnyLines, target_lines: AnyLines, tokenizer: Tokenizer, threads: int | None = None
) -> Iterator[EncodedCorpus]:
    """Encodes pairs on all cores, and yields them a few thousand at a time.

    SentencePiece releases Python's global interpreter lock, so threads are enough.
    Raises ValueError: one side has more lines than the other.
    """
    return map_in_order(
        lambda chunk: EncodedCorpus(*map(encode_lines, tokenizer[1:], chunk)),
        _chunks(source_lines, target_lines),
        threads or num_cores(),
    )


def _chunks(*lines):
    sides = list(map(iter, lines))
    while True:
        chunk = [list(itertools.islice(side, _PAIRS_AT_ONCE)) for side in sides]
        if len(chunk[0]) != len(chunk[1]):
            raise ValueError("one side has more lines than the other")
        if not chunk[0]:
            return
        yield chunk


def _write(folder, settings, chunks, name, pair_filter):
    """Writes chunks of an `EncodedCorpus` as a cache; the index comes last and makes it valid."""
    index = folder / _INDEX
    sums, counts = dict.fromkeys(_ARRAYS, 0), dict.fromkeys(_ARRAYS, 0)
    if index.exists():
        print(f"{folder}: the cache is damaged; making it again", file=sys.stderr, flush=True)
    for left in (index, *folder.glob(".unfinished-*")):  # Of a killed process.
        left.unlink(missing_ok=True)
    files, dropped, masks = {}, collections.Counter(), []
    with contextlib.ExitStack() as stack:
        for array in _ARRAYS:
            temporary = stack.enter_context(atomic_path(folder / f"{array}.bin"))
            files[array] = stack.enter_context(open(temporary, "wb"))
        progress = stack.enter_context(
            Progress(f"encoding {name}", 2 * sum(settings["parts"]), "lines")
        )
        for corpus in chunks:
            progress.update(2 * corpus.num_pairs)
            mask = np.ones(corpus.num_pairs, bool)
            if pair_filter:
                mask, reasons = pair_filter(corpus.source.lengths, corpus.target.lengths)
                dropped.update(reasons)
                if not mask.all():
                    rows = np.flatnonzero(mask)
                    corpus = EncodedCorpus(*(side.take(rows) for side in corpus))
            masks.append(mask)
            for array, values in zip(_ARRAYS, itertools.chain(*corpus), strict=True):
                files[array].write(values.tobytes())
                sums[array] = zlib.crc32(values, sums[array])
                counts[array] += values.size
        if pair_filter:
            pair_filter.check_some_left(counts["source_lengths"], dropped)
    bounds = np.cumsum([0, *settings["parts"]])
    mask = np.concatenate([[True], *masks])[1:]
    contents = {
        "settings": settings,
        "dropped": dropped,
        "sizes": [int(mask[a:b].sum()) for a, b in itertools.pairwise(bounds)],
        "arrays": {array: {"size": counts[array], "crc32": sums[array]} for array in _ARRAYS},
    }
    write_text(index, json.dumps({**contents, "crc32": _crc32(contents)}, indent=2) + "\n")


def _read(folder):
    """Reads a cache as `Encoded`; None if the cache is missing or damaged."""
    try:
        index = json.loads((folder / _INDEX).read_bytes())
        if index.pop("crc32") != _crc32(index):
            raise ValueError("damaged")
        arrays = [_mapped(folder / f"{array}.bin", **index["arrays"][array]) for array in _ARRAYS]
        corpus = EncodedCorpus(EncodedSide(*arrays[:2]), EncodedSide(*arrays[2:]))
        return Encoded(corpus, index["dropped"], index["sizes"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _crc32(index):
    return zlib.crc32(json.dumps(index).encode())


def _mapped(path, size, crc32):
    """Memory-maps a file of int32 as an array; `ValueError` if its size or CRC-32 is wrong."""
    if not size:  # An empty file cannot be mapped.
        return np.empty(0, np.int32)
    # Copy on write, because TensorFlow does not share memory that is read-only.
    array = np.memmap(path, np.int32, mode="c")
    checksum = 0
    for start in range(0, array.size, _CHECKED_AT_ONCE):
        checksum = zlib.crc32(array[start : start + _CHECKED_AT_ONCE], checksum)
    if array.size != size or checksum != crc32:
        raise ValueError(f"{path}: damaged")
    return array
