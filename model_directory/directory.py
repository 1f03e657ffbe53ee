"""The model directory: everything that a trained model is.

    config.json         preset, settings, sizes, tokenizer kind, options of the training run
    tokenizer/          vocabulary files
    checkpoints/        00001000.npz ...: weights, optimizer, dropout seeds, position; the last k
    bad_batches/        00000123.npz ...: the batches of steps that were skipped, if there are any
    best.npz            the weights that translate, picture and export
    metrics.jsonl       one JSON object a line
    tensorboard/        the same for TensorBoard
    lock                empty; held by the run that is under way

Checkpoints are NumPy archives, one file each, written atomically; their CRC-32 sums tell damage.
Only this module knows the layout.
"""

import collections
import json
import os
import re
import sys
import zlib
from pathlib import Path

import numpy as np

import models
from data_pipeline.files import UserError, check_folder, write_text
from data_pipeline.tokenization.tokenizers import Tokenizer
from data_pipeline.tokenization.vocabularies import BOS_ID, PAD_ID
from model_directory.configuration import FORMAT, read_configuration
from model_directory.memory import check_fits
from model_directory.metrics import append_record, keep_records, read_records, sync
from model_directory.run_lock import RunLock
from model_directory.weight_files import DamagedError, read_archive, restore, write_archive


def model_of(config, dtype=None):
    """The model of a configuration with fresh weights, under a dtype policy of Keras.

    Raises:
        SettingError: settings that are out of their range or do not go together.
        UserError: the weights do not fit into memory.
    """
    check_model(config)
    return models.create(config["model"], *config["vocab_sizes"], dtype=dtype, **_options(config))


def check_model(config):
    """Raises what `model_of` raises, without making the model."""
    preset = config["model"]
    shapes = models.weight_shapes(preset, *config["vocab_sizes"], **_options(config))
    settings = ", ".join(f"{name}={value}" for name, value in config["settings"].items())
    check_fits(shapes, f"{preset} with {settings or 'its own settings'}")


def _options(config):
    """Arguments of `models.create` that a configuration has."""
    sizes = config.get("sizes", {})
    return {"pad_id": PAD_ID, "bos_id": BOS_ID, **config["settings"], **sizes}


