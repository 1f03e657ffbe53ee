"""Names, settings and sizes of the presets."""

import math
import random

import keras
import pytest

from nmt_zoo import models
from nmt_zoo.models.transformer_settings import TRANSFORMERS, transformer_settings

TINY = {
    "num_encoder_layers": 1,
    "num_decoder_layers": 1,
    "width": 8,
    "num_heads": 2,
    "ffn_width": 8,
}
MOST = 2**31 - 8  # About as wide as a setting may be; even, as the Transformer needs.


def refused(match, *sizes, preset="transformer_base", **overrides):
    with pytest.raises(models.SettingError, match=match):
        models.create(preset, *(sizes or (11, 11)), **overrides)


def weight_shapes(*sizes, **overrides):
    return [tuple(weight.shape) for weight in models.sketch(*sizes, **overrides).weights]


def test_every_preset_has_settings_and_a_line_that_says_where_it_is_from():
    for name, (model_class, settings, origin) in models.PRESETS.items():
        assert issubclass(model_class, models.TranslationModel), name
        assert settings.keys() <= models.preset_settings(name).keys(), name
        assert len(origin) > 20 and "\n" not in origin, name


def test_settings_are_those_of_the_preset_over_those_of_its_class():
    settings = models.preset_settings("transformer_big")
    assert settings["width"] == 1024
    assert settings["norm"] == "post"
    assert not settings.keys() & {"self", "pad_id", "bos_id", "kwargs", "source_vocab_size"}
    for name in TRANSFORMERS:  # CTranslate2 reads them without Keras.
        assert transformer_settings(name, {}) == models.preset_settings(name)


def test_a_setting_that_another_one_makes_useless_is_named():
    assert not models.why_unread("lstm_luong", "rank", {"rank": 8, "score": "additive"})
    found = models.why_unread("lstm_luong", "rank", {"rank": 8})
    assert found == "needs score=reduced_rank or additive, found score=multiplicative"
    for preset, (_, settings, _) in models.PRESETS.items():
        assert not any(models.why_unread(preset, name, {}) for name in settings), preset


@pytest.mark.parametrize("function", [models.create, models.preset_settings])
def test_unknown_preset_is_refused_with_the_known_ones(function):
    arguments = (11, 11) if function is models.create else ()
    with pytest.raises(models.SettingError, match="'transformer_huge'") as error:
        function("transformer_huge", *arguments)
    assert all(name in str(error.value) for name in models.PRESETS)


def test_unknown_setting_is_refused_with_the_known_ones():
    with pytest.raises(models.SettingError, match=r"transformer_tiny.*'heads'") as error:
        models.create("transformer_tiny", 11, 11, heads=2)
    assert all(name in str(error.value) for name in models.preset_settings("transformer_tiny"))


@pytest.mark.parametrize(
    ("name", "values"),
    [("width", ("64", 64.0, True, None)), ("dropout", ("0.1", False)), ("norm", (1,))],
)
def test_value_of_another_type_is_refused_with_one_that_fits(name, values):
    fitting = repr(models.preset_settings("transformer_base")[name])
    for value in values:
        refused(f"{name}.*{fitting}.*{value!r}", **{name: value})


LAYERS = "num_encoder_layers num_decoder_layers"
# preset: (names of settings, value, what is expected)
OUT_OF_RANGE = {
    "transformer_base": [
        (f"{LAYERS} num_heads ffn_width max_distance distinct_layers", 0, "at least 1"),
        ("width", -8, "at least 1"),
        ("width", 2**31, "at most 2,147,483,647"),
        ("num_encoder_layers", 201, "at most 200"),
        ("dropout ffn_dropout", 1, r"\[0, 1\)"),
        ("attention_dropout", -0.1, r"\[0, 1\)"),
        ("dropout", float("nan"), "finite"),
        ("norm", "middle", "post, pre"),
        ("tie_embeddings", "source", "all, target, none"),
        ("positions", "counted", "sinusoidal, marian, fairseq, learned, relative, rotary, none"),
        ("max_positions", 5, "at least 1 with positions=learned, and 0 otherwise"),
        ("activation", "sigmoid", "relu, gelu, swish"),
        ("norm_epsilon", 0.0, "above 0"),
        ("share_layers", "all", "none, sequence, cycle, cycle_reversed"),
    ],
    "transformer_simple": [
        (f"{LAYERS} width ffn_width max_length", 0, "at least 1"),
        ("dropout", 1.0, r"\[0, 1\)"),
    ],
    "attention_ibm2": [
        ("average", "logits", "one of probabilities, embeddings"),
        ("width", 0, "at least 1"),
        ("max_positions", -1, "at least 0"),
    ],
    "ibm2": [
        ("positions", "absolute", "one of uniform, table, shared, diagonal, jumps"),
        ("max_positions max_jump", 0, "at least 1"),
        ("null_probability", 0.0, "above 0"),
        ("null_probability smoothing", 1.0, r"\[0, 1\)"),
    ],
    "lstm_luong": [
        ("cell", "elman", "rnn, relu, gru, lstm"),
        ("score", "cosine", "none, dot, multiplicative, reduced_rank, additive"),
        ("initial_state", "random", "zero, final, projected, projected_tanh"),
        ("combine", "max", "tanh, sum"),
        (f"{LAYERS} embedding_width encoder_units decoder_units", 0, "at least 1"),
        ("convolution_width rank", -1, "at least 0"),
        ("embedding_dropout", 1.0, r"\[0, 1\)"),
        ("dropout", -0.1, r"\[0, 1\)"),
        ("output_dropout", float("nan"), "finite number"),
    ],
}


