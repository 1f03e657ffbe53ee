"""The table of the speed of translation."""

from benchmarks.tables.cells import read, spread, table

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


TABLES = {"decoding": _decoding}
