"""Training of an n-gram language model: its text is counted before the single step."""

from collections.abc import Callable, Iterable
from typing import Any

import keras
import tensorflow as tf

from nmt_zoo.common.errors import UserError
from nmt_zoo.configuration.options import VOCABULARY
from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.training.ways.gradient.losses import BATCH_SIGNATURE, negative_log_likelihood
from nmt_zoo.training.ways.update import Options, Update, WayOfTraining


class Counting(WayOfTraining):
    """Training of an n-gram language model, whose text is counted before the single step."""

    name = "counting"
    has_plan = False

    @classmethod
    def check(
        cls, preset: str, options: Options, given: Options, undecided: Iterable[str] = ()
    ) -> None:
        useless = [f"--{name}" for name in given if name not in VOCABULARY]
        if useless:
            raise UserError(
                f"{preset} is counted, not trained in steps, and does not use "
                f"{', '.join(useless)}; the training options that it uses: "
                + ", ".join(f"--{name}" for name in VOCABULARY)
            )

    @classmethod
    def recorded(cls, options: Options) -> Options:
        return {name: options[name] for name in VOCABULARY}

    @classmethod
    def is_complete(cls, directory: ModelDirectory) -> bool:
        return directory.best_state() is not None

    @classmethod
    def make(cls, run: Any, model: keras.Model) -> "CountingUpdate":
        return CountingUpdate(model)

    @classmethod
    def describe(cls, run: Any) -> list[str]:
        kind, size = run.tokenizer.kind, len(run.tokenizer.target)
        return [f"vocabulary ({kind}): {size:,} entries"]


class CountingUpdate(Update):
    """Leaves a model unchanged, since `training.ways.preparation.NgramTable` has filled it."""

    def __init__(self, model: keras.Model):
        self.model = model

    def examples(self, first: int, batches: Callable[[int], Iterable]) -> list:
        """As `Update.examples`: one placeholder an epoch, since the step needs no example."""
        return [None][first:]

    def step(self, _: Any) -> dict[str, tuple]:
        """As `Update.step`: there is nothing left to learn."""
        return {}

    def variables(self) -> dict[str, Any]:
        """As `Update.variables`: none, because a resumed run counts again."""
        return {}

    @tf.function(input_signature=[BATCH_SIGNATURE], autograph=False)
    def evaluate(self, batch: dict[str, tf.Tensor]) -> dict[str, tuple]:
        return {"nll": negative_log_likelihood(self.model, batch)}
