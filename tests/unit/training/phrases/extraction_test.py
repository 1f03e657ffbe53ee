import numpy as np

from nmt_zoo.training.ways.expectation_maximisation.corpus_links import CorpusLinks
from nmt_zoo.training.ways.phrases.extraction import (
    DISCONTINUOUS,
    MONOTONE,
    SWAP,
    link_text,
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
