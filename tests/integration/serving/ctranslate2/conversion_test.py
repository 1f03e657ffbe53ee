"""CTranslate2 finds the translations of our search, with every Transformer."""

import sys

import keras
import numpy as np
import pytest

from nmt_zoo import models
from nmt_zoo.common.errors import UserError
from nmt_zoo.configuration.options import MAX_INPUT_TOKENS
from nmt_zoo.data_pipeline.tokenization.tokenizers import train_tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import EOS_ID, UNK_ID
from nmt_zoo.decoding.alignment.aligner import Aligner
from nmt_zoo.decoding.search.beam_search import make_search
from nmt_zoo.decoding.search.types import (
    Hypotheses,
    SearchOptions,
    Sentence,
    SentenceOptions,
    padded,
)
from nmt_zoo.decoding.translator import LineOptions, Translator
from nmt_zoo.serving.ctranslate2 import conversion
from nmt_zoo.serving.ctranslate2.engine import (
    CTranslate2Engine,
    CTranslate2Export,
    CTranslate2Model,
)
from tests.tiny import SMALL, pairs

REASON = "CTranslate2 is an optional package"
LINES = [source for source, _ in pairs(40, seed=5)]
SHARED = {"num_encoder_layers": 2, "share_layers": "cycle"}
# Both norms; one to three matrices of embeddings; one and two layers; all kinds of positions.
SETTINGS = {
    "rotary": ("bpe", {"positions": "rotary"}),
    "relative": ("bpe", {"positions": "relative", "max_distance": 3, **SHARED}),
    "pre": ("bpe", {"norm": "pre", "tie_embeddings": "all"}),
    "post": ("word", {"norm": "post", "tie_embeddings": "none", "num_decoder_layers": 2}),
}


def make_model(kind, eos_logit=8.0, unk_logit=-20.0, **settings):
    """Returns (model, tokenizer) with weights so large that no scores are equal.

    The logits of padding and `<s>` are -20, as if the model had learnt that they never occur.
    """
    keras.utils.set_random_seed(8)
    text = [list(side) for side in zip(*pairs(100), strict=True)]
    tokenizer = train_tokenizer(kind, *text, vocab_size=300, min_word_count=1)
    sizes = len(tokenizer.source), len(tokenizer.target)
    model = models.create("transformer_tiny", *sizes, **{**SMALL, **settings})
    for weight in model.trainable_variables:
        weight.assign(weight * 2.5)
    # The first number of the decoder's output becomes 1, so that it multiplies constant logits.
    norm = model.decoder.norm or model.decoder.layers[-1].around[-1].norm
    for weight, first in ((norm.gamma, 0.0), (norm.beta, 1.0)):
        weight.assign([first, *np.array(weight)[1:]])
    tied = model.output_layer is None
    output = model.target_embedding.embeddings if tied else model.output_layer.kernel
    array = np.array(output)
    of_first = array[:, 0] if tied else array[0]
    of_first[:] = 0.0
    of_first[:4] = -20.0, unk_logit, -20.0, eos_logit
    output.assign(array)
    return model, tokenizer


def export(folder, model, tokenizer, **settings):
    """Writes a model into a folder and loads it: (model, tokenizer)."""
    about = {
        "config": {"options": {"tokenizer": tokenizer.kind, "normalise": "nfc"}},
        "training": {},
    }
    about |= {"max_input_tokens": 40, "quantization": "float32", **settings}
    folder.mkdir(exist_ok=True)
    arrays = {weight.path.partition("/")[2]: np.array(weight) for weight in model.weights}
    conversion.write(
        conversion.Weights(model.settings, arrays, model.alignment), tokenizer, folder, **about
    )
    return CTranslate2Export(folder).load()[:2]


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=[pytest.mark.slow] * (name == "pre")) for name in SETTINGS],
)
def both(request, tmp_path_factory):
    pytest.importorskip("ctranslate2", reason=REASON)
    kind, settings = SETTINGS[request.param]
    model, tokenizer = make_model(kind, **settings)
    converted, _ = export(tmp_path_factory.mktemp("ctranslate2"), model, tokenizer)
    # One graph for beams of all sizes.
    return make_search(model, SearchOptions(4), each_sentence=True), tokenizer, converted


@pytest.mark.parametrize("head", ["mean", 1, 2])
def test_the_engine_aligns_as_the_model_by_the_head_that_aligns(tmp_path, head):
    pytest.importorskip("ctranslate2", reason=REASON)
    model, tokenizer = make_model("word", tie_embeddings="none", num_decoder_layers=2, num_heads=2)
    model.align_by(2, head)
    converted, _ = export(tmp_path, model, tokenizer)
    source = padded(tokenizer.source.encode(LINES[:4]))
    # No word; UNK; cut before `</s>`; longer than the 100 positions that were exported.
    target = padded([[EOS_ID], [UNK_ID, 5, EOS_ID], [5, 7, 6], [*range(4, 12)] * 15])
    found, expected = converted.align(source, target), np.array(model.align(source, target))
    for row, (ids, of_source) in enumerate(zip(target, source, strict=True)):
        rows = min(np.count_nonzero(ids), 100)
        np.testing.assert_allclose(found[row, :rows], expected[row, :rows], rtol=1e-3, atol=1e-5)
        assert (found[row, 100:].argmax(axis=1) == np.flatnonzero(of_source == EOS_ID)).all()
    earlier = CTranslate2Model(tmp_path, tokenizer, {**converted.about, "alignment": None})
    with pytest.raises(UserError, match=r"cannot align words.*; export the model again"):
        Aligner(earlier, tokenizer)


def searched(model, source, options):
    engine = CTranslate2Engine(model, options, MAX_INPUT_TOKENS)
    return engine.search([Sentence(ids) for ids in source], options.beam_size)


