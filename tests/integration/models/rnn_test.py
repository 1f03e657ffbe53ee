"""Tests of recurrent models only; the laws of all models are in contract_test.py."""

import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo import models
from tests.unit.models.layers_test import close, ids, random_model, single, softmax, weights_of

PAD, BOS = 0, 2
TINY = {
    "embedding_width": 4,
    "encoder_units": 3,
    "decoder_units": 6,
    "embedding_dropout": 0.0,
    "dropout": 0.0,
    "output_dropout": 0.0,
}
SOURCE = np.array([[5, 9, 4, 10, 3], [8, 6, 3, 0, 0]], np.int32)
TARGET = np.array([[6, 8, 4, 3], [7, 3, 0, 0]], np.int32)
B, S = SOURCE.shape
T = TARGET.shape[1]


def create(preset="lstm_luong", **settings):
    return random_model(preset, **{**TINY, **settings})


def inputs(source_ids=SOURCE):
    return {"source_ids": ids(source_ids), "target_in_ids": models.shift_right(ids(TARGET), BOS)}


def logits_of(model, source_ids=SOURCE):
    return model(inputs(source_ids)).numpy()


# The source


@pytest.mark.parametrize("width", [2, 3])
def test_convolution_is_a_sum_over_a_window_of_embeddings(width):
    model = create("lstm_conv", convolution_width=width, rank=2)
    read = []
    layer = model.encoder_layers[0]
    model.encoder_layers[0] = lambda x, step_mask: read.append(x) or layer(x, step_mask=step_mask)
    model.encode(ids(SOURCE))
    model.encoder_layers[0] = layer
    kernel, bias = (w.numpy() for w in model.convolution.weights)  # [width, E, E]
    x = model.source_embedding.embeddings.numpy()[SOURCE] * (SOURCE != PAD)[..., None]
    left = (width - 1) // 2
    x = np.pad(x, ((0, 0), (left, width - 1 - left), (0, 0)))
    expected = bias + sum(x[:, k : k + S] @ kernel[k] for k in range(width))
    close(read[0], expected)


def test_reversal_reads_backwards_and_reports_attention_in_the_order_of_the_text():
    plain, turned = create(), create(reverse_source=True)
    turned.set_weights(plain.get_weights())
    backwards = np.array([[10, 4, 9, 5, 3], [6, 8, 3, 0, 0]], np.int32)
    close(logits_of(turned), logits_of(plain, backwards))
    expected = plain.align(ids(backwards), ids(TARGET)).numpy()
    actual = turned.align(ids(SOURCE), ids(TARGET)).numpy()
    close(actual[0], expected[0][:, [3, 2, 1, 0, 4]])
    close(actual[1], expected[1][:, [1, 0, 2, 3, 4]])
    assert np.abs(actual - expected).max() > 1e-3


def test_the_encoder_can_read_the_start_of_the_sentence_first():
    """h_0 = cell(0, v(<s>)) and h_j = cell(h_(j-1), v_j); the attention sees h_1 to h_n."""
    model = create("rnn_attention", rank=2, source_start=True)
    read = []
    model.decoder.project_memory = lambda memory: read.append(memory.numpy()) or {}
    model.encode(ids(SOURCE))
    w = weights_of(model)
    names = ("kernel", "recurrent_kernel", "bias")
    b, a, c = (w[f"encoder_0/cell/{name}"] for name in names)
    for row, sentence in enumerate(SOURCE):
        h = np.zeros(a.shape[0])
        states = []
        for token in [BOS, *sentence[sentence != PAD]]:
            h = np.tanh(h @ a + w["source_embedding/embeddings"][token] @ b + c)
            states.append(h)
        close(read[0][row, : len(states) - 1], states[1:], 1e-5)


