"""Training options and model settings that are good to start from, by model and by corpus.

What a flag says counts first, then the kind of update, then the corpus, then the model, then
`DEFAULTS`.
"""

from model_directory.options import BY_NAME, DEFAULTS

# A table of words, learned without the help of context: whole words, their exact likelihood, and
# high rates, for every word is learned only where it occurs.
_WORDS = {
    "tokenizer": "word",
    "learning_rate": 2e-2,
    "warmup_steps": 100,
    "label_smoothing": 0.0,
}

# The many small operations of a loop over time gain from cores that each work on one of their own,
# and lose where all cores share every one.
_LOOPS = {"intra_op_threads": 1}

# A table of every word that occurs: alignments are wanted of rare ones, too.
_TABLE = {
    **_WORDS,
    "update": "em",
    "max_words": 0,
    "min_word_count": 1,
    "average_checkpoints": 1,
    "learning_rate": 0.1,  # By gradient: every logit is learned from a few sentences.
}

# Found on 10,000 pairs: a small recurrent model reads as many tokens a second in small batches, and
# goes on learning at the same rate for long.
_SMALL_LSTM = {
    **_LOOPS,
    "max_tokens_per_batch": 400,
    "learning_rate": 1.5e-3,
    "schedule": "constant",
    "warmup_steps": 200,
    "eval_every_steps": 1000,
    "average_checkpoints": 8,
}

BY_MODEL = {
    # Maximum likelihood, as in a textbook. The prior of the others is better in all that can be
    # measured of alignments and translations.
    "ibm1": _TABLE,
    "ibm2": {**_TABLE, "model1_steps": 3, "alpha": 0.1},
    "hmm_alignment": {**_TABLE, "model1_steps": 3, "model2_steps": 2, "alpha": 0.1},
    "ibm1_factored": _WORDS,
    "attention_ibm1": _WORDS,
    "attention_ibm2": _WORDS,
    # Recurrent models bear high rates once their gradient is clipped; the larger, the lower.
    "rnn_attention": {**_LOOPS, "learning_rate": 1e-3, "warmup_steps": 1000},
    "lstm_seq2seq": _SMALL_LSTM,
    "gru_bahdanau": {**_LOOPS, "learning_rate": 5e-4, "warmup_steps": 1000},
    "lstm_luong": _SMALL_LSTM,
    "lstm_luong_deep": _SMALL_LSTM,
    "lstm_lexical": _SMALL_LSTM,
    "lstm_conv": {**_LOOPS, "learning_rate": 1e-3, "warmup_steps": 500},
    "transformer_simple": {"learning_rate": 1e-3, "warmup_steps": 1000},
    "transformer_coursework": {"learning_rate": 1e-3, "warmup_steps": 1000},
    "transformer_tiny": {"learning_rate": 3e-3, "warmup_steps": 1000},
    "transformer_small": {"learning_rate": 1e-3, "warmup_steps": 2000},
    "transformer_big": {"learning_rate": 5e-4},
    "ngram_lm": {"update": "counting"},
}

# As Vaswani et al. 2017, section 5.1.
_WMT14 = {"num_pieces": 37000, "max_words": 37000, "max_tokens_per_batch": 25000}

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

# Settings of the model, where --set does not say otherwise and the preset has them.
MODEL_SETTINGS_BY_DATASET = {
    # Four passes over 24,000 pairs leave no time to overfit.
    "demo": {"dropout": 0.1},
}


def options(model, dataset, given):
    """All training options.

    Args:
        model: preset name.
        dataset: name of a corpus, or "files".
        given: name -> value of the options that the user gave.

    Returns:
        name -> value, one for every entry of `DEFAULTS`.
    """
    # Imported here, because the tables above also serve programs that do without TensorFlow.
    from training.ways import UPDATES

    of_model = BY_MODEL.get(model, {})
    found = {**DEFAULTS, **of_model, **BY_DATASET.get(dataset, {}), **given}
    found.update(UPDATES[found["update"]].defaults)
    if of_model.get("max_words") == 0:  # A table of every word, of whatever corpus.
        found["max_words"] = 0
    return {**found, **given}


def completed(options):
    """Returns options with those that follow from others.

    Decaying schedules store `decay_steps`. To train past the first --max_steps, users pass the old
    --decay_steps, or the learning rate would change.
    """
    if BY_NAME["decay_steps"].applies(options):
        return {**options, "decay_steps": options["decay_steps"] or options["max_steps"]}
    return options
