"""The laws of `models.base.TranslationModel`, for every preset at tiny sizes.

A new model class adds its tiny sizes to `TINY`; settings of a single preset go to `TINY_PRESETS`.
With the variable OWN_MODEL=my_model.py:Name, only this model of one's own is tested.
"""

import json
import os
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo import models
from nmt_zoo.common import own_code
from nmt_zoo.models.ibm import AlignmentModel, FertilityModel
from nmt_zoo.models.rnn import RecurrentTranslationModel
from nmt_zoo.models.transformer import Transformer
from nmt_zoo.models.transformer_simple import SimpleTransformer
from nmt_zoo.models.word_attention import WordAttention
from nmt_zoo.training.ways.gradient.adam import FusedAdam
from nmt_zoo.training.ways.gradient.gradient import Gradient
from tests.unit.models.layers_test import close, ids, stepped

PAD, BOS, EOS = 0, 2, 3
TARGET_VOCAB = 13

ONE_LAYER = {"num_encoder_layers": 1, "num_decoder_layers": 1}

# model class: settings that make any of its presets tiny.
TINY = {
    Transformer: {
        "num_encoder_layers": 1,
        "num_decoder_layers": 2,
        "width": 16,
        "num_heads": 2,
        "ffn_width": 32,
        "dropout": 0.1,
        "attention_dropout": 0.1,
        "ffn_dropout": 0.1,
    },
    SimpleTransformer: {"width": 16, "ffn_width": 32, "max_length": 8, **ONE_LAYER},
    RecurrentTranslationModel: {
        "embedding_width": 8,
        "encoder_units": 8,
        "decoder_units": 16,
        "rank": 6,
        "embedding_dropout": 0.1,
        "dropout": 0.1,
        "output_dropout": 0.1,
    },
    WordAttention: {"width": 16},
    AlignmentModel: {"max_positions": 8, "max_jump": 3},
    FertilityModel: {"max_jump": 3},
}

# Adam's learning rate for tables of word pairs: a step moves each logit only by this rate. In
# models with a width, the steps of many weights add up.
RATES = {AlignmentModel: 0.1, FertilityModel: 0.1}


def has_history(model):
    """Returns whether a model's equations condition predictions on earlier target words."""
    if isinstance(model, AlignmentModel):
        return model.settings["positions"] == "jumps"
    return not isinstance(model, WordAttention)


def has_order(model):
    """Whether predictions depend on the order of the source words."""
    if not getattr(model, "reads_order", True):
        return False
    settings = model.get_config()
    knows = settings.get("max_positions") != 0 or "average" not in settings  # A `WordAttention`.
    return settings.get("positions") != "uniform" and knows


RELATIVE = {**ONE_LAYER, "positions": "relative", "max_distance": 2}

# preset: settings in addition to the tiny sizes of its class.
TINY_PRESETS = {
    # All Transformers share the code that stacks layers; the case transformer_tiny tests it. Each
    # way to tell positions occurs once, and two layers with the same weights.
    "transformer_coursework": {"share_layers": "cycle"},
    "transformer_base": RELATIVE,
    "transformer_deep_shallow": RELATIVE,
    "transformer_big": RELATIVE,
    # Each way to tie embeddings occurs once, in cases that differ in any case.
    "transformer_tiny": {"tie_embeddings": "target", "positions": "rotary"},
    "transformer_small": {"ssru": True},
    "lstm_seq2seq": {"encoder_units": 16},
    "lm_sep": {"encoder_units": 16},
    "lstm_lexical": {"num_decoder_layers": 2},
    "lstm_luong_deep": {"num_encoder_layers": 1, "num_decoder_layers": 1},
    "attention_ibm2": {"max_positions": 8},
}


