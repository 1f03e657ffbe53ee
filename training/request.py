"""What a run is asked to be: its model, settings and options.

They come from flags, from the model that the run starts or learns from, from the recipes for its
model and text, and, where a run is resumed, from its beginning.
"""

import itertools
from typing import Any, NamedTuple

from nmt_zoo import models
from nmt_zoo.configuration.options import AUTO, BY_NAME, VOCABULARY
from nmt_zoo.data_pipeline import streams
from nmt_zoo.training import fine_tuning, pace, recipes
from nmt_zoo.training.opening import check_new_model
from nmt_zoo.training.ways.catalogue import check_options
from nmt_zoo.training.ways.gradient.teacher import vocabulary_options

_LONGEST_WORD = 40  # Bytes of a text for each of its spaces.


class Request(NamedTuple):
    """The run that a user asks for with flags.

    Attributes:
        model: name of a preset.
        settings: name -> value, settings of the model that differ from the preset's.
        dataset: name of a corpus, or "files".
        splits: {"train": `Split`, "valid": `Split`}.
        given: the texts before parts of the training text are held out, as `splits`.
        options: name -> value, all training options.
        undecided: names of the options that `training.pace` chooses for a new run.
        kept: names of the options that a resumed run reads from config.json.
        model_dir: folder of the run.
        data_dir: folder of the caches.
        distribution: kind of devices, of `training.devices.strategies.KINDS`.
        num_replicas: number of mirrored devices; 0: all GPUs.
        tpu_address: name or address of a TPU.
        dry_run: whether the run is only planned.
    """

    model: str
    settings: dict[str, Any]
    dataset: str
    splits: dict[str, Any]
    given: dict[str, Any]
    options: dict[str, Any]
    undecided: list[str]
    kept: list[str]
    model_dir: str
    data_dir: str
    distribution: str = "none"
    num_replicas: int = 0
    tpu_address: str = ""
    dry_run: bool = False


class TextSize(NamedTuple):
    """The size of a training text.

    Attributes:
        pairs: number of sentence pairs.
        tokens: approximate number of target tokens.
        characters: number of different characters of both sides; 0 for a text of more than
            `recipes.MOST_TO_COUNT` tokens, which gets enough pieces for any number of characters.
        has_spaces: whether both sides have spaces between words, as far as characters are counted.
    """

    pairs: int
    tokens: int
    characters: int
    has_spaces: bool = True

    @classmethod
    def of(cls, split):
        """Measures a `Split` of files.

        Six bytes of UTF-8 are about one word, in languages with spaces and in Chinese.
        """
        sides = streams.open_split(split) if split[0] else [streams.open_target(split)]
        tokens, characters, has_spaces = sides[-1].num_bytes // 6, set(), True
        if tokens <= recipes.MOST_TO_COUNT:
            characters.update(*itertools.chain(*sides))
            spaces = [sum(line.count(" ") for line in side) for side in sides]
            has_spaces = all(
                side.num_bytes < _LONGEST_WORD * count
                for side, count in zip(sides, spaces, strict=True)
            )
        return cls(len(sides[-1]), tokens, len(characters), has_spaces)


class UserChoices(NamedTuple):
    """What the user has chosen of a run, and what is known of it, before it is settled.

    Attributes:
        model: name of a preset.
        dataset: name of a corpus, or "files".
        options: name -> value of the training options that the user gave.
        settings: name -> value of the settings of the model that the user gave.
        size: `TextSize`; None for a corpus with a recipe of its own.
        replicas: number of replicas that share an update; None if it is not known yet.
        begun: configuration of the run that is resumed, or None.
        chose_model: whether the size of the text has chosen the model.
    """

    model: str
    dataset: str
    options: dict[str, Any]
    settings: dict[str, Any]
    size: TextSize | None
    replicas: int | None
    begun: dict[str, Any] | None
    chose_model: bool

    @property
    def tokens(self):
        """The approximate number of target tokens; None for a corpus with a recipe of its own."""
        return self.size and self.size.tokens

    @property
    def for_recipes(self):
        """The arguments by which `recipes.options` knows the size of a text."""
        characters = self.size.characters if self.size else 0
        return {"tokens": self.tokens, "characters": characters, "replicas": self.replicas}


