"""Tables of scores: translations, alignments, language models; and of runs that were killed."""

import statistics
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
_DEMO_ALIGNMENT = {
    "model": "`{model}`",
    "tokens": "{tokenizer}",
    "parameters": "{parameters:1e-6 .2f} M",
    "AER": "{alignment[aer]:.3f}",
    "precision": "{alignment[precision]:.3f}",
    "recall": "{alignment[recall]:.3f}",
    "BLEU": "{bleu:.2f}",
    "minutes": "{training[minutes]:.0f}",
    "steps": "{training[steps]:,}",
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


_METHODS = ("corpus", "method or model", "runs", "updates", "precision", "BLEU", "gain", "chrF")
_METHODS += ("as published", "AER")
_WITHOUT = ("plain", "float32")  # Rows without a method, one for each precision.


def _methods():
    """Makes a row for each corpus and method, the mean of all runs; the best of a corpus first.

    An ensemble's updates are those of all its models together. A method is compared with as many
    updates of the same model in the same precision.
    """
    corpora = {}
    for result in records("methods/*/*.json"):
        corpora.setdefault(result["data"], {}).setdefault(result["method"], []).append(result)
    rows = []
    for corpus, methods in corpora.items():
        bleu = {name: statistics.mean(r["bleu"] for r in runs) for name, runs in methods.items()}
        for name in sorted(methods, key=bleu.get, reverse=True):
            work = _work(methods[name])
            others = [n for n in _WITHOUT if n in methods and work and _work(methods[n]) == work]
            gain = ""
            if others and name not in _WITHOUT:
                gain = f"{bleu[name] - bleu[others[0]]:+.2f}"
            cells = (corpus, f"`{name}`", *_method_cells(methods[name], gain))
            rows.append(dict(zip(_METHODS, cells, strict=True)))
    return table({name: f"{{{name}}}" for name in _METHODS}, rows)


def _work(results):
    """Returns (model, updates, precision) of all results that are not those of ensembles."""
    trained = [r for r in results if "steps" in r["training"]]
    return {(r["model"], r["training"]["steps"], r["options"]["precision"]) for r in trained}


def _method_cells(results, gain):
    trainings = [r["training"] for r in results]
    trainings = [run if isinstance(run, list) else [run] for run in trainings]
    updates = [sum(model["steps"] for model in run) for run in trainings]
    precisions = sorted({r["options"]["precision"] for r in results})
    bleu, chrf, published = (
        [r[name] for r in results if name in r]
        for name in ("bleu", "chrf", "bleu_lowercased_moses")
    )
    aer = [r["alignment"]["aer"] for r in results if "alignment" in r]
    counts = (str(len(results)), _mean(updates, 0), " and ".join(precisions))
    return (*counts, _mean(bleu, 2), gain, _mean(chrf, 2), _mean(published, 2), _mean(aer, 3))


def _mean(numbers, digits):
    """Formats the mean of numbers; if they differ, with the smallest and the largest."""
    if not numbers:
        return ""
    mean, least, largest = (
        f"{number:,.{digits}f}" for number in (statistics.mean(numbers), min(numbers), max(numbers))
    )
    return mean if least == largest else f"{mean} ({least} to {largest})"


def _demo_alignment():
    rows = records("demo_alignment/*.json")
    return table(_DEMO_ALIGNMENT, sorted(rows, key=lambda r: r.get("alignment", {"aer": 2})["aer"]))


def _faults():
    presets = read("faults/kills")["presets"]
    return table(_FAULTS, [{"name": name, **figures} for name, figures in presets.items()])


TABLES = {
    "demo": _demo,
    "results": _general,
    "methods": _methods,
    "demo_alignment": _demo_alignment,
    "faults": _faults,
    "coursework_words": lambda: ["```", *read("studies/coursework")["words"], "```"],
    # Of finished studies, made from their records.
    **{name: partial(markdown, rows) for name, rows in read("studies/tables").items()},
}
