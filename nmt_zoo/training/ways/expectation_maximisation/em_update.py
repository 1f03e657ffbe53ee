"""Training of the IBM models and the HMM by expectation maximisation: a step is one iteration."""

import math
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from nmt_zoo import models
from nmt_zoo.common.cores import num_cores
from nmt_zoo.common.errors import UserError
from nmt_zoo.model_directory.directory import ModelDirectory, model_arrays
from nmt_zoo.models.fertility import FertilityModel
from nmt_zoo.models.ibm import AlignmentModel
from nmt_zoo.training.validation.evaluation import perplexity
from nmt_zoo.training.ways.base import Options, WayOfTraining
from nmt_zoo.training.ways.expectation_maximisation.agreement import Directions, em_steps
from nmt_zoo.training.ways.expectation_maximisation.chain import (
    FERTILITIES,
    MODEL_1,
    MODEL_2,
    Stage,
)
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
    first_estimate,
    spread_missing,
)
from nmt_zoo.training.ways.expectation_maximisation.position_estimates import DiagonalEstimate
from nmt_zoo.training.ways.expectation_maximisation.reverse_direction import (
    open_reverse,
    reverse_directory,
)
from nmt_zoo.training.ways.expectation_maximisation.word_pairs import WordPairs
from nmt_zoo.training.ways.gradient.losses import BATCH_SIGNATURE, negative_log_likelihood

THREADS = min(num_cores(), 8)  # Limited, as each thread holds counts of all word pairs.


