"""Opens a run: starts the devices, reads the text, and compares it with the model directory."""

from typing import Any, NamedTuple

from nmt_zoo import models
from nmt_zoo.common import own_code
from nmt_zoo.common.errors import UserError
from nmt_zoo.configuration.options import DEFAULTS
from nmt_zoo.configuration.settled import MODEL
from nmt_zoo.data_pipeline.batching import Batching
from nmt_zoo.data_pipeline.mixing import parse_mixture
from nmt_zoo.data_pipeline.text_form import is_blank
from nmt_zoo.data_pipeline.tokenization.altered_pairs import AlteredPairs
from nmt_zoo.data_pipeline.tokenization.bpe_dropout import BpeDropout
from nmt_zoo.data_pipeline.tokenization.epoch_text import EpochText
from nmt_zoo.data_pipeline.tokenization.languages import Languages
from nmt_zoo.decoding.text.training_text import TrainingText
from nmt_zoo.model_directory.combined_models import check_same_tokenizer, load_guide
from nmt_zoo.model_directory.directory import ModelDirectory, model_directories
from nmt_zoo.training import timing
from nmt_zoo.training.corpus.epochs import Epochs
from nmt_zoo.training.corpus.texts import PairText, TargetText, open_text, print_faults
from nmt_zoo.training.devices.one_device import OneDevice
from nmt_zoo.training.devices.strategies import start_devices
from nmt_zoo.training.request import Request, check_new_model, check_unchanged
from nmt_zoo.training.run import Run
from nmt_zoo.training.ways.gradient.teacher import make_teacher, teacher_tokenizer, teacher_weights
from nmt_zoo.training.ways.preparation import prepare


class _Place(NamedTuple):
    """Where a run takes place: all that is known of it before its text is encoded."""

    request: Request
    devices: OneDevice
    text: PairText | TargetText
    directory: ModelDirectory  # locked if the run is resumed
    requested: dict[str, Any]  # as the flags ask for it
    config: dict[str, Any]  # with the weights that the run starts from
    companion: ModelDirectory | None  # second directory that the run writes
    is_new: bool


def open_run(request: Request) -> Run | None:
    """Starts the devices, reads the text, and opens the model directory or checks that it is free.

    Returns None if the run in the directory has nothing left to do.

    Raises:
        UserError: flags, text and directory do not fit together.
    """
    place = _open_place(request)
    if place is None:
        return None
    run = _make_run(place)
    return timing.decide(run) if run.is_new else run


def _open_place(request):
    """Opens the `_Place` of a run, and locks a directory that holds one; None if it is complete."""
    devices = start_devices(request.options, request.distribution, request.num_replicas)
    text = open_text(request.model, request.splits, request.options)
    directory = devices.directory(request.model_dir)
    requested = _configuration(request, text)
    if not (request.dry_run or devices.is_chief):
        devices.wait_for_workers(directory, requested)
        request = request.resuming(directory.config())  # The chief has begun the run.
    recorded = request.way.recorded(dict(request.options))
    config = {**requested, "options": recorded, **_start(request.options, directory)}
    companion = request.way.companion(directory, config)
    is_new = not directory.exists()
    if is_new:
        _check_passes(request)
        directory.check_free()
        if devices.is_chief:
            is_dataset = request.dataset != "files"
            print_faults(request.model, request.given, request.options, is_dataset=is_dataset)
    else:
        check_same_run(directory, config)
        if request.way.is_complete(directory):
            return None
        if not request.dry_run:
            directory.lock.acquire()
    return _Place(request, devices, text, directory, requested, config, companion, is_new)


def _configuration(request, text):
    """Returns the configuration of a run as its flags ask for it, by name."""
    options = request.options
    return {
        "model": request.model,
        "settings": request.settings.beyond(MODEL),
        "tokenizer": options["tokenizer"],
        "dataset": request.dataset,
        **_languages(text),
        **own_code.record(),
        **text.hashes(),
        **_guide_hash(options),
        **teacher_weights(options),
        "options": request.way.recorded(dict(options)),
    }


def _languages(text):
    """Returns the entry of config.json for a model of several languages."""
    tags = getattr(text, "tags", ())
    return {"languages": Languages.of_tags(tags)._asdict()} if tags else {}


