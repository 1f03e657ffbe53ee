"""Draws figures of docs/ from the files in docs/results; no figure tells by colours alone.

python docs/figures.py
"""

import io
import json
import re
from pathlib import Path

DOCS = Path(__file__).resolve().parent
COUNTED, NETWORK = "#8a3b00", "#0b4f9e"  # Both have a contrast above 7:1 with the white ground.
# System -> (label, place of the label: seconds, BLEU).
COUNTED_MODELS = {
    "ibm1": ("ibm1 (1993)", 13, 8.2),
    "ibm2": ("ibm2 (1993)", 13, 10.7),
    "hmm_alignment": ("hmm_alignment (1996)", 13, 14.2),
    "ibm2_lm": ("ibm2 + language model", 13, 23.3),
    "phrase_based": ("phrase_based (2003)", 20, 35.8),
    "hiero": ("hiero (2007)", 380, 38.6),
}
# Those of the zoo that have been trained for longer are labelled at that end of their line.
NETWORKS = {
    "transformer_tiny": ("transformer_tiny (2017)", 1500, 43.6),
    "attention_ibm2": ("attention_ibm2", 40, 26.4),
    "lstm_luong": ("lstm_luong (2015)", 33, 20.4),
    "transformer_coursework": ("transformer_coursework", 22, 17.2),
    "rnn_attention": ("rnn_attention", 1850, 26.8),
    "lstm_seq2seq": ("lstm_seq2seq", 43, 10.9),
    "lstm_lexical": ("lstm_lexical", 43, 8.2),
    "transformer_simple": ("transformer_simple", 1750, 22.6),
    "lstm_conv": ("lstm_conv", 1900, 34.5),
    "gru_bahdanau": ("gru_bahdanau (2015)", 2500, 30.2),
}
LONG = "methods/multi30k_en_de/{}-1.json"  # The file of transformer_tiny is that of its recipe.
# System -> colour, mark, hatching.
COMPARED = {
    "ibm2_lm": ("#8c564b", "s", "//"),
    "phrase_based": ("#d62728", "o", ""),
    "hiero": ("#ff7f0e", "D", ""),
    "lstm_lexical": ("#2ca02c", "^", "--"),
    "transformer_tiny": ("#1f77b4", "*", "\\\\"),
    "transformer_started": ("#9467bd", "P", ""),
}
# Figure of the coursework -> model -> colour, mark.
COURSEWORK = {
    "lstm": {
        "lstm_luong": ("#0072b2", "o"),
        "lstm_luong_deep": ("#d55e00", "s"),
        "lstm_lexical": ("#00795a", "^"),
    },
    "transformer": {
        "transformer_coursework": ("#0072b2", "o"),
        "transformer_cured": ("#d55e00", "s"),
    },
}
WORDS = {"train": "training", "valid": "validation"}
TICKS = {10: "10 s", 60: "1 min", 180: "3 min", 600: "10 min", 3600: "1 h", 7200: "2 h"}


def read(name):
    """Returns a file of docs/results."""
    return json.loads((DOCS / "results" / name).read_text(encoding="utf-8"))


def ends(system, short):
    """Returns (seconds, BLEU) after the short training, and after the long one if there is one."""
    points = [(short["training_seconds"], short["bleu"])]
    path = LONG.format({"transformer_tiny": "default"}.get(system, system))
    if (DOCS / "results" / path).exists():
        long = read(path)
        points.append((60 * long["training"]["minutes"], long["bleu"]))
    return points


def save(figure, name):
    """Writes a figure, its panels without frames at the top and right."""
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    (DOCS / name).write_text(re.sub(" +$", "", text.getvalue(), flags=re.M), encoding="utf-8")


