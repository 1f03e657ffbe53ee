"""Aligns a text by models that are trained on that text, with NumPy only, without TensorFlow."""

import math
import time

import numpy as np

from data_pipeline.encoded import EncodedCorpus, EncodedSide
from training.expectation_maximisation.agreement import (
    agreed_links,
    agreeing_step,
    index_directions,
    links_of_both,
)
from training.expectation_maximisation.collapsed import agree, collapsed_step, first_collapsed
from training.expectation_maximisation.corpus_links import best_links, posterior_links
from training.expectation_maximisation.iteration import em_step, first_estimate, spread_missing
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
# Stages of the HMM with fertilities, as CHAINS, and whether words have fertilities.
FERTILITY = ((Uniform(), False), (Jumps.first(null_probability=0.08), False), (None, True))
# Iterations of each stage. With fertilities, rows of links sharpen quickly, right or wrong.
ITERATIONS = {**dict.fromkeys(CHAINS, 5), "fertility": 2}
# Dirichlet prior of every source word's translations: rare words translate sparsely.
_PRIOR = 0.1
_SMOOTHING = 0.02  # Share of every row that all target words get, as in `models.ibm`.
_COLLAPSED_PRIOR = 0.001  # Smaller, as a link is no evidence for itself.
LIKELY = 0.5  # Default of the mean posterior of a link in both directions.
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
        model: a key of `ITERATIONS`.
        iterations: iterations of every model of the chain, at least 1.
        report: function that is called with a line about each iteration.

    Returns:
        `Links`: the best source word of every target word whose best source is not NULL.
    """
    began = time.monotonic()
    words = index_word_pairs(EncodedCorpus(*sides), target_end=False)
    _report_numbering(report, [words], began)
    if model == "fertility":
        return best_links(words, _train_collapsed([words], iterations, report)[0].posteriors)
    return posterior_links(words, *train_chain([words], model, iterations, report))


def align_agreeing(sides, model, iterations, threshold, report=print):
    """Trains both directions so that they agree, and aligns the text with both.

    Args:
        sides: as `align_independently`.
        model: a key of `CHAINS`.
        iterations: likewise.
        threshold: a link is returned if the geometric mean of its two posteriors is above this.
        report: likewise.

    Returns:
        `Links`.
    """
    began = time.monotonic()
    directions = index_directions(EncodedCorpus(*sides), target_end=False)
    _report_numbering(report, directions, began)
    estimates = train_chain(directions, model, iterations, report)
    return agreed_links(directions, estimates, threshold=threshold)


def train_chain(directions, model, iterations, report=print):
    """Trains the models of a chain in turn.

    Args:
        directions: list of one `WordPairs`, or `Directions`, whose models are trained to agree.
        model: a key of `CHAINS`.
        iterations: as `align_independently`.
        report: likewise.

    Returns:
        List of the last `Estimate` of each direction, smoothed as in train.py.
    """
    estimates = [first_estimate(words) for words in directions]
    num_pairs = sum(words.num_sentences for words in directions)
    for positions in CHAINS[model]:
        estimates = [estimate._replace(positions=positions) for estimate in estimates]
        for number in range(iterations):
            began = time.monotonic()
            if len(directions) > 1:
                estimates, found = agreeing_step(directions, estimates, alpha=_PRIOR)
            else:
                steps = [em_step(*directions, *estimates, alpha=_PRIOR)]
                estimates, found = zip(*steps, strict=True)
            estimates = [_smoothed(*both) for both in zip(directions, estimates, strict=True)]
            found = zip(directions, found, strict=True)
            _report(report, positions, number, num_pairs, began, *found)
    return estimates


def _smoothed(words, estimate):
    """Returns an `Estimate` whose translation table lacks nothing."""
    vocab_size = int(words.target_words.max(initial=_NULL)) + 1
    translation = spread_missing(words, estimate.translation, vocab_size, _SMOOTHING)
    return estimate._replace(translation=translation)


def align_with_fertilities(sides, iterations, *, threshold=None, report=print):
    """Trains HMMs with fertilities of both directions so that they agree, and aligns the text.

    Args:
        sides: as `align_independently`.
        iterations: iterations of each of the three stages, at least 1.
        threshold: a link is returned if the mean of its two posteriors is above this. None: returns
            the best links of each direction.
        report: as `align_independently`.

    Returns:
        List of one `Links`; without a threshold, of two, those of the reverse direction reversed.
    """
    began = time.monotonic()
    directions = index_directions(EncodedCorpus(*sides), target_end=False)
    _report_numbering(report, directions, began)
    states = _train_collapsed(directions, iterations, report)
    posteriors = [state.posteriors for state in states]
    if threshold is not None:
        return [links_of_both(directions, posteriors, lambda p, q: p + q > 2 * threshold)]
    forward, reverse = (best_links(*both) for both in zip(directions, posteriors, strict=True))
    return [forward, reverse.reversed()]


def _train_collapsed(directions, iterations, report):
    """Returns the `Collapsed` of one direction, or of two that are trained to agree."""
    states = [first_collapsed(words) for words in directions]
    num_pairs = sum(words.num_sentences for words in directions)
    for positions, fertile in FERTILITY:
        if positions is not None:
            states = [state._replace(positions=positions) for state in states]
        for number in range(iterations):
            began = time.monotonic()
            states = [
                collapsed_step(words, state, alpha=_COLLAPSED_PRIOR, fertile=fertile)
                for words, state in zip(directions, states, strict=True)
            ]
            states = agree(directions, states) if len(states) > 1 else states
            if fertile:
                text = f"HMM with fertilities, iteration {number + 1}"
                report(_rate(text, num_pairs, began))
            else:
                found = ((w, s.log_likelihood) for w, s in zip(directions, states, strict=True))
                _report(report, states[0].positions, number, num_pairs, began, *found)
    return states


def _report_numbering(report, directions, began):
    """Reports one line: how many word pairs the first direction has, and the rate."""
    num_pairs = sum(words.num_sentences for words in directions)
    text = f"{directions[0].source_words.size:,} word pairs numbered"
    report(_rate(text, num_pairs, began))


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
