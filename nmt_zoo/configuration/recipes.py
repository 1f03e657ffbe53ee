"""Default training options and model settings: tables, and rules by the size of a text.

`configuration.resolver` decides which of them count. A corpus without a recipe, such as a user's
own files, is known by its size. Imports neither TensorFlow nor Keras.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from nmt_zoo.configuration.options import AUTO, BY_NAME, DEFAULTS

# Word tables without context: whole words, no label smoothing, and high learning rates, because
# each word's weights are trained only where the word occurs. Rare words are to be learned, too.
_WORDS = {
    "tokenizer": "word",
    "min_word_count": 1,
    "learning_rate": 2e-2,
    "warmup_steps": 100,
    "label_smoothing": 0.0,
}

# A loop over time has many small operations. Running several of them at once, each on one core, is
# faster than splitting each of them over all cores.
_LOOPS = {"intra_op_threads": 1}

# Word tables of alignment models hold every word.
_TABLE = {
    **_WORDS,
    "update": "em",
    "max_words": 0,
    "average_checkpoints": 1,
    "learning_rate": 0.1,  # For --update=gradient: few sentences train each logit.
}

# Measured on 10,000 pairs: a small recurrent model reads as many tokens a second in small batches
# as in large ones, improves for long at a constant learning rate, and then at smaller ones.
_SMALL_LSTM = {
    **_LOOPS,
    "max_tokens_per_batch": 400,
    "learning_rate": 1.5e-3,
    "schedule": "plateau",
    "plateau_patience": 1,
    "warmup_steps": 200,
    "eval_every_steps": 1000,
    "average_checkpoints": 8,
    "patience": 4,
}

BY_MODEL = {
    # Maximum likelihood, as in a textbook. The prior `alpha` of the two models below is better by
    # every measure of alignments and translations.
    "ibm1": _TABLE,
    "ibm2": {**_TABLE, "model1_steps": 3, "alpha": 0.1},
    "hmm_alignment": {**_TABLE, "model1_steps": 3, "model2_steps": 2, "alpha": 0.1},
    # As many iterations without fertilities as in `align.py --model=fertility`.
    "hmm_fertility": {
        **_TABLE,
        "model1_steps": 2,
        "hmm_steps": 2,
        "alpha": 0.001,
        "leave_one_out": True,
    },
    # Checkpoints hold the whole table, so only the newest one is kept.
    "phrase_based": {**_TABLE, "update": "tuning", "keep_best_by": "bleu"},
    "hiero": {**_TABLE, "update": "tuning", "keep_best_by": "bleu"},
    "ibm1_factored": _WORDS,
    "attention_ibm1": _WORDS,
    "attention_ibm2": _WORDS,
    # With a clipped gradient, recurrent models train well at high rates; larger models at lower.
    "rnn_attention": {**_LOOPS, "learning_rate": 1e-3, "warmup_steps": 1000},
    "lstm_seq2seq": _SMALL_LSTM,
    "lm_sep": _SMALL_LSTM,
    "gru_bahdanau": {**_LOOPS, "learning_rate": 5e-4, "warmup_steps": 1000},
    "lstm_luong": _SMALL_LSTM,
    "lstm_luong_deep": _SMALL_LSTM,
    "lstm_lexical": _SMALL_LSTM,
    "lstm_conv": {**_LOOPS, "learning_rate": 1e-3, "warmup_steps": 500},
    # Its scores are not scaled, so an update changes them much; 3e-4 diverged after 3,000 updates.
    "transformer_simple": {"learning_rate": 1.5e-4, "warmup_steps": 1000},
    "transformer_coursework": {"learning_rate": 1e-3, "warmup_steps": 1000},
    # Small batches: a small text has more updates in as many passes.
    "transformer_tiny": {
        "max_tokens_per_batch": 2048,
        "learning_rate": 3e-3,
        "warmup_steps": 1000,
    },
    "transformer_small": {"learning_rate": 1e-3, "warmup_steps": 2000},
    "transformer_big": {"learning_rate": 5e-4},
    "ngram_lm": {"update": "counting"},
}

# A step takes the whole text.
_LONG_STEPS = {
    "patience": 0,
    "eval_every_steps": 1,
    "save_every_steps": 1,
    "log_every_steps": 1,
    "bleu_lines": 0,
}
BY_WAY = {
    # These models are for alignments; translating takes longer than training.
    "em": {**_LONG_STEPS, "max_steps": 10, "eval_every_steps": 5},
    # Each step adds the best translations of the validation text.
    "tuning": {**_LONG_STEPS, "max_steps": 8, "patience": 2, "bleu_lines": 2000},
    "counting": {**_LONG_STEPS, "max_steps": 1, "average_checkpoints": 1},
}

BY_MODEL_AND_WAY = {
    # Only the last iteration is validated, because its weights are kept whatever their perplexity,
    # which does not count fertilities.
    ("hmm_fertility", "em"): {"eval_every_steps": 1_000_000},
    # A search for rules takes three times as long as one for phrases.
    ("hiero", "tuning"): {"bleu_lines": 500},
}

# As Vaswani et al. 2017, section 5.1; the number of updates as section 5.2.
_WMT14 = {"num_pieces": 37000, "max_words": 37000, "max_tokens_per_batch": 25000}
_PUBLISHED = {"eval_every_steps": 1500, "save_every_steps": 1500, "patience": 0}
_PUBLISHED_BASE = {**_PUBLISHED, "max_steps": 100_000}
_PUBLISHED_BIG = {**_PUBLISHED, "max_steps": 300_000}

PRESET_BY_DATASET = {
    "demo": "transformer_tiny",
    "wmt14_en_de": "transformer_base",
    "wmt14_de_en": "transformer_base",
}

BY_DATASET = {
    # A few minutes on two CPU cores.
    "demo": {
        "num_pieces": 2000,
        "max_words": 2000,
        "max_steps": 700,
        "max_tokens_per_batch": 2048,
        "warmup_steps": 250,
        "eval_every_steps": 350,
        "save_every_steps": 35,
    },
    "wmt14_en_de": _WMT14,
    "wmt14_de_en": _WMT14,
}

BY_MODEL_AND_DATASET = {
    # Twice the updates of the demo's other models in the same minutes, with half the layers.
    ("transformer_tiny", "demo"): {
        "max_steps": 1400,
        "warmup_steps": 300,
        "save_every_steps": 50,
    },
    ("transformer_base", "wmt14_en_de"): _PUBLISHED_BASE,
    ("transformer_base", "wmt14_de_en"): _PUBLISHED_BASE,
    ("transformer_big", "wmt14_en_de"): _PUBLISHED_BIG,
    ("transformer_big", "wmt14_de_en"): _PUBLISHED_BIG,
}

# Rows: (maximum target tokens, preset, dropout, BPE-dropout; the last two for Transformers).
# Small corpora overfit quickly, and large models learn more slowly. On 10,000 pairs of Europarl,
# phrase_based had 20.5 BLEU in 5 minutes and lstm_lexical 17.0 in 30 (test text), 3 more than
# transformer_tiny after the same time (validation text). On 300 and 1,000 pairs, networks learn
# next to nothing (0.3 BLEU on 300 of the demo), but phrases translate (12.7 on 300 of Multi30k,
# where hmm_fertility had 8.7; validation text).
_BY_SIZE = (
    (200_000, "phrase_based", 0.3, 0.1),
    (3_000_000, "transformer_tiny", 0.2, 0.1),
    (30_000_000, "transformer_small", 0.1, 0.1),
    (math.inf, "transformer_base", 0.1, 0.0),
)
_TRANSFORMERS = frozenset(row[1] for row in _BY_SIZE if row[1].startswith("transformer"))
# Number of pieces, as a multiple of the square root of the tokens. A piece must occur often enough
# to be learned. But lstm_lexical translates words by words, and gained 4 BLEU on the same text when
# most words were pieces. On Multi30k, transformer_tiny had 1.9 BLEU more with 6,000 pieces than
# with 3,500 (validation text).
_PIECES = {"lstm_lexical": 24, "transformer_tiny": 10}
_USUAL_PIECES = 6
_OTHER_PIECES = 261  # Of BPE, besides characters and merges: 4 specials, 256 bytes and "▁".
# Updates until the learning rate is 0, as a multiple of the square root of the tokens, for batches
# as in `BY_MODEL`.
_UPDATES = {"transformer_tiny": 54}
_LEAST_UPDATES = 500
# What it costs and gives in 5,000 updates: docs/studies/noise.md.
NOISE = "copies=0.05,lowercase=0.02,typos=0.04,stop=0.05,spaces=0.01,numbers=0.01"
# Below this many target tokens, validation cannot tell when to stop: hardly any sentences can be
# held out.
_HANDFUL = 1000
# Options that end a run, or make the tokens of an update unknown. Fine-tuning needs few updates,
# and validation shows how few.
_ENDS = ("max_steps", "max_epochs", "max_sentences_per_batch", "init_from")
# Least --max_minutes on two CPU cores in which a model learns more than the next smaller one: for a
# million target tokens, which are to be seen many times, and for any text. In less time, phrases
# are better, or else a shallow `transformer_tiny`. On 29,000 pairs of Multi30k (350,000 tokens),
# `transformer_tiny` had 29.2 BLEU after 3 minutes, phrases 35.8 (docs/statistical_neural.md), and
# `transformer_tiny` more, 38.2, after 16 (docs/results/methods/multi30k_en_de/copies-1.json).
_LEAST_MINUTES = {
    "phrase_based": (3, math.inf),  # To count phrases, while other work shares the cores.
    "lstm_lexical": (75, math.inf),
    "transformer_tiny": (50, 30),
    "transformer_small": (math.inf, 240),
    "transformer_base": (math.inf, 1440),
}
# Target tokens of the largest text whose phrases are counted in place of a network that has too
# little time. 1,750,000 tokens, 197,000 pairs, took 4.3 GB and 124 s of processor time.
MOST_OF_PHRASES = 1_000_000
_SMALLER = ("transformer_small", "transformer_tiny")
_MOST_IN_TIME = 1_000_000  # Tokens by which a text in limited time gets pieces; more are slow.
# Characters are counted only below this many target tokens: larger texts get more pieces than any
# language has characters.
MOST_TO_COUNT = 3_000_000
# Settings of the model, unless --set overrides them or the preset lacks them.
# For a run that starts from an imported model.
OF_IMPORTED = {"learning_rate": 1e-4, "warmup_steps": 100}
MODEL_SETTINGS_BY_MODEL = {  # For corpora without a recipe.
    # Twice the usual width, and more dropout, were better on 10,000 pairs.
    "lstm_lexical": {
        "embedding_width": 128,
        "encoder_units": 128,
        "decoder_units": 256,
        "embedding_dropout": 0.4,
        "dropout": 0.4,
        "output_dropout": 0.4,
    },
    # On Multi30k, BLEU of validation text was 1.7 higher than with sinusoids.
    "transformer_tiny": {"positions": "rotary"},
}
MODEL_SETTINGS_BY_DATASET = {
    # A few passes over 24,000 pairs leave no time to overfit.
    "demo": {"dropout": 0.1},
}
_SHALLOW = {"num_encoder_layers": 2, "num_decoder_layers": 2, "positions": "rotary"}
MODEL_SETTINGS_BY_MODEL_AND_DATASET = {
    # A shallower model learns its grammar sooner; rotary positions gain 3 BLEU (docs/studies).
    ("transformer_tiny", "demo"): _SHALLOW,
}
# For any --max_minutes; measured in docs/studies/record.md. Where the rate falls to 0, averages of
# checkpoints were no better than the last one.
_IN_TIME = {
    "transformer_tiny": {
        "optimizer": "muon",
        "learning_rate": 1.2e-2,
        "average_checkpoints": 1,
    }
}
# For --max_minutes that allow few passes over the text.
_IN_SHORT_TIME = {"transformer_tiny": {**_SHALLOW, "dropout": 0.1}}


class TextSize(NamedTuple):
    """The size of a training text."""

    pairs: int  # sentence pairs
    tokens: int  # approximate number of target tokens
    # Different characters of both sides; 0 for a text of more than `MOST_TO_COUNT` tokens, which
    # gets enough pieces for any number of characters.
    characters: int = 0
    has_spaces: bool = True  # between words on both sides, as far as characters are counted


def preset(
    dataset: str, tokens: int | None = None, minutes: float = 0.0, of_words: bool = False
) -> str:
    """Returns the name of the preset that suits a corpus.

    `dataset` is its name, or "files". `tokens` is the approximate number of target tokens; None for
    a corpus with a recipe of its own. `minutes` is --max_minutes; 0: no limit. `of_words` is
    whether a model of whole words will do: both sides have spaces between words, and no option is
    given that would not suit it.
    """
    if tokens is None:
        return PRESET_BY_DATASET[dataset]
    name = _of_size(tokens)[1]
    fits = tokens <= MOST_OF_PHRASES and not is_hurried("phrase_based", tokens, minutes)
    if of_words and fits and is_hurried("transformer_tiny", tokens, minutes):
        name = "phrase_based"
    if name == "phrase_based" and not of_words:
        name = "lstm_lexical"
    for smaller in _SMALLER:
        if is_hurried(name, tokens, minutes):
            name = smaller
    return name


def is_hurried(model: str, tokens: int, minutes: float) -> bool:
    """Returns whether --max_minutes are too few for a model on a text; arguments as `preset`."""
    of_million, most = _LEAST_MINUTES.get(model, (0, 0))
    return 0 < minutes < min(of_million * tokens / 1e6, most)


def settings_of_size(model: str, tokens: int, minutes: float = 0.0) -> dict[str, Any]:
    """Returns name -> value of the model's settings that suit a text; arguments as `preset`."""
    settings = dict(MODEL_SETTINGS_BY_MODEL.get(model, {}))
    if model in _TRANSFORMERS:
        settings["dropout"] = _of_size(tokens)[2]
    if is_hurried(model, tokens, minutes):
        settings |= _IN_SHORT_TIME.get(model, {})
    return settings


