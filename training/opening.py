"""Opens a run: starts the devices, reads the text, and compares it with the model directory."""

import time

from nmt_zoo import models
from nmt_zoo.command_line import quiet
from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import same_paths
from nmt_zoo.configuration.options import AUTO, BY_NAME, DEFAULTS, LIMITS, PATHS
from nmt_zoo.data_pipeline.batching import Batching
from nmt_zoo.data_pipeline.mixing import parse_mixture
from nmt_zoo.data_pipeline.text_form import is_blank
from nmt_zoo.data_pipeline.tokenization.altered_pairs import AlteredPairs
from nmt_zoo.data_pipeline.tokenization.bpe_dropout import BpeDropout
from nmt_zoo.data_pipeline.tokenization.epoch_text import EpochText
from nmt_zoo.decoding.scores import USUAL, bleu_tokenizer, check_bleu_tokenizer
from nmt_zoo.decoding.text.training_text import TrainingText
from nmt_zoo.model_directory.combined_models import (
    check_same_tokenizer,
    load_guide,
    model_directories,
)
from nmt_zoo.model_directory.directory import ModelDirectory, check_model
from nmt_zoo.training import pace, recipes
from nmt_zoo.training.corpus.epochs import Epochs
from nmt_zoo.training.corpus.preparation import prepare
from nmt_zoo.training.corpus.texts import open_text, print_faults
from nmt_zoo.training.devices.strategies import start_devices
from nmt_zoo.training.run import UNNOTED, Run, seconds_an_update, why_untimed
from nmt_zoo.training.ways.catalogue import update_of
from nmt_zoo.training.ways.gradient.precision import comparison, faster
from nmt_zoo.training.ways.gradient.teacher import make_teacher, teacher_tokenizer, teacher_weights


def open_run(request):
    """Starts the devices, reads the text, and opens the model directory or checks that it is free.

    Args:
        request: `training.request.Request`.

    Returns:
        `Run`; None if the run in the directory has nothing left to do.

    Raises:
        UserError: flags, text and directory do not fit together.
    """
    options, update = request.options, update_of(request.model, request.options)
    check_bleu_tokenizer(options["tokenize"])
    if request.dry_run and not update.has_plan:
        raise UserError(
            f"--dry_run plans training in steps, but {request.model} is counted; leave it out"
        )
    devices = start_devices(
        options, request.distribution, request.num_replicas, request.tpu_address
    )
    text = open_text(request.model, request.splits, options)
    requested = _requested(request, update, text)
    directory = devices.directory(request.model_dir)
    if not (request.dry_run or devices.is_chief):
        devices.wait_for_workers(directory, requested)
    is_new = not directory.exists()
    if is_new:
        _check_passes(requested)
        directory.check_free()
        if devices.is_chief:
            print_faults(request.model, request.given, own=request.dataset == "files")
    else:
        options = _resumed_options(options, request.kept, directory)
    options = recipes.completed(options)
    config = {**requested, "options": update.recorded(options), **_start(options, directory)}
    companion = update.companion(directory, config)
    if not is_new:
        check_same_run(directory, config)
        if update.is_complete(directory):
            return None
        if not request.dry_run:
            directory.lock.acquire()
    tokenizer = directory.tokenizer() if not is_new else _new_tokenizer(config, options, text)
    config = {**config, **_sizes(tokenizer)}
    with devices.scope():
        guide = _load_guide(options, config, tokenizer)
        teacher = make_teacher(options)
    _check_bleu(options, text.valid)
    encoded = text.encode(tokenizer, options, request.data_dir)
    if is_new and len(encoded.sizes) == 1:
        _check_alone(options)
    epochs = _make_epochs(encoded, tokenizer, options, devices, request.data_dir)
    prepared = prepare(encoded.corpus, config)
    run = Run(
        requested=requested,
        config={**config, "sizes": prepared.sizes},
        options=options,
        directory=directory,
        companion=companion,
        is_new=is_new,
        devices=devices,
        tokenizer=tokenizer,
        epochs=epochs,
        prepared=prepared,
        guide=guide,
        teacher=teacher,
        valid=encoded.valid,
        valid_lines=text.valid,
        training_text=_record(text, options) if is_new and not request.dry_run else None,
    )
    return _with_choices(run, request.undecided if is_new else [])


