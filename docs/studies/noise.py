"""Trains with and without noise, scores text as people write it, and how sure the models are.

    python -m docs.studies.noise clean-1 noisy-1
    python -m docs.studies.noise    # The tables alone.

A run that was stopped is resumed. docs/results/noise/NAME.json has all figures of a run. The text
for confidence is test_2017_flickr of Multi30k, PREFIX.en and PREFIX.de for --text=PREFIX.
"""

import argparse
import collections
import json
import subprocess
import sys
from pathlib import Path
from statistics import mean
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import nmt_zoo
from benchmarks.tables.cells import with_tables
from nmt_zoo.common.files import read_lines, write_json, write_text
from nmt_zoo.configuration.recipes import NOISE
from nmt_zoo.decoding.scores import corpus_scores
from nmt_zoo.models import shift_right
from nmt_zoo.training.validation.temperature import calibration_error

ROOT = Path(__file__).resolve().parents[2]
RESULTS, PAGE = ROOT / "docs/results/noise", ROOT / "docs/studies/noise.md"
NOISES = {
    "clean": "copies=0.05",
    "noisy": NOISE,
    "strong": "copies=0.05,lowercase=0.05,typos=0.15,stop=0.05,spaces=0.05,numbers=0.02",
}
SEEDS = (1, 2, 3)
NAMES = [f"{kind}-{seed}" for seed in SEEDS for kind in NOISES]
KEPT = ("parameters", "training", "noise", "bleu", "bleu_signature", "chrf", "beam_size", "machine")


def commands(name: str, flags: Any) -> list[list[str]]:
    """Returns the words after `python` that train a run, score it, and translate for confidence."""
    kind, seed = name.split("-")
    model_dir, text = f"{flags.runs}/{name}", f"{flags.data_dir}/multi30k_en_de"
    train = ["train.py", "--dataset=multi30k_en_de", "--model=transformer_tiny"]
    train += ["--max_steps=5000", f"--noise={NOISES[kind]}", "--patience=0", f"--seed={seed}"]
    train += ["--eval_every_steps=1000", "--bleu_lines=200", "--save_every_steps=250"]
    train += ["--intra_op_threads=1", f"--data_dir={flags.data_dir}", f"--model_dir={model_dir}"]
    score = ["translate.py", f"--model_dir={model_dir}", f"--input={text}/test.en"]
    score += [f"--reference={text}/test.de", f"--output={model_dir}/test.de", "--noise=all"]
    score += ["--engine=tensorflow", f"--save_scores={model_dir}/test.json"]
    sure = ["translate.py", f"--model_dir={model_dir}", f"--input={flags.text}.en"]
    sure += ["--engine=tensorflow", "--format=jsonl", f"--output={model_dir}/sure.jsonl"]
    return [train, score, sure]


def predictions(trained: Any, temperature: float, lines: list) -> tuple[np.ndarray, np.ndarray]:
    """Returns the probability of the most probable token at each place, and whether it is right."""
    model, tokenizer = trained.keras_model, trained.tokenizer
    sides = (v.encode(x) for v, x in zip(tokenizer[1:], lines, strict=True))
    pairs = sorted(zip(*sides, strict=True), key=lambda pair: len(pair[1]))

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)] * 2)
    def of_batch(source_ids, target_ids):
        inputs = {"source_ids": source_ids, "target_in_ids": shift_right(target_ids, model.bos_id)}
        logits = model(inputs, training=False) / temperature
        is_real = target_ids != model.pad_id
        sure = tf.reduce_max(tf.nn.softmax(logits), -1)
        right = tf.argmax(logits, -1, tf.int32) == target_ids
        return tf.boolean_mask(sure, is_real), tf.boolean_mask(right, is_real)

    found = []
    for first in range(0, len(pairs), 64):
        batch = zip(*pairs[first : first + 64], strict=True)
        found.append(of_batch(*(keras.utils.pad_sequences(x, padding="post") for x in batch)))
    sure, right = (np.concatenate(x) for x in zip(*found, strict=True))
    return sure, right


def area(doubts: list[float], wrong: list[bool]) -> float:
    """Returns the area under the curve: how often a wrong word is more doubtful than a right one.

    Equal doubts count half.
    """
    order = np.argsort(doubts, kind="stable")
    values, places = np.unique(np.asarray(doubts)[order], return_inverse=True)
    bad = np.asarray(wrong)[order]
    of_wrong, of_right = (np.bincount(places[x], minlength=len(values)) for x in (bad, ~bad))
    below = np.cumsum(of_right) - of_right
    return float((of_wrong * (below + of_right / 2)).sum() / (of_wrong.sum() * of_right.sum()))