def options_of_size(
    model: str, size: TextSize, given: Mapping[str, Any], replicas: int | None = 1
) -> dict[str, Any]:
    """Returns the options that the size of a text chooses, without those that the user gave.

    `replicas` is the number of replicas that share an update. None: unknown, as the tokens of an
    update are then, so that the number of updates is not chosen.
    """
    chosen, minutes = {}, given.get("max_minutes", 0.0)
    # A vocabulary that exists has pieces already, and a model of one's own may know how many.
    if not given.get("vocab_file") and "num_pieces" not in BY_MODEL.get(model, {}):
        counted = min(size.tokens, _MOST_IN_TIME) if minutes else size.tokens
        chosen["num_pieces"] = _num_pieces(model, counted, size.characters)
    # A vocabulary that exists already may have pieces of another kind than BPE.
    if model in _TRANSFORMERS and not any(map(given.get, ("vocab_file", "init_from", "teacher"))):
        few_passes = is_hurried(model, size.tokens, minutes / 2)  # See docs/studies/record.md.
        chosen["bpe_dropout"] = 0.0 if few_passes else _of_size(size.tokens)[3]
    if model in _TRANSFORMERS and minutes:
        chosen["precision"] = AUTO
        if given.get("optimizer", "muon") == "muon":
            chosen |= _IN_TIME.get(model, {})
    if not any(name in given for name in _ENDS):
        chosen |= _end(model, size.tokens, given, replicas)
    options = {**DEFAULTS, **BY_MODEL.get(model, {}), **chosen, **given}
    return {n: v for n, v in chosen.items() if n not in given and BY_NAME[n].applies(options)}


