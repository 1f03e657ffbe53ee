"""A report on the batches of a training run, printed before any training."""

import time
from collections.abc import Iterator

import numpy as np

from nmt_zoo.data_pipeline.batching import Batching, EpochPlan, largest_shape
from nmt_zoo.data_pipeline.encoded import EncodedCorpus
from nmt_zoo.data_pipeline.pipeline import dataset_of, describe
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer

_BYTES_PER_PARAMETER = 16  # Weight, gradient and the two moments of Adam, float32.


def report(
    corpus: EncodedCorpus,
    tokenizer: Tokenizer,
    batching: Batching,
    plan: EpochPlan,
    *,
    num_parameters: int,
    seconds: float = 3.0,
) -> Iterator[str]:
    """Describes the first epoch of training in batches by gradient, in lines for people.

    Args:
        corpus: `EncodedCorpus`.
        tokenizer: `Tokenizer` of the corpus.
        batching: `Batching`.
        plan: `EpochPlan` made with `batching`.
        num_parameters: number of parameters of the model.
        seconds: how long to time the pipeline.

    Yields:
        str.
    """
    yield from describe(corpus, tokenizer, batching, plan)
    lengths = corpus.source.lengths, corpus.target.lengths
    yield from _shapes(plan, plan.padded_shapes(*lengths))
    largest = largest_shape(plan, *lengths)
    yield "largest batch: {:,} rows of {:,} source and {:,} target tokens".format(*largest)
    yield from _memory(corpus, plan, num_parameters)
    yield from _rate(corpus, plan, seconds)
    yield from examples(corpus, tokenizer, plan)


def _shapes(plan, shapes):
    found, counts = np.unique(shapes, axis=0, return_counts=True)
    if plan.shapes is None:
        yield f"shapes: {len(found):,} different ones, each batch padded to its longest sentences"
        return
    yield f"shapes: {len(found)}, as rows x source tokens x target tokens: batches"
    for (rows, source, target), count in zip(found, counts, strict=True):
        yield f"    {rows:,} x {source} x {target}: {count:,}"


def _memory(corpus, plan, num_parameters):
    ids = sum(array.nbytes for side in corpus for array in side)
    planning = plan.rows.nbytes * 8  # Lengths, their order, and copies while they are sorted.
    yield f"memory of the host: {_size(ids)} mapped from files, {_size(planning)} to plan an epoch"
    yield (
        f"memory of the device: {_size(num_parameters * _BYTES_PER_PARAMETER)} for weights, "
        "gradients and Adam; the activations of the layers come on top"
    )


def _size(count):
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def _rate(corpus, plan, seconds):
    start = time.monotonic()
    took, count = 0.0, 0
    for batch in dataset_of(corpus, plan):
        count += 1
        batch["target_ids"].shape  # noqa: B018 - a batch is there once its shape is
        took = time.monotonic() - start
        if took > seconds:
            break
    rows = plan.rows[: plan.batch_sizes[:count].sum()]
    tokens = corpus.target.lengths[rows].sum(dtype=np.int64)
    yield (
        f"the pipeline alone: {tokens / took:,.0f} target tokens/s "
        f"({count:,} batches in {took:.1f} s)"
    )


def examples(
    corpus: EncodedCorpus, tokenizer: Tokenizer, plan: EpochPlan, count: int = 3
) -> Iterator[str]:
    """Yields lines that show some pairs of the plan, as text and as pieces."""
    rows = np.unique(plan.rows[np.linspace(0, plan.rows.size - 1, count).astype(np.int64)])
    for row in rows:
        yield f"pair {row:,}:"
        for side, vocabulary in zip(corpus, (tokenizer.source, tokenizer.target), strict=True):
            start = side.lengths[:row].sum(dtype=np.int64)
            ids = side.ids[start : start + side.lengths[row]].tolist()
            yield f"    {vocabulary.decode(ids)}"
            yield f"      {' '.join(vocabulary.pieces(ids))}"
