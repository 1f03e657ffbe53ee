"""Writes the tables of README.md, docs/results.md, docs/models.md and docs/options.md.

    python benchmarks/results_table.py

The files directly in docs/results/ are written by `translate.py
--save_scores=docs/results/NAME.json`; "data", "command" and "published" are added to them by hand.
The files in its folders are written by the script named in the docstring of their table's function.
"""

import itertools
import json
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import models  # noqa: E402
from model_directory.options import AUTO, OPTIONS  # noqa: E402

DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "docs/results.md", "docs/models.md")),
    ROOT / "docs" / "options.md",
]
RESULTS = ROOT / "docs" / "results"
COLUMNS = ("model", "data", "parameters", "BLEU", "chrF", "training", "machine", "details")


def row(path):
    """Makes the row of one result file in the general table."""
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
        f"[{path.stem}](results/{path.name})",
    )


def markdown(rows):
    """Formats rows of cells as a Markdown table; the first row is the head."""
    head, *body = rows
    return [f"| {' | '.join(cells)} |" for cells in (head, ("---",) * len(head), *body)]


def general_table():
    """Makes one row for each result file, with commands and signatures below."""
    paths = sorted(RESULTS.glob("*.json"))
    lines = markdown([COLUMNS, *map(row, paths)])
    for path in paths:
        r = json.loads(path.read_text(encoding="utf-8"))
        lines += ["", f"{path.stem} (`{r['bleu_signature']}`, beam {r['beam_size']}):", "```"]
        lines += [*r["command"], "```"]
    return lines


def demo_output():
    """Makes the last lines of `make demo`, with the score of its result file."""
    r = json.loads((RESULTS / "demo_en_de_transformer_tiny.json").read_text("utf-8"))
    score = f"BLEU|{r['bleu_signature']} = {r['bleu']:.2f}"
    wrote = "wrote runs/demo/attention.png", "wrote serving/demo/1; 500 lines translated alike"
    return ["```", score, "...", wrote[0], f"{wrote[1]} in a fresh process", "```"]


EUROPARL_COLUMNS = (
    *("model", "vocabulary", "parameters", "valid perplexity"),
    *("greedy", "beam 5", "UNK replaced", "minutes"),
)


def europarl_table():
    """Makes one row for each run of benchmarks/europarl10k.py, by number of parameters."""
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


METHOD_COLUMNS = (
    *("corpus", "method or model", "runs", "updates", "minutes", "valid BLEU"),
    *("BLEU", "chrF", "as published", "AER"),
)


def methods_table():
    """Makes one row for each corpus and method of benchmarks/methods.py, the mean of all runs.

    An ensemble's updates and minutes are those of all its models together.
    """
    found = {}
    for path in sorted((RESULTS / "methods").glob("*/*.json")):
        result = json.loads(path.read_text("utf-8"))
        found.setdefault((result["data"], result["method"]), []).append(result)
    rows = []
    for (corpus, method), results in found.items():
        trained = [r["training"] for r in results]
        trained = [each if isinstance(each, list) else [each] for each in trained]
        measures = [
            *([sum(m[name] for m in each) for each in trained] for name in ("steps", "minutes")),
            [each[0]["best"]["bleu"] for each in trained if len(each) == 1],
            *([r[name] for r in results] for name in ("bleu", "chrf")),
            *([r[name] for r in results if name in r] for name in ("bleu_lowercased_moses", "aer")),
        ]
        cells = map(_mean_and_spread, measures, (0, 0, 1, 2, 2, 2, 3))
        rows.append((corpus, f"`{method}`", str(len(results)), *cells))
    return markdown([METHOD_COLUMNS, *rows])


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
    """Makes a row for each aligner of benchmarks/aligners.py; AER, seconds from text to links."""
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
    "compiled": "PyTorch, `torch.compile`",
    "products": "its matrix products alone",
}
UPDATE_COLUMNS = ("model", "precision", "update", "target tokens a second", "ours is", "GFLOP/s")
UPDATE_COLUMNS += ("peak memory",)


def update_table():
    """Makes one row for each result of benchmarks/step_time.py and each of its candidates."""
    paths = (RESULTS / "speed" / "updates").glob("*.json")
    results = [json.loads(path.read_text("utf-8")) for path in paths]
    rows = [UPDATE_COLUMNS]
    for r in sorted(results, key=lambda r: (r["settings"]["width"], r["precision"] != "float32")):
        for name in UPDATES:
            if name in r["operations_per_second"] or name in r["failures"]:
                rows.append((f"`{r['model']}`", r["precision"], *_update_row(r, name)))
    return markdown(rows)


