"""Tables of scores: translations, alignments and language models."""

import statistics

from benchmarks.tables.markdown import markdown, read, read_all

COLUMNS = ("model", "data", "parameters", "BLEU", "chrF", "training", "machine", "details")


def general_table():
    """Makes one row for each result file, with commands and signatures below."""
    results = {path.stem: result for path, result in read_all("*.json").items()}
    lines = markdown([COLUMNS, *(_row(name, r) for name, r in results.items())])
    for name, r in results.items():
        lines += ["", f"{name} (`{r['bleu_signature']}`, beam {r['beam_size']}):", "```"]
        lines += [*r["command"], "```"]
    return lines


def _row(name, r):
    training = r["training"]
    return (
        f"`{r['model']}`",
        r["data"],
        f"{r['parameters'] / 1e6:.2f} M",
        f"**{r['bleu']:.2f}**" + (f" ({r['published']})" if r.get("published") else ""),
        f"{r['chrf']:.2f}",
        f"{training['minutes']:.0f} min, {training['steps']:,} steps, seed {r['options']['seed']}",
        f"{r['machine']['processor']}",
        f"[{name}](results/{name}.json)",
    )


def demo_output():
    """Says how long `make demo` took, and makes its last lines, by its result file."""
    r = read("demo_en_de_transformer_tiny")
    first = (
        f"Training took {r['training']['minutes']:.0f} minutes on an {r['machine']['processor']}."
    )
    if others := r.get("seeds"):
        scores = sorted(found["bleu"] for found in others.values())
        places = " and ".join(sorted({f"an {found['processor']}" for found in others.values()}))
        first += f" {len(scores)} other seeds gave {scores[0]:.1f} to {scores[-1]:.1f} on {places}."
    first += " Among the lines printed are:"
    score = f"BLEU|{r['bleu_signature']} = {r['bleu']:.2f}"
    wrote = "wrote runs/demo/attention.png", "wrote exports/demo/1; 500 lines translated alike"
    return [first, "```", score, "...", wrote[0], f"{wrote[1]} in a fresh process", "```"]


EUROPARL_COLUMNS = (
    *("model", "vocabulary", "parameters", "valid perplexity"),
    *("greedy", "beam 5", "UNK replaced", "minutes"),
)


def europarl_table():
    """Makes one row for each run of benchmarks/europarl10k.py, by number of parameters."""
    results = [r for r in read_all("europarl10k/*.json").values() if "scores" in r]
    results.sort(key=lambda r: r["parameters"])

    def bleu(r, search):
        return f"{r['scores'][search]['bleu']:.2f}" if search in r["scores"] else ""

    def published(r, figure, digits):
        return f" ({r['published'][figure]:.{digits}f})" if "published" in r else ""

    return markdown(
        [
            EUROPARL_COLUMNS,
            *(
                (
                    f"`{r['model']}`" + "".join(f" `{k}={v}`" for k, v in r["settings"].items()),
                    f"{r['tokenizer']}, {r['vocab_sizes'][0]:,} and {r['vocab_sizes'][1]:,}",
                    f"{r['parameters'] / 1e6:.2f} M",
                    f"{r['training']['best']['perplexity']:.1f}" + published(r, "perplexity", 1),
                    bleu(r, "greedy") + published(r, "bleu", 2),
                    bleu(r, "beam"),
                    bleu(r, "replaced"),
                    f"{r['training']['minutes']:.0f}",
                )
                for r in results
            ),
        ]
    )


METHOD_COLUMNS = (
    *("corpus", "method or model", "runs", "updates", "precision", "minutes", "processor"),
    *("valid BLEU", "BLEU", "gain", "chrF", "as published", "AER"),
)
# Rows without a method, one for each precision.
_WITHOUT = ("plain", "float32")


def methods_table():
    """Makes one row for each corpus and method of benchmarks/methods.py, the mean of all runs.

    An ensemble's updates and minutes are those of all its models together. A corpus's best row is
    its first. A method is compared with as many updates of the same model in the same precision.
    """
    found = {}
    for result in read_all("methods/*/*.json").values():
        found.setdefault(result["data"], {}).setdefault(result["method"], []).append(result)
    rows = []
    for corpus, methods in found.items():
        bleu = {name: statistics.mean(r["bleu"] for r in runs) for name, runs in methods.items()}
        for name in sorted(methods, key=bleu.get, reverse=True):
            work = _work(methods[name])
            others = [n for n in _WITHOUT if n in methods and work and _work(methods[n]) == work]
            gain = ""
            if others and name not in _WITHOUT:
                gain = f"{bleu[name] - bleu[others[0]]:+.2f}"
            rows.append((corpus, f"`{name}`", *_method_cells(methods[name], gain)))
    return markdown([METHOD_COLUMNS, *rows])


def _work(results):
    """Returns (model, updates, precision) of all results that are not those of ensembles."""
    trained = [r for r in results if "steps" in r["training"]]
    return {(r["model"], r["training"]["steps"], _precision(r)) for r in trained}


