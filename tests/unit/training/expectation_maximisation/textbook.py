"""Alignment models as in a textbook: with dictionaries, and loops over every alignment."""

import itertools
import math
from collections import defaultdict

import numpy as np

from nmt_zoo.data_pipeline.encoded import EncodedCorpus, EncodedSide
from nmt_zoo.training.ways.expectation_maximisation.agreement import em_steps
from nmt_zoo.training.ways.expectation_maximisation.iteration import (
    posteriors_of,
    translation_of,
)

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
    sources, targets = (
        np.split(s.ids, np.cumsum(s.lengths)[:-1]) if s.lengths.size else [] for s in corpus
    )
    return [
        (source.tolist(), target.tolist() if target_end else target.tolist()[:-1])
        for source, target in zip(sources, targets, strict=True)
    ]


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


def em_step(words, estimate, **options):
    """Makes one step of a single direction; returns (`Estimate`, log-likelihood before it)."""
    (after,), (log_likelihood,) = em_steps([words], [estimate], **options)
    return after, log_likelihood


def posteriors_in(words, estimate):
    """Returns the posterior of every cell, `[cells]` float64."""
    translation = translation_of(words, estimate)
    return posteriors_of(words, estimate.positions, translation, dtype=np.float64)[0]


def fit(words, estimate, iterations, *, alpha=0.0, threads=2):
    """Makes several steps; returns (`Estimate`, list of the log-likelihoods before each step)."""
    history = []
    for _ in range(iterations):
        estimate, log_likelihood = em_step(words, estimate, alpha=alpha, threads=threads)
        history.append(log_likelihood)
    return estimate, history


def soft_alignments(words, estimate):
    """Returns `[T, S]` posteriors of every sentence pair, for T target tokens that have cells."""
    results = [np.zeros([0, 0])] * words.num_sentences
    found = posteriors_in(words, estimate)
    for block in words.blocks:
        posteriors = found[block.cells].reshape(-1, block.source_length)
        order = np.lexsort((block.row_positions, block.row_sentences))
        ends = np.cumsum(block.target_lengths)[:-1]
        for sentence, rows in zip(block.pairs.tolist(), np.split(order, ends), strict=True):
            results[sentence] = posteriors[rows]
    return results
