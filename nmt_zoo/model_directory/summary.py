"""Summarises model directories side by side."""

from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.model_directory.metrics import read_records


def summarize(directory: ModelDirectory) -> dict[str, str]:
    """Returns the name and the text of each line about a run, "-" where a value is not known yet.

    Raises UserError: not a model directory, or a damaged one.
    """
    config = directory.config()
    records = read_records(directory.metrics_path)
    steps = directory.checkpoint_steps()
    # A run may stop after steps that it has not recorded yet.
    last = max([0, *(record["step"] for record in records[-1:]), *steps[-1:]])
    best, parameters = {}, None
    if directory.best_path.exists():
        arrays, best = directory.read_best()
        parameters = sum(array.size for array in arrays.values())
    averaged = best.get("averaged_steps")
    has_own_search = config["options"].get("update") == "tuning"
    skipped = [record["skipped_steps"] for record in records if "skipped_steps" in record]
    return {
        "model": config["model"],
        "settings": ", ".join(f"{n}={v}" for n, v in config["settings"].items()) or "-",
        "dataset": config.get("dataset", "-"),
        "parameters": _text(parameters, ",d"),
        "steps": _text(last, ",d"),
        "minutes": _text(records[-1]["seconds"] / 60 if records else None, ",.1f"),
        "valid perplexity": _text(best.get("perplexity"), ",.2f"),
        "valid BLEU": _text(best.get("bleu"), ".2f"),
        "length penalty": "-" if has_own_search else f"{directory.chosen()['length_penalty']:g}",
        "of step": f"average of {len(averaged)}" if averaged else _text(best.get("step"), ",d"),
        "skipped steps": _text(skipped[-1] if skipped else 0, ",d"),
        "checkpoints": ", ".join(map(str, steps)) or "-",
    }


def table(directories: list[ModelDirectory]) -> list[str]:
    """Formats the summaries of directories as lines, with one column for each directory."""
    columns = [{"": str(d.path), **summarize(d)} for d in directories]
    rows = [[name, *(column[name] for column in columns)] for name in columns[0]]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _text(value, form):
    return "-" if value is None else format(value, form)
