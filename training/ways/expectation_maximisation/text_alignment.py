"""Aligns a text by models that are trained on that text, with NumPy only, without TensorFlow."""

import contextlib
import math
import time
from array import array

import numpy as np

from nmt_zoo.common.progress import Progress
from nmt_zoo.data_pipeline.encoded import EncodedCorpus, EncodedSide
from nmt_zoo.training.ways.expectation_maximisation.agreement import agreed_links, links_of_both
from nmt_zoo.training.ways.expectation_maximisation.chunked_steps import (
    CollapsedText,
    em_step,
    first_estimates,
    part_estimate,
)
from nmt_zoo.training.ways.expectation_maximisation.chunks import ChunkedText, TemporaryArrays
from nmt_zoo.training.ways.expectation_maximisation.corpus_links import (
    Links,
    best_links,
    posterior_links,
)
from nmt_zoo.training.ways.expectation_maximisation.jump_estimates import Jumps
from nmt_zoo.training.ways.expectation_maximisation.position_estimates import Diagonal, Uniform

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


def number_words(lines):
    """Encodes the words of a text as numbers, with NULL at the end of every line.

    Args:
        lines: iterable of the list of words of every line.

    Returns:
        `EncodedSide`.
    """
    ids, lengths, numbers = array("i"), array("i"), {}
    for words in lines:
        ids.extend([numbers.setdefault(word, len(numbers) + _NULL + 1) for word in words])
        ids.append(_NULL)
        lengths.append(len(words) + 1)
    return EncodedSide(np.frombuffer(ids, np.int32), np.frombuffer(lengths, np.int32))


def align_independently(sides, model, iterations):
    """Trains one direction and aligns the text with it.

    Args:
        sides: (source `EncodedSide`, target `EncodedSide`), from `number_words`.
        model: a key of `ITERATIONS`.
        iterations: iterations of every model of the chain, at least 1.

    Returns:
        `Links`: the best source word of every target word whose best source is not NULL.
    """
    with _opened(sides, model, iterations, both=False) as text:
        if model == "fertility":
            state = train_collapsed(text, iterations)

            def find(number, parts):  # pyright: ignore[reportRedeclaration]
                return best_links(parts[0].cells, state.states(number)[0].posteriors)

        else:
            estimates = train_chain(text, model, iterations)

            def find(_, parts):
                return posterior_links(parts[0].cells, part_estimate(*parts, *estimates))

        return Links.joined(text.each(find))


def align_agreeing(sides, model, iterations, threshold):
    """Trains both directions so that they agree, and aligns the text with both.

    Args:
        sides: as `align_independently`.
        model: a key of `CHAINS`.
        iterations: likewise.
        threshold: a link is returned if the geometric mean of its two posteriors is above this.

    Returns:
        `Links`.
    """
    with _opened(sides, model, iterations) as text:
        estimates = train_chain(text, model, iterations)

        def find(_, parts):
            own = [part_estimate(*both) for both in zip(parts, estimates, strict=True)]
            return agreed_links([p.cells for p in parts], own, threshold=threshold, threads=1)

        return Links.joined(text.each(find))


def align_with_fertilities(sides, iterations, *, threshold=None):
    """Trains HMMs with fertilities of both directions so that they agree, and aligns the text.

    Args:
        sides: as `align_independently`.
        iterations: iterations of each of the three stages, at least 1.
        threshold: a link is returned if the mean of its two posteriors is above this. None: returns
            the best links of each direction.

    Returns:
        List of one `Links`; without a threshold, of two, those of the reverse direction reversed.
    """
    with _opened(sides, "fertility", iterations) as text:
        state = train_collapsed(text, iterations)

        def find(number, parts):
            cells = [part.cells for part in parts]
            posteriors = [each.posteriors for each in state.states(number)]
            if threshold is not None:
                return [links_of_both(cells, posteriors, lambda p, q: p + q > 2 * threshold)]
            forward, reverse = map(best_links, cells, posteriors)
            return [forward, reverse.reversed()]

        return [Links.joined(parts) for parts in zip(*text.each(find), strict=True)]


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


def train_chain(text, model, iterations):
    """Trains the models of a chain in turn; two directions are trained to agree.

    Args:
        text: `ChunkedText`.
        model: a key of `CHAINS`.
        iterations: as `align_independently`.

    Returns:
        List of the last `Estimate` of each direction, smoothed as in train.py.
    """
    estimates = first_estimates(text)
    for positions in CHAINS[model]:
        estimates = [estimate._replace(positions=positions) for estimate in estimates]
        for number in range(iterations):
            began = time.monotonic()
            estimates, found = em_step(text, estimates, alpha=_PRIOR, smoothing=_SMOOTHING)
            _report(text, _perplexity(text, positions, number, found), began)
    return estimates


def train_collapsed(text, iterations):
    """Trains the stages of `FERTILITY` in turn; returns the `CollapsedText`."""
    state = CollapsedText(text, _COLLAPSED_PRIOR)
    for positions, fertile in FERTILITY:
        if positions is not None:
            state.positions = [positions] * len(text.directions)
        for number in range(iterations):
            began = time.monotonic()
            found = state.step(fertile=fertile)
            line = f"HMM with fertilities, iteration {number + 1}"
            if not fertile:
                line = _perplexity(text, state.positions[0], number, found)
            _report(text, line, began)
    return state


def _perplexity(text, positions, number, log_likelihoods):
    """Describes an iteration: its model, its number, and the perplexity before it."""
    name = {Uniform: "Model 1", Diagonal: "Model 2", Jumps: "HMM"}[type(positions)]
    perplexities = " and ".join(
        f"{math.exp(-log_likelihood / max(direction.num_tokens, 1)):,.2f}"
        for direction, log_likelihood in zip(text.directions, log_likelihoods, strict=True)
    )
    return f"{name}, iteration {number + 1}: perplexity {perplexities}"


def _report(text, line, began):
    """Prints a line with the rate of work since a time, in pairs a second of one direction."""
    if text.progress:
        rate = text.num_sentences * len(text.directions) / max(time.monotonic() - began, 1e-9)
        text.progress.say(f"{line} ({rate:,.0f} pairs/s)")