def _requested(request, update, text):
    """Returns the configuration of a run as its flags ask for it, by name.

    Args:
        request: `training.request.Request`.
        update: the way of training, as `training.ways.update_of` returns it.
        text: the text, as `training.corpus.texts.open_text` returns it.
    """
    options = request.options
    return {
        "model": request.model,
        "settings": request.settings,
        "tokenizer": options["tokenizer"],
        "dataset": request.dataset,
        **text.hashes(),
        **_guide_hash(options),
        **teacher_weights(options),
        "options": update.recorded(options),
    }


def _with_choices(run, undecided):
    """Returns a `Run` with the options that need its text and its speed to be chosen.

    Args:
        run: `Run`.
        undecided: names of the options of its pace.
    """
    seconds = None
    if run.options["tokenize"] == AUTO:
        tokenize, reason = bleu_tokenizer([run.tokenizer.target_words(run.valid_lines[1])])
        run = run.with_options(tokenize=tokenize)
        if reason and run.options["bleu_lines"]:
            print(f"validation {reason}", flush=True)
    if run.options["precision"] == AUTO:
        precision, seconds = choose_precision(run)
        run = run.with_options(precision=precision)
    return run.with_options(**choose_pace(run, undecided, seconds))


def _check_alone(options):
    """Raises `UserError` at an option that chooses the shares of several corpora."""
    for name in _OF_MIXTURES:
        if options[name] != DEFAULTS[name]:
            given = f"--{name}={options[name]}".removesuffix(".0")
            raise UserError(
                f"{given} chooses the shares of several corpora, and there is one; leave it out"
            )


def _check_bleu(options, valid):
    """Raises `UserError` if BLEU is to choose weights and no validation line has a reference."""
    references = valid[1][: options["bleu_lines"]]
    if options["keep_best_by"] == "bleu" and all(map(is_blank, references)):
        raise UserError(
            f"--keep_best_by=bleu: the first {len(references)} target lines of the validation text "
            "are blank, so BLEU cannot be computed; raise --bleu_lines, or leave it out"
        )


def _check_passes(config):
    """Raises `UserError` if R-Drop would compare two equal passes of the model."""
    settings = models.preset_settings(config["model"], **config["settings"])
    rates = {name: rate for name, rate in settings.items() if "dropout" in name}
    if config["options"].get("r_drop") and not any(rates.values()):
        remedy = ", or add " + " or ".join(f"--set {name}=0.1" for name in rates) if rates else ""
        raise UserError(
            f"--r_drop={config['options']['r_drop']:g}: {config['model']} has no dropout here, so "
            f"both passes over a batch would be the same; leave it out{remedy}"
        )


def _resumed_options(options, names, directory):
    """Returns the options of a resumed run; prints the values that it keeps from its beginning."""
    # Counted models did not record them, nor did earlier versions.
    names_of_old = ("precision", "bpe_dropout", "tokenize", "copy_share")
    unrecorded = {name: _UNRECORDED[name] for name in names_of_old}
    earlier = {**unrecorded, **directory.config()["options"]}
    if options["tokenize"] == AUTO:  # The packages that the choice needs may be gone by now.
        options = {**options, "tokenize": earlier["tokenize"]}
    found = pace.resumed(options, names, earlier)
    kept = [f"--{name}={found[name]}" for name in names if found[name] != options[name]]
    if kept:
        print(f"options as when the run began: {', '.join(kept)}", flush=True)
    return found


def check_new_model(preset, settings, vocab_sizes=(1000, 1000)):
    """Raises the error of a model that cannot be made, before the long work.

    Args:
        preset: name of the model.
        settings: name -> value, its settings.
        vocab_sizes: (source, target) number of entries; the default while they are not known.

    Raises:
        SettingError: settings are out of range or cannot be combined.
        UserError: the weights do not fit into memory.
    """
    unknown = dict.fromkeys(models.model_class(preset).corpus_sizes, 1)
    sizes = {"vocab_sizes": vocab_sizes, "sizes": unknown}
    check_model({"model": preset, "settings": settings, **sizes})


