"""Sets up a training run, from what a user asks for to its trainer, in the order of this file."""

import time
from pathlib import Path
from typing import Any, NamedTuple

import keras

from nmt_zoo import models
from nmt_zoo.common import own_code, process
from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import same_paths
from nmt_zoo.configuration import recipes, resolver
from nmt_zoo.configuration.options import BY_NAME, DEFAULTS
from nmt_zoo.configuration.resolver import BEGUN, FLAG, MODEL, Layer, Settled
from nmt_zoo.data_pipeline.encoded import EncodedCorpus
from nmt_zoo.data_pipeline.text_form import is_blank
from nmt_zoo.data_pipeline.tokenization.languages import Languages
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.decoding.scores import USUAL, check_bleu_tokenizer, remarks
from nmt_zoo.decoding.text.training_text import TrainingText
from nmt_zoo.decoding.translator import Translator
from nmt_zoo.model_directory.combined_models import check_same_tokenizer, load_guide
from nmt_zoo.model_directory.directory import ModelDirectory, check_model, model_directories
from nmt_zoo.training import fine_tuning, pace
from nmt_zoo.training.corpus.epochs import Epochs, make_epochs
from nmt_zoo.training.corpus.texts import PairText, TargetText, open_text, print_faults
from nmt_zoo.training.devices.one_device import OneDevice
from nmt_zoo.training.devices.strategies import start_devices
from nmt_zoo.training.loop.trainer import Trainer
from nmt_zoo.training.validation.choices import head_choice, penalty_choice
from nmt_zoo.training.validation.evaluation import Evaluator
from nmt_zoo.training.validation.temperature import temperature_choice
from nmt_zoo.training.ways.base import WayOfTraining
from nmt_zoo.training.ways.catalogue import check_options, way_of
from nmt_zoo.training.ways.gradient import teacher
from nmt_zoo.training.ways.gradient.precision import PRECISIONS
from nmt_zoo.training.ways.preparation import Preparation, prepare

# Entries of config.json, besides options and settings, that a resumed run must have again.
_NAMED = (
    *("model", "dataset", "training_text", "validation_text", "corpus_lines", "reverse_of"),
    *("guide_weights", "teacher_weights", "init_weights"),
)
_OF_MIXTURES = ("corpus_weights", "temperature")
_CHECKSUMS = ("_text", "_weights")  # Ends of the names of entries that mean nothing to people.


class RunConfig(NamedTuple):
    """The run that a user asks for."""

    model: str  # name of a preset
    settings: Settled  # of the model
    options: Settled  # of training
    dataset: str  # name of a corpus, or "files"
    splits: dict[str, Any]  # {"train": `Split`, "valid": `Split`}
    whole_splits: dict[str, Any]  # as `splits`, before parts of the training text are held out
    model_dir: str
    data_dir: str  # folder of the caches
    distribution: str = "none"  # of `training.devices.strategies.KINDS`
    num_replicas: int = 0  # mirrored devices; 0: all GPUs
    dry_run: bool = False

    @property
    def way(self) -> type[WayOfTraining]:
        """The way of training of the model."""
        return way_of(self.model, self.options)


def resolve(
    model: str,
    dataset: str,
    options: dict[str, Any],
    settings: dict[str, Any],
    *,
    size: recipes.TextSize | None,
    replicas: int | None,
) -> tuple[Settled, Settled]:
    """Settles (options, settings) of a new run, from those that the user gave.

    `dataset` is the name of a corpus, or "files". `size` is None for a corpus with a recipe of its
    own; `replicas` is the number of replicas that share an update; None if it is not known yet.

    Raises:
        UserError, SettingError: the options or settings do not fit together.
    """
    of_vocabulary, inherited = {}, {}
    if options.get("init_from"):
        of_vocabulary, inherited = fine_tuning.inherit(
            options["init_from"], model, options, settings
        )
    elif options.get("teacher"):
        of_vocabulary = teacher.vocabulary_options(options["teacher"], options)
    resolved = resolver.options_of(
        model, dataset, options, size=size, origin=of_vocabulary, replicas=replicas
    )
    check_bleu_tokenizer(resolved["tokenize"])
    if resolved["init_from"] and fine_tuning.is_imported(resolved["init_from"]):
        size = None  # Its own dropout suits it, whatever the size of the new text.
    resolved_settings = resolver.settings_of(
        model, dataset, settings, resolved, size=size, origin=inherited
    )
    # Before long work; the vocabularies are not known yet.
    _sketch(model, resolved_settings.beyond(MODEL), (1000, 1000))
    check_options(model, resolved, options, pace.undecided(resolved))
    return resolved, resolved_settings


