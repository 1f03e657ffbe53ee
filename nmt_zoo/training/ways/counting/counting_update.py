"""Training of an n-gram language model: its text is counted before the single step."""

from typing import Any

import keras

from nmt_zoo.common.errors import UserError
from nmt_zoo.configuration.options import VOCABULARY
from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.training.ways.base import Names, Options, WayOfTraining


class Counting(WayOfTraining):
    """Leaves a model unchanged, since `training.ways.preparation.NgramTable` has filled it."""

    name = "counting"
    has_plan = False

    def __init__(self, model: keras.Model):
        self.model = model

    @classmethod
    def check(cls, preset: str, options: Options, given: Options, undecided: Names = ()) -> None:
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
    def of_run(cls, run: Any, model: keras.Model) -> "Counting":
        return cls(model)

    @classmethod
    def describe(cls, run: Any) -> list[str]:
        kind, size = run.tokenizer.kind, len(run.tokenizer.target)
        return [f"vocabulary ({kind}): {size:,} entries"]

    def step(self, _: Any) -> dict[str, tuple]:
        """As `WayOfTraining.step`: there is nothing left to learn."""
        return {}

    def variables(self) -> dict[str, Any]:
        """As `WayOfTraining.variables`: none, because a resumed run counts again."""
        return {}
