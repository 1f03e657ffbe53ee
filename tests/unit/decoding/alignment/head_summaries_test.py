"""Tests of summaries of attention heads against a NumPy transcription of their definitions."""

import collections

import numpy as np
import pytest

from nmt_zoo import models
from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.tokenization.tokenizers import train_tokenizer
from nmt_zoo.decoding.alignment import head_summaries
from nmt_zoo.decoding.alignment.aligner import Aligner
from nmt_zoo.decoding.alignment.head_summaries import record_of, summarise_heads, table_of
from nmt_zoo.decoding.alignment.links import GoldAlignment
from tests.tiny import pairs, small_settings

SOURCES, TARGETS = (list(side) for side in zip(*pairs(40), strict=True))
NAMES = ("a.en", "a.de")


@pytest.fixture(scope="module")
def tokenizers():
    return {
        "word": train_tokenizer("word", SOURCES, TARGETS),
        "bpe": train_tokenizer("bpe", SOURCES, TARGETS, vocab_size=300),
    }


def made(preset, tokenizer, **settings):
    sizes = len(tokenizer.source), len(tokenizer.target)
    return models.create(preset, *sizes, **{**small_settings(preset), **settings})


def summaries(model, tokenizer, lines=(SOURCES, TARGETS), **options):
    return summarise_heads(model, tokenizer, (NAMES, lines), **options)


def transcribed(maps, source_length, target_length):
    """Returns name -> (sums of entropy, distance and share `[H, 3]`, number of queries)."""
    found = {}
    for name, weights in maps.items():
        num_heads, queries, keys = weights.shape
        if num_heads > 1:
            weights = np.concatenate([weights, weights.mean(axis=0, keepdims=True)])
        sums = np.zeros([len(weights), 3])
        for t in range(queries):
            for s in range(keys):
                a = weights[:, t, s].astype(float)
                distance = abs(t - s)
                if name.endswith("cross"):
                    distance = abs(t / target_length - s / source_length)
                end = 0 if name.startswith("decoder") and name.endswith("self") else keys - 1
                entropy = -a * np.log(np.where(a > 0, a, 1))
                sums += np.stack([entropy, a * distance, a * (s == end)], axis=1)
        found[name] = sums, queries
    return found


@pytest.mark.parametrize("preset", ["transformer_tiny", "ibm2"])
def test_summaries_are_those_of_the_definition_whatever_the_batches(
    tokenizers, monkeypatch, preset
):
    """Pairs of many lengths, in several encodings and batches, with empty sides among them."""
    tokenizer = tokenizers["word" if preset == "ibm2" else "bpe"]
    model = made(preset, tokenizer, **({"num_word_pairs": 10} if preset == "ibm2" else {}))
    sources, targets = ["", *SOURCES[:8], "dog"], ["Hund", *TARGETS[:8], " "]
    monkeypatch.setattr(head_summaries, "_PAIRS_AT_ONCE", 4)
    monkeypatch.setattr(head_summaries, "_CELLS", 20_000)
    # align.py with --layer and --head finds the links of the mean of a layer.
    place = {"layer": 1, "head": "mean"} if preset == "transformer_tiny" else {}
    links = Aligner(model, tokenizer, **place).links(sources, targets)
    gold = [GoldAlignment(*[frozenset(of_pair)] * 2) for of_pair in links]
    found = summaries(model, tokenizer, (sources, targets), gold=gold)
    assert (found.pairs, found.empty, found.unknown) == (8, 2, 0)

    queries, counted = collections.Counter(), {}
    for lines in zip(SOURCES[:8], TARGETS[:8], strict=True):
        ids = [v.encode([x])[0] for v, x in zip(tokenizer[1:], lines, strict=True)]
        maps = model.attention_maps(*(np.array([x], np.int32) for x in ids))
        maps = {name: np.array(weights)[0] for name, weights in maps.items()}
        for name, (sum_, count) in transcribed(maps, *map(len, ids)).items():
            counted[name] = counted.get(name, 0) + sum_
            queries[name] += count
    heads = {(head.kind, head.layer, head.head): head for head in found.heads}
    assert len(heads) == sum(len(values) for values in counted.values())
    for name, values in counted.items():
        side, layer, attended = name.split("/")
        kind = "cross" if attended == "cross" else side
        for number, expected in enumerate(values / queries[name], start=1):
            mean = number == len(values) > 1
            head = heads[kind, int(layer) + 1, "mean" if mean else number]
            np.testing.assert_allclose(head[3:6], expected, rtol=2e-4, atol=1e-6)
    score = heads["cross", 1, "mean" if place else 1].score
    assert score.aer == 0 and score.precision == 1


def test_unknown_words_at_the_end_of_a_long_text_are_counted(tokenizers, monkeypatch):
    monkeypatch.setattr(head_summaries, "_PAIRS_AT_ONCE", 3)
    word = tokenizers["word"]
    lines = ["dog", "cat", "dog", "qqq"], ["Hund", "Katze", "Hund", "zzz"]
    found = summaries(made("attention_ibm2", word), word, lines)
    assert found.pairs == 4 and found.unknown == 2


def test_the_table_and_the_record_have_every_head(tokenizers):
    gold = [GoldAlignment(*[frozenset({(0, 0)})] * 2)]
    model = made("transformer_tiny", tokenizers["bpe"], num_heads=1)
    found = summaries(model, tokenizers["bpe"], (["dog"], ["Hund"]), gold=gold)
    lines = table_of(found.heads)
    assert [line for line in lines if "attention" in line] == [
        "self-attention of the encoder",
        "self-attention of the decoder",
        "attention to the source",
    ]
    assert lines[1].split() == ["layer", "head", "entropy", "distance", "on", "</s>"]
    assert lines[4].split()[-1] == "<s>" and lines[7].split()[-3] == "AER"
    *_, cross = found.heads
    assert lines[8].split() == ["1", "1", *(f"{x:.4f}" for x in (*cross[3:6], *cross.score))]
    assert lines[-1] == f"aligns best: layer 1, head 1 (AER {cross.score.aer:.4f})"
    record = record_of(found)
    kinds = [head["kind"] for head in record["heads"]]
    assert record["sentences"] == 1 and kinds == ["encoder", "decoder", "cross"]
    assert record["heads"][2]["score"] == cross.score._asdict()
    assert record["heads"][2]["entropy"] == pytest.approx(cross.entropy)


def test_what_cannot_be_summarised_is_refused(tokenizers, monkeypatch):
    word = tokenizers["word"]
    with pytest.raises(UserError, match="has no attention"):
        summaries(made("lstm_seq2seq", word), word)
    model = made("attention_ibm2", word)
    with pytest.raises(UserError, match=r"a\.en and a\.de: one side of every pair is empty"):
        summaries(model, word, (["", "dog"], ["Hund", ""]))
    with pytest.raises(UserError, match=r"a\.en, lines 1 to 2: the model knows none"):
        summaries(model, word, (["qqq", "zzz"], ["Hund", "Hund"]))
    monkeypatch.setattr(head_summaries, "_MOST_CELLS", 50)
    with pytest.raises(UserError, match=r"line 2: 8 tokens, too many for the 1 heads"):
        summaries(model, word, (["dog", "dog " * 7], ["Hund", "Hund"]))