def _update_row(r, name):
    if name in r["failures"]:
        return UPDATES[name], "", "fails", "", ""
    of = r["candidates"].get(name)
    beside = r.get(f"rate_beside_{name}")
    faster = "{median:.2f} times ({least:.2f} to {largest:.2f})".format(**beside) if beside else ""
    rate = f"{r['operations_per_second'][name] / 1e9:.0f}"
    memory = f"{of['peak_memory_bytes'] / 1e9:.2f} GB" if of else ""
    tokens = f"{of['tokens_per_second']:,.0f}" if of else ""
    return UPDATES[name], tokens, faster, rate, memory


RECURRENT_COLUMNS = (
    "sentences a batch",
    "framework",
    "threads",
    "target tokens a second",
    "ours is",
)


def recurrent_table():
    """Makes a row for each batch size of benchmarks/recurrent_speed.py and each framework.

    Each row shows the number of threads with which the framework is fastest.
    """
    r = json.loads((RESULTS / "speed" / "lstm_luong.json").read_text("utf-8"))
    rows = []
    for case in r["cases"]:
        for framework, label in (("tensorflow", "ours"), ("pytorch", "PyTorch, eager")):
            best = max(
                (c for c in case["candidates"] if c["framework"] == framework),
                key=lambda c: c["tokens_per_second"],
            )
            faster = "{median:.2f} times ({least:.2f} to {largest:.2f})".format(**case["ratio"])
            threads = "{} in an operation, {} operations at a time".format(*best["threads"])
            rows.append(
                (
                    str(case["sentences"]),
                    label,
                    threads if framework == "tensorflow" else str(best["threads"][0]),
                    f"{best['tokens_per_second']:,.0f}",
                    faster if framework == "pytorch" else "",
                )
            )
    return markdown([RECURRENT_COLUMNS, *rows])


DECODING_KINDS = {
    "ours": "ours",
    "ours bfloat16": "ours, bfloat16",
    "ctranslate2 float32": "CTranslate2 float32",
    "ctranslate2 int8": "CTranslate2 int8",
    "pytorch": "PyTorch",
}
DECODING_COLUMNS = ("model", "beam", "batch", *DECODING_KINDS.values(), "ours is", "bfloat16 is")
DECODING_COLUMNS += ("of the matrix products",)


def decoding_table():
    """Makes a row for each model and way of benchmarks/decode.py; sentences a second.

    Each cell shows the setting with which the engine is fastest.
    """
    path = RESULTS / "speed" / "decode.json"
    if not path.exists():
        return ["Not measured yet."]
    rows, notes = [DECODING_COLUMNS], []
    for case in json.loads(path.read_text("utf-8"))["cases"]:
        rows += [_decoding_row(case["model"], mode) for mode in case["modes"]]
        if "text" in case:
            text = case["text"]
            worst = max(map(abs, text["differences"]), default=0.0)
            notes += [
                "",
                f"Text of `{case['model']}` at the larger beam, beside CTranslate2 float32: "
                f"{text['equal']:,} of {text['lines']:,} lines are equal. In the others, scores "
                f"differ by at most {worst:.1g}.",
            ]
    return [*markdown(rows), *notes]


def shortlist_table():
    """Makes a row for each model and way of benchmarks/shortlist.py."""
    paths = sorted((RESULTS / "speed").glob("shortlist_*.json"), reverse=True)
    found = [each for path in paths for each in json.loads(path.read_text("utf-8"))["settings"]]
    sizes = list(dict.fromkeys(record["sizes"] for record in found))

    def cell(record):
        text = f"{record['sentences_per_second']:,.1f}"
        if record["sizes"]:
            text += ", {median:.2f} times ({least:.2f} to {largest:.2f})".format(**record["gain"])
        return text + (f", BLEU {record['bleu']:.2f}" if record["bleu"] else "")

    heads = ("{} translations, {} frequent".format(*s.split(",")) for s in sizes if s)
    rows = [("model", "beam", "batch", "whole vocabulary", *heads)]
    for start in range(0, len(found), len(sizes)):
        first, *_ = row = found[start : start + len(sizes)]
        rows.append(
            (f"`{first['case']}`", str(first["beam"]), str(first["batch"]), *map(cell, row))
        )
    return markdown(rows)


