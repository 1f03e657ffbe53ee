"""Aligns a text by models that are trained on that text, with NumPy only, without TensorFlow."""

import math
import time

import numpy as np

from data_pipeline.encoded import EncodedCorpus, EncodedSide
from training.expectation_maximisation.agreement import (
    agreed_links,
    agreeing_step,
    index_directions,
)
from training.expectation_maximisation.corpus_links import posterior_links
from training.expectation_maximisation.iteration import em_step, first_estimate
from training.expectation_maximisation.jump_estimates import Jumps
from training.expectation_maximisation.position_estimates import Diagonal, Uniform
from training.expectation_maximisation.word_pairs import index_word_pairs

# Position models that are trained in turn; each begins with the translation table of the model
# before it. Model 1 comes first because it has a single optimum.
CHAINS = {
    "ibm1": (Uniform(),),
    "ibm2": (Uniform(), Diagonal()),
    "hmm": (Uniform(), Jumps.first()),
}
# Dirichlet prior of every source word's translations: rare words translate sparsely.
_PRIOR = 0.1
_NULL = 0  # The number of the word NULL at the end of every sentence.


def number_words(words):
    """Encodes the words of a text as numbers, with NULL at the end of every line.

    Args:
        words: list of lists of str.

    Returns:
        `EncodedSide`.
    """
    lengths = np.fromiter((len(line) + 1 for line in words), np.int32, len(words))
    numbers = {}
    ids = np.zeros(lengths.sum(), np.int32)
    is_word = np.ones(ids.size, bool)
    is_word[np.cumsum(lengths) - 1] = False
    ids[is_word] = [
        numbers.setdefault(word, len(numbers) + _NULL + 1) for line in words for word in line
    ]
    return EncodedSide(ids, lengths)


def align_independently(sides, model, iterations, report=print):
    """Trains one direction and aligns the text with it.

    Args:
        sides: (source `EncodedSide`, target `EncodedSide`), from `number_words`.
        model: a key of `CHAINS`.
        iterations: iterations of every model of the chain, at least 1.
        report: function that is called with a line about each iteration.

    Returns:
        `Links`: the best source word of every target word whose best source is not NULL.
    """
    began = time.monotonic()
    words = index_word_pairs(EncodedCorpus(*sides), target_end=False)
    report(_rate(f"{words.source_words.size:,} word pairs numbered", words.num_sentences, began))
    estimate = first_estimate(words)
    for positions in CHAINS[model]:
        estimate = estimate._replace(positions=positions)
        for number in range(iterations):
            began = time.monotonic()
            estimate, log_likelihood = em_step(words, estimate, alpha=_PRIOR)
            _report(report, positions, number, words.num_sentences, began, [words, log_likelihood])
    return posterior_links(words, estimate)


def align_agreeing(sides, model, iterations, threshold, report=print):
    """Trains both directions so that they agree, and aligns the text with both.

    Args:
        sides: as `align_independently`.
        model: likewise.
        iterations: likewise.
        threshold: a link is returned if the geometric mean of its two posteriors is above this.
        report: likewise.

    Returns:
        `Links`.
    """
    began = time.monotonic()
    directions = index_directions(EncodedCorpus(*sides), target_end=False)
    num_pairs = 2 * directions.forward.num_sentences
    report(_rate(f"{directions.forward.source_words.size:,} word pairs numbered", num_pairs, began))
    estimates = [first_estimate(words) for words in directions]
    for positions in CHAINS[model]:
        estimates = [estimate._replace(positions=positions) for estimate in estimates]
        for number in range(iterations):
            began = time.monotonic()
            estimates, both = agreeing_step(directions, estimates, alpha=_PRIOR)
            found = zip(directions, both, strict=True)
            _report(report, positions, number, num_pairs, began, *found)
    return agreed_links(directions, estimates, threshold=threshold)


def _report(report, positions, number, num_pairs, began, *directions):
    """Reports one line: model, iteration, perplexity of each direction before it, and rate."""
    name = {Uniform: "Model 1", Diagonal: "Model 2", Jumps: "HMM"}[type(positions)]
    perplexities = " and ".join(
        f"{math.exp(-log_likelihood / max(words.num_tokens, 1)):,.2f}"
        for words, log_likelihood in directions
    )
    report(_rate(f"{name}, iteration {number + 1}: perplexity {perplexities}", num_pairs, began))


def _rate(text, num_pairs, began):
    """Returns the text with the rate of work since a time, in pairs a second."""
    return f"{text} ({num_pairs / max(time.monotonic() - began, 1e-9):,.0f} pairs/s)"
