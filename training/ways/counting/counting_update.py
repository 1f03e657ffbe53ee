"""Training of an n-gram language model: its text is counted before the single step."""

import tensorflow as tf

from nmt_zoo.common.errors import UserError
from nmt_zoo.configuration.options import VOCABULARY
from nmt_zoo.training.ways.gradient.losses import BATCH_SIGNATURE, negative_log_likelihood
from nmt_zoo.training.ways.update import Update, WayOfTraining


class Counting(WayOfTraining):
    """Training of an n-gram language model, whose text is counted before the single step."""

    name = "counting"
    has_plan = False

    @classmethod
    def check(cls, preset, options, given, undecided=()):
        useless = [f"--{name}" for name in given if name not in VOCABULARY]
        if useless:
            raise UserError(
                f"{preset} is counted, not trained in steps, and does not use "
                f"{', '.join(useless)}; the training options that it uses: "
                + ", ".join(f"--{name}" for name in VOCABULARY)
            )

    @classmethod
    def recorded(cls, options):
        return {name: options[name] for name in VOCABULARY}

    @classmethod
    def is_complete(cls, directory):
        """As `WayOfTraining.is_complete`: true once best.npz exists."""
        return directory.best_state() is not None

    @classmethod
    def make(cls, run, model):
        return CountingUpdate(model)

    @classmethod
    def describe(cls, run):
        kind, size = run.tokenizer.kind, len(run.tokenizer.target)
        return [f"vocabulary ({kind}): {size:,} entries"]


class CountingUpdate(Update):
    """Leaves a model unchanged, since `training.corpus.preparation.NgramTable` has filled it.

    Args:
        model: `NgramLanguageModel`, prepared.
    """

    def __init__(self, model):
        self.model = model

    def examples(self, first, batches):
        """As `Update.examples`: one placeholder an epoch, since the step needs no example."""
        return [None][first:]

    def step(self, _):
        """As `Update.step`: there is nothing left to learn."""
        return {}

    def variables(self):
        """As `Update.variables`: none, because a resumed run counts again."""
        return {}

    @tf.function(input_signature=[BATCH_SIGNATURE], autograph=False)
    def evaluate(self, batch):
        return {"nll": negative_log_likelihood(self.model, batch)}
