"""Altered pairs: both sides get the same string, so that a model learns to copy any character."""

import collections
import re

import numpy as np
import pytest

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.encoded import EncodedCorpus
from nmt_zoo.data_pipeline.encoding import encode_lines
from nmt_zoo.data_pipeline.tokenization.altered_pairs import AlteredPairs
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer, train_tokenizer
from tests.tiny import pairs
from tests.unit.data_pipeline.small import rows_of

SOURCE, TARGET = (tuple(f"{line} ." for line in side) for side in zip(*pairs(200), strict=True))
QUOTED = ("“the” dog …",) * 50


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer("bpe", SOURCE + QUOTED, TARGET + QUOTED, vocab_size=330)


@pytest.fixture(scope="module")
def corpus(tokenizer):
    return EncodedCorpus(*(encode_lines(tokenizer.source, side) for side in (SOURCE, TARGET)))


def altered(tokenizer, share=1.0, seed=1, max_length=100):
    return AlteredPairs(tokenizer, {"copies": share}, seed, max_length)


def lines_of(tokenizer, corpus):
    return [[tokenizer.source.decode(ids) for ids in rows_of(side)] for side in corpus]


def added(before, after):
    """Returns how often each character, but for spaces, is there more often than before."""
    counts = collections.Counter(after)
    counts.subtract(before)
    return {c: n for c, n in counts.items() if n and c != " "}


def test_both_sides_change_by_the_same_characters_and_keep_all_others(tokenizer, corpus):
    found = lines_of(tokenizer, altered(tokenizer).sample(corpus, 2))
    for source, target, new_source, new_target in zip(SOURCE, TARGET, *found, strict=True):
        assert new_source != source
        assert added(source, new_source) == added(target, new_target)
    both = zip(SOURCE, found[0], strict=True)  # Some have a string before the final stop.
    assert any(new.startswith(old[:-1]) and new.endswith(" .") for old, new in both)


def test_bytes_are_trained_and_characters_of_the_text_are_left_to_the_text(tokenizer, corpus):
    of = altered(tokenizer)
    epochs = [of.sample(corpus, epoch) for epoch in range(5)]
    for side in (0, 1):
        ids = np.concatenate([epoch[side].ids for epoch in epochs])
        pieces = tokenizer.source.pieces(np.unique(ids).tolist())
        assert sum(bool(re.fullmatch("<0x..>", piece)) for piece in pieces) > 100
    text = " ".join(line for epoch in epochs for line in lines_of(tokenizer, epoch)[0])
    assert "»" in text and "‘" in text and not set("“”…") & set(text)


def test_an_epoch_alters_its_share_of_the_pairs_and_other_epochs_other_pairs(tokenizer, corpus):
    big = EncodedCorpus(*(side.take(np.arange(200).repeat(20)) for side in corpus))
    usual = rows_of(big.source)
    chosen = []
    for seed, epoch in ((1, 0), (1, 1), (2, 0)):
        found = rows_of(altered(tokenizer, 0.1, seed).sample(big, epoch).source)
        changed = [new != old for new, old in zip(found, usual, strict=True)]
        assert 0.08 < np.mean(changed) < 0.12
        chosen.append(changed)
    assert chosen[0] != chosen[1] and chosen[0] != chosen[2]


def test_each_kind_alters_its_share_and_no_pair_has_two(tokenizer, corpus):
    big = EncodedCorpus(*(side.take(np.arange(200).repeat(20)) for side in corpus))
    usual = lines_of(tokenizer, big)
    of = AlteredPairs(tokenizer, {"capitals": 0.2, "stop": 0.3}, 1, 100)
    found = lines_of(tokenizer, of.sample(big, 0))
    for side, new in zip(usual, found, strict=True):
        in_capitals = [b == a.upper() for a, b in zip(side, new, strict=True)]
        without_stop = [b == a.removesuffix(" .") for a, b in zip(side, new, strict=True)]
        assert 0.18 < np.mean(in_capitals) < 0.22 and 0.28 < np.mean(without_stop) < 0.32
        assert all(b in (a, a.upper(), a[:-2]) for a, b in zip(side, new, strict=True))


def test_a_pair_that_would_become_too_long_stays_as_it_is(tokenizer, corpus):
    most = max(side.lengths.max() for side in corpus)
    found = altered(tokenizer, max_length=most + 3).sample(corpus, 0)
    free = altered(tokenizer, max_length=1000).sample(corpus, 0)
    fits = np.all([side.lengths <= most + 3 for side in free], axis=0)
    assert 0 < fits.sum() < fits.size
    for usual, side, other in zip(corpus, found, free, strict=True):
        expected = np.where(fits, other.lengths, usual.lengths)
        np.testing.assert_array_equal(side.lengths, expected)


def test_pieces_without_bytes_are_refused(tokenizer):
    class NoBytes:
        def encode(self, lines):
            return [[1, 3] for _ in lines]

    without = Tokenizer("bpe", tokenizer.source, NoBytes())
    with pytest.raises(UserError, match="needs a SentencePiece model with byte pieces"):
        altered(without)
