import numpy as np
import pytest

from nmt_zoo.training.ways.expectation_maximisation.corpus_links import CorpusLinks
from nmt_zoo.training.ways.phrases.extraction import (
    DISCONTINUOUS,
    MONOTONE,
    SWAP,
    extract,
    link_text,
    orientations,
)
from tests.unit.training.expectation_maximisation.textbook import corpus_of


def random_text(draw, num_pairs, density):
    """Returns (`EncodedCorpus`, links of each pair as sets) with odd links and empty sentences."""
    sides, links = ([], []), []
    for _ in range(num_pairs):
        lengths = draw.integers(0, 9, 2)
        for side, length in zip(sides, lengths, strict=True):
            side.append(draw.integers(4, 9, length))
        cells = np.argwhere(draw.random(lengths) < density)
        links.append({(int(i), int(j)) for i, j in cells})
    return corpus_of(zip(*sides, strict=True)), links


def linked(corpus, links):
    """Returns the `LinkedText` of a corpus with a set of links of each pair."""
    return link_text(corpus, CorpusLinks.of_lists(map(sorted, links)))


def every_pair(lengths, links, most):
    """Yields (i, i2, j, j2) of all consistent phrase pairs, by looking at all pairs of spans."""
    for i in range(lengths[0]):
        for i2 in range(i + 1, min(i + most, lengths[0]) + 1):
            for j in range(lengths[1]):
                for j2 in range(j + 1, min(j + most, lengths[1]) + 1):
                    within = [(i <= s < i2, j <= t < j2) for s, t in links]
                    if (True, True) in within and all(a == b for a, b in within):
                        yield i, i2, j, j2


def orientation(links, lengths, word, monotone, swap):
    """Orientation towards the target position `word`, -1 or T at the ends of the sentence."""
    links = {*links, (-1, -1), (lengths[0], lengths[1])}
    if (monotone, word) in links:
        return MONOTONE
    return SWAP if (swap, word) in links else DISCONTINUOUS


@pytest.mark.parametrize("density", [0.0, 0.05, 0.15, 0.4, 1.0])
@pytest.mark.parametrize("most", [1, 3, 7])
def test_extraction_equals_brute_force_over_all_spans(density, most):
    corpus, links = random_text(np.random.default_rng(most), 40, density)
    text = linked(corpus, links)
    pairs = extract(text, most)
    kinds = orientations(text, pairs)
    found = {
        tuple(int(x) for x in place): tuple(kind.tolist())
        for *place, kind in zip(*pairs, kinds, strict=True)
    }
    assert len(found) == len(kinds), "a pair was found twice"
    expected, starts = {}, np.zeros(2, int)
    for row, some in enumerate(links):
        lengths = [int(side.lengths[row]) - 1 for side in corpus]
        for i, i2, j, j2 in every_pair(lengths, some, most):
            place = (i + starts[0], i2 + starts[0], j + starts[1], j2 + starts[1])
            expected[tuple(int(x) for x in place)] = (
                orientation(some, lengths, j - 1, i - 1, i2),
                orientation(some, lengths, j2, i2, i - 1),
            )
        starts += [side.lengths[row] for side in corpus]
    assert found == expected
