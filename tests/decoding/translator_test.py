"""Strings to strings, and the same inside a SavedModel."""

import numpy as np
import pytest
import tensorflow as tf

import models
from data_pipeline.files import UserError
from data_pipeline.tokenizers import EOS_ID, train_tokenizer
from decoding.serving import ServingModule
from decoding.translator import Translator
from tests.tiny import SMALL, pairs

# Ops of TensorFlow itself: listed before tensorflow_text can add its own.
PLAIN_OPS = set(tf.raw_ops.__dict__)

LINES = ["one dog", "", "cat sees big house two three", "zebra", "  ", "dog dog dog dog dog"]


@pytest.fixture(scope="module", params=["bpe", "word"])
def parts(request):
    text = [list(side) for side in zip(*pairs(100), strict=True)]
    tokenizer = train_tokenizer(request.param, *text, vocab_size=300, min_word_count=1)
    tie = "all" if tokenizer.shared else "target"
    model = models.create(
        "transformer_tiny",
        len(tokenizer.source),
        len(tokenizer.target),
        tie_embeddings=tie,
        **SMALL,
    )
    for weight in model.trainable_variables:  # Sharper than fresh weights: no ties.
        weight.assign(weight * 1.5)
    return model, tokenizer


def test_order_and_batch_size_change_nothing(parts):
    at_once = Translator(*parts, batch_size=32).translate(LINES)
    singly = Translator(*parts, batch_size=1).translate(LINES[::-1])[::-1]
    for one, other in zip(at_once, singly, strict=True):
        assert one[0].ids == other[0].ids
        assert one[0].score == pytest.approx(other[0].score, abs=1e-4)


def test_one_line_in_is_one_line_out_and_empty_stays_empty(parts):
    results = Translator(*parts).translate(LINES)
    assert len(results) == len(LINES)
    assert [best[0].text for best in results][1] == ""
    assert results[1][0].score == 0.0 and results[1][0].finished
    assert Translator(*parts).translate([]) == []


def test_n_best_are_distinct_and_the_best_is_first(parts):
    for best in Translator(*parts, beam_size=4).translate([LINES[0], LINES[2]], n_best=4):
        assert len({tuple(t.ids) for t in best}) == 4
        scores = [t.score for t in best if t.finished]
        assert scores == sorted(scores, reverse=True)


def test_a_line_of_unknown_words_is_named(parts):
    translator = Translator(*parts)
    if parts[1].kind == "bpe":  # Bytes spell every word.
        translator.check_known(LINES, "in.en")
    else:
        with pytest.raises(UserError, match=r"in\.en, line 4: no token of it is known"):
            translator.check_known(LINES, "in.en")


@pytest.fixture(scope="module")
def served(parts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    ServingModule(*parts, beam_size=3).save(folder)
    return tf.saved_model.load(folder)


def test_saved_model_translates_as_the_translator(parts, served):
    found = served.signatures["serving_default"](text=tf.constant(LINES))
    expected = Translator(*parts, beam_size=3).translate(LINES)
    assert [t.decode() for t in found["translation"].numpy()] == [b[0].text for b in expected]
    np.testing.assert_allclose(found["score"], [b[0].score for b in expected], atol=1e-4)


def test_saved_model_translates_ids_and_ignores_what_is_behind_the_length(parts, served):
    _, tokenizer = parts
    ids = tokenizer.source.encode([LINES[0], LINES[2]])
    lengths = [len(row) for row in ids]
    padded = np.full((2, max(lengths) + 2), 5, np.int32)  # Not 0: clients pad with anything.
    for row, values in zip(padded, ids, strict=True):
        row[: len(values)] = values
    found = served.signatures["translate_ids"](
        source_ids=tf.constant(padded), source_lengths=tf.constant(lengths)
    )
    expected = Translator(*parts, beam_size=3).translate([LINES[0], LINES[2]])
    for row, best in enumerate(expected):
        length = int(found["target_lengths"][row])
        assert found["target_ids"][row, :length].numpy().tolist() == best[0].ids


def test_saved_model_tells_attention_with_its_tokens(parts, served):
    _, tokenizer = parts
    source, target = ["one dog", "cat sees house"], ["eins", "Katze"]
    found = served.signatures["attention"](source=tf.constant(source), target=tf.constant(target))
    for row in range(2):
        s, t = (
            v.encode([x[row]])[0]
            for v, x in ((tokenizer.source, source), (tokenizer.target, target))
        )
        assert s[-1] == EOS_ID
        tokens = [token.decode() for token in found["source_tokens"][row].numpy()]
        assert [token for token in tokens if token] == tokenizer.source.pieces(s)
        weights = found["attention"][row].numpy()
        np.testing.assert_allclose(weights[: len(t), : len(s)].sum(axis=1), 1, atol=1e-5)
        assert not weights[:, len(s) :].any() and not weights[len(t) :].any()


def test_saved_model_uses_ops_that_stock_servers_have(parts, tmp_path):
    folder = tmp_path / "model"
    ServingModule(*parts).save(folder)
    from tensorflow.core.protobuf import saved_model_pb2

    saved = saved_model_pb2.SavedModel()
    saved.ParseFromString((folder / "saved_model.pb").read_bytes())
    library = saved.meta_graphs[0].graph_def
    ops = {node.op for node in library.node}
    ops |= {node.op for function in library.library.function for node in function.node_def}
    assert not {op for op in ops if op.startswith(("Xla", "PyFunc", "EagerPyFunc"))}
    # What the TensorFlow Serving binary links beside TensorFlow's own ops.
    linked = {"SentencepieceOp", "SentencepieceTokenizeOp", "SentencepieceDetokenizeOp"}
    assert {op for op in ops if op not in PLAIN_OPS} <= linked
