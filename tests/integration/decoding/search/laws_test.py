"""Laws of every search, on a thousand random models at once: nothing better is left behind."""

import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo.data_pipeline.tokenization.vocabularies import PAD_ID
from nmt_zoo.decoding.search import extension
from nmt_zoo.decoding.search.beam_search import make_search
from nmt_zoo.decoding.search.types import SearchOptions, SentenceOptions
from tests.tiny import Markov

SOURCE = np.arange(4, 1000, dtype=np.int32)[:, None]
BEAM = 3
NO_JOINTS = np.zeros([2, Markov.VOCAB], bool)


# The steps of these searches are few and wide.
pytestmark = pytest.mark.usefixtures("all_eagerly")


def search(alpha=0.6, source=SOURCE, n_best=BEAM, required=None, **options):
    options = {"max_length_factor": 0.0, "max_length_extra": 8, **options}
    options = SearchOptions(BEAM, alpha, **options)
    given = {} if required is None else {"required": np.tile(required, [len(source), 1, 1])}
    each = isinstance(n_best, SentenceOptions)
    found = make_search(Markov(1), options, tuple(given), NO_JOINTS, each_sentence=each)
    return tf.nest.map_structure(
        lambda t: t.numpy(), found(source, n_best, *([given] if given else []))
    )


def without_a_stop(monkeypatch):
    """Lets every search go on to its length limit."""
    monkeypatch.setattr(
        extension,
        "is_certain",
        lambda setup, unfinished, *_: tf.zeros_like(unfinished.limit) > 0,
    )


def has(ids, phrase):
    return any((ids[i : i + len(phrase)] == phrase).all() for i in range(len(ids)))


@pytest.mark.parametrize(("alpha", "most"), [(0.0, 0), (1.0, 5)])
def test_a_search_ends_with_the_best_that_its_beam_finds(monkeypatch, alpha, most):
    found = search(alpha, n_best=1)
    without_a_stop(monkeypatch)
    best = search(alpha)
    lost = best.finished[:, 0] & (best.scores[:, 0] > found.scores[:, 0] + 1e-5)
    assert lost.sum() <= most


@pytest.mark.parametrize("phrases", [[[4, 6]], [[6, 0], [5, 4]]])
def test_what_is_required_is_found_once_and_costs_nothing_where_the_plain_beam_has_it(phrases):
    some = SOURCE[:200]
    plain = search(source=some)
    found = search(source=some, required=np.array(phrases, np.int32), n_best=1)
    wanted = [[token for token in phrase if token != PAD_ID] for phrase in phrases]
    met = 0
    for row in range(len(some)):
        possible = found.ids[row][found.log_probs[row] > -1e8]
        assert len(np.unique(possible, axis=0)) == len(possible)  # None is in two banks.
        assert all(has(found.ids[row, 0], phrase) for phrase in wanted)
        for k in np.flatnonzero(plain.finished[row]):
            if all(has(plain.ids[row, k], phrase) for phrase in wanted):
                met += 1
                assert found.scores[row, 0] >= plain.scores[row, k] - 1e-5
    assert met > 20
