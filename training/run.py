"""A training run: its parts, its plan, and how its trainer is built."""

import gc
import itertools
import time
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from nmt_zoo.command_line import console, quiet
from nmt_zoo.common.cores import num_cores
from nmt_zoo.common.errors import UserError
from nmt_zoo.configuration.options import AUTO
from nmt_zoo.data_pipeline.batching import largest_shape
from nmt_zoo.data_pipeline.encoded import EncodedCorpus
from nmt_zoo.data_pipeline.pipeline import dataset_of
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.decoding.scores import USUAL, remarks
from nmt_zoo.decoding.translator import Translator
from nmt_zoo.model_directory.directory import ModelDirectory, model_of
from nmt_zoo.training import fine_tuning, pace
from nmt_zoo.training.corpus.epochs import Epochs
from nmt_zoo.training.corpus.preparation import Preparation
from nmt_zoo.training.devices.one_device import OneDevice
from nmt_zoo.training.loop.limits import Limits
from nmt_zoo.training.loop.trainer import Trainer
from nmt_zoo.training.reports import memory
from nmt_zoo.training.reports import plan as plan_report
from nmt_zoo.training.validation.evaluation import Evaluator
from nmt_zoo.training.validation.length_penalty import PenaltyChoice
from nmt_zoo.training.ways.catalogue import update_of
from nmt_zoo.training.ways.gradient.precision import PRECISIONS, comparison

_TIMED = 3.0  # Seconds that a plan spends on timing updates.
# Entries of config.json that earlier versions did not write, and what they hold.
UNNOTED = {
    "validation_text": "its validation text",
    "corpus_lines": "the size of each corpus",
    "init_weights": "the weights that it started from",
}


class Run(NamedTuple):
    """Everything that a run is made of; nothing changes it.

    Attributes:
        requested: configuration as the flags ask for it, by which processes compare their runs.
        config: configuration of the model directory.
        options: name -> value, all training options, including those that `config` leaves out.
        directory: `ModelDirectory` of the run.
        companion: second `ModelDirectory` that the run writes, or None.
        is_new: whether the run begins now, rather than being resumed.
        devices: `OneDevice` or `Replicas`.
        tokenizer: `Tokenizer`.
        epochs: `Epochs` of the training corpus.
        prepared: `Preparation` of the model.
        guide: `TranslationModel` on whose alignments the attention is trained, or None.
        teacher: `training.ways.gradient.teacher.Teacher` of the model, or None.
        valid: `EncodedCorpus` for validation.
        valid_lines: (source lines, target lines) of the validation text.
        training_text: `TrainingText` of a new run, or None.
    """

    requested: dict[str, Any]
    config: dict[str, Any]
    options: dict[str, Any]
    directory: ModelDirectory
    companion: ModelDirectory | None
    is_new: bool
    devices: OneDevice
    tokenizer: Tokenizer
    epochs: Epochs
    prepared: Preparation
    guide: Any
    teacher: Any
    valid: EncodedCorpus
    valid_lines: tuple[list, list]
    training_text: Any = None

    @property
    def update(self):
        """The subclass of `Update` that trains the model."""
        return update_of(self.config["model"], self.options)

    def with_options(self, **options):
        """Returns a copy of the run with other values of some training options."""
        options = {**self.options, **options}
        recorded = {**self.config, "options": self.update.recorded(options)}
        return self._replace(options=options, config=recorded)


def begin(run):
    """Writes the directory of a new run, or completes the configuration of a resumed run.

    Raises:
        UserError: --max_minutes are over before a new run begins.
    """
    if run.is_new:
        limit, took = run.options["max_minutes"], (time.monotonic() - quiet.BEGAN) / 60
        if limit and took > limit:  # The directory would keep the pace of a run without updates.
            raise UserError(
                f"--max_minutes={limit:g}: starting took {took:.1f} minutes, which left no time "
                "for an update; give more"
            )
        record = run.training_text.text() if run.training_text else ""
        run.directory.start(run.config, run.tokenizer, record)
    elif run.devices.is_chief:
        run.directory.complete_config(**{n: run.config[n] for n in UNNOTED if n in run.config})
    if run.devices.is_chief:
        run.devices.wait_for_workers(run.directory, run.requested)


def update_to_try(run):
    """Returns the update of a fresh model on one device, for measurements before a run."""
    alone = run._replace(devices=OneDevice())
    model = model_of(run.config, PRECISIONS[run.options["precision"]])
    run.prepared.fill(model)
    return run.update.make(alone, model)


