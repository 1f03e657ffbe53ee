"""Updates by gradient descent, with a learning rate of 1, so that a change is a gradient."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo import models
from nmt_zoo.configuration.resolver import options_of
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import SPECIALS, WordVocabulary
from nmt_zoo.training.devices.one_device import OneDevice
from nmt_zoo.training.setup import Run, RunConfig
from nmt_zoo.training.ways.gradient import losses as loss_functions
from nmt_zoo.training.ways.gradient.adam import FusedAdam, adam
from nmt_zoo.training.ways.gradient.gradient import Gradient
from nmt_zoo.training.ways.gradient.moving_average import MovingAverage
from nmt_zoo.training.ways.gradient.teacher import make_teacher
from tests.tiny import SMALL, save_model

pytestmark = pytest.mark.usefixtures("eagerly")

SOURCE = np.array([[5, 5, 5, 5, 9, 3], [8, 4, 3, 0, 0, 0], [6, 3, 0, 0, 0, 0]], np.int32)
TARGET = np.array([[6, 10, 4, 6, 9, 8, 3], [9, 3, 0, 0, 0, 0, 0], [7, 3, 0, 0, 0, 0, 0]], np.int32)


def batch(rows=slice(None), source_columns=0, target_columns=0):
    def padded(array, columns):
        return tf.constant(np.pad(array[rows], ((0, 0), (0, columns))))

    return {
        "source_ids": padded(SOURCE, source_columns),
        "target_ids": padded(TARGET, target_columns),
    }


def create_model():
    """Makes a model without dropout and tied embeddings: gradients are sparse."""
    keras.utils.set_random_seed(0)
    settings = {**SMALL, "width": 8, "ffn_width": 8, "dropout": 0.0, "tie_embeddings": "none"}
    return models.create("transformer_tiny", 11, 11, **settings)


shared_model = functools.cache(create_model)  # Every test leaves its weights as they were.


def create_update(**settings):
    return Gradient(shared_model(), keras.optimizers.SGD(1.0), **settings)


def change(update, of_batch):
    """Makes one update and undoes it; returns (all changes as one vector, metrics)."""
    before = update.model.get_weights()
    metrics = update.step(of_batch)
    changes = [a - b for a, b in zip(update.model.get_weights(), before, strict=True)]
    update.model.set_weights(before)
    return np.concatenate([c.ravel() for c in changes]), metrics


@pytest.fixture(scope="module")
def update():
    return create_update(clip_norm=0)


@pytest.fixture(scope="module")
def whole(update):
    return change(update, batch())


def test_loss_by_sentences_is_the_sum_over_their_tokens(whole):
    changes, metrics = change(create_update(clip_norm=0, loss_average="sentences"), batch())
    tokens, sentences = (TARGET != 0).sum(), len(TARGET)
    np.testing.assert_allclose(changes, whole[0] * tokens / sentences, atol=1e-4)
    # The reported loss is still over tokens.
    np.testing.assert_allclose(metrics["loss"], whole[1]["loss"], rtol=1e-6)


def test_change_is_the_negative_gradient_of_the_mean_loss(update, whole):
    changes, metrics = whole
    weights = update.model.trainable_variables
    before = update.model.get_weights()
    direction = np.random.default_rng(0).normal(size=changes.shape)
    direction /= np.linalg.norm(direction)
    losses = []
    for sign in (1, -1):
        offset = 0
        for weight, value in zip(weights, before, strict=True):
            part = direction[offset : offset + value.size].reshape(value.shape)
            weight.assign(value + sign * 1e-2 * part)
            offset += value.size
        count, loss, *_ = update.gradients(batch())[1].numpy()
        losses.append(loss / count)
    update.model.set_weights(before)
    slope = (losses[0] - losses[1]) / 2e-2
    np.testing.assert_allclose(slope, -changes @ direction, rtol=0.02, atol=1e-3)
    assert metrics["loss"][0] > 0


def test_padding_changes_no_update(update, whole):
    changes, metrics = change(update, batch(source_columns=3, target_columns=2))
    np.testing.assert_allclose(changes, whole[0], atol=1e-5)
    for name, (total, count) in metrics.items():
        np.testing.assert_allclose(total, whole[1][name][0], rtol=1e-5)
        assert count == whole[1][name][1]


def test_metrics_are_sums_and_counts(update, whole):
    metrics = whole[1]
    assert metrics.keys() == {"loss", "nll", "gradient_norm", "skipped"}
    tokens = (TARGET != 0).sum()
    assert [float(count) for _, count in metrics.values()] == [tokens, tokens, 1, 1]
    scores = update.model.score(*batch().values()).numpy()
    np.testing.assert_allclose(metrics["nll"][0], -scores[TARGET != 0].sum(), rtol=1e-5)
    assert {x.dtype for metric in metrics.values() for x in metric} == {tf.float32}


@pytest.mark.parametrize("rows", [1, 3, 100])
def test_evaluation_gives_the_nll_in_groups_of_any_size_and_changes_nothing(
    rows, update, whole, monkeypatch
):
    monkeypatch.setattr(loss_functions, "_LOGITS", 0)
    monkeypatch.setattr(loss_functions, "_ROWS", rows)
    before = update.model.get_weights()
    metrics = update.evaluate(batch())
    for a, b in zip(update.model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(metrics["nll"], whole[1]["nll"], rtol=1e-6)


def test_norm_counts_a_repeated_token_as_the_one_row_it_changes(whole):
    """Token 5 occurs four times in a source; its gradients are added before they are squared."""
    changes, metrics = whole
    np.testing.assert_allclose(metrics["gradient_norm"][0], np.linalg.norm(changes), rtol=1e-5)


def test_clipping_shortens_long_gradients_alone_and_keeps_their_direction(whole):
    clipped, metrics = change(create_update(clip_norm=0.25), batch())
    norm = np.linalg.norm(whole[0])
    assert norm > 0.25
    np.testing.assert_allclose(clipped, whole[0] * 0.25 / norm, atol=1e-6)
    np.testing.assert_allclose(metrics["gradient_norm"][0], norm, rtol=1e-5)
    short, _ = change(create_update(clip_norm=100.0), batch())
    np.testing.assert_allclose(short, whole[0], atol=1e-6)


def test_fused_adam_makes_the_steps_of_adam():
    settings = {"learning_rate": 0.1, "beta_1": 0.8, "beta_2": 0.9, "epsilon": 1e-3}
    results = []
    for optimizer in (keras.optimizers.Adam(**settings), FusedAdam(**settings)):
        weight = keras.Variable([1.0, -2.0, 3.0])
        optimizer.build([weight])
        for step in range(4):
            optimizer.apply([tf.constant([0.5, -4.0, 0.0]) * (step - 1.5)], [weight])
        results.append([variable.numpy() for variable in (*optimizer.variables, weight)])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_muon_turns_matrices_by_orthogonal_steps_and_leaves_all_else_to_adam():
    """A step has the singular vectors of the momentum, and singular values near 1."""
    shapes = {"tall": (6, 4), "wide": (4, 6), "square": (5, 5), "embeddings": (6, 4), "bias": (6,)}
    shapes["kernel"] = (4, 6)  # of an output layer
    rng = np.random.default_rng(2)
    gradients = [{n: rng.normal(size=s) for n, s in shapes.items()} for _ in range(2)]
    of_adam = {"learning_rate": 0.1, "warmup_steps": 1, "schedule": "constant"}
    ends, last_steps = [], {}
    for muon in (None, "float32"):
        optimizer = adam(**of_adam, muon=muon)
        weights = {}
        for name, size in shapes.items():
            layer = "output" if name == "kernel" else "layer"
            with keras.name_scope("model"), keras.name_scope(layer):
                weights[name] = keras.Variable(np.ones(size, np.float32), name=name)
        optimizer.build(list(weights.values()))
        for of_step in gradients:
            before = {n: w.numpy() for n, w in weights.items()}
            of_step = [tf.constant(g, tf.float32) for g in of_step.values()]
            optimizer.apply(of_step, list(weights.values()))
        ends.append({n: w.numpy() for n, w in weights.items()})
        last_steps = {n: ends[-1][n] - before[n] for n in shapes}
    for name in ("embeddings", "bias", "kernel"):
        np.testing.assert_array_equal(ends[0][name], ends[1][name])
    for name in ("tall", "wide", "square"):
        first, second = (of_step[name] for of_step in gradients)
        left, _, right = np.linalg.svd(second + 0.95 * (second + 0.95 * first), False)
        size = 0.1 * 0.2 * np.sqrt(max(shapes[name]))
        turned = left.T @ last_steps[name] @ right.T / -size
        np.testing.assert_allclose(turned, np.diag(np.diag(turned)), atol=0.05)
        assert 0.9 < np.diag(turned).min() <= np.diag(turned).max() < 1.1


@pytest.mark.parametrize("loss_average", ["tokens", "sentences"])
def test_batches_of_one_update_count_as_one_large_batch(loss_average):
    update = create_update(clip_norm=0.25, loss_average=loss_average)
    whole = change(update, batch())
    for parts in ([[0], [1], [2]], [[1, 2], [0]]):
        before = update.model.get_weights()
        metrics = update.step(*map(batch, parts))
        changes = np.concatenate(
            [(a - b).ravel() for a, b in zip(update.model.get_weights(), before, strict=True)]
        )
        update.model.set_weights(before)
        np.testing.assert_allclose(changes, whole[0], atol=1e-6)
        for name, (total, count) in metrics.items():
            np.testing.assert_allclose(total, whole[1][name][0], rtol=1e-5)
            assert count == whole[1][name][1]


def test_adamw_shrinks_matrices_by_rate_and_decay_and_leaves_all_else_alone():
    """Without a gradient, only the decay changes weights."""
    weights = create_model().trainable_variables
    for weight in weights:
        weight.assign(tf.ones_like(weight))
    optimizer = adam(learning_rate=0.1, warmup_steps=1, schedule="constant", weight_decay=0.2)
    optimizer.build(weights)
    optimizer.apply([tf.zeros(weight.shape) for weight in weights], weights)
    assert {weight.name for weight in weights} == {"kernel", "embeddings", "bias", "gamma", "beta"}
    for weight in weights:
        expected = 1.0 if weight.name in ("bias", "gamma", "beta") else 1 - 0.1 * 0.2
        np.testing.assert_allclose(weight, np.full(weight.shape, expected), atol=1e-6)


def test_l2_adds_the_squares_of_matrices_to_the_loss(whole):
    changes, metrics = change(create_update(clip_norm=0, l2=0.01), batch())
    weights = create_update().model.trainable_variables
    penalty = [2 * 0.01 * w.numpy().ravel() * (len(w.shape) > 1) for w in weights]
    np.testing.assert_allclose(changes, whole[0] - np.concatenate(penalty), atol=1e-5)
    np.testing.assert_allclose(metrics["loss"], whole[1]["loss"], rtol=1e-6)


def test_smoothing_over_words_leaves_padding_out_of_the_sum():
    """The survey's formula: the inner sum over the classes begins after padding."""
    update = create_update(clip_norm=0, smoothing_over="words", label_smoothing=0.3)
    of_batch = batch()
    target_in_ids = models.shift_right(of_batch["target_ids"], 2)
    logits = update.model({"source_ids": of_batch["source_ids"], "target_in_ids": target_in_ids})
    log_probs = tf.nn.log_softmax(logits).numpy()
    labels = 0.7 * np.eye(11)[TARGET] + 0.3 / 11
    expected = -((labels * log_probs)[..., 1:].sum(-1) * (TARGET != 0)).sum()
    _, metrics = change(update, of_batch)
    np.testing.assert_allclose(metrics["loss"][0], expected, rtol=1e-5)


