"""Training of the IBM models and the HMM by expectation maximisation: a step is one iteration."""

import math

import numpy as np
import tensorflow as tf

from nmt_zoo import models
from nmt_zoo.common.cores import num_cores
from nmt_zoo.common.errors import UserError
from nmt_zoo.model_directory.directory import model_arrays
from nmt_zoo.models.fertility import FertilityModel
from nmt_zoo.training.validation.evaluation import perplexity
from nmt_zoo.training.ways.expectation_maximisation.agreement import agreeing_step
from nmt_zoo.training.ways.expectation_maximisation.collapsed import (
    Collapsed,
    agree,
    collapsed_step,
    expected_fertilities,
    expected_translation,
    first_collapsed,
    log_ratios,
)
from nmt_zoo.training.ways.expectation_maximisation.iteration import (
    POSITIONS,
    Estimate,
    em_step,
    first_estimate,
    spread_missing,
)
from nmt_zoo.training.ways.expectation_maximisation.position_estimates import Diagonal, Uniform
from nmt_zoo.training.ways.expectation_maximisation.reverse_direction import (
    open_reverse,
    reverse_directory,
)
from nmt_zoo.training.ways.gradient.losses import BATCH_SIGNATURE, negative_log_likelihood
from nmt_zoo.training.ways.update import Update

THREADS = min(num_cores(), 8)  # Limited, as each thread holds counts of all word pairs.


