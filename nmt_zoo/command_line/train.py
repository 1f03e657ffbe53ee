"""Trains a translation model.

    python train.py
    python train.py --train_source=a.en --train_target=a.de --model_dir=runs/x

The same command again resumes the run. The defaults of options are general; some models and corpora
have other defaults that suit them better (nmt_zoo/configuration/recipes.py).
"""

from nmt_zoo.common import process

process.start()  # Before anything imports TensorFlow.

import dataclasses
import functools
import inspect
import os
import re
import shlex
from typing import Any

from nmt_zoo import models
from nmt_zoo.command_line import console, flag_values
from nmt_zoo.command_line.flag_values import group
from nmt_zoo.command_line.model_settings import parse_settings
from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import check_folder
from nmt_zoo.configuration import recipes
from nmt_zoo.configuration.options import BY_NAME, OPTIONS
from nmt_zoo.configuration.resolver import FOLLOWS, SIZE, Settled
from nmt_zoo.data_pipeline import datasets
from nmt_zoo.data_pipeline.held_out import hold_out
from nmt_zoo.data_pipeline.lines import is_tsv
from nmt_zoo.model_directory import summary
from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.training import setup
from nmt_zoo.training.corpus.texts import print_faults, size_of
from nmt_zoo.training.devices.strategies import KINDS
from nmt_zoo.training.reports import plan

Splits = dict[str, datasets.Split]
_run, _text = group("Model and model directory"), group("Text")
_instead, _devices = group("Instead of training"), group("Several devices")
_USEFUL_BLEU = 1.0
_OWN_FILES = ("train_source", "train_target", "valid_source", "valid_target")
_NAMES = ", ".join([*models.PRESETS, *models.LANGUAGE_MODELS])


def _own_file(what):
    text = f"File of your own {what}, one sentence a line"
    several = ", or several files, separated by commas" if what.startswith("training") else ""
    return _text("", f"{text}{several}; or a .tsv, given for both sides.")


@dataclasses.dataclass(frozen=True)
class Arguments(flag_values.Arguments):
    """The flags of train.py; `options` has the training options that were given, by name."""

    more = OPTIONS
    model: str = _run(
        "",
        f"Model to train, one of: {_NAMES}; or my_model.py:Name, a model of your own. Default: "
        "the model of the resumed run or of --init_from. Without these, a model that suits the "
        "size of the text and --max_minutes; transformer_tiny for the demo corpus, "
        "transformer_base for WMT14.",
    )
    set: list[str] = _run(
        [], "Changes a setting of the model: name=value. Repeatable.", repeatable=True
    )
    model_dir: list[str] = _run(
        ["runs/demo"],
        "Directory of the run. If it holds a run, this run is resumed. Repeatable with --summary.",
        repeatable=True,
    )
    dataset: str = _text(
        "",
        "Name of a corpus, see --list_datasets. Default: demo, unless files of your own are given.",
    )
    train_source: str = _own_file("training text, source side")
    train_target: str = _own_file("training text, target side")
    valid_source: str = _own_file("validation text, source side")
    valid_target: str = _own_file("validation text, target side")
    valid_size: int | None = _text(
        None,
        "Training pairs that are held out for validation if there is no --valid_source. Default: "
        "one for twenty different source sentences, at most 1,000. With fewer than twenty, the "
        "training text validates.",
        1,
    )
    test_size: int = _text(0, "Training pairs that are held out for a test (0: none).", 0)
    data_dir: str = _text("data", "Folder of downloads, prepared corpora and caches.")
    offline: bool = _text(False, "Downloads nothing: all files must be in --data_dir.")
    mirror: str = _text(
        "", "Address of a copy of the downloads in a --data_dir; downloads try it first."
    )
    dry_run: bool = _instead(
        False, "Prints the plan of the run: batches, memory and time per epoch."
    )
    list_settings: bool = _instead(
        False, "Lists the settings of --model, for --set.", needs=("model",)
    )
    list_datasets: bool = _instead(False, "Lists the corpora that --dataset knows by name.")
    summary: bool = _instead(False, "Prints a table of the runs in all --model_dir.")
    distribution: str = _devices(
        "none",
        "Which devices train together: GPUs of one host, several hosts, or a TPU: the one that the "
        "variable TPU_NAME names, or else that of this host (never run on a TPU).",
        choices=KINDS,
    )
    num_replicas: int = _devices(
        0,
        "Number of devices of --distribution=mirrored (0: all GPUs).",
        0,
        64,
        needs=("distribution=mirrored",),
    )


