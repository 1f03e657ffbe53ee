"""Tables of the presets, their settings, and the options of training."""

import itertools
import re

from benchmarks.tables.markdown import markdown, read
from nmt_zoo import models
from nmt_zoo.configuration.options import AUTO, BY_NAME, OPTIONS
from nmt_zoo.configuration.rules import RULES, in_words

MULTI30K = "methods/multi30k_en_de"  # Of benchmarks/methods.py.
# preset: (description, result file, name of the score in it; or the score in words)
MODELS = {
    "ibm1": ("IBM Model 1: a table of word translations", "alignment/hansards", "ibm1"),
    "ibm2": (
        "IBM Model 2: Model 1 with a table of positions (score: `align.py`, on the diagonal)",
        "alignment/hansards",
        "ibm1 + ibm2",
    ),
    "hmm_alignment": ("hidden Markov model of positions", "alignment/hansards", "ibm1 + hmm"),
    "hmm_fertility": (
        "the HMM with fertilities: how many target words each source word becomes",
        "alignment/hansards",
        "fertility, agreeing",
    ),
    "phrase_based": (
        "phrases with a language model, reordering and tuned weights, 2003",
        "phrases/multi30k_29000",
        "phrase_based",
    ),
    "hiero": ("phrases with gaps, which make a tree, 2005", "phrases/multi30k_29000", "hiero"),
    "ngram_lm": ("n-gram language model, modified Kneser-Ney", "noisy_channel/demo", "perplexity"),
    "ibm1_factored": ("Model 1, its table factored into embeddings", "demo_alignment", "aer"),
    "attention_ibm1": ("Model 1 as uniform attention", "demo_alignment", "bleu"),
    "attention_ibm2": ("Model 2 as attention over positions", "demo_alignment", "bleu"),
    "rnn_attention": ("the plainest RNN with attention", MULTI30K, "bleu"),
    "lstm_seq2seq": (
        "LSTM without attention: one vector holds the sentence",
        "europarl10k",
        "beam",
    ),
    "lm_sep": ("one LSTM reads the source and continues it", "demo_alignment", "bleu"),
    "gru_bahdanau": ("GRU with additive attention, 2015", MULTI30K, "bleu"),
    "lstm_luong": ("small LSTM with attention and input feeding", "europarl10k", "beam"),
    "lstm_luong_deep": ("`lstm_luong` with 2 + 3 layers", "europarl10k", "beam"),
    "lstm_lexical": (
        "`lstm_luong`, and attended source words add to the output logits",
        "europarl10k",
        "beam",
    ),
    "lstm_conv": ("convolution, LSTM, reduced-rank attention", MULTI30K, "bleu"),
    "transformer_simple": ("single-head Transformer without normalisation", MULTI30K, "bleu"),
    "transformer_coursework": ("2 + 2 layers, width 128", "europarl10k", "beam"),
    "transformer_tiny": (
        "4 + 4 layers, width 128, pre-norm",
        f"{MULTI30K}/default-1",
        "bleu",
    ),
    "transformer_small": ("3 + 3 layers, width 256, pre-norm", MULTI30K, "bleu"),
    "transformer_base": (
        "6 + 6 layers, width 512: the base model of the paper",
        None,
        "(27.3 on WMT14 en-de), Vaswani et al. 2017",
    ),
    "transformer_deep_shallow": (
        "12 + 1 layers, width 512: little work for each output token",
        None,
        "(26.9 on WMT14 en-de), Kasai et al. 2021",
    ),
    "transformer_big": (
        "6 + 6 layers, width 1024: the big model of the paper",
        None,
        "(28.4 on WMT14 en-de), Vaswani et al. 2017",
    ),
}


def model_table():
    """Makes one row for each preset."""
    rows = (
        (f"`{preset}`", what, score_of(preset, name, figure))
        for preset, (what, name, figure) in MODELS.items()
    )
    return markdown([("model", "what it is", "score"), *rows])


def score_of(preset, name, figure):
    """Formats the score of a preset, with the data on which it was measured."""
    if name is None:
        return figure
    if name in ("demo_alignment", "europarl10k"):
        name = f"{name}/{preset}"
    elif name == MULTI30K:
        name = f"{name}/{preset}-1"
    record = read(name)
    if name.startswith("demo_alignment"):
        after = f"demo corpus, {record['training']['minutes']:.0f} min, "
        after += f"{record['training']['steps']:,} updates"
        if figure == "aer":
            return f"AER {record['alignment']['aer']:.3f}, {after}"
        return f"{record['bleu']:.1f}, {after}"
    if name.startswith("europarl10k"):
        return f"{record['scores'][figure]['bleu']:.1f}, Europarl, 10,000 pairs de-en"
    if name.startswith("alignment"):
        aer = record["aligners"][figure]["aer"]
        directions = ", both directions" if "agree" in aer else ""
        aer = aer.get("agree") or aer["forward"]
        return f"AER {aer:.3f}, Hansards en-fr{directions} (`align.py`)"
    if name.startswith("phrases"):
        return f"{record['systems'][figure]['bleu']:.1f}, Multi30k en-de, lower-cased, tokenised"
    if figure == "perplexity":
        return f"perplexity {record['perplexity']['4']['test']:.1f}, demo corpus, order 4"
    return f"{record['bleu']:.1f}, {record['data']}"


def settings_table():
    """Makes one row for each preset: its class, and every setting that `--set` changes."""
    rows = []
    for preset, (model_class, _, origin) in {**models.PRESETS, **models.LANGUAGE_MODELS}.items():
        settings = ", ".join(f"{n}={v}" for n, v in models.preset_settings(preset).items())
        rows.append((f"`{preset}`", f"`{model_class.__name__}`", origin, settings))
    return markdown([("model", "class", "from; what it scores", "settings"), *rows])


def rules_table():
    """Makes a table for each script, without the needs that `options_table` has."""
    lines = []
    for script, rules in RULES.items():
        rows = [("flag", "needs", "excludes", "because")]
        for rule in rules:
            name = rule.option
            if script == "train" and name in BY_NAME and rule.needs == _only_with(name):
                continue
            option = f"`{in_words(rule.option)}`" if rule.option else "always"
            needs = " or ".join(f"`{in_words(each)}`" for each in rule.needs)
            excludes = ", ".join(f"`{in_words(each)}`" for each in rule.excludes)
            rows.append((option, needs, excludes, rule.reason))
        lines += ["", f"### {script}.py", "", *markdown(rows)]
    return lines


def options_table():
    """Makes one table for each group of training options."""
    lines = []
    for group, options in itertools.groupby(OPTIONS, key=lambda option: option.group):
        rows = [("option", "default", "values", "what it does", "may change on resume")]
        for option in options:
            # Markdown would take a token such as <unk> for HTML, and show nothing.
            text, default = re.sub(r"</?\w+>", r"`\g<0>`", option.help), option.default
            if option.only_with:
                other, values = option.only_with
                text += f" Only with `--{other}={'` or `'.join(values)}`."
            shown = str(default).lower() if isinstance(default, bool) else str(default)
            resumable = "yes" if option.resumable else ""
            name, default = f"`--{option.name}`", f"`{shown}`" if shown else ""
            values = option.expected() + (f", or {AUTO}" if option.automatic else "")
            rows.append((name, default, values, text, resumable))
        lines += ["", f"## {group}", "", *markdown(rows)]
    return lines


def _only_with(name: str) -> tuple[str, ...]:
    """Returns the condition that an option's entry in the table of options names already."""
    other, values = BY_NAME[name].only_with or ("", ())
    return (f"{other}={'|'.join(values)}",)
