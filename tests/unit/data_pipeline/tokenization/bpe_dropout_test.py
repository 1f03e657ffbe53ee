"""BPE-dropout: every epoch has other pieces of the same text, by the paper's probabilities."""

import collections
import itertools

import numpy as np
import pytest

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.encoded import EncodedCorpus
from nmt_zoo.data_pipeline.encoding import encode_lines
from nmt_zoo.data_pipeline.tokenization import bpe_dropout, epoch_text
from nmt_zoo.data_pipeline.tokenization.altered_pairs import AlteredPairs
from nmt_zoo.data_pipeline.tokenization.bpe_dropout import BpeDropout
from nmt_zoo.data_pipeline.tokenization.epoch_text import EpochText
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import BpeVocabulary
from tests.unit.data_pipeline.small import foreign_model, rows_of

TEXT = ["the banana and the bandana", "a banana in the sun", "the sun and a band", "banana"] * 20
# Characters that the vocabulary lacks become bytes; spaces are dropped; a line may be empty.
HARD = ["", "▁", "  the   ▁▁banana ", "naïve — 日本語 bananas", "</s> <unk> <0x41> the", "b" * 300]


@pytest.fixture(scope="module")
def vocabulary():
    return BpeVocabulary.train(TEXT, 320)


@pytest.fixture(scope="module")
def tokenizer(vocabulary):
    return Tokenizer("bpe", vocabulary, vocabulary)


def sampled(tokenizer, lines, rate, seed=1, epoch=0, side=0, first=0, max_length=1000):
    """Returns the ids of every line after BPE-dropout."""
    usual = encode_lines(tokenizer.source, lines)
    dropout = BpeDropout(tokenizer, rate, seed, max_length)
    return rows_of(dropout.sample(usual, side, epoch, first))


def test_a_dropout_of_0_gives_the_usual_pieces_one_of_1_characters_and_any_the_text(
    tokenizer, monkeypatch
):
    """Words are merged in parts of any size."""
    lines, vocabulary = TEXT + HARD, tokenizer.source
    usual = vocabulary.encode(lines)
    assert sampled(tokenizer, lines, 0.0) == usual
    for line, ids in zip(TEXT, sampled(tokenizer, TEXT, 1.0), strict=True):
        assert vocabulary.pieces(ids) == [*f"▁{line}".replace(" ", "▁"), "</s>"]
    found = sampled(tokenizer, lines, 0.6)
    assert [*map(vocabulary.decode, found)] == [*map(vocabulary.decode, usual)] and found != usual
    monkeypatch.setattr(bpe_dropout, "_CELLS_AT_ONCE", 50)
    assert sampled(tokenizer, lines, 0.6) == found


def probabilities(vocabulary, pieces, rate):
    """Returns pieces -> probability, by algorithm 1 of the paper with all its outcomes."""
    scores = []
    for i, pair in enumerate(itertools.pairwise(pieces)):
        found = vocabulary.processor.piece_to_id("".join(pair))
        if found != vocabulary.processor.unk_id():
            scores.append((-vocabulary.processor.get_score(found), i))
    outcomes = collections.Counter({pieces: rate ** len(scores)})
    for place, (_, i) in enumerate(sorted(scores)):
        merged = (*pieces[:i], pieces[i] + pieces[i + 1], *pieces[i + 2 :])
        for end, share in probabilities(vocabulary, merged, rate).items():
            outcomes[end] += rate**place * (1 - rate) * share
    return outcomes


