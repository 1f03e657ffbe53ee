"""Encoded pairs to batches: complete, padded and resumable."""

import collections

import numpy as np
import pytest

from data_pipeline.pipeline import batches, describe, encode_corpus
from data_pipeline.tokenizers import EOS_ID, PAD_ID, train_tokenizer
from tests.data_pipeline.small import SOURCE, TARGET, pairs_of

BUDGET = 64


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer("word", SOURCE, TARGET, min_word_count=1)


@pytest.fixture(scope="module")
def corpus(tokenizer, tmp_path_factory):
    return encode_corpus(SOURCE, TARGET, tokenizer, tmp_path_factory.mktemp("cache"))


def arrays(dataset):
    return [{name: ids.numpy() for name, ids in batch.items()} for batch in dataset]


def same_batches(one, other):
    return len(one) == len(other) and all(
        a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)
        for a, b in zip(one, other, strict=True)
    )


# Batches


@pytest.mark.parametrize("seed", [None, 0])
def test_every_pair_is_batched_once_duplicates_included(corpus, seed):
    seen = [
        tuple(tuple(ids[ids != PAD_ID].tolist()) for ids in pair)
        for batch in arrays(batches(corpus, BUDGET, seed=seed))
        for pair in zip(batch["source_ids"], batch["target_ids"], strict=True)
    ]
    expected = [(tuple(s), tuple(t)) for s, t in pairs_of(corpus)]
    assert max(collections.Counter(expected).values()) >= 2
    assert collections.Counter(seen) == collections.Counter(expected)


@pytest.mark.parametrize("seed", [None, 0])
def test_rows_end_in_eos_and_only_padding_follows(corpus, seed):
    for batch in arrays(batches(corpus, BUDGET, seed=seed)):
        assert set(batch) == {"source_ids", "target_ids"}
        for ids in batch.values():
            assert ids.dtype == np.int32
            ends = (ids == EOS_ID).argmax(axis=1)
            real = np.arange(ids.shape[1]) <= ends[:, None]
            assert ((ids == EOS_ID).sum(axis=1) == 1).all()
            assert ((ids != PAD_ID) == real).all()
            assert real.any(axis=0).all()  # no wider than the longest row


def test_padded_batches_keep_the_budget(corpus):
    for batch in arrays(batches(corpus, BUDGET, seed=0)):
        assert max(ids.size for ids in batch.values()) <= BUDGET


@pytest.mark.parametrize("seed", [None, 0])
def test_resumed_epoch_is_the_tail_of_the_whole(corpus, seed):
    whole = arrays(batches(corpus, BUDGET, seed=seed, epoch=2))
    for k in (0, 1, 10, len(whole)):
        tail = arrays(batches(corpus, BUDGET, seed=seed, epoch=2, first_batch=k))
        assert same_batches(tail, whole[k:])


def test_epochs_and_seeds_differ_and_repeat(corpus):
    one = arrays(batches(corpus, BUDGET, seed=0, epoch=0))
    assert same_batches(one, arrays(batches(corpus, BUDGET, seed=0, epoch=0)))
    assert not same_batches(one, arrays(batches(corpus, BUDGET, seed=0, epoch=1)))
    assert not same_batches(one, arrays(batches(corpus, BUDGET, seed=1, epoch=0)))


def test_batches_can_be_gone_through_twice(corpus):
    dataset = batches(corpus, BUDGET)
    assert same_batches(arrays(dataset), arrays(dataset))


def test_sentence_longer_than_a_batch_is_refused(corpus):
    with pytest.raises(ValueError, match="a batch takes 5"):
        batches(corpus, 5)


# Description


def test_description_counts_pairs_tokens_unknowns_and_batches(tokenizer, tmp_path):
    corpus = encode_corpus(["a b zzz", "a"], ["c", "d zzz"], tokenizer, tmp_path)
    text = "\n".join(describe(corpus, tokenizer, max_tokens=8, seed=0))
    assert "training pairs: 2" in text
    assert "6 source, 5 target" in text
    assert f"{2 / 11:.2%}" in text
    assert f"{len(tokenizer.source)} source and {len(tokenizer.target)} target" in text
    assert "batches an epoch: 1 of at most 8 tokens" in text
    assert f"{3 / 14:.1%}" in text  # Widths 4 and 3, two rows, 11 tokens.


def test_description_of_a_shared_vocabulary_gives_one_number(tmp_path):
    tokenizer = train_tokenizer("bpe", SOURCE, TARGET, vocab_size=290)
    corpus = encode_corpus(["a b"], ["c"], tokenizer, tmp_path)
    text = "\n".join(describe(corpus, tokenizer, max_tokens=8, seed=0))
    assert f"(bpe): {len(tokenizer.source)} pieces shared; unknown tokens 0.00%" in text
