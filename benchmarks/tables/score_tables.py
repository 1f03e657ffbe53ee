"""Tables of scores: translations, alignments, language models; and of runs that were killed."""

import math
import statistics
from functools import partial

from benchmarks.tables.cells import entries, fill, read, records, table

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
_EUROPARL = {
    "model": "`{model}`",
    "vocabulary": "{tokenizer}, {vocab_sizes[0]:,} and {vocab_sizes[1]:,}",
    "parameters": "{parameters:1e-6 .2f} M",
    "valid perplexity": (*("{training[best][perplexity]:.1f}", " ({published[perplexity]:.1f})"),),
    "greedy": ("{scores[greedy][bleu]:.2f}", " ({published[bleu]:.2f})"),
    "beam 5": "{scores[beam][bleu]:.2f}",
    "UNK replaced": "{scores[replaced][bleu]:.2f}",
    "minutes": "{training[minutes]:.0f}",
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
_ALIGNERS = {
    "aligner": "{name}",
    "forward": "{aer[forward]:.3f}",
    "reverse": "{aer[reverse]:.3f}",
    "both, best": "{best:.3f} ({method})",
    "seconds": "{seconds:.1f}",
    "peak memory": "{peak_memory_gb:.2f} GB",
}
_PRETRAINED = {
    "model": "`{name}`",
    "weights": "{parameters:1e-6 .2f} M",
    "lines with equal ids": "{ids_alike:,} of {lines:,}",
    "largest difference of logits": "{largest_difference_of_logits:.1e}",
    "greedy alike": "{greedy[alike]} of {greedy[finished]}",
    "beam 4 alike": "{beam[alike]} of {beam[finished]}",
    "greedy: ours, PyTorch, CTranslate2": "{greedy[shown]} s",
    "beam 4: the same": "{beam[shown]} s",
}
_LANGUAGES = {
    "pair": "{name}{note}",
    "a model for it alone": ("{alone[bleu]:.2f} / {alone[chrf]:.2f}", " ({updates:,} updates)"),
    "one model": "{one[bleu]:.2f} / {one[chrf]:.2f}",
    "the same, by way of English": "{cascade[bleu]:.2f} / {cascade[chrf]:.2f}",
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
_COURSEWORK = {
    "model": "`{name}`",
    "parameters": "{parameters:1e-6 .2f} M",
    "BLEU": ("{bleu:.2f}", " ({published[bleu]:.2f})"),
    "valid perplexity, last epoch": ("{last:.1f}", " ({published[perplexity]:.1f})"),
    "best epoch": "{least:.1f}, epoch {best}",
    "training loss, last epoch": ("{train:.3f}", " ({published[loss]:.3f})"),
    "epochs": "{epochs}",
    "why different": "{why_different}",
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


def _europarl():
    rows = [row for row in records("europarl10k/*.json") if "scores" in row]
    return table(_EUROPARL, sorted(rows, key=lambda row: row["parameters"]))


_METHODS = ("corpus", "method or model", "runs", "updates", "precision", "BLEU", "gain", "chrF")
_METHODS += ("as published", "AER")
_SIZES = (29000, 5000, 1000, 300)  # Pairs of Multi30k.
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
    bleu, chrf, published, aer = (
        [r[name] for r in results if name in r]
        for name in ("bleu", "chrf", "bleu_lowercased_moses", "aer")
    )
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


def _aligners(name):
    rows = entries(f"alignment/{name}", "aligners")
    for row in rows:
        both = {m: aer for m, aer in row["aer"].items() if m not in ("forward", "reverse")}
        row["method"] = min(both, key=both.get)
        row["best"] = both[row["method"]]
    return table(_ALIGNERS, rows)


def _phrases():
    """Makes a row for each system: BLEU by text; the best of the largest text first.

    Two networks of Europarl are those of its own table, with their unknown words replaced.
    """
    columns = {"system": "`{name}`"}
    columns |= {f"Multi30k, {size:,}": f"{{multi30k_{size}[bleu]:.2f}}" for size in _SIZES}
    columns |= {f"Europarl, {size:,}": f"{{europarl_{size}[bleu]:.2f}}" for size in (10000, 300)}
    largest = f"multi30k_{_SIZES[0]}"
    for title, key in (("training, s", "training_seconds"), ("lines a second", "lines_per_second")):
        columns[title] = f"{{{largest}[{key}]:.0f}}"
    rows = {}
    for record in records("phrases/*.json"):
        for name, scores in record["systems"].items():
            rows.setdefault(name, {"name": name})[record["name"]] = scores
    for name in ("lstm_lexical", "transformer_coursework"):
        rows[name]["europarl_10000"] = read(f"europarl10k/{name}")["scores"]["replaced"]
    return table(columns, sorted(rows.values(), key=lambda row: -row[largest]["bleu"]))


def _pretrained():
    rows = records("pretrained/*.json")
    for row in rows:
        for way in (row["greedy"], row["beam"]):
            totals = (way[f"seconds{system}"] for system in ("", "_pytorch", "_ctranslate2"))
            means = ("-" if s is None else f"{s / row['translated']:.3f}" for s in totals)
            way["shown"] = ", ".join(means)
    return table(_PRETRAINED, rows)


def _languages():
    updates, rows = read("studies/languages")["updates"], entries("studies/languages", "pairs")
    for row in rows:
        row["note"] = "" if "alone" in row else ", never seen together"
        if "alone" in row:
            row["updates"] = updates[row["name"]]
    return table(_LANGUAGES, rows)


def _tuning():
    columns = {"model": "{model}", "BLEU on new text": "{new:.2f}", "BLEU on old text": "{old:.2f}"}
    rows = entries("studies/tuning", "bleu")
    for row in rows:
        row["model"] = fill("after `--learning_rate={name}`" if "tuned" in row else "{name}", row)
    return table(columns, rows)


def _pronouns():
    ways = {f"right when {way}": f"{{{way}:.1%}}" for way in ("translated", "scored")}
    return table({"sentences of context": "{name}", **ways}, entries("studies/pronouns", "right"))


def _kinds():
    """Makes a row of BLEU for each kind of text and each range of lengths."""
    systems = read("studies/statistical_neural")["systems"]
    first = next(iter(systems.values()))
    rows = [
        {"text": kind, **{name: r["kinds"][kind] for name, r in systems.items()}}
        for kind in first["kinds"]
    ]
    for number, (low, high, count, _) in enumerate(first["by_length"]):
        words = f"{low} to {high}" if high < 900 else f"{low} and more"
        scores = {name: r["by_length"][number][-1] for name, r in systems.items()}
        rows.append({"text": f"sentences of {words} words ({count})", **scores})
    return table({"text": "{text}", **{f"`{n}`": f"{{{n}:.2f}}" for n in systems}}, rows)


def _noisy_channel():
    """Makes a row of BLEU for each model, and the perplexity of each order."""
    ways = {"alone": "direct", "with the language model": "fusion", "as a noisy channel": "channel"}
    columns = {
        title: (f"{{{way}[bleu]:.2f}}", f" (weight {{{way}[language_model_weight]:g}})")
        for title, way in ways.items()
    }
    orders = read("noisy_channel/demo")["perplexity"]
    rows = [
        {"split": title, **{f"order {order}": of[split] for order, of in orders.items()}}
        for title, split in (("validation", "valid"), ("test", "test"))
    ]
    heads = {f"order {order}": f"{{order {order}:.2f}}" for order in orders}
    return [
        *table({"model": "`{name}`", **columns}, entries("noisy_channel/demo", "models")),
        "",
        *table({"perplexity of `ngram_lm`": "{split}", **heads}, rows),
    ]


def _coursework():
    rows = entries("studies/coursework", "runs")
    for row in rows:
        valid, train = row["loss"]["valid"], row["loss"]["train"]
        row |= {"last": math.exp(valid[-1]), "least": math.exp(min(valid)), "train": train[-1]}
        row |= {"best": 1 + valid.index(min(valid)), "epochs": len(valid)}
    return table(_COURSEWORK, rows)


def _coursework_examples():
    """Makes rows of source, reference and translations for the sentences of tables 4 and 6."""
    record = read("studies/coursework")
    names = ("lstm_luong", "lstm_lexical", "transformer_coursework")
    rows = []
    for number, (source, reference) in record["lines"].items():
        texts = {"source": source, "reference": reference}
        texts |= {f"`{name}`": record["runs"][name]["examples"][number] for name in names}
        rows += [{"line": "", "title": title, "text": text} for title, text in texts.items()]
        rows[-len(texts)]["line"] = number
    return table({"line": "{line}", "": "{title}", "sentence": "{text}"}, rows)


TABLES = {
    "demo": _demo,
    "results": _general,
    "europarl10k": _europarl,
    "methods": _methods,
    "demo_alignment": _demo_alignment,
    "aligners": partial(_aligners, "hansards"),
    "aligners_held_out": partial(_aligners, "demo_held_out"),
    "phrases": _phrases,
    "pretrained": _pretrained,
    "tuning": _tuning,
    "languages": _languages,
    "pronouns": _pronouns,
    "kinds": _kinds,
    "noisy_channel": _noisy_channel,
    "coursework": _coursework,
    "coursework_words": lambda: ["```", *read("studies/coursework")["words"], "```"],
    "coursework_examples": _coursework_examples,
    "faults": lambda: table(_FAULTS, entries("faults/kills", "presets")),
}
