"""Measures what a language model adds to the statistical models on the demo corpus.

    python benchmarks/noisy_channel.py

Trains `ibm1`, `ibm2` and `hmm_alignment` in both directions and an `ngram_lm` of every order. Each
model translates in three ways: the direct model P(e | f) alone, the direct model with the language
model, and the noisy channel, P(f | e) P(e). The language model's order is chosen by validation
perplexity, its weights by validation BLEU; with these, the test set is translated once. Each score
is written, as soon as it is known, to docs/results/noisy_channel/demo.json, where results_table.py
reads it. Existing translations are not made again.
"""

import itertools
import json
import shlex
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from nmt_zoo.common import process

process.start()  # Before anything imports TensorFlow.

# isort: split

from absl import flags

from benchmarks.parts.scripts import own_command, run, write_record
from nmt_zoo.command_line import console
from nmt_zoo.command_line.machine import machine
from nmt_zoo.model_directory.directory import ModelDirectory

FLAGS = flags.FLAGS

flags.DEFINE_string("runs", "runs/noisy_channel", "Folder for the model directories.")
flags.DEFINE_string("data_dir", "data", "Folder of the demo corpus and of caches, as in train.py.")
flags.DEFINE_string("output", "docs/results/noisy_channel/demo.json", "JSON file for all figures.")

PRESETS = ("ibm1", "ibm2", "hmm_alignment")
ORDERS = (2, 3, 4, 5)
DIRECT, FUSION, CHANNEL = "direct", "fusion", "channel"
# way: candidate weights of the language model. Below 0.5, the noisy channel produces babble.
WEIGHTS = {
    DIRECT: (None,),
    FUSION: (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5),
    CHANNEL: (0.5, 0.7, 1.0, 1.5),
}


def text(split, side):
    """Returns the path of one side of the demo corpus."""
    return f"{FLAGS.data_dir}/demo/{split}.{side}"


def train_command(preset, source, target):
    """Returns the command that trains a preset from one language to the other, as a list."""
    corpus = ["--dataset=demo"]
    if source == "de":
        corpus = []
        for name, side in (("source", source), ("target", target)):
            corpus += [f"--{split}_{name}={text(split, side)}" for split in ("train", "valid")]
    where = [f"--data_dir={FLAGS.data_dir}", f"--model_dir={FLAGS.runs}/{source}-{target}/{preset}"]
    return ["train.py", f"--model={preset}", *corpus, *where]


def language_command(order, judged="valid"):
    """Returns the command that makes a language model, validated on the split `judged`."""
    return [
        *("train.py", "--model=ngram_lm", f"--set=order={order}"),
        *(f"--train_target={text('train', 'de')}", f"--valid_target={text(judged, 'de')}"),
        f"--vocab_file={FLAGS.runs}/en-de/ibm1/tokenizer/target.vocab",
        f"--model_dir={FLAGS.runs}/{judged}-order{order}",
    ]


def translate_command(preset, way, split, order=None, weight=None):
    """Returns the command that translates and scores a split of the corpus in one way."""
    model = f"--model_dir={FLAGS.runs}/en-de/{preset}"
    if way == CHANNEL:
        model = f"--channel_model={FLAGS.runs}/de-en/{preset}"
    language, name = [], f"{preset}-{way}-{split}"
    if way != DIRECT:
        language = [f"--language_model={FLAGS.runs}/valid-order{order}"]
        language.append(f"--language_model_weight={weight:g}")
        name += f"-order{order}-{weight:g}"
    return [
        *("translate.py", model, *language, f"--input={text(split, 'en')}"),
        *(f"--reference={text(split, 'de')}", f"--output={FLAGS.runs}/{name}.de"),
        f"--save_scores={FLAGS.runs}/{name}.json",
    ]


def scores(command):
    """Returns the scores that a command of `translate_command` writes; runs it only once."""
    path = ROOT / command[-1].partition("=")[2]
    if not path.exists():
        run(command)
    return json.loads(path.read_text("utf-8"))


def perplexities():
    """Makes the language models; returns order -> {"valid": perplexity, "test": perplexity}."""
    found = {order: {} for order in ORDERS}
    for order in ORDERS:
        for split in ("valid", "test"):
            command = language_command(order, split)
            run(command)
            directory = ModelDirectory(ROOT / command[-1].partition("=")[2])
            found[order][split] = round(directory.summary()["best"]["perplexity"], 2)
    return found


def result(preset, way, order):
    """Scores one way on the test set, with the weight that is best on the validation set."""
    valid = {
        weight: scores(translate_command(preset, way, "valid", order, weight))["bleu"]
        for weight in WEIGHTS[way]
    }
    weight = max(valid, key=valid.get)
    command = translate_command(preset, way, "test", order, weight)
    test = scores(command)
    kept = ("bleu", "bleu_signature", "chrf", "beam_size", "length_penalty", "translation_seconds")
    chosen = {} if way == DIRECT else {"language_model_weight": weight}
    return {
        **chosen,
        "valid_bleu": {f"{w:g}": bleu for w, bleu in valid.items()} if chosen else valid[None],
        **{name: test[name] for name in kept},
        "seed": test["options"]["seed"],
        "command": shlex.join(["python", *command]),
    }


def main(argv):
    """Trains, chooses, scores, writes."""
    del argv
    record = {"machine": machine(), "command": own_command()}
    for preset in PRESETS:
        run(train_command(preset, "en", "de"))
        run(train_command(preset, "de", "en"))
    found = perplexities()
    order = min(found, key=lambda order: found[order]["valid"])
    record |= {"perplexity": found, "order": order, "models": {p: {} for p in PRESETS}}
    for preset, way in itertools.product(PRESETS, WEIGHTS):
        record["models"][preset][way] = result(preset, way, order)
        write_record(ROOT / FLAGS.output, record)
    return 0


if __name__ == "__main__":
    console.run(main)