def _make_run(place):
    """Encodes the text of a `_Place`, and returns its `Run`."""
    request, text, directory, devices = place.request, place.text, place.directory, place.devices
    options, is_new = request.options, place.is_new
    # The text of a model of several languages has their tags itself.
    languages = None if options["target_languages"] else ("", "")
    tokenizer = (
        _new_tokenizer(place.config, options, text) if is_new else directory.tokenizer(languages)
    )
    config = {**place.config, **_sizes(tokenizer)}
    with devices.scope():
        guide = _load_guide(options, config, tokenizer)
        teacher = make_teacher(options)
    _check_bleu(options, text.valid)
    encoded = text.encode(tokenizer, options, request.data_dir)
    if is_new and len(encoded.sizes) == 1:
        _check_alone(options)
    resumes = not is_new and directory.checkpoint_steps()
    prepared = prepare(
        encoded.corpus, config, directory.config().get("sizes", {}) if resumes else None
    )
    return Run(
        requested=place.requested,
        config={**config, "sizes": prepared.sizes},
        settings=request.settings,
        options=options,
        directory=directory,
        companion=place.companion,
        is_new=is_new,
        devices=devices,
        tokenizer=tokenizer,
        epochs=_make_epochs(encoded, tokenizer, options, devices, request.data_dir),
        prepared=prepared,
        guide=guide,
        teacher=teacher,
        valid=encoded.valid,
        valid_lines=text.valid,
        valid_names=text.valid_names,
        training_text=_record(text, options) if is_new and not request.dry_run else None,
    )


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


def _check_passes(request):
    """Raises `UserError` if R-Drop would compare two equal passes of the model."""
    options = request.options
    rates = {name: rate for name, rate in request.settings.items() if "dropout" in name}
    if options["r_drop"] and not any(rates.values()):
        remedy = ", or add " + " or ".join(f"--set {name}=0.1" for name in rates) if rates else ""
        raise UserError(
            f"--r_drop={options['r_drop']:g}: {request.model} has no dropout here, so "
            f"both passes over a batch would be the same; leave it out{remedy}"
        )


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
    """Returns the entries of config.json that come from --init_from, if it is still needed.

    They identify its weights, and say where an imported model is from, and its languages. A run
    that has made its first checkpoint needs them no longer.
    """
    path = options["init_from"]
    if not path or (directory.exists() and directory.checkpoint_steps()):
        return {}
    origin = ModelDirectory(path)
    origin.read_best()  # Damage is found before the long work.
    found = {"init_weights": origin.weights_hash()}
    config, name = origin.config(), "context_sentences"
    if config["options"][name] != options[name]:
        print(
            f"--{name}={options[name]}: the model of --init_from was trained with "
            f"{config['options'][name]}",
            flush=True,
        )
    kept = ("imported",) if options["new_vocabulary"] else ("imported", "languages")
    return found | {name: config[name] for name in kept if name in config}


def _record(text, options):
    """Returns the `TrainingText` of a new run, or None; includes the text of --init_from."""
    record = text.record(options)
    if record and options["init_from"]:
        path = ModelDirectory(options["init_from"]).training_text_path
        # Of a model without a record it is not known which text it has seen.
        record = (earlier := TrainingText.read(path)) and record.joined(earlier)
    return record


def _load_guide(options, config, tokenizer):
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
    mixed = parse_mixture(encoded.sizes, options["corpus_weights"], options["temperature"])
    text = _epoch_text(tokenizer, options)
    longest = max(int(side.lengths.max()) for side in encoded.corpus)
    if text:
        longest = max(longest, text.max_length)
    batching = Batching(
        options["max_tokens_per_batch"],
        options["max_sentences_per_batch"],
        longest=longest if options["pad_to_bucket"] else 0,
        num_workers=devices.num_replicas,
        mixture=mixed,
    )
    return Epochs(encoded.corpus, batching, options["seed"], text, data_dir)


def _epoch_text(tokenizer, options):
    """Returns the `EpochText` of a run; None if every epoch has the same ids."""
    altered = dropout = None
    common = options["seed"], options["max_length"]
    if options["copy_share"]:
        altered = AlteredPairs(tokenizer, options["copy_share"], *common)
    if options["bpe_dropout"]:
        dropout = BpeDropout(tokenizer, options["bpe_dropout"], *common)
    return EpochText(options["max_length"], altered, dropout) if altered or dropout else None


_NAMED = (
    *("model", "dataset", "training_text", "validation_text", "corpus_lines", "reverse_of"),
    *("guide_weights", "teacher_weights", "init_weights"),
)
_OF_MIXTURES = ("corpus_weights", "temperature")


def check_same_run(directory: ModelDirectory, config: dict[str, Any]) -> None:
    """Raises `UserError` if text or models that are read differ from the run in the directory.

    Flags have been compared before.
    """
    was = directory.config()
    may_change = set()
    if all(was["options"].get(name, DEFAULTS[name]) == DEFAULTS[name] for name in _OF_MIXTURES):
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
