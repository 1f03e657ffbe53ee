"""Training that starts from the weights of another model directory."""

import models
from data_pipeline.files import UserError
from model_directory.directory import ModelDirectory
from model_directory.options import VOCABULARY


def inherit(path, model, given, given_settings):
    """Returns the options and settings that a new run inherits from the model it starts from.

    Args:
        path: directory of that model.
        model: preset name of the new run.
        given: name -> value of the options that the user gave.
        given_settings: name -> value of the settings of the model that the user gave.

    Returns:
        `(options of the vocabulary, settings of the model)`, name -> value.

    Raises:
        UserError: there is no model directory, or its model, vocabulary or settings differ from
            the given ones.
    """
    config = ModelDirectory(path).config()
    if config["model"] != model:
        raise UserError(
            f"--init_from={path} holds {config['model']}, not {model}; give --model="
            f"{config['model']}, or another directory"
        )
    if models.model_class(model).corpus_sizes:
        raise UserError(
            f"--init_from={path}: {model} has a table of the words of its own corpus, so a model "
            "of other text cannot start from it"
        )
    options = {name: config["options"][name] for name in VOCABULARY}
    settings = {**models.preset_settings(model), **config["settings"]}
    changed = [
        f"{name} was {was[name]!r}, is {value!r}"
        for was, now in ((options, given), (settings, given_settings))
        for name, value in now.items()
        # Dropout has no weights, and another rate may suit the new text.
        if name in was and was[name] != value and "dropout" not in name
    ]
    if changed:
        raise UserError(
            f"--init_from={path}: vocabulary and settings come from that model, but "
            f"{', '.join(changed)}; leave these flags out"
        )
    return options, config["settings"]


def start(model, path):
    """Copies the best weights of another model directory into a fresh model; prints their step."""
    directory = ModelDirectory(path)
    trained = directory.load()[0]
    for weight, value in zip(model.weights, trained.weights, strict=True):
        weight.assign(value)
    step = directory.summary()["best"].get("step", 0)
    print(f"starting from the best weights of {path}, of step {step:,}", flush=True)
