"""Sentence pairs to ids and batches: cached, filtered, complete, padded and resumable."""

import collections
import random

import numpy as np
import pytest

from data_pipeline.files import UserError
from data_pipeline.pipeline import (
    EncodedCorpus,
    EncodedSide,
    batches,
    describe,
    encode_corpus,
    encode_lines,
    filter_pairs,
    text_hash,
)
from data_pipeline.tokenizers import EOS_ID, PAD_ID, train_tokenizer

BUDGET = 64


def sentences(seed, count):
    rng = random.Random(seed)
    return [
        " ".join(rng.choice("abcdefgh") for _ in range(rng.randint(1, 15))) for _ in range(count)
    ]


SOURCE, TARGET = sentences(0, 200), sentences(1, 200)
SOURCE += SOURCE[:20]  # The same pair twice is two pairs.
TARGET += TARGET[:20]


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer("word", SOURCE, TARGET, min_word_count=1)


@pytest.fixture(scope="module")
def corpus(tokenizer, tmp_path_factory):
    return encode_corpus(SOURCE, TARGET, tokenizer, tmp_path_factory.mktemp("cache"))


def rows_of(side):
    return [row.tolist() for row in np.split(side.ids, np.cumsum(side.lengths)[:-1])]


def pairs_of(corpus):
    return list(zip(rows_of(corpus.source), rows_of(corpus.target), strict=True))


def corpus_of(*pairs):
    """A corpus of sentences of the given lengths, (source, target), with `</s>`."""
    sides = (
        EncodedSide(
            np.concatenate([[*range(10, 9 + n), EOS_ID] for n in lengths]).astype(np.int32),
            np.array(lengths, np.int32),
        )
        for lengths in zip(*pairs, strict=True)
    )
    return EncodedCorpus(*sides)


def arrays(dataset):
    return [{name: ids.numpy() for name, ids in batch.items()} for batch in dataset]


def same_batches(one, other):
    return len(one) == len(other) and all(
        a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)
        for a, b in zip(one, other, strict=True)
    )


def same_corpus(one, other):
    return pairs_of(one) == pairs_of(other)


# Encoding and its cache


def test_encoded_lines_are_those_of_the_tokenizer(tokenizer, corpus):
    assert rows_of(corpus.source) == tokenizer.source.encode(SOURCE)
    assert rows_of(corpus.target) == tokenizer.target.encode(TARGET)
    assert corpus.num_pairs == len(SOURCE)


def test_many_lines_are_encoded_in_order(tokenizer, tmp_path):
    lines = [f"{'a ' * (i % 3)}b" for i in range(25_000)]
    corpus = encode_corpus(lines, lines, tokenizer, tmp_path)
    assert rows_of(corpus.target) == tokenizer.target.encode(lines)


def test_taken_rows_are_those_asked_for_in_their_order(tokenizer):
    lines = ["a b c", "", "d", "e f"]
    side = encode_lines(tokenizer.source, lines)
    taken = side.take(np.array([3, 1, 3, 0]))
    assert rows_of(taken) == tokenizer.source.encode([lines[i] for i in (3, 1, 3, 0)])


def test_second_call_reads_the_cache(tokenizer, tmp_path):
    first = encode_corpus(SOURCE, TARGET, tokenizer, tmp_path)
    assert same_corpus(first, encode_corpus(SOURCE, TARGET, tokenizer, tmp_path))
    (cache,) = tmp_path.iterdir()
    with np.load(cache) as saved:
        changed = {name: saved[name] for name in saved.files}
    changed["target_ids"] = changed["target_ids"] + 1000
    np.savez(cache, **changed)
    read = encode_corpus(SOURCE, TARGET, tokenizer, tmp_path)
    assert np.array_equal(read.target.ids, first.target.ids + 1000)
    assert np.array_equal(read.source.ids, first.source.ids)


