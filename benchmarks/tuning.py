"""Tunes an imported model on a few hundred pairs of other text, and scores both kinds of text.

    python benchmarks/tuning.py --model_dir=runs/opus --pairs=500 --minutes=3 \\
        --new=data/europarl/train,data/europarl/val,data/europarl/test \\
        --old=data/multi30k/test_2016_flickr

A text is named without the ending of its language, .en or .de. Training stops on validation text of
the new kind. Results go to docs/results/studies/tuning.json.
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
from nmt_zoo.common.files import read_lines, write_lines
from nmt_zoo.decoding.scores import corpus_scores

FLAGS = flags.FLAGS

flags.DEFINE_string("model_dir", "", "Directory of import_model.py.")
flags.DEFINE_list("new", [], "Training, validation and test text of the new kind.")
flags.DEFINE_string("old", "", "Test text of the old kind.")
flags.DEFINE_list("languages", ["en", "de"], "Endings of source and target.")
flags.DEFINE_integer("pairs", 500, "Pairs to tune on.", 1)
flags.DEFINE_integer("minutes", 3, "Minutes of tuning.", 1)
flags.DEFINE_list("rates", ["1e-4", "3e-4"], "Learning rates to try.")
flags.DEFINE_string("runs", "runs/tuning", "Folder for texts, runs and translations.")
flags.DEFINE_string("output", "docs/results/studies/tuning.json", "JSON file of the results.")


def scores(model_dir, name):
    """Translates the test texts of both kinds; returns BLEU of each."""
    found = {}
    for kind, text in (("new", FLAGS.new[2]), ("old", FLAGS.old)):
        source, target = (f"{text}.{ending}" for ending in FLAGS.languages)
        output = Path(FLAGS.runs, f"{name}.{kind}")
        run(["translate.py", f"--model_dir={model_dir}", f"--input={source}", f"--output={output}"])
        bleu = corpus_scores(read_lines(output), [read_lines(target)], metrics=["bleu"])["bleu"]
        found[kind] = round(bleu.score, 2)
    print(name, found, flush=True)
    return found


def main(argv):
    """Tunes with each rate, and scores."""
    del argv
    os.chdir(ROOT)
    texts, place = [], Path(FLAGS.runs)
    place.mkdir(parents=True, exist_ok=True)
    for split, text in zip(("train", "valid"), FLAGS.new[:2], strict=True):
        for side, ending in zip(("source", "target"), FLAGS.languages, strict=True):
            lines = read_lines(f"{text}.{ending}")
            path = place / f"{split}.{ending}"
            write_lines(path, lines[: FLAGS.pairs] if split == "train" else lines)
            texts.append(f"--{split}_{side}={path}")
    with recorded(FLAGS.output) as record:
        record |= {"pairs": FLAGS.pairs, "minutes": FLAGS.minutes}
        record["bleu"] = {"before": scores(FLAGS.model_dir, "before")}
        for rate in FLAGS.rates:
            tuned = place / rate
            common = [f"--init_from={FLAGS.model_dir}", f"--model_dir={tuned}"]
            limits = [f"--max_minutes={FLAGS.minutes}", f"--learning_rate={rate}"]
            run(["train.py", *common, *limits, *texts])
            record["bleu"][rate] = {**scores(tuned, rate), "tuned": True}
    return 0


if __name__ == "__main__":
    console.run(main)