def _decoding_row(model, mode):
    fastest = {
        each["kind"]: each
        for each in mode["engines"]
        if each["setting"] == mode["fastest"][each["kind"]]
    }

    def cell(kind):
        if kind not in fastest:
            return ""
        rate = f"{fastest[kind]['sentences_per_second']:,.1f}"
        if "latency_ms" in fastest[kind]:
            latency = fastest[kind]["latency_ms"]
            rate += " ({median:.0f} ms, 99%: {percentile_99:.0f} ms)".format(**latency)
        return rate

    rival = "pytorch" if "pytorch" in fastest else "ctranslate2 float32"
    share = fastest["ours"].get("share_of_matrix_products")
    return (
        f"`{model}`",
        *(str(mode[name]) for name in ("beam", "batch")),
        *map(cell, DECODING_KINDS),
        *(
            "{median:.2f} times ({least:.2f} to {largest:.2f})".format(
                **mode["ratios"][ours][rival]
            )
            for ours in ("ours", "ours bfloat16")
        ),
        f"{share:.0%}" if share else "",
    )


SERVING_COLUMNS = ("clients", "answers a second", "median", "99%", "longest", "lost", "wrong")


def serving_table():
    """Makes a row for each load of benchmarks/serving.py; the other results stand below."""
    path = RESULTS / "speed" / "serving.json"
    if not path.exists():
        return ["Not measured yet."]
    r = json.loads(path.read_text("utf-8"))
    loads = {"one": r["one_client"], "many": r["many_clients"][0], "reload": r["reload"]}
    rows = [SERVING_COLUMNS]
    for name, load in loads.items():
        times = (f"{each:,.0f} ms" for each in load["milliseconds"].values())
        clients = str(load["clients"]) + (", new version" if name == "reload" else "")
        counts = f"{load['lost']:,}", f"{load['wrong']:,}"
        rows.append((clients, f"{load['answers_per_second']:,.1f}", *times, *counts))
    bad, start, (before, after) = r["malformed"], r["seconds_to_start"], r["megabytes"]
    refused = bad["requests"] - bad["not_4xx"]
    return [
        *markdown(rows),
        "",
        f"{loads['many']['clients']} clients get {r['times_as_many_answers']:.2f} times as many "
        f"answers as one. Memory: {before:,} MB after the first load, {after:,} MB after the "
        f"second. {refused:,} of {bad['requests']:,} malformed requests were refused with a status "
        f"from 400 to 499. The first answer came {start['first']:.1f} s after the start, and "
        f"{start['after_a_kill']:.1f} s after that of a killed server; a new version took over "
        f"{r['reload']['seconds_to_replace']:.1f} s after its files began to be copied.",
    ]


CHANNEL_COLUMNS = ("model", "alone", "with the language model", "as a noisy channel")
WAYS = ("direct", "fusion", "channel")


def noisy_channel_table():
    """Makes a row of BLEU for each model of benchmarks/noisy_channel.py; perplexity by order."""
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
    """Makes a row for each stage of benchmarks/wmt_rehearsal.py, and for each comparison."""
    stages, small = (
        json.loads((RESULTS / "pipeline" / f"wmt_rehearsal_{pairs}.json").read_text("utf-8"))[
            "stages"
        ]
        for pairs in (4500000, 210000)
    )
    cleaning, vocabulary, encoding, start = (
        stages[name] for name in ("cleaning", "vocabulary", "encoding", "start")
    )
    dynamic, static, tf_data = stages["dynamic"], stages["static"], small["tf_data"]
    slower = small["dynamic"]["target_tokens_per_second"] / tf_data["target_tokens_per_second"]

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
            f"{tokens(tf_data)}; in the same run ours made {slower:.0f} times as many",
            tf_data,
        ),
    )
    cells = [(*row, f"{stage['peak_megabytes'] / 1000:.1f} GB") for *row, stage in rows]
    return markdown([("stage", "time", "", "peak memory"), *cells])


def faults_table():
    """Makes one row for each preset whose runs tests/faults/harness.py killed."""
    record = json.loads((RESULTS / "faults" / "kills.json").read_text("utf-8"))
    head = ("model", "runs", "kills", "while saving", "survived", "steps lost, mean", "most")
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


