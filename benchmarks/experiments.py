"""Trains, translates and scores the experiments of docs/studies, by parts/studies.py.

    pip install sacremoses
    python benchmarks/experiments.py --study=multi30k_en_de
    python benchmarks/experiments.py --study=multi30k_en_de --only=recipe,ensemble --seeds=1,2,3
    python benchmarks/experiments.py --study=demo_alignment --only=ibm1_factored,transformer_tiny

Text is downloaded. A complete run is not trained again; a run that was stopped resumes. Validation
text alone chooses weights and length penalty. The test text is translated once, and the record is
written to docs/results, where results_table.py reads it. Links of the demo corpus are scored, too.
"""

import json
import os
import re
import shlex
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from nmt_zoo.common import process

process.start()  # Before anything imports TensorFlow.

# isort: split

from absl import flags

from benchmarks.parts.scripts import chosen, require, run
from benchmarks.parts.studies import STUDIES, Run, Study
from nmt_zoo.command_line import console
from nmt_zoo.common.files import read_lines, write_json, write_lines
from nmt_zoo.data_pipeline import datasets
from nmt_zoo.decoding.scores import corpus_scores
from nmt_zoo.model_directory.directory import ModelDirectory

SIDES = ("source", "target")
FLAGS = flags.FLAGS

flags.DEFINE_enum("study", "multi30k_en_de", STUDIES, "Experiments to make.")
flags.DEFINE_list("only", [], "Names of the runs. Default: all.")
flags.DEFINE_list("seeds", ["1"], "Seeds of each run; an ensemble has a model of each.")
flags.DEFINE_string("data_dir", "data", "Folder for the text, as in train.py.")
flags.DEFINE_string("runs", "runs", "Folder for the model directories.")


