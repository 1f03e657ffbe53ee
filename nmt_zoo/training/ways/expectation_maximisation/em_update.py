"""Training of the IBM models and the HMM by expectation maximisation: a step is one iteration."""

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from nmt_zoo import models
from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import same_paths
from nmt_zoo.model_directory.directory import ModelDirectory, model_arrays
from nmt_zoo.models.ibm import AlignmentModel
from nmt_zoo.training.validation.evaluation import perplexity
from nmt_zoo.training.ways.base import Names, Options, WayOfTraining
from nmt_zoo.training.ways.expectation_maximisation.chunks import ChunkedText
from nmt_zoo.training.ways.expectation_maximisation.engine import (
    FERTILITIES,
    MODEL_1,
    MODEL_2,
    EMEngine,
    LeaveOneOutEngine,
    Stage,
)
from nmt_zoo.training.ways.expectation_maximisation.iteration import POSITIONS

_STEPS = ("model1_steps", "model2_steps", "hmm_steps")
# Entries of config.json by which the reverse model of a run is recognised.
_SAME = ("model", "settings", "vocab_sizes", "training_text", "validation_text")


class ExpectationMaximisation(WayOfTraining):
    """Expectation maximisation of an `AlignmentModel`; every iteration sets its parameters.

    With a model of the reverse direction, both learn to agree. Checkpoints, metrics and validation
    are those of the forward direction.

    Args:
        alignment_models: the prepared model, and that of the reverse direction.
        text: the training corpus in the direction of each model.
        reverse_directory: where the reverse model is saved, if it is.
        alpha: as in `iteration.maximise_translation`.
        model1_steps: iterations of Model 1 before all others.
        model2_steps: then of Model 2 by distance from the diagonal.
        hmm_steps: then, for a model with fertilities, of the HMM without fertilities.
        leave_one_out: whether iterations are those of `LeaveOneOutEngine`, as those of a model with
            fertilities must be.
    """

    name = "em"
    options = (*_STEPS, "alpha", "leave_one_out", "reverse_model_dir")

    def __init__(
        self,
        alignment_models: Sequence[AlignmentModel],
        text: ChunkedText,
        *,
        reverse_directory: ModelDirectory | None = None,
        alpha: float = 0.0,
        model1_steps: int = 0,
        model2_steps: int = 0,
        hmm_steps: int = 0,
        leave_one_out: bool = False,
    ):
        self.models, self.model = alignment_models, alignment_models[0]
        self.reverse_directory = reverse_directory
        self.judged_by_perplexity = not self.model.has_fertilities  # It counts none.
        self.num_tokens = text.directions[0].num_tokens
        settings = self.model.settings
        own = POSITIONS[settings["positions"]].first(
            sizes=np.minimum(text.longest[::-1], settings["max_positions"]), **settings
        )
        self._num_positions = max(own.pack().size, MODEL_2.positions.pack().size)
        stage = Stage(f"positions: {settings['positions']}", own)
        self.last = stage
        if self.model.has_fertilities:
            self.last = FERTILITIES._replace(positions=None if hmm_steps else own)
        self.chain = [(MODEL_1, model1_steps), (MODEL_2, model2_steps), (stage, hmm_steps)]
        self._stage = None
        if leave_one_out:
            self.engine: Any = LeaveOneOutEngine(text, alpha, dtype=np.float64)
        else:
            sizes = [model.target_vocab_size for model in alignment_models]
            smoothing = self.model.table.smoothing
            self.engine = EMEngine(text, alpha, smoothing, vocab_sizes=sizes, dtype=np.float64)

    @classmethod
    def check(cls, preset: str, options: Options, given: Options, undecided: Names = ()) -> None:
        has_fertilities = models.model_class(preset).has_fertilities
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
        path = config["options"]["reverse_model_dir"]
        if not path:
            return None
        if os.path.realpath(path) == os.path.realpath(directory.path):
            raise UserError(f"--reverse_model_dir={path} is the same as --model_dir; give another")
        reverse = ModelDirectory(path)
        if reverse.exists():
            _check_reverse(reverse, directory)
        else:
            reverse.check_free()
        return reverse

    @classmethod
    def of_run(cls, run: Any, model: keras.Model) -> "ExpectationMaximisation":
        options = {name: run.options[name] for name in (*_STEPS, "alpha", "leave_one_out")}
        twins, reverse, tokenizer = [model], run.companion, run.tokenizer
        if reverse:
            if not reverse.exists():
                exchanged = tokenizer._replace(source=tokenizer.target, target=tokenizer.source)
                reverse.start(_reverse_config(run.directory), exchanged)
            reverse.remove_unfinished()
            twins.append(reverse.new_model())
            run.prepared.fill_reverse(twins[1])
        return cls(twins, run.prepared.text, reverse_directory=reverse, **options)

    @classmethod
    def closing_line(cls, run: Any, step: int) -> str | None:
        before = {name: run.options[name] for name in _STEPS if run.options[name]}
        if not before or step > sum(before.values()):
            return None
        flags = ", ".join(f"--{name}={count}" for name, count in before.items())
        return (
            f"the run ended at step {step:,}, within the iterations of simpler models ({flags}), "
            f"so nothing else of {run.config['model']} is trained yet; resume with more --max_steps"
        )

    def variables(self) -> dict[str, Any]:
        engine = self.engine
        arrays = {"em/iteration": EngineArray((), np.int64, lambda: engine.iteration, self._resume)}
        for side, (prefix, model) in enumerate(zip(("", "reverse/"), self.models, strict=False)):
            own = {**model_arrays(model), **self._engine_arrays(side)}
            arrays |= {prefix + name: variable for name, variable in own.items()}
        return arrays

    def _engine_arrays(self, side):
        """Returns name -> `EngineArray` of the state of one direction."""
        engine, direction = self.engine, self.engine.text.directions[side]

        def set_table(values):
            engine.set_tables([*engine.tables[:side], values, *engine.tables[side + 1 :]])

        def positions():
            packed = engine.positions[side].pack()
            return np.pad(packed, (0, self._num_positions - packed.size))

        def set_positions(values):
            engine.positions[side] = engine.positions[side].unpack(values)

        num_pairs = (direction.rows.num_pairs,)
        arrays = {
            "em/table": EngineArray(num_pairs, np.float64, lambda: engine.tables[side], set_table),
            "em/positions": EngineArray(
                (self._num_positions,), np.float64, positions, set_positions
            ),
        }
        for name in engine.link_kinds:
            arrays[f"em/{name}"] = EngineArray(
                (direction.num_cells,),
                np.float32,
                lambda name=name: engine.links(side, name),
                lambda values, name=name: engine.set_links(side, name, values),
            )
        return arrays

    def _resume(self, iteration):
        """Enters the stage after some iterations, before the other variables are assigned."""
        self.engine.iteration, self._stage = int(iteration), None
        for number in range(int(iteration)):
            self._enter(number)

    def stage(self, iteration: int) -> Stage:
        """Returns the `Stage` of an iteration, counted from 0."""
        for stage, count in self.chain:
            if iteration < count:
                return stage
            iteration -= count
        return self.last

    def _enter(self, iteration):
        stage = self.stage(iteration)
        if stage is not self._stage:
            self._stage = stage
            self.engine.begin(stage)

    def step(self, _: Any) -> dict[str, tuple]:
        """Makes one iteration; returns name -> `(sum, count)`.

        The values are `loss` and `nll` over target tokens, and `log_likelihood`, all under the
        parameters before the iteration, and `reverse_log_likelihood` with a reverse model. They are
        NaN with fertilities, whose likelihood is known only up to a factor for each sentence.
        """
        self._enter(self.engine.iteration)
        log_likelihoods = self.engine.step()
        self._fill_models()
        if self._stage.fertile:
            log_likelihoods = [math.nan for _ in log_likelihoods]
        nll = -log_likelihoods[0], self.num_tokens
        names = "log_likelihood", "reverse_log_likelihood"
        sums = zip(names, log_likelihoods, strict=False)
        return {"loss": nll, "nll": nll, **{name: (value, 1) for name, value in sums}}

    def _fill_models(self):
        ratios = self.engine.log_ratios() if self.model.has_fertilities else None
        for side, model in enumerate(self.models):
            model.table.set_probabilities(self.engine.translation(side))
            if self._stage.name not in (MODEL_1.name, MODEL_2.name):
                model.positions.set_parameters(*self.engine.positions[side].arrays())
            if ratios:
                rows = ratios[side][:-1].T  # The last row is for source words that do not occur.
                table = np.repeat(rows[-1:], model.source_vocab_size, axis=0)
                table[: len(rows) - 1] = rows[:-1]
                model.log_ratios.assign(table)

    def progress_line(self, step: int, means: dict[str, float]) -> str:
        line = f"iteration {step} ({self.stage(step - 1).name})"
        if math.isnan(means["nll"]):
            return line
        return (
            f"{line}: log-likelihood {means['log_likelihood']:,.1f}, "
            f"perplexity {perplexity(means['nll']):.3f}"
        )

    def companions(self) -> dict[ModelDirectory, keras.Model]:
        return {self.reverse_directory: self.models[1]} if self.reverse_directory else {}


