"""Trains the networks of public tutorials, measures them as the tutorials do, writes the tables.

    python -m docs.tutorials.run keras_io keras_io_honest
    python -m docs.tutorials.run    # The tables alone.

Each run is one command of train.py and one of translate.py, which `commands` returns; a run that
was stopped is resumed. docs/results/tutorials/NAME.json has all figures of a run.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

import nmt_zoo
from docs.tutorials import texts
from nmt_zoo.common.files import read_lines, write_json, write_text
from nmt_zoo.decoding import scores
from nmt_zoo.models import shift_right

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs/results/tutorials"
FOLDER = "docs/tutorials"
KEPT = ("model", "parameters", "vocab_sizes", "training", "bleu", "bleu_signature", "chrf")
KEPT += ("beam_size", "sentences", "machine")


class Sums(NamedTuple):
    """Sums over a validation text; `longest` is its longest target line, in tokens with `</s>`."""

    nll: float
    correct: int  # Tokens whose probability is the largest.
    tokens: int  # With `</s>`.
    sentences: int
    longest: int


def of_tokens(x: Sums) -> tuple[float, float]:
    """Returns (loss, accuracy) as means over the tokens, with `</s>`."""
    return x.nll / x.tokens, x.correct / x.tokens


def of_positions(number: int = 0) -> Callable[[Sums], tuple[float, float]]:
    """Returns a function that counts padding as predicted, up to the longest line if 0."""

    def measure(x):
        positions = x.sentences * (number or x.longest + 1)
        return x.nll / positions, (x.correct + positions - x.tokens) / positions

    return measure


def of_masked_positions(x: Sums) -> tuple[float, float]:
    """Returns (loss, accuracy) as Keras 2 computed them for keras.io.

    The mask, of the decoder's input, lets one padding a sentence through. The loss is masked, but
    divided by all 20 positions; the accuracy is divided by what the mask lets through.
    """
    shown = x.tokens + x.sentences
    return x.nll / (20 * x.sentences), (x.correct + x.sentences) / shown


class Tutorial(NamedTuple):
    """A tutorial, and how its network is trained here."""

    title: str
    page: str  # In this folder.
    model: str  # Flag of train.py; "": the zoo chooses.
    flags: tuple[str, ...]  # Further flags of train.py.
    measure: Callable[[Sums], tuple[float, float]] | None
    printed: str = "a curve"  # Its own figures, as of `measure`.
    text: str = ""  # Name of the dataset; "": that of the tutorial.
    form: Callable[[str], str] | None = None  # Of lines before they are scored.
    is_divided: bool = True  # Whether there is an honest split, too.


RMSPROP = f"--update={FOLDER}/rmsprop.py:rmsprop"
TUTORIALS = {
    "tensorflow_attention": Tutorial(
        "tensorflow.org, attention",
        "tensorflow_attention.md",
        "recurrent.py:TensorFlowAttention",
        ("--max_steps=2400", "--eval_every_steps=1200", "--save_every_steps=300"),
        of_tokens,
        "1.273 / 0.747",
    ),
    "tensorflow_transformer": Tutorial(
        "tensorflow.org, Transformer",
        "tensorflow_transformer.md",
        "transformers.py:TensorFlowOrg",
        ("--num_pieces=7500", "--noise=none", "--max_steps=16200", "--eval_every_steps=1302"),
        of_tokens,
        "(2.11 / 0.636 on TED)",
    ),
    "keras_io": Tutorial(
        "keras.io, Transformer",
        "keras_transformer.md",
        "transformers.py:KerasIO",
        (RMSPROP, "--max_epochs=1", "--eval_every_steps=1302", "--save_every_steps=200"),
        of_masked_positions,
        "1.284 / 0.521",
    ),
    "keras_hub": Tutorial(
        "keras.io, KerasHub",
        "keras_hub.md",
        "transformers.py:KerasHub",
        (
            RMSPROP,
            "--num_pieces=15000",
            "--noise=none",
            "--max_epochs=1",
            "--eval_every_steps=1302",
        ),
        of_positions(40),
        "0.804 / 0.866",
    ),
    "characters": Tutorial(
        "keras.io, characters",
        "keras_characters.md",
        "recurrent.py:Characters",
        (RMSPROP, "--num_pieces=335", "--noise=none", "--max_epochs=100", "--eval_every_steps=625"),
        of_positions(),
        "(0.436 / 0.876 in French)",
        is_divided=False,
    ),
    "d2l_attention": Tutorial(
        "d2l.ai, attention",
        "d2l.md",
        "recurrent.py:D2LAttention",
        ("--max_epochs=30", "--eval_every_steps=120"),
        of_tokens,
        text="d2l",
        is_divided=False,
    ),
    "d2l_transformer": Tutorial(
        "d2l.ai, Transformer",
        "d2l.md",
        "transformers.py:D2LTransformer",
        ("--max_epochs=30", "--eval_every_steps=120"),
        of_tokens,
        text="d2l",
        is_divided=False,
    ),
    "zoo": Tutorial(
        "keras.io's text, the zoo's choice, 11 min",
        "keras_transformer.md",
        "",
        ("--max_minutes=11",),
        None,
        "-",
        text="anki_en_es",
        form=texts.without_marks,
    ),
}


def commands(name: str, data_dir: str = "data", runs: str = "runs") -> tuple[list[str], list[str]]:
    """Returns the words after `python` that train a run and that score its test text."""
    plain = name.removesuffix("_honest")
    tutorial = TUTORIALS[plain]
    text = (tutorial.text or plain) + name[len(plain) :]
    source, target = ("es", "en") if name.startswith("tensorflow") else ("en", "es")
    folder, model_dir = f"{data_dir}/{text}", f"{runs}/{name}"
    own = f"{FOLDER}/" if tutorial.model else ""
    train = ["train.py", f"--dataset={own and own + 'texts.py:'}{text}", *tutorial.flags]
    train += [f"--model={own}{tutorial.model}"] * bool(own)
    train += [f"--data_dir={data_dir}", f"--model_dir={model_dir}"]
    translate = ["translate.py", f"--model_dir={model_dir}", f"--beam_size={1 if own else 4}"]
    translate += [f"--input={folder}/test.{source}", f"--reference={folder}/test.{target}"]
    translate += [f"--output={model_dir}/test.{target}", f"--save_scores={model_dir}/test.json"]
    return train, translate


def summed(trained: Any, source: Path, target: Path) -> Sums:
    """Sums a model's predictions of a text, each word from the right words before it."""
    model, tokenizer = trained.keras_model, trained.tokenizer
    sides = tokenizer.source.encode(read_lines(source)), tokenizer.target.encode(read_lines(target))
    pairs = sorted(zip(*sides, strict=True), key=lambda pair: len(pair[1]))

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)] * 2)
    def sums_of(source_ids, target_ids):
        inputs = {"source_ids": source_ids, "target_in_ids": shift_right(target_ids, model.bos_id)}
        logits = model(inputs, training=False)
        real = tf.cast(target_ids != model.pad_id, tf.float32)
        nll = tf.nn.sparse_softmax_cross_entropy_with_logits(target_ids, logits)
        correct = tf.cast(tf.argmax(logits, -1, tf.int32) == target_ids, tf.float32)
        return tf.reduce_sum(tf.stack([nll * real, correct * real, real]), axis=(1, 2))

    sums = np.zeros(3)
    for first in range(0, len(pairs), 64):
        batch = zip(*pairs[first : first + 64], strict=True)
        sums += sums_of(*(keras.utils.pad_sequences(ids, padding="post") for ids in batch)).numpy()
    nll, correct, tokens = sums
    return Sums(float(nll), int(correct), int(tokens), len(pairs), max(map(len, sides[1])))


