"""Named models: the class, settings, origin and published score of each."""

import difflib
import inspect
import random
import reprlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import keras

from nmt_zoo.models.base import LARGEST, Searchable, SettingError, require
from nmt_zoo.models.ibm import AlignmentModel, FertilityModel
from nmt_zoo.models.ngram import NgramLanguageModel
from nmt_zoo.models.phrases.table_model import PhraseModel, RuleModel
from nmt_zoo.models.rnn import RecurrentTranslationModel
from nmt_zoo.models.transformer import Transformer
from nmt_zoo.models.transformer_settings import TRANSFORMERS
from nmt_zoo.models.transformer_simple import SimpleTransformer
from nmt_zoo.models.word_attention import WordAttention


def _recurrent(embedding_width, encoder_units, decoder_units, dropouts, **settings):
    """Makes settings; `dropouts` are the rates on embeddings, between layers and on outputs."""
    names = ("embedding_dropout", "dropout", "output_dropout")
    return {
        "embedding_width": embedding_width,
        "encoder_units": encoder_units,
        "decoder_units": decoder_units,
        **dict(zip(names, dropouts, strict=True)),
        **settings,
    }


# The LSTM with attention of Luong et al. 2015, in the sizes published for europarl10k. The forget
# gate starts without a bias: the encoder's outputs for neighbouring words then differ more, and the
# attention learns sooner to tell them apart.
_LUONG = _recurrent(64, 64, 128, (0.25, 0.25, 0.25), forget_bias=0.0)

# name: (settings, one line: origin; published score)
_RECURRENT = {
    "rnn_attention": (
        # Reduced rank with k = 256: attention with query and key matrices.
        _recurrent(256, 256, 256, (0.1, 0.0, 0.1), score="reduced_rank", rank=256)
        | {"cell": "rnn", "bidirectional": False, "input_feeding": False, "combine": "sum"},
        "the plainest RNN with attention: tanh cells, context + state; no published score",
    ),
    "lstm_seq2seq": (
        _recurrent(64, 128, 128, (0.25, 0.25, 0.25), bidirectional=False, score="none")
        | {"input_feeding": False, "reverse_source": True, "initial_state": "final"},
        "Sutskever et al. 2014 (4 layers of 1000) in the sizes of lstm_luong; no published score",
    ),
    "lm_sep": (
        _recurrent(64, 128, 128, (0.25, 0.25, 0.25), bidirectional=False, score="none")
        | {"input_feeding": False, "reverse_source": True, "initial_state": "final"}
        | {"one_network": True},
        "one LSTM that reads the source and goes on with the target: lstm_seq2seq with one network "
        "for both; no published score",
    ),
    "gru_bahdanau": (
        _recurrent(620, 1000, 1000, (0.0, 0.0, 0.0), cell="gru", score="additive", rank=1000)
        | {"input_feeding": False, "attend_before": True, "initial_state": "projected_tanh"},
        "Bahdanau et al. 2015, simpler output and start; published 26.75 BLEU on WMT14 en-fr "
        "(RNNsearch-50)",
    ),
    "lstm_luong": (
        _LUONG,
        "Luong et al. 2015, small, input feeding; published 10.91 lower-cased BLEU on europarl10k",
    ),
    "lstm_luong_deep": (
        {**_LUONG, "num_encoder_layers": 2, "num_decoder_layers": 3},
        "lstm_luong with 2 + 3 layers; published 9.97 lower-cased BLEU on europarl10k",
    ),
    "lstm_lexical": (
        {**_LUONG, "lexical": True},
        "Nguyen and Chiang 2018 over lstm_luong; published 12.68 lower-cased BLEU on europarl10k",
    ),
    "lstm_conv": (
        _recurrent(256, 256, 256, (0.0, 0.0, 0.3), score="reduced_rank", rank=128)
        | {"convolution_width": 2, "initial_state": "projected"},
        "convolution, bi-LSTM and reduced-rank scores of Stanford's CS224n; no published score",
    ),
}

# In historical order: name: (class, settings, one line: origin; published score)
PRESETS = {
    "ibm1": (AlignmentModel, {}, "IBM Model 1, Brown et al. 1993, section 4.1; no published score"),
    "ibm2": (
        AlignmentModel,
        {"positions": "table"},
        "IBM Model 2, Brown et al. 1993, section 4.2; no published score",
    ),
    "hmm_alignment": (
        AlignmentModel,
        {"positions": "jumps", "null_probability": 0.2},
        "hidden Markov model, Vogel et al. 1996, NULL as Och and Ney 2003; no published score",
    ),
    "hmm_fertility": (
        FertilityModel,
        {},
        "hmm_alignment with fertilities, Zhao and Gildea 2010; no published score",
    ),
    "phrase_based": (
        PhraseModel,
        {},
        "phrases, Koehn, Och and Marcu 2003, features as Koehn et al. 2007; no published score",
    ),
    "hiero": (
        RuleModel,
        {},
        "hierarchical phrases, Chiang 2007: phrases with gaps, a tree; no published score",
    ),
    "ibm1_factored": (
        WordAttention,
        {"average": "probabilities", "width": 64},
        "IBM Model 1, Brown et al. 1993, its table a product of two embeddings; no published score",
    ),
    "attention_ibm1": (
        WordAttention,
        {"average": "embeddings", "width": 64},
        "ibm1_factored with the average inside the softmax: uniform attention; no published score",
    ),
    "attention_ibm2": (
        WordAttention,
        {"average": "embeddings", "width": 64, "max_positions": 256},
        "Model 2's weights of positions as dot-product attention; no published score",
    ),
    **{name: (RecurrentTranslationModel, *rest) for name, rest in _RECURRENT.items()},
    "transformer_simple": (
        SimpleTransformer,
        {},
        "one head, learned positions, no normalisation, one cross-attention; no published score",
    ),
    **{name: (Transformer, *rest) for name, rest in TRANSFORMERS.items()},
}

