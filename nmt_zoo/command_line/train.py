"""Trains a translation model.

    python train.py
    python train.py --train_source=a.en --train_target=a.de --model_dir=runs/x

The same command again resumes the run. The defaults of options are general; some models and corpora
have other defaults that suit them better (nmt_zoo/configuration/recipes.py).
"""

from nmt_zoo.common import process

process.start()  # Before anything imports TensorFlow.

import dataclasses
import inspect
import os
import re
import shlex
from typing import Any

from nmt_zoo import models
from nmt_zoo.command_line import console, flag_values
from nmt_zoo.command_line.flag_values import flag
from nmt_zoo.command_line.model_settings import parse_settings
from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import check_folder
from nmt_zoo.configuration import recipes
from nmt_zoo.configuration.options import LIMITS, OPTIONS
from nmt_zoo.configuration.settled import FOLLOWS, SIZE, Settled
from nmt_zoo.data_pipeline import datasets
from nmt_zoo.data_pipeline.held_out import hold_out
from nmt_zoo.data_pipeline.lines import is_tsv
from nmt_zoo.data_pipeline.tokenization import tokenizers
from nmt_zoo.model_directory import summary
from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.training import opening, run
from nmt_zoo.training.devices.strategies import KINDS
from nmt_zoo.training.reports import plan
from nmt_zoo.training.request import (
    Request,
    check_unchanged,
    resolve,
    resolve_resumed,
    size_of,
)

Splits = dict[str, datasets.Split]
_RUN, _TEXT, _INSTEAD = "Model and model directory", "Text", "Instead of training"
_DEVICES = "Several devices"
_NAMES = ", ".join([*models.preset_names(), *models.LANGUAGE_MODELS])


def _own_file(what):
    text = f"File of your own {what}, one sentence a line"
    several = ", or several files, separated by commas" if what.startswith("training") else ""
    return flag(_TEXT, "", f"{text}{several}; or a .tsv, given for both sides.")