def _new_tokenizer(config, options, text):
    """Returns the `Tokenizer` of a new run; checks its model before the long work."""
    tokenizer = of_teacher = teacher_tokenizer(options["teacher"]) if options["teacher"] else None
    if options["init_from"] and not options["new_vocabulary"]:
        directory = ModelDirectory(options["init_from"])
        tokenizer = directory.tokenizer()
        if of_teacher:
            first = model_directories(options["teacher"])[0]
            check_same_tokenizer(tokenizer, directory, of_teacher, first)
    tokenizer = tokenizer or text.train_tokenizer(options)
    _check_shared(config, tokenizer)
    check_new_model(config["model"], config["settings"], _sizes(tokenizer)["vocab_sizes"])
    return tokenizer


def _check_shared(config, tokenizer):
    """Raises `UserError` if words of two vocabularies would share their vectors.

    Vocabularies of equal size need not have the same entries, so the model alone cannot know.
    """
    settings = models.preset_settings(config["model"], **config["settings"])
    if settings.get("tie_embeddings") == "all" and not tokenizer.shared:
        raise UserError(
            f"tie_embeddings=all needs one vocabulary for both sides, and --tokenizer="
            f"{tokenizer.kind} has one for each; use tie_embeddings=target or a shared tokenizer "
            "such as bpe"
        )


def _guide_hash(options):
    """Returns the entry of config.json that identifies the weights of --guide, if there is one."""
    path = options["guide"]
    return {"guide_weights": ModelDirectory(path).weights_hash()} if path else {}


def _start(options, directory):
    """Returns the entry of config.json that identifies the weights of --init_from, if it is needed.

    A run that has made its first checkpoint needs them no longer.
    """
    path = options["init_from"]
    if not path or (directory.exists() and directory.checkpoint_steps()):
        return {}
    origin = ModelDirectory(path)
    origin.read_best()  # Damage is found before the long work.
    return {"init_weights": origin.weights_hash()}


def _record(text, options):
    """Returns the `TrainingText` of a new run, or None; includes the text of --init_from."""
    record = text.record()
    if record and options["init_from"]:
        path = ModelDirectory(options["init_from"]).training_text_path
        # Of a model without a record it is not known which text it has seen.
        record = (earlier := TrainingText.read(path)) and record.joined(earlier)
    return record


def _load_guide(options, config, tokenizer):
    """Returns the model of --guide, or None."""
    path = options["guide"]
    if not path:
        return None
    model = models.sketch(config["model"], *config["vocab_sizes"], **config["settings"])
    if not model.has_alignment:
        raise UserError(
            f"--guide={path}: {config['model']} with these settings has no attention that could be "
            "guided; leave it out"
        )
    names = {"bpe": ["num_pieces"], "word": ["max_words", "min_word_count"]}.get(tokenizer.kind, [])
    names = ["tokenizer", *(["vocab_file"] if options["vocab_file"] else names), "normalise"]
    flags = " ".join(f"--{name}={options[name]}" for name in names)
    return load_guide(
        ModelDirectory(path), tokenizer, f"train it on the text of this run with {flags}"
    )


def _sizes(tokenizer):
    """Returns the entries of config.json that describe a tokenizer."""
    sizes = [len(tokenizer.source), len(tokenizer.target)]
    return {"tokenizer": tokenizer.kind, "vocab_sizes": sizes}


def _make_epochs(encoded, tokenizer, options, devices, data_dir):
    """Returns the `Epochs` of an `Encoded` text."""
    mixed = parse_mixture(encoded.sizes, options["corpus_weights"], options["temperature"])
    batching = Batching(
        options["max_tokens_per_batch"],
        options["max_sentences_per_batch"],
        num_workers=devices.num_replicas,
        largest_first=options["largest_batch_first"],
        mixture=mixed,
    )
    text = _epoch_text(tokenizer, options)
    epochs = Epochs(encoded.corpus, batching, options["seed"], text, data_dir)
    if options["pad_to_bucket"]:
        epochs.restrict_shapes()
    return epochs


