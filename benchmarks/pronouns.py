"""Tests whether a model uses the sentence before: pronouns of an invented grammar.

    python benchmarks/pronouns.py --minutes=2

A document has two sentences: `the dog sees the tree .` and `it sleeps .`. In the target language,
every noun has one of three genders, which its article shows, and "it" has that of the subject of
the sentence before. A model of sentences can only guess, one time in three. Two models learn the
same text, without and with --context_sentences=1; both translate new documents, and score each of
the three pronouns in the right translation. Results go to docs/results/studies/pronouns.json.
"""

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

from benchmarks.parts.scripts import recorded, run
from nmt_zoo.command_line import console
from nmt_zoo.common.files import read_lines, write_lines

FLAGS = flags.FLAGS

flags.DEFINE_integer("minutes", 2, "Minutes of training for each model.", 1)
flags.DEFINE_integer("documents", 6000, "Documents of the training text.", 1)
flags.DEFINE_integer("tests", 500, "Documents of the test text.", 1)
flags.DEFINE_string("runs", "runs/pronouns", "Folder for texts, models and translations.")
flags.DEFINE_string("output", "docs/results/studies/pronouns.json", "JSON file of the results.")

# A small network and batches, for a small grammar.
NETWORK = [
    *("--model=transformer_tiny", "--set=num_encoder_layers=2", "--set=num_decoder_layers=2"),
    *("--set=dropout=0.1", "--bpe_dropout=0", "--max_tokens_per_batch=1024"),
    "--learning_rate=0.002",
]
ARTICLES, PRONOUNS = ("ka", "ki", "ku"), ("sha", "shi", "shu")
_ONSETS, _VOWELS = "bdfglmnprstvz", "aeiou"


def words(count, syllables, draw):
    """Returns different invented words."""
    found = {}
    while len(found) < count:
        found["".join(draw.choice(_ONSETS) + draw.choice(_VOWELS) for _ in range(syllables))] = 1
    return list(found)


class Grammar:
    """Nouns, verbs and genders, drawn with a seed."""

    def __init__(self, draw):
        nouns = words(120, 3, draw)
        self.nouns = list(zip(nouns[:60], nouns[60:], strict=True))
        self.genders = [number % 3 for number in range(60)]
        verbs = words(40, 2, draw)
        self.verbs = list(zip(verbs[:20], verbs[20:], strict=True))

    def document(self, draw):
        """Returns (source lines, target lines, gender of the pronoun)."""
        (one, other), verb, action = draw.sample(range(60), 2), *draw.choices(self.verbs, k=2)
        gender = self.genders[one]
        phrases = [(self.nouns[n], ARTICLES[self.genders[n]]) for n in (one, other)]
        (subject, its), (thing, article) = phrases
        source = [f"the {subject[0]} {verb[0]} the {thing[0]} .", f"it {action[0]} ."]
        first = f"{its} {subject[1]} {verb[1]} {article} {thing[1]} ."
        return source, [first, f"{PRONOUNS[gender]} {action[1]} ."], gender


def write_texts(folder):
    """Writes the texts; returns (flags of train.py, the genders of the test text)."""
    draw = random.Random(1)
    grammar, found = Grammar(draw), []
    for name, count in (("train", FLAGS.documents), ("valid", 200), ("test", FLAGS.tests)):
        documents = [grammar.document(draw) for _ in range(count)]
        genders = [gender for *_, gender in documents]
        for side in (0, 1):
            lines = [line for document in documents for line in (*document[side], "")]
            path = folder / f"{name}.{('source', 'target')[side]}"
            write_lines(path, lines)
            found.append(f"--{path.stem}_{path.suffix[1:]}={path}")
    for number, pronoun in enumerate(PRONOUNS):
        lines = read_lines(folder / "test.target")
        lines[1::3] = [" ".join([pronoun, *line.split()[1:]]) for line in lines[1::3]]
        write_lines(folder / f"pronoun.{number}", lines)
    return found[:4], genders


def shares(folder, model_dir, genders):
    """Returns the shares of test documents with the right pronoun: translated, and scored best."""
    common = ["translate.py", f"--model_dir={model_dir}", f"--input={folder / 'test.source'}"]
    run([*common, f"--output={folder / 'translated'}", "--split_sentences=never"])
    written = [line.split()[:1] for line in read_lines(folder / "translated")[1::3]]
    right = [found == [PRONOUNS[gender]] for found, gender in zip(written, genders, strict=True)]
    scores = []
    for number in range(3):
        output = folder / f"scores.{number}"
        run([*common, f"--score={folder / f'pronoun.{number}'}", f"--output={output}"])
        scores.append([float(line) for line in read_lines(output)[1::3]])
    best = [of_document.index(max(of_document)) for of_document in zip(*scores, strict=True)]
    scored = [a == b for a, b in zip(best, genders, strict=True)]
    return {
        name: round(sum(each) / len(each), 4)
        for name, each in (("translated", right), ("scored", scored))
    }


def main(argv):
    """Makes the texts, trains both models, and tests them."""
    del argv
    os.chdir(ROOT)
    folder = Path(FLAGS.runs)
    folder.mkdir(parents=True, exist_ok=True)
    texts, genders = write_texts(folder)
    with recorded(FLAGS.output) as record:
        record |= {"documents": FLAGS.documents, "tests": FLAGS.tests, "minutes": FLAGS.minutes}
        record["right"] = {}
        for context in (0, 1):
            model_dir = folder / f"context{context}"
            limits = [f"--max_minutes={FLAGS.minutes}", f"--context_sentences={context}"]
            run(["train.py", *NETWORK, f"--model_dir={model_dir}", *texts, *limits])
            record["right"][context] = shares(folder, model_dir, genders)
            print(record["right"], flush=True)
    return 0


if __name__ == "__main__":
    console.run(main)
