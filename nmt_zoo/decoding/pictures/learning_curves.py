"""Pictures of what a run has recorded in metrics.jsonl."""

import itertools
import os
from typing import Any

import numpy as np

from nmt_zoo.decoding.pictures import figures


def save_curves(runs: dict[str, list[dict[str, Any]]], path: str | os.PathLike) -> None:
    """Draws log-perplexity and BLEU by the updates of training; dotted lines are of training text.

    `runs` is name -> records. Raises UserError: the file has another ending, or cannot be written.
    """
    from matplotlib.figure import Figure

    ending = figures.check_path(path)
    with figures.style([*runs], ending):
        figure = Figure(figsize=(9, 3.6), layout="constrained")
        panels = dict(zip(("perplexity", "bleu"), figure.subplots(1, 2), strict=True))
        lines = itertools.product(runs.items(), {"train": ".:", "valid": ".-"}.items())
        for (run, records), (kind, line) in lines:
            for score, axes in panels.items():
                values = [(x["step"], x.get(score)) for x in records if x["kind"] == kind]
                steps, values = np.array(values, float).reshape(-1, 2).T  # None becomes NaN.
                values = np.log(values) if score == "perplexity" else values
                axes.plot(steps, values, line, label=figures.printable(f"{run}, {kind}"))
        panels["perplexity"].set(xlabel="updates", ylabel="log-perplexity")
        panels["bleu"].set(xlabel="updates", ylabel="BLEU")
        panels["perplexity"].legend(fontsize=8)
        panels["bleu"].set_visible(any("bleu" in x for run in runs.values() for x in run))
        figures.save(figure, path, dpi=150)
