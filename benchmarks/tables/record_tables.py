"""Tables of scores, speed of translation, runs that were killed, and finished studies."""

from functools import partial

from benchmarks.tables.cells import fill, markdown, read, records, spread, table

_GENERAL = {
    "model": "`{model}`",
    "data": "{data}",
    "parameters": "{millions:.2f} M",
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
_ENGINES = {
    "ours": "ours",
    "ours bfloat16": "ours, bfloat16",
    "ours int8": "ours, int8",
    "ctranslate2 float32": "CTranslate2 float32",
    "ctranslate2 int8": "CTranslate2 int8",
    "pytorch": "PyTorch",
}
_DECODING = {
    "model": "`{model}`",
    "beam": "{beam}",
    "batch": "{batch}",
    **{
        title: (
            f"{{{kind}[sentences_per_second]:,.1f}}",
            f" ({{{kind}[latency_ms][median]:.3g}} ms, "
            f"99%: {{{kind}[latency_ms][percentile_99]:.3g}} ms)",
        )
        for kind, title in _ENGINES.items()
    },
    "ours is": spread("ratio"),
    "int8 is": spread("ratio_int8"),
    "of the matrix products": "{ours[share_of_matrix_products]:.0%}",
}


def _general():
    """Makes a row for each file that stands directly in docs/results, and its command."""
    rows = [{**row, "millions": row["parameters"] / 1e6} for row in records("*.json")]
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


def _decoding():
    """Makes a row for each model and way of `speed.py`; sentences a second.

    Recurrent models were measured by the commit that their record names. Each cell shows the
    setting with which the engine is fastest.
    """
    rows, notes = [], []
    cases = [
        case for name in ("decode", "decode_recurrent") for case in read(f"speed/{name}")["cases"]
    ]
    for case in cases:
        for mode in case["modes"]:
            engines = {
                e["kind"]: e for e in mode["engines"] if e["setting"] == mode["fastest"][e["kind"]]
            }
            rival = "pytorch" if "pytorch" in engines else "ctranslate2 float32"
            ratios = {
                name: mode["ratios"][kind][rival]
                for name, kind in (("ratio", "ours"), ("ratio_int8", "ours int8"))
                if kind in mode["ratios"]
            }
            rows.append({"model": case["model"], **mode, **engines, **ratios})
        if "text" in case:
            text = case["text"]
            worst = max(map(abs, text["differences"]), default=0.0)
            others = f" In the others, scores differ by at most {worst:.1g}." if worst else ""
            notes += [
                "",
                f"Text of `{case['model']}` at the larger beam, beside CTranslate2 float32: "
                f"{text['equal']:,} of {text['lines']:,} lines are equal.{others}",
            ]
    return [*table(_DECODING, rows), *notes]


TABLES = {
    "decoding": _decoding,
    "demo": _demo,
    "results": _general,
    "faults": _faults,
    "coursework_words": lambda: ["```", *read("studies/coursework")["words"], "```"],
    # Of finished studies, made from their records.
    **{name: partial(markdown, rows) for name, rows in read("studies/tables").items()},
}
