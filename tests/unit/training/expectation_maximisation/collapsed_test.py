"""Tests of collapsed variational inference against loops over tokens and dictionaries."""

import itertools
from collections import Counter, defaultdict

import numpy as np
import pytest

from nmt_zoo.training.ways.expectation_maximisation import text_alignment
from nmt_zoo.training.ways.expectation_maximisation.collapsed import (
    MOST,
    expected_fertilities,
    first_posteriors,
    log_ratios,
    others_translation,
)
from nmt_zoo.training.ways.expectation_maximisation.iteration import count_links, posteriors_of
from nmt_zoo.training.ways.expectation_maximisation.position_estimates import UniformEstimate
from tests.unit.training.expectation_maximisation import textbook
from tests.unit.training.expectation_maximisation.corpus_links_test import (
    TEXT,
    as_text,
    text_corpus,
)
from tests.unit.training.expectation_maximisation.textbook import index, matrices

ALPHA = 0.05


def random_posteriors(words, *, certain=False):
    """Returns random posteriors; certain: every target word has one link."""
    rng = np.random.default_rng(1)
    posteriors = np.empty(words.cell_pairs.size, np.float32)
    for block in words.blocks:
        found = rng.dirichlet(np.full(block.source_length, 0.5), block.num_rows)
        if certain:
            found = np.eye(block.source_length)[found.argmax(axis=1)]
        posteriors[block.cells] = found.ravel()
    return posteriors


def new_posteriors(words, posteriors, *, fertile=False):
    """Makes one iteration of Model 1; returns the `matrices` of the new posteriors."""
    counts = count_links(words, posteriors) + ALPHA
    ratios = log_ratios(expected_fertilities(words, posteriors))[:, :-1] if fertile else None
    sums = counts, words.source_sums(counts), ratios
    translation = others_translation(words, *sums, posteriors, posteriors)
    return matrices(words, posteriors_of(words, UniformEstimate(), translation)[0])


class Textbook:
    """Counts of a corpus in dictionaries, and the distributions that follow from them."""

    def __init__(self, sentences, soft):
        self.counts, self.seen = Counter(), defaultdict(set)
        for (source, target), links in zip(sentences, soft, strict=True):
            for (i, e), (j, f) in itertools.product(enumerate(target), enumerate(source)):
                self.counts[f, e] += links[i, j]
                self.seen[f].add(e)
        self.fertilities = defaultdict(lambda: np.zeros(MOST + 1))
        for (source, target), links in zip(sentences, soft, strict=True):
            for j, f in enumerate(source[:-1]):
                for chosen in itertools.product((0, 1), repeat=len(target)):
                    taken = [links[i, j] if x else 1 - links[i, j] for i, x in enumerate(chosen)]
                    if target:
                        self.fertilities[f][min(sum(chosen), MOST)] += np.prod(taken)
        self.every = sum(self.fertilities.values()) + 0.5

    def translations(self, source, e, links):
        """Returns t(e | f) of every source word from the counts without a target word's links."""
        found = []
        for f in source:
            own = sum(link for link, other in zip(links, source, strict=True) if other == f)
            total = sum(self.counts[f, other] + ALPHA for other in self.seen[f])
            found.append((self.counts[f, e] + ALPHA - own) / (total - own))
        return np.array(found)

    def fertility(self, f):
        """Returns the `[MOST + 1]` distribution of a word's fertility."""
        found = self.fertilities[f] + self.every / self.every.sum()
        return found / found.sum()


# In which a word of one sentence alone, 7, is repeated.
RARE = [([4, 5], [14, 15]), ([6, 4, 5], [16, 14, 15]), ([7, 4, 7, 5], [17, 14, 18, 15])]


def corpus_and_words(pairs=None, longest=5):
    pairs = pairs or textbook.random_pairs(40, seed=8, longest=longest, words=5)
    corpus = textbook.corpus_of(pairs)
    words = index(corpus, target_end=False)
    return words, textbook.sentences_of(corpus, target_end=False)