def why_untimed(run):
    """Returns the reason why updates of a run cannot be timed before it, or an empty text."""
    if not run.update.takes_batches:
        return f"--update={run.options['update']} trains without gradients"
    if isinstance(run.devices.strategy, tf.distribute.TPUStrategy):
        return "updates on a TPU are not timed"  # The host's processor would make them.
    return ""


def seconds_an_update(run, duration):
    """Returns mean seconds of an update of a fresh model; as `pace.seconds_an_update`.

    Several devices take about as long as one, because each has a batch and, as long as there are
    enough, cores of its own. XLA would compile for each new shape first, so it is left out.
    """
    # The fall of the rate is chosen next, and the rate does not change the time.
    update = update_to_try(run.with_options(schedule="constant", jit_compile=False))
    batches = dataset_of(run.epochs.corpus_of(0), run.epochs.first)
    seconds = pace.seconds_an_update(update, batches, run.options["accumulate_steps"], duration)
    del update
    gc.collect()  # Two models at once may be too much for an accelerator.
    return seconds * max(1.0, run.devices.num_local / num_cores())


def print_plan(run):
    """Prints a plan of the first epoch, and the time and memory that its updates take."""
    epochs = run.epochs
    corpus = epochs.corpus_of(0)
    if not run.update.takes_batches:
        lines = run.update.describe(run), plan_report.examples(corpus, run.tokenizer, epochs.first)
        console.write_result(*itertools.chain(*lines))
        return
    update = update_to_try(run)
    lines = plan_report.report(
        corpus,
        run.tokenizer,
        epochs.batching,
        epochs.first,
        num_parameters=update.model.count_params(),
    )
    for line in lines:
        console.write_result(line)
    batches = dataset_of(corpus, epochs.first)
    seconds = pace.seconds_an_update(update, batches, run.options["accumulate_steps"], _TIMED)
    for line in _duration(run, seconds):
        console.write_result(line)
    lengths = [side.lengths for side in corpus]
    for line in memory.report(update, largest_shape(epochs.first, *lengths)):
        console.write_result(line)
    del update
    gc.collect()
    for line in _precisions(run, seconds):
        console.write_result(line)


def _duration(run, seconds):
    """Yields lines about the time that training takes, with `seconds` for an update."""
    epoch = seconds * run.epochs.num_updates(run.options["accumulate_steps"])
    yield f"time: about {seconds:.3g} s per update on one device, {epoch:,.0f} s per epoch"
    if run.options["max_steps"]:
        count = run.options["max_steps"]
        minutes = count * seconds / 60
        yield f"    --max_steps={count} takes about {minutes:,.0f} minutes; validation comes on top"
    if run.options["max_minutes"]:
        minutes = run.options["max_minutes"]
        count = 60 * minutes / epoch
        yield f"    --max_minutes={minutes:g} is time for about {count:.2g} epochs, less validation"


def _precisions(run, seconds):
    """Yields a line about bfloat16, unless `training.opening` has printed it."""
    chosen_now = run.is_new and run.requested["options"]["precision"] == AUTO
    if chosen_now or why_untimed(run):
        return
    measured = {run.options["precision"]: seconds}
    for name in ("float32", "bfloat16"):
        if name not in measured:
            measured[name] = seconds_an_update(run.with_options(precision=name), _TIMED)
    yield comparison(run.options["precision"], measured)


def make_trainer(run):
    """Makes the model, update and evaluator of a run that has begun; returns its `Trainer`."""
    options = run.options
    keras.utils.set_random_seed(options["seed"])
    with run.devices.scope():
        model = run.directory.new_model(PRECISIONS[options["precision"]])
        if options["init_from"] and not run.directory.checkpoint_steps():
            fine_tuning.start(model, run.tokenizer, options["init_from"])
        run.prepared.fill(model)
        update = run.update.make(run, model)
    evaluator = Evaluator(
        update,
        Translator(model, run.tokenizer, beam_size=1, batch_size=64),
        run.valid,
        *(lines[: options["bleu_lines"]] for lines in run.valid_lines),
        max_tokens=run.epochs.batching.max_tokens,
        tokenize=options["tokenize"],
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
        update,
        run.epochs,
        evaluator,
        limits,
        keep_best_by=options["keep_best_by"],
        accumulate_steps=options["accumulate_steps"],
        began=quiet.BEGAN,
        devices=run.devices,
        penalty_choice=penalty_choice if penalty_choice.is_possible else None,
    )