# The same table for language models of the target side, which support translation models.
LANGUAGE_MODELS = {
    "ngram_lm": (
        NgramLanguageModel,
        {"order": 3},
        "n-grams, modified Kneser-Ney: Chen and Goodman 1998; no published score",
    )
}

# The preset of a family that suits most texts, for an error that names the family alone.
_USUAL = {"transformer": "transformer_tiny", "lstm": "lstm_lexical", "gru": "gru_bahdanau"}


def preset_settings(preset: str, **overrides: Any) -> dict[str, Any]:
    """Returns every setting of a preset that may be overridden, with its value.

    Raises `SettingError` if there is no such preset.
    """
    reserved = ("pad_id", "bos_id", "eos_id", "unknown_id", *model_class(preset).corpus_sizes)
    defaults = {n: v for n, v in _keywords(model_class(preset)).items() if n not in reserved}
    return {**defaults, **_entry(preset)[1], **overrides}


def model_class(preset: str) -> type[Searchable]:
    """Returns the class of a preset's models; its class attributes state facts about them.

    Raises `SettingError` if there is no such preset.
    """
    return _entry(preset)[0]


def _entry(preset):
    presets = {**PRESETS, **LANGUAGE_MODELS}
    if preset not in presets:
        close = difflib.get_close_matches(_USUAL.get(preset, preset), presets, n=1)
        hint = f" (did you mean {close[0]}?)" if close else ""
        raise SettingError(f"unknown model {preset!r}{hint}; expected one of {', '.join(presets)}")
    return presets[preset]


def _keywords(kind):
    """Returns {name: default} of the keyword-only arguments of a class.

    If its constructor takes the vocabulary sizes as `*vocab_sizes`, it also has those of its base.
    """
    parameters = inspect.signature(kind.__init__).parameters.values()
    own = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
    takes_sizes = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    return {**_keywords(kind.__base__), **own} if takes_sizes else own


def create(
    preset: str, source_vocab_size: int, target_vocab_size: int, **overrides: Any
) -> Searchable:
    """Builds a model of a preset or of a name in `LANGUAGE_MODELS`, with fresh weights.

    `overrides` are settings of the model's constructor; also `pad_id`, `bos_id`, `dtype`, `name`,
    and the `corpus_sizes` of the model's class. Returns a `TranslationModel`; for
    `LANGUAGE_MODELS`, a `Searchable`. Raises `SettingError` if there is no such preset or setting,
    or if a value has the wrong type or range.
    Example:
        >>> create("transformer_tiny", 1000, 1000, num_decoder_layers=2).count_params() > 0
        True
    """
    always = ("pad_id", "bos_id", "dtype", "name", *model_class(preset).corpus_sizes)
    check_settings(preset, {n: v for n, v in overrides.items() if n not in always})
    settings = preset_settings(preset, **overrides)
    return model_class(preset)(source_vocab_size, target_vocab_size, **settings)


def check_settings(preset: str, given: dict[str, Any]) -> None:
    """Checks names and types of settings, name -> value; `create` checks their ranges.

    Raises `SettingError` if there is no such preset or setting, a value has the wrong type, or a
    number is not finite or beyond 32 bits.
    """
    settings = preset_settings(preset)
    for name, value in given.items():
        require(
            name in settings,
            f"{preset} has no setting {name!r}; valid: {', '.join(sorted(settings))}",
        )
        default = settings[name]
        fits = isinstance(value, type(default)) or (
            isinstance(default, float) and isinstance(value, int)
        )
        require(
            fits and isinstance(value, bool) == isinstance(default, bool),
            f"setting {name} of {preset} takes a value like {default!r}, found {value!r}",
        )
        require(
            isinstance(value, str) or -LARGEST <= value <= LARGEST,
            f"setting {name} of {preset} takes a finite number of at most {LARGEST:,}, found "
            f"{reprlib.repr(value)}",
        )


def why_unread(preset: str, name: str, given: dict[str, Any]) -> str:
    """Returns why a setting would have no effect, such as "needs cell=lstm"; "" if it has one.

    `given` holds settings that differ from the preset's, name -> value.
    """
    other, values = model_class(preset).read_with.get(name, (None, ()))
    settings = preset_settings(preset, **given)
    if other not in settings or settings[other] in values:
        return ""
    return f"needs {other}={' or '.join(values)}, found {other}={settings[other]}"


def sketch(
    preset: str, source_vocab_size: int, target_vocab_size: int, **overrides: Any
) -> Searchable:
    """Builds a model without allocating its weights, so they may be of any size; as `create`.

    Raises `SettingError` also if the list of so many weights does not fit into memory.
    """

    def build():
        with keras.StatelessScope(initialize_variables=False):
            return create(preset, source_vocab_size, target_vocab_size, **overrides)

    before = random.getstate()  # Keras draws seeds from it even for weights without memory.
    try:
        # Keras keeps, per thread, a list of weights to allocate later. A separate thread keeps
        # these weights out of the caller's list.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(build).result()
    except MemoryError:
        raise SettingError(f"{preset}: a table of these sizes does not fit into memory") from None
    finally:
        random.setstate(before)