def list_settings(preset: str) -> list[str]:
    """Returns a line for each setting of a model: name=value, and what it is.

    Raises SettingError: there is no such model.
    """
    documents = [inspect.getdoc(kind) or "" for kind in models.model_class(preset).__mro__]
    texts = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", "\n".join(documents[::-1]), re.M)
    meanings = {name: " ".join(text.split()) for name, text in texts}
    settings = models.preset_settings(preset)
    shown = {name: f"{name}={value}" for name, value in settings.items()}
    width = max(map(len, shown.values()), default=0)
    return [f"{shown[name]:{width}}  {meanings.get(name, '')}".rstrip() for name in shown]


def corpus_files(flags: Arguments, reads_source: bool) -> tuple[str, Splits | None, Splits | None]:
    """Returns (dataset name, `Split`s, those given); no `Split`s for a dataset by name.

    The `Split`s are {"train": ..., "valid": ...}. Those given are the same before parts are held
    out; they may have no "valid".
    """
    files = {name: getattr(flags, name) for name in _OWN_FILES}
    sizes = [f"--{name}" for name in ("valid_size", "test_size") if getattr(flags, name)]
    if flags.dataset == "files" or (not flags.dataset and any(files.values())):
        _check_own_files(flags, files, reads_source)
        return "files", *_own_splits(flags, files, reads_source)
    if any(files.values()):
        raise UserError(
            f"give --dataset={flags.dataset} or files of your own such as --train_source, not both"
        )
    if sizes:
        raise UserError(f"{sizes[0]} is for files of your own; add --train_source")
    return flags.dataset or "demo", None, None


def _check_own_files(flags, files, reads_source):
    """Raises `UserError` if files of the user's own are incomplete or contradict other flags."""
    has_valid = bool(files["valid_source"] or files["valid_target"])
    missing = [
        f"--{name}"
        for name in _OWN_FILES
        if not files[name]
        and (reads_source or not name.endswith("source"))
        and (has_valid or name.startswith("train"))
    ]
    if missing:
        tsv = [path for path in files.values() if any(map(is_tsv, path.split(",")))]
        raise UserError(
            f"your own files are incomplete; missing: {', '.join(missing)}"
            + "".join(f"; {path} has both sides: name it for both" for path in dict.fromkeys(tsv))
        )
    if has_valid and flags.valid_size:
        raise UserError("--valid_size is for a text without --valid_source; leave out one of them")
    if flags.options.get("context_sentences") and (flags.test_size or not has_valid):
        raise UserError(
            "--context_sentences: sentences cannot be held out of documents; give --valid_source "
            "and --valid_target, whose documents are not in the training text"
        )


def _own_splits(flags, files, reads_source):
    """Returns (`Split`s, those given) of the user's own files; holds out parts without files."""
    given = {"train": datasets.Split(files["train_source"], files["train_target"])}
    has_valid = bool(files["valid_source"] or files["valid_target"])
    if has_valid:
        given["valid"] = datasets.Split(files["valid_source"], files["valid_target"])
        if not flags.test_size:
            return given, given
    divided = hold_out(
        given["train"],
        os.path.join(flags.data_dir, "held_out"),
        valid_size=0 if has_valid else flags.valid_size,
        test_size=flags.test_size,
        by_target=not reads_source,
    )
    splits = {**given, **divided.splits}
    if "valid" not in splits:
        print(
            "fewer than 20 different sentences: all are for training, and validation repeats them"
        )
        splits["valid"] = splits["train"]
    for name in [*divided.sizes][1:]:
        paths = " and ".join(str(path) for path in splits[name] if path)
        print(f"held out {divided.sizes[name]:,} pairs in {paths}")
    if divided.num_dropped:
        what = "pairs of these source sentences" if reads_source else "lines with these sentences"
        print(f"left out {divided.num_dropped:,} further {what}")
    return splits, given


