"""Learning curves: what metrics.jsonl says of how a run went."""

import math

from data_pipeline.files import UserError
from decoding.pictures.figures import save_curves
from model_directory.metrics import read_records


def save_learning_curves(directories, path):
    """Draws the curves of one or several runs.

    The log-likelihood if all runs were by expectation maximisation, otherwise the perplexity, on a
    logarithmic axis.

    Args:
        directories: list of `ModelDirectory`.
        path: the file to write; it ends in .png, .svg or .pdf.

    Raises:
        ValueError: unknown file ending.
        UserError: as `learning_curves`; the file cannot be written.
    """
    runs = {str(directory.path): learning_curves(directory) for directory in directories}
    by_likelihood = all("log-likelihood" in curves for curves in runs.values())
    name = "log-likelihood" if by_likelihood else "perplexity"
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
    )


def learning_curves(directory):
    """Reads the curves of a run.

    Args:
        directory: `ModelDirectory`.

    Returns:
        {"perplexity": {"training": (steps, values), "validation": likewise}}, without a curve that
        has no points; also "log-likelihood", of the training text, after a run by expectation
        maximisation, whose steps are iterations.

    Raises:
        UserError: no model directory, no metrics yet, or a line that is damaged, naming it.
    """
    directory.config()  # Says if it is no model directory.
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
        raise UserError(f"{path}: nothing in it yet; train.py writes it as it goes")
    return {
        name: {kind: tuple(zip(*points, strict=True)) for kind, points in curves.items()}
        for name, curves in found.items()
    }