# preset: (description, result file, name of the score in it; or the score in words)
MODELS = {
    "ibm1": ("IBM Model 1: a table of word translations", "alignment/hansards", "ibm1"),
    "ibm2": (
        "IBM Model 2: and positions, free or on the diagonal",
        "alignment/hansards",
        "ibm1 + ibm2",
    ),
    "hmm_alignment": ("hidden Markov model of positions", "alignment/hansards", "ibm1 + hmm"),
    "hmm_fertility": (
        "and how many words each word becomes",
        None,
        "AER 0.115, Hansards en-fr, both directions (`align.py`)",
    ),
    "ngram_lm": ("n-gram language model, modified Kneser-Ney", "noisy_channel/demo", "perplexity"),
    "ibm1_factored": ("Model 1, its table a product of embeddings", "demo_alignment", "aer"),
    "attention_ibm1": ("Model 1 as uniform attention", "demo_alignment", "bleu"),
    "attention_ibm2": ("Model 2 as attention over positions", "demo_alignment", "bleu"),
    "rnn_attention": ("the plainest RNN with attention", "demo_alignment", "bleu"),
    "lstm_seq2seq": (
        "LSTM without attention: one vector holds the sentence",
        "europarl10k",
        "beam",
    ),
    "gru_bahdanau": ("GRU with additive attention, 2015", "demo_alignment", "bleu"),
    "lstm_luong": ("small LSTM with attention and input feeding", "europarl10k", "beam"),
    "lstm_luong_deep": ("the same with 2 + 3 layers", "europarl10k", "beam"),
    "lstm_lexical": (
        "and source words that vote for target words",
        "methods/europarl10k/recipe-1",
        "bleu",
    ),
    "lstm_conv": ("convolution, LSTM, reduced-rank attention", "demo_alignment", "bleu"),
    "transformer_simple": ("self-attention and nothing else", "demo_alignment", "bleu"),
    "transformer_coursework": ("2 + 2 layers, width 128", "europarl10k", "beam"),
    "transformer_tiny": (
        "4 + 4 layers, width 128, pre-norm",
        "methods/multi30k_en_de/recipe-1",
        "bleu",
    ),
    "transformer_small": ("3 + 3 layers, width 256, pre-norm", "demo_alignment", "bleu"),
    "transformer_base": (
        "6 + 6 layers, width 512: the paper's",
        None,
        "(27.3 on WMT14 en-de), Vaswani et al. 2017",
    ),
    "transformer_deep_shallow": (
        "12 + 1 layers, width 512: little work for each output token",
        None,
        "(26.9 on WMT14 en-de), Kasai et al. 2021",
    ),
    "transformer_big": (
        "6 + 6 layers, width 1024: the paper's",
        None,
        "(28.4 on WMT14 en-de), Vaswani et al. 2017",
    ),
}


def score_of(preset, name, figure):
    """Formats the score of a preset, with the data on which it was measured."""
    if name is None:
        return figure
    if name in ("demo_alignment", "europarl10k"):
        name = f"{name}/{preset}"
    record = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    if name.startswith("demo_alignment"):
        after = f"demo corpus, {record['training']['minutes']:.0f} min, "
        after += f"{record['training']['steps']:,} updates"
        if figure == "aer":
            return f"AER {record['alignment']['aer']:.3f}, {after}"
        return f"{record['bleu']:.1f}, {after}"
    if name.startswith("europarl10k"):
        return f"{record['scores'][figure]['bleu']:.1f}, Europarl, 10,000 pairs de-en"
    if name.startswith("alignment"):
        return f"AER {record['aligners'][figure]['aer']['forward']:.3f}, Hansards en-fr"
    if figure == "perplexity":
        return f"perplexity {record['perplexity']['4']['test']:.1f}, demo corpus, order 4"
    return f"{record['bleu']:.1f}, {record['data']}"


def model_table():
    """Makes one row for each preset."""
    rows = (
        (f"`{preset}`", what, score_of(preset, name, figure))
        for preset, (what, name, figure) in MODELS.items()
    )
    return markdown([("model", "what it is", "score"), *rows])


def settings_table():
    """Makes one row for each preset: its class, and every setting that `--set` changes."""
    rows = []
    for preset, (model_class, _, origin) in {**models.PRESETS, **models.LANGUAGE_MODELS}.items():
        settings = ", ".join(f"{n}={v}" for n, v in models.preset_settings(preset).items())
        rows.append((f"`{preset}`", f"`{model_class.__name__}`", origin, settings))
    return markdown([("model", "class", "from; what it scores", "settings"), *rows])


