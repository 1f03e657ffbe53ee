"""A trained model, or an ensemble, as the teacher of a new one: word-level distillation."""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from nmt_zoo.common.errors import UserError
from nmt_zoo.configuration.options import VOCABULARY
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.model_directory.combined_models import check_same_tokenizer, load_models, require_steps
from nmt_zoo.model_directory.directory import model_directories
from nmt_zoo.training import fine_tuning
from nmt_zoo.training.ways.gradient.losses import logits_of


class Taught(NamedTuple):
    """A teacher's predictions of the tokens of a batch."""

    weight: float  # share of the loss that compares with these predictions, from 0 to 1
    outputs: tf.Tensor  # [B, T, D], from which log-probabilities follow token by token
    log_probs: Callable  # of outputs [..., D]; returns log-probabilities [..., V] float32


class Teacher:
    """A trained model from which another one learns; it is never changed.

    It has the vocabularies of the model in training; `weight` is as `Taught`.
    """

    def __init__(self, model: keras.Model, weight: float):
        self.model = model
        self.weight = weight

    def predict(self, inputs: dict[str, tf.Tensor]) -> Taught:
        """Predicts all tokens of a batch, without dropout.

        `inputs` are `{"source_ids": [B, S], "target_in_ids": [B, T]}` int32.
        """
        if self.model.predicts != "features":
            logits = self.model(inputs, training=False)
            return Taught(self.weight, tf.stop_gradient(logits), tf.nn.log_softmax)
        features = tf.stop_gradient(self.model.features(inputs, training=False))
        # Read here, because a function with a gradient of its own must not read variables.
        weights = [tf.convert_to_tensor(x) for x in self.model.output_weights() if x is not None]
        return Taught(self.weight, features, lambda x: tf.nn.log_softmax(logits_of(x, *weights)))


def make_teacher(options: dict[str, Any]) -> Teacher | None:
    """Loads the `Teacher` of training options; None if there is none or its weight is 0."""
    if not (options["teacher"] and options["teacher_weight"]):
        return None
    model, *_ = load_models(model_directories(options["teacher"]))
    require_steps(model, f"--teacher={options['teacher']} cannot be learned from")
    return Teacher(model, options["teacher_weight"])


def vocabulary_options(teacher: str, user_options: dict[str, Any]) -> dict[str, Any]:
    """Returns the options of the vocabulary that a run takes from its teacher.

    `teacher` has directories of models, separated by commas; the user gave `user_options`.

    Raises:
        UserError: there is no such directory, or the user asks for another vocabulary.
    """
    config = model_directories(teacher)[0].config()
    options = {name: config["options"][name] for name in VOCABULARY}
    if changed := fine_tuning.changes(options, user_options):
        raise UserError(
            f"--teacher={teacher}: the vocabulary comes from that model, but "
            f"{', '.join(changed)}; leave these flags out"
        )
    return {**options, "copy_share": config["options"].get("copy_share", 0.0)}


def teacher_tokenizer(teacher: str) -> Tokenizer:
    """Returns the `Tokenizer` of a teacher's models; raises `UserError` if they differ in it."""
    first, *others = model_directories(teacher)
    tokenizer = first.tokenizer()
    for other in others:
        check_same_tokenizer(other.tokenizer(), other, tokenizer, first)
    return tokenizer


def teacher_weights(options: dict[str, Any]) -> dict[str, str]:
    """Returns the entry of config.json by which a resumed run recognises its teacher.

    Raises:
        UserError: a model of the teacher has no weights.
    """
    if not options["teacher"]:
        return {}
    directories = model_directories(options["teacher"])
    return {"teacher_weights": ",".join(directory.weights_hash() for directory in directories)}