def test_a_moving_average_follows_the_weights_and_stands_in_for_them():
    weight = keras.Variable([1.0, 2.0])
    average = MovingAverage([weight], decay=0.5)
    expected = np.array([1.0, 2.0])
    for updates in range(1, 12):
        weight.assign([float(updates), -1.0])
        average.follow(tf.constant(updates))
        share = 1 - min(0.5, (1 + updates) / (10 + updates))
        expected += share * (weight.numpy() - expected)
    with average.in_place():
        np.testing.assert_allclose(weight, expected, rtol=1e-6)
    np.testing.assert_array_equal(weight, [11.0, -1.0])


def test_an_update_is_made_with_the_options_of_its_run(tmp_path):
    """Values that are no defaults and all different, so that none is left out or exchanged."""
    words = WordVocabulary([*SPECIALS, *"abcdefg"])
    tokenizer = Tokenizer("word", words, words)
    model = models.create("transformer_tiny", 11, 11, **SMALL)
    save_model(tmp_path / "teacher", "transformer_tiny", SMALL, tokenizer)
    given = {"label_smoothing": 0.21, "clip_norm": 0.22, "ema_decay": 0.23}
    given |= {"token_dropout": 0.25, "guide_weight": 0.27}
    given |= {"teacher": str(tmp_path / "teacher"), "teacher_weight": 0.28, "adam_beta_2": 0.29}
    given |= {"optimizer": "muon"}
    given |= {"weight_decay": 0.3, "learning_rate": 0.31}
    given |= {"schedule": "plateau", "plateau_patience": 32}
    given |= {"warmup_steps": 34, "loss_average": "sentences"}
    options = options_of("transformer_tiny", "files", given)
    parts = {"devices": OneDevice(), "guide": models.create("hmm_alignment", 11, 11)}
    run_config = RunConfig("transformer_tiny", {}, options, *[None] * 5)
    others = dict.fromkeys({*Run._fields} - {*parts, "run_config", "teacher"})
    run = Run(run_config=run_config, teacher=make_teacher(options), **parts, **others)
    update = Gradient.of_run(run, model)
    rate, optimizer = update.plateau, update.optimizer
    found = {
        **{name: getattr(update, name) for name in ("label_smoothing", "clip_norm")},
        **{"ema_decay": update.average.decay, "loss_average": update.loss_average},
        **{"guide_weight": update.guide.weight, "teacher_weight": update.teacher.weight},
        **{"adam_beta_2": optimizer.beta_2, "weight_decay": optimizer.weight_decay},
        **{"plateau_patience": rate.patience, "token_dropout": update.token_dropout.rate},
        **{"learning_rate": rate.peak, "warmup_steps": rate.warmup_steps},
    }
    assert found == {name: options[name] for name in found}
    assert update.warmup_steps == 34
    assert optimizer.muon == model.compute_dtype
