"""The model directory: all files of a trained model.

    config.json         preset, settings, sizes, tokenizer kind, options of the training run
    tokenizer/          vocabulary files
    checkpoints/        00001000.npz ...: weights, optimizer, dropout seeds, position; the last k
    bad_batches/        00000123.npz ...: the batches of skipped steps, if there are any
    best.npz            the weights used to translate, picture and export
    training_text.json  what the training text was like, by which text unlike it is noticed
    search.json         the length penalty and the attention head that aligns, chosen for best.npz
    metrics.jsonl       one JSON object a line
    tensorboard/        the same for TensorBoard
    lock                empty; locked by the current run

Checkpoints are NumPy archives, one file each, written atomically; their CRC-32 sums reveal damage.
Only this module knows the layout.
"""

import json
import math
import os
import re
import sys
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from nmt_zoo import models
from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import FilePath, check_folder, read_lines, write_text
from nmt_zoo.common.locks import RunLock
from nmt_zoo.common.memory import available_bytes, give_back, in_words
from nmt_zoo.configuration.options import LENGTH_PENALTY, MAX_LENGTH_PENALTY
from nmt_zoo.data_pipeline.tokenization.languages import Languages, of_languages
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import BOS_ID, PAD_ID
from nmt_zoo.model_directory.configuration import FORMAT, read_configuration
from nmt_zoo.model_directory.metrics import Record, append_record, keep_records, read_records, sync
from nmt_zoo.model_directory.weight_files import (
    Arrays,
    DamagedError,
    read_archive,
    restore,
    write_archive,
)

if TYPE_CHECKING:
    from nmt_zoo.models import TranslationModel

Loaded: TypeAlias = tuple[Any, Tokenizer, dict[str, Any]]  # Model, tokenizer, config.


def model_of(config: dict[str, Any], dtype: Any = None) -> "TranslationModel":
    """Makes the model of a configuration with fresh weights, under a Keras dtype policy.

    Raises SettingError: settings are out of range or cannot be combined.
    Raises UserError: the weights do not fit into memory.
    """
    check_model(config)
    return models.create(config["model"], *config["vocab_sizes"], dtype=dtype, **_options(config))


def check_model(config: dict[str, Any]) -> "TranslationModel":
    """Returns the model without memory for its weights; raises the errors of `model_of`."""
    sketch = models.sketch(config["model"], *config["vocab_sizes"], **_options(config))
    shapes = [tuple(weight.shape) for weight in sketch.weights]
    settings = ", ".join(f"{name}={value}" for name, value in config["settings"].items())
    name = f"{config['model']} with {settings or 'its own settings'}"
    largest = max(shapes, key=math.prod)
    size, available = 4 * sum(map(math.prod, shapes)), available_bytes()
    if math.prod(largest) > models.LARGEST:
        raise UserError(
            f"{name} has a weight of {' x '.join(map(str, largest))} numbers; the limit is "
            f"{models.LARGEST:,}: choose smaller settings or a smaller vocabulary"
        )
    if size > available:
        raise UserError(
            f"{name} has {size // 4:,} weights, which take {in_words(size)}; "
            f"{in_words(available)} of memory are free: choose smaller settings or a "
            "smaller vocabulary"
        )
    return sketch


def _options(config):
    """Returns the arguments of `models.create` that a configuration contains."""
    sizes = config.get("sizes", {})
    return {"pad_id": PAD_ID, "bos_id": BOS_ID, **config["settings"], **sizes}


_VOCABULARY = "vocabulary"  # In best.npz: the checksums of its model's vocabulary.


