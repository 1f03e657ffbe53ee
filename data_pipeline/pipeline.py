"""Sentence pairs to padded id batches: tokenised once, cached, filtered, batched by tokens."""

import hashlib
import sys
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from data_pipeline.batching import padding_share, plan_epoch
from data_pipeline.files import UserError, atomic_path
from data_pipeline.progress import Progress
from data_pipeline.tokenizers import PAD_ID, SIDES, UNK_ID

_CACHE_VERSION = 1
_LINES_AT_ONCE = 10_000


class EncodedSide(NamedTuple):
    """Sentences as one run of ids.

    Attributes:
        ids: `[num_tokens]` int32, sentence after sentence, each ended by EOS.
        lengths: `[num_pairs]` int32.
    """

    ids: np.ndarray
    lengths: np.ndarray

    def take(self, rows):
        """The sentences of the given numbers, in that order."""
        starts = np.cumsum(self.lengths, dtype=np.int64) - self.lengths
        lengths = self.lengths[rows]
        ends = np.cumsum(lengths, dtype=np.int64)
        shift = np.repeat(starts[rows] - (ends - lengths), lengths)
        return EncodedSide(self.ids[np.arange(shift.size) + shift], lengths)


class EncodedCorpus(NamedTuple):
    """Both sides of a parallel corpus as ids."""

    source: EncodedSide
    target: EncodedSide

    @property
    def num_pairs(self):
        return self.source.lengths.size