def _check_reverse(reverse, directory):
    """Raises `UserError` if a directory does not hold the reverse model of the run in another."""
    remedy = "give another --reverse_model_dir"
    config = reverse.config()
    is_reverse = same_paths(config.get("reverse_of", ""), str(directory.path))
    # The run's own directory is always started first.
    if is_reverse and not directory.exists():
        raise UserError(
            f"{reverse.path}: holds the reverse model of an earlier run in {directory.path}, which "
            f"is gone; {remedy}, or remove this one"
        )
    expected = _reverse_config(directory) if is_reverse else {}
    if not is_reverse or any(config.get(name) != expected.get(name) for name in _SAME):
        raise UserError(
            f"{reverse.path}: holds a model that is not the reverse of {directory.path} on its "
            f"text and with its settings; {remedy}"
        )


def _reverse_config(directory):
    """Returns the reverse model's configuration, with the same number of word pairs."""
    config = directory.config()
    options = {**config["options"], "reverse_model_dir": ""}
    sizes = {"vocab_sizes": config["vocab_sizes"][::-1], "reverse_of": str(directory.path)}
    return {**config, "options": options, **sizes}


@dataclass
class EngineArray:
    """An array of an engine, like a variable that checkpoints save and restore."""

    shape: tuple[int, ...]
    dtype: type
    read: Callable[[], Any]
    assign: Callable[[Any], None]

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self.read(), dtype or self.dtype)
