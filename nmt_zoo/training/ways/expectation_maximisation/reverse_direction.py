"""The model directory of the reverse direction, in runs that train both directions to agree.

The forward direction is the run, with checkpoints, metrics and validation. The reverse model has a
directory of its own, which is complete but has no checkpoints or metrics.
"""

import os
from typing import Any

import keras

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import same_paths
from nmt_zoo.model_directory.directory import ModelDirectory

_SAME = ("model", "settings", "vocab_sizes", "training_text", "validation_text")


def reverse_directory(directory: ModelDirectory, config: dict[str, Any]) -> ModelDirectory | None:
    """Returns the directory for the reverse model of a run, or None if the run trains none.

    `config` is the run's configuration, as far as it is known before the tokenizer.

    Raises:
        UserError: the directory holds something else, or the reverse model of a run that is gone.
    """
    path = config["options"]["reverse_model_dir"]
    if not path:
        return None
    if os.path.realpath(path) == os.path.realpath(directory.path):
        raise UserError(f"--reverse_model_dir={path} is the same as --model_dir; give another")
    reverse = ModelDirectory(path)
    if not reverse.exists():
        reverse.check_free()
        return reverse
    _check_reverse(reverse, directory)
    return reverse


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
    expected = _reverse_config(directory, directory.config()) if is_reverse else {}
    if not is_reverse or any(config.get(name) != expected.get(name) for name in _SAME):
        raise UserError(
            f"{reverse.path}: holds a model that is not the reverse of {directory.path} on its "
            f"text and with its settings; {remedy}"
        )


def open_reverse(run: Any) -> keras.Model:
    """Returns the prepared reverse model of a run that has begun; its directory may be new."""
    reverse, tokenizer = run.companion, run.tokenizer
    if not reverse.exists():
        config = _reverse_config(run.directory, run.directory.config())
        reverse.start(config, tokenizer._replace(source=tokenizer.target, target=tokenizer.source))
    reverse.remove_unfinished()
    model = reverse.new_model()
    run.prepared.fill_reverse(model)
    return model


def _reverse_config(directory, config):
    """Returns the reverse model's configuration, with the same number of word pairs."""
    options = {**config["options"], "reverse_model_dir": ""}
    sizes = {"vocab_sizes": config["vocab_sizes"][::-1], "reverse_of": str(directory.path)}
    return {**config, "options": options, **sizes}
