"""Encoding text to ids: complete, filtered, and cached safely if files or processes fail."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import write_lines
from nmt_zoo.data_pipeline import encoding
from nmt_zoo.data_pipeline.encoded import EncodedCorpus, PairFilter
from nmt_zoo.data_pipeline.encoding import (
    encode_pairs,
    encoded_chunks,
    text_hash,
)
from nmt_zoo.data_pipeline.lines import Lines, open_split
from nmt_zoo.data_pipeline.tokenization.tokenizers import train_tokenizer
from tests.unit.data_pipeline.small import SOURCE, TARGET, pairs_of, rows_of, same_corpus
from tests.unit.training.expectation_maximisation.textbook import corpus_of


@pytest.fixture(scope="module", params=["word", "bpe"])
def tokenizer(request):
    return train_tokenizer(request.param, SOURCE, TARGET, min_word_count=1, vocab_size=290)


@pytest.fixture(scope="module")
def corpus(tokenizer, tmp_path_factory):
    return encode_pairs(SOURCE, TARGET, tokenizer, tmp_path_factory.mktemp("cache")).corpus


@pytest.fixture
def files(tmp_path):
    """The corpus as two text files."""
    write_lines(tmp_path / "text.source", SOURCE)
    write_lines(tmp_path / "text.target", TARGET)
    return tmp_path / "text.source", tmp_path / "text.target"


def cache_of(cache_dir):
    """Returns (the folder of the only cache, its files except the lock)."""
    (folder,) = cache_dir.iterdir()
    return folder, sorted(folder.glob("*.*"))


def test_encoded_lines_are_those_of_the_tokenizer(tokenizer, corpus, files, tmp_path):
    """Also with several processes at once, and with another tokenizer and the same cache."""
    assert rows_of(corpus.source) == tokenizer.source.encode(SOURCE)
    assert rows_of(corpus.target) == tokenizer.target.encode(TARGET)
    cache = tmp_path / "cache"
    assert same_corpus(encode_pairs(*open_split(files), tokenizer, cache).corpus, corpus)
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda _: encode_pairs(SOURCE, TARGET, tokenizer, cache), range(4))
        assert all(same_corpus(one.corpus, corpus) for one in found)
    assert len(cache_of(cache)[1]) == 5
    fewer = train_tokenizer("word", SOURCE, TARGET, min_word_count=1, vocab_size=7)
    others = encode_pairs(SOURCE, TARGET, fewer, cache).corpus
    assert rows_of(others.source) == fewer.source.encode(SOURCE)
    assert len(list(cache.iterdir())) == 2


def test_lines_are_encoded_in_order_and_few_are_held_at_a_time(tokenizer, corpus, monkeypatch):
    monkeypatch.setattr(encoding, "_PAIRS_AT_ONCE", 10)
    chunks = encoded_chunks(SOURCE, TARGET, tokenizer, 3)
    assert [pair for chunk in chunks for pair in pairs_of(chunk)] == pairs_of(corpus)

    def lines(side):
        for number in range(1000):
            read[side] = number
            yield "a b"

    read = [0, 0]
    for number, _ in enumerate(encoded_chunks(lines(0), lines(1), tokenizer, 2)):
        assert max(read) < 10 * (number + 8)


def test_damaged_cache_is_named_and_made_anew_and_a_whole_one_is_read(
    tokenizer, corpus, tmp_path, capsys, monkeypatch
):
    encode_pairs(SOURCE, TARGET, tokenizer, tmp_path)
    folder, cache = cache_of(tmp_path)
    assert len(cache) == 5
    for file in cache:
        whole = file.read_bytes()
        half = len(whole) // 2
        for damaged in (
            *(whole[:n] for n in (0, half)),
            whole + b"1234",
            whole[:half] + bytes([whole[half] ^ 1]) + whole[half + 1 :],
        ):
            file.write_bytes(damaged)
            assert same_corpus(encode_pairs(SOURCE, TARGET, tokenizer, tmp_path).corpus, corpus)
            assert f"{folder}: the cache is damaged" in capsys.readouterr().err
            assert file.read_bytes() == whole
        file.unlink()
        assert same_corpus(encode_pairs(SOURCE, TARGET, tokenizer, tmp_path).corpus, corpus)
    (folder / ".unfinished-x.bin").write_bytes(b"half")  # Of a killed process.
    (folder / "index.json").unlink()
    assert same_corpus(encode_pairs(SOURCE, TARGET, tokenizer, tmp_path).corpus, corpus)
    assert cache_of(tmp_path) == (folder, cache)
    capsys.readouterr()
    monkeypatch.setattr(type(tokenizer.source), "encode", None)
    mapped = encode_pairs(SOURCE, TARGET, tokenizer, tmp_path).corpus
    assert same_corpus(mapped, corpus) and capsys.readouterr().err == ""
    assert all(isinstance(array, np.memmap) for side in mapped for array in side)


def test_text_that_is_edited_meanwhile_or_of_unequal_sides_is_not_cached(
    tokenizer, files, tmp_path
):
    text = open_split(files)
    write_lines(files[1], [*TARGET[:-1], "another line"])
    with pytest.raises(UserError, match=r"text\.target: was changed after it was first read"):
        encode_pairs(*text, tokenizer, tmp_path / "cache")
    assert cache_of(tmp_path / "cache")[1] == []
    for target in (TARGET[:-1], [*TARGET, "a"]):
        with pytest.raises(ValueError, match="more lines"):
            encode_pairs(SOURCE, target, tokenizer, tmp_path / target[-1])
        assert cache_of(tmp_path / target[-1])[1] == []


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


def filter_pairs(corpus, **limits):
    """Applies a `PairFilter` to a corpus in memory; returns (filtered corpus, dropped counts)."""
    pair_filter = PairFilter(**limits)
    kept, dropped = pair_filter(*(side.lengths for side in corpus))
    pair_filter.check_some_left(kept.sum(), dropped)
    return EncodedCorpus(*(side.take(np.flatnonzero(kept)) for side in corpus)), dropped


def test_pairs_are_dropped_by_length_and_ratio_and_counted_once():
    lengths = [
        (5, 5),  # kept
        (1, 5),  # a side is empty
        (5, 1),
        (1, 99),  # empty and too long: empty
        (11, 9),  # too long
        (9, 11),
        (11, 2),  # too long and uneven: too long
        (10, 10),  # kept: exactly at the limit of length
        (2, 7),  # uneven
        (7, 2),
        (2, 6),  # kept: exactly at the limit of the ratio
    ]
    corpus = corpus_of([[[9] * (n - 1) for n in both] for both in lengths])
    kept, dropped = filter_pairs(corpus, max_length=10, max_length_ratio=3)
    assert dropped == {
        "with an empty side": 3,
        "longer than 10 tokens": 3,
        "with a length ratio above 3": 2,
    }
    assert pairs_of(kept) == [pairs_of(corpus)[i] for i in (0, 7, 10)]


def test_filtering_while_encoding_is_filtering_afterwards(tokenizer, corpus, tmp_path):
    """And pairs that are kept are counted by corpus."""
    limits = {"max_length": 12, "max_length_ratio": 2}
    kept, dropped = filter_pairs(corpus, **limits)
    assert all(list(dropped.values())[1:])
    for _ in range(2):
        found = encode_pairs(SOURCE, TARGET, tokenizer, tmp_path, pair_filter=PairFilter(**limits))
        assert same_corpus(found.corpus, kept)
        assert (found.dropped, found.sizes) == (dropped, [kept.num_pairs])
    other = encode_pairs(SOURCE, TARGET, tokenizer, tmp_path, pair_filter=PairFilter(11, 2))
    assert other.corpus.num_pairs < kept.num_pairs
    for number, lines in enumerate((["a", "b b b", "c"], ["d d d"], ["d d d", "e"])):
        write_lines(tmp_path / f"{number}", lines)
    text = Lines(*(tmp_path / f"{number}" for number in range(3)))
    longest = len(tokenizer.source.encode(["b"])[0])
    found = encode_pairs(text, text, tokenizer, tmp_path, pair_filter=PairFilter(longest, 9))
    assert found.sizes == [2, 0, 1]
    assert encode_pairs(text, text, tokenizer, tmp_path).sizes == [3, 1, 2]
    assert rows_of(found.corpus.source) == tokenizer.source.encode(["a", "c", "e"])


@pytest.mark.parametrize(
    ("source", "target", "advice"),
    [
        ([1, 5], [5, 1], "2 with an empty side; check the files"),
        ([50], [50], "1 longer than 10 tokens; raise --max_length and, where"),
        ([2], [9], "1 with a length ratio above 3; raise --max_length_ratio"),
        ([1, 2], [2, 9], "check the files, or raise --max_length_ratio"),
    ],
)
def test_where_no_pair_is_left_the_advice_fits_what_dropped_them(source, target, advice):
    pair_filter = PairFilter(max_length=10, max_length_ratio=3.0)
    kept, dropped = pair_filter(np.array(source), np.array(target))
    with pytest.raises(
        UserError, match=f"all {len(source)} training pairs were dropped: "
    ) as error:
        pair_filter.check_some_left(kept.sum(), dropped)
    assert advice in str(error.value)
