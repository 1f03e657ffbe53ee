"""Alignment models as in a textbook: with dictionaries, and loops over every alignment."""

import itertools
import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from nmt_zoo.data_pipeline.encoded import EncodedCorpus, EncodedSide
from nmt_zoo.training.ways.expectation_maximisation.iteration import (
    agreeing_posteriors,
    count_links,
    maximise_translation,
    posteriors_of,
    table_values,
)
from nmt_zoo.training.ways.expectation_maximisation.position_estimates import UniformEstimate
from nmt_zoo.training.ways.expectation_maximisation.word_pairs import (
    SentencePairs,
    lay_out,
    number_word_pairs,
)
from tests.unit.data_pipeline.small import rows_of

EOS = 3


def side(sentences):
    """Makes an `EncodedSide` from lists of ids; `</s>` is added."""
    ids = [i for sentence in sentences for i in (*sentence, EOS)]
    lengths = [len(sentence) + 1 for sentence in sentences]
    return EncodedSide(np.array(ids, np.int32), np.array(lengths, np.int32))


def corpus_of(pairs):
    """Makes an `EncodedCorpus` from (source ids, target ids) pairs."""
    sources, targets = zip(*pairs, strict=True)
    return EncodedCorpus(side(sources), side(targets))


def random_pairs(count, seed, *, longest=5, words=4):
    """Draws pairs of 0 to `longest` words, from so few words that they repeat in a sentence."""
    rng = np.random.default_rng(seed)
    sides = [
        [rng.integers(4, 4 + words, rng.integers(0, longest + 1)).tolist() for _ in range(count)]
        for _ in range(2)
    ]
    return list(zip(*sides, strict=True))


def sentences_of(corpus, target_end):
    """Returns (source ids with NULL, target ids) of every pair, as lists."""
    sources, targets = (rows_of(side) if side.lengths.size else [] for side in corpus)
    return list(zip(sources, targets if target_end else [t[:-1] for t in targets], strict=True))


def uniform(i, m, n):
    return [1 / n] * n


def table(a):
    """Model 2 with a table `a` of probabilities of (j, i, n)."""
    return lambda i, m, n: [a[j, i, n] for j in range(n)]


def diagonal(tension, p0):
    """Dyer et al. 2013: probabilities of source positions for target position i of m."""

    def positions(i, m, n):
        if n == 1:
            return [1.0]
        words = [math.exp(-tension * abs((i + 1) / m - j / (n - 1))) for j in range(1, n)]
        return [*((1 - p0) * w / sum(words) for w in words), p0]

    return positions


def counts_of_model_1_or_2(sentences, t, positions):
    """Makes one expectation step; returns (word counts, position counts, log-likelihood).

    Args:
        sentences: from `sentences_of`.
        t: (source word, target word) -> probability.
        positions: function of (i, m, n), the probabilities of the n source positions.
    """
    word_counts, position_counts, log_likelihood = defaultdict(float), defaultdict(float), 0.0
    for source, target in sentences:
        n, m = len(source), len(target)
        for i, e in enumerate(target):
            joint = [a * t[f, e] for a, f in zip(positions(i, m, n), source, strict=True)]
            for j, f in enumerate(source):
                word_counts[f, e] += joint[j] / sum(joint)
                position_counts[j, i, n] += joint[j] / sum(joint)
            log_likelihood += math.log(sum(joint))
    return word_counts, position_counts, log_likelihood


def normalised(counts, given):
    """Divides counts by the sum of all counts with the same `given(key)`."""
    totals = defaultdict(float)
    for key, count in counts.items():
        totals[given(key)] += count
    return {key: count / totals[given(key)] for key, count in counts.items()}


def hmm_joint(source, target, alignment, t, widths, starts, p0):
    """Computes P(target, alignment | source) of the HMM; -1 stands for NULL.

    Args:
        widths: function of a jump from source word to source word.
        starts: function of the first source word's position, counted from 0.
    """
    words = range(len(source) - 1)
    probability, last = 1.0, None
    for e, j in zip(target, alignment, strict=True):
        if not words:
            probability *= t[source[-1], e]
        elif j < 0:
            probability *= p0 * t[source[-1], e]
        else:
            weights = [starts(r) if last is None else widths(r - last) for r in words]
            probability *= (1 - p0) * weights[j] / sum(weights) * t[source[j], e]
            last = j
    return probability


