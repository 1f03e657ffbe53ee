"""Training of the IBM models and the HMM by expectation maximisation: a step is one iteration."""

import os

import numpy as np
import tensorflow as tf

import models
from model_directory.directory import model_arrays
from models.ibm import AlignmentModel
from training.evaluation import perplexity
from training.expectation_maximisation.iteration import Estimate, em_step, first_estimate
from training.expectation_maximisation.packed_positions import assign, first, pack, unpack
from training.expectation_maximisation.position_estimates import Diagonal, Uniform
from training.loop import Trainer
from training.updates.gradient import BATCH_SIGNATURE, Update, negative_log_likelihood

THREADS = min(os.cpu_count() or 1, 8)  # Each has counts of its own of all word pairs.


def is_table(preset):
    """Whether the model of a preset has a table of the word pairs of its corpus."""
    return issubclass(models.PRESETS[preset][0], AlignmentModel)


def prepare(model, corpus, words):
    """Gives a fresh model what it must know of its corpus before it is trained in any way.

    Args:
        model: `TranslationModel`; an `AlignmentModel` has as many word pairs as `words`.
        corpus: `EncodedCorpus`.
        words: its `WordPairs`, or None for a model without a table.
    """
    if words:
        model.table.set_word_pairs(words.source_words, words.target_words)
    if model.tracks_coverage:
        model.length.parameters.assign(length_model(corpus))


def length_model(corpus):
    """The regression of target lengths on source lengths, in tokens with `</s>`.

    Returns:
        (intercept, slope, variance for each source token), floats.
    """
    source, target = (side.lengths.astype(np.float64) for side in corpus)
    spread = source.var()
    covariance = ((source - source.mean()) * (target - target.mean())).mean()
    # Where all sources are of one length, any line through the means does.
    slope = covariance / spread if spread else target.mean() / source.mean()
    intercept = target.mean() - slope * source.mean()
    variance = ((target - intercept - slope * source) ** 2 / source).mean()
    return intercept, slope, max(variance, 0.01)


class EMUpdate(Update):
    """Expectation maximisation of an `AlignmentModel`, which is given every new estimate.

    The first iterations may be those of simpler models: what their likelihood finds does not depend
    on where it began (Model 1), or less, and their tables are what the better model begins with.

    Args:
        model: `AlignmentModel`, prepared.
        words: `WordPairs` of the training corpus.
        alpha: as `training.expectation_maximisation.iteration.em_step`.
        model1_steps: iterations of Model 1 before all others.
        model2_steps: iterations of Model 2, on the diagonal, after those.
    """

    def __init__(self, model, words, *, alpha=0.0, model1_steps=0, model2_steps=0):
        self.model = model
        self.num_tokens = words.num_tokens
        self.alpha = alpha
        self.model1_steps, self.model2_steps = model1_steps, model2_steps
        self.size = model.settings["max_positions"]
        self.own = first(**model.settings)
        self.iteration = tf.Variable(0, dtype=tf.int64)
        self.translation = tf.Variable(first_estimate(words).translation)
        self.diagonal = tf.Variable(pack(Diagonal()))
        self.packed = tf.Variable(pack(self.own, words, self.size))

    def variables(self):
        """name -> variable of all that an iteration changes."""
        return {
            **model_arrays(self.model),
            "em/iteration": self.iteration,
            "em/translation": self.translation,
            "em/diagonal": self.diagonal,
            "em/positions": self.packed,
        }

    def stage(self, iteration):
        """The model of an iteration, counted from 0: "Model 1", "Model 2" or "positions: ..."."""
        if iteration < self.model1_steps:
            return "Model 1"
        if iteration < self.model1_steps + self.model2_steps:
            return "Model 2"
        return f"positions: {self.model.settings['positions']}"

    def step(self, words):
        """Makes one iteration.

        Args:
            words: the `WordPairs`.

        Returns:
            name -> `(sum, count)`: `loss` and `nll` over target tokens and `log_likelihood`, all
            under the estimate before the iteration.
        """
        before = self.estimate(words)
        estimate, log_likelihood = em_step(words, before, alpha=self.alpha, threads=THREADS)
        self.take(estimate, words)
        nll = -log_likelihood, self.num_tokens
        return {"loss": nll, "nll": nll, "log_likelihood": (log_likelihood, 1)}

    def estimate(self, words):
        """The `Estimate` that the next iteration begins with.

        With a sparse prior it is the model's, which spreads what the prior has taken from a word.
        Without that, half of a rare word's probability would be nowhere, and other words, or NULL,
        explain what it translates.
        """
        positions, variable = self._positions()
        if variable is not None:
            positions = unpack(positions, variable.numpy())
        translation = self.translation.numpy()
        if self.alpha and int(self.iteration):
            kept = 1 - self.model.table.smoothing
            spread = 1 - kept * words.spread(words.source_sums(translation))
            translation = kept * translation + spread / self.model.target_vocab_size
        return Estimate(translation, positions)

    def take(self, estimate, words):
        """Gives variables and model the `Estimate` that an iteration ends with."""
        _, variable = self._positions()
        self.iteration.assign_add(1)
        self.translation.assign(estimate.translation)
        self.model.table.set_probabilities(estimate.translation)
        if variable is not None:
            variable.assign(pack(estimate.positions, words, self.size))
        if variable is self.packed:
            assign(self.model.positions, variable.numpy())

    def _positions(self):
        """(position model of the next iteration, variable of its parameters or None)."""
        stages = {"Model 1": (Uniform(), None), "Model 2": (Diagonal(), self.diagonal)}
        return stages.get(self.stage(int(self.iteration)), (self.own, self.packed))

    @tf.function(input_signature=[BATCH_SIGNATURE], autograph=False)
    def evaluate(self, batch):
        """The likelihood of a batch: `nll` as in `step`."""
        return {"nll": negative_log_likelihood(self.model, batch)}


class EMTrainer(Trainer):
    """The loop of all models, whose batch is here the `WordPairs` of the whole corpus."""

    def _batches(self):
        return [self.corpus][self.state["batch"] :]

    def _log(self):
        nll, tokens = self.sums["nll"]
        log_likelihood, count = self.sums["log_likelihood"]
        super()._log()
        step = self.state["step"]
        self.progress.say(
            f"iteration {step} ({self.update.stage(step - 1)}): log-likelihood "
            f"{log_likelihood / count:,.1f}, perplexity {perplexity(nll / tokens):.3f}"
        )