def settle(choices):
    """Settles the settings and options of a run; prints those that the size of its text chooses.

    Args:
        choices: `UserChoices`.

    Returns:
        name -> value, for the attributes `settings`, `options`, `undecided` and `kept` of a
        `Request`.

    Raises:
        UserError, SettingError: the options or settings do not fit together.
    """
    model, dataset, given, begun = choices.model, choices.dataset, choices.options, choices.begun
    of_vocabulary, inherited = _of_other_models(choices)
    given_before = {**of_vocabulary, **given}
    options = recipes.options(model, dataset, given_before, **choices.for_recipes)
    of_recipe = _settings_of_recipe(choices)
    if choices.size and not begun:
        _print_chosen(choices, given_before, of_recipe)
    settings = {**_settings_for(model, options), **inherited, **of_recipe, **choices.settings}
    if not begun:
        check_new_model(model, settings)
    undecided = pace.undecided(dataset, options, given)
    recorded = begun["options"] if begun else {}  # Checked when the run began.
    new = {name: value for name, value in given.items() if recorded.get(name) != value}
    kept = [name for name in recipes.CHANGED if name not in given]
    if given.get("schedule", recorded.get("schedule")) != recorded.get("schedule"):
        kept = [name for name in kept if name != "decay_steps"]  # It follows from --max_steps.
    resumed = pace.resumed(options, kept, recorded)
    check_options(model, resumed, new, undecided)
    if options["max_length"] > resumed["max_tokens_per_batch"]:
        options = {**options, "max_length": resumed["max_tokens_per_batch"]}
        print(f"max_length={options['max_length']}, because a batch holds no more tokens")
    kept += [name for name, value in given.items() if value == AUTO and BY_NAME[name].automatic]
    return {
        "settings": settings,
        "options": options,
        "undecided": undecided,
        "kept": [*undecided, *kept],
    }


def _of_other_models(choices):
    """Returns what comes from the model of --init_from or --teacher.

    Returns:
        (options of the vocabulary, settings), name -> value; empty without these options.
    """
    begun, given = choices.begun, choices.options
    init_from, teacher = given.get("init_from"), given.get("teacher")
    if begun and init_from and init_from == begun["options"].get("init_from"):
        # The other directory may be gone by now.
        return {name: begun["options"][name] for name in VOCABULARY}, begun["settings"]
    if init_from:
        return fine_tuning.inherit(init_from, choices.model, given, choices.settings)
    return (vocabulary_options(teacher, given), {}) if teacher else ({}, {})


def _settings_of_recipe(choices):
    """Returns name -> value of the settings that suit the text."""
    limits = choices.begun["options"] if choices.begun else choices.options
    minutes = limits.get("max_minutes", 0.0)
    found = recipes.settings(choices.model, choices.dataset, choices.tokens, minutes)
    if choices.begun:  # Earlier versions had other recipes.
        begun_with = models.preset_settings(choices.model, **choices.begun["settings"])
        return {name: begun_with[name] for name in found}
    if choices.options.get("init_from"):  # Weights suit the other settings they were trained with.
        return {name: value for name, value in found.items() if "dropout" in name}
    return found


def _settings_for(model, options):
    """Returns name -> value of the settings that follow from the training options."""
    valid, found = models.preset_settings(model), {}
    if options["tokenizer"] == "word" and valid.get("tie_embeddings") == "all":
        found["tie_embeddings"] = "target"  # The two sides do not share a vocabulary.
    if options["guide"] and "alignment_head" in valid:
        found["alignment_head"] = "first"  # The others stay free to attend to other words.
    return found


def _print_chosen(choices, given, of_recipe):
    """Prints the flags that the size of the text has chosen.

    Args:
        choices: `UserChoices`.
        given: name -> value of the options that are not chosen.
        of_recipe: name -> value of the settings for the text, some of which may be given.
    """
    of_size = recipes.options_of_size(choices.model, given=given, **choices.for_recipes)
    settings = {n: value for n, value in of_recipe.items() if n not in choices.settings}
    chosen = {
        **({"--model": choices.model} if choices.chose_model else {}),
        **{f"--{name}": value for name, value in of_size.items()},
        **{f"--set {name}": value for name, value in settings.items()},
    }
    if chosen:
        minutes = choices.options.get("max_minutes")
        print(
            f"for {choices.size.pairs:,} pairs, about {choices.tokens:,} target tokens"
            + (f", in {minutes:g} minutes: " if minutes else ": ")
            + " ".join(f"{name}={value}" for name, value in chosen.items())
            + "; give any of these flags to choose another value"
        )
