"""Trains, tunes and runs Thot's phrase-based system for `phrases.py`, in its own environment.

    python thot_system.py FOLDER OUTPUT SECONDS

FOLDER has `train`, `valid` and `test`, each with `.src` and `.trg`, tokenised. OUTPUT gets the
translations of `test.src`. Prints a JSON object. Needs `sil-machine[thot]`. The weights of the
language model are tuned by Thot's own search for perplexity, those of the system by Thot's own
simplex search for BLEU on the first lines of the validation text, for at most SECONDS with each
number of words that a phrase may jump over; the number with the higher BLEU is taken.
"""

import contextlib
import json
import sys
import time
from importlib.metadata import version
from pathlib import Path

from machine.corpora import TextFileTextCorpus
from machine.optimization import NelderMeadSimplex
from machine.translation.thot import thot_smt_model_trainer as trainers
from machine.translation.thot.simplex_model_weight_tuner import SimplexModelWeightTuner
from machine.translation.thot.thot_smt_parameters import ThotSmtParameters
from machine.translation.thot.thot_train_progress_reporter import ThotTrainProgressReporter
from machine.translation.thot.thot_utils import (
    load_smt_decoder,
    load_smt_model,
    to_sentence,
    to_target_tokens,
)
from machine.translation.thot.thot_word_alignment_model_type import ThotWordAlignmentModelType

_KIND = ThotWordAlignmentModelType.HMM
_JUMPS = (0, 2)
_EVALUATIONS = 100  # Thot's own limit.
_TUNED_LINES = 400  # An evaluation translates all of them.
_FIRST = [1.0] * 7 + [0.0]


class System(trainers.ThotSmtModelTrainer):
    """Thot's trainer on given training and validation texts, which it would draw itself."""

    def __init__(self, corpus):
        super().__init__(_KIND, corpus, ThotSmtParameters("tm", "lm"))
        self.lm = str(self._train_lm_dir / self._lm_file_prefix)
        self.tm = str(self._train_tm_dir / self._tm_file_prefix)

    def count(self, num_pairs):
        """Counts phrases and n-grams."""
        reporter = ThotTrainProgressReporter(None, None)
        self._train_lm_dir.mkdir()
        self._train_language_model(Path(self.lm), 3, self._corpus)
        self._train_tm_dir.mkdir()
        self._train_translation_model(Path(self.tm), self._corpus, num_pairs, reporter)

    def tune_language_model(self, targets):
        """Tunes the weights of the language model for perplexity."""
        self._tune_language_model(Path(self.lm), targets, 3)

    def parameters_with(self, weights, jumps):
        """Returns the parameters of a system with some weights."""
        return ThotSmtParameters(
            self.tm, self.lm, model_non_monotonicity=jumps, model_weights=weights
        )


class _OutOfTimeError(Exception):
    """Ends a search for weights."""


def tune(system, sources, targets, jumps, seconds):
    """Returns (1 - BLEU, weights, evaluations) of the best weights that were found in time."""
    tuner, found = SimplexModelWeightTuner(_KIND), []
    end = time.monotonic() + seconds

    def evaluate(weights, _):
        if found and time.monotonic() > end:
            raise _OutOfTimeError
        weights = [*map(float, weights), 0.0]
        parameters = system.parameters_with(weights, jumps)
        found.append((tuner._calculate_bleu(parameters, sources, targets), weights))
        return found[-1][0]

    with contextlib.suppress(_OutOfTimeError):
        NelderMeadSimplex(0.001, _EVALUATIONS, 1.0).find_minimum(evaluate, _FIRST[:7])
    return (*min(found), len(found))


def main(folder, output, seconds):
    folder, times = Path(folder), {}
    began = time.monotonic()

    def lap(name):
        nonlocal began
        times[name] = round(time.monotonic() - began, 1)
        began = time.monotonic()

    texts = {
        name: [line.split() for line in (folder / name).read_text("utf-8").splitlines()]
        for name in ("train.src", "valid.src", "valid.trg", "test.src")
    }
    corpus = TextFileTextCorpus(folder / "train.src").align_rows(
        TextFileTextCorpus(folder / "train.trg")
    )
    system = System(
        corpus.filter(trainers._is_segment_valid).tokenize(
            trainers.WHITESPACE_TOKENIZER, trainers.WHITESPACE_TOKENIZER
        )
    )
    system.count(len(texts["train.src"]))
    lap("training_seconds")
    system.tune_language_model(texts["valid.trg"])
    lap("language_model_seconds")
    tuned = {
        jumps: tune(
            system,
            texts["valid.src"][:_TUNED_LINES],
            texts["valid.trg"][:_TUNED_LINES],
            jumps,
            float(seconds),
        )
        for jumps in _JUMPS
    }
    lap("tuning_seconds")
    jumps = min(tuned, key=lambda each: tuned[each][0])
    _, weights, _ = tuned[jumps]
    parameters = system.parameters_with(weights, jumps)
    model = load_smt_model(_KIND, parameters)
    decoder = load_smt_decoder(model, parameters)
    sentences = [to_sentence(words) for words in texts["test.src"]]
    began = time.monotonic()
    found = decoder.translate_batch(sentences)
    lap("decoding_seconds")
    lines = [" ".join(to_target_tokens(one.target)) for one in found]
    Path(output).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    record = {
        **times,
        "sentences_per_second": round(len(lines) / times["decoding_seconds"], 1),
        "valid_bleu": {each: round(100 * (1 - one[0]), 2) for each, one in tuned.items()},
        "evaluations": {each: one[2] for each, one in tuned.items()},
        "jumps": jumps,
        "weights": [round(weight, 4) for weight in weights],
        "versions": {name: version(name) for name in ("sil-thot", "sil-machine")},
    }
    print(json.dumps(record))
    system.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