def test_one_network_reads_source_start_and_target_one_after_the_other():
    model = create("lm_sep", encoder_units=6, decoder_units=6)
    w = weights_of(model)
    logits = model(inputs()).numpy()
    (layer,) = model.encoder_layers
    assert layer is model.decoder.stack[0]
    for row, (source, target) in enumerate(zip(SOURCE, TARGET, strict=True)):
        words, target = source[source != PAD], target[target != PAD]
        read = [*words[-2::-1], words[-1]]  # Reversed, except `</s>`.
        tables = w["source_embedding/embeddings"], w["target_embedding/embeddings"]
        text = np.concatenate([tables[0][read], tables[1][[BOS, *target[:-1]]]])
        outputs, _ = layer(single(text[None]))
        expected = outputs[0, len(read) :] @ w["output/kernel"] + w["output/bias"]
        close(logits[row, : target.size], expected, 1e-4)


# The decoder


@pytest.mark.parametrize(("combine", "input_feeding"), [("tanh", True), ("sum", False)])
def test_outputs_are_those_of_luong_stepped_by_hand(combine, input_feeding):
    model = create(combine=combine, input_feeding=input_feeding)
    decoder, context = model.decoder, model.encode(ids(SOURCE))
    state = [tf.zeros((B, 6))] * 2
    output = np.zeros((B, 6), np.float32)
    mask = SOURCE != PAD
    keys, values = context["keys"].numpy(), context["values"].numpy()
    w = weights_of(model)
    logits = []
    for token in models.shift_right(ids(TARGET), BOS).numpy().T:
        x = single(w["target_embedding/embeddings"][token])
        state = decoder.stack[0].step(x, state, single(output) if input_feeding else None)
        h = state[0].numpy()
        scores = np.einsum("bu,bus->bs", h, keys)
        c = np.einsum("bs,bsm->bm", softmax(np.where(mask, scores, -np.inf)), values)
        if combine == "tanh":  # Equation 5.
            output = np.tanh(np.concatenate([c, h], -1) @ w["decoder/combination/kernel"])
        else:
            output = c + h
        logits.append(output @ w["output/kernel"] + w["output/bias"])
    close(model(inputs()), np.stack(logits, 1), 1e-4)


@pytest.mark.parametrize(
    ("attend_before", "combine"), [(False, "tanh"), (True, "tanh"), (True, "sum")]
)
def test_attention_before_the_cell_has_not_seen_the_token(attend_before, combine):
    settings = {"rank": 3, "decoder_units": 5, "combine": combine}
    model = create("gru_bahdanau", attend_before=attend_before, **settings)
    context = model.encode(ids(SOURCE))
    state = model.initial_state(context)
    first, second = (model.decode_step(ids([n] * B), 0, state, context) for n in (4, 9))
    assert (np.abs(first.attention - second.attention).max() < 1e-7) == attend_before
    assert np.abs(first.logits - second.logits).max() > 1e-2


def test_without_attention_weights_are_equal_and_there_is_nothing_to_picture():
    model = create("lstm_seq2seq", encoder_units=6)
    expected = (SOURCE != PAD) / (SOURCE != PAD).sum(1, keepdims=True)
    close(model.align(ids(SOURCE), ids(TARGET)), expected[:, None].repeat(T, 1))
    assert model.attention_maps(ids(SOURCE), ids(TARGET)) == {}


@pytest.mark.parametrize(("encoder", "decoder"), [(1, 3), (3, 2)])
def test_decoder_starts_from_the_encoders_last_states_matched_from_above(encoder, decoder):
    layers = {"num_encoder_layers": encoder, "num_decoder_layers": decoder}
    model = create(initial_state="final", **layers)
    embedded = model.source_embedding(ids(SOURCE))
    _, states = model._read(embedded, tf.constant(SOURCE != PAD), False)
    start = model.initial_state(model.encode(ids(SOURCE)))["cells"]
    for i in range(decoder):
        for leaf, expected in zip(
            start[2 * i : 2 * i + 2], states[max(encoder - decoder + i, 0)], strict=True
        ):
            close(leaf, expected)


