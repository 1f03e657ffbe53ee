"""Writes the result tables of README.md from docs/results/.

    python benchmarks/results_table.py            rewrites the tables
    python benchmarks/results_table.py --check    fails if the README is not what the files say

The files of docs/results/ are written by `translate.py --save_scores=docs/results/NAME.json`;
"data", "command" and "published" are added by hand beside the measured figures. All others are
written by the script that the function of their table names.
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
RESULTS = ROOT / "docs" / "results"
COLUMNS = ("model", "data", "parameters", "BLEU", "chrF", "training", "machine", "details")


def row(path):
    """The row of one result file in the general table."""
    r = json.loads(path.read_text(encoding="utf-8"))
    training = r["training"]
    return (
        f"`{r['model']}`",
        r["data"],
        f"{r['parameters'] / 1e6:.2f} M",
        f"**{r['bleu']:.2f}**" + (f" ({r['published']})" if r.get("published") else ""),
        f"{r['chrf']:.2f}",
        f"{training['minutes']:.0f} min, {training['steps']:,} steps, seed {r['options']['seed']}",
        f"{r['machine']['processor']}",
        f"[{path.stem}](docs/results/{path.name})",
    )


def markdown(rows):
    """Rows of cells, the first being the head, as a table."""
    head, *body = rows
    return [f"| {' | '.join(cells)} |" for cells in (head, ("---",) * len(head), *body)]


def general_table():
    """One row for each result file, with commands and signatures below."""
    paths = sorted(RESULTS.glob("*.json"))
    lines = markdown([COLUMNS, *map(row, paths)])
    for path in paths:
        r = json.loads(path.read_text(encoding="utf-8"))
        lines += ["", f"{path.stem} (`{r['bleu_signature']}`, beam {r['beam_size']}):", "```"]
        lines += [*r["command"], "```"]
    return lines


EUROPARL_COLUMNS = (
    *("model", "vocabulary", "parameters", "valid perplexity"),
    *("greedy", "beam 5", "UNK replaced", "minutes"),
)


def europarl_table():
    """One row for each run of benchmarks/europarl10k.py, in the order of parameters."""
    results = [json.loads(p.read_text("utf-8")) for p in (RESULTS / "europarl10k").glob("*.json")]
    results = sorted((r for r in results if "scores" in r), key=lambda r: r["parameters"])

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


ALIGNMENT_COLUMNS = (
    *("model", "tokens", "parameters", "AER", "precision", "recall", "BLEU", "minutes", "steps"),
)


def alignment_table():
    """One row for each result of benchmarks/alignment_table.py, the best aligner first."""
    results = [
        json.loads(p.read_text("utf-8"))
        for p in sorted((RESULTS / "demo_alignment").glob("*.json"))
    ]
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


ALIGNER_COLUMNS = ("aligner", "forward", "reverse", "both, best", "seconds", "peak memory")


def aligner_table(name):
    """One row for each aligner of benchmarks/aligners.py; AER, and seconds from text to links."""
    record = json.loads((RESULTS / "alignment" / f"{name}.json").read_text("utf-8"))
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


SIDES = ("forward", "reverse")

UPDATES = {
    "ours": "`train.py`",
    "minimal": "the same Keras model, a minimal TensorFlow step",
    "pytorch": "PyTorch, eager, `nn.Transformer`",
    "products": "its matrix products alone",
}
UPDATE_COLUMNS = ("update", "target tokens a second", "ours is", "GFLOP/s", "peak memory")


def update_table():
    """One row for each candidate of benchmarks/step_time.py."""
    r = json.loads((RESULTS / "speed" / "transformer.json").read_text("utf-8"))
    rows = []
    for name, label in UPDATES.items():
        of = r["candidates"].get(name)
        beside = r.get(f"rate_beside_{name}")
        faster = (
            "{median:.2f} times ({least:.2f} to {largest:.2f})".format(**beside) if beside else ""
        )
        rate = f"{r['operations_per_second'][name] / 1e9:.0f}"
        memory = f"{of['peak_memory_bytes'] / 1e9:.2f} GB" if of else ""
        tokens = f"{of['tokens_per_second']:,.0f}" if of else ""
        rows.append((label, tokens, faster, rate, memory))
    return markdown([UPDATE_COLUMNS, *rows])


CHANNEL_COLUMNS = ("model", "alone", "with the language model", "as a noisy channel")
WAYS = ("direct", "fusion", "channel")


def noisy_channel_table():
    """BLEU of one row for each model of benchmarks/noisy_channel.py; perplexity by order."""
    record = json.loads((RESULTS / "noisy_channel" / "demo.json").read_text("utf-8"))

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


def pipeline_table():
    """One row for each stage of benchmarks/wmt_rehearsal.py that is ours or compared with."""
    record = json.loads((RESULTS / "pipeline" / "wmt_rehearsal_4500000.json").read_text("utf-8"))
    stages = record["stages"]
    cleaning, vocabulary, encoding, start = (
        stages[name] for name in ("cleaning", "vocabulary", "encoding", "start")
    )
    dynamic, static, tf_data = (stages[name] for name in ("dynamic", "static", "tf_data"))

    def seconds(stage):
        return f"{stage.get('seconds', stage['stage_seconds']):.0f} s"

    def tokens(stage):
        padding = f"{100 * stage['padding']:.1f}% padding"
        return f"{stage['target_tokens_per_second'] / 1e6:.1f} M target tokens/s, {padding}"

    ratio = f"{encoding['ratio_by_cpu_seconds']:.2f} times sentencepiece alone"
    rows = (
        ("cleaning", seconds(cleaning), f"{cleaning['kept']:,} pairs stay", cleaning),
        ("learning the BPE", seconds(vocabulary), f"{vocabulary['pieces']:,} pieces", vocabulary),
        (
            "encoding",
            seconds(encoding),
            f"{encoding['lines'] / encoding['seconds']:,.0f} lines/s, {ratio}",
            encoding,
        ),
        (
            "start, once encoded",
            f"{start['start_seconds']:.0f} s",
            f"{start['resume_seconds']:.0f} s to the middle of epoch 4",
            start,
        ),
        ("an epoch, dynamic shapes", seconds(dynamic), tokens(dynamic), dynamic),
        (
            f"an epoch, {static['shapes']} shapes",
            seconds(static),
            f"{tokens(static)} ({100 * static['padding_of_twice_the_shapes']:.1f}% with twice as "
            "many shapes)",
            static,
        ),
        (
            f"tf.data, {tf_data['buckets']} buckets, {tf_data['pairs']:,} pairs",
            seconds(tf_data),
            tokens(tf_data),
            tf_data,
        ),
    )
    cells = [(*row, f"{stage['peak_megabytes'] / 1000:.1f} GB") for *row, stage in rows]
    return markdown([("stage", "time", "", "peak memory"), *cells])


def faults_table():
    """One row for each preset whose runs tests/faults/harness.py killed."""
    record = json.loads((RESULTS / "faults" / "kills.json").read_text("utf-8"))
    head = ("model", "runs", "kills", "while saving", "survived", "steps lost, mean", "at most")
    rows = (
        (
            f"`{name}`",
            *(f"{n}" for n in (r["runs"], r["kills"], r["kills_by_moment"]["save"], r["survived"])),
            f"{r['mean_steps_lost']:.1f}",
            f"{r['most_steps_lost']} of {r['steps_between_saves']} between saves",
        )
        for name, r in record["presets"].items()
    )
    return markdown([head, *rows])


TABLES = {
    "results": general_table,
    "europarl10k": europarl_table,
    "demo_alignment": alignment_table,
    "aligners": lambda: aligner_table("hansards"),
    "aligners_held_out": lambda: aligner_table("demo_held_out"),
    "noisy_channel": noisy_channel_table,
    "pipeline": pipeline_table,
    "faults": faults_table,
    "updates": update_table,
}


def main():
    """Rewrites or checks the README."""
    text = new = README.read_text(encoding="utf-8")
    for name, table in TABLES.items():
        start, end = f"<!-- {name}: start -->\n", f"<!-- {name}: end -->\n"
        before, rest = new.split(start)
        new = before + start + "\n".join(table()) + "\n" + end + rest.split(end)[1]
    if "--check" in sys.argv[1:]:
        if new != text:
            sys.exit("README.md: a result table is not that of docs/results; run this script")
        return
    README.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
