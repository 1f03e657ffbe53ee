"""Tables of the presets, their settings, and the options of training."""

import itertools
import re

from benchmarks.tables.cells import fill, markdown, read
from nmt_zoo import models
from nmt_zoo.configuration.options import AUTO, OPTIONS
from nmt_zoo.configuration.rules import in_words

_SCRIPTS = "train", "translate", "align", "compare", "export", "serve", "visualize_attention"
_MULTI30K = "methods/multi30k_en_de/{model}-1", "{bleu:.1f}, {data}"
_EUROPARL = "europarl10k/{model}", "{scores[beam][bleu]:.1f}, Europarl, 10,000 pairs de-en"
_MINUTES = ", demo corpus, {training[minutes]:.0f} min, {training[steps]:,} updates"
_DEMO = "demo_alignment/{model}", "{bleu:.1f}" + _MINUTES
_PHRASES = (
    "phrases/multi30k_29000",
    "{systems[%s][bleu]:.1f}, Multi30k en-de, lower-cased, tokenised",
)
_HANSARDS = (
    "alignment/hansards",
    "AER {aligners[%s][aer][forward]:.3f}, Hansards en-fr (`align.py`)",
)
# preset: (description, result file, template of its score in it; or the score without a file)
MODELS = {
    "ibm1": ("IBM Model 1: a table of word translations", _HANSARDS[0], _HANSARDS[1] % "ibm1"),
    "ibm2": (
        "IBM Model 2: Model 1 with a table of positions (score: `align.py`, on the diagonal)",
        *(_HANSARDS[0], _HANSARDS[1] % "ibm1 + ibm2"),
    ),
    "hmm_alignment": (
        "hidden Markov model of positions",
        *(_HANSARDS[0], _HANSARDS[1] % "ibm1 + hmm"),
    ),
    "hmm_fertility": (
        "the HMM with fertilities: how many target words each source word becomes",
        "alignment/hansards",
        "AER {aligners[fertility, agreeing][aer][agree]:.3f}, Hansards en-fr, both directions "
        "(`align.py`)",
    ),
    "phrase_based": (
        "phrases with a language model, reordering and tuned weights, 2003",
        *(_PHRASES[0], _PHRASES[1] % "phrase_based"),
    ),
    "hiero": (
        "phrases with gaps, which make a tree, 2005",
        *(_PHRASES[0], _PHRASES[1] % "hiero"),
    ),
    "ngram_lm": (
        "n-gram language model, modified Kneser-Ney",
        "noisy_channel/demo",
        "perplexity {perplexity[4][test]:.1f}, demo corpus, order 4",
    ),
    "ibm1_factored": (
        "Model 1, its table factored into embeddings",
        *(_DEMO[0], "AER {alignment[aer]:.3f}" + _MINUTES),
    ),
    "attention_ibm1": ("Model 1 as uniform attention", *_DEMO),
    "attention_ibm2": ("Model 2 as attention over positions", *_DEMO),
    "rnn_attention": ("the plainest RNN with attention", *_MULTI30K),
    "lstm_seq2seq": ("LSTM without attention: one vector holds the sentence", *_EUROPARL),
    "lm_sep": ("one LSTM reads the source and continues it", *_DEMO),
    "gru_bahdanau": ("GRU with additive attention, 2015", *_MULTI30K),
    "lstm_luong": ("small LSTM with attention and input feeding", *_EUROPARL),
    "lstm_luong_deep": ("`lstm_luong` with 2 + 3 layers", *_EUROPARL),
    "lstm_lexical": (
        *("`lstm_luong`, and attended source words add to the output logits", *_EUROPARL),
    ),
    "lstm_conv": ("convolution, LSTM, reduced-rank attention", *_MULTI30K),
    "transformer_simple": ("single-head Transformer without normalisation", *_MULTI30K),
    "transformer_coursework": ("2 + 2 layers, width 128", *_EUROPARL),
    "transformer_tiny": (
        "4 + 4 layers, width 128, pre-norm",
        *("methods/multi30k_en_de/default-1", _MULTI30K[1]),
    ),
    "transformer_small": ("3 + 3 layers, width 256, pre-norm", *_MULTI30K),
    "transformer_base": (
        "6 + 6 layers, width 512: the base model of the paper",
        *("", "(27.3 on WMT14 en-de), Vaswani et al. 2017"),
    ),
    "transformer_deep_shallow": (
        "12 + 1 layers, width 512: little work for each output token",
        *("", "(26.9 on WMT14 en-de), Kasai et al. 2021"),
    ),
    "transformer_big": (
        "6 + 6 layers, width 1024: the big model of the paper",
        *("", "(28.4 on WMT14 en-de), Vaswani et al. 2017"),
    ),
}


def _model_table():
    """Makes one row for each preset, with its score and the data on which it was measured."""
    rows = [("model", "what it is", "score")]
    for preset, (description, name, score) in MODELS.items():
        record = read(name.format(model=preset)) if name else {}
        rows.append((f"`{preset}`", description, fill(score, record)))
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