def run_config(flags: Arguments) -> setup.RunConfig:
    """Resolves the flags: text, model, settings and options of the run that they ask for."""
    directory = ModelDirectory(flags.model_dir[0])
    begun = directory.config() if directory.exists() else None
    origin = flags.options.get("init_from")
    named = flags.model
    if begun:
        if named not in ("", begun["model"]):
            setup.check_unchanged(directory.path, {"model": (begun["model"], named)})
        named = begun["model"]
    elif not named and origin:
        named = ModelDirectory(origin).config()["model"]
    dataset, splits, given = corpus_files(
        flags, not named or models.model_class(named).reads_source
    )
    size = None
    if not (begun or dataset in recipes.BY_DATASET):
        splits = splits or _prepared(flags, dataset)
        size = size_of(splits["train"])
    model = named or _chosen_model(flags, dataset, size)
    # Other runs and models have settings of their own, with which one here may have an effect.
    has_others = bool(begun or origin)
    settings = parse_settings(flags.set, model, check_read=not has_others)
    if begun:
        options, settings = setup.resolve_resumed(begun, flags.options, settings, directory.path)
    else:
        replicas = 1 if flags.distribution == "none" else flags.num_replicas or None
        options, settings = setup.resolve(
            model, dataset, flags.options, settings, size=size, replicas=replicas
        )
        print_chosen("" if named else model, options, settings, size)
    # Faults of the flags have been found before long downloads.
    splits = splits or _prepared(flags, dataset)
    return setup.RunConfig(
        model=model,
        settings=settings,
        options=options,
        dataset=dataset,
        splits=splits,
        whole_splits=given or splits,
        model_dir=flags.model_dir[0],
        data_dir=flags.data_dir,
        distribution=flags.distribution,
        num_replicas=flags.num_replicas,
        dry_run=flags.dry_run,
    )


def _prepared(flags, dataset):
    """Prepares a dataset; returns its `Split`s by name, such as "train"."""
    return datasets.prepare(dataset, flags.data_dir, offline=flags.offline, mirror=flags.mirror)


def _chosen_model(flags, dataset, size):
    """Returns the name of the model that suits a corpus, or the `size` of a text."""
    is_general = not flags.set and flags.distribution == "none"
    is_general &= all(BY_NAME[name].resumable or name == "seed" for name in flags.options)
    return recipes.preset(
        dataset,
        size and size.tokens,
        minutes=flags.options.get("max_minutes", 0.0),
        of_words=is_general and bool(size) and size.has_spaces,
    )


def print_chosen(
    model: str, options: Settled, settings: Settled, size: recipes.TextSize | None
) -> None:
    """Prints the flags that the size of the text has chosen, and a length that follows.

    `model` is the name of the model if it was chosen, too; else empty.
    """
    chosen = {
        **({"--model": model} if model else {}),
        **{f"--{name}": value for name, value in options.chosen_by(SIZE).items()},
        **{f"--set {name}": value for name, value in settings.chosen_by(SIZE).items()},
    }
    if size and chosen:
        minutes = options["max_minutes"]
        print(
            f"for {size.pairs:,} pairs, about {size.tokens:,} target tokens"
            + (f", --max_minutes={minutes:g}: " if minutes else ": ")
            + " ".join(f"{name}={value}" for name, value in chosen.items())
            + "; give any of these flags to choose another value"
        )
    if model == "phrase_based":
        print(
            "phrases cannot be exported, fine-tuned or joined in ensembles, and have no attention; "
            "--model=transformer_tiny trains a network, which can"
        )
    if "max_length" in options.chosen_by(FOLLOWS):
        print(f"max_length={options['max_length']}, because a batch holds no more tokens")


def train(config: setup.RunConfig) -> int:
    """Opens the run and trains; returns the exit status."""
    run = setup.open_run(config)
    if run is None:
        print(f"{config.model_dir} already holds the model of this text and these options")
        return 0
    setup.begin(run)
    trainer = setup.make_trainer(run)
    print_run(run, trainer.way.model)
    signal_number = trainer.run()
    if signal_number or not run.devices.is_chief:
        return signal_number and 128 + signal_number
    print_end(run)
    if line := what_helps(run) or run.way.closing_line(run, trainer.state["step"]):
        print(line)
    return 0


def print_plan(config: setup.RunConfig) -> None:
    """Prints the plan of a run that learns in steps."""
    if config.way.has_plan:
        run = setup.open_run(config)
        complete = [f"{config.model_dir}: complete, no steps are left"]
        lines = plan.lines_of(run) if run else complete
    else:
        print_faults(config)
        counted = f"{config.model} is counted from the whole text: there are no steps to plan"
        lines = [*plan.tables(config), counted]
    for line in lines:
        console.write_result(line)


