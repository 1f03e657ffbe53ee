"""Resolves a run's model, settings and options from flags, recipes and the run being resumed."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from nmt_zoo import models
from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import same_paths
from nmt_zoo.configuration import recipes, resolver
from nmt_zoo.configuration.options import LIMITS, PATHS
from nmt_zoo.configuration.recipes import TextSize
from nmt_zoo.configuration.settled import BEGUN, FLAG, MODEL, Settled
from nmt_zoo.data_pipeline.datasets import Split
from nmt_zoo.data_pipeline.lines import open_split, open_target
from nmt_zoo.decoding.scores import check_bleu_tokenizer
from nmt_zoo.model_directory.directory import check_model
from nmt_zoo.training import fine_tuning, pace
from nmt_zoo.training.ways.base import WayOfTraining
from nmt_zoo.training.ways.catalogue import check_options, way_of
from nmt_zoo.training.ways.gradient.teacher import vocabulary_options

_LONGEST_WORD = 40  # Bytes of a text for each of its spaces.


class Request(NamedTuple):
    """The run that a user asks for with flags."""

    model: str  # name of a preset
    settings: Settled  # of the model
    options: Settled  # of training
    dataset: str  # name of a corpus, or "files"
    splits: dict[str, Any]  # {"train": `Split`, "valid": `Split`}
    given: dict[str, Any]  # the texts before parts of the training text are held out, as `splits`
    model_dir: str
    data_dir: str  # folder of the caches
    distribution: str = "none"  # of `training.devices.strategies.KINDS`
    num_replicas: int = 0  # mirrored devices; 0: all GPUs
    dry_run: bool = False

    @property
    def way(self) -> type[WayOfTraining]:
        """The `WayOfTraining` that trains the model."""
        return way_of(self.model, self.options)

    def resuming(self, begun: dict[str, Any]) -> "Request":
        """Returns the request as one to resume a run with a configuration."""
        options, settings = resolve_resumed(
            begun, self.options.of(FLAG), self.settings.of(FLAG), self.model_dir
        )
        return self._replace(options=options, settings=settings)


def size_of(split: Split) -> TextSize:
    """Measures a `Split` of files.

    Six bytes of UTF-8 are about one word, in languages with spaces and in Chinese.
    """
    sides = open_split(split) if split[0] else [open_target(split)]
    tokens, characters, has_spaces = sides[-1].num_bytes // 6, set(), True
    if tokens <= recipes.MOST_TO_COUNT:
        characters.update(*itertools.chain(*sides))
        spaces = [sum(line.count(" ") for line in side) for side in sides]
        has_spaces = all(
            side.num_bytes < _LONGEST_WORD * count
            for side, count in zip(sides, spaces, strict=True)
        )
    return TextSize(len(sides[-1]), tokens, len(characters), has_spaces)


def resolve(
    model: str,
    dataset: str,
    options: dict[str, Any],
    settings: dict[str, Any],
    *,
    size: TextSize | None,
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
        origin = options["init_from"]
        of_vocabulary, inherited = fine_tuning.inherit(origin, model, options, settings)
    elif options.get("teacher"):
        of_vocabulary = vocabulary_options(options["teacher"], options)
    of_run = resolver.options_of(
        model, dataset, options, size=size, origin=of_vocabulary, replicas=replicas
    )
    check_bleu_tokenizer(of_run["tokenize"])
    if of_run["init_from"] and fine_tuning.is_imported(of_run["init_from"]):
        size = None  # Its own dropout suits it, whatever the size of the new text.
    of_model = resolver.settings_of(model, dataset, settings, of_run, size=size, origin=inherited)
    check_new_model(model, of_model.beyond(MODEL))
    check_options(model, of_run, options, pace.undecided(of_run))
    return of_run, of_model


def resolve_resumed(
    begun: dict[str, Any], options: dict[str, Any], settings: dict[str, Any], model_dir: str
) -> tuple[Settled, Settled]:
    """Settles (options, settings) of a run that is resumed; prints those that it keeps.

    `begun` is the configuration of the run; options and settings are those that the user gives now.

    Raises:
        UserError: a flag differs from the beginning of the run and may not.
    """
    of_run = resolver.options_of_resumed(begun["model"], options, begun["options"])
    of_model = resolver.settings_of_resumed(begun["model"], settings, begun["settings"])
    changed = of_run.changed(FLAG)
    check_options(begun["model"], of_run, {name: of_run[name] for name in changed})
    may_change = {*LIMITS, *(n for n in PATHS if n in changed and same_paths(*changed[n]))}
    if of_run["keep_best_by"] == "bleu":
        may_change.discard("bleu_lines")  # BLEU on other lines could not be compared.
    fixed = {name: both for name, both in changed.items() if name not in may_change}
    check_unchanged(model_dir, {**fixed, **of_model.changed(FLAG)})
    kept = [name for name in of_run.changed(BEGUN) if of_run.source(name) == BEGUN]
    if kept:
        shown = ", ".join(f"--{name}={of_run[name]}" for name in kept)
        print(f"options as when the run began: {shown}", flush=True)
    return of_run, of_model


def check_unchanged(model_dir: str | Path, changed: dict[str, tuple]) -> None:
    """Raises `UserError` if a run is to be resumed with other values than it began with.

    `changed` has (value at its beginning, value now) by name.
    """
    if changed:
        shown = ", ".join(f"{name} was {was!r}, is {now!r}" for name, (was, now) in changed.items())
        raise UserError(
            f"{model_dir} holds a run with other settings: {shown}; give the same flags to "
            "resume it, or another --model_dir"
        )


def check_new_model(
    preset: str, settings: dict[str, Any], vocab_sizes: Sequence[int] = (1000, 1000)
) -> None:
    """Raises the error of a model that cannot be made, before the long work.

    `vocab_sizes` are (source, target) entries; the default while they are not known.

    Raises:
        SettingError: settings are out of range or cannot be combined.
        UserError: the weights do not fit into memory.
    """
    unknown = dict.fromkeys(models.model_class(preset).corpus_sizes, 1)
    sizes = {"vocab_sizes": vocab_sizes, "sizes": unknown}
    check_model({"model": preset, "settings": settings, **sizes})