def _of_size(tokens):
    return next(row for row in _BY_SIZE if tokens <= row[0])


def _num_pieces(model, tokens, characters):
    """Returns a number of pieces that grows with the root of the text, up to that of WMT14.

    Every character needs a piece of its own, and a small Chinese text has thousands of them.
    """
    least = math.ceil((_OTHER_PIECES + characters) / 500) * 500
    pieces = _PIECES.get(model, _USUAL_PIECES) * math.sqrt(tokens)
    return min(max(round(pieces / 500) * 500, least), _WMT14["num_pieces"])


def _end(model, tokens, given, replicas):
    """Returns name -> value of the options that end a run; arguments as `options_of_size`."""
    minutes, way = given.get("max_minutes"), BY_MODEL.get(model, {}).get("update", "gradient")
    if given.get("schedule", "cosine") in ("linear", "cosine") and (
        replicas or "decay_steps" in given
    ):
        if model in _UPDATES:
            updates = _num_updates(model, tokens, given, replicas or 1)
            return {"schedule": "cosine", "decay_steps": updates}
        if model in _TRANSFORMERS and minutes:
            return {"schedule": "cosine"}  # `training.pace` knows until when.
    if tokens > _HANDFUL or minutes or "decay_steps" in given:
        return {}
    return {"max_steps": _LEAST_UPDATES} if given.get("update", way) == "gradient" else {}


def _num_updates(model, tokens, given, replicas):
    """Returns the number of updates until the learning rate is 0."""
    usual = BY_MODEL[model]["max_tokens_per_batch"]
    of_update = given.get("max_tokens_per_batch", usual)
    of_update *= given.get("accumulate_steps", 1) * replicas
    updates = _UPDATES[model] * math.sqrt(tokens) * usual / of_update
    least = max(_LEAST_UPDATES, 4 * given.get("warmup_steps", 0))
    return max(round(updates / 500) * 500, least)
