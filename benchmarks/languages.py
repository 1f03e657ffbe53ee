"""Compares one model of several languages with a model for each pair, on Multi30k.

    python benchmarks/languages.py --multi30k=data/multi30k --minutes=5

One model learns English to and from German and French, with a tag of the target language before
the source; others learn one direction each. The one model has as many minutes as the others
together. It also translates German to French and back, which it never saw together (zero-shot); a
cascade of two translations through English stands beside it. Results go to
docs/results/studies/languages.json.
"""

import os
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
from nmt_zoo.common.files import read_lines
from nmt_zoo.decoding.scores import corpus_scores
from nmt_zoo.model_directory.metrics import read_records

FLAGS = flags.FLAGS

flags.DEFINE_string("multi30k", "data/multi30k", "Folder with train.en, val.en and so on.")
flags.DEFINE_string("runs", "runs/languages", "Folder for model directories and translations.")
flags.DEFINE_integer("minutes", 5, "Minutes of training for each direction.", 1)
flags.DEFINE_string("output", "docs/results/studies/languages.json", "JSON file of the results.")

SEEN = ("en-de", "de-en", "en-fr", "fr-en")
UNSEEN = ("de-fr", "fr-de")
_TEST = "test_2016_flickr"


def corpus(split, pairs):
    """Returns the flags of train.py for the text of some directions."""
    name, file = ("train", "train") if split == "train" else ("valid", "val")
    sides = zip(*(pair.split("-") for pair in pairs), strict=True)
    return [
        f"--{name}_{side}=" + ",".join(str(Path(FLAGS.multi30k, f"{file}.{x}")) for x in languages)
        for side, languages in zip(("source", "target"), sides, strict=True)
    ]


def train(name, pairs, *more):
    """Trains a model; returns its directory."""
    place = Path(FLAGS.runs, name)
    minutes = FLAGS.minutes * len(pairs)
    texts = [*corpus("train", pairs), *corpus("valid", pairs)]
    common = ["--model=transformer_tiny", f"--max_minutes={minutes}", f"--model_dir={place}"]
    run(["train.py", *common, *texts, *more])
    return place


def updates(model_dir):
    """Returns the number of updates of a run."""
    return read_records(model_dir / "metrics.jsonl")[-1]["step"]


def translated(model_dir, source, output, target=""):
    """Translates a file; returns the path of the translation."""
    output = Path(FLAGS.runs, output)
    flag = [f"--target_language={target}"] if target else []
    files = [f"--input={source}", f"--output={output}"]
    run(["translate.py", f"--model_dir={model_dir}", *files, *flag])
    return output


def score(path, target):
    """Returns BLEU and chrF of a translation of the test set."""
    references = [read_lines(Path(FLAGS.multi30k, f"{_TEST}.{target}"))]
    found = corpus_scores(read_lines(path), references, metrics=["bleu", "chrf"])
    return {name: round(found[name].score, 2) for name in ("bleu", "chrf")}


def main(argv):
    """Trains, translates and scores."""
    del argv
    os.chdir(ROOT)
    Path(FLAGS.runs).mkdir(parents=True, exist_ok=True)
    with recorded(FLAGS.output) as record:
        tags = ",".join(pair.split("-")[1] for pair in SEEN)
        one = train("one", SEEN, f"--target_languages={tags}")
        alone = {pair: train(pair, [pair]) for pair in SEEN}
        record["minutes"], record["pairs"] = FLAGS.minutes, {}
        record["updates"] = {name: updates(place) for name, place in {"one": one, **alone}.items()}
        for pair in (*SEEN, *UNSEEN):
            source, target = pair.split("-")
            text = Path(FLAGS.multi30k, f"{_TEST}.{source}")
            found = {"one": score(translated(one, text, f"one.{pair}", target), target)}
            if pair in SEEN:
                found["alone"] = score(translated(alone[pair], text, f"alone.{pair}"), target)
            else:
                middle = translated(one, text, f"middle.{pair}", "en")
                found["cascade"] = score(translated(one, middle, f"end.{pair}", target), target)
            record["pairs"][pair] = found
            print(pair, found, flush=True)
    return 0


if __name__ == "__main__":
    console.run(main)