def zoo(plt):
    """Draws BLEU on Multi30k by the time of training."""
    systems = read("phrases/multi30k_29000.json")["systems"]
    figure, axes = plt.subplots(figsize=(8.6, 5), layout="constrained")
    for models, colour, mark in ((COUNTED_MODELS, COUNTED, "s"), (NETWORKS, NETWORK, "o")):
        for system, (label, *place) in models.items():
            points = ends(system, systems[system])
            axes.plot(*zip(*points, strict=True), color=colour, marker=mark, markersize=5)
            scores = " to ".join(f"{bleu:.1f}" for _, bleu in points)
            axes.annotate(
                f"{label} {scores}",
                points[-1],
                place,
                color=colour,
                va="center",
                arrowprops={"arrowstyle": "-", "linestyle": ":", "color": "#6b6b6b"},
            )
    for colour, mark, kind in (
        (COUNTED, "s", "counted models"),
        (NETWORK, "o", "networks, after 3 minutes and after a long run"),
    ):
        axes.plot([], [], color=colour, marker=mark, markersize=5, label=kind)
    axes.legend(loc="upper left", frameon=False)
    axes.set(xscale="log", xlim=(7, 12_000), ylim=(-1, 49), ylabel="BLEU, test_2016_flickr")
    axes.set_xticks(list(TICKS), TICKS.values())
    axes.minorticks_off()
    axes.set_xlabel("training time on two CPU cores")
    save(figure, "zoo.svg")


def coursework(plt, picture):
    """Draws the losses of models by epoch: a colour and mark each, dashes for training."""
    runs = read("studies/coursework.json")["runs"]
    figure, axes = plt.subplots(figsize=(8.6, 4), layout="constrained")
    for name, (colour, mark) in COURSEWORK[picture].items():
        for (kind, losses), line in zip(runs[name]["loss"].items(), ("--", "-"), strict=True):
            epochs, every = range(1, len(losses) + 1), len(losses) // 6
            look = {"color": colour, "linestyle": line, "marker": mark, "markevery": (0, every)}
            axes.plot(epochs, losses, label=f"{name}, {WORDS[kind]}", **look)
    axes.set(xlabel="epoch", ylabel="loss (nats per token)")
    axes.grid(axis="y", color="#e5e5e5")
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1), handlelength=4)
    save(figure, f"coursework_{picture}.svg")


def statistical_neural(plt):
    """Draws BLEU by amount of text, by length of the sentence and by kind of text."""
    systems = read("studies/statistical_neural.json")["systems"]
    sizes = {n: read(f"phrases/multi30k_{n}.json")["systems"] for n in (300, 1000, 5000, 29000)}
    figure, (amount, length, kind) = plt.subplots(3, 1, figsize=(6.5, 11), layout="constrained")
    figure.get_layout_engine().set(hspace=0.06)  # A label is not beside the next title.
    for name, (colour, mark, _) in COMPARED.items():
        points = [(n, of_size[name]["bleu"]) for n, of_size in sizes.items() if name in of_size]
        amount.plot(*zip(*points, strict=True), color=colour, marker=mark, label=name)
    amount.set(xscale="log", xlabel="pairs of the training text", title="Amount of text")
    amount.set_xticks(list(sizes), [f"{n:,}" for n in sizes])
    amount.minorticks_off()
    width = 0.8 / len(systems)
    for number, (name, found) in enumerate(systems.items()):
        colour, mark, hatch = COMPARED[name]
        ranges = [
            f"{low} to {high}" if high < 900 else f"{low} and more"
            for low, high, *_ in found["by_length"]
        ]
        length.plot(ranges, [x[-1] for x in found["by_length"]], color=colour, marker=mark)
        places = [i + (number - len(systems) / 2 + 0.5) * width for i in range(len(found["kinds"]))]
        look = {"color": colour, "hatch": hatch, "edgecolor": "white", "label": name}
        bars = kind.bar(places, found["kinds"].values(), width, **look)
        kind.bar_label(bars, fmt="%.0f", fontsize=8)
        kind.set_xticks(
            range(len(found["kinds"])), [x.replace(" ", "\n", 1) for x in found["kinds"]]
        )
    length.set(xlabel="words of the sentence", title="Length of the sentence, 29,000 pairs")
    kind.set(title="Noise and another kind of text, 29,000 pairs")
    for axes in (amount, length, kind):
        axes.set(ylabel="BLEU", ylim=(0, 46))
        axes.grid(axis="y", color="#e5e5e5")
        axes.set_axisbelow(True)
    amount.legend(frameon=False, ncols=3, loc="upper left")
    kind.legend(frameon=False, loc="upper right")
    save(figure, "statistical_neural.svg")


def main():
    """Draws all."""
    import matplotlib as mpl
    from matplotlib import pyplot as plt

    mpl.use("svg")
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "zoo", "font.size": 9})
    zoo(plt)
    for picture in COURSEWORK:
        coursework(plt, picture)
    statistical_neural(plt)


if __name__ == "__main__":
    main()