def tiny_cases():
    """Maps preset -> overrides; presets that differ only in size make one case."""
    if own := os.environ.get("OWN_MODEL"):
        path, _, name = own.rpartition(":")
        own_code.load(path)
        return {name: {}}
    seen, cases = [], {}
    for preset in models.PRESETS:
        model_class = models.PRESETS[preset][0]
        if model_class.decoder_class:  # It has none of the methods tested here.
            continue
        overrides = {**TINY[model_class], **TINY_PRESETS.get(preset, {})}
        tiny = (model_class, {**models.preset_settings(preset), **overrides})
        if tiny not in seen:
            seen.append(tiny)
            cases[preset] = overrides
    return cases


CASES = tiny_cases()
# Each of these is another case without a table of positions or fertilities, or lexical part, or has
# layers that transformer_test.py tests: for `make test-slow`.
LIKE_ANOTHER = ("ibm1", "hmm_alignment", "attention_ibm1", "lstm_luong", "transformer_coursework")
# For laws that all presets of a class keep by the same code, and for graphs.
ONE_OF_EACH_CLASS = list(
    {models.model_class(case): case for case in CASES if case not in LIKE_ANOTHER}.values()
)


def source_vocab(case):
    """Returns a size that differs from the target vocabulary's if the model allows it."""
    settings = {**models.preset_settings(case), **CASES[case]}
    return TARGET_VOCAB if settings.get("tie_embeddings") == "all" else TARGET_VOCAB - 2


def create(case, **more):
    settings = {**CASES[case], **more}
    return models.create(case, source_vocab(case), TARGET_VOCAB, pad_id=PAD, bos_id=BOS, **settings)


def randomised(model):
    """Moves every weight, including weights that are initialised to zeros or ones."""
    generator = np.random.default_rng(0)
    # Scores that are not scaled differ by hundreds with larger weights, so that float32 alone
    # changes attention by more than the tolerance.
    size = 0.1 if isinstance(model, SimpleTransformer) else 0.2
    for weight in model.trainable_variables:
        weight.assign_add(generator.normal(size=weight.shape) * size)
    return model


# These come first, because pytest groups tests by the place of a parameter in its list.
ALL = sorted(CASES, key=lambda case: case not in ONE_OF_EACH_CLASS)
of_each_class = pytest.mark.parametrize("case", ONE_OF_EACH_CLASS, indirect=True)


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=[pytest.mark.slow] * (name in LIKE_ANOTHER)) for name in ALL],
)
def case(request):
    return request.param


@pytest.fixture(scope="module")
def fresh(case):
    keras.utils.set_random_seed(1)
    return create(case)


@pytest.fixture(scope="module")
def fresh_weights(fresh):
    return fresh.get_weights()


@pytest.fixture(scope="module")
def model(fresh, fresh_weights):
    """A model shared by all tests that do not change it."""
    return randomised(fresh)


UNKNOWN = tf.TensorSpec([None, None], tf.int32)


class Graphs:
    """A model's methods, each traced once with unknown dimensions, as training and search do.

    Other laws are tested with these graphs too; the tests of tracing compare them with the methods
    themselves.
    """

    def __init__(self, model):
        number, tokens = (tf.TensorSpec(shape, tf.int32) for shape in ([], [None]))
        self.logits = self._traced(
            lambda source_ids, target_in_ids: model(
                {"source_ids": source_ids, "target_in_ids": target_in_ids}
            ),
            UNKNOWN,
            UNKNOWN,
        )
        self.score = self._traced(model.score, UNKNOWN, UNKNOWN)
        self.align = self._traced(model.align, UNKNOWN, UNKNOWN)
        self.attention_maps = self._traced(model.attention_maps, UNKNOWN, UNKNOWN)
        self.encode = self._traced(model.encode, UNKNOWN)
        context = self._outputs(self.encode)
        self.initial_state = self._traced(model.initial_state, context)
        state = tf.nest.map_structure(  # Any of its sizes may change from step to step.
            lambda leaf: tf.TensorSpec([None] * leaf.shape.rank, leaf.dtype),
            self._outputs(self.initial_state),
        )
        self.decode_step = self._traced(model.decode_step, tokens, number, state, context)

    @staticmethod
    def _traced(method, *signature):
        return tf.function(method, input_signature=signature, autograph=False)

    @staticmethod
    def _outputs(function):
        outputs = function.get_concrete_function().structured_outputs
        return tf.nest.map_structure(lambda leaf: tf.TensorSpec(leaf.shape, leaf.dtype), outputs)