def hmm_alignments(source, target, t, widths, starts, p0):
    """Returns every alignment of a pair with its joint probability."""
    positions = range(-1, len(source) - 1)
    for alignment in itertools.product(positions, repeat=len(target)):
        yield alignment, hmm_joint(source, target, alignment, t, widths, starts, p0)


@dataclass(frozen=True)
class Words(SentencePairs):
    """All sentence pairs of a corpus."""

    pair_sources: np.ndarray  # [P], the source word of every word pair
    pair_targets: np.ndarray

    @property
    def num_tokens(self):
        return sum(block.num_rows for block in self.blocks)


def index(corpus, target_end=True):
    """Numbers the word pairs of a corpus; returns `Words`."""
    cell_pairs, sources, targets = number_word_pairs(corpus, target_end)
    firsts = np.flatnonzero(np.diff(sources, prepend=-1))
    layout = lay_out(corpus.source.lengths, corpus.target.lengths, target_end)
    own = sources.size, firsts, cell_pairs, sources[firsts], np.arange(sources.size)
    return Words(*own, *layout, target_end, sources, targets)


def index_directions(corpus, target_end=True):
    return [index(EncodedCorpus(*way), target_end) for way in (corpus, corpus[::-1])]


class Estimate(NamedTuple):
    """All parameters of a model."""

    translation: np.ndarray  # [P], t(target word | source word) of every word pair
    positions: Any = UniformEstimate()


def first_estimate(words):
    """Makes the `Estimate` of Model 1 in which all target words are equally probable."""
    size = np.unique(words.pair_targets).size
    return Estimate(np.full(words.num_pairs, 1 / max(size, 1)))


def posteriors_in(words, estimate):
    """Returns (the posterior of every cell, statistics, log-likelihood)."""
    return posteriors_of(words, estimate.positions, table_values(words, estimate.translation))


def expect(words, estimate):
    """Returns (counts, statistics, log-likelihood) of an expectation step."""
    posteriors, statistics, log_likelihood = posteriors_in(words, estimate)
    return count_links(words, posteriors), statistics, log_likelihood


def em_steps(directions, estimates, alpha=0.0):
    """Makes one step of a direction, or of two that agree; returns (`Estimate`s, likelihoods)."""
    found = [posteriors_in(*both) for both in zip(directions, estimates, strict=True)]
    counted = agreeing_posteriors(directions, [posteriors for posteriors, *_ in found])
    results = [
        Estimate(
            maximise_translation(words, count_links(words, own), alpha),
            estimate.positions.maximise(statistics),
        )
        for words, estimate, own, (_, statistics, _) in zip(
            directions, estimates, counted, found, strict=True
        )
    ]
    return results, [log_likelihood for *_, log_likelihood in found]


def em_step(words, estimate, alpha=0.0):
    """Makes one step of a single direction; returns (`Estimate`, log-likelihood before it)."""
    (result,), (log_likelihood,) = em_steps([words], [estimate], alpha)
    return result, log_likelihood


def fit(words, estimate, iterations, alpha=0.0):
    """Makes several steps; returns (`Estimate`, list of the log-likelihoods before each step)."""
    history = []
    for _ in range(iterations):
        estimate, log_likelihood = em_step(words, estimate, alpha)
        history.append(log_likelihood)
    return estimate, history


def matrices(words, values):
    """Returns the `[T, S]` values of every sentence pair, of T target tokens that have cells."""
    results = [np.zeros([0, 0])] * words.num_sentences
    for block in words.blocks:
        rows = values[block.cells].reshape(-1, block.source_length).astype(np.float64)
        order = np.lexsort((block.row_positions, block.row_sentences))
        ends = np.cumsum(block.target_lengths)[:-1]
        for sentence, part in zip(block.pairs.tolist(), np.split(order, ends), strict=True):
            results[sentence] = rows[part]
    return results


def soft_alignments(words, estimate):
    """Returns the `matrices` of the posteriors."""
    return matrices(words, posteriors_in(words, estimate)[0])