class ModelDirectory:
    """Reads and writes a model directory.

    Args:
        path: its folder; need not exist before something is written.
    """

    def __init__(self, path):
        if not str(path):
            raise UserError("the name of a model directory is empty; give --model_dir a folder")
        self.path = Path(path)
        self.config_path = self.path / "config.json"
        self.metrics_path = self.path / "metrics.jsonl"
        self.tensorboard_path = self.path / "tensorboard"
        self.best_path = self.path / "best.npz"
        self.checkpoint_folder = self.path / "checkpoints"
        self.bad_batch_folder = self.path / "bad_batches"
        self.lock = RunLock(self.path / "lock")

    # Configuration and tokenizer

    def exists(self):
        """Whether a run was started here."""
        return self.config_path.exists()

    def check_free(self):
        """Raises `UserError` if a new run cannot begin here: in a folder of other things.

        A run that was stopped before its configuration was written has left a lock and a tokenizer.
        """
        check_folder(self.path)
        names = sorted(os.listdir(self.path)) if self.path.exists() else []
        others = [n for n in names if n not in ("lock", "tokenizer") and not n.startswith(".")]
        if others:
            raise UserError(
                f"{self.path}: holds other things, such as {others[0]}, and is no model directory; "
                "name another, or a new one"
            )

    def start(self, config, tokenizer):
        """Makes the directory of a new run; the configuration is written last, as its seal.

        Raises:
            UserError: the folder holds something else, or cannot be written; another run is
                under way in it.
        """
        self.check_free()
        self.lock.acquire()
        if self.exists():
            raise UserError(
                f"{self.path}: another run has just begun here; give another --model_dir"
            )
        files = tokenizer.save(self.path / "tokenizer")
        sums = {"vocabulary_crc32": {file.name: zlib.crc32(file.read_bytes()) for file in files}}
        config = {"format": FORMAT, **config, **sums}
        write_text(self.config_path, json.dumps(config, indent=2) + "\n")

    def complete_config(self, **entries):
        """Adds entries that an earlier version did not write to the configuration.

        The run must be locked. Entries that are there already stay.
        """
        config = self.config()
        if not entries.keys() <= config.keys():
            write_text(self.config_path, json.dumps({**entries, **config}, indent=2) + "\n")

    def config(self):
        """The configuration.

        Raises:
            UserError: no model directory, one of another kind, or damaged.
        """
        if not self.path.is_dir():
            raise UserError(f"{self.path}: no such model directory; train.py makes one")
        if not self.config_path.exists():
            raise UserError(f"{self.path}: no config.json, so not a model directory of train.py")
        return read_configuration(self.config_path)

    def tokenizer(self):
        """The tokenizer; its sizes are those the model was made for.

        Raises:
            UserError: missing, damaged, or of another size.
        """
        config = self.config()
        self._check_vocabulary(config.get("vocabulary_crc32", {}))  # Older versions have none.
        tokenizer = Tokenizer.load(config["tokenizer"], self.path / "tokenizer")
        found = [len(tokenizer.source), len(tokenizer.target)]
        if found != config["vocab_sizes"]:
            raise UserError(
                f"{self.path / 'tokenizer'}: {found[0]} source and {found[1]} target entries, but "
                f"the model has {config['vocab_sizes'][0]} and {config['vocab_sizes'][1]}; restore "
                "the vocabulary that the model was trained with"
            )
        return tokenizer

    def _check_vocabulary(self, sums):
        """Raises `UserError` where a file of the tokenizer is not as it was written."""
        for name, expected in sums.items():
            path = self.path / "tokenizer" / name
            if not path.is_file():
                raise UserError(
                    f"{path}: no such file; restore the vocabulary that the model was trained with"
                )
            found = zlib.crc32(path.read_bytes())
            if found != expected:
                raise UserError(
                    f"{path}: damaged or another file (its CRC-32 is {found:08x}, and "
                    f"{expected:08x} in config.json); restore the vocabulary that the model was "
                    "trained with"
                )

    def new_model(self, dtype=None):
        """The model of the configuration with fresh weights, under a dtype policy of Keras.

        Raises:
            UserError: settings that cannot be, or weights that do not fit into memory.
        """
        config = self.config()
        try:
            return model_of(config, dtype)
        except (models.SettingError, UserError) as error:
            raise UserError(f"{self.config_path}: {error}") from None

    def load(self, *, language_model=False):
        """The trained model and its tokenizer: what translates, pictures and exports.

        Args:
            language_model: whether a language model is wanted, and not one that translates.

        Returns:
            `(TranslationModel, Tokenizer, config)`.

        Raises:
            UserError: anything missing, damaged or not fitting.
        """
        config = self.config()
        if (config["model"] in models.LANGUAGE_MODELS) != language_model:
            raise UserError(
                f"{self.path} holds {config['model']}, which does not translate; it is for "
                "translate.py --language_model"
                if not language_model
                else f"{self.path} holds {config['model']}, which translates; a language model is "
                f"made by train.py --model={next(iter(models.LANGUAGE_MODELS))}"
            )
        tokenizer, model = self.tokenizer(), self.new_model()
        arrays, _ = self.read_best()
        if restore(model_arrays(model), arrays, self.best_path):
            print(
                f"{self.path}: trained by a version that did not measure how long translations "
                "are; each is planned to be as long as its source",
                file=sys.stderr,
                flush=True,
            )
        for name, array in arrays.items():
            if not np.isfinite(array).all():
                raise UserError(
                    f"{self.best_path}: {name.removeprefix('model/')} is not finite; the training "
                    "diverged: train again with a lower --learning_rate"
                )
        if not language_model:
            model.freeze()
        return model, tokenizer, config

    def read_best(self):
        """Reads the weights that translate.

        Returns:
            (name -> array, what is known of them).

        Raises:
            UserError: there are none yet, or they are damaged.
        """
        if not self.best_path.exists():
            raise UserError(
                f"{self.path}: no best.npz yet; train.py writes it at its first validation"
            )
        try:
            return self._read_best()
        except DamagedError as error:
            raise DamagedError(
                f"{error}; give the train.py command of this directory again, which makes it anew "
                "from a checkpoint"
            ) from None

    def summary(self):
        """What is known of the training: of the best weights, and the minutes of the whole run."""
        last = [{"seconds": 0.0, "step": 0}, *read_records(self.metrics_path)][-1]
        return {
            "minutes": round(last["seconds"] / 60, 1),
            "steps": last["step"],
            "best": self.read_best()[1],
        }

    def best_state(self):
        """What is known of the weights in best.npz, such as their score.

        Returns:
            name -> value; None if there are none. A damaged file is named and set aside.
        """
        if not self.best_path.exists():
            return None
        try:
            return self._read_best()[1]
        except DamagedError as error:
            print(f"{error}: set aside", file=sys.stderr, flush=True)
            self.best_path.replace(self.best_path.with_suffix(".damaged"))
            return None

    def _read_best(self):
        arrays, state = read_archive(self.best_path)
        for name in ("step", "perplexity", "bleu"):
            if type(state.get(name, 0)) not in (int, float):
                raise DamagedError(f"{self.best_path}: damaged or unreadable (no number: {name})")
        if not isinstance(state.get("averaged_steps", []), list):
            raise DamagedError(f"{self.best_path}: damaged or unreadable (no list: averaged_steps)")
        return arrays, state

    # Checkpoints

    def checkpoint_path(self, step):
        """Path of the checkpoint of a step."""
        return self.checkpoint_folder / f"{step:08d}.npz"

    def checkpoint_steps(self, every=1):
        """Steps of all checkpoints that are multiples of `every`, ascending."""
        names = [p.stem for p in self.checkpoint_folder.glob("*.npz")]
        return sorted(int(n) for n in names if re.fullmatch(r"\d{8,}", n) and int(n) % every == 0)

    def save_checkpoint(self, variables, state, *, keep, every):
        """Writes the checkpoint of `state["step"]`.

        Of the older ones, the last `keep` at multiples of `every` stay, and the one before the new
        one, for the case that this is damaged. Others, which a signal caused, do not, so that the
        average in the end does not depend on signals.
        """
        sync(self.metrics_path)  # So that no checkpoint outlives a record of an earlier step.
        write_archive(self.checkpoint_path(state["step"]), variables, state)
        kept = {state["step"], *self.checkpoint_steps(every)[-keep:], *self.checkpoint_steps()[-2:]}
        for step in set(self.checkpoint_steps()) - kept:
            self.checkpoint_path(step).unlink()

    def restore_newest(self, variables):
        """Restores the newest checkpoint that can be read; damaged ones are named and set aside.

        What a killed run left half-written is removed, too.

        Returns:
            Its state, or None if there is none.

        Raises:
            UserError: there are some, but all are damaged.
        """
        for unfinished in self.path.rglob(".unfinished-*"):
            unfinished.unlink(missing_ok=True)
        damaged = []
        for step in reversed(self.checkpoint_steps()):
            path = self.checkpoint_path(step)
            try:
                arrays, state = read_archive(path)
            except DamagedError as error:
                damaged.append((path, error))
                continue
            restore(variables, arrays, path)
            for bad, error in damaged:
                print(f"{error}: set aside; {path.name} is used", file=sys.stderr, flush=True)
                bad.replace(bad.with_suffix(".damaged"))
            return state
        if damaged:
            raise UserError(
                f"{self.checkpoint_folder}: all {len(damaged)} checkpoints are damaged or "
                f"unreadable, the newest: {damaged[0][1]}; restore one of them, or remove all to "
                "train from the beginning"
            )
        return None

    def average(self, steps):
        """The mean of the model's weights over some checkpoints; damaged ones are left out.

        Args:
            steps: their steps, ascending.

        Returns:
            (steps that were read, name -> array).
        """
        total, types, found, counts = {}, {}, [], collections.Counter()
        for step in steps:
            try:
                arrays = read_archive(self.checkpoint_path(step))[0]
            except DamagedError as error:
                print(f"{error}: left out of the average", file=sys.stderr, flush=True)
                continue
            found.append(step)
            for name, array in arrays.items():
                if name.startswith("model/"):
                    total[name] = total.get(name, 0.0) + array.astype(np.float64)
                    types[name] = array.dtype
                    counts[name] += 1
        return found, {
            name: (array / counts[name]).astype(types[name]) for name, array in total.items()
        }

    def keep_bad_batches(self, step, taken, state):
        """Keeps the batches of a step that was skipped; returns their path."""
        path = self.bad_batch_folder / f"{step:08d}.npz"
        arrays = {f"{i}/{name}": x for i, batch in enumerate(taken) for name, x in batch.items()}
        write_archive(path, arrays, {"step": step, **state})
        return path

    # Metrics

    def rewind_metrics(self, step, evaluated_step):
        """Drops the records that a resumed run writes again.

        Args:
            step: of the checkpoint that it goes on from.
            evaluated_step: of the last validation that the checkpoint knows of.
        """
        last = {"train": step, "valid": evaluated_step}
        keep_records(self.metrics_path, lambda record: record["step"] <= last[record["kind"]])

    def append_metrics(self, record):
        """Adds a record to metrics.jsonl."""
        append_record(self.metrics_path, record)


def model_arrays(model):
    """name -> variable of every weight of a model; names do not depend on the process."""
    named = {"model/" + v.path.split("/", 1)[1]: v for v in model.weights}
    assert len(named) == len(model.weights), "two weights of one name"
    return named


def training_arrays(model, optimizer):
    """name -> variable of all that training changes: weights, dropout seeds and optimizer."""
    weights = {id(v) for v in model.weights}
    seeds = [v for v in model.variables if id(v) not in weights]
    return {
        **model_arrays(model),
        **{f"seed/{i:04d}": v for i, v in enumerate(seeds)},
        **{f"optimizer/{i:04d}": v for i, v in enumerate(optimizer.variables)},
    }