def confidence(model_dir: str, text: str) -> dict[str, Any]:
    """Returns the figures of confidence, of tokens, words and lines."""
    references = read_lines(f"{text}.de")
    records = [json.loads(line) for line in read_lines(f"{model_dir}/sure.jsonl")]
    chosen = json.loads(Path(model_dir, "search.json").read_text(encoding="utf-8"))
    trained = nmt_zoo.load(model_dir)
    both = {}
    for temperature in (1.0, chosen["temperature"]):
        found = predictions(trained, temperature, [read_lines(f"{text}.en"), references])
        both[temperature] = calibration_error(*found)
    order = sorted(range(len(records)), key=lambda row: -records[row]["confidence"])
    halves = order[: len(order) // 2], order[len(order) // 2 :]
    outputs = [record["translation"] for record in records]
    bleu = [
        corpus_scores([outputs[i] for i in x], [[references[i] for i in x]], ["bleu"])["bleu"].score
        for x in halves
    ]
    doubts, wrong = [], []
    for record, reference in zip(records, references, strict=True):
        left = collections.Counter(reference.split())
        for word, sure in zip(
            record["translation"].split(), record["word_confidence"], strict=True
        ):
            doubts.append(-sure)
            wrong.append(left[word] <= 0)
            left[word] -= 1
    return {
        "temperature": chosen["temperature"],
        "validation_error": chosen["calibration_error"],
        "calibration_error": both[chosen["temperature"]],
        "calibration_error_at_1": both[1.0],
        "bleu_of_surer_half": bleu[0],
        "bleu_of_other_half": bleu[1],
        "words": len(wrong),
        "wrong_words": sum(wrong),
        "area_of_wrong_words": area(doubts, wrong),
    }


def tables() -> dict[str, list[str]]:
    """Returns the lines of the tables by name, from docs/results/noise."""
    records = {path.stem: json.loads(path.read_text()) for path in RESULTS.glob("*-*.json")}
    named = {kind: [x for n, x in sorted(records.items()) if n.startswith(kind)] for kind in NOISES}
    named = {kind: group for kind, group in named.items() if group}
    if not named:
        return {}
    groups = named.values()
    kinds = [row["kind"] for row in next(iter(groups))[0]["noise"]]
    rows = [["test set", *named, *(f"{kind}, of clean" for kind in named)]]
    rows.append(["---"] * len(rows[0]))
    for number, kind in enumerate(kinds):
        cells, shares = [], []
        for group in groups:
            bleu = [x["noise"][number]["bleu"] for x in group]
            clean = [x["noise"][0]["bleu"] for x in group]
            cells.append(" ".join([f"**{mean(bleu):.2f}**", *(f"{x:.2f}" for x in bleu)]))
            shares.append(f"{100 * mean(bleu) / mean(clean):.0f}%")
        rows.append([f"`{kind}`" if number else kind, *cells, *shares])
    sure = [["figure", *named], ["---"] * (1 + len(named))]
    for title, entry, form in (
        ("temperature", "temperature", "{:.2f}"),
        ("calibration error of tokens", "calibration_error", "{:.1%}"),
        ("the same at temperature 1", "calibration_error_at_1", "{:.1%}"),
        ("BLEU of the surer half", "bleu_of_surer_half", "{:.2f}"),
        ("BLEU of the other half", "bleu_of_other_half", "{:.2f}"),
        ("area under the curve of wrong words", "area_of_wrong_words", "{:.3f}"),
    ):
        values = ([x["confidence"][entry] for x in group] for group in groups)
        cells = (" ".join(form.format(x) for x in (mean(of), *of)) for of in values)
        sure.append([title, *(f"**{cell.replace(' ', '** ', 1)}" for cell in cells)])
    return {
        name: [f"| {' | '.join(row)} |" for row in of]
        for name, of in (("noise", rows), ("confidence", sure))
    }


def page() -> str:
    """Returns the page with the tables of the result files."""
    return with_tables(PAGE.read_text(encoding="utf-8"), tables())


def main() -> None:
    """Trains and measures the named runs, and writes the tables."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[*NAMES, []])
    parser.add_argument("--data_dir", default="data")
    parser.add_argument("--runs", default="runs")
    parser.add_argument("--text", default="data/test_2017_flickr", metavar="PREFIX")
    flags = parser.parse_args()
    for name in flags.names:
        for words in commands(name, flags):
            subprocess.run([sys.executable, *words], cwd=ROOT, check=True)
        model_dir = f"{flags.runs}/{name}"
        saved = json.loads(Path(model_dir, "test.json").read_text(encoding="utf-8"))
        record = {"command": f"python -m docs.studies.noise {name}"}
        record |= {key: saved[key] for key in KEPT}
        record["confidence"] = confidence(model_dir, flags.text)
        write_json(RESULTS / f"{name}.json", record)
    write_text(PAGE, page())


if __name__ == "__main__":
    main()