@dataclasses.dataclass(frozen=True)
class Arguments(flag_values.Arguments):
    """The flags of train.py; `options` has the training options that were given, by name."""

    more = OPTIONS
    model: str = flag(
        _RUN,
        "",
        f"Model to train, one of: {_NAMES}; or my_model.py:Name, a model of your own. Default: "
        "the model of the resumed run or of --init_from. Without these, a model that suits the "
        "size of the text and --max_minutes; transformer_tiny for the demo corpus, "
        "transformer_base for WMT14.",
    )
    set: list[str] = flag(
        _RUN, [], "Changes a setting of the model: name=value. Repeatable.", repeatable=True
    )
    model_dir: list[str] = flag(
        _RUN,
        ["runs/demo"],
        "Directory of the run. If it holds a run, this run is resumed. Repeatable with --summary.",
        repeatable=True,
    )
    dataset: str = flag(
        _TEXT,
        "",
        "Name of a corpus, see --list_datasets. Default: demo, unless files of your own are given.",
    )
    train_source: str = _own_file("training text, source side")
    train_target: str = _own_file("training text, target side")
    valid_source: str = _own_file("validation text, source side")
    valid_target: str = _own_file("validation text, target side")
    valid_size: int | None = flag(
        _TEXT,
        None,
        "Training pairs that are held out for validation if there is no --valid_source. Default: "
        "one for twenty different source sentences, at most 1,000. With fewer than twenty, the "
        "training text validates.",
        1,
    )
    test_size: int = flag(_TEXT, 0, "Training pairs that are held out for a test (0: none).", 0)
    data_dir: str = flag(_TEXT, "data", "Folder of downloads, prepared corpora and caches.")
    offline: bool = flag(_TEXT, False, "Downloads nothing: all files must be in --data_dir.")
    mirror: str = flag(
        _TEXT, "", "Address of a copy of the downloads in a --data_dir; downloads try it first."
    )
    dry_run: bool = flag(
        _INSTEAD, False, "Prints the plan of the run: batches, memory and time per epoch."
    )
    list_settings: bool = flag(
        _INSTEAD, False, "Lists the settings of --model, for --set.", needs=("model",)
    )
    list_datasets: bool = flag(_INSTEAD, False, "Lists the corpora that --dataset knows by name.")
    summary: bool = flag(_INSTEAD, False, "Prints a table of the runs in all --model_dir.")
    distribution: str = flag(
        _DEVICES,
        "none",
        "Which devices train together: GPUs of one host, several hosts, or a TPU: the one that the "
        "variable TPU_NAME names, or else that of this host (never run on a TPU).",
        choices=KINDS,
    )
    num_replicas: int = flag(
        _DEVICES,
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


def settings_given(asked: Arguments, preset: str, begun: dict[str, Any] | None) -> dict[str, Any]:
    """Reads --set, as `parse_settings`. `begun` as in `known_model`."""
    has_others = begun or asked.options.get("init_from")  # Settings of their own.
    return parse_settings(asked.set, preset, check_read=not has_others)


def known_model(asked: Arguments, begun: dict[str, Any] | None) -> str | None:
    """Returns the name of the model to train; None if the size of the text is to choose it.

    `begun` is the configuration of the run that is resumed, or None.
    """
    if begun:
        if asked.model not in ("", begun["model"]):
            check_unchanged(asked.model_dir[0], {"model": (begun["model"], asked.model)})
        return begun["model"]
    if asked.model or not asked.options.get("init_from"):
        return asked.model or None
    return ModelDirectory(asked.options.get("init_from")).config()["model"]


def chosen_model(asked: Arguments, dataset: str, size: recipes.TextSize | None) -> str:
    """Returns the name of the model that suits a corpus; `dataset` is its name, or "files".

    `size` is None for a corpus with a recipe of its own.
    """
    given = set(asked.options)
    is_general = not asked.set and asked.distribution == "none" and given <= {*LIMITS, "seed"}
    return recipes.preset(
        dataset,
        size and size.tokens,
        minutes=asked.options.get("max_minutes", 0.0),
        of_words=is_general and bool(size) and size.has_spaces,
    )


def corpus_files(asked: Arguments, reads_source: bool) -> tuple[str, Splits | None, Splits | None]:
    """Returns (dataset name, `Split`s, those given); no `Split`s for a dataset by name.

    The `Split`s are {"train": ..., "valid": ...}. Those given are the same before parts are held
    out; they may have no "valid".
    """
    own = {name: getattr(asked, name) for name in OWN_FILES}
    sizes = [f"--{name}" for name in ("valid_size", "test_size") if getattr(asked, name)]
    if asked.dataset in ("", "files") and any(own.values()):
        return "files", *_own_splits(asked, own, reads_source)
    if any(own.values()):
        raise UserError(
            f"give --dataset={asked.dataset} or files of your own such as --train_source, not both"
        )
    if sizes:
        raise UserError(f"{sizes[0]} is for files of your own; add --train_source")
    if asked.dataset == "files":
        raise UserError("--dataset=files needs --train_source and --train_target")
    return asked.dataset or "demo", None, None


def _own_splits(asked, own, reads_source):
    """As `corpus_files`, of files of the user's own; holds out parts that have no files."""
    splits = {
        split: datasets.Split(own[f"{split}_source"], own[f"{split}_target"])
        for split in ("train", "valid")
    }
    has_valid = any(splits["valid"])
    needed = [f"{split}_{side}" for split in splits for side in tokenizers.SIDES]
    missing = [
        f"--{name}"
        for name in needed
        if not own[name]
        and (reads_source or not name.endswith("source"))
        and (has_valid or name.startswith("train"))
    ]
    if missing:
        tsv = [own[name] for name in needed if any(map(is_tsv, own[name].split(",")))]
        raise UserError(
            f"your own files are incomplete; missing: {', '.join(missing)}"
            + "".join(f"; {name} has both sides: name it for both" for name in dict.fromkeys(tsv))
        )
    if has_valid and asked.valid_size:
        raise UserError("--valid_size is for a text without --valid_source; leave out one of them")
    if has_valid and not asked.test_size:
        return splits, splits
    if asked.options.get("context_sentences"):
        raise UserError(
            "--context_sentences: sentences cannot be held out of documents; give --valid_source "
            "and --valid_target, whose documents are not in the training text"
        )
    found = hold_out(
        splits["train"],
        os.path.join(asked.data_dir, "held_out"),
        valid_size=0 if has_valid else asked.valid_size,
        test_size=asked.test_size,
        by_target=not reads_source,
    )
    if not (has_valid or "valid" in found.splits):
        print(
            "fewer than 20 different sentences: all are for training, and validation repeats them"
        )
        found.splits["valid"] = found.splits["train"]
    for name in [*found.sizes][1:]:
        files = " and ".join(str(path) for path in found.splits[name] if path)
        print(f"held out {found.sizes[name]:,} pairs in {files}")
    if found.num_dropped:
        what = "pairs of these source sentences" if reads_source else "lines with these sentences"
        print(f"left out {found.num_dropped:,} further {what}")
    given = splits if has_valid else {"train": splits["train"]}
    return {**splits, **found.splits}, given


def prepare(asked: Arguments, dataset: str) -> Splits:
    """Prepares a dataset; returns its `Split`s by name, such as "train"."""
    return datasets.prepare(dataset, asked.data_dir, offline=asked.offline, mirror=asked.mirror)


OWN_FILES = ("train_source", "train_target", "valid_source", "valid_target")


def replicas_given(asked: Arguments) -> int | None:
    """Returns how many replicas share an update; None if this is known only on their devices."""
    return 1 if asked.distribution == "none" else asked.num_replicas or None


def request_of(asked: Arguments) -> Request:
    """Returns the flags as a `Request`."""
    directory = ModelDirectory(asked.model_dir[0])
    begun = directory.config() if directory.exists() else None
    known = known_model(asked, begun)
    dataset, splits, given = corpus_files(
        asked, not known or models.model_class(known).reads_source
    )
    size = None
    if not (begun or dataset in recipes.BY_DATASET):
        splits = splits or prepare(asked, dataset)
        size = size_of(splits["train"])
    model = known or chosen_model(asked, dataset, size)
    flags_given = asked.options, settings_given(asked, model, begun)
    if begun:
        options, settings = resolve_resumed(begun, *flags_given, asked.model_dir[0])
    else:
        replicas = replicas_given(asked)
        options, settings = resolve(model, dataset, *flags_given, size=size, replicas=replicas)
        print_chosen("" if known else model, options, settings, size)
    # Faults of the flags have been found before long downloads.
    splits = splits or prepare(asked, dataset)
    return Request(
        model=model,
        settings=settings,
        options=options,
        dataset=dataset,
        splits=splits,
        given=given or splits,
        model_dir=asked.model_dir[0],
        data_dir=asked.data_dir,
        distribution=asked.distribution,
        num_replicas=asked.num_replicas,
        dry_run=asked.dry_run,
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
            + (f", in {minutes:g} minutes: " if minutes else ": ")
            + " ".join(f"{name}={value}" for name, value in chosen.items())
            + "; give any of these flags to choose another value"
        )
    if "max_length" in options.chosen_by(FOLLOWS):
        print(f"max_length={options['max_length']}, because a batch holds no more tokens")


def print_plan(request: Request) -> int:
    """Prints the plan of a run that learns in steps."""
    lines = [f"{request.model} is counted from the whole text: there are no steps to plan"]
    if request.way.has_plan:
        this = opening.open_run(request)
        complete = [f"{request.model_dir}: complete, no steps are left"]
        lines = plan.lines_of(this) if this else complete
    for line in lines:
        console.write_result(line)
    return 0


def train_or_plan(asked: Arguments) -> int:
    """Reads flags and text; prints the plan of the run, or opens it and trains."""
    request = request_of(asked)
    if asked.dry_run:
        return print_plan(request)
    this = opening.open_run(request)
    if this is None:
        print(f"{asked.model_dir[0]} already holds the model of this text and these options")
        return 0
    run.begin(this)
    trainer = run.make_trainer(this)
    print_run(this, trainer.way.model)
    signal_number = trainer.run()
    if signal_number or not this.devices.is_chief:
        return signal_number and 128 + signal_number
    print_end(this, request.splits.get("test"))
    if line := this.way.closing_line(this, trainer.state["step"]):
        print(line)
    return 0


def print_run(this: run.Run, model: Any) -> None:
    """Prints the model, options, text and limits of a `Run` that is about to train."""
    config = this.config
    bleu_lines = min(this.options["bleu_lines"], this.valid.num_pairs)
    limits = ("max_steps", "max_epochs", "max_minutes", "patience")
    until = [f"--{name}={this.options[name]}" for name in limits if this.options[name]]
    falls_until = this.options["decay_steps"]
    still = 0 < falls_until < this.options["max_steps"]
    for line in (
        f"model: {config['model']}, {model.count_params():,} parameters"
        + "".join(f", {name}={value}" for name, value in config["settings"].items()),
        *this.way.describe(this),
        *this.prepared.report(),
        *this.devices.describe(this.options),
        f"validation pairs: {this.valid.num_pairs:,}, "
        + (f"the first {bleu_lines:,} for BLEU" if bleu_lines else "without BLEU (--bleu_lines=0)"),
        (f"until {' or '.join(until)}" if until else "until it is stopped")
        + f"; updates after {falls_until:,} change nothing: their learning rate is 0" * still,
    ):
        print(line, flush=True)


def print_end(this: run.Run, test: datasets.Split | None = None) -> None:
    """Prints the result of a run, and the command that uses the model.

    `test` is the corpus's text for a test, or None.
    """
    path = str(this.directory.path)
    print(*summary.table([this.directory]), sep="\n")
    if not models.model_class(this.config["model"]).reads_source:
        print(f"the model is in {path}; translate.py --language_model={path} uses it")
        return
    use = "translate a text with"
    flags = {"model_dir": path, "input": "text.txt", "output": "translation.txt"}
    if test and all(test):
        use = "translate and score the test text with"
        source, target = map(str, test)
        output = os.path.join(path, "test.translation")
        flags |= {"input": source, "reference": target, "output": output}
    command = " ".join(f"--{name}={shlex.quote(value)}" for name, value in flags.items())
    print(f"the model is in {path}; {use}\n  python translate.py {command}")
    if this.companion:
        print(
            f"the reverse model is in {this.companion.path}; align.py --model_dir="
            f"{path} --reverse_model_dir={this.companion.path} --symmetrise=agree aligns with both"
        )


def main(asked: Arguments) -> int:
    """Trains or plans a run, or lists datasets or model directories, as the flags ask."""
    asked.check()
    if asked.list_settings:
        console.write_result(*list_settings(asked.model))
        return 0
    if asked.list_datasets:
        console.write_result(*datasets.listing())
        return 0
    if asked.summary:
        console.write_result(*summary.table(map(ModelDirectory, asked.model_dir)))
        return 0
    if len(asked.model_dir) > 1:
        raise UserError("give one --model_dir; only --summary takes several")
    check_folder(asked.data_dir)
    directory = ModelDirectory(asked.model_dir[0])
    if not directory.exists():
        directory.check_free()
    return train_or_plan(asked)


def command() -> None:
    """Runs the script on the command line, and exits."""
    console.run(main, Arguments)