def _sketch(model, settings, vocab_sizes):
    """Returns the model of a preset without its weights, as `check_model`."""
    sizes = dict.fromkeys(models.model_class(model).corpus_sizes, 1)  # Unknown so far.
    config = {"model": model, "settings": settings, "vocab_sizes": vocab_sizes, "sizes": sizes}
    return check_model(config)


def resolve_resumed(
    begun: dict[str, Any], options: dict[str, Any], settings: dict[str, Any], model_dir: str
) -> tuple[Settled, Settled]:
    """Settles (options, settings) of a run that is resumed; prints those that it keeps.

    `begun` is the configuration of the run; options and settings are those that the user gives now.

    Raises:
        UserError: a flag differs from the beginning of the run and may not.
    """
    known = {name: value for name, value in begun["options"].items() if name in DEFAULTS}
    resolved = resolver.options_of_resumed(begun["model"], options, known)
    of_model = Layer(MODEL, models.preset_settings(begun["model"]))
    resolved_settings = Settled(of_model, Layer(BEGUN, begun["settings"]), Layer(FLAG, settings))
    changed = resolved.changed(FLAG)
    check_options(begun["model"], resolved, {name: resolved[name] for name in changed})
    may_change = {
        name
        for name, both in changed.items()
        if BY_NAME[name].resumable or (BY_NAME[name].is_path and same_paths(*both))
    }
    if resolved["keep_best_by"] == "bleu":
        may_change.discard("bleu_lines")  # BLEU on other lines could not be compared.
    fixed = {name: both for name, both in changed.items() if name not in may_change}
    check_unchanged(model_dir, {**fixed, **resolved_settings.changed(FLAG)})
    from_begin = [name for name in resolved.changed(BEGUN) if resolved.source(name) == BEGUN]
    if from_begin:
        shown = ", ".join(f"--{name}={resolved[name]}" for name in from_begin)
        print(f"options as when the run began: {shown}", flush=True)
    if gone := [n for n, value in begun["options"].items() if value and n not in known]:
        shown = ", ".join(f"--{name}={begun['options'][name]}" for name in gone)
        print(f"resumed without options that this version does not have: {shown}", flush=True)
    return resolved, resolved_settings


def check_unchanged(model_dir: str | Path, changed: dict[str, tuple]) -> None:
    """Raises `UserError` if a run is to be resumed with other values than it began with.

    `changed` has (value at its beginning, value now) by name.
    """
    if changed:
        shown = ", ".join(
            f"another {name.replace('_', ' ')}"
            if name.endswith(_CHECKSUMS)
            else f"{name} was {was!r}, is {now!r}"
            for name, (was, now) in changed.items()
        )
        raise UserError(
            f"{model_dir} holds a run with other settings: {shown}; give the same flags and text "
            "to resume it, or another --model_dir"
        )


class Run(NamedTuple):
    """All objects that a run is made of; nothing changes it."""

    run_config: RunConfig
    requested: dict[str, Any]  # as the flags ask for it, by which processes compare their runs
    config: dict[str, Any]  # of the model directory
    directory: ModelDirectory
    companion: ModelDirectory | None  # second directory that the run writes
    is_new: bool  # whether the run begins now, rather than being resumed
    devices: OneDevice
    text: PairText | TargetText
    tokenizer: Tokenizer
    epochs: Epochs  # of the training corpus
    valid: EncodedCorpus
    prepared: Preparation
    guide: Any  # `TranslationModel` on whose alignments the attention is trained, or None
    teacher: Any  # `training.ways.gradient.teacher.Teacher` of the model, or None
    training_text: TrainingText | None = None  # of a new run

    @property
    def options(self) -> Settled:
        """The training options, including those that `config` leaves out."""
        return self.run_config.options

    @property
    def way(self) -> type[WayOfTraining]:
        """The way of training of the model."""
        return self.run_config.way

    def with_options(self, source: str, **values: Any) -> "Run":
        """Returns a copy of the run with other values of some training options."""
        options = self.options.over(source, values)
        config = {**self.config, "options": self.way.recorded(dict(options))}
        return self._replace(run_config=self.run_config._replace(options=options), config=config)