@pytest.fixture(scope="module")
def methods(model, case):
    """The methods that the laws are tested with: `Graphs` for one model of each class."""
    return Graphs(model) if case in ONE_OF_EACH_CLASS else model


@pytest.fixture(scope="module")
def logits(model):
    """The logits of the batch, by the model itself."""
    return logits_of(model)


@pytest.fixture(scope="module")
def alignment(methods):
    return methods.align(ids(SOURCE), ids(TARGET)).numpy()


@pytest.fixture(scope="module")
def half(model, case):
    """The model with its mathematics in bfloat16."""
    half = create(case, dtype="mixed_bfloat16")
    half.set_weights(model.get_weights())
    return half


# Rows of lengths 5, 4, 3 and 4, 2, 3; each ends in EOS.
SOURCE = np.array([[5, 9, 4, 7, 3], [8, 4, 6, 3, 0], [7, 7, 3, 0, 0]], np.int32)
TARGET = np.array([[6, 12, 4, 3], [11, 3, 0, 0], [5, 8, 3, 0]], np.int32)
REAL_SOURCE, REAL_TARGET = SOURCE != PAD, TARGET != PAD
B, S = SOURCE.shape
T = TARGET.shape[1]


def target_in(target_ids):
    return models.shift_right(ids(target_ids), BOS)


def logits_of(model, source_ids=SOURCE, target_ids=TARGET, **more):
    """Returns the logits of a model or of its `Graphs`."""
    if isinstance(model, Graphs):
        return model.logits(ids(source_ids), target_in(target_ids)).numpy()
    inputs = {"source_ids": ids(source_ids), "target_in_ids": target_in(target_ids)}
    return model(inputs, **more).numpy()


def select(tree, rows):
    return keras.tree.map_structure(lambda leaf: tf.gather(leaf, rows), tree)


def padded(array, rows, columns=0):
    return np.pad(array, ((0, rows), (0, columns)), constant_values=PAD)


@pytest.fixture(scope="module")
def steps(methods):
    return stepped(methods, SOURCE, target_in(TARGET))


# Decoding


def test_logits_and_attention_of_steps_are_those_of_the_whole(model, alignment, logits, steps):
    if model.tracks_coverage:
        pytest.skip("a step knows what has been translated, as CoverageModel says")
    close(tf.stack([output.logits for output in steps], axis=1), logits)
    attention = tf.stack([output.attention for output in steps], axis=1)
    close(attention, alignment)


def test_hypotheses_decode_with_the_histories_of_their_parents(methods):
    beams, steps = 2, 3
    sentences = np.repeat(np.arange(B), beams)
    generator = np.random.default_rng(0)
    context = methods.encode(ids(SOURCE))
    state = select(methods.initial_state(context), sentences)
    history = np.zeros((B * beams, 0), np.int32)
    for step in range(steps):
        parents = sentences * beams + generator.integers(0, beams, B * beams)
        tokens = generator.integers(4, TARGET_VOCAB, (B * beams, 1))
        history = np.concatenate([history[parents], tokens], axis=1)
        parents_state = select(state, parents)
        output = methods.decode_step(ids(tokens[:, 0]), ids(step), parents_state, context)
        state = output.state
    expected = stepped(methods, SOURCE[sentences], history)[-1]
    close(output.logits, expected.logits)
    close(output.attention, expected.attention)


# Independence


