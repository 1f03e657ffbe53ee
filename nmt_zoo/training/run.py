"""A training run: its parts, and how its trainer is built."""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras

from nmt_zoo.common import process
from nmt_zoo.common.errors import UserError
from nmt_zoo.configuration.settled import Settled
from nmt_zoo.data_pipeline.encoded import EncodedCorpus
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.decoding.scores import USUAL, remarks
from nmt_zoo.decoding.translator import Translator
from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.training import fine_tuning
from nmt_zoo.training.corpus.epochs import Epochs
from nmt_zoo.training.devices.one_device import OneDevice
from nmt_zoo.training.loop.limits import Limits
from nmt_zoo.training.loop.trainer import Trainer
from nmt_zoo.training.validation.evaluation import Evaluator
from nmt_zoo.training.validation.length_penalty import PenaltyChoice
from nmt_zoo.training.ways.base import WayOfTraining
from nmt_zoo.training.ways.catalogue import way_of
from nmt_zoo.training.ways.gradient.precision import PRECISIONS
from nmt_zoo.training.ways.preparation import Preparation


class Run(NamedTuple):
    """Everything that a run is made of; nothing changes it."""

    requested: dict[str, Any]  # as the flags ask for it, by which processes compare their runs
    config: dict[str, Any]  # of the model directory
    settings: Settled  # of the model
    options: Settled  # of training, including those that `config` leaves out
    directory: ModelDirectory
    companion: ModelDirectory | None  # second directory that the run writes
    is_new: bool  # whether the run begins now, rather than being resumed
    devices: OneDevice
    tokenizer: Tokenizer
    epochs: Epochs  # of the training corpus
    prepared: Preparation
    guide: Any  # `TranslationModel` on whose alignments the attention is trained, or None
    teacher: Any  # `training.ways.gradient.teacher.Teacher` of the model, or None
    valid: EncodedCorpus
    valid_lines: tuple[list, list]  # (source lines, target lines) for validation
    valid_names: Sequence[str] = ()  # Of the text of each pair of `valid`, if there are several.
    training_text: Any = None  # `TrainingText` of a new run

    @property
    def way(self) -> type[WayOfTraining]:
        """The way of training of the model."""
        return way_of(self.config["model"], self.options)

    def with_options(self, source: str, **values: Any) -> "Run":
        """Returns a copy of the run with other values of some training options."""
        options = self.options.over(source, values)
        recorded = {**self.config, "options": self.way.recorded(dict(options))}
        return self._replace(options=options, config=recorded)


def begin(run: Run) -> None:
    """Writes the directory of a new run, and waits for the other processes.

    Raises:
        UserError: --max_minutes are over before a new run begins.
    """
    if run.is_new:
        limit, took = run.options["max_minutes"], (time.monotonic() - process.BEGAN) / 60
        if limit and took > limit:  # The directory would keep the pace of a run without updates.
            raise UserError(
                f"--max_minutes={limit:g}: starting took {took:.1f} minutes, which left no time "
                "for an update; give more"
            )
        record = run.training_text.text() if run.training_text else ""
        run.directory.start(run.config, run.tokenizer, record)
    if run.devices.is_chief:
        run.devices.wait_for_workers(run.directory, run.requested)


def make_trainer(run: Run) -> Trainer:
    """Makes the model, update and evaluator of a run that has begun; returns its `Trainer`."""
    options = run.options
    keras.utils.set_random_seed(options["seed"])
    with run.devices.scope():
        model = run.directory.new_model(PRECISIONS[options["precision"]])
        if options["init_from"] and not run.directory.checkpoint_steps():
            fine_tuning.start(model, run.tokenizer, options["init_from"])
        run.prepared.fill(model)
        way = run.way.of_run(run, model)
    evaluator = Evaluator(
        way,
        Translator(model, run.tokenizer, beam_size=1, batch_size=64),
        run.valid,
        *(lines[: options["bleu_lines"]] for lines in run.valid_lines),
        max_tokens=run.epochs.batching.max_tokens,
        tokenize=options["tokenize"],
        names=run.valid_names,
    )
    # Without --bleu_lines nothing is to be translated.
    lines = run.valid_lines if options["bleu_lines"] else ([], [])
    penalty_choice = PenaltyChoice(model, run.tokenizer, *lines, options["tokenize"])
    if run.devices.is_chief:
        references = run.tokenizer.target_words(run.valid_lines[1][: options["bleu_lines"]])
        for line in remarks([references], is_for_bleu=options["tokenize"] == USUAL):
            print(f"validation: {line}", flush=True)
    limits = Limits(
        keep_checkpoints=options["average_checkpoints"],
        **{name: options[name] for name in Limits._fields if name in options},
    )
    return Trainer(
        run.directory,
        way,
        run.epochs,
        evaluator,
        limits,
        keep_best_by=options["keep_best_by"],
        accumulate_steps=options["accumulate_steps"],
        began=process.BEGAN,
        devices=run.devices,
        penalty_choice=penalty_choice if penalty_choice.is_possible else None,
    )
