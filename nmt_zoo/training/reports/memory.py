"""Measures the memory that updates take, and estimates the batch size at which it runs out."""

import contextlib
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf

from nmt_zoo.common.memory import available_bytes, in_words, status
from nmt_zoo.training.ways.base import WayOfTraining

_SHARES = (0.25, 0.5, 1.0)


def report(
    way: WayOfTraining, largest: tuple[int, int, int], *, available: float | None = None
) -> Iterator[str]:
    """Measures updates up to the size of the largest batch; changes the model's weights.

    The memory of an update is taken to be linear in its number of rows. On a CPU, where the system
    would kill the process, an update is not tried if it would need more than is there.

    `largest` is (rows, source tokens, target tokens) of the batch that needs the most memory;
    `available` are bytes that the process may use; None: as many as the system has free, which is
    known of a CPU alone.
    """
    rows, *tokens = (int(size) for size in largest)
    gpu = next(iter(tf.config.list_logical_devices("GPU")), None)
    if available is None:
        available = np.inf if gpu else available_bytes()
    peaks, too_many = {}, None  # `peaks`: rows -> bytes.
    for count in sorted({max(1, int(rows * share)) for share in _SHARES}):
        began = time.monotonic()
        limit = rows_that_fit(peaks, available)
        peak = None if limit < count else _peak(way, count, tokens, gpu)
        if peak is None:
            too_many = count
            break
        peaks[count] = peak
        seconds = time.monotonic() - began
        yield f"an update of {count:,} x {max(tokens)} tokens: {in_words(peak)}, {seconds:.1f} s"
    limit = rows_that_fit(peaks, available)
    if np.isfinite(limit):
        too_many = max(max(peaks) + 1, int(limit))
    ends = ""
    if too_many:
        ends = f", and runs out at about --max_tokens_per_batch={too_many * max(tokens):,}"
    enough = max(peaks, default=0)
    fits = "" if enough >= rows else ": THE LARGEST BATCH DOES NOT FIT"
    yield f"memory is enough for batches of {enough * max(tokens):,} tokens{ends}{fits}"


def rows_that_fit(peaks: dict[int, float], available: float) -> float:
    """Returns the most rows whose update fits, by the two largest `peaks`, rows -> bytes.

    Infinite as long as that is unknown.
    """
    if len(peaks) < 2 or not np.isfinite(available):
        return np.inf
    (fewer, less), (more, most) = sorted(peaks.items())[-2:]
    if most <= less:
        return np.inf if most <= available else fewer
    return more + (available - most) * (more - fewer) // (most - less)


def _peak(way, rows, tokens, gpu):
    """Returns the peak memory of an update in bytes, or None if memory does not suffice."""
    batch = {}
    sizes = way.model.source_vocab_size, way.model.target_vocab_size
    for name, length, size in zip(("source_ids", "target_ids"), tokens, sizes, strict=True):
        # The most frequent words follow the special ids at the beginning of a vocabulary.
        ids = np.arange(rows * length).reshape(rows, length) % (size - 4) + 4
        batch[name] = tf.constant(ids, tf.int32)
    if gpu:
        tf.config.experimental.reset_memory_stats(gpu.name)
    else:
        # The file may be missing or read-only. The peak then covers the whole life of the process.
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
    try:
        float(way.step(batch)["loss"][0])  # Waits for the update.
    except tf.errors.ResourceExhaustedError:
        return None
    if gpu:
        return tf.config.experimental.get_memory_info(gpu.name)["peak"]
    return status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