def test_extra_columns_and_rows_of_padding_are_finite_and_change_nothing(
    methods, alignment, logits
):
    source, target = padded(SOURCE, 1, 3), padded(TARGET, 1, 2)
    with_padding = logits_of(methods, source, target)
    assert np.isfinite(with_padding).all()
    close(with_padding[:B, :T][REAL_TARGET], logits[REAL_TARGET])
    aligned = methods.align(ids(source), ids(target)).numpy()
    assert np.isfinite(aligned).all()
    close(aligned[:B, :T, :S][REAL_TARGET], alignment[REAL_TARGET])


def test_batch_neighbours_change_nothing(methods, logits, steps):
    for row in range(B):
        source, target = SOURCE[row][REAL_SOURCE[row]], TARGET[row][REAL_TARGET[row]]
        alone = logits_of(methods, source[None], target[None])[0]
        close(alone, logits[row][REAL_TARGET[row]])
        (found,) = stepped(methods, source[None], target_in(target[None])[:, :1])
        close(found.logits[0], steps[0].logits[row])
        close(found.attention[0], steps[0].attention[row, : len(source)])


@pytest.fixture(scope="module")
def changes(methods, logits):
    """The changes of logits by another target word, each source word, and two that are swapped."""
    target = TARGET.copy()
    target[:, 2] = 10  # Column 2 is an input of the prediction of column 3.
    other = SOURCE[:1].repeat(S, axis=0)
    other[np.eye(S, dtype=bool)] = 6  # Row i differs from the source in token i.
    swapped = SOURCE[:1, [2, 1, 0, 3, 4]]
    sources = np.concatenate([SOURCE, other, swapped])
    targets = np.concatenate([target, TARGET[:1].repeat(S + 1, axis=0)])
    after = logits_of(methods, sources, targets)
    return after[:B] - logits, after[B:-1] - logits[0], after[-1] - logits[0]


def test_future_target_tokens_change_nothing_and_past_ones_do(model, changes):
    close(changes[0][:, :3], np.zeros((B, 3, TARGET_VOCAB)))
    if not has_history(model):
        close(changes[0], np.zeros((B, T, TARGET_VOCAB)))
        return
    later = np.abs(changes[0])[:, 3:].max(axis=(1, 2))
    # This model infers its position from past words, which is impossible if source words are equal.
    if isinstance(model, AlignmentModel):
        later = later[[len(set(row)) > 3 for row in SOURCE.tolist()]]
    assert (later > 1e-4).all()


def test_every_source_token_counts_and_their_order_where_a_model_knows_of_positions(model, changes):
    assert (np.abs(changes[1]).max(axis=(1, 2)) > 1e-4).all()
    assert (np.abs(changes[2]).max() > 1e-4) == has_order(model)


def test_the_decoder_is_given_the_start_and_all_words_but_the_last():
    shifted = models.shift_right(ids([[7, 8, 3], [9, 3, 0]]), 2).numpy()
    assert shifted.tolist() == [[2, 7, 8], [2, 9, 3]]


# Explanations


def test_alignment_and_steps_attend_to_real_source_tokens_by_a_distribution(alignment, steps):
    assert alignment.shape == (B, T, S)
    assert alignment.dtype == np.float32
    assert (alignment >= 0).all()
    close(alignment.sum(-1), np.ones((B, T)))
    assert not alignment.swapaxes(1, 2)[~REAL_SOURCE].any()
    for output in steps:
        attention = output.attention.numpy()
        assert (attention.dtype, output.logits.dtype) == (np.float32, tf.float32)
        assert not attention[~REAL_SOURCE].any()
        close(attention.sum(-1), np.ones(B))