@pytest.mark.parametrize("beam_size, length_penalty", [(1, 0.6), (4, 0.0), (3, 1.0)])
def test_the_engine_finds_the_hypotheses_of_our_search(both, beam_size, length_penalty):
    search, tokenizer, model = both
    source = tokenizer.source.encode(LINES)
    asked = SentenceOptions(
        *([value] * len(LINES) for value in (beam_size, length_penalty, beam_size))
    )
    ours = search(padded(source), asked)
    theirs = searched(model, source, SearchOptions(beam_size, length_penalty))
    same_best = []
    for i, found in enumerate(theirs):
        expected = Hypotheses(*(values[i, :beam_size].numpy() for values in ours))
        a, b = ({tuple(x[x > 0]): k for k, x in enumerate(h.ids)} for h in (found, expected))
        same_best.append(min(a, key=a.get) == min(b, key=b.get))
        for ids in {*a} & {*b}:
            for name in ("finished", "scores", "log_probs"):
                pair = getattr(found, name)[a[ids]], getattr(expected, name)[b[ids]]
                np.testing.assert_allclose(*pair, rtol=2e-3, atol=1e-4)
    # A random model has more hypotheses of nearly equal scores than a trained one, and above a
    # length penalty of 1 the two rules of when to end differ.
    assert np.mean(same_best) >= (1 if beam_size == 1 else 0.75)
    finished = np.concatenate([each.finished for each in theirs])
    assert finished.any() and not finished.all()  # Some end at the limit.


def test_unk_is_emitted_only_if_asked_for(tmp_path):
    pytest.importorskip("ctranslate2", reason=REASON)
    model, tokenizer = make_model("word", unk_logit=1.0, tie_embeddings="none")
    converted, _ = export(tmp_path, model, tokenizer)
    source = tokenizer.source.encode(LINES)
    for emit in (True, False):
        found = searched(converted, source, SearchOptions(beam_size=2, emit_unknowns=emit))
        assert any((each.ids == 1).any() for each in found) == emit


@pytest.fixture(scope="module")
def small():
    """A model, its tokenizer and our translations of `LINES`."""
    model, tokenizer = make_model("bpe")
    source = padded(tokenizer.source.encode(LINES))
    found = make_search(model, SearchOptions(beam_size=1))(source, 1).ids.numpy()[:, 0]
    return model, tokenizer, [ids[ids > 0].tolist() for ids in found]


@pytest.mark.parametrize("quantization", conversion.QUANTIZATIONS)
def test_every_number_format_translates(quantization, small, tmp_path, capfd):
    package = pytest.importorskip("ctranslate2", reason=REASON)
    model, tokenizer, ours = small
    capfd.readouterr()
    converted, _ = export(tmp_path, model, tokenizer, quantization=quantization)
    assert "Unicode normal form C" in (tmp_path / "README.md").read_text()
    printed = capfd.readouterr().err
    if quantization in package.get_supported_compute_types("cpu"):
        assert printed == ""
    else:  # One line of ours instead of the package's log.
        assert printed.startswith(f"{tmp_path}: exported in {quantization}, which")
        assert printed.count("\n") == 1 and "float32\n" in printed
    found = searched(converted, tokenizer.source.encode(LINES), SearchOptions(beam_size=1))
    theirs = [each.ids[0][each.ids[0] > 0].tolist() for each in found]
    equal = [a == b for a, b in zip(theirs, ours, strict=True)]
    # Scores of a random model differ little, so that rounding changes some translations.
    assert np.mean(equal) >= (1 if quantization == "float32" else 0.4)
    size, exact = (tmp_path / "model.bin").stat().st_size, 4 * model.count_params()
    assert size > exact if quantization == "float32" else size < 0.9 * exact


FOLLOWED = {"beam_size", "length_penalty", "emit_unknowns", "max_length_factor", "max_length_extra"}
FOLLOWED |= {"compile", "first"}  # The sign of a language, which the tokenizer has.


def test_an_option_that_the_engine_does_not_follow_is_refused(small, tmp_path):
    pytest.importorskip("ctranslate2", reason=REASON)
    model, _ = export(tmp_path, *small[:2])
    for name in {*SearchOptions._field_defaults} - FOLLOWED:
        with pytest.raises(UserError, match=f"--{name}: CTranslate2 cannot search"):
            CTranslate2Engine(model, SearchOptions()._replace(**{name: 7}), 100)


@pytest.mark.parametrize("positions", ["sinusoidal", "relative", "rotary"])
def test_translations_may_be_as_long_as_the_positions_that_were_exported(positions, tmp_path):
    pytest.importorskip("ctranslate2", reason=REASON)
    model, tokenizer = export(tmp_path, *make_model("bpe", -20.0, positions=positions))
    options = SearchOptions(max_length_extra=21)
    if positions == "sinusoidal":
        with pytest.raises(UserError, match=r"translations of 101 tokens for lines of 40, .* 100;"):
            CTranslate2Engine(model, options, MAX_INPUT_TOKENS)
    else:
        CTranslate2Engine(model, options, MAX_INPUT_TOKENS)
    options = SearchOptions(beam_size=1, max_length_factor=3.0, max_length_extra=70)
    lines = LineOptions(max_input_tokens=10)
    translator = Translator(CTranslate2Engine(model, options, 10), tokenizer, lines)
    line = next(line for line in LINES if len(tokenizer.source.encode([line])[0]) == 10)
    ((found,),) = translator.translate([line])
    assert not found.finished and len(found.ids) == 100


def test_a_missing_package_is_one_line_that_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(UserError, match=r"ctranslate2 cannot be imported .*requirements-extra"):
        conversion.ctranslate2_package()