@pytest.mark.parametrize("preset", OUT_OF_RANGE)
def test_value_out_of_range_is_refused_with_the_range(preset):
    for names, value, expected in OUT_OF_RANGE[preset]:
        for name in names.split():
            refused(f"{name} .*{expected}.*{value}", preset=preset, **{name: value})


@pytest.mark.parametrize("preset", [*models.PRESETS, *models.LANGUAGE_MODELS])
def test_shapes_of_weights_are_those_of_the_model_that_is_made(preset):
    sizes = dict.fromkeys(models.model_class(preset).corpus_sizes, 30)
    small = {name: v for name, v in TINY.items() if name in models.preset_settings(preset)}
    seed = random.getstate()
    found = weight_shapes(preset, 20, 20, **small, **sizes)
    assert random.getstate() == seed
    if preset not in ("transformer_big", "gru_bahdanau"):  # Too large to be made in a test.
        model = models.create(preset, 20, 20, **small, **sizes)
        assert found == [tuple(weight.shape) for weight in model.weights]


@pytest.mark.parametrize(
    ("preset", "widths"),
    [
        ("transformer_base", {"width": MOST, "num_heads": 1}),
        ("transformer_simple", {"width": MOST}),
        ("lstm_luong", {"decoder_units": MOST}),
        ("attention_ibm2", {"width": MOST, "max_positions": MOST}),
        ("ibm2", {"max_positions": MOST}),
    ],
)
def test_shapes_of_weights_take_no_memory(preset, widths):
    """If memory were allocated, the many exabytes of weights here would raise an error."""
    shapes = weight_shapes(preset, 11, 11, **widths)
    assert max(math.prod(shape) for shape in shapes) >= MOST**2


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"num_heads": 3}, "width must be even and a multiple of num_heads"),
        ({"width": 7, "num_heads": 7}, "width must be even and a multiple of num_heads"),
        ({"max_distance": 4, "positions": "rotary"}, "max_distance needs positions=relative"),
        ({"positions": "rotary", "width": 6}, "must be even, found 6 / 2 = 3"),
        ({"distinct_layers": 2}, "distinct_layers=2 needs share_layers=sequence, cycle or"),
        ({"distinct_layers": 2, "share_layers": "cycle"}, "at most 1, the layers of the deeper"),
    ],
)
def test_settings_that_would_change_nothing_or_cannot_be_combined_are_refused(settings, expected):
    refused(expected, **{**TINY, **settings})


def test_tying_decides_which_matrices_have_a_row_per_token():
    refused("11 source and 13 target.*tie_embeddings=target", 11, 13, **TINY)
    for tie, sizes, expected in (
        ("all", (11, 11), [11]),
        ("target", (11, 13), [13, 11]),
        ("none", (11, 13), [13, 11, 13]),
    ):
        shapes = weight_shapes("transformer_base", *sizes, **TINY, tie_embeddings=tie)
        assert [n for shape in shapes for n in shape if n in sizes] == expected


def test_models_can_be_named_and_given_a_precision():
    model = models.create("transformer_base", 11, 11, **TINY, name="mine", dtype="mixed_bfloat16")
    assert model.name == "mine"
    assert model.dtype_policy.name == "mixed_bfloat16"
    assert {keras.backend.standardize_dtype(weight.dtype) for weight in model.weights} == {
        "float32"
    }
