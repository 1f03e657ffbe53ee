"""Learning curves: what metrics.jsonl says of how a run went."""

import json
import math

from data_pipeline.files import UserError, read_lines
from decoding.figures import save_curves


def save_learning_curves(directories, path):
    """Draws the curves of one or several runs, perplexity on a logarithmic axis.

    Args:
        directories: list of `ModelDirectory`.
        path: the file to write; it ends in .png, .svg or .pdf.

    Raises:
        ValueError: unknown file ending.
        UserError: as `learning_curves`; runs whose values are not of one kind; the file cannot be
            written.
    """
    found = {str(directory.path): learning_curves(directory) for directory in directories}
    (name, _), *others = found.values()
    if any(other != name for other, _ in others):
        raise UserError(
            "these cannot share an axis, draw them apart: "
            + ", ".join(f"{name} of {run}" for run, (name, _) in found.items())
        )
    by_likelihood = name == "log-likelihood"
    save_curves(
        {
            f"{run}, {kind}" if others else kind: points
            for run, (_, curves) in found.items()
            for kind, points in curves.items()
        },
        path,
        x_label="iterations" if by_likelihood else "updates",
        y_label=name,
        y_scale="linear" if by_likelihood else "log",
    )


def learning_curves(directory):
    """Reads the curves of a run.

    Args:
        directory: `ModelDirectory`.

    Returns:
        (what the values are, {"training": (steps, values), "validation": likewise}), without a
        curve that has no points. Values are "perplexity", or the "log-likelihood" of the training
        text in a run by expectation maximisation, whose steps are iterations.

    Raises:
        UserError: no model directory, no metrics yet, or a line that is damaged, naming it.
    """
    directory.config()  # Says if it is no model directory.
    path = directory.metrics_path
    lines = read_lines(path) if path.exists() else []
    curves, name = {}, "perplexity"
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
            kind = {"train": "training", "valid": "validation"}[record["kind"]]
            if "log_likelihood" in record:
                name, value = "log-likelihood", record["log_likelihood"]
            elif kind == "training":
                value = math.exp(min(record["nll"], 200.0))
            else:
                value = record["perplexity"]
            curves.setdefault(kind, []).append((float(record["step"]), float(value)))
        except (ValueError, KeyError, TypeError):
            raise UserError(
                f"{path}, line {number}: {line[:60]!r}; expected what train.py writes; remove the "
                "line, or start the same train.py command again"
            ) from None
    if name != "perplexity":  # Of which validation knows nothing else.
        curves.pop("validation", None)
    if not curves:
        raise UserError(f"{path}: nothing in it yet; train.py writes it as it goes")
    return name, {kind: tuple(zip(*points, strict=True)) for kind, points in curves.items()}