@pytest.mark.parametrize("kind", ["projected", "projected_tanh"])
def test_projected_start_is_a_product_with_the_last_state(kind):
    model = create(initial_state=kind)
    _, [states] = model._read(
        model.source_embedding(ids(SOURCE)), tf.constant(SOURCE != PAD), False
    )
    w, start = weights_of(model), model.encode(ids(SOURCE))["start"]
    for index, (actual, state) in enumerate(zip(start, states, strict=True)):
        product = state.numpy() @ w[f"start_{index}/kernel"]
        if kind == "projected_tanh":
            product = np.tanh(product + w[f"start_{index}/bias"])
        close(actual, product)


@pytest.mark.parametrize("preset", ["lstm_luong", "gru_bahdanau", "rnn_attention"])
def test_output_dropout_drops_in_training_also_inside_the_loop(preset):
    model = create(preset, output_dropout=0.5, rank=3, decoder_units=64)
    outputs, again = (model.features(inputs(), training).numpy() for training in (True, False))
    assert 0.35 < np.mean(outputs == 0) < 0.65
    assert again.all()
    if not model.settings["input_feeding"]:
        kept = outputs != 0
        close(outputs[kept], 2 * again[kept])


@pytest.mark.parametrize("layers", [1, 2])
def test_dropout_stands_behind_every_layer_of_the_encoder(layers):
    model = create(dropout=0.5, num_encoder_layers=layers, encoder_units=16, decoder_units=32)
    whole, values = (model.encode(ids(SOURCE), training)["values"] for training in (False, True))
    kept = values.numpy() != 0
    assert 0.35 < kept.mean() < 0.65
    twice = np.isclose(values.numpy()[kept], 2 * whole.numpy()[kept], atol=1e-5)
    assert twice.all() if layers == 1 else twice.mean() < 0.5


@pytest.mark.parametrize("input_feeding", [False, True])
def test_dropout_stands_between_the_layers_of_the_decoder_also_inside_the_loop(input_feeding):
    """Weights of dropped units get no gradient: half of all weights, for one position."""
    settings = {"dropout": 0.5, "decoder_units": 64, "input_feeding": input_feeding}
    model = create("lstm_luong", num_decoder_layers=2, **settings)
    with tf.GradientTape() as tape:
        batch = {"source_ids": ids(SOURCE[:1]), "target_in_ids": ids([[BOS]])}
        total = tf.reduce_sum(model.features(batch, training=True))
    kernels = [layer.cell.kernel for layer in model.decoder.stack]
    unused = [(g.numpy() == 0).all(axis=1).mean() for g in tape.gradient(total, kernels)]
    assert unused[0] == 0 and 0.3 < unused[1] < 0.7


# The lexical model


def test_lexical_logits_are_those_of_section_4_and_come_from_source_embeddings():
    model = create("lstm_lexical")
    w = weights_of(model)
    weights = model.align(ids(SOURCE), ids(TARGET)).numpy()
    embeddings = w["source_embedding/embeddings"][SOURCE]
    f = np.tanh(weights @ embeddings)
    h = np.tanh(f @ w["lexical_hidden/kernel"]) + f
    with_it = logits_of(model)
    model.lexical_output.kernel.assign(tf.zeros_like(model.lexical_output.kernel))
    close(with_it - logits_of(model), h @ w["lexical_output/kernel"], 1e-4)


# Settings


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"score": "none"}, "initial_state must be one of final.*'zero'"),
        ({"score": "none", "initial_state": "final", "lexical": True}, "lexical needs attention"),
        ({"score": "none", "attend_before": True}, "attend_before needs attention"),
        ({"score": "dot", "encoder_units": 4}, "as wide as decoder_units, found 8 and 6"),
        ({"initial_state": "final", "bidirectional": False}, "found 3 and 6.*=projected"),
        ({"score": "reduced_rank", "rank": 7}, "rank must be at most 6.*found 7"),
        ({"score": "reduced_rank", "bidirectional": False}, "rank must be at most 3.*found 6"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings, expected):
    with pytest.raises(models.SettingError, match=expected):
        create(**settings)