def open_run(run_config: RunConfig) -> Run | None:
    """Starts the devices, reads the text, and opens the model directory or checks that it is free.

    Returns None if the run in the directory has nothing left to do.

    Raises:
        UserError: flags, text and directory do not fit together.
    """
    devices = start_devices(run_config.options, run_config.distribution, run_config.num_replicas)
    text = open_text(run_config.model, run_config.splits, run_config.options)
    directory = devices.directory(run_config.model_dir)
    requested = _requested(run_config, text)
    if not (run_config.dry_run or devices.is_chief):
        devices.wait_for_workers(directory, requested)
        flags = run_config.options.of(FLAG), run_config.settings.of(FLAG)
        begun = directory.config()  # The chief has begun the run.
        options, settings = resolve_resumed(begun, *flags, run_config.model_dir)
        run_config = run_config._replace(options=options, settings=settings)
    options, way, is_new = run_config.options, run_config.way, not directory.exists()
    config = {**requested, "options": way.recorded(dict(options)), **_origin(options, directory)}
    companion = way.companion(directory, config)
    if is_new:
        directory.check_free()
        if devices.is_chief:
            print_faults(run_config)
    else:
        check_same_run(directory, config)
        if way.is_complete(directory):
            return None
        if not run_config.dry_run:
            directory.lock.acquire()
    tokenizer = _tokenizer(directory, config, options, text)
    sizes = [len(tokenizer.source), len(tokenizer.target)]
    config |= {"tokenizer": tokenizer.kind, "vocab_sizes": sizes}
    if is_new:
        _check_new_model(config, options, text.valid[1])
    with devices.scope():
        guide = options["guide"]
        guide = load_guide(ModelDirectory(guide), tokenizer, directory) if guide else None
        of_teacher = teacher.make_teacher(options)
    encoded = text.encode(tokenizer, options, run_config.data_dir)
    epochs = make_epochs(encoded, tokenizer, options, devices.num_replicas, run_config.data_dir)
    is_resumed = not is_new and bool(directory.checkpoint_steps())
    prepared = prepare(encoded.corpus, config, directory if is_resumed else None)
    run = Run(
        run_config=run_config,
        requested=requested,
        config={**config, "sizes": prepared.sizes},
        directory=directory,
        companion=companion,
        is_new=is_new,
        devices=devices,
        text=text,
        tokenizer=tokenizer,
        epochs=epochs,
        valid=encoded.valid,
        prepared=prepared,
        guide=guide,
        teacher=of_teacher,
        training_text=text.record(options) if is_new and not run_config.dry_run else None,
    )
    return pace.decide(run) if is_new else run


def _requested(run_config, text):
    """Returns the configuration of a run as its flags ask for it, by name."""
    options = run_config.options
    tags = getattr(text, "tags", ())
    guide, teachers = options["guide"], options["teacher"]
    of_teachers = [d.weights_hash() for d in model_directories(teachers)] if teachers else []
    return {
        "model": run_config.model,
        "settings": run_config.settings.beyond(MODEL),
        "tokenizer": options["tokenizer"],
        "dataset": run_config.dataset,
        **({"languages": Languages.of_tags(tags)._asdict()} if tags else {}),
        **own_code.record(),
        **text.hashes(),
        **({"guide_weights": ModelDirectory(guide).weights_hash()} if guide else {}),
        **({"teacher_weights": ",".join(of_teachers)} if teachers else {}),
        "options": run_config.way.recorded(dict(options)),
    }


def _origin(options, directory):
    """Returns the entries of config.json that come from --init_from, if it is still needed.

    They identify its weights, and say where an imported model is from, and its languages. A run
    that has made its first checkpoint needs them no longer.
    """
    path = options["init_from"]
    if not path or (directory.exists() and directory.checkpoint_steps()):
        return {}
    origin = ModelDirectory(path)
    origin.read_best()  # Damage is found before the long work.
    config, name = origin.config(), "context_sentences"
    if config["options"][name] != options[name]:
        print(
            f"--{name}={options[name]}: the model of --init_from was trained with "
            f"{config['options'][name]}",
            flush=True,
        )
    names = ("imported",) if options["new_vocabulary"] else ("imported", "languages")
    entries = {name: config[name] for name in names if name in config}
    return {"init_weights": origin.weights_hash(), **entries}