class EMUpdate(Update):
    """Expectation maximisation of an `AlignmentModel`; every iteration sets its parameters.

    The first iterations may use simpler models: Model 1 has a single optimum, so starting from its
    table makes a richer model less sensitive to initialisation.

    Args:
        model: `AlignmentModel`, prepared.
        words: `WordPairs` of the training corpus.
        alpha: as `training.ways.expectation_maximisation.iteration.em_step`.
        model1_steps: iterations of Model 1 before all others.
        model2_steps: iterations of Model 2 by distance from the diagonal, after those of Model 1.
        hmm_steps: iterations of a `FertilityModel` without fertilities, after those of Model 2.
        leave_one_out: whether iterations are those of `collapsed.collapsed_step`, as those of a
            `FertilityModel` must be.
    """

    name = "em"
    options = (
        *("model1_steps", "model2_steps", "hmm_steps", "alpha", "leave_one_out"),
        "reverse_model_dir",
    )
    # A step is an iteration over the whole corpus, and a handful is enough for any corpus.

    def __init__(
        self,
        model,
        words,
        *,
        alpha=0.0,
        model1_steps=0,
        model2_steps=0,
        hmm_steps=0,
        leave_one_out=False,
    ):
        self.model = model
        self.judged_by_perplexity = not isinstance(model, FertilityModel)  # It counts none.
        self.corpus = words
        self.num_tokens = words.num_tokens
        self.alpha = alpha
        self.model1_steps, self.model2_steps = model1_steps, model2_steps
        self.hmm_steps = hmm_steps
        self.size = model.settings["max_positions"]
        self.own = POSITIONS[model.settings["positions"]].first(**model.settings)
        self.iteration = tf.Variable(0, dtype=tf.int64)
        self.translation = tf.Variable(first_estimate(words).translation)
        self.diagonal = tf.Variable(Diagonal().pack())
        self.packed = tf.Variable(self.own.pack(words, self.size))
        self.posteriors = self.counted = None
        if leave_one_out:
            first = first_collapsed(words)
            self.posteriors = self.counted = tf.Variable(first.posteriors)

    @classmethod
    def check(cls, preset, options, given, undecided=()):
        """As `Update.check`."""
        has_fertilities = issubclass(models.model_class(preset), FertilityModel)
        if has_fertilities and not options["leave_one_out"]:
            raise UserError(f"--model={preset} needs --leave_one_out, which is its default")
        if has_fertilities and given.get("patience") and options["keep_best_by"] == "perplexity":
            raise UserError(
                f"--patience={options['patience']}: validation perplexity counts no fertilities, "
                f"so it cannot end --model={preset}; leave it out, or add --keep_best_by=bleu"
            )
        if options["hmm_steps"] and not has_fertilities:
            raise UserError(
                f"--hmm_steps={options['hmm_steps']}: --model={preset} has no fertilities before "
                "which to train; leave it out"
            )

    @classmethod
    def companion(cls, directory, config):
        """As `Update.companion`: the directory of the reverse model."""
        return reverse_directory(directory, config)

    @classmethod
    def make(cls, run, model):
        """As `Update.make`; trains both directions if the run has a companion directory."""
        names = ("alpha", "model1_steps", "model2_steps", "hmm_steps", "leave_one_out")
        options = {name: run.options[name] for name in names}
        if not run.companion:
            return cls(model, run.prepared.words, **options)
        both = open_reverse(run)
        return AgreementUpdate(model, *both, reverse_directory=run.companion, **options)

    @classmethod
    def closing_line(cls, run, step):
        """As `Update.closing_line`: advice if the model's own iterations never began."""
        names = ("model1_steps", "model2_steps", "hmm_steps")
        before = {name: run.options[name] for name in names if run.options[name]}
        if not before or step > sum(before.values()):
            return None
        flags = ", ".join(f"--{name}={count}" for name, count in before.items())
        return (
            f"the run ended at step {step:,}, within the iterations of simpler models ({flags}), "
            f"so nothing else of {run.config['model']} is trained yet; resume with more --max_steps"
        )

    def examples(self, first, batches):
        """As `Update.examples`: the whole corpus, once."""
        return [self.corpus][first:]

    def variables(self):
        """Returns name -> variable for everything that an iteration changes."""
        found = {
            **model_arrays(self.model),
            "em/iteration": self.iteration,
            "em/translation": self.translation,
            "em/diagonal": self.diagonal,
            "em/positions": self.packed,
        }
        if self.posteriors is not None:
            found["em/posteriors"] = self.posteriors
        if self.counted is not self.posteriors:
            found["em/counted"] = self.counted
        return found

    def stage(self, iteration):
        """Returns the name of an iteration's model, such as "Model 1"; iterations count from 0."""
        if iteration < self.model1_steps:
            return "Model 1"
        if iteration < self.model1_steps + self.model2_steps:
            return "Model 2"
        if self._is_fertile(iteration):
            return "HMM with fertilities"
        return f"positions: {self.model.settings['positions']}"

    def _is_fertile(self, iteration):
        """Returns whether an iteration is one with fertilities; iterations count from 0."""
        before = self.model1_steps + self.model2_steps + self.hmm_steps
        return isinstance(self.model, FertilityModel) and iteration >= before

    def step(self, words):
        """Makes one iteration.

        Args:
            words: the `WordPairs`.

        Returns:
            name -> `(sum, count)`: `loss` and `nll` over target tokens, and `log_likelihood`, all
            under the estimate before the iteration. NaN with fertilities, whose likelihood is known
            only up to a factor for each sentence.
        """
        if self.posteriors is not None:
            log_likelihood = self.take_collapsed(self.collapsed_step(words), words)
        else:
            before = self.estimate(words)
            estimate, log_likelihood = em_step(words, before, alpha=self.alpha, threads=THREADS)
            self.take(estimate, words)
        nll = -log_likelihood, self.num_tokens
        return {"loss": nll, "nll": nll, "log_likelihood": (log_likelihood, 1)}

    def estimate(self, words):
        """Returns the `Estimate` that the next iteration begins with, smoothed as the model is."""
        positions = self._current_positions()
        translation = self.translation.numpy()
        if self.alpha and int(self.iteration):
            sizes = self.model.target_vocab_size, self.model.table.smoothing
            translation = spread_missing(words, translation, *sizes)
        return Estimate(translation, positions)

    def collapsed_step(self, words):
        """Makes one step of `--leave_one_out`, which changes no variable; returns `Collapsed`."""
        positions = self._current_positions()
        state = Collapsed(self.posteriors.numpy(), self.counted.numpy(), positions)
        fertile = self._is_fertile(int(self.iteration))
        return collapsed_step(words, state, alpha=self.alpha, fertile=fertile, threads=THREADS)

    def take_collapsed(self, state, words):
        """Stores the `Collapsed` at the end of an iteration; returns its log-likelihood or NaN."""
        fertile = self._is_fertile(int(self.iteration))
        self.posteriors.assign(state.posteriors)
        self.counted.assign(state.counted)
        translation = expected_translation(words, state.counted, self.alpha, THREADS)
        self.take(Estimate(translation, state.positions), words)
        if isinstance(self.model, FertilityModel):
            self._take_fertilities(words, state.posteriors)
        return math.nan if fertile else state.log_likelihood

    def _take_fertilities(self, words, posteriors):
        """Stores in the model how probable the fertilities of all source words are."""
        ratios = log_ratios(expected_fertilities(words, posteriors, THREADS))[:-1].T
        known = words.source_words[words.first_pairs]
        table = np.repeat(ratios[-1:], self.model.source_vocab_size, axis=0)
        table[known] = ratios[:-1]
        self.model.log_ratios.assign(table)

    def take(self, estimate, words):
        """Stores the `Estimate` at the end of an iteration in the variables and the model."""
        _, variable = self._positions()
        self.iteration.assign_add(1)
        self.translation.assign(estimate.translation)
        self.model.table.set_probabilities(estimate.translation)
        if variable is not None:
            variable.assign(estimate.positions.pack(words, self.size))
        if variable is self.packed:
            self.model.positions.unpack(variable.numpy())

    def _positions(self):
        """Returns (position model of the next iteration, variable of its parameters or None)."""
        stages = {"Model 1": (Uniform(), None), "Model 2": (Diagonal(), self.diagonal)}
        return stages.get(self.stage(int(self.iteration)), (self.own, self.packed))

    def _current_positions(self):
        """Returns the parameters of the position model of the next iteration."""
        positions, variable = self._positions()
        return positions if variable is None else positions.unpack(variable.numpy())

    def progress_line(self, step, means):
        """As `Update.progress_line`: the model, and the likelihood before the iteration."""
        line = f"iteration {step} ({self.stage(step - 1)})"
        if math.isnan(means["nll"]):
            return line
        return (
            f"{line}: log-likelihood {means['log_likelihood']:,.1f}, "
            f"perplexity {perplexity(means['nll']):.3f}"
        )

    @tf.function(input_signature=[BATCH_SIGNATURE], autograph=False)
    def evaluate(self, batch):
        """Computes the likelihood of a batch: `nll` as in `step`."""
        return {"nll": negative_log_likelihood(self.model, batch)}


