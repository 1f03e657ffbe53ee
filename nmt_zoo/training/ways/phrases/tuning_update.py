"""Training of models with a table of phrases or rules: counting it, then tuning the weights."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.parallel import map_in_order, num_cores
from nmt_zoo.common.progress import Progress
from nmt_zoo.data_pipeline.tokenization.vocabularies import EOS_ID, UNK_ID
from nmt_zoo.model_directory.directory import model_arrays
from nmt_zoo.training.ways.base import Names, Options, WayOfTraining
from nmt_zoo.training.ways.phrases import tuning

_MOST_STEPS = 100
_N_BEST = 40  # Translations of a line that a step adds to those of the steps before.
_AT_ONCE = 16  # Lines of a search.
_BEAM_SIZE = 50  # Half as many as usual; the best translations are found all the same.
_SPREAD = 1e4  # Larger sums of logarithms are cut in the printed perplexity.


class Tuning(WayOfTraining):
    """Tunes the weights of the features for BLEU.

    The first step leaves the weights as they are, so that they are validated, too. Every further
    step translates with the weights of the step before, adds the translations to those of earlier
    steps, and finds weights that rank all of them by BLEU, see `tuning`.

    Args:
        model: a `models.phrases.table_model.TableModel`, with its tables.
        tokenizer: its `Tokenizer`.
        source_lines, target_lines: the text to tune on. Pairs with an empty side are left out.
        seed: of the pairs that are drawn.
    """

    name = "tuning"
    has_plan = False
    judged_by_perplexity = False

    def __init__(
        self,
        model: keras.Model,
        tokenizer: Any,
        source_lines: list[str],
        target_lines: list[str],
        seed: int,
    ) -> None:
        self.model, self.tokenizer, self.seed = model, tokenizer, seed
        references = tokenizer.target_words(target_lines)
        pairs = zip(tokenizer.source.encode(source_lines), source_lines, references, strict=True)
        self.lines = [pair for pair in pairs if len(pair[0]) > 1 and pair[2].strip()]
        # The weights before each step; what was translated with them can be found again.
        self.history = tf.Variable(tf.zeros([_MOST_STEPS, len(model.features)], tf.float64))
        self.count = tf.Variable(0, dtype=tf.int64)
        self.candidates: list[dict] = [{} for _ in self.lines]
        self.num_rounds = 0  # Steps whose translations are in `candidates`.
        self.gain = ""

    @classmethod
    def check(cls, preset: str, options: Options, given: Options, undecided: Names = ()) -> None:
        if not 0 < options["max_steps"] <= _MOST_STEPS:
            raise UserError(
                f"--max_steps={options['max_steps']}: --update=tuning takes 1 to {_MOST_STEPS} "
                "steps, and rarely gains after 10"
            )

    @classmethod
    def of_run(cls, run: Any, model: keras.Model) -> "Tuning":
        lines = (side[: run.options["bleu_lines"]] for side in run.text.valid)
        return cls(model, run.tokenizer, *lines, run.options["seed"])

    @classmethod
    def describe(cls, run: Any) -> list[str]:
        sizes = len(run.tokenizer.source), len(run.tokenizer.target)
        num_lines = min(len(run.text.valid[0]), run.options["bleu_lines"])
        return [
            f"vocabularies ({run.tokenizer.kind}): {sizes[0]:,} and {sizes[1]:,} entries",
            f"feature weights are tuned on {num_lines:,} validation lines; the valid perplexity is "
            "that of the language model, which stays as it is",
        ]

    def step(self, _: Any) -> dict[str, tuple]:
        number = int(self.count)
        weights = np.asarray(self.model.feature_weights, np.float64)
        if number:
            self.history[number - 1].assign(weights)
            while self.num_rounds < number:
                self._translate(self.history[self.num_rounds].numpy(), self.num_rounds + 1)
            free = np.arange(weights.size - 1)  # All but that of unknown words.
            draw = np.random.default_rng([self.seed, number])
            candidates = tuning.joined([list(of_line.values()) for of_line in self.candidates])
            before = tuning.chosen_bleu(candidates, weights)
            weights = tuning.optimise(candidates, weights, free, draw)
            after = tuning.chosen_bleu(candidates, weights)
            count = int(candidates.sizes.sum())
            self.gain = (
                f"BLEU among {count:,} translations: {100 * before:.2f} to {100 * after:.2f}"
            )
            self.model.feature_weights.assign(weights)
        self.count.assign(number + 1)
        return {}

    def _translate(self, weights, number):
        """Adds the translations with some weights to those found so far."""
        self.model.feature_weights.assign(weights)
        decoder = self.model.decoder()
        # Long sentences first: those of a search are then equally long.
        rows = sorted(range(len(self.lines)), key=lambda row: -len(self.lines[row][0]))
        batches = [rows[first : first + _AT_ONCE] for first in range(0, len(rows), _AT_ONCE)]

        def search(batch):
            return decoder.search(
                [self.lines[row][0] for row in batch], n_best=_N_BEST, beam_size=_BEAM_SIZE
            )

        with Progress(f"translating, round {number}", len(rows), "lines") as progress:
            searched = map_in_order(search, batches, num_cores())
            for batch, results in zip(batches, searched, strict=True):
                for row, translations in zip(batch, results, strict=True):
                    self._add(row, translations)
                progress.update(len(batch))
        self.num_rounds = number

    def _add(self, row, translations):
        _, line, reference = self.lines[row]
        reference = tuning.ngram_counts(_words(reference, self.tokenizer.target))
        # By numbers of the target vocabulary, as copies of them in translations are compared.
        words_of_source = _words(line, self.tokenizer.target)
        for translation in translations:
            words = translation.words(words_of_source, UNK_ID)
            key = tuple(words), tuple(np.round(translation.features, 4))
            if key not in self.candidates[row]:
                counts = tuning.match_counts(words, reference)
                self.candidates[row][key] = translation.features, counts

    def variables(self) -> dict[str, Any]:
        return {
            **model_arrays(self.model),
            "tuning/history": self.history,
            "tuning/count": self.count,
        }

    def progress_line(self, step: int, means: dict[str, float]) -> str | None:
        return f"step {step:,}: {self.gain}" if self.gain else None

    def evaluate(self, batch: dict[str, tf.Tensor]) -> dict[str, tuple]:
        """As `WayOfTraining.evaluate`: the nll is that of the language model."""
        target_ids = batch["target_ids"]
        log_probs = self.model.language_model.score(target_ids, target_ids)
        mask = tf.cast(target_ids != self.model.pad_id, tf.float32)
        log_probs = tf.maximum(log_probs, -_SPREAD)
        return {"nll": (-tf.reduce_sum(log_probs * mask), tf.reduce_sum(mask))}


def _words(line, vocabulary):
    """Returns the words of a line: ids, or text if the vocabulary lacks a word."""
    (ids,) = vocabulary.encode([line])
    pairs = zip(ids, vocabulary.split(line) if UNK_ID in ids else ids, strict=False)
    return [text if i == UNK_ID else i for i, text in pairs if i != EOS_ID]
