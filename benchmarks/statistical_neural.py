"""Compares statistical and neural translation: by sentence length, noise and another kind of text.

    python benchmarks/phrases.py --only=multi30k_29000 --minutes=3 \\
        --systems=ibm2_lm,phrase_based,lstm_lexical,transformer_tiny
    python benchmarks/statistical_neural.py
    python benchmarks/statistical_neural.py --draw

The first command trains the systems, the second translates the test set of Multi30k with them: as
it is; with two letters of every fifth word exchanged; without every tenth word; in capitals; and,
in its place, the test set of Europarl. Results go to docs/results/studies/. --draw makes the
pictures of docs/statistical_neural.md and README.md, and translates nothing.
"""

import json
import os
import random
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from nmt_zoo.common import process

process.start(tensorflow=False)

# isort: split

from absl import flags

from benchmarks.parts.scripts import chosen, recorded, run
from benchmarks.parts.zoo_pictures import draw_comparison, draw_zoo
from nmt_zoo.command_line import console
from nmt_zoo.common.files import read_lines, write_lines
from nmt_zoo.decoding.scores import corpus_scores

FLAGS = flags.FLAGS
SYSTEMS = ("ibm2_lm", "phrase_based", "lstm_lexical", "transformer_tiny")
LENGTHS = ((1, 8), (9, 12), (13, 16), (17, 22), (23, 999))  # Words of the source.

flags.DEFINE_string("europarl", "data/europarl10k", "Folder with test.en and test.de.")
flags.DEFINE_string("runs", "runs/phrases", "Folder of the texts and models of phrases.py.")
flags.DEFINE_list("systems", list(SYSTEMS), "Names of the systems.")
flags.DEFINE_bool("draw", False, "Draws the pictures of results that are there.")
flags.DEFINE_string(
    "output", "docs/results/studies/statistical_neural.json", "JSON file of the results."
)


def exchanged(line, draw):
    """Exchanges two neighbouring letters of every fifth word that has four letters."""
    words = line.split()
    for place in range(draw.randrange(5), len(words), 5):
        word = words[place]
        if len(word) > 3:
            i = draw.randrange(len(word) - 1)
            words[place] = word[:i] + word[i + 1] + word[i] + word[i + 2 :]
    return " ".join(words)


def shortened(line, draw):
    """Drops every tenth word."""
    words = line.split()
    del words[draw.randrange(10) :: 10]
    return " ".join(words) or line


def texts_of(folder):
    """Returns kind of text -> (source lines, reference lines)."""
    source, target = (read_lines(folder / f"test.{side}") for side in ("src", "trg"))
    draw = random.Random(1)
    europarl = tuple(read_lines(Path(FLAGS.europarl, f"test.{side}")) for side in ("en", "de"))
    return {
        "as it is": (source, target),
        "letters exchanged": ([exchanged(line, draw) for line in source], target),
        "words dropped": ([shortened(line, draw) for line in source], target),
        "in capitals": ([line.upper() for line in source], target),
        "another kind of text": europarl,
    }


def bleu(outputs, references):
    """Returns BLEU of tokenised lines."""
    found = corpus_scores(outputs, [references], tokenize="none", metrics=["bleu"])
    return round(found["bleu"].score, 2)


def by_length(source, outputs, references):
    """Returns [least words, most words, sentences, BLEU] of each range of lengths."""
    found = []
    for low, high in LENGTHS:
        rows = [i for i, line in enumerate(source) if low <= len(line.split()) <= high]
        sides = ([side[i] for i in rows] for side in (outputs, references))
        found.append([low, high, len(rows), bleu(*sides)])
    return found


def measure(record):
    """Translates every kind of text with every system."""
    folder = Path(FLAGS.runs, "texts", "multi30k_29000")
    models = Path(FLAGS.runs, "multi30k_29000")
    place = models / "kinds"
    place.mkdir(parents=True, exist_ok=True)
    for system in chosen(FLAGS.systems, SYSTEMS, "system", "--systems"):
        found = record["systems"][system] = {"kinds": {}}
        for number, (kind, (source, references)) in enumerate(texts_of(folder).items()):
            path, output = place / f"{number}.src", place / f"{number}.{system}"
            write_lines(path, source)
            command = ["translate.py", f"--model_dir={models / system}", f"--input={path}"]
            if system == "ibm2_lm":
                command.append(f"--language_model={models / 'lm'}")
            run([*command, f"--output={output}"])
            outputs = read_lines(output)
            found["kinds"][kind] = bleu(outputs, references)
            if not number:
                found["by_length"] = by_length(source, outputs, references)
        print(system, found, flush=True)


def main(argv):
    """Measures, or draws."""
    del argv
    os.chdir(ROOT)
    if not FLAGS.draw:
        with recorded(FLAGS.output) as record:
            record["systems"] = {}
            measure(record)
        return 0
    by_size = {
        int(path.stem.split("_")[1]): json.loads(path.read_text(encoding="utf-8"))["systems"]
        for path in (ROOT / "docs" / "results" / "phrases").glob("multi30k_*.json")
    }
    record = json.loads(Path(FLAGS.output).read_text(encoding="utf-8"))
    draw_comparison(by_size, record["systems"], "docs/statistical_neural.svg")
    draw_zoo(by_size[max(by_size)], "docs/zoo.svg")
    return 0


if __name__ == "__main__":
    console.run(main)