class AgreementUpdate(EMUpdate):
    """Training of two `AlignmentModel`s, one for each direction, with `agreement.agreeing_step`.

    Args:
        model: `AlignmentModel` from source to target, prepared.
        directions: `Directions` of the training corpus.
        reverse_model: `AlignmentModel` from target to source, prepared.
        reverse_directory: `ModelDirectory` of the reverse model, started; None: it is not saved.
        **options: as `EMUpdate`.
    """

    def __init__(self, model, directions, reverse_model, *, reverse_directory=None, **options):
        super().__init__(model, directions.forward, **options)
        self.corpus = directions
        self.reverse = EMUpdate(reverse_model, directions.reverse, **options)
        if self.posteriors is not None:
            for update in (self, self.reverse):  # Both directions count what they agree on.
                update.counted = tf.Variable(update.posteriors)
        self.reverse_directory = reverse_directory

    def variables(self):
        """Returns name -> variable for everything that an iteration changes, in both directions."""
        reverse = {f"reverse/{name}": v for name, v in self.reverse.variables().items()}
        return {**super().variables(), **reverse}

    def step(self, directions):
        """Makes one iteration.

        Args:
            directions: the `Directions`.

        Returns:
            As `EMUpdate.step` for the forward direction, and `reverse_log_likelihood`.
        """
        updates = self, self.reverse
        both = list(zip(updates, directions, strict=True))
        if self.posteriors is not None:
            states = [update.collapsed_step(words) for update, words in both]
            states = agree(directions, states, THREADS)
            log_likelihoods = [
                update.take_collapsed(state, words)
                for (update, words), state in zip(both, states, strict=True)
            ]
        else:
            log_likelihoods = self._agreeing_step(both, directions)
        forward, reverse = log_likelihoods
        nll = -forward, self.num_tokens
        return {
            "loss": nll,
            "nll": nll,
            "log_likelihood": (forward, 1),
            "reverse_log_likelihood": (reverse, 1),
        }

    def _agreeing_step(self, both, directions):
        """Makes one step of `agreeing_step`; returns the two log-likelihoods before it."""
        before = [update.estimate(words) for update, words in both]
        estimates, log_likelihoods = agreeing_step(
            directions, before, alpha=self.alpha, threads=THREADS
        )
        for (update, words), estimate in zip(both, estimates, strict=True):
            update.take(estimate, words)
        return log_likelihoods

    def companions(self):
        """As `Update.companions`: the reverse model."""
        return {self.reverse_directory: self.reverse.model} if self.reverse_directory else {}