def _precision(result):
    """Returns the precision of a training; of an ensemble's, too, whose models have the same."""
    return result["options"]["precision"]


def _method_cells(results, gain):
    trained = [r["training"] for r in results]
    trained = [each if isinstance(each, list) else [each] for each in trained]
    updates, minutes = ([sum(m[k] for m in each) for each in trained] for k in ("steps", "minutes"))
    valid = [each[0]["best"]["bleu"] for each in trained if len(each) == 1]
    bleu, chrf = ([r[name] for r in results] for name in ("bleu", "chrf"))
    published, aer = (
        [r[name] for r in results if name in r] for name in ("bleu_lowercased_moses", "aer")
    )
    processors = {r["machine"]["processor"].split(",")[0] for r in results}
    return (
        *(str(len(results)), _mean_and_spread(updates, 0)),
        *(" and ".join(sorted({*map(_precision, results)})), _mean_and_spread(minutes, 0)),
        " and ".join(sorted(processors)).replace("(R)", "").replace(" Processor", ""),
        *(_mean_and_spread(valid, 1), _mean_and_spread(bleu, 2), gain),
        *(_mean_and_spread(chrf, 2), _mean_and_spread(published, 2), _mean_and_spread(aer, 3)),
    )


def _mean_and_spread(numbers, digits):
    """Formats the mean of numbers; if they differ, with the smallest and the largest."""
    if not numbers:
        return ""
    mean, least, largest = (
        f"{number:,.{digits}f}" for number in (statistics.mean(numbers), min(numbers), max(numbers))
    )
    return mean if least == largest else f"{mean} ({least} to {largest})"


ALIGNMENT_COLUMNS = (
    *("model", "tokens", "parameters", "AER", "precision", "recall", "BLEU", "minutes", "steps"),
)


def alignment_table():
    """Makes one row for each result of benchmarks/alignment_table.py, the best aligner first."""
    results = list(read_all("demo_alignment/*.json").values())
    results.sort(key=lambda r: r["alignment"]["aer"] if "alignment" in r else 2)

    def score(r, figure):
        return f"{r['alignment'][figure]:.3f}" if "alignment" in r else ""

    return markdown(
        [
            ALIGNMENT_COLUMNS,
            *(
                (
                    f"`{r['model']}`",
                    r["tokenizer"],
                    f"{r['parameters'] / 1e6:.2f} M",
                    *(score(r, figure) for figure in ("aer", "precision", "recall")),
                    f"{r['bleu']:.2f}",
                    f"{r['training']['minutes']:.0f}",
                    f"{r['training']['steps']:,}",
                )
                for r in results
            ),
        ]
    )


SIDES = ("forward", "reverse")

ALIGNER_COLUMNS = ("aligner", "forward", "reverse", "both, best", "seconds", "peak memory")


def aligner_table(name):
    """Makes a row for each aligner of benchmarks/aligners.py; AER, seconds from text to links."""
    record = read(f"alignment/{name}")
    rows = []
    for name, r in record["aligners"].items():
        one_way = [f"{r['aer'][side]:.3f}" if side in r["aer"] else "" for side in SIDES]
        method, best = min(
            ((m, aer) for m, aer in r["aer"].items() if m not in SIDES), key=lambda pair: pair[1]
        )
        seconds = " + ".join(f"{s:.1f}" for s in r["seconds"])
        memory = f"{r['peak_memory_gb']:.2f} GB"
        rows.append((name, *one_way, f"{best:.3f} ({method})", seconds, memory))
    return markdown([ALIGNER_COLUMNS, *rows])


PHRASE_COLUMNS = (
    *("text", "system", "BLEU", "chrF", "brevity", "training, s", "tuning, s"),
    "lines a second",
)


_PHRASE_TEXTS = ("multi30k 29000", "multi30k 5000", "multi30k 1000", "multi30k 300")
_PHRASE_TEXTS += ("europarl 10000", "europarl 300")


def phrases_table():
    """Makes a row for each system and text of benchmarks/phrases.py, the best of a text first.

    The networks of Europarl are those of its own table, with their unknown words replaced.
    """
    found = {
        (path.stem.replace("_", " "), f"`{name}`"): r
        for path, record in read_all("phrases/*.json").items()
        for name, r in record["systems"].items()
    }
    for name in ("lstm_lexical", "transformer_coursework"):
        record = read(f"europarl10k/{name}")
        scores = record["scores"]["replaced"]
        found["europarl 10000", f"`{name}`, other settings"] = {
            **{key: scores[key] for key in ("bleu", "chrf")},
            "training_seconds": 60 * record["training"]["minutes"],
            "lines_per_second": record["sentences"] / scores["translation_seconds"],
        }
    rows = [
        (
            text,
            name,
            f"{r['bleu']:.2f}",
            f"{r['chrf']:.2f}",
            f"{r['brevity']:.2f}" if "brevity" in r else "",
            f"{r['training_seconds']:.0f}",
            f"{r['tuning_seconds']:.0f}" if "tuning_seconds" in r else "",
            f"{r['lines_per_second']:.0f}",
        )
        for (text, name), r in sorted(
            found.items(), key=lambda one: (_PHRASE_TEXTS.index(one[0][0]), -one[1]["bleu"])
        )
    ]
    return markdown([PHRASE_COLUMNS, *rows])


