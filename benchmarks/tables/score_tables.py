"""Tables of scores, of runs that were killed, and of finished studies."""

from functools import partial

from benchmarks.tables.cells import fill, markdown, read, records, table

_GENERAL = {
    "model": "`{model}`",
    "data": "{data}",
    "parameters": "{parameters:1e-6 .2f} M",
    "BLEU": ("**{bleu:.2f}**", " ({published})"),
    "chrF": "{chrf:.2f}",
    "training": "{training[minutes]:.0f} min, {training[steps]:,} steps, seed {options[seed]}",
    "machine": "{machine[processor]}",
    "details": "[{name}](results/{name}.json)",
}
_FAULTS = {
    "model": "`{name}`",
    "runs": "{runs}",
    "kills": "{kills}",
    "while saving": "{kills_by_moment[save]}",
    "survived": "{survived}",
    "steps lost, mean": "{mean_steps_lost:.1f}",
    "most": "{most_steps_lost} of {steps_between_saves} between saves",
}


def _general():
    """Makes a row for each file that stands directly in docs/results, and its command."""
    rows = records("*.json")
    lines = table(_GENERAL, rows)
    for row in rows:
        lines += ["", fill("{name} (`{bleu_signature}`, beam {beam_size}):", row), "```"]
        lines += [*row["command"], "```"]
    return lines


def _demo():
    """Tells how long `make demo` took, and makes its last lines, by its result file."""
    record = read("demo_en_de_transformer_tiny")
    minutes = "Training took {training[minutes]:.0f} minutes on an {machine[processor]}."
    first = fill(minutes, record)
    if seeds := record.get("seeds"):
        scores = sorted(run["bleu"] for run in seeds.values())
        processors = " and ".join(sorted({f"an {run['processor']}" for run in seeds.values()}))
        extremes = f"{scores[0]:.1f} to {scores[-1]:.1f}"
        first += f" {len(scores)} other seeds gave {extremes} on {processors}."
    wrote = "wrote exports/demo/1; 500 lines translated alike in a fresh process"
    score = fill("BLEU|{bleu_signature} = {bleu:.2f}", record)
    first += " Among the lines printed are:"
    return [first, "```", score, "...", "wrote runs/demo/attention.png", wrote, "```"]


def _faults():
    presets = read("faults/kills")["presets"]
    return table(_FAULTS, [{"name": name, **figures} for name, figures in presets.items()])


TABLES = {
    "demo": _demo,
    "results": _general,
    "faults": _faults,
    "coursework_words": lambda: ["```", *read("studies/coursework")["words"], "```"],
    # Of finished studies, made from their records.
    **{name: partial(markdown, rows) for name, rows in read("studies/tables").items()},
}