def _epoch_text(tokenizer, options):
    """Returns the `EpochText` of a run; None if every epoch has the same ids."""
    altered = dropout = None
    common = options["seed"], options["max_length"]
    if options["copy_share"]:
        altered = AlteredPairs(tokenizer, options["copy_share"], *common)
    if options["bpe_dropout"]:
        sides = {"source": (0,), "target": (1,)}.get(options["bpe_dropout_side"], (0, 1))
        dropout = BpeDropout(tokenizer, options["bpe_dropout"], *common, sides)
    return EpochText(options["max_length"], altered, dropout) if altered or dropout else None


NAMED = (
    *("model", "dataset", "training_text", "validation_text", "corpus_lines", "reverse_of"),
    *("guide_weights", "teacher_weights", "init_weights"),
)
_OF_MIXTURES = ("corpus_weights", "temperature")
# Values of the options that a run did not record.
_UNRECORDED = {**DEFAULTS, "tokenize": USUAL}


def check_same_run(directory, config):
    """Compares a run with the one in the directory.

    Raises:
        UserError: flags or text differ from that run's.
    """

    def flat(config):
        settings = models.preset_settings(config["model"], **config["settings"])
        named = {name: config.get(name) for name in NAMED}
        return {**named, **settings, **_UNRECORDED, **config["options"]}

    was, now = flat(directory.config()), flat(config)
    may_change = {*LIMITS, *(name for name in PATHS if same_paths(was[name], now[name]))}
    may_change |= {n for n, o in BY_NAME.items() if not (o.applies(was) or o.applies(now))}
    if was["keep_best_by"] == "bleu":
        may_change.discard("bleu_lines")  # BLEU on other lines could not be compared.
    if all(was[name] == DEFAULTS[name] for name in _OF_MIXTURES):
        may_change.add("corpus_lines")
    if now["init_weights"] is None:  # The run has weights of its own.
        may_change.add("init_weights")
    for name, what in UNNOTED.items():
        if was[name] is None and name not in may_change:
            may_change.add(name)
            print(
                f"{directory.path} was begun by an earlier version, which did not note {what}: "
                "whether it has changed cannot be checked"
            )
    changes = [
        f"{name} was {was.get(name)!r}, is {now.get(name)!r}"
        for name in {**was, **now}
        if name not in may_change and was.get(name) != now.get(name)
    ]
    if changes:
        raise UserError(
            f"{directory.path} holds a run with other settings: {', '.join(changes)}; give the "
            "same flags to resume it, or another --model_dir"
        )


def choose_precision(run):
    """Chooses and prints the precision of a new run that leaves the choice to this function.

    Returns:
        (name of a precision, seconds of an update with it; None if updates are not timed).
    """
    if reason := why_untimed(run):
        print(f"precision: float32, because {reason}", flush=True)
        return "float32", None
    duration = _seconds_for_timing(run) / 2
    seconds = {
        name: seconds_an_update(run.with_options(precision=name), duration)
        for name in ("float32", "bfloat16")
    }
    precision = faster(seconds)
    print(comparison(precision, seconds), flush=True)
    return precision, seconds[precision]


def choose_pace(run, undecided, seconds=None):
    """Chooses the undecided options of a new run; prints them, and the time that it takes.

    Args:
        run: `Run`.
        undecided: names of options.
        seconds: seconds of an update; None if not measured.

    Returns:
        name -> value.
    """
    if not undecided:
        return {}
    options = run.options
    limit = 60 * options["max_minutes"]
    updates = run.epochs.num_updates(options["accumulate_steps"])
    is_timed = limit or pace.may_be_long(options, updates)
    if is_timed and not (seconds or why_untimed(run)):
        seconds = seconds_an_update(run, _seconds_for_timing(run))
    left = max(limit - (time.monotonic() - quiet.BEGAN), 0.0)
    outlook = pace.outlook(options, updates, left, seconds if limit else None)
    chosen = pace.choose(options, undecided, outlook)
    lines = pace.report(chosen, options, outlook)
    if seconds and not limit:
        lines += pace.announcement(outlook, seconds)
    for line in lines:
        print(line, flush=True)
    if "decay_steps" in chosen:
        run.update.check(run.config["model"], {**options, **chosen}, {})
        chosen["max_steps"] = chosen["decay_steps"]  # Further updates would change nothing.
    return chosen


def _seconds_for_timing(run):
    limit = 60 * run.options["max_minutes"]
    return min(pace.MOST_TIMED, limit / 50) if limit else pace.MOST_TIMED