def print_run(run: setup.Run, model: Any) -> None:
    """Prints the model, options, text and limits of a run that is about to train."""
    config, options = run.config, run.options
    bleu_lines = min(options["bleu_lines"], run.valid.num_pairs)
    limits = ("max_steps", "max_epochs", "max_minutes", "patience")
    until = [f"--{name}={options[name]}" for name in limits if options[name]]
    falls_until = options["decay_steps"]
    still = 0 < falls_until < options["max_steps"]
    for line in (
        f"model: {config['model']}, {model.count_params():,} parameters"
        + "".join(f", {name}={value}" for name, value in config["settings"].items()),
        *run.way.describe(run),
        *run.prepared.report(),
        *run.devices.describe(options),
        f"validation pairs: {run.valid.num_pairs:,}, "
        + (f"the first {bleu_lines:,} for BLEU" if bleu_lines else "without BLEU (--bleu_lines=0)")
        + " of greedy translations" * (bleu_lines > 0 and not model.decoder_class),
        (f"until {' or '.join(until)}" if until else "until it is stopped")
        + f"; updates after {falls_until:,} change nothing: their learning rate is 0" * still,
    ):
        print(line, flush=True)


def print_end(run: setup.Run) -> None:
    """Prints the result of a run, and the command that uses the model."""
    path, test = str(run.directory.path), run.run_config.splits.get("test")
    print(*summary.table([run.directory]), sep="\n")
    if not models.model_class(run.config["model"]).reads_source:
        print(f"the model is in {path}; translate.py --language_model={path} uses it")
        return
    use = "translate a text with"
    flags = {"model_dir": path, "input": "text.txt", "output": "translation.txt"}
    if test and all(test):
        use = "translate and score the test text with"
        source, target = map(str, test)
        output = os.path.join(path, "test.translation")
        flags |= {"input": source, "reference": target, "output": output}
    print(f"the model is in {path}; {use}\n  {_command('translate', flags)}")
    if run.companion:
        print(
            f"the reverse model is in {run.companion.path}; align.py --model_dir="
            f"{path} --reverse_model_dir={run.companion.path} --symmetrise=agree aligns with both"
        )


def what_helps(run: setup.Run) -> str | None:
    """Returns what to do about a model that is of no use, with a command; None if it is of use."""
    bleu = (run.directory.best_state() or {}).get("bleu")
    # The models of expectation maximisation are for alignments.
    if bleu is None or bleu >= _USEFUL_BLEU or run.way.name == "em":
        return None
    useless = f"valid BLEU {bleu:.2f}: this model is of no use yet"
    splits, size = run.run_config.splits, size_of(run.run_config.splits["train"])
    named = (name.split("_") for name in _OWN_FILES)
    flags = {f"{split}_{side}": getattr(splits[split], side) for split, side in named}
    if not run.way.takes_batches:
        look = "give more text; this looks for lines that are not translations of each other"
        return f"{useless}; {look}\n  {_command('train', flags)} --dry_run"
    more_time = f"{useless}; give it more time in a new --model_dir"
    is_other = run.options["target_languages"] or run.options["context_sentences"]
    if is_other or not size.has_spaces or size.tokens > recipes.MOST_OF_PHRASES:
        return more_time
    flags |= {"model": "phrase_based", "model_dir": f"{run.directory.path}_phrases"}
    return f"{more_time}, or let phrases learn, which takes less\n  {_command('train', flags)}"


def _command(script, flags):
    """Returns a command for a shell."""
    shown = " ".join(f"--{name}={shlex.quote(str(value))}" for name, value in flags.items())
    return f"python {script}.py {shown}"


def main(flags: Arguments) -> int:
    """Trains or plans a run, or lists datasets or model directories, as the flags ask."""
    flags.check()
    if flags.list_settings:
        console.write_result(*list_settings(flags.model))
        return 0
    if flags.list_datasets:
        console.write_result(*datasets.listing())
        return 0
    if flags.summary:
        console.write_result(*summary.table(map(ModelDirectory, flags.model_dir)))
        return 0
    if len(flags.model_dir) > 1:
        raise UserError("give one --model_dir; only --summary takes several")
    check_folder(flags.data_dir)
    if "model_dir" not in flags.given and flags.dry_run:  # Beside all runs.
        flags = dataclasses.replace(flags, model_dir=[os.path.join(flags.data_dir, "dry_run")])
    elif "model_dir" not in flags.given and (
        flags.train_target or flags.dataset not in ("", "demo")
    ):
        raise UserError("give --model_dir, such as runs/x; the default is for the demo corpus")
    directory = ModelDirectory(flags.model_dir[0])
    if not directory.exists():
        directory.check_free()
    config = run_config(flags)
    if flags.dry_run:
        print_plan(config)
        return 0
    return train(config)


command = functools.partial(console.run, main, Arguments)
