"""The plan of a training run: where its options come from, its batches, time and memory."""

from collections.abc import Iterator

import numpy as np

from nmt_zoo.data_pipeline.batching import largest_shape
from nmt_zoo.data_pipeline.pipeline import dataset_of, describe
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.training import pace
from nmt_zoo.training.corpus.epochs import Epochs
from nmt_zoo.training.reports import memory
from nmt_zoo.training.setup import Run, RunConfig

_TIMED = 3.0  # Seconds that a plan spends on timing updates.


def report(epochs: Epochs, tokenizer: Tokenizer) -> Iterator[str]:
    """Describes the first epoch of training in batches by gradient, in lines for people."""
    corpus, plan = epochs.corpus_of(0), epochs.first
    yield from describe(corpus, tokenizer, epochs.batching, plan)
    lengths = corpus.source.lengths, corpus.target.lengths
    yield from _shapes(plan, plan.padded_shapes(*lengths))
    largest = largest_shape(plan, *lengths)
    yield "largest batch: {:,} rows of {:,} source and {:,} target tokens".format(*largest)
    yield from _examples(corpus, tokenizer, plan)


def _shapes(plan, shapes):
    sizes, counts = np.unique(shapes, axis=0, return_counts=True)
    if plan.shapes is None:
        yield f"shapes: {len(sizes):,} different ones, each batch padded to its longest sentences"
        return
    yield f"shapes: {len(sizes)}, as rows x source tokens x target tokens: batches"
    for (rows, source, target), count in zip(sizes, counts, strict=True):
        yield f"    {rows:,} x {source} x {target}: {count:,}"


def _examples(corpus, tokenizer, plan):
    """Yields lines that show three pairs of the plan, as text and as pieces."""
    rows = np.unique(plan.rows[np.linspace(0, plan.rows.size - 1, 3).astype(np.int64)])
    for row in rows:
        yield f"pair {row:,}:"
        for side, vocabulary in zip(corpus, (tokenizer.source, tokenizer.target), strict=True):
            start = side.lengths[:row].sum(dtype=np.int64)
            ids = side.ids[start : start + side.lengths[row]].tolist()
            yield f"    {vocabulary.decode(ids)}"
            yield f"      {' '.join(vocabulary.pieces(ids))}"


def tables(config: RunConfig) -> Iterator[str]:
    """Yields the options and the settings of a run, with their sources."""
    for title, values in (("option", config.options), ("setting", config.settings)):
        yield from values.table(title)
        yield ""


def lines_of(run: Run) -> Iterator[str]:
    """Yields a table of the run's options and settings, and what its first epoch is like.

    An update is tried, for the time and memory that it takes.
    """
    yield from tables(run.run_config)
    epochs = run.epochs
    corpus = epochs.corpus_of(0)
    if not run.way.takes_batches:
        yield from run.way.describe(run)
        yield from _examples(corpus, run.tokenizer, epochs.first)
        return
    way = pace.on_trial(run)
    yield from report(epochs, run.tokenizer)
    batches, accumulate_steps = dataset_of(corpus, epochs.first), run.options["accumulate_steps"]
    seconds = pace.time_updates(way, batches, accumulate_steps, _TIMED)
    epoch = seconds * epochs.num_updates(accumulate_steps)
    yield f"time: about {seconds:.3g} s per update on one device, {epoch:,.0f} s per epoch"
    if count := run.options["max_steps"]:
        minutes = count * seconds / 60
        yield f"    --max_steps={count} takes about {minutes:,.0f} minutes; validation comes on top"
    if minutes := run.options["max_minutes"]:
        count = 60 * minutes / epoch
        yield f"    --max_minutes={minutes:g} is time for about {count:.2g} epochs, less validation"
    lengths = [side.lengths for side in corpus]
    yield from memory.report(way, largest_shape(epochs.first, *lengths))