def test_attention_maps_are_named_distributions(model, methods):
    maps = methods.attention_maps(ids(SOURCE), ids(TARGET))
    assert maps or not model.has_alignment
    assert not model.head_names or len(model.head_names) == maps["decoder/0/cross"].shape[1]
    if isinstance(model, Transformer):  # Every layer and head.
        sides = ("encoder", "self"), ("decoder", "self"), ("decoder", "cross")
        sides = sides[::2] if model.get_config()["ssru"] else sides
        layers = {side: range(model.get_config()[f"num_{side}_layers"]) for side, _ in sides}
        assert list(maps) == [f"{side}/{n}/{kind}" for side, kind in sides for n in layers[side]]
        assert {weights.shape[1] for weights in maps.values()} == {2}
    for name, weights in maps.items():
        side, kind = re.fullmatch(r"(encoder|decoder)/\d+/(self|cross)", name).groups()
        queries = S if side == "encoder" else T
        keys = T if (side, kind) == ("decoder", "self") else S
        assert weights.dtype == tf.float32
        assert (weights.shape[0], *weights.shape[2:]) == (B, queries, keys), name
        close(tf.reduce_sum(weights, -1), np.ones(weights.shape[:3]))
        if keys == S:
            assert not np.moveaxis(weights.numpy(), -1, 1)[~REAL_SOURCE].any(), name
        else:
            assert not np.triu(weights, 1).any(), name


@pytest.mark.parametrize(("layers", "usual"), [(1, 1), (3, 2)])
def test_a_transformer_aligns_by_its_last_layer_but_one_or_as_it_is_told(layers, usual):
    """Garg et al. 2019, section 4.1."""
    model = randomised(create("transformer_tiny", num_decoder_layers=layers))
    maps = model.attention_maps(ids(SOURCE), ids(TARGET))
    assert model.alignment == (usual, "mean")
    guided = create("transformer_tiny", num_decoder_layers=layers, alignment_head="first")
    assert guided.alignment == (usual, 1)
    for layer, head in ((usual, "mean"), (layers, 2)):
        model.align_by(layer, head)
        weights = maps[f"decoder/{layer - 1}/cross"]
        aligned = tf.reduce_mean(weights, axis=1) if head == "mean" else weights[:, head - 1]
        close(model.align(ids(SOURCE), ids(TARGET)), aligned)
        for step, output in enumerate(stepped(model, SOURCE, target_in(TARGET)[:, :2])):
            close(output.attention, aligned[:, step])


def test_features_and_alignment_of_one_pass_are_those_of_two(model, alignment, logits):
    if not (model.predicts == "features" and model.has_alignment):
        pytest.skip("has no attention that training could guide")
    inputs = {"source_ids": ids(SOURCE), "target_in_ids": target_in(TARGET)}
    features, attention = model.features_and_alignment(inputs, training=False)
    close(model.logits(features), logits)
    close(attention, alignment)


def test_score_is_the_log_softmax_of_call_at_the_targets(methods, logits):
    log_probs = tf.nn.log_softmax(logits).numpy()
    expected = np.take_along_axis(log_probs, TARGET[..., None], axis=-1)[..., 0]
    scores = methods.score(ids(SOURCE), ids(TARGET)).numpy()
    assert scores.dtype == np.float32
    close(scores[REAL_TARGET], expected[REAL_TARGET])
    assert (scores[REAL_TARGET] < 0).all()


# Learning


def test_every_trainable_weight_gets_a_finite_gradient_that_is_not_zero(model):
    source, target = padded(SOURCE, 1), padded(TARGET, 1)
    with tf.GradientTape() as tape:
        loss = -tf.reduce_sum(model.score(ids(source), ids(target))[target != PAD])
    weights = model.trainable_variables
    for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
        assert gradient is not None, weight.path
        gradient = tf.convert_to_tensor(gradient).numpy()
        assert np.isfinite(gradient).all(), weight.path
        # A bias of the keys adds the same number to all scores, which does not change the softmax.
        assert np.abs(gradient).max() > 1e-4 or weight.path.endswith("key/bias"), weight.path


