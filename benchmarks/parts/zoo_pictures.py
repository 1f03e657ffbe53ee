"""Draws the systems of phrases.py and statistical_neural.py; see there."""

from nmt_zoo.decoding.pictures import figures

# System -> the year of the paper; of the models of a textbook, none.
YEARS = {
    "ibm1": 1993,
    "ibm2": 1993,
    "ibm2_lm": 1993,
    "hmm_alignment": 1996,
    "phrase_based": 2003,
    "hiero": 2005,
    "lstm_seq2seq": 2014,
    "gru_bahdanau": 2014,
    "lstm_luong": 2015,
    "lstm_conv": 2015,
    "lstm_lexical": 2017,
    "transformer_coursework": 2017,
    "transformer_tiny": 2017,
}
_STYLES = {
    "ibm2_lm": ("#8c564b", "s"),
    "phrase_based": ("#d62728", "o"),
    "hiero": ("#ff7f0e", "D"),
    "lstm_lexical": ("#2ca02c", "^"),
    "transformer_tiny": ("#1f77b4", "*"),
    "transformer_started": ("#9467bd", "P"),
}


def draw_comparison(by_size, systems, path):
    """Draws BLEU by amount of text, by length and by kind of text.

    `by_size` is {pairs: {system: record of phrases.py}}, `systems` as in statistical_neural.json.
    """
    from matplotlib.figure import Figure

    with figures.style([], ".svg"):
        figure = Figure(figsize=(6.5, 11), layout="constrained")
        amount, length, kind = figure.subplots(3, 1)
        _draw_amount(amount, by_size)
        names = [
            f"{low} to {high}" if high < 900 else f"{low} and more"
            for low, high, *_ in next(iter(systems.values()))["by_length"]
        ]
        for name, found in systems.items():
            color, marker = _STYLES[name]
            scores = [score for *_, score in found["by_length"]]
            length.plot(names, scores, color=color, marker=marker)
        length.set(xlabel="words of the sentence", title="Length of the sentence, 29,000 pairs")
        _draw_kinds(kind, systems)
        for panel in (amount, length, kind):
            _plain(panel)
        amount.legend(frameon=False, ncols=3, loc="upper left")
        amount.set_ylim(top=46)
        figures.save(figure, path, dpi=150)


def _draw_amount(panel, by_size):
    for name, (color, marker) in _STYLES.items():
        points = [(n, found[name]["bleu"]) for n, found in sorted(by_size.items()) if name in found]
        if points:
            panel.plot(*zip(*points, strict=True), color=color, marker=marker, label=name)
    sizes = sorted(by_size)
    panel.set(xscale="log", xlabel="pairs of the training text", title="Amount of text")
    panel.set_xticks(sizes, [f"{n:,}" for n in sizes])
    panel.minorticks_off()


def _draw_kinds(panel, systems):
    kinds, width = list(next(iter(systems.values()))["kinds"]), 0.8 / len(systems)
    for number, (name, found) in enumerate(systems.items()):
        places = [i + (number - len(systems) / 2 + 0.5) * width for i in range(len(kinds))]
        bars = panel.bar(places, found["kinds"].values(), width, color=_STYLES[name][0])
        panel.bar_label(bars, fmt="%.0f", fontsize=8)
    panel.set_xticks(range(len(kinds)), [k.replace(" ", "\n", 1) for k in kinds])
    panel.set(title="Noise and another kind of text, 29,000 pairs")


def _plain(panel):
    panel.set_ylabel("BLEU")
    panel.set_ylim(bottom=0)
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(axis="y", color="#e5e5e5", linewidth=0.8)
    panel.set_axisbelow(True)


def draw_zoo(systems, path):
    """Draws BLEU by training time: a mark for each model, and the way of networks to it."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    with figures.style([], ".svg"):
        figure = Figure(figsize=(8, 5.5), layout="constrained")
        panel, height = figure.add_subplot(), 99.0
        # Not another toolkit, nor what began with the training of another model.
        known = [name for name in systems if name not in ("thot", "transformer_started")]
        for name in sorted(known, key=lambda name: -systems[name]["bleu"]):
            found, year = systems[name], YEARS.get(name)
            color = colormaps["plasma"](0.78 * (year - 1993) / 24) if year else "#777777"
            end = found["training_seconds"], found["bleu"]
            curve = [*found.get("curve", []), end]
            panel.plot(*zip(*curve, strict=True), color=color, linewidth=1, alpha=0.6)
            panel.plot(*[[value] for value in end], "o", color=color)
            height = min(end[1], height - 1.5)  # Labels stand one above the other.
            panel.annotate(
                f"{name}{f' ({year})' if year else ''} {end[1]:.1f}",
                end,
                (1.01, height),
                textcoords=panel.get_yaxis_transform(),
                va="center",
                color=color,
                fontsize=10,
                arrowprops={
                    "arrowstyle": "-",
                    "color": color,
                    "linewidth": 0.5,
                    "relpos": (0, 0.5),
                },
            )
        panel.set(xscale="log", xlabel="seconds of training, two cores")
        panel.xaxis.set_major_formatter("{x:,g}")
        panel.set_title("Multi30k English-German, 29,000 pairs", loc="left")
        _plain(panel)
        figures.save(figure, path, dpi=150)