def scored(outputs: list[str], references: list[str]) -> dict[str, float]:
    """Returns sacreBLEU's BLEU and chrF of lines."""
    found = scores.corpus_scores(outputs, [references], metrics=["bleu", "chrf"])
    return {name: float(found[name].score) for name in ("bleu", "chrf")}


def record_of(name: str, data_dir: str, runs: str) -> dict[str, Any]:
    """Returns the figures of a run that `commands` has made."""
    tutorial = TUTORIALS[name.removesuffix("_honest")]
    words = [word for command in commands(name, data_dir, runs) for word in command[1:]]
    values = dict(word[2:].split("=", 1) for word in words)
    test = [Path(values["input"]), Path(values["reference"])]
    saved = json.loads(Path(values["save_scores"]).read_text(encoding="utf-8"))
    record = {"command": f"python -m docs.tutorials.run {name}"}
    record |= {key: saved[key] for key in KEPT}
    if tutorial.measure:
        valid = (path.with_stem("valid") for path in test)
        found = summed(nmt_zoo.load(values["model_dir"]), *valid)
        measured = zip(("loss", "accuracy"), tutorial.measure(found), strict=True)
        record |= {"valid": found._asdict(), "measured": dict(measured)}
    lines = [*zip(*map(read_lines, (values["output"], *test)), strict=True)]
    form = tutorial.form or str
    if tutorial.form:
        outputs, _, references = zip(*lines, strict=True)
        record["as_written"] = {"bleu": record["bleu"], "chrf": record["chrf"]}
        record |= scored([*map(form, outputs)], [*map(form, references)])
    # Test lines of which neither side is in the training text.
    seen = [{*map(form, read_lines(path.with_stem("train")))} for path in test]
    new = [[*map(form, line)] for line in lines]
    new = [x for x in new if x[1] not in seen[0] and x[2] not in seen[1]]
    outputs, _, references = map(list, zip(*new, strict=True))
    record["new_lines"] = {"sentences": len(new), **scored(outputs, references)}
    return record


