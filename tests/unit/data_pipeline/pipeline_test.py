"""Encoded pairs to batches: complete, padded and resumable."""

import collections

import numpy as np
import pytest

from nmt_zoo.data_pipeline.batching import Batching
from nmt_zoo.data_pipeline.encoded import EncodedCorpus, EncodedSide
from nmt_zoo.data_pipeline.encoding import encode_pairs
from nmt_zoo.data_pipeline.mixing import mixture
from nmt_zoo.data_pipeline.pipeline import (
    dataset_of,
    describe,
    plan_batches,
    sentence_look_up,
)
from nmt_zoo.data_pipeline.tokenization.tokenizers import train_tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import EOS_ID, PAD_ID
from tests.tiny import batches
from tests.unit.data_pipeline.small import SOURCE, TARGET, pairs_of

BUDGET = 64


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer("word", SOURCE, TARGET, min_word_count=1)


@pytest.fixture(scope="module")
def corpus(tokenizer, tmp_path_factory):
    return encode_pairs(SOURCE, TARGET, tokenizer, tmp_path_factory.mktemp("cache")).corpus


@pytest.fixture(scope="module")
def longest(corpus):
    return int(max(side.lengths.max() for side in corpus))


def arrays(dataset):
    return [{name: ids.numpy() for name, ids in batch.items()} for batch in dataset]


def seen_pairs(found):
    """Counter of the pairs, without padding, of a list of batches."""
    pairs = (
        tuple(tuple(ids[ids != PAD_ID].tolist()) for ids in pair)
        for batch in found
        for pair in zip(batch["source_ids"], batch["target_ids"], strict=True)
    )
    return collections.Counter(pair for pair in pairs if any(pair))


def same_batches(one, other):
    return len(one) == len(other) and all(
        a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)
        for a, b in zip(one, other, strict=True)
    )


@pytest.mark.parametrize(("seed", "mixed"), [(None, False), (0, False), (0, True)])
def test_every_pair_is_batched_as_often_as_asked_ends_in_eos_and_only_padding_follows(
    corpus, seed, mixed
):
    every = [(tuple(source), tuple(target)) for source, target in pairs_of(corpus)]
    mix = mixture((20, len(every) - 20), "1,1") if mixed else None
    found = arrays(batches(corpus, Batching(BUDGET, mixture=mix), seed=seed, epoch=2))
    expected = (
        collections.Counter(every[n] for n in mix.rows(0, 2))
        if mixed
        else collections.Counter(every)
    )
    assert max(expected.values()) >= 2 and seen_pairs(found) == expected
    for batch in found:
        assert set(batch) == {"source_ids", "target_ids"}
        for ids in batch.values():
            assert ids.dtype == np.int32
            ends = (ids == EOS_ID).argmax(axis=1)
            real = np.arange(ids.shape[1]) <= ends[:, None]
            assert ((ids == EOS_ID).sum(axis=1) == 1).all()
            assert ((ids != PAD_ID) == real).all()
            assert real.any(axis=0).all()  # The batch is no wider than its longest row.


@pytest.mark.parametrize(("seed", "static"), [(None, False), (0, True)])
def test_a_resumed_epoch_is_the_tail_of_the_whole_from_files_or_memory(
    corpus, longest, seed, static
):
    plan = {"batching": Batching(BUDGET, longest=longest if static else 0), "seed": seed}
    whole = arrays(batches(corpus, **plan, epoch=2))
    copied = EncodedCorpus(*(EncodedSide(*map(np.array, side)) for side in corpus))
    assert not isinstance(copied.source.ids, np.memmap)
    for first in (0, 1, len(whole)):
        tail = batches(copied, **plan, epoch=2, first_batch=first)
        for _ in range(2):
            assert same_batches(arrays(tail), whole[first:])


@pytest.mark.parametrize("num_workers", [1, 3])
def test_workers_see_every_pair_once_in_the_planned_shapes(corpus, longest, num_workers):
    batching = Batching(BUDGET, longest=longest, num_workers=num_workers)
    plan = plan_batches(corpus, batching, seed=0)
    workers = [np.arange(w, plan.batch_sizes.size, num_workers) for w in range(num_workers)]
    shares = [plan.select(rows) for rows in workers]
    parts = [arrays(dataset_of(corpus, share)) for share in shares]
    for part, share in zip(parts, shares, strict=True):
        sizes = [(*batch["source_ids"].shape, batch["target_ids"].shape[1]) for batch in part]
        assert len(part) == len(parts[0]) and sizes == list(map(tuple, share.shapes))
    every = seen_pairs(arrays(batches(corpus, Batching(BUDGET))))
    assert seen_pairs([batch for part in parts for batch in part]) == every
    tail = arrays(dataset_of(corpus, shares[-1], first_batch=4))
    assert same_batches(tail, parts[-1][4:])


def test_a_corpus_may_have_more_than_2_to_the_31_tokens(tmp_path):
    lengths = np.array([2**31 - 1, 6, 3], np.int32)
    path = tmp_path / "ids"
    with open(path, "wb") as file:
        file.truncate(4 * int(lengths.sum(dtype=np.int64)))  # Takes no space on the disk.
    try:
        ids = np.memmap(path, np.int32, mode="c")
    except OSError as error:
        pytest.skip(f"not enough memory to map a large file: {error}")
    ids[-4:] = 6, 7, 8, 9
    found = sentence_look_up(EncodedSide(ids, lengths))([2, 1])
    assert found.to_list() == [[7, 8, 9], [0, 0, 0, 0, 0, 6]]


def test_description_counts_pairs_tokens_unknowns_and_batches(tokenizer, tmp_path):
    shared, found = train_tokenizer("bpe", SOURCE, TARGET, vocab_size=290), []
    for each in (tokenizer, shared):
        corpus = encode_pairs(["a b zzz", "a"], ["c", "d zzz"], each, tmp_path).corpus
        plan = plan_batches(corpus, Batching(8), seed=0)
        found.append("\n".join(describe(corpus, each, Batching(8), plan)))
    for part in (
        "training pairs: 2",
        "6 source, 5 target",
        f"{2 / 11:.2%}",
        f"{len(tokenizer.source)} source and {len(tokenizer.target)} target",
        "batches per epoch: 1 of at most 8 tokens",
        f"{3 / 14:.1%}",  # Two rows of widths 4 and 3 have 14 places for 11 tokens.
    ):
        assert part in found[0]
    assert f"(bpe): {len(shared.source)} pieces shared; unknown tokens 0.00%" in found[1]
