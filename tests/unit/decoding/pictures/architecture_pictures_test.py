"""Tests of descriptions of models and of the pictures that are drawn from them."""

from pathlib import Path

import pytest

from nmt_zoo import models
from nmt_zoo.decoding.pictures import figures
from nmt_zoo.decoding.pictures.architecture_pictures import save_architecture, save_preset
from nmt_zoo.models.architecture import Part, describe
from nmt_zoo.models.word_attention import WordAttention
from tests.tiny import small_settings
from tests.unit.decoding.pictures.attention_pictures_test import svg_texts

FOLDER = Path(__file__).parents[4] / "docs" / "architectures"
# What a setting shows in a picture.
VARIANTS = [
    ("transformer_base", {}, "after every sub-layer"),
    ("transformer_base", {"norm": "pre", "positions": "rotary"}, "before every sub-layer"),
    ("transformer_base", {"norm": "pre", "positions": "rotary"}, "rotary positions"),
    ("transformer_base", {"norm_embeddings": True, "output_bias": True}, "gamma, beta [16]"),
    ("transformer_base", {"tie_embeddings": "none"}, "output [16, 50]"),
    ("transformer_tiny", {"positions": "learned", "max_positions": 9}, "[9, 16]"),
    ("transformer_tiny", {"share_layers": "cycle", "distinct_layers": 2}, "4 × encoder"),
    ("lstm_lexical", {"num_decoder_layers": 2}, "Lexical translation"),
    ("lstm_lexical", {"num_decoder_layers": 2, "initial_state": "projected"}, "First state"),
    ("lstm_luong", {"source_start": True, "convolution_width": 3}, "Convolution"),
    ("gru_bahdanau", {"num_decoder_layers": 2, "input_feeding": True}, "2 × GRU decoder"),
    ("lm_sep", {}, "the weights of another part"),
    ("ibm1", {"positions": "diagonal"}, "by |t/T - j/(S - 1)|"),
    ("ibm2", {"positions": "shared"}, "softmax A_1,t"),
]


@pytest.mark.parametrize(("preset", "settings", "shown"), VARIANTS, ids=str)
def test_the_parts_have_all_parameters_and_every_line_is_in_its_box(
    preset, settings, shown, tmp_path, monkeypatch
):
    architecture = described(preset, settings)
    titles = [part.title for side in architecture for part in side]
    drawn = []
    monkeypatch.setattr(figures, "save", lambda figure, path, dpi: drawn.append(figure))
    save_architecture(architecture, tmp_path / "a.png", title=f"a model of {'x' * 50}")
    axes = drawn[0].axes[0]
    texts = [text for text in axes.texts if text.get_text()]
    extents = [text.get_window_extent() for text in texts]
    boxes = [axes.get_window_extent(), *(box.get_window_extent() for box in axes.patches)]
    for number, extent in enumerate(extents):
        assert not any(extent.overlaps(other) for other in extents[:number]), texts[number]
        for box in boxes:  # In the box or outside of it, not across its edge.
            is_inside = box.x0 <= extent.x0 and extent.x1 <= box.x1
            assert is_inside or not box.overlaps(extent), texts[number]
    lines = [text.get_text() for text in texts]
    assert {*titles} <= {*lines} and shown in "\n".join(lines)


@pytest.mark.parametrize("preset", [*models.PRESETS, *models.LANGUAGE_MODELS])
def test_every_preset_describes_all_of_its_parameters(preset):
    described(preset, {})


def described(preset, settings):
    """Returns the description of a small model, in which no parameter is missing."""
    sizes = dict.fromkeys(models.model_class(preset).corpus_sizes, 20)
    settings = {**small_settings(preset), **settings}
    if "share_layers" in settings:
        settings |= {"num_encoder_layers": 4, "num_decoder_layers": 4}
    model = models.sketch(preset, 50, 50, **sizes, **settings)
    architecture = describe(model)
    assert architecture.parameters == model.count_params()
    assert not any(part.title == "Other weights" for side in architecture for part in side)
    return architecture


@pytest.mark.parametrize("path", FOLDER.iterdir(), ids=lambda path: path.stem)
def test_the_documents_show_what_the_code_draws_now(tmp_path, path):
    save_preset(path.stem, {}, tmp_path / "a.svg")
    assert svg_texts(tmp_path / "a.svg") == svg_texts(path), "run make figures"


class Boosted(WordAttention):
    """A model of a user's own, which adds weights to one that describes itself."""

    def build(self, input_shape=None):
        if not self.built:
            self.bonus = self.add_weight(name="bonus", shape=(20,))
        super().build()


def test_weights_that_a_subclass_adds_are_not_lost():
    model = Boosted(20, 20, width=4)
    architecture = describe(model)
    assert architecture.parameters == model.count_params()
    assert Part("Other weights", "layer", ("bonus [20]",), (model,), parameters=20) in (
        architecture.target
    )