def table(page: str = "") -> list[str]:
    """Returns the lines of the table of a page, or of index.md, from docs/results/tutorials."""
    rows = [("tutorial", "parameters", "updates", "minutes", "its loss / accuracy", "here")]
    rows[0] += ("BLEU", "chrF", "BLEU, new lines", "BLEU, honest split")
    rows.append(("---",) * len(rows[0]))
    for name, tutorial in TUTORIALS.items():
        if page not in ("", tutorial.page):
            continue
        title = tutorial.title if page else f"[{tutorial.title}]({tutorial.page})"
        path, honest = (RESULTS / f"{x}.json" for x in (name, f"{name}_honest"))
        cells = ("", "", "", tutorial.printed, "not run", "", "", "", "")
        if path.exists():
            other = "not run" if tutorial.is_divided else "-"
            if honest.exists():
                other = f"{json.loads(honest.read_text(encoding='utf-8'))['bleu']:.2f}"
            cells = _cells(tutorial, json.loads(path.read_text(encoding="utf-8")), other)
        rows.append((title, *cells))
    return [f"| {' | '.join(row)} |" for row in rows]


def _cells(tutorial, record, other):
    here = "-"
    if "measured" in record:
        here = "{loss:.3f} / {accuracy:.3f}".format(**record["measured"])
    made = record["training"]
    sizes = f"{record['parameters']:,}", f"{made['steps']:,}", f"{made['minutes']:.1f}"
    figures = (record["bleu"], record["chrf"], record["new_lines"]["bleu"])
    return (*sizes, tutorial.printed, here, *(f"{figure:.2f}" for figure in figures), other)


def pages() -> dict[Path, str]:
    """Maps the path of each page -> its text with the table of the result files."""
    start, end, new = "<!-- table: start -->\n", "<!-- table: end -->\n", {}
    for page in ("", *dict.fromkeys(tutorial.page for tutorial in TUTORIALS.values())):
        path = ROOT / FOLDER / (page or "index.md")
        before, rest = path.read_text(encoding="utf-8").split(start)
        new[path] = before + start + "\n".join(table(page)) + "\n" + end + rest.split(end)[1]
    return new


def main() -> None:
    """Trains, scores and measures the named runs, and writes the tables."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="run, see TUTORIALS, or NAME_honest"
    )
    parser.add_argument("--data_dir", default="data")
    parser.add_argument("--runs", default="runs")
    flags = parser.parse_args()
    known = [
        *TUTORIALS,
        *(f"{n}_honest" for n, tutorial in TUTORIALS.items() if tutorial.is_divided),
    ]
    for name in flags.names:
        if name not in known:
            parser.error(f"unknown run {name!r}; expected one of {', '.join(known)}")
    for name in flags.names:
        for words in commands(name, flags.data_dir, flags.runs):
            subprocess.run([sys.executable, *words], cwd=ROOT, check=True)
        write_json(RESULTS / f"{name}.json", record_of(name, flags.data_dir, flags.runs))
    for path, text in pages().items():
        write_text(path, text)


if __name__ == "__main__":
    main()