def encode_lines(vocabulary, lines, progress=None):
    """Lines to an `EncodedSide`; `progress` is a `Progress` in lines."""
    parts = []
    for start in range(0, max(len(lines), 1), _LINES_AT_ONCE):
        ids = vocabulary.encode(lines[start : start + _LINES_AT_ONCE])
        lengths = np.fromiter((len(row) for row in ids), np.int32, len(ids))
        flat = np.fromiter((i for row in ids for i in row), np.int32, int(lengths.sum()))
        parts.append((flat, lengths))
        if progress:
            progress.update(len(ids))
    return EncodedSide(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def text_hash(source_lines, target_lines):
    """A hash, 32 hexadecimal digits, that changes with any character of either side."""
    sides = (hashlib.sha256("\n".join(lines).encode()) for lines in (source_lines, target_lines))
    return hashlib.sha256(b"".join(side.digest() for side in sides)).hexdigest()[:32]


def encode_corpus(source_lines, target_lines, tokenizer, cache_dir, name="corpus"):
    """Tokenises both sides, or reads the result of an earlier call.

    The cache is one file whose name is a hash of the text and of the tokenizer, so that a change of
    either is never overlooked. A damaged cache is made anew.

    Args:
        source_lines: list of str.
        target_lines: list of str, as many.
        tokenizer: `Tokenizer`.
        cache_dir: folder of caches.
        name: what the progress bar calls it.

    Returns:
        `EncodedCorpus`.
    """
    key = f"{_CACHE_VERSION} {tokenizer.fingerprint()} {text_hash(source_lines, target_lines)}"
    path = Path(cache_dir, f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.npz")
    try:
        with open(path, "rb") as file, np.load(file) as saved:
            sides = [EncodedSide(saved[f"{s}_ids"], saved[f"{s}_lengths"]) for s in SIDES]
            return EncodedCorpus(*sides)
    except FileNotFoundError:
        pass
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        print(f"{path}: damaged cache, made anew", file=sys.stderr, flush=True)

    sides = []
    with Progress(f"encoding {name}", 2 * len(source_lines), "lines") as progress:
        for vocabulary, lines in zip(
            (tokenizer.source, tokenizer.target), (source_lines, target_lines), strict=True
        ):
            sides.append(encode_lines(vocabulary, lines, progress))
    with atomic_path(path) as temporary:
        np.savez(
            temporary,
            source_ids=sides[0].ids,
            source_lengths=sides[0].lengths,
            target_ids=sides[1].ids,
            target_lengths=sides[1].lengths,
        )
    return EncodedCorpus(*sides)


def filter_pairs(corpus, *, max_length, max_length_ratio):
    """Drops pairs that training is better off without, and counts them by reason.

    Args:
        corpus: `EncodedCorpus`.
        max_length: longest sentence on either side, in tokens with `</s>`.
        max_length_ratio: largest ratio of the longer to the shorter side, in tokens.

    Returns:
        (`EncodedCorpus`, {reason: number of pairs dropped}).

    Raises:
        UserError: nothing is left.
    """
    source, target = corpus.source.lengths, corpus.target.lengths
    empty = (source <= 1) | (target <= 1)
    too_long = ~empty & (np.maximum(source, target) > max_length)
    ratio = np.maximum(source, target) / np.maximum(np.minimum(source, target), 1)
    uneven = ~empty & ~too_long & (ratio > max_length_ratio)
    dropped = {
        "a side is empty": int(empty.sum()),
        f"longer than {max_length} tokens": int(too_long.sum()),
        f"length ratio above {max_length_ratio:g}": int(uneven.sum()),
    }
    rows = np.flatnonzero(~(empty | too_long | uneven))
    if not rows.size:
        reasons = ", ".join(f"{count} {reason}" for reason, count in dropped.items() if count)
        raise UserError(
            f"no training pair is left of {corpus.num_pairs}: {reasons}; look at the files, or "
            "raise --max_length or --max_length_ratio"
        )
    if rows.size == corpus.num_pairs:
        return corpus, dropped
    return EncodedCorpus(corpus.source.take(rows), corpus.target.take(rows)), dropped


def batches(corpus, max_tokens, *, max_sentences=0, seed=None, epoch=0, first_batch=0):
    """The batches of one epoch as a `tf.data.Dataset`, prefetched.

    Args:
        corpus: `EncodedCorpus`.
        max_tokens: budget of a batch: rows x longest padded side.
        max_sentences: most rows of a batch; 0 for no such limit.
        seed: as `plan_epoch`; None for evaluation, in order of length.
        epoch: counted from 0.
        first_batch: batches to leave out at the start, when a run is resumed.

    Returns:
        `Dataset` of `{"source_ids": [B, S], "target_ids": [B, T]}` int32, padded with `PAD_ID`,
        without shift: each row ends in EOS.
    """
    plan = plan_epoch(
        corpus.source.lengths,
        corpus.target.lengths,
        max_tokens,
        max_sentences=max_sentences,
        seed=seed,
        epoch=epoch,
    )
    rows, sizes = plan.batches(first_batch)
    with tf.device("CPU"):  # The corpus does not belong into an accelerator's memory.
        source, target = (
            tf.RaggedTensor.from_row_lengths(side.ids, side.lengths, validate=False)
            for side in corpus
        )

    def gather(rows):
        return {
            "source_ids": tf.gather(source, rows).to_tensor(PAD_ID),
            "target_ids": tf.gather(target, rows).to_tensor(PAD_ID),
        }

    dataset = tf.data.Dataset.from_tensor_slices(tf.RaggedTensor.from_row_lengths(rows, sizes))
    # Threads of its own and no tuning: on two cores, the shared ones let training wait for its next
    # batch for half a minute, with both cores idle, every few hundred steps.
    options = tf.data.Options()
    options.autotune.enabled = False
    options.threading.private_threadpool_size = 2
    return dataset.map(gather).prefetch(8).with_options(options)


def describe(corpus, tokenizer, max_tokens, seed, *, max_sentences=0):
    """Lines that say what an epoch of training holds."""
    source, target = corpus
    plan = plan_epoch(
        source.lengths, target.lengths, max_tokens, max_sentences=max_sentences, seed=seed
    )
    padding = padding_share(plan, source.lengths, target.lengths)
    unknown = sum((side.ids == UNK_ID).sum() for side in corpus) / (
        source.ids.size + target.ids.size
    )
    vocabulary = (
        f"{len(tokenizer.source):,} pieces shared"
        if tokenizer.shared
        else f"{len(tokenizer.source):,} source and {len(tokenizer.target):,} target entries"
    )
    sentences = f" and {max_sentences:,} pairs" if max_sentences else ""
    return [
        f"training pairs: {corpus.num_pairs:,}",
        f"tokens: {source.ids.size:,} source, {target.ids.size:,} target, with </s>",
        f"vocabulary ({tokenizer.kind}): {vocabulary}; unknown tokens {unknown:.2%}",
        f"batches an epoch: {plan.batch_sizes.size:,} of at most {max_tokens:,} tokens a "
        f"side{sentences}; padding {padding:.1%}",
    ]