@pytest.mark.parametrize("left", [0, 1, 100, 0.5, 0.999])
def test_truncated_cache_is_made_anew(tokenizer, corpus, tmp_path, capsys, left):
    encode_corpus(SOURCE, TARGET, tokenizer, tmp_path)
    (cache,) = tmp_path.iterdir()
    whole = cache.read_bytes()
    cache.write_bytes(whole[: left if isinstance(left, int) else int(left * len(whole))])
    assert same_corpus(encode_corpus(SOURCE, TARGET, tokenizer, tmp_path), corpus)
    assert f"{cache}: damaged cache" in capsys.readouterr().err
    assert same_corpus(encode_corpus(SOURCE, TARGET, tokenizer, tmp_path), corpus)
    assert capsys.readouterr().err == ""


def test_cache_whose_bytes_changed_is_made_anew(tokenizer, corpus, tmp_path):
    encode_corpus(SOURCE, TARGET, tokenizer, tmp_path)
    (cache,) = tmp_path.iterdir()
    data = bytearray(cache.read_bytes())
    data[len(data) // 2] ^= 0xFF
    cache.write_bytes(data)
    assert same_corpus(encode_corpus(SOURCE, TARGET, tokenizer, tmp_path), corpus)


def test_other_tokenizer_is_never_served_from_the_cache(tokenizer, tmp_path):
    fewer = train_tokenizer("word", SOURCE, TARGET, min_word_count=1, vocab_size=7)
    encode_corpus(SOURCE, TARGET, tokenizer, tmp_path)
    corpus = encode_corpus(SOURCE, TARGET, fewer, tmp_path)
    assert rows_of(corpus.source) == fewer.source.encode(SOURCE)
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("change", ["source", "target", "swap", "boundary"])
def test_other_text_is_never_served_from_the_cache(tokenizer, tmp_path, change):
    source, target = ["a b", "c"], ["d", "e f"]
    encode_corpus(source, target, tokenizer, tmp_path)
    source, target = {
        "source": (["a b", "d"], target),
        "target": (source, ["d", "e g"]),
        "swap": (target, source),
        "boundary": (["a", "b c"], target),
    }[change]
    corpus = encode_corpus(source, target, tokenizer, tmp_path)
    assert rows_of(corpus.source) == tokenizer.source.encode(source)
    assert rows_of(corpus.target) == tokenizer.target.encode(target)


def test_hash_of_a_text_changes_with_line_ends_sides_and_characters():
    texts = [
        (["a b", "c"], ["d"]),
        (["a b", "C"], ["d"]),
        (["a b", "c"], ["d "]),
        (["a", "b c"], ["d"]),
        (["d"], ["a b", "c"]),
        (["a b"], ["c", "d"]),
    ]
    assert len({text_hash(*sides) for sides in texts}) == len(texts)
    assert text_hash(["a b", "c"], ["d"]) == text_hash(*texts[0])


# Filtering


def test_pairs_are_dropped_by_length_and_ratio_and_counted_once():
    corpus = corpus_of(
        (5, 5),  # kept
        (1, 5),  # a side is empty
        (5, 1),
        (1, 99),  # empty and too long: empty
        (11, 9),  # too long
        (9, 11),
        (11, 2),  # too long and uneven: too long
        (10, 10),  # kept, of the greatest length
        (2, 7),  # uneven
        (7, 2),
        (2, 6),  # kept, of the greatest ratio
    )
    kept, dropped = filter_pairs(corpus, max_length=10, max_length_ratio=3)
    assert dropped == {
        "a side is empty": 3,
        "longer than 10 tokens": 3,
        "length ratio above 3": 2,
    }
    assert pairs_of(kept) == [pairs_of(corpus)[i] for i in (0, 7, 10)]


def test_corpus_without_bad_pairs_stays_as_it_is(corpus):
    kept, dropped = filter_pairs(corpus, max_length=100, max_length_ratio=100)
    assert same_corpus(kept, corpus)
    assert set(dropped.values()) == {0}


def test_nothing_left_is_an_error_with_the_reasons():
    corpus = corpus_of((1, 5), (20, 20), (30, 20))
    with pytest.raises(UserError) as e:
        filter_pairs(corpus, max_length=10, max_length_ratio=3)
    message = str(e.value)
    assert "of 3: 1 a side is empty, 2 longer than 10 tokens" in message
    assert "ratio above" not in message and "--max_length" in message and "\n" not in message


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
