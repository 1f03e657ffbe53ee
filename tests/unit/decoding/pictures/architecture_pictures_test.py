"""Tests of descriptions of models and of the pictures that are drawn from them."""

import itertools

import keras
import pytest
from matplotlib.transforms import Bbox

from benchmarks.architecture_pictures import FOLDER, SHOWN
from nmt_zoo import models
from nmt_zoo.decoding.pictures import figures
from nmt_zoo.decoding.pictures.architecture_pictures import (
    figure_of,
    save_architecture,
    save_preset,
)
from nmt_zoo.models.architecture import KINDS, Part, describe
from nmt_zoo.models.base import TranslationModel
from nmt_zoo.models.word_attention import WordAttention
from tests.tiny import small_settings
from tests.unit.decoding.pictures.attention_pictures_test import MAGIC, svg_texts

PRESETS = [*models.preset_names(), *models.LANGUAGE_MODELS]
VOCABULARY = 50
VARIANTS = [
    ("transformer_base", {"norm": "pre", "positions": "rotary", "tie_embeddings": "none"}),
    ("transformer_base", {"positions": "relative", "norm_embeddings": True, "output_bias": True}),
    ("transformer_tiny", {"positions": "learned", "max_positions": 9, "tie_embeddings": "target"}),
    (
        "transformer_tiny",
        {"num_encoder_layers": 4, "share_layers": "cycle", "distinct_layers": 2},
    ),
    ("lstm_lexical", {"num_decoder_layers": 2, "initial_state": "projected"}),
    ("lstm_luong", {"source_start": True, "convolution_width": 3, "cell": "relu"}),
    ("gru_bahdanau", {"num_decoder_layers": 2, "input_feeding": True}),
    ("ibm1", {"positions": "diagonal"}),
    ("ibm2", {"positions": "shared"}),
    ("phrase_based", {"distortion_limit": -1}),
]


def sketch(preset, **settings):
    """Returns a small model without weights."""
    sizes = dict.fromkeys(models.model_class(preset).corpus_sizes, 20)
    settings = {**small_settings(preset), **settings}
    return models.sketch(preset, VOCABULARY, VOCABULARY, **sizes, **settings)


def every_part(architecture):
    """Returns all parts, each before those inside it."""
    top = [part for side in architecture for part in side]
    return list(itertools.chain.from_iterable((part, *part.parts) for part in top))


def drawn_texts(tmp_path, preset, **settings):
    """Returns the texts of the picture of a small model."""
    path = tmp_path / "a.svg"
    save_architecture(describe(sketch(preset, **settings)), path, title="a model")
    return svg_texts(path)


CASES = [*((preset, {}) for preset in PRESETS), *VARIANTS]


@pytest.mark.parametrize(("preset", "settings"), CASES, ids=str)
def test_the_parts_have_all_parameters_of_the_model(preset, settings):
    model = sketch(preset, **settings)
    found = describe(model)
    assert found.parameters == model.count_params()
    assert "Other weights" not in [part.title for part in every_part(found)]
    for part in every_part(found):
        inner = sum(one.parameters for one in part.parts)
        assert not part.parts or part.parameters % inner == 0
        assert part.kind in KINDS or part.parts


@pytest.mark.parametrize(("preset", "settings"), CASES, ids=str)
def test_no_text_meets_another_text_an_arrow_or_the_edge(preset, settings):
    from matplotlib.text import Text

    architecture = describe(sketch(preset, **settings))
    with figures.style([], ".png"):
        figure = figure_of(architecture, f"transformer_base of {'x' * 90}")
    axes = figure.axes[0]
    texts = [text for text in axes.texts if type(text) is Text and text.get_text()]
    titles = {part.title for part in every_part(architecture) if not part.parts}
    drawn = " ".join(text.get_text() for text in texts)
    assert all(title in drawn for title in titles)
    boxes = [text.get_window_extent() for text in texts]
    edges = axes.get_window_extent()
    for number, box in enumerate(boxes):
        assert edges.x0 <= box.x0 and box.x1 <= edges.x1, texts[number]
        assert not any(box.overlaps(other) for other in boxes[:number]), texts[number]
    for line in axes.lines:
        points = axes.transData.transform(line.get_xydata())
        for (x0, y0), (x1, y1) in itertools.pairwise(points):
            line_box = Bbox([[min(x0, x1), min(y0, y1)], [max(x0, x1) + 0.1, max(y0, y1) + 0.1]])
            met = [
                t.get_text() for t, box in zip(texts, boxes, strict=True) if box.overlaps(line_box)
            ]
            assert not met