class Runner:
    """Makes the runs of a study, which is named by its key in `STUDIES`."""

    def __init__(self, name: str) -> None:
        self.study: Study = STUDIES[name]
        self.folder = f"{FLAGS.runs}/{name}"
        self.texts = datasets.prepare(self.study.dataset, FLAGS.data_dir)
        self.commands: list[list[str]] = []

    def make(self, name: str, seeds: list[str]) -> None:
        """Trains a run, or the members of an ensemble, and writes its record."""
        self.commands = []
        experiment = self.study.runs[name]
        if experiment.members:
            members = [self.train(experiment.members, seed) for seed in seeds]
        else:
            members = [self.train(name, seed) for seed in seeds]
        folder = Path(self.directory(name, "-".join(seeds)))
        folder.mkdir(parents=True, exist_ok=True)
        record = self.translate(experiment, ",".join(members), folder)
        record["method"] = name
        if self.study.dataset == "demo" and not experiment.members:
            record |= self.align(folder)
        record["command"] = [shlex.join(["python", *command]) for command in self.commands]
        if not self.study.results.startswith("methods"):
            folder = folder.with_name(name)
        path = Path("docs/results", self.study.results) / f"{folder.name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, record)

    def directory(self, name: str, seeds: str) -> str:
        """Returns the model directory of a run."""
        return f"{self.folder}/{name}-{seeds}"

    def train(self, name: str, seed: str) -> str:
        """Trains a run and those that it needs, unless complete; returns its directory."""
        experiment, model_dir = self.study.runs[name], self.directory(name, seed)
        needed = set(re.findall(r"{(\w+)}", " ".join(experiment.flags))) - {"self"}
        directories = {other: self.train(other, "1") for other in sorted(needed)}
        own = [flag.format(self=model_dir, **directories) for flag in experiment.flags]
        where = [f"--seed={seed}", *self.training_text(experiment), f"--model_dir={model_dir}"]
        self.call(["train.py", *own, *where])
        return model_dir

    def call(self, command: list[str]) -> None:
        """Runs a script, and keeps its command for the record."""
        run(command)
        self.commands.append(command)

    def text(self, experiment: Run, split: str) -> datasets.Split:
        """Returns the files of a split: those of the corpus, or changed as a run needs them."""
        files = self.texts[split]
        pairs = self.study.pairs if split == "train" else None
        if not (experiment.is_lowercased or pairs):
            return files
        folder = Path(self.folder, "lowercased" if experiment.is_lowercased else "text")
        folder.mkdir(parents=True, exist_ok=True)
        paths = []
        for path in map(Path, (files.source, files.target)):
            lines = read_lines(path)[:pairs]
            if experiment.is_lowercased:
                lines = [line.lower() for line in lines]
            write_lines(folder / path.name, lines)
            paths.append(str(folder / path.name))
        return datasets.Split(*paths)

    def training_text(self, experiment: Run) -> list[str]:
        """Returns the flags of train.py that name the text."""
        if not (experiment.is_lowercased or self.study.pairs):
            return [f"--dataset={self.study.dataset}", f"--data_dir={FLAGS.data_dir}"]
        return [
            f"--{split}_{side}={getattr(self.text(experiment, split), side)}"
            for split in ("train", "valid")
            for side in SIDES
        ]

    def translate(self, experiment: Run, model_dirs: str, folder: Path) -> dict:
        """Translates and scores the test text; returns the record."""
        text = self.text(experiment, "test")
        unknowns = []
        if experiment.lexicon:
            train = self.text(experiment, "train")
            files = [f"--source={train.source}", f"--target={train.target}"]
            self.call(["align.py", *files, f"--lexicon={folder}/lexicon"])
            unknowns = ["--replace_unknowns", f"--lexicon={folder}/lexicon"]
        output, scores = f"{folder}/beam.out", f"{folder}/beam.json"
        files = [f"--input={text.source}", f"--reference={text.target}", f"--output={output}"]
        files += [f"--save_scores={scores}", *self.study.search, *unknowns]
        self.call(["translate.py", f"--model_dir={model_dirs}", *files])
        record = json.loads(Path(scores).read_text("utf-8"))
        language = self.study.dataset.rpartition("_")[2]
        record["data"] = self.study.title
        if self.study.dataset.startswith("multi30k"):
            outputs = read_lines(output), read_lines(text.target)
            record["bleu_lowercased_moses"] = published_measure(*outputs, language)
        return record

    def align(self, folder: Path) -> dict:
        """Aligns the test text of the demo corpus; returns the scores of the links, if any."""
        if not ModelDirectory(folder).new_model().has_alignment:
            return {}
        test = self.texts["test"]
        gold = str(Path(test.source).with_suffix(".en-de"))
        files = [f"--source={test.source}", f"--target={test.target}", f"--gold={gold}"]
        where = [f"--model_dir={folder}", f"--alignments={folder}/test.en-de"]
        self.call(["align.py", *where, *files, f"--save_scores={folder}/links.json"])
        scores = json.loads((folder / "links.json").read_text("utf-8"))
        figures = ("aer", "precision", "recall", "sentences", "links")
        return {"alignment": {name: scores[name] for name in figures}}


def published_measure(outputs, references, language):
    """Returns BLEU of lower-cased text, tokenised as Moses does; papers on Multi30k give it."""
    from sacremoses import MosesTokenizer

    tokenizer = MosesTokenizer(language)
    texts = [
        [tokenizer.tokenize(line.lower(), return_str=True, escape=False) for line in lines]
        for lines in (outputs, references)
    ]
    return round(corpus_scores(texts[0], [texts[1]], tokenize="none")["bleu"].score, 2)


def main(argv):
    """Makes the runs asked for."""
    del argv
    os.chdir(ROOT)
    runner = Runner(FLAGS.study)
    if FLAGS.study.startswith("multi30k"):
        require("sacremoses")
    for name in chosen(FLAGS.only, [n for n in runner.study.runs if n != "aligner"]):
        is_ensemble = runner.study.runs[name].members
        for seeds in [FLAGS.seeds] if is_ensemble else [[seed] for seed in FLAGS.seeds]:
            runner.make(name, seeds)
    return 0


if __name__ == "__main__":
    console.run(main)