@of_each_class
def test_updates_on_one_batch_lower_its_loss(case, eagerly):
    keras.utils.set_random_seed(2)
    # One layer is faster; the test of every trainable weight covers models with more layers.
    shallow = {n: 1 for n in ONE_LAYER if n in models.preset_settings(case)}
    new_model = create(case, **shallow)
    update = Gradient(new_model, FusedAdam(3 * RATES.get(type(new_model), 0.02)))
    batch = {"source_ids": ids(SOURCE), "target_ids": ids(TARGET)}
    losses = [np.divide(*update.step(batch)["nll"]) for _ in range(7)]
    assert np.isfinite(losses).all()
    assert losses[-1] < 0.6 * losses[0]


def test_dropout_is_active_in_training_only(model, logits):
    change = np.abs(logits_of(model, training=True) - logits).max()
    has_dropout = any("dropout" in name for name in model.get_config())
    assert change > 1e-3 if has_dropout else change == 0


@pytest.mark.parametrize("case", ["transformer_tiny", "transformer_simple", "lstm_luong"])
def test_dropout_hides_half_of_every_embedding_of_both_sides(case):
    """Every token occurs once, so hidden entries show as entries without gradient."""
    setting = "embedding_dropout" if case == "lstm_luong" else "dropout"
    model = randomised(create(case, **ONE_LAYER, **{setting: 0.5}))
    inputs = {"source_ids": ids([[4, 5, 6, 7, 3]]), "target_in_ids": ids([[2, 8, 9, 10, 11]])}
    tables = model.source_embedding.embeddings, model.target_embedding.embeddings
    with tf.GradientTape() as tape:
        features = model.features(inputs, training=True)
        total = tf.reduce_sum(features * np.random.default_rng(0).normal(size=features.shape))
    for gradient, used in zip(tape.gradient(total, tables), inputs.values(), strict=True):
        rows = tf.gather(tf.convert_to_tensor(gradient), used[0]).numpy()
        assert 0.25 < (rows == 0).mean() < 0.75


@of_each_class
def test_only_the_same_seed_gives_the_same_fresh_weights(case, fresh_weights):
    for seed, is_same in ((1, True), (2, False)):
        keras.utils.set_random_seed(seed)
        pairs = zip(create(case).get_weights(), fresh_weights, strict=True)
        assert all((a == b).all() for a, b in pairs) == is_same


# Saving


@of_each_class
def test_keras_file_round_trip_is_exact(model, logits, tmp_path):
    config = model.get_config()
    assert json.loads(json.dumps(config)) == config
    model.save(tmp_path / "model.keras")
    copy = keras.saving.load_model(tmp_path / "model.keras")
    assert type(copy) is type(model) and copy.get_config() == config
    assert [w.path for w in copy.weights] == [w.path for w in model.weights]
    np.testing.assert_array_equal(logits_of(copy), logits)


# Tracing, compiling, precision


@of_each_class
def test_call_compiled_by_xla_equals_call_traced_with_unknown_dimensions(methods, logits):
    @tf.function(jit_compile=True, autograph=False)
    def compiled(source_ids, target_in_ids):
        return methods.logits(source_ids, target_in_ids)

    traced = logits_of(methods)
    close(traced, logits)
    close(compiled(ids(SOURCE), target_in(TARGET)), traced)


@of_each_class
def test_score_and_explanations_trace_with_unknown_dimensions(model, methods):
    # The other tests use the graphs with all rows and columns.
    inputs = ids(SOURCE[:1]), ids(TARGET[:1, :2])
    close(methods.score(*inputs), model.score(*inputs))
    close(methods.align(*inputs), model.align(*inputs))
    keras.tree.map_structure(close, methods.attention_maps(*inputs), model.attention_maps(*inputs))