def test_pieces_have_the_probabilities_of_the_paper(tokenizer):
    rate = 0.3
    expected = probabilities(tokenizer.source, tuple("▁banana"), rate)
    assert sum(expected.values()) == pytest.approx(1) and len(expected) > 20
    count = 20_000
    found = collections.Counter(
        tuple(tokenizer.source.pieces(ids[:-1]))
        for ids in sampled(tokenizer, ["banana"] * count, rate)
    )
    assert found.keys() <= expected.keys()
    common = [pieces for pieces, share in expected.items() if share * count >= 5]
    observed = np.array([found[pieces] for pieces in common] + [0])
    wanted = np.array([expected[pieces] * count for pieces in common] + [0])
    observed[-1], wanted[-1] = count - observed.sum(), count - wanted.sum()
    freedom = len(common)
    chi_square = ((observed - wanted) ** 2 / np.maximum(wanted, 1)).sum()
    # The mean of chi-square is its degrees of freedom, its variance twice that.
    assert abs(chi_square - freedom) < 4 * np.sqrt(2 * freedom)


def test_words_of_a_line_and_lines_of_a_text_are_independent(tokenizer):
    lines = sampled(tokenizer, ["banana banana"] * 5000, 0.5)
    halves = [tuple(ids[: len(ids) // 2]) == tuple(ids[len(ids) // 2 : -1]) for ids in lines]
    expected = probabilities(tokenizer.source, tuple("▁banana"), 0.5)
    same = sum(share**2 for share in expected.values())
    assert np.mean(halves) == pytest.approx(same, abs=0.02)


def test_pieces_depend_on_seed_epoch_side_and_line_alone(tokenizer):
    lines = TEXT + HARD
    whole = sampled(tokenizer, lines, 0.5)
    assert sampled(tokenizer, lines, 0.5) == whole
    assert sampled(tokenizer, lines[30:], 0.5, first=30) == whole[30:]
    others = [*lines[:30], "a line of another text", *lines[31:]]
    found = sampled(tokenizer, others, 0.5)
    assert found[:30] == whole[:30] and found[31:] == whole[31:]
    for other in ({"seed": 2}, {"epoch": 1}, {"side": 1}, {"first": 1}):
        found = sampled(tokenizer, lines, 0.5, **other)
        assert np.mean([a == b for a, b in zip(found, whole, strict=True)]) < 0.2


def test_a_sentence_that_would_be_too_long_keeps_its_usual_pieces(tokenizer):
    usual = tokenizer.source.encode(TEXT)
    free = sampled(tokenizer, TEXT, 0.5)
    found = sampled(tokenizer, TEXT, 0.5, max_length=12)
    expected = [u if len(ids) > 12 else ids for u, ids in zip(usual, free, strict=True)]
    assert found == expected and usual != found != free


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"vocab_size": 20, "model_type": "unigram"}, "type BPE, found UNIGRAM"),
        ({"vocab_size": 60, "split_by_whitespace": False}, "has a space within it"),
    ],
)
def test_models_without_merges_within_words_are_refused(options, fault):
    ids = {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3}
    vocabulary = BpeVocabulary(foreign_model(TEXT, **ids, **options))
    with pytest.raises(UserError, match=fault):
        BpeDropout(Tokenizer("bpe", vocabulary, vocabulary), 0.1, 1, 99)


def test_the_text_of_an_epoch_is_encoded_in_parts_and_kept_in_a_file(
    tokenizer, tmp_path, monkeypatch
):
    monkeypatch.setattr(epoch_text, "_PAIRS_AT_ONCE", 7)
    lines = TEXT + HARD
    corpus = EncodedCorpus(*(encode_lines(tokenizer.source, s) for s in (lines, lines[::-1])))
    altered, dropout = (
        AlteredPairs(tokenizer, {"copies": 0.3, "typos": 0.2}, 1, 99),
        BpeDropout(tokenizer, 0.3, 1, 99),
    )
    encoded = EpochText(99, altered, dropout).encode(corpus, 4, tmp_path)
    altered_corpus = altered.sample(corpus, 4)
    for side in (0, 1):
        assert isinstance(encoded[side].ids, np.memmap)
        assert rows_of(encoded[side]) == rows_of(dropout.sample(altered_corpus[side], side, 4))
    assert not list(tmp_path.iterdir())