def check_same_run(directory: ModelDirectory, config: dict[str, Any]) -> None:
    """Raises `UserError` if text or models that are read differ from the run in the directory.

    Flags have been compared before.
    """
    was = directory.config()
    may_change = set()
    is_plain = all(was["options"].get(n, DEFAULTS[n]) == DEFAULTS[n] for n in _OF_MIXTURES)
    if is_plain and was.get("training_text") == config.get("training_text"):
        may_change.add("corpus_lines")
    if config.get("init_weights") is None:  # The run has weights of its own.
        may_change.add("init_weights")
    check_unchanged(
        directory.path,
        {
            name: (was.get(name), config.get(name))
            for name in _NAMED
            if name not in may_change and was.get(name) != config.get(name)
        },
    )


def _tokenizer(directory, config, options, text):
    """Returns the `Tokenizer` of a run: that of its directory, of another model, or a new one.

    Raises:
        UserError: words of two vocabularies would share their vectors. Vocabularies of equal size
            need not have the same entries, so the model alone cannot know.
    """
    if directory.exists():
        # The text of a model of several languages has their tags itself.
        return directory.tokenizer(None if options["target_languages"] else ("", ""))
    origins = model_directories(options["teacher"]) if options["teacher"] else []
    if options["init_from"] and not options["new_vocabulary"]:
        origins = [*origins, ModelDirectory(options["init_from"])]
    tokenizer = origins[0].tokenizer() if origins else text.train_tokenizer(options)
    for other in origins[1:]:
        check_same_tokenizer(other.tokenizer(), other, tokenizer, origins[0])
    settings = models.preset_settings(config["model"], **config["settings"])
    if settings.get("tie_embeddings") == "all" and not tokenizer.shared:
        raise UserError(
            f"tie_embeddings=all needs one vocabulary for both sides, and --tokenizer="
            f"{tokenizer.kind} has one for each; use tie_embeddings=target or a shared tokenizer "
            "such as bpe"
        )
    return tokenizer


def _check_new_model(config, options, references):
    """Raises `UserError` or `SettingError` if a new run's model cannot be trained as asked for.

    `references` are the target lines of the validation text.
    """
    sketch = _sketch(config["model"], config["settings"], config["vocab_sizes"])
    if options["guide"] and not sketch.has_alignment:
        raise UserError(
            f"--guide={options['guide']}: {config['model']} with these settings has no attention "
            "that could be guided; leave it out"
        )
    references = references[: options["bleu_lines"]]
    if options["keep_best_by"] == "bleu" and all(map(is_blank, references)):
        raise UserError(
            f"--keep_best_by=bleu: the first {len(references)} target lines of the validation text "
            "are blank, so BLEU cannot be computed; raise --bleu_lines, or leave it out"
        )


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
    """Makes the model of a run that has begun, and what judges it; returns its `Trainer`."""
    options = run.options
    keras.utils.set_random_seed(options["seed"])
    with run.devices.scope():
        model = run.directory.new_model(PRECISIONS[options["precision"]])
        if options["init_from"] and not run.directory.checkpoint_steps():
            fine_tuning.start(model, run.tokenizer, options["init_from"])
        run.prepared.fill(model)
        way = run.way.of_run(run, model)
    lines = [side[: options["bleu_lines"]] for side in run.text.valid]
    evaluator = Evaluator(
        way,
        Translator.of(model, run.tokenizer, beam_size=1, batch_size=64),
        run.valid,
        *lines,
        max_tokens=run.epochs.batching.max_tokens,
        tokenize=options["tokenize"],
        names=run.text.valid_names,
    )
    # Without --bleu_lines nothing is to be translated.
    all_lines = run.text.valid if options["bleu_lines"] else ([], [])
    choices = {
        "how sure the model is": temperature_choice(model, run.tokenizer, run.text.valid),
        "the attention that aligns": head_choice(model, run.tokenizer, run.text.valid),
        "the length penalty": penalty_choice(model, run.tokenizer, all_lines, options["tokenize"]),
    }
    if run.devices.is_chief:
        references = run.tokenizer.target_words(lines[1])
        for line in remarks([references], is_usual=options["tokenize"] == USUAL):
            print(f"validation: {line}", flush=True)
    return Trainer(
        run.directory,
        way,
        run.epochs,
        evaluator,
        options,
        began=process.BEGAN,
        devices=run.devices,
        choices={name: choose for name, choose in choices.items() if choose},
    )