class ModelDirectory:
    """Reads and writes a model directory; its folder is made when something is first written.

    Unless it `needs_keras`, the settings of its model are not checked.
    """

    def __init__(self, path: FilePath, needs_keras: bool = True):
        if not str(path):
            raise UserError("the name of a model directory is empty; give a folder")
        self.path, self.needs_keras = Path(path), needs_keras
        self.config_path = self.path / "config.json"
        self.metrics_path = self.path / "metrics.jsonl"
        self.tensorboard_path = self.path / "tensorboard"
        self.best_path = self.path / "best.npz"
        self.training_text_path = self.path / "training_text.json"
        self.search_path = self.path / "search.json"
        self.checkpoint_folder = self.path / "checkpoints"
        self.bad_batch_folder = self.path / "bad_batches"
        self.lock = RunLock(self.path / "lock")

    # Configuration and tokenizer

    def exists(self) -> bool:
        """Returns whether a run was started here."""
        return self.config_path.exists()

    def check_free(self) -> None:
        """Raises `UserError` if a new run cannot begin here because of a run or other files.

        A lock, a tokenizer and a record of the training text may be there: a run leaves them if it
        is stopped before it writes its configuration.
        """
        check_folder(self.path)
        names = sorted(os.listdir(self.path)) if self.path.exists() else []
        if self.config_path.name in names:
            raise UserError(
                f"{self.path}: another run has just begun here; give another --model_dir"
            )
        own = ("lock", "tokenizer", self.training_text_path.name)
        others = [n for n in names if n not in own and not n.startswith(".")]
        if others:
            raise UserError(
                f"{self.path}: not a model directory, but a folder of other files, such as "
                f"{others[0]}; give a model directory or a new folder"
            )

    def start(self, config: dict[str, Any], tokenizer: Tokenizer, training_text: str = "") -> None:
        """Makes the directory of a new run; writes the configuration last, to mark it complete.

        `training_text` is the content of training_text.json; "" if the model translates no text.
        Raises UserError: the folder holds something else, or cannot be written; another run is
        under way in it.
        """
        self.check_free()  # Before the lock makes a file among others.
        self.lock.acquire()
        self.check_free()  # Another run may have begun since.
        files = tokenizer.save(self.path / "tokenizer")
        if training_text:
            write_text(self.training_text_path, training_text)
        sums = {"vocabulary_crc32": {file.name: zlib.crc32(file.read_bytes()) for file in files}}
        config = {"format": FORMAT, **config, **sums}
        write_text(self.config_path, json.dumps(config, indent=2) + "\n")

    def config(self) -> dict[str, Any]:
        """Reads the configuration.

        Raises UserError: not a model directory, one of another kind, or a damaged one.
        """
        if not self.path.is_dir():
            raise UserError(f"{self.path}: no such model directory; train.py makes one")
        if not self.config_path.exists():
            raise UserError(f"{self.path}: no config.json, so not a model directory of train.py")
        return read_configuration(self.config_path, checks_model=self.needs_keras)

    def tokenizer(self, languages: tuple[str, str] | None = ("", "")) -> Tokenizer:
        """Loads the tokenizer, and checks that its vocabularies have the sizes of the model.

        `languages` are those of source and target, for a model of several; "": that of the model;
        None: texts have their language tokens themselves.
        Raises UserError: the tokenizer is missing, damaged, or of another size; a language is
        missing or unknown.
        """
        config = self.config()
        self._check_vocabulary(config["vocabulary_crc32"])
        form = config["options"]["normalise"]
        tokenizer = Tokenizer.load(config["tokenizer"], self.path / "tokenizer", form)
        sizes = [len(tokenizer.source), len(tokenizer.target)]
        if sizes != config["vocab_sizes"]:
            raise UserError(
                f"{self.path / 'tokenizer'}: {sizes[0]} source and {sizes[1]} target entries, but "
                f"the model has {config['vocab_sizes'][0]} and {config['vocab_sizes'][1]}; restore "
                "the vocabulary that the model was trained with"
            )
        if languages is None:
            return tokenizer
        return of_languages(tokenizer, Languages.of(config), *languages, str(self.path))

    def _check_vocabulary(self, sums):
        """Raises `UserError` if a tokenizer file has changed since it was written."""
        for name, expected in sums.items():
            path = self.path / "tokenizer" / name
            if not path.is_file():
                raise UserError(
                    f"{path}: no such file; restore the vocabulary that the model was trained with"
                )
            checksum = zlib.crc32(path.read_bytes())
            if checksum != expected:
                raise UserError(
                    f"{path}: damaged or another file (its CRC-32 is {checksum:08x}, and "
                    f"{expected:08x} in config.json); restore the vocabulary that the model was "
                    "trained with"
                )

    def new_model(self, dtype: Any = None) -> "TranslationModel":
        """Makes the model of the configuration with fresh weights, under a Keras dtype policy.

        Raises UserError: the settings are impossible, or the weights do not fit into memory.
        """
        config = self.config()
        try:
            return model_of(config, dtype)
        except (models.SettingError, UserError) as error:
            raise UserError(f"{self.config_path}: {error}") from None

    def load(
        self,
        *,
        language_model: bool = False,
        dtype: str = "float32",
        languages: tuple[str, str] = ("", ""),
    ) -> Loaded:
        """Loads the trained model and its tokenizer, ready to translate, picture and export.

        `languages` are as of `tokenizer`; `language_model`: expects a language model instead of a
        translation model. `dtype` of weights and products: "float32", "bfloat16" or "int8". The
        configuration that is returned also has the `length_penalty` with which the model translates
        best. The model aligns by the attention that was measured to align best.
        Raises UserError: something is missing, damaged, or does not fit together.
        """
        config = self.config()
        if models.model_class(config["model"]).reads_source == language_model:
            raise UserError(
                f"{self.path} holds {config['model']}, which does not translate; it is for "
                "translate.py --language_model"
                if not language_model
                else f"{self.path} holds {config['model']}, a translation model; language models "
                f"are made by train.py --model={next(iter(models.LANGUAGE_MODELS))}"
            )
        tokenizer, model = self.tokenizer(languages), self.new_model()
        restore(model_arrays(model), self.finite_best(), self.best_path)
        if dtype == "int8":
            if not model.can_compile:
                raise UserError(
                    f"{self.path}: in 8 bits, only searches that XLA compiles are quick, which it "
                    f"cannot for {config['model']}; leave --precision out"
                )
            model.quantise()
        elif dtype != "float32":
            model, exact = self.new_model(dtype), model
            for weight, value in zip(model.weights, exact.weights, strict=True):
                weight.assign(value)
        self._align(model)
        penalty = self.chosen()["length_penalty"]
        # Scores of a decoder of its own are no log-probabilities.
        config["length_penalty"] = 0.0 if model.decoder_class else penalty
        if not language_model:
            model.precompute()
        give_back()  # What the file and weights in other formats took.
        return model, tokenizer, config

    def weights_hash(self) -> str:
        """Returns the CRC-32 sum of best.npz, hexadecimal; raises `UserError` without weights."""
        self.config()
        self._check_best_exists()
        return f"{zlib.crc32(self.best_path.read_bytes()):08x}"

    def _check_best_exists(self):
        if not self.best_path.exists():
            raise UserError(
                f"{self.path}: no best.npz yet; train.py writes it at its first validation"
            )

    def read_best(self) -> tuple[Arrays, dict[str, Any]]:
        """Reads the best weights, and the state saved with them, such as their score.

        Raises UserError: there are no best weights yet, or they are damaged.
        """
        self._check_best_exists()
        try:
            return self._read_best()
        except DamagedError as error:
            raise DamagedError(
                f"{error}; run the train.py command of this directory again to restore it from a "
                "checkpoint"
            ) from None

    def finite_best(self) -> Arrays:
        """Reads the best weights as `read_best`; raises `UserError` if one is not finite."""
        arrays, _ = self.read_best()
        for name, array in arrays.items():
            if not np.isfinite(array).all():
                raise UserError(
                    f"{self.best_path}: {name.removeprefix('model/')} is not finite; the training "
                    "diverged: train again with a lower --learning_rate"
                )
        return arrays

    def summary(self) -> dict[str, Any]:
        """Summarises the training: state of the best weights, and minutes of the whole run."""
        last = [{"seconds": 0.0, "step": 0}, *read_records(self.metrics_path)][-1]
        return {
            "minutes": round(last["seconds"] / 60, 1),
            "steps": last["step"],
            "best": self.read_best()[1],
        }

    def write_best(self, arrays: dict[str, Any], state: dict[str, Any]) -> None:
        """Writes the best weights, with a state such as their score.

        Removes search.json first, because its values were chosen for the old weights.
        """
        self.search_path.unlink(missing_ok=True)
        write_archive(self.best_path, arrays, {**state, _VOCABULARY: self._vocabulary()})

    def _vocabulary(self):
        """Returns the checksums of the vocabulary as text; "" before the run has begun."""
        return (
            json.dumps(self.config()["vocabulary_crc32"], sort_keys=True) if self.exists() else ""
        )

    def write_search(self, chosen: dict[str, Any]) -> None:
        """Writes what was chosen for the best weights: `length_penalty`, perhaps others."""
        write_text(self.search_path, json.dumps(chosen, indent=2) + "\n")

    def chosen(self) -> dict[str, Any]:
        """Returns what was chosen for the best weights; by default, the usual `length_penalty`.

        Raises UserError: the file is damaged.
        """
        if not self.search_path.exists():
            return {"length_penalty": LENGTH_PENALTY}
        try:
            chosen = {**json.loads("\n".join(read_lines(self.search_path)))}
            is_known = 0 <= chosen["length_penalty"] <= MAX_LENGTH_PENALTY
            if not (is_known and 0.01 <= chosen.get("temperature", 1.0) <= 100):
                raise ValueError
        except (ValueError, TypeError, KeyError, RecursionError):
            raise self._damaged_search() from None
        return chosen

    def _align(self, model):
        """Lets a model align by the attention that was chosen for the best weights, if one was."""
        chosen = self.chosen()
        try:
            if "alignment" in chosen:
                model.align_by(chosen["alignment"]["layer"], chosen["alignment"]["head"])
        except (ValueError, TypeError, KeyError):
            raise self._damaged_search() from None

    def _damaged_search(self):
        return UserError(
            f"{self.search_path}: damaged (expected a length_penalty from 0 to "
            f"{MAX_LENGTH_PENALTY:g}, a temperature from 0.01 to 100, and no alignment by a head "
            "that is not there); remove it"
        )

    def best_state(self) -> dict[str, Any] | None:
        """Reads the state saved with the weights in best.npz, or None if there is no such file.

        A damaged file is reported and set aside.
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
        vocabulary = self._vocabulary()
        if state.pop(_VOCABULARY, vocabulary) != vocabulary:
            raise UserError(
                f"{self.best_path}: belongs to a model with another vocabulary than this directory "
                "has; restore the file of this run"
            )
        for name in ("step", "perplexity", "bleu"):
            if type(state.get(name, 0)) not in (int, float):
                raise DamagedError(f"{self.best_path}: damaged or unreadable (no number: {name})")
        if not isinstance(state.get("averaged_steps", []), list):
            raise DamagedError(f"{self.best_path}: damaged or unreadable (no list: averaged_steps)")
        return arrays, state

    # Checkpoints

    def checkpoint_path(self, step: int) -> Path:
        """Returns the path of the checkpoint of a step."""
        return self.checkpoint_folder / f"{step:08d}.npz"

    def checkpoint_steps(self, every: int = 1) -> list[int]:
        """Lists the steps of all checkpoints that are multiples of `every`, ascending."""
        names = [p.stem for p in self.checkpoint_folder.glob("*.npz")]
        return sorted(int(n) for n in names if re.fullmatch(r"\d{8,}", n) and int(n) % every == 0)

    def save_checkpoint(
        self, variables: dict[str, Any], state: dict[str, Any], *, keep: int, every: int
    ) -> None:
        """Writes the checkpoint of `state["step"]`.

        Of the older checkpoints, the last `keep` at multiples of `every` stay, and the newest, in
        case the new one is damaged. All others are removed, including checkpoints caused by
        signals, so that the final average does not depend on signals.
        """
        sync(self.metrics_path)  # A checkpoint must not survive without the metrics before it.
        write_archive(self.checkpoint_path(state["step"]), variables, state)
        steps = {
            state["step"],
            *self.checkpoint_steps(every)[-keep:],
            *self.checkpoint_steps()[-2:],
        }
        for step in set(self.checkpoint_steps()) - steps:
            self.checkpoint_path(step).unlink()

    def remove_unfinished(self) -> None:
        """Removes the half-written files of a killed run."""
        # Not below other folders, where an export may be under way.
        own = self.checkpoint_folder, self.bad_batch_folder, self.path / "tokenizer"
        for folder in (self.path, *own):
            for unfinished in folder.glob(".unfinished-*"):
                if unfinished.is_file():
                    unfinished.unlink(missing_ok=True)

    def restore_newest(self, variables: dict[str, Any]) -> dict[str, Any] | None:
        """Restores the newest intact checkpoint; returns its state, or None if there is none.

        Damaged ones are reported and set aside. Half-written files of a killed run are removed.
        Raises UserError: there are checkpoints, but all are damaged.
        """
        self.remove_unfinished()
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

    def average(self, steps: list[int]) -> tuple[list[int], Arrays]:
        """Averages the model's weights over checkpoints of these steps, in ascending order.

        Damaged ones are left out. Returns the steps that were read, and the averages.
        """
        total, types, steps_read = {}, {}, []
        for step in steps:
            try:
                arrays = read_archive(self.checkpoint_path(step), prefix="model/")[0]
            except DamagedError as error:
                print(f"{error}: left out of the average", file=sys.stderr, flush=True)
                continue
            steps_read.append(step)
            for name, array in arrays.items():
                total[name] = total.get(name, 0.0) + array.astype(np.float64)
                types[name] = array.dtype
        return steps_read, {
            name: (array / len(steps_read)).astype(types[name]) for name, array in total.items()
        }

    def keep_bad_batches(
        self, step: int, taken: list[dict[str, Any]], state: dict[str, Any]
    ) -> Path:
        """Keeps the batches of a step that was skipped; returns their path."""
        path = self.bad_batch_folder / f"{step:08d}.npz"
        arrays = {f"{i}/{name}": x for i, batch in enumerate(taken) for name, x in batch.items()}
        write_archive(path, arrays, {"step": step, **state})
        return path

    # Metrics

    def rewind_metrics(self, step: int, evaluated_step: int) -> None:
        """Drops the records that a run, which resumes from the checkpoint of `step`, writes again.

        `evaluated_step` is the step of the last validation recorded in that checkpoint.
        """
        last = {"train": step, "valid": evaluated_step}
        keep_records(self.metrics_path, lambda record: record["step"] <= last[record["kind"]])

    def append_metrics(self, record: Record) -> None:
        """Adds a record to metrics.jsonl."""
        append_record(self.metrics_path, record)


def model_directories(names: str) -> list[ModelDirectory]:
    """Returns the `ModelDirectory` of each name in `a,b,c`; a folder's name may have a comma."""
    is_one = os.path.isdir(names)
    return [ModelDirectory(name) for name in ([names] if is_one else names.split(","))]


def model_arrays(model: "TranslationModel") -> dict[str, Any]:
    """Maps name -> variable for every weight of a model; names do not depend on the process."""
    named = {"model/" + v.path.split("/", 1)[1]: v for v in model.weights}
    assert len(named) == len(model.weights), "two weights of one name"
    return named


def training_arrays(model: "TranslationModel", optimizer: Any) -> dict[str, Any]:
    """Maps name -> variable for all that training changes: weights, dropout seeds, optimizer."""
    weights = {id(v) for v in model.weights}
    seeds = [v for v in model.variables if id(v) not in weights]
    return {
        **model_arrays(model),
        **{f"seed/{i:04d}": v for i, v in enumerate(seeds)},
        **{f"optimizer/{i:04d}": v for i, v in enumerate(optimizer.variables)},
    }