PRETRAINED_COLUMNS = (
    *("model", "weights", "lines with equal ids", "largest difference of logits"),
    *("greedy alike", "beam 4 alike", "greedy: ours, PyTorch, CTranslate2", "beam 4: the same"),
)


def pretrained_table():
    """Makes a row for each imported model of benchmarks/pretrained.py."""
    rows = [
        (
            f"`{path.stem}`",
            f"{r['parameters'] / 1e6:.2f} M",
            f"{r['ids_alike']:,} of {r['lines']:,}",
            f"{r['largest_difference_of_logits']:.1e}",
            *(f"{r[way]['alike']} of {r[way]['finished']}" for way in ("greedy", "beam")),
            *(", ".join(_seconds(r, way)) + " s" for way in ("greedy", "beam")),
        )
        for path, r in read_all("pretrained/*.json").items()
    ]
    return markdown([PRETRAINED_COLUMNS, *rows])


def _seconds(record, way):
    """Returns seconds a sentence of the three systems; "-" where one did not run."""
    for name in ("seconds", "seconds_pytorch", "seconds_ctranslate2"):
        found = record[way][name]
        yield "-" if found is None else f"{found / record['translated']:.3f}"


LANGUAGES_COLUMNS = ("pair", "a model for it alone", "one model", "the same, by way of English")
TUNING_COLUMNS = ("model", "BLEU on new text", "BLEU on old text")
PRONOUNS_COLUMNS = ("sentences of context", "right when translated", "right when scored")


def languages_table():
    """Makes a row of BLEU and chrF for each pair of languages of benchmarks/languages.py."""
    rows = []
    record = read("studies/languages")
    for pair, found in record["pairs"].items():
        ways = (found.get(way) for way in ("alone", "one", "cascade"))
        cells = [f"{r['bleu']:.2f} / {r['chrf']:.2f}" if r else "" for r in ways]
        if "alone" in found:
            cells[0] += f" ({record['updates'][pair]:,} updates)"
        rows.append((pair + ("" if "alone" in found else ", never seen together"), *cells))
    return markdown([LANGUAGES_COLUMNS, *rows])


def tuning_table():
    """Makes a row for each learning rate of benchmarks/tuning.py, and one for the model before."""
    rows = [
        (
            f"after `--learning_rate={name}`" if found.get("tuned") else name,
            *(f"{found[kind]:.2f}" for kind in ("new", "old")),
        )
        for name, found in read("studies/tuning")["bleu"].items()
    ]
    return markdown([TUNING_COLUMNS, *rows])


def pronouns_table():
    """Makes a row for each model of benchmarks/pronouns.py."""
    rows = [
        (context, *(f"{found[way]:.1%}" for way in ("translated", "scored")))
        for context, found in read("studies/pronouns")["right"].items()
    ]
    return markdown([PRONOUNS_COLUMNS, *rows])


def kinds_table():
    """Makes a row of BLEU for each kind of text of benchmarks/statistical_neural.py."""
    systems = read("studies/statistical_neural")["systems"]
    names = [f"`{name}`" for name in systems]
    kinds = list(next(iter(systems.values()))["kinds"])
    rows = [
        (kind, *(f"{found['kinds'][kind]:.2f}" for found in systems.values())) for kind in kinds
    ]
    lengths = next(iter(systems.values()))["by_length"]
    for place, (low, high, count, _) in enumerate(lengths):
        words = f"{low} to {high}" if high < 900 else f"{low} and more"
        scores = (f"{found['by_length'][place][-1]:.2f}" for found in systems.values())
        rows.append((f"sentences of {words} words ({count})", *scores))
    return markdown([("text", *names), *rows])


CHANNEL_COLUMNS = ("model", "alone", "with the language model", "as a noisy channel")

WAYS = ("direct", "fusion", "channel")


def noisy_channel_table():
    """Makes a row of BLEU for each model of benchmarks/noisy_channel.py; perplexity by order."""
    record = read("noisy_channel/demo")

    def cell(r):
        if not r:
            return ""
        weight = r.get("language_model_weight")
        return f"{r['bleu']:.2f}" + (f" (weight {weight:g})" if weight else "")

    models = record["models"].items()
    orders = record["perplexity"]
    return [
        *markdown(
            [
                CHANNEL_COLUMNS,
                *((f"`{name}`", *(cell(ways.get(way)) for way in WAYS)) for name, ways in models),
            ]
        ),
        "",
        *markdown(
            [
                ("perplexity of `ngram_lm`", *(f"order {order}" for order in orders)),
                *(
                    (name, *(f"{found[split]:.2f}" for found in orders.values()))
                    for name, split in (("validation", "valid"), ("test", "test"))
                ),
            ]
        ),
    ]
