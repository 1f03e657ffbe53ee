"""Draws docs/zoo.svg: BLEU on Multi30k by the time of training, from the files in docs/results.

python docs/zoo.py
"""

import json
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


def main():
    """Draws the figure."""
    import matplotlib as mpl
    from matplotlib import pyplot as plt

    mpl.use("svg")
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "zoo", "font.size": 9})
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
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(DOCS / "zoo.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
