"""Aligns a text by models that are trained on that text, with NumPy only, without TensorFlow."""

import contextlib
import math
import time
from array import array
from collections.abc import Iterable, Sequence

import numpy as np

from nmt_zoo.common.progress import Progress
from nmt_zoo.data_pipeline.encoded import EncodedCorpus, EncodedSide
from nmt_zoo.training.ways.expectation_maximisation.agreement import links_of_both
from nmt_zoo.training.ways.expectation_maximisation.chain import CHAINS
from nmt_zoo.training.ways.expectation_maximisation.chunked_steps import (
    ChunkedTraining,
    CollapsedText,
    ExpectationMaximisationText,
)
from nmt_zoo.training.ways.expectation_maximisation.chunks import ChunkedText, TemporaryArrays
from nmt_zoo.training.ways.expectation_maximisation.corpus_links import Links, best_links

Sides = tuple[EncodedSide, EncodedSide]

# Iterations of each stage. With fertilities, rows of links sharpen quickly, right or wrong.
ITERATIONS = {**dict.fromkeys(CHAINS, 5), "fertility": 2}
# Dirichlet prior of every source word's translations: rare words translate sparsely.
_PRIOR = 0.1
_SMOOTHING = 0.02  # Share of every row that all target words get, as in `models.ibm`.
_COLLAPSED_PRIOR = 0.001  # Smaller, as a link is no evidence for itself.
LIKELY = 0.5  # Default of the mean posterior of a link in both directions.
NULL = 0  # The number of the word NULL at the end of every sentence.


def number_words(lines: Iterable[list[str]]) -> EncodedSide:
    """Encodes the words of each line as numbers, with NULL at the end of every line."""
    ids, lengths, numbers = array("i"), array("i"), {}
    for words in lines:
        ids.extend([numbers.setdefault(word, len(numbers) + NULL + 1) for word in words])
        ids.append(NULL)
        lengths.append(len(words) + 1)
    return EncodedSide(np.frombuffer(ids, np.int32), np.frombuffer(lengths, np.int32))


def align_independently(sides: Sides, model: str, iterations: int) -> Links:
    """Trains one direction; returns the best source word of each target word, unless NULL.

    `sides` (source, target) come from `number_words`; `model` is a key of `CHAINS`, and
    every model of that chain gets `iterations`, at least 1.
    """
    with _opened(sides, model, iterations, both=False) as text:
        training = train(text, model, iterations)

        def find(number, parts):
            return best_links(parts[0].cells, training.posteriors(number, parts)[0])

        return Links.joined(text.each(find))


def align_agreeing(sides: Sides, model: str, iterations: int, threshold: float) -> Links:
    """Trains both directions so that they agree, and aligns the text with both.

    Arguments are as in `align_independently`, without fertilities. A link is returned if the
    geometric mean of its two posteriors is above `threshold`.
    """
    with _opened(sides, model, iterations) as text:
        training = train(text, model, iterations)

        def find(number, parts):
            posteriors = [p.astype(np.float32) for p in training.posteriors(number, parts)]
            cells = [part.cells for part in parts]
            return links_of_both(cells, posteriors, lambda p, q: p * q > threshold**2)

        return Links.joined(text.each(find))


def align_with_fertilities(
    sides: Sides, iterations: int, *, threshold: float | None = None
) -> list[Links]:
    """Trains HMMs with fertilities of both directions so that they agree, and aligns the text.

    Each of the three stages has `iterations`, at least 1. Returns one `Links`: those whose mean of
    the two posteriors is above `threshold`. Without a threshold, returns the best links of each
    direction, those of the reverse direction reversed.
    """
    with _opened(sides, "fertility", iterations) as text:
        training = train(text, "fertility", iterations)

        def find(number, parts):
            cells = [part.cells for part in parts]
            posteriors = training.posteriors(number, parts)
            if threshold is not None:
                return [links_of_both(cells, posteriors, lambda p, q: p + q > 2 * threshold)]
            forward, reverse = map(best_links, cells, posteriors)
            return [forward, reverse.reversed()]

        return [Links.joined(parts) for parts in zip(*text.each(find), strict=True)]


def usual_links(words: Sequence[Iterable[Sequence[str]]]) -> Links:
    """Returns the links that align.py finds by default; `words` of each line, (source, target)."""
    sides = [number_words(side) for side in words]
    (links,) = align_with_fertilities(sides, ITERATIONS["fertility"], threshold=LIKELY)
    return links


@contextlib.contextmanager
def _opened(sides, model, iterations, *, both=True):
    """Numbers the word pairs of a text; yields its `ChunkedText`, whose progress is shown."""
    # Each iteration reads the text once, those with fertilities twice, and so do the first and
    # the last step: uniform posteriors, and the links.
    passes = 2 + iterations * 4 if model == "fertility" else 1 + iterations * len(CHAINS[model])
    corpus = EncodedCorpus(*sides)
    bar = Progress("aligning", corpus.num_pairs * passes, "sentence pairs")
    with bar as progress, TemporaryArrays() as file:
        began = time.monotonic()
        text = ChunkedText(corpus, file, progress, both=both)
        _report(text, f"{text.directions[0].rows.num_pairs:,} word pairs numbered", began)
        yield text


def train(text: ChunkedText, model: str, iterations: int) -> ChunkedTraining:
    """Trains the models of a chain (a key of `CHAINS`) in turn; two directions learn to agree."""
    if model == "fertility":
        training = CollapsedText(text, _COLLAPSED_PRIOR)
    else:
        training = ExpectationMaximisationText(text, _PRIOR, _SMOOTHING)
    for stage in CHAINS[model]:
        training.begin(stage)
        for number in range(1, iterations + 1):
            began = time.monotonic()
            line = f"{stage.name}, iteration {number}"
            log_likelihoods = training.step()
            if not stage.fertile:
                line += f": perplexity {_perplexities(text, log_likelihoods)}"
            _report(text, line, began)
    return training


def _perplexities(text, log_likelihoods):
    return " and ".join(
        f"{math.exp(-log_likelihood / max(direction.num_tokens, 1)):,.2f}"
        for direction, log_likelihood in zip(text.directions, log_likelihoods, strict=True)
    )


def _report(text, line, began):
    """Prints a line with the rate of work since a time, in pairs a second of one direction."""
    if text.progress:
        rate = text.num_sentences * len(text.directions) / max(time.monotonic() - began, 1e-9)
        text.progress.say(f"{line} ({rate:,.0f} pairs/s)")