@pytest.mark.parametrize("ending", MAGIC)
def test_the_same_model_gives_the_same_bytes(tmp_path, ending):
    paths = [tmp_path / f"{name}{ending}" for name in "ab"]
    for path in paths:
        save_preset("lstm_luong", {}, path)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert paths[0].read_bytes().startswith(MAGIC[ending])


def test_the_documents_show_what_the_code_draws_now(tmp_path):
    assert {path.stem for path in FOLDER.iterdir()} == {*SHOWN}
    for preset in SHOWN:
        save_preset(preset, {}, tmp_path / "a.svg")
        committed = svg_texts(FOLDER / f"{preset}.svg")
        assert svg_texts(tmp_path / "a.svg") == committed, "run benchmarks/architecture_pictures.py"


def test_settings_of_a_transformer_change_its_picture(tmp_path):
    post = drawn_texts(tmp_path, "transformer_base")
    assert "Add & Norm" in post and "Layer normalisation" not in post
    pre = drawn_texts(tmp_path, "transformer_base", norm="pre")
    assert "Add & Norm" not in pre and {"Layer normalisation", "Decoder normalisation"} < {*pre}
    assert "W: tied to both embeddings" in post
    one_side = drawn_texts(tmp_path, "transformer_base", tie_embeddings="target")
    assert "W: tied to the target embedding" in " ".join(one_side)
    untied = drawn_texts(tmp_path, "transformer_base", tie_embeddings="none")
    assert not any("tied" in text for text in untied)
    assert post.count("Add sinusoidal positions") == 2
    rotary = drawn_texts(tmp_path, "transformer_base", positions="rotary")
    assert "Add sinusoidal positions" not in rotary
    assert rotary.count("rotary positions: Q, K turned") == 2
    deep = drawn_texts(
        tmp_path,
        *["transformer_base"],
        **{"num_encoder_layers": 4, "share_layers": "sequence", "distinct_layers": 2},
    )
    assert {"4 × encoder layer", "2 sets of weights: 0 0 1 1", "1 × decoder layer"} < {*deep}


def test_settings_of_a_recurrent_model_change_its_picture(tmp_path):
    luong = describe(sketch("lstm_luong"))
    fed = [part.title for part in luong.target if "LSTM decoder" in part.next_step]
    assert fed == ["LSTM decoder", "Context and state"]
    bahdanau = describe(sketch("gru_bahdanau"))
    titles = [part.title for part in bahdanau.target]
    assert titles.index("Attention, additive") < titles.index("GRU decoder")
    assert bahdanau.target[titles.index("GRU decoder")].reads == ("First state of decoder",)
    deep = describe(sketch("lstm_seq2seq", num_encoder_layers=3, num_decoder_layers=2))
    starts = [part.reads for part in deep.target if part.kind == "recurrent"]
    assert starts == [("LSTM encoder 2",), ("LSTM encoder 3",)]
    one = drawn_texts(tmp_path, "lm_sep")
    assert "the same weights as for the" in one and not any("ttention" in text for text in one)


class Mixed(TranslationModel):
    """A model of a user's own, which does not describe itself."""

    def __init__(self, *sizes, width=4, **kwargs):
        super().__init__(*sizes, **kwargs)
        self.settings = {"width": width}
        self.word_embedding = keras.layers.Embedding(sizes[0], width, name="word_embedding")
        self.mixers = [keras.layers.Dense(width, name=f"mixer_{i}") for i in range(2)]
        self.word_embedding.build((None, None))
        for mixer in self.mixers:
            mixer.build((None, width))
        self.scale = self.add_weight(name="scale", shape=(width,))
        self.built = True


def test_a_model_that_does_not_describe_itself_is_drawn_layer_by_layer(tmp_path):
    model = Mixed(30, 30)
    found = describe(model)
    assert found.source == () and found.parameters == model.count_params() == 164
    parts = {part.title: part for part in found.target}
    assert [*parts] == ["Words", "Word embedding", "Mixer 0", "Mixer 1", "Other weights", "Softmax"]
    assert parts["Word embedding"].kind == "embedding"
    assert parts["Mixer 1"].lines == ("Dense", "kernel [4, 4]", "bias [4]")
    save_architecture(found, tmp_path / "a.svg", title="mine")
    assert {"Mixer 0", "164 parameters", "120 parameters"} < {*svg_texts(tmp_path / "a.svg")}


class Boosted(WordAttention):
    """A model of a user's own, which adds weights to one that describes itself."""

    def build(self, input_shape=None):
        if not self.built:
            self.bonus = self.add_weight(name="bonus", shape=(20,))
        super().build()


def test_weights_that_a_subclass_adds_are_not_lost():
    model = Boosted(20, 20, width=4)
    found = describe(model)
    assert found.parameters == model.count_params()
    assert found.target[-2] == Part("Other weights", "feed-forward", (), 20)
