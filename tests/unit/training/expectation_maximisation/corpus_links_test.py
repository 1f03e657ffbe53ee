"""Tests of the alignments of a corpus."""

import itertools

import numpy as np
import pytest

from nmt_zoo.training.ways.expectation_maximisation.corpus_links import (
    best_links,
    links_of,
    links_of_both,
)
from nmt_zoo.training.ways.expectation_maximisation.iteration import agreeing_posteriors
from nmt_zoo.training.ways.expectation_maximisation.jump_estimates import JumpsEstimate
from nmt_zoo.training.ways.expectation_maximisation.position_estimates import (
    DiagonalEstimate,
)
from tests.unit.training.expectation_maximisation import textbook
from tests.unit.training.expectation_maximisation.iteration_test import (
    begin,
    random_estimate,
    random_index,
    random_jumps,
)
from tests.unit.training.expectation_maximisation.textbook import (
    index_directions,
)

# (source, target, links that a person would draw); adjectives follow their nouns on one side.
TEXT = [
    ("la fleur", "the flower", "0-0 1-1"),
    ("la maison", "the house", "0-0 1-1"),
    ("la maison bleue", "the blue house", "0-0 1-2 2-1"),
    ("une fleur bleue", "a blue flower", "0-0 1-2 2-1"),
    ("une fleur", "a flower", "0-0 1-1"),
    ("une maison rouge", "a red house", "0-0 1-2 2-1"),
    ("la fleur rouge pousse", "the red flower grows", "0-0 1-2 2-1 3-3"),
    ("la rose pousse", "the rose grows", "0-0 1-1 2-2"),
    ("une rose rouge", "a red rose", "0-0 1-2 2-1"),
    ("la maison brûle", "the house burns", "0-0 1-1 2-2"),
]


def text_corpus():
    sides = [[row[side].split() for row in TEXT] for side in (0, 1)]
    ids = [
        {word: i for i, word in enumerate(sorted(set(itertools.chain(*side))), start=4)}
        for side in sides
    ]
    numbers = [[[ids[k][w] for w in line] for line in side] for k, side in enumerate(sides)]
    return textbook.corpus_of(list(zip(*numbers, strict=True)))


def posterior_links(words, estimate, *, threshold=None):
    """Returns the best links, or all whose posterior is above a threshold."""
    posteriors, _, _ = textbook.posteriors_in(words, estimate)
    if threshold is None:
        return best_links(words, posteriors)
    return links_of(
        words,
        lambda block: np.nonzero(
            posteriors[block.cells].reshape(-1, block.source_length) > threshold
        ),
    )


def posteriors_of_both(directions, estimates):
    both = zip(directions, estimates, strict=True)
    return [textbook.posteriors_in(*each)[0] for each in both]


def as_text(links):
    return [" ".join(f"{j}-{i}" for j, i in sorted(line)) for line in links]


@pytest.mark.parametrize("target_end", [True, False])
def test_links_are_the_most_probable_or_those_above_a_threshold(target_end):
    words, sentences = random_index(count=40, longest=4, target_end=target_end)
    estimate = random_estimate(words, random_jumps())
    posteriors = textbook.soft_alignments(words, estimate)
    links = {t: list(posterior_links(words, estimate, threshold=t)) for t in (None, 0.1, 0.4)}
    for number, (soft, (source, target)) in enumerate(zip(posteriors, sentences, strict=True)):
        positions = range(len(target) - target_end)
        for threshold in (0.1, 0.4):
            pairs = itertools.product(positions, range(len(source) - 1))
            wanted = [(j, i) for i, j in pairs if soft[i, j] > threshold]
            assert links[threshold][number] == wanted
        best = [(int(soft[i].argmax()), i) for i in positions]
        assert links[None][number] == [(j, i) for j, i in best if j < len(source) - 1]


@pytest.mark.parametrize("target_end", [True, False])
def test_directions_count_the_product_of_what_both_believe(target_end):
    corpus = textbook.corpus_of(textbook.random_pairs(40, seed=5, words=8))
    directions = index_directions(corpus, target_end)
    positions = (DiagonalEstimate(), random_jumps())
    estimates = [random_estimate(w, p) for w, p in zip(directions, positions, strict=True)]
    posteriors = posteriors_of_both(directions, estimates)
    counted = agreeing_posteriors(directions, posteriors)
    soft = list(map(textbook.matrices, directions, posteriors))
    for side, words in enumerate(directions):
        matrices = zip(
            textbook.matrices(words, counted[side]), soft[side], soft[1 - side], strict=True
        )
        for found, own, other in matrices:
            for i, row in enumerate(found):
                is_end = target_end and i == len(own) - 1
                wanted = [own[i, j] * (is_end or other[j, i]) for j in range(len(row) - 1)]
                wanted.append(own[i, -1])
                np.testing.assert_allclose(row, np.array(wanted) / sum(wanted))


@pytest.mark.parametrize("target_end", [True, False])
def test_agreed_links_are_the_same_from_either_side(target_end):
    corpus = textbook.corpus_of(textbook.random_pairs(40, seed=6, words=8))
    directions = index_directions(corpus, target_end)
    estimates = [textbook.fit(w, begin(w, JumpsEstimate.first()), 2)[0] for w in directions]
    posteriors = posteriors_of_both(directions, estimates)
    soft = map(textbook.matrices, directions, posteriors)
    wanted = []
    for own, other, n, m in zip(*soft, *(side.lengths for side in corpus), strict=True):
        pairs = itertools.product(range(m - 1), range(n - 1))
        wanted.append([(j, i) for i, j in pairs if own[i, j] * other[j, i] > 0.3**2])
    assert sum(map(len, wanted)) > 20
    links, swapped = (
        links_of_both(directions[::way], posteriors[::way], lambda p, q: p * q > 0.3**2)
        for way in (1, -1)
    )
    assert list(links) == list(swapped.reversed()) == wanted