@of_each_class
def test_decoding_methods_trace_with_unknown_dimensions(model, methods):
    def first_step(methods, rows, beams):
        context = methods.encode(ids(SOURCE[:rows]))
        state = methods.initial_state(context)
        for leaf in keras.tree.flatten(context) + keras.tree.flatten(state):
            assert leaf.shape[0] == rows
        state = select(state, np.repeat(np.arange(rows), beams))
        tokens = ids(np.arange(rows * beams) % 9 + 4)
        return methods.decode_step(tokens, ids(0), state, context), state

    rows, beams = 2, 4
    output, state = first_step(methods, rows, beams)
    assert output.logits.shape == (rows * beams, TARGET_VOCAB)
    keras.tree.map_structure(close, output, first_step(model, rows, beams)[0])
    # The state of a step has the structure, ranks and types of the one before.
    keras.tree.assert_same_structure(state, output.state)
    for before, now in zip(*map(keras.tree.flatten, (state, output.state)), strict=True):
        assert (before.shape.rank, before.dtype) == (now.shape.rank, now.dtype)
        assert now.shape[0] == rows * beams


@of_each_class
def test_bfloat16_stays_finite_and_its_logits_and_explanations_float32(model, half, logits):
    with tf.GradientTape() as tape:
        half_logits = half({"source_ids": ids(SOURCE), "target_in_ids": target_in(TARGET)})
        log_probs = half_logits - half.log_normaliser(half_logits)
        loss = -tf.reduce_sum(tf.gather(log_probs, TARGET, batch_dims=2)[REAL_TARGET])
    half_logits = half_logits.numpy()
    assert half_logits.dtype == np.float32
    assert np.isfinite(half_logits).all()
    # With 8 bits of mantissa, logits must be close but not equal: equal logits would mean that
    # nothing was computed in bfloat16.
    difference = np.abs(half_logits - logits).mean()
    assert difference < 0.1 * logits.std()
    assert (difference > 0) != isinstance(model, AlignmentModel)  # Its tables stay in float32.
    for gradient in tape.gradient(loss, half.trainable_variables):
        assert np.isfinite(tf.convert_to_tensor(gradient).numpy()).all()
    outputs = stepped(half, SOURCE, target_in(TARGET)[:, :2])
    assert {output.logits.dtype for output in outputs} == {tf.float32}
    if not model.tracks_coverage:
        change = np.abs(tf.stack([output.logits for output in outputs], 1) - half_logits[:, :2])
        assert change.mean() < 0.1 * logits.std()
    maps = half.attention_maps(ids(SOURCE), ids(TARGET))
    for weights in (*(output.attention for output in outputs), *maps.values()):
        assert weights.dtype == tf.float32
        close(tf.reduce_sum(weights, -1), np.ones(weights.shape[:-1]))


@of_each_class
def test_bfloat16_look_ups_cast_the_vectors_of_their_words_only(half):
    """To cast a whole table, a row for each word, takes far longer than to look up a sentence."""
    predict = half.features if half.predicts == "features" else half.call
    graph = tf.function(predict, autograph=False).get_concrete_function(
        {"source_ids": UNKNOWN, "target_in_ids": UNKNOWN}, training=False
    )
    tables = [w.shape for w in half.weights if "embedding" in w.path or "positions" in w.path]
    cast = [op.inputs[0].shape for op in graph.graph.get_operations() if op.type == "Cast"]
    assert not [shape for shape in cast if shape in tables]


@of_each_class
def test_a_model_with_weights_in_bfloat16_decodes_nearly_the_same(model, methods, case):
    half = create(case, dtype="bfloat16")
    for weight, value in zip(half.weights, model.weights, strict=True):
        weight.assign(value)
    half.precompute()
    target_in_ids = target_in(TARGET)[:, :2]
    logits, expected = (
        np.stack([output.logits for output in stepped(of_model, SOURCE, target_in_ids)])
        for of_model in (half, methods)
    )
    assert logits.dtype == np.float32
    assert np.abs(logits - expected).mean() < 0.1 * expected.std()
