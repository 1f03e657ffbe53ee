"""Tables of the presets, their settings, and the options of training."""

import itertools
import re

from benchmarks.tables.cells import RESULTS, fill, markdown, read
from nmt_zoo import models
from nmt_zoo.configuration.options import AUTO, OPTIONS
from nmt_zoo.configuration.rules import in_words

# Preset -> what it is.
MODELS = {
    "ibm1": "IBM Model 1: a table of word translations",
    "ibm2": "IBM Model 2: Model 1 with a table of positions (Hansards: on the diagonal)",
    "hmm_alignment": "hidden Markov model of positions",
    "hmm_fertility": "the HMM with fertilities: how many target words each source word becomes",
    "phrase_based": "phrases with a language model, reordering and tuned weights, 2003",
    "hiero": "phrases with gaps, which make a tree, 2007",
    "ngram_lm": "n-gram language model, modified Kneser-Ney",
    "ibm1_factored": "Model 1, its table factored into embeddings",
    "attention_ibm1": "Model 1 as uniform attention",
    "attention_ibm2": "Model 2 as attention over positions",
    "rnn_attention": "the plainest RNN with attention",
    "lstm_seq2seq": "LSTM without attention: one vector holds the sentence",
    "lm_sep": "one LSTM reads the source and continues it",
    "gru_bahdanau": "GRU with additive attention, 2015",
    "lstm_luong": "small LSTM with attention and input feeding",
    "lstm_luong_deep": "`lstm_luong` with 2 + 3 layers",
    "lstm_lexical": "`lstm_luong`, and attended source words add to the output logits",
    "lstm_conv": "convolution, LSTM, reduced-rank attention",
    "transformer_simple": "single-head Transformer without normalisation",
    "transformer_coursework": "2 + 2 layers, width 128",
    "transformer_tiny": "4 + 4 layers, width 128, pre-norm",
    "transformer_small": "3 + 3 layers, width 256, pre-norm",
    "transformer_base": "6 + 6 layers, width 512: the base model of the paper",
    "transformer_deep_shallow": "12 + 1 layers, width 512: little work for each output token",
    "transformer_big": "6 + 6 layers, width 1024: the big model of the paper",
}
# Heading -> result file and template of a score, where % is the preset or what the file calls it.
_SCORES = {
    "Multi30k, 3 min": ("phrases/multi30k_29000", "{systems[%][bleu]:.1f}", {}),
    "Multi30k": ("methods/multi30k_en_de/%-1", "{bleu:.1f}", {"transformer_tiny": "default"}),
    "Europarl": ("europarl10k/%", "{scores[beam][bleu]:.1f}", {}),
    "AER, Hansards": (
        *("alignment/hansards", "{aligners[%][aer][forward]:.3f}"),
        {"ibm2": "ibm1 + ibm2", "hmm_alignment": "ibm1 + hmm", "hmm_fertility": "fertility"},
    ),
}


def _model_table():
    """Makes one row for each preset, with its scores, each column of one text and measure."""
    rows = [("model", "what it is", *_SCORES)]
    for preset, description in MODELS.items():
        scores = []
        for path, template, names in _SCORES.values():
            file, cell = (x.replace("%", names.get(preset, preset)) for x in (path, template))
            exists = (RESULTS / f"{file}.json").exists()
            scores.append(fill(cell, read(file)) if exists else "")
        rows.append((f"`{preset}`", description, *scores))
    return markdown(rows)


def _settings_table():
    """Makes one row for each preset: its class, and whom it follows."""
    presets = {**models.PRESETS, **models.LANGUAGE_MODELS}
    rows = [
        (f"`{preset}`", f"`{model_class.__name__}`", origin)
        for preset, (model_class, _, origin) in presets.items()
    ]
    return markdown([("model", "class", "from; what it scores"), *rows])


def _options_table():
    """Makes one table for each group of training options."""
    lines = []
    for group, options in itertools.groupby(OPTIONS, key=lambda option: option.group):
        rows = [("option", "default", "values", "what it does", "may change on resume")]
        for option in options:
            # Markdown would take a token such as <unk> for HTML, and show nothing.
            text, default = re.sub(r"</?\w+>", r"`\g<0>`", option.help), option.default
            if option.needs and not option.when:
                text += f" Only with `{'` and `'.join(map(in_words, option.needs))}`."
            shown = str(default).lower() if isinstance(default, bool) else str(default)
            resumable = "yes" if option.resumable else ""
            name, default = f"`--{option.name}`", f"`{shown}`" if shown else ""
            values = option.expected() + (f", or {AUTO}" if option.automatic else "")
            rows.append((name, default, values, text, resumable))
        lines += ["", f"## {group}", "", *markdown(rows)]
    return lines


TABLES = {
    "models": _model_table,
    "settings": _settings_table,
    "options": _options_table,
}