@pytest.mark.parametrize(("pairs", "fertile"), [(None, False), (RARE, False), (None, True)])
def test_a_link_is_weighed_by_the_counts_of_all_other_target_words(pairs, fertile):
    """Where a sentence repeats a source word, the links to all of its tokens are left out.

    Between whole numbers of other links, the logarithm of fertilities is interpolated.
    """
    words, sentences = corpus_and_words(pairs)
    assert any(len(set(source)) < len(source) for source, _ in sentences)
    for matrix in matrices(words, first_posteriors(words)):
        np.testing.assert_allclose(matrix, 1 / max(matrix.shape[1], 1), rtol=1e-6)
    posteriors = random_posteriors(words)
    soft = matrices(words, posteriors)
    book = Textbook(sentences, soft)
    found = new_posteriors(words, posteriors, fertile=fertile)
    for (source, target), own, rows in zip(sentences, soft, found, strict=True):
        for i, e in enumerate(target):
            weights = book.translations(source, e, own[i])
            for j, f in enumerate(source[:-1] if fertile else ()):
                others = own[:, j].sum() - own[i, j]
                ratios = np.diff(np.log(book.fertility(f)))
                weights[j] *= np.exp(np.interp(others, np.arange(MOST), ratios))
            wanted = weights / weights.sum()
            close = {"rtol": 1e-3, "atol": 1e-6} if fertile else {"rtol": 1e-4}
            np.testing.assert_allclose(rows[i], wanted, **close)


def test_given_all_other_links_a_link_has_its_exact_probability():
    """Where the other links are certain, the step is that of a Gibbs sampler."""
    words, sentences = corpus_and_words()
    posteriors = random_posteriors(words, certain=True)
    soft = matrices(words, posteriors)
    book = Textbook(sentences, soft)
    found = new_posteriors(words, posteriors, fertile=True)
    compared = 0
    for (source, target), own, rows in zip(sentences, soft, found, strict=True):
        links = own.argmax(axis=1) if len(target) else []
        for i, e in enumerate(target):
            weights = book.translations(source, e, own[i])
            for j in range(len(source)):
                changed = [*links[:i], j, *links[i + 1 :]]
                for k, word in enumerate(source[:-1]):
                    number = changed.count(k)
                    # The same ratio is between all numbers from MOST on.
                    ratio = book.fertility(word)[MOST] / book.fertility(word)[MOST - 1]
                    weights[j] *= book.fertility(word)[min(number, MOST)]
                    weights[j] *= ratio ** max(number - MOST, 0)
                compared += 1
            np.testing.assert_allclose(rows[i], weights / weights.sum(), rtol=1e-4)
    assert compared > 200


def sides_of(corpus):
    """Returns the sides as `text_alignment.number_words` numbers them: NULL is the word 0."""
    null = textbook.EOS
    return [side._replace(ids=np.where(side.ids == null, 0, side.ids)) for side in corpus]


def test_a_small_text_is_aligned_as_a_person_would():
    found = text_alignment.align_text(sides_of(text_corpus()), threshold=0.5)
    assert [as_text(links) for links in found] == [[links for _, _, links in TEXT]]
    (surer,) = text_alignment.align_text(sides_of(text_corpus()), threshold=1)
    assert not surer.sources.size  # No mean of two probabilities is above 1.
    sides = sides_of(textbook.corpus_of([([], []), ([4], []), ([], [5])]))
    for links in text_alignment.align_text(sides, iterations=1):
        assert list(links) == [[], [], []]


@pytest.mark.parametrize("threshold", [None, 0.4])
def test_alignments_are_the_same_from_either_side(threshold):
    sides = sides_of(textbook.corpus_of(textbook.random_pairs(60, seed=10, words=6)))
    there, back = (
        text_alignment.align_text(way, threshold=threshold) for way in (sides, sides[::-1])
    )
    assert len(there) == (2 if threshold is None else 1)
    for found, other in zip(there, back[::-1], strict=True):
        assert found.sources.size > 20
        assert list(found) == list(other.reversed())
