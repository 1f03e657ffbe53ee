"""The model directory of the reverse direction, in runs that train both directions to agree.

The forward direction is the run, with checkpoints, metrics and validation. The reverse model has a
directory of its own, which is complete but has no checkpoints or metrics.
"""

import os

from data_pipeline.encoded import EncodedCorpus
from data_pipeline.files import UserError, same_paths
from model_directory.directory import ModelDirectory
from training.corpus.preparation import WordTable
from training.expectation_maximisation.agreement import Directions


def reverse_directory(directory, config):
    """Returns the `ModelDirectory` that the reverse model of a run goes to, or None.

    Args:
        directory: `ModelDirectory` of the run.
        config: configuration of the run, as far as it is known before the tokenizer.

    Raises:
        UserError: the directory holds something else.
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
    found, texts = reverse.config(), ["training_text"]
    texts += ["validation_text"] if "validation_text" in found else []  # Earlier versions.
    is_reverse = same_paths(found.get("reverse_of", ""), str(directory.path))
    if not is_reverse or any(found.get(name) != config[name] for name in texts):
        raise UserError(
            f"{path}: holds a model that is not the reverse of {directory.path} on its text; give "
            "another --reverse_model_dir"
        )
    return reverse


def open_reverse(run):
    """Starts the directory of the reverse model, or opens it if the run is resumed.

    Args:
        run: `training.run.Run`, started.

    Returns:
        (`Directions`, the prepared reverse model).
    """
    reverse, tokenizer, corpus = run.companion, run.tokenizer, run.epochs.corpus
    preparation = WordTable(EncodedCorpus(corpus.target, corpus.source))
    if not reverse.exists():
        config = _reverse_config(run.directory, run.directory.config())
        config["vocab_sizes"] = config["vocab_sizes"][::-1]
        reverse.start(config, tokenizer._replace(source=tokenizer.target, target=tokenizer.source))
    model = reverse.new_model()
    preparation.fill(model)
    return Directions(run.prepared.words, preparation.words), model


def _reverse_config(directory, config):
    """Returns the configuration of the reverse model, whose number of word pairs is the same."""
    options = {**config["options"], "reverse_model_dir": ""}
    return {**config, "options": options, "reverse_of": str(directory.path)}
