"""Tables of speed and memory: updates, translation, the server and the data pipeline."""

import statistics

from benchmarks.tables.cells import entries, fill, read, records, spread, table

_UPDATES = {
    "model": "`{model}`",
    "precision": "{precision}",
    "target tokens a second": "{candidates[ours][tokens_per_second]:,.0f}",
    "GFLOP/s": "{operations_per_second[ours]:1e-9 .0f}",
    "ours is: than a replica on each core": spread("rate_beside_replicas"),
    "than a minimal step of the same Keras model": spread("rate_beside_minimal"),
    "than PyTorch, eager": spread("rate_beside_pytorch"),
    "than PyTorch, `torch.compile`": spread("rate_beside_compiled"),
    "than its matrix products alone": spread("rate_beside_products"),
    "peak memory: ours, PyTorch": (
        "{candidates[ours][peak_memory_bytes]:1e-9 .2f}, "
        "{candidates[pytorch][peak_memory_bytes]:1e-9 .2f} GB"
    ),
}
_RECURRENT = {
    "sentences a batch": "{sentences}",
    "framework": "{title}",
    "threads": ("{threads[0]}", "{several}"),
    "target tokens a second": "{tokens_per_second:,.0f}",
    "ours is": spread("ratio"),
}
_RIVALS = {
    "system": "{title}",
    "version": "{version}",
    "target tokens a second": "{tokens_per_second:,.0f}",
    "updates": "{updates:,}",
    "BLEU": "{bleu:.2f}",
    "sentences a second, beam 4": "{sentences_per_second:,.0f} (batches of {batch})",
    "peak memory": "{peak_memory_bytes:1e-9 .2f} GB",
}
_RIVAL_TITLES = {
    "zoo": "ours, `train.py` and `translate.py`",
    "pytorch": "PyTorch, `nn.Transformer`; the beam search is ours",
    "joeynmt": "JoeyNMT",
    "opennmt_tf": "OpenNMT-tf",
    "tf_models": "tf-models-official, `official.nlp`",
    "ctranslate2": "CTranslate2, our model",
    "ctranslate2_int8": "CTranslate2, our model, int8",
}
_ENGINES = {
    "ours": "ours",
    "ours bfloat16": "ours, bfloat16",
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
    "bfloat16 is": spread("ratio_bfloat16"),
    "of the matrix products": "{ours[share_of_matrix_products]:.0%}",
}
_SERVING = {
    "clients": "{clients}",
    "answers a second": "{answers_per_second:,.1f}",
    "median": "{milliseconds[median]:,.0f} ms",
    "99%": "{milliseconds[percentile_99]:,.0f} ms",
    "longest": "{milliseconds[longest]:,.0f} ms",
    "lost": "{lost:,}",
    "wrong": "{wrong:,}",
}
_TOKENS = "{%s[rate]:1e-6 .1f} M target tokens/s, {%s[padding]:100 .1f}%% padding"
# Stage, time, figures; the last stage is of another run.
_PIPELINE = {
    "cleaning": ("cleaning", "", "{cleaning[kept]:,} pairs stay"),
    "vocabulary": ("learning the BPE", "", "{vocabulary[pieces]:,} pieces"),
    "encoding": (
        *("encoding", ""),
        "{encoding[rate]:,.0f} lines/s, {encoding[ratio_by_cpu_seconds]:.2f} times sentencepiece "
        "alone",
    ),
    "start": (
        *("start, once encoded", "{start[start_seconds]:.0f} s"),
        "{start[resume_seconds]:.0f} s to the middle of epoch 4",
    ),
    "dynamic": ("an epoch, dynamic shapes", "", _TOKENS % ("dynamic", "dynamic")),
    "static": (
        *("an epoch, {static[shapes]} shapes", ""),
        _TOKENS % ("static", "static")
        + " ({static[padding_of_twice_the_shapes]:100 .1f}% with twice as many shapes)",
    ),
    "tf_data": (
        *("tf.data, {tf_data[buckets]} buckets, {tf_data[pairs]:,} pairs", ""),
        _TOKENS % ("tf_data", "tf_data") + "; in the same run ours made {slower:.0f} times as many",
    ),
}


def _updates():
    """Makes a row for each result of `speed.py updates`."""
    results = records("speed/updates/*.json")
    return table(
        _UPDATES,
        sorted(results, key=lambda r: (r["settings"]["width"], r["precision"] != "float32")),
    )


def _update_sentence():
    """Makes README's sentence on the speed of training, from the same results.

    All are of float32: some of these processors compute bfloat16 in PyTorch more slowly still.
    """
    names = "rate_beside_pytorch", "rate_beside_compiled"  # The second may have failed.
    results = records("speed/updates/*_float32*.json")
    medians = sorted(min(r[name]["median"] for name in names if name in r) for r in results)
    return [
        f"* **On a CPU**, Transformers train {medians[0]:.1f} to {medians[-1]:.1f} times as fast "
        "as in PyTorch (the faster of eager and compiled), both in float32 "
        "([measured](docs/studies/speed.md#training-updates-beside-pytorch))."
    ]


def _recurrent():
    """Makes a row for each batch size of an LSTM in each framework, at its best threads."""
    rows = []
    for case in read("speed/lstm_luong")["cases"]:
        for framework, title in (("tensorflow", "ours"), ("pytorch", "PyTorch, eager")):
            candidates = [c for c in case["candidates"] if c["framework"] == framework]
            best = max(candidates, key=lambda c: c["tokens_per_second"])
            row = {"sentences": case["sentences"], "title": title, **best}
            if framework == "pytorch":
                row["ratio"] = case["ratio"]
            else:
                row["several"] = f" in an operation, {best['threads'][1]} operations at a time"
            rows.append(row)
    return table(_RECURRENT, rows)