def options_table():
    """Makes one table for each group of training options."""
    lines = []
    for group, options in itertools.groupby(OPTIONS, key=lambda option: option.group):
        rows = [("option", "default", "values", "what it does", "may change on resume")]
        for option in options:
            text, default = option.help.replace("</s>", "`</s>`"), option.default
            if option.only_with:
                other, values = option.only_with
                text += f" Only with `--{other}={'` or `'.join(values)}`."
            shown = str(default).lower() if isinstance(default, bool) else str(default)
            resumable = "yes" if option.resumable else ""
            name, default = f"`--{option.name}`", f"`{shown}`" if shown else ""
            values = option.expected() + (f", or {AUTO}" if option.automatic else "")
            rows.append((name, default, values, text, resumable))
        lines += ["", f"## {group}", "", *markdown(rows)]
    return lines


def hostile_table():
    """Makes one row for each group of cases of tests/hostile/harness.py."""
    record = json.loads((RESULTS / "hostile" / "inputs.json").read_text("utf-8"))
    counts = {**record["groups"], "**all**": record}
    rows = ((name, *(f"{r[k]:,}" for k in ("tried", "good", "bad"))) for name, r in counts.items())
    return markdown([("kind of input", "tried", "good", "bad"), *rows])


def mutations_table():
    """Makes one row for each room of tests/mutations.py, and one for each fault that survived."""
    record = json.loads((RESULTS / "faults" / "mutations.json").read_text("utf-8"))
    rows = [(f"`{name}/`", room) for name, room in record["rooms"].items()]
    cells = [(name, str(r["mutations"]), str(r["killed"])) for name, r in rows]
    share = f"{record['killed']} ({record['killed'] / record['mutations']:.1%})"
    cells.append(("**all**", str(record["mutations"]), share))
    lines = markdown([("faults planted in", "planted", "found by the tests"), *cells])
    if record["survived"]:
        commit = record["machine"]["commit"]
        lines += ["", f"Not found at commit {commit}: {'; '.join(record['survived'])}."]
    return lines


def structure_table():
    """Makes a row for each count of benchmarks/structure.py, before and after the rooms."""
    before, now = (
        json.loads((RESULTS / "structure" / f"{name}.json").read_text("utf-8"))
        for name in ("62569a9", "now")
    )
    rows = [("", "commit 62569a9", "now")]
    for heading, count in now["places_to_edit"].items():
        rows.append((f"files to edit: {heading.lower()}", before["by_hand"][heading], str(count)))
    for key, label in (
        ("branches_by_kind", "branches by kind of model or training, outside of these"),
        ("branches_by_fact", "branches by a fact that a model or a way of training states"),
    ):
        rows.append((label, *(str(len(record[key])) for record in (before, now))))
    for key, label in (
        ("widest_function", "arguments of the widest function that is not a constructor"),
        ("largest_folder", "files in the largest folder"),
    ):
        rows.append(
            (label, *(f"{record[key][0]} (`{record[key][1]}`)" for record in (before, now)))
        )
    return markdown(rows)


TABLES = {
    "demo": demo_output,
    "structure": structure_table,
    "mutations": mutations_table,
    "models": model_table,
    "settings": settings_table,
    "options": options_table,
    "results": general_table,
    "europarl10k": europarl_table,
    "methods": methods_table,
    "demo_alignment": alignment_table,
    "aligners": lambda: aligner_table("hansards"),
    "aligners_held_out": lambda: aligner_table("demo_held_out"),
    "noisy_channel": noisy_channel_table,
    "pipeline": pipeline_table,
    "faults": faults_table,
    "hostile": hostile_table,
    "updates": update_table,
    "recurrent": recurrent_table,
    "decoding": decoding_table,
    "serving": serving_table,
    "shortlist": shortlist_table,
}


def outdated():
    """Maps path -> text that it should have, for documents whose tables differ from the files."""
    found = {}
    for document in DOCUMENTS:
        text = new = document.read_text(encoding="utf-8")
        for name, table in TABLES.items():
            start, end = f"<!-- {name}: start -->\n", f"<!-- {name}: end -->\n"
            if start in new:
                before, rest = new.split(start)
                new = before + start + "\n".join(table()) + "\n" + end + rest.split(end)[1]
        if new != text:
            found[document] = new
    return found


def main():
    """Rewrites the documents."""
    for document, text in outdated().items():
        document.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
