"""Learning curves, from the metrics.jsonl of a run."""

import math
import sys
from collections.abc import Sequence
from pathlib import Path

from nmt_zoo.common.errors import UserError
from nmt_zoo.decoding.pictures.figures import save_curves
from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.model_directory.metrics import read_records


def save_learning_curves(directories: Sequence[ModelDirectory], path: str | Path) -> None:
    """Draws the learning curves of one or several runs.

    They show log-likelihood if all runs were by expectation maximisation, otherwise perplexity on a
    logarithmic axis. If the values of the runs cannot be compared, the title and a line on standard
    error say why.

    Args:
        path: file to write, ending in .png, .svg or .pdf.

    Raises:
        ValueError: unknown file ending.
        UserError: as `learning_curves`, or the file cannot be written.
    """
    runs = {str(directory.path): learning_curves(directory) for directory in directories}
    by_likelihood = all("log-likelihood" in curves for curves in runs.values())
    name = "log-likelihood" if by_likelihood else "perplexity"
    text = "training_text" if by_likelihood else "validation_text"
    title = _difference([directory.config() for directory in directories], name, text)
    if title:
        print(title, file=sys.stderr)
    save_curves(
        {
            f"{run}, {kind}" if len(runs) > 1 else kind: points
            for run, curves in runs.items()
            for kind, points in curves.get(name, {}).items()
        },
        path,
        x_label="iterations" if by_likelihood else "updates",
        y_label=name,
        y_scale="linear" if by_likelihood else "log",
        title=title,
    )


def _difference(configs, name, text):
    """Returns why values of several runs cannot be compared, or None if they can."""
    vocabularies, texts = set(), set()
    for config in configs:
        sums = config["vocabulary_crc32"].items()
        target = sorted(item for item in sums if not item[0].startswith("source"))
        vocabularies.add((config["tokenizer"], config["vocab_sizes"][1], *target))
        texts.add(config.get(text))
    found = [("vocabularies", vocabularies), (text.replace("_", " ") + "s", texts)]
    differ = " and ".join(what for what, values in found if len(values) > 1)
    return f"different {differ}: {name} cannot be compared" if differ else None


def learning_curves(directory: ModelDirectory) -> dict[str, dict[str, tuple]]:
    """Reads the curves of a run.

    Returns:
        {"perplexity": {"training": (steps, values), "validation": likewise}}, without curves that
        have no points. After a run by expectation maximisation, steps are iterations, and there is
        also {"log-likelihood": {"training": (steps, values)}}.

    Raises:
        UserError: there is no model directory or there are no metrics yet, or a line is damaged;
            the error names it.
    """
    directory.config()  # Raises if this is not a model directory.
    path = directory.metrics_path
    found = {}
    for record in read_records(path):
        kind = {"train": "training", "valid": "validation"}[record["kind"]]
        values = {"perplexity": record.get("perplexity")}
        if kind == "training" and record["nll"] is not None:
            values = {"perplexity": math.exp(min(record["nll"], 200.0))}
        values["log-likelihood"] = record.get("log_likelihood")
        for name, value in values.items():
            if value is None or not math.isfinite(value):
                continue  # null: the model had diverged.
            points = found.setdefault(name, {}).setdefault(kind, [])
            points.append((float(record["step"]), float(value)))
    if not found:
        raise UserError(f"{path}: still empty; train.py fills it during training")
    return {
        name: {kind: tuple(zip(*points, strict=True)) for kind, points in curves.items()}
        for name, curves in found.items()
    }