def _rivals():
    """Makes a row for each toolkit, and a line on the rivals of other tables."""
    rows = entries("studies/rivals", "systems")
    for row in rows:
        row["title"] = _RIVAL_TITLES[row["name"]]
        versions = row["versions"].items()
        row["version"] = ", ".join(f"{name} {v}" for name, v in versions if name != "numpy")
        fastest = max(row["sentences_per_second"].items(), key=lambda pair: pair[1])
        row["batch"], row["sentences_per_second"] = fastest
        if row["updates"]:  # Undisturbed: what a tenth of the intervals reach. The first warms up.
            row["tokens_per_second"] = statistics.quantiles(row["rates"][1:], n=10)[-1]
    phrases = read("phrases/multi30k_29000")["systems"]
    aligners = read("alignment/hansards")["aligners"]
    names = "fertility, agreeing", "eflomal", "fast_align"
    rates = [f"{name} {min(aligners[name]['aer'].values()):.3f}" for name in names]
    scores = [f"`{name}` {phrases[name]['bleu']:.2f}" for name in ("hiero", "phrase_based")]
    return [
        *table(_RIVALS, rows),
        "",
        f"Rivals of other kinds have their own tables. [Phrases](statistical.md#phrases), BLEU of "
        f"the same pairs in lower case: {', '.join(scores)}, Thot {phrases['thot']['bleu']:.2f}. "
        "[Aligners](alignments.md#word-alignments-of-the-hansards), lowest error rate: "
        f"{', '.join(rates)}.",
    ]


def _decoding():
    """Makes a row for each model and way of `speed.py decoding`; sentences a second.

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
                for name, kind in (("ratio", "ours"), ("ratio_bfloat16", "ours bfloat16"))
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


def _shortlist():
    """Makes a row for each model and way, with the whole vocabulary and with shortlists."""
    results = records("speed/shortlist_*.json")[::-1]
    settings = [setting for result in results for setting in result["settings"]]
    sizes = list(dict.fromkeys(setting["sizes"] for setting in settings))
    columns = {"model": "`{case}`", "beam": "{beam}", "batch": "{batch}"}
    for number, size in enumerate(sizes):
        title = "{} translations, {} frequent".format(*size.split(",")) if size else ""
        rate = f"{{{number}[sentences_per_second]:,.1f}}"
        gain = f", {spread(f'{number}[gain]')}" if size else ""
        bleu = f", BLEU {{{number}[bleu]:.2f}}"
        columns[title or "whole vocabulary"] = (rate, gain, bleu)
    rows = []
    for start in range(0, len(settings), len(sizes)):
        row = dict(settings[start])
        row |= {str(i): settings[start + i] for i in range(len(sizes))}
        rows.append(row)
    return table(columns, rows)


def _serving():
    """Makes a row for each load of `speed.py serving`; the other results stand below."""
    record = read("speed/serving")
    rows = [record["one_client"], record["many_clients"][0]]
    refused = record["malformed"]["requests"] - record["malformed"]["not_4xx"]
    text = (
        "{many_clients[0][clients]} clients get {times_as_many_answers:.2f} times as many answers "
        "as one. Memory: {megabytes[0]:,} MB after the first load, {megabytes[1]:,} MB after the "
        "second. {refused:,} of {malformed[requests]:,} malformed requests were refused with a "
        "status from 400 to 499. The first answer came {seconds_to_start[first]:.1f} s after the "
        "start, and {seconds_to_start[after_a_kill]:.1f} s after that of a killed server."
    )
    return [*table(_SERVING, rows), "", fill(text, {**record, "refused": refused})]


def _pipeline():
    """Makes a row for each stage of the pipeline, and for the comparison with tf.data."""
    stages, small = (read(f"pipeline/wmt_rehearsal_{n}")["stages"] for n in (4500000, 210000))
    stages["tf_data"] = small["tf_data"]
    for stage in (*stages.values(), small["dynamic"]):
        planning = stage.get("choosing_seconds", 0.0) + stage.get("planning_seconds", 0.0)
        stage["whole"] = planning + stage.get("seconds", stage.get("stage_seconds"))
        if "target_tokens" in stage:
            stage["rate"] = stage["target_tokens"] / stage["whole"]
        else:
            stage["rate"] = stage.get("target_tokens_per_second")
    stages["encoding"]["rate"] = stages["encoding"]["lines"] / stages["encoding"]["seconds"]
    stages["slower"] = small["dynamic"]["rate"] / small["tf_data"]["rate"]
    rows = []
    for name, (title, time, figures) in _PIPELINE.items():
        cells = {"stage": title, "time": time or f"{{{name}[whole]:.0f}} s", "figures": figures}
        rows.append({key: fill(cell, stages) for key, cell in cells.items()} | stages[name])
    columns = {"stage": "{stage}", "time": "{time}", "": "{figures}"}
    return table({**columns, "peak memory": "{peak_megabytes:1e-3 .1f} GB"}, rows)


TABLES = {
    "speed": _update_sentence,
    "updates": _updates,
    "recurrent": _recurrent,
    "rivals": _rivals,
    "decoding": _decoding,
    "shortlist": _shortlist,
    "serving": _serving,
    "pipeline": _pipeline,
}