@dataclass(eq=False)
class ExpectationMaximisation(WayOfTraining):
    """Expectation maximisation of an `AlignmentModel`; every iteration sets its parameters.

    The first iterations may use simpler models, see `chain`.
    """

    name = "em"
    options = (
        *("model1_steps", "model2_steps", "hmm_steps", "alpha", "leave_one_out"),
        "reverse_model_dir",
    )

    model: AlignmentModel  # Prepared.
    words: WordPairs  # Of the training corpus.
    _: KW_ONLY
    alpha: float = 0.0  # As in `iteration.maximise_translation`.
    model1_steps: int = 0  # Iterations of Model 1 before all others.
    model2_steps: int = 0  # Then of Model 2 by distance from the diagonal.
    hmm_steps: int = 0  # Then, for a `FertilityModel`, of the HMM without fertilities.
    # Whether iterations are those of `collapsed_step`, as those of a `FertilityModel` must be.
    leave_one_out: bool = False

    @classmethod
    def check(
        cls, preset: str, options: Options, given: Options, undecided: Iterable[str] = ()
    ) -> None:
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
    def companion(cls, directory: ModelDirectory, config: dict[str, Any]) -> ModelDirectory | None:
        return reverse_directory(directory, config)

    @classmethod
    def of_run(cls, run: Any, model: keras.Model) -> "ExpectationMaximisation":
        names = ("alpha", "model1_steps", "model2_steps", "hmm_steps", "leave_one_out")
        options = {name: run.options[name] for name in names}
        if not run.companion:
            return cls(model, run.prepared.words, **options)
        both = open_reverse(run)
        return Agreement(model, *both, reverse_directory=run.companion, **options)

    @classmethod
    def closing_line(cls, run: Any, step: int) -> str | None:
        names = ("model1_steps", "model2_steps", "hmm_steps")
        before = {name: run.options[name] for name in names if run.options[name]}
        if not before or step > sum(before.values()):
            return None
        flags = ", ".join(f"--{name}={count}" for name, count in before.items())
        return (
            f"the run ended at step {step:,}, within the iterations of simpler models ({flags}), "
            f"so nothing else of {run.config['model']} is trained yet; resume with more --max_steps"
        )

    def __post_init__(self):
        model, words = self.model, self.words
        self.judged_by_perplexity = not isinstance(model, FertilityModel)  # It counts none.
        self.corpus = words
        self.num_tokens = words.num_tokens
        self.size = model.settings["max_positions"]
        kind = model.settings["positions"]
        self.own = POSITIONS[kind].first(**model.settings)
        own = Stage(f"positions: {kind}", self.own)
        fertile = FERTILITIES._replace(positions=self.own)
        self.last = fertile if isinstance(model, FertilityModel) else own
        steps = self.model1_steps, self.model2_steps, self.hmm_steps
        self.chain = list(zip((MODEL_1, MODEL_2, own), steps, strict=True))
        self.iteration = tf.Variable(0, dtype=tf.int64)
        self.translation = tf.Variable(first_estimate(words).translation)
        self.diagonal = tf.Variable(DiagonalEstimate().pack())
        self.packed = tf.Variable(self.own.pack(words, self.size))
        self.posteriors = self.counted = None
        if self.leave_one_out:
            first = first_collapsed(words)
            self.posteriors = self.counted = tf.Variable(first.posteriors)

    def examples(self, first: int, batches: Callable[[int], Iterable]) -> list:
        return [self.corpus][first:]

    def variables(self) -> dict[str, Any]:
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

    def stage(self, iteration: int) -> Stage:
        """Returns the `Stage` of an iteration, counted from 0."""
        for stage, count in self.chain:
            if iteration < count:
                return stage
            iteration -= count
        return self.last

    def step(self, words: WordPairs) -> dict[str, tuple]:
        """Makes one iteration; returns name -> `(sum, count)`.

        The values are `loss` and `nll` over target tokens, and `log_likelihood`, all under the
        estimate before the iteration. They are NaN with fertilities, whose likelihood is known only
        up to a factor for each sentence.
        """
        return self._means(*self._iterate([self], [words]))

    def _iterate(self, updates, directions):
        """Makes one iteration; returns the log-likelihood of each direction before it."""
        both = list(zip(updates, directions, strict=True))
        if self.posteriors is not None:
            states = [update.collapsed_step(words) for update, words in both]
            states = agree(directions, states, threads=THREADS)
            takes = zip(both, states, strict=True)
            return [update.take_collapsed(state, words) for (update, words), state in takes]
        before = [update.estimate(words) for update, words in both]
        after, log_likelihoods = em_steps(directions, before, alpha=self.alpha, threads=THREADS)
        for (update, words), estimate in zip(both, after, strict=True):
            update.take(estimate, words)
        return log_likelihoods

    def _means(self, log_likelihood):
        nll = -log_likelihood, self.num_tokens
        return {"loss": nll, "nll": nll, "log_likelihood": (log_likelihood, 1)}

    def estimate(self, words: WordPairs) -> Estimate:
        """Returns the `Estimate` that the next iteration begins with, smoothed as the model is."""
        positions = self._current_positions()
        translation = self.translation.numpy()
        if self.alpha and int(self.iteration):
            sizes = self.model.target_vocab_size, self.model.table.smoothing
            translation = spread_missing(words, translation, *sizes)
        return Estimate(translation, positions)

    def collapsed_step(self, words: WordPairs) -> Collapsed:
        """Makes one step of `--leave_one_out`, which changes no variable."""
        positions = self._current_positions()
        state = Collapsed(self.posteriors.numpy(), self.counted.numpy(), positions)
        fertile = self._next_stage().fertile
        return collapsed_step(words, state, alpha=self.alpha, fertile=fertile, threads=THREADS)

    def take_collapsed(self, state: Collapsed, words: WordPairs) -> float:
        """Stores the `Collapsed` at the end of an iteration; returns its log-likelihood or NaN."""
        fertile = self._next_stage().fertile
        self.posteriors.assign(state.posteriors)
        self.counted.assign(state.counted)
        translation = expected_translation(words, state.counted, self.alpha, threads=THREADS)
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

    def take(self, estimate: Estimate, words: WordPairs) -> None:
        """Stores the `Estimate` at the end of an iteration in the variables and the model."""
        variable = self._variable()
        self.iteration.assign_add(1)
        self.translation.assign(estimate.translation)
        self.model.table.set_probabilities(estimate.translation)
        if variable is not None:
            variable.assign(estimate.positions.pack(words, self.size))
        if variable is self.packed:
            self.model.positions.unpack(variable.numpy())

    def _next_stage(self):
        return self.stage(int(self.iteration))

    def _variable(self):
        """Returns the variable of the next position model's parameters, or None without any."""
        variables = {MODEL_1.name: None, MODEL_2.name: self.diagonal}
        return variables.get(self._next_stage().name, self.packed)

    def _current_positions(self):
        positions, variable = self._next_stage().positions, self._variable()
        return positions if variable is None else positions.unpack(variable.numpy())

    def progress_line(self, step: int, means: dict[str, float]) -> str:
        line = f"iteration {step} ({self.stage(step - 1).name})"
        if math.isnan(means["nll"]):
            return line
        return (
            f"{line}: log-likelihood {means['log_likelihood']:,.1f}, "
            f"perplexity {perplexity(means['nll']):.3f}"
        )

    @tf.function(input_signature=[BATCH_SIGNATURE], autograph=False)
    def evaluate(self, batch: dict[str, tf.Tensor]) -> dict[str, tuple]:
        return {"nll": negative_log_likelihood(self.model, batch)}


class Agreement(ExpectationMaximisation):
    """Training of two prepared `AlignmentModel`s, one for each direction, to agree.

    Without a `reverse_directory`, the reverse model is not saved. `options` are those of
    `ExpectationMaximisation`.
    """

    def __init__(
        self,
        model: keras.Model,
        directions: Directions,
        reverse_model: keras.Model,
        *,
        reverse_directory: ModelDirectory | None = None,
        **options: Any,
    ):
        super().__init__(model, directions.forward, **options)
        self.corpus = directions
        self.reverse = ExpectationMaximisation(reverse_model, directions.reverse, **options)
        if self.posteriors is not None:
            for update in (self, self.reverse):  # Both directions count what they agree on.
                update.counted = tf.Variable(update.posteriors)
        self.reverse_directory = reverse_directory

    def variables(self) -> dict[str, Any]:
        reverse = {f"reverse/{name}": v for name, v in self.reverse.variables().items()}
        return {**super().variables(), **reverse}

    def step(self, directions: Directions) -> dict[str, tuple]:
        """Makes one iteration; returns the forward direction's values, and the reverse one's."""
        forward, reverse = self._iterate([self, self.reverse], directions)
        return {**self._means(forward), "reverse_log_likelihood": (reverse, 1)}

    def companions(self) -> dict[ModelDirectory, keras.Model]:
        return {self.reverse_directory: self.reverse.model} if self.reverse_directory else {}
