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
_MOST = 64  # Largest batch tried on an accelerator, as a multiple of the largest planned batch.


def report(
    way: WayOfTraining, largest: tuple[int, int, int], *, available: float | None = None
) -> Iterator[str]:
    """Measures updates up to the size of the largest batch; changes the model's weights.

    On an accelerator, batches double until memory does not suffice. On a CPU, the system would kill
    the process at that point. There the limit is calculated, assuming that the memory of an update
    is linear in its number of rows.

    `largest` is (rows, source tokens, target tokens) of the batch that needs the most memory;
    `available` are bytes that the process may use on a CPU; None: as many as the system has free.
    """
    rows, *tokens = (int(size) for size in largest)
    device = next(iter(tf.config.list_logical_devices("GPU")), None)
    if device is None and available is None:
        available = available_bytes()
    measured, too_many = {}, None  # `measured`: rows -> bytes.
    for count in _row_counts(rows, on_accelerator=device is not None):
        began = time.monotonic()
        if device is None and _predicted(measured, count) > available:
            break
        peak = _peak(way, count, tokens, device)
        if peak is None:
            too_many = count
            yield f"an update of {count:,} x {max(tokens)} tokens: not enough memory"
            break
        measured[count] = peak
        seconds = time.monotonic() - began
        yield f"an update of {count:,} x {max(tokens)} tokens: {in_words(peak)}, {seconds:.1f} s"
    if device is None:
        too_many = _calculated(measured, available)
    yield _conclusion(max(measured, default=0), too_many, max(tokens), rows)


def _row_counts(rows, on_accelerator):
    counts = {max(1, int(rows * share)) for share in _SHARES}
    if on_accelerator:
        counts |= {rows * 2**power for power in range(1, _MOST.bit_length())}
    return sorted(counts)


def _predicted(measured, count):
    """Predicts the bytes of an update of `count` rows from the two largest measured; or 0."""
    if len(measured) < 2:
        return 0
    (fewer, less), (more, most) = sorted(measured.items())[-2:]
    return most + (count - more) * max(most - less, 0) / (more - fewer)


def _peak(way, rows, tokens, device):
    """Returns the peak memory of an update in bytes, or None if memory does not suffice."""
    batch = {}
    for name, length, size in zip(
        ("source_ids", "target_ids"),
        tokens,
        (way.model.source_vocab_size, way.model.target_vocab_size),
        strict=True,
    ):
        # The most frequent words follow the special ids at the beginning of a vocabulary.
        batch[name] = tf.constant(np.arange(rows * length).reshape(rows, length) % (size - 4) + 4)
    batch = {name: tf.cast(ids, tf.int32) for name, ids in batch.items()}
    _reset_peak(device)
    try:
        values = way.step(batch)
    except tf.errors.ResourceExhaustedError:
        return None
    float(values["loss"][0])  # Waits for the update.
    return _read_peak(device)


def _reset_peak(device):
    if device is not None:
        tf.config.experimental.reset_memory_stats(device.name)
        return
    # The file may be missing or read-only. The peak then covers the whole life of the process.
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _read_peak(device):
    if device is not None:
        return tf.config.experimental.get_memory_info(device.name)["peak"]
    return status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _calculated(measured, available):
    """Calculates the smallest number of rows that is too large, or None if that is unknown."""
    known = sorted(measured.items())[-2:]
    if len(known) < 2 or known[0][1] >= known[1][1] or not np.isfinite(available):
        return None
    (fewer, less), (more, peak) = known
    return max(more + 1, int(more + (available - peak) * (more - fewer) / (peak - less)))


def _conclusion(enough, too_many, length, rows):
    """Formats the advice on --max_tokens_per_batch."""
    if not enough:
        return (
            f"memory runs out even with batches of {too_many * length:,} tokens, the smallest tried"
        )
    found = f"memory is enough for batches of {enough * length:,} tokens"
    if too_many:
        found += f", and runs out at about --max_tokens_per_batch={too_many * length:,}"
    return found if enough >= rows else f"{found}: THE LARGEST BATCH DOES NOT FIT"
