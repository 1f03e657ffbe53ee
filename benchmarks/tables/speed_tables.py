"""Tables of speed and memory: updates, translation, the server and the data pipeline."""

import statistics

from benchmarks.tables.markdown import markdown, read, read_all

UPDATES = {
    "ours": "`train.py`",
    "replicas": "the same, a replica on each core",
    "minimal": "the same Keras model, a minimal TensorFlow step",
    "pytorch": "PyTorch, eager, `nn.Transformer`",
    "compiled": "PyTorch, `torch.compile`",
    "products": "its matrix products alone",
}

UPDATE_COLUMNS = ("model", "precision", "update", "target tokens a second", "ours is", "GFLOP/s")

UPDATE_COLUMNS += ("peak memory",)


def update_table():
    """Makes one row for each result of benchmarks/step_time.py and each of its candidates."""
    results = read_all("speed/updates/*.json").values()
    rows = [UPDATE_COLUMNS]
    for r in sorted(results, key=lambda r: (r["settings"]["width"], r["precision"] != "float32")):
        for name in UPDATES:
            if name in r["operations_per_second"] or name in r["failures"]:
                rows.append((f"`{r['model']}`", r["precision"], *_update_row(r, name)))
    return markdown(rows)


def update_sentence():
    """Makes README's sentence on the speed of training, from the same results.

    All are of float32: some of these processors compute bfloat16 in PyTorch more slowly still.
    """
    results = read_all("speed/updates/*_float32*.json").values()
    names = "rate_beside_pytorch", "rate_beside_compiled"  # The second may have failed.
    medians = sorted(min(r[name]["median"] for name in names if name in r) for r in results)
    return [
        f"* **On a CPU**, Transformers train {medians[0]:.1f} to {medians[-1]:.1f} times as fast "
        "as in PyTorch (the faster of eager and compiled), both in float32 "
        "([measured](docs/results.md#training-updates-beside-pytorch))."
    ]


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
    """Makes a row for each batch size of an LSTM in each framework.

    Each row shows the number of threads with which the framework is fastest.
    """
    r = read("speed/lstm_luong")
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


RIVALS = {
    "zoo": "ours, `train.py` and `translate.py`",
    "pytorch": "PyTorch, `nn.Transformer`; the beam search is ours",
    "joeynmt": "JoeyNMT",
    "opennmt_tf": "OpenNMT-tf",
    "tf_models": "tf-models-official, `official.nlp`",
    "ctranslate2": "CTranslate2, our model",
    "ctranslate2_int8": "CTranslate2, our model, int8",
}
RIVAL_COLUMNS = ("system", "version", "target tokens a second", "updates", "BLEU")
RIVAL_COLUMNS += ("sentences a second, beam 4", "peak memory")


def rivals_table():
    """Makes a row for each system of benchmarks/rivals.py, and a line on rivals of other tables."""
    rows = [RIVAL_COLUMNS]
    for name, r in read("studies/rivals")["systems"].items():
        if "failed" in r:
            rows.append((RIVALS[name], "", r["failed"], "", "", "", ""))
            continue
        updates = r["updates"]
        size, fastest = max(r["sentences_per_second"].items(), key=lambda pair: pair[1])
        versions = ", ".join(f"{x} {v}" for x, v in r["versions"].items() if x != "numpy")
        training = (f"{_undisturbed(r['rates']):,.0f}", f"{updates:,}") if updates else ("", "")
        decoding = f"{fastest:,.0f} (batches of {size})"
        memory = f"{r['peak_memory_bytes'] / 1e9:.2f} GB"
        rows.append((RIVALS[name], versions, *training, f"{r['bleu']:.2f}", decoding, memory))
    phrases = read("phrases/multi30k_29000")["systems"]
    aligners = read("alignment/hansards")["aligners"]
    names = "fertility, agreeing", "eflomal", "fast_align"
    rates = [f"{name} {min(aligners[name]['aer'].values()):.3f}" for name in names]
    scores = [f"`{name}` {phrases[name]['bleu']:.2f}" for name in ("hiero", "phrase_based")]
    return [
        *markdown(rows),
        "",
        f"Rivals of other kinds have their own tables. [Phrases](#phrases), BLEU of the same pairs "
        f"in lower case: {', '.join(scores)}, Thot {phrases['thot']['bleu']:.2f}. "
        "[Aligners](#word-alignments-of-the-hansards), lowest error rate: "
        f"{', '.join(rates)}.",
    ]


def _undisturbed(rates):
    """Returns the rate that a tenth of the intervals reach; the first interval is a warm-up."""
    return statistics.quantiles(rates[1:], n=10)[-1]


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

    Recurrent models were measured by the commit that their record names. Each cell shows the
    setting with which the engine is fastest.
    """
    rows, notes = [DECODING_COLUMNS], []
    records = read("speed/decode"), read("speed/decode_recurrent")
    for case in (case for record in records for case in record["cases"]):
        rows += [_decoding_row(case["model"], mode) for mode in case["modes"]]
        if "text" in case:
            text = case["text"]
            worst = max(map(abs, text["differences"]), default=0.0)
            others = f" In the others, scores differ by at most {worst:.1g}." if worst else ""
            notes += [
                "",
                f"Text of `{case['model']}` at the larger beam, beside CTranslate2 float32: "
                f"{text['equal']:,} of {text['lines']:,} lines are equal.{others}",
            ]
    return [*markdown(rows), *notes]


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
            rate += " ({median:.3g} ms, 99%: {percentile_99:.3g} ms)".format(**latency)
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


def shortlist_table():
    """Makes a row for each model and way of benchmarks/shortlist.py."""
    results = list(read_all("speed/shortlist_*.json").values())
    found = [each for result in reversed(results) for each in result["settings"]]
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


SERVING_COLUMNS = ("clients", "answers a second", "median", "99%", "longest", "lost", "wrong")


def serving_table():
    """Makes a row for each load of benchmarks/serving.py; the other results stand below."""
    r = read("speed/serving")
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


def pipeline_table():
    """Makes a row for each stage of the pipeline, and for each comparison."""
    stages, small = (
        read(f"pipeline/wmt_rehearsal_{pairs}")["stages"] for pairs in (4500000, 210000)
    )
    cleaning, vocabulary, encoding, start = (
        stages[name] for name in ("cleaning", "vocabulary", "encoding", "start")
    )
    dynamic, static, tf_data = stages["dynamic"], stages["static"], small["tf_data"]

    def whole(stage):
        """Returns the seconds of a stage; of an epoch, with those in which it is planned."""
        planning = stage.get("choosing_seconds", 0.0) + stage.get("planning_seconds", 0.0)
        return planning + stage.get("seconds", stage["stage_seconds"])

    def rate(stage):
        if "target_tokens" in stage:
            return stage["target_tokens"] / whole(stage)
        return stage["target_tokens_per_second"]

    def seconds(stage):
        return f"{whole(stage):.0f} s"

    def tokens(stage):
        padding = f"{100 * stage['padding']:.1f}% padding"
        return f"{rate(stage) / 1e6:.1f} M target tokens/s, {padding}"

    slower = rate(small["dynamic"]) / rate(tf_data)

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
