"""Flags as records: a dataclass names a script's flags, and an instance of it has their values."""

import contextlib
import copy
import dataclasses
import difflib
import functools
import re
import typing
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, ClassVar, TypeVar

from absl import flags

from nmt_zoo.common import own_code
from nmt_zoo.common.errors import UserError
from nmt_zoo.configuration import rules
from nmt_zoo.configuration.options import (
    AUTO,
    BY_NAME,
    LENGTH_PENALTY,
    MAX_INPUT_TOKENS,
    MAX_LENGTH_PENALTY,
    Option,
)

_HELP = {"--help", "-help", "--helpshort", "-h", "-?"}
_NUMBER = "[1-9][0-9]{0,8}"  # Of a layer or head.
_TRUTH = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
# Flags whose value may name a file of the user's own, such as --model=my_model.py:Name.
_MAY_BE_OWN = re.compile(r"--?(architecture|model|update|dataset|rules)")
_OWN = re.compile(r"([^,]+\.py):(\w+)")

# Names in other toolkits -> our flags, of which a script has some, or settings of models.
_ELSEWHERE = {
    "alpha lenpen": "length_penalty",
    "batch batch_size": "max_tokens_per_batch, max_sentences_per_batch",
    "beam beams beam_width num_beams": "beam_size",
    "epoch epochs max_epoch num_epochs num_train_epochs": "max_epochs",
    "learn_rate lr": "learning_rate",
    "max_update num_steps steps train_steps updates": "max_steps",
    "optim optimizer": "adam_beta_2, weight_decay",
    "src src_train train_src": "train_source, input, source",
    "tgt tgt_train train_tgt": "train_target, reference, target",
    "bpe vocab vocab_size": "num_pieces, max_words",
    "warmup warmup_updates": "warmup_steps",
    "d_model embedding_size hidden hidden_size": "width",
    "heads n_heads": "num_heads",
    "layers num_layers": "num_encoder_layers, num_decoder_layers",
}
_ALIKE = 0.8  # Least likeness of a mistyped flag; below, --dropout would become --bpe_dropout.

Record = TypeVar("Record", bound="Arguments")


@dataclasses.dataclass(frozen=True)
class Arguments:
    """The flags of a script. A subclass has a field for each flag, made by `flag`.

    `more` has further flags; `options` has the values of those that were given. `given` has the
    names of all flags on the command line.
    """

    more: ClassVar[Collection[Option]] = ()
    options: dict[str, Any] = dataclasses.field(default_factory=dict, kw_only=True)
    given: frozenset[str] = dataclasses.field(default=frozenset(), kw_only=True)

    @property
    def languages(self) -> tuple[str, str]:
        """The languages of source and target that are asked for; "": those of the model."""
        return self.source_language, self.target_language  # pyright: ignore[reportAttributeAccessIssue]

    @classmethod
    def flags(cls) -> list[Option]:
        """Returns the flags that are fields; a `list[str]` or `str | None` is of type `str`."""
        fields = [field for field in dataclasses.fields(cls) if field.metadata]
        kinds = [(typing.get_args(field.type) or (field.type,))[0] for field in fields]
        return [
            field.metadata["option"]._replace(name=field.name, kind=kind)
            for field, kind in zip(fields, kinds, strict=True)
        ]

    def values(self) -> dict[str, Any]:
        """Returns name -> value of all flags that are fields, and of those in `options`."""
        return {o.name: getattr(self, o.name) for o in self.flags()} | self.options

    def check(self, more: Iterable[Option] = ()) -> None:
        """Raises `UserError` if flags, or some of `more`, break what they need or exclude."""
        rules.check([*self.flags(), *more], self.values(), self.given)


def flag(
    group: str,
    default: Any,
    text: str,
    minimum: float | None = None,
    maximum: float | None = None,
    **more: Any,
) -> Any:
    """Makes a field of `Arguments` that is a flag; the field's type is the flag's.

    Arguments are as of `Option`; a default of None says that there is no value without the flag.
    Commas separate the items of a list that is not `repeatable`.
    """
    option = Option("", default, text, group, minimum, maximum, **more)
    metadata = {"option": option}
    return dataclasses.field(default_factory=lambda: copy.copy(default), metadata=metadata)


def group(name: str) -> Callable[..., Any]:
    """Returns the function that makes the flags of a group of --help, see `flag`."""
    return functools.partial(flag, name)


_model, _search = group("Model"), group("Search")


def language_flag(make: Callable[..., Any], side: str, **options: Any) -> Any:
    """Makes the field `source_language` or `target_language`, for a model of several languages."""
    text = (
        f"Language of the {side}, as the model calls it; a wrong one prints the list. Default: the "
        "one that import_model.py or training was given. Only for a model of several languages."
    )
    return make("", text, **options)


def precision_flag(make: Callable[..., Any], **options: Any) -> Any:
    """Makes the field `precision`; the options of "int8" are as of `flag`."""
    text = (
        "Number format of the computation. bfloat16 takes half the memory. On processors that "
        "multiply it in hardware, large models translate batches in about two thirds of the time. "
        "int8 rounds weights to 8 bits and compiles all searches, seconds for each size; it pays "
        "for large models and many lines. Translations differ a little. auto compares float32 and "
        "int8 at the start."
    )
    choices = "float32", "bfloat16", "int8", AUTO
    return make("float32", text, choices=choices, when="int8", **options)


def split_sentences_flag(make: Callable[..., Any], text: str, **options: Any) -> Any:
    """Makes the field `split_sentences`; `text` says what it does."""
    text += (
        ": always, never, or auto, which does so where a line has more sentences than the lines of "
        "the training text."
    )
    return make("auto", text, choices=("auto", "always", "never"), **options)


@dataclasses.dataclass(frozen=True)
class ModelArguments(Arguments):
    """The flags of a script in which a trained model translates."""

    model_dir: str = _model(
        "",
        "Directory of the trained model, as train.py wrote it; several with the same vocabularies, "
        "separated by commas, are an ensemble.",
        required="the directory of the trained model",
    )
    source_language: str = language_flag(_model, "source")
    target_language: str = language_flag(_model, "target")
    beam_size: int = _search(
        4, "Number of hypotheses that the beam search keeps (1: greedy).", 1, 1000
    )
    length_penalty: float | None = _search(
        None,
        "A translation's log-probability is divided by its number of tokens to the power of this. "
        f"Default: what training chose on validation text, else {LENGTH_PENALTY:g}.",
        0.0,
        MAX_LENGTH_PENALTY,
    )
    max_input_tokens: int = _search(
        MAX_INPUT_TOKENS,
        "Longest line that is translated in one piece, in tokens with </s>; servers refuse longer "
        "ones. Memory grows with its square.",
        2,
        1_000_000,
    )


def define(options: Iterable[Option]) -> None:
    """Defines flags, whose value is None unless they are given."""
    for option in options:
        text, default = option.help, option.default
        if option.needs and not option.when:
            text += f" Only with {' and '.join(map(rules.in_words, option.needs))}."
        if default or isinstance(default, float):
            text += f" Default: {', '.join(default) if isinstance(default, list) else default}."
        is_bool = (option.kind or type(default)) is bool
        if option.repeatable:
            made = flags.MultiFlag(_Parser(option), None, option.name, None, text)
        else:
            made = flags.Flag(_Parser(option), None, option.name, None, text, boolean=is_bool)
        made.help = text  # absl adds a note on repeated flags.
        flags.DEFINE_flag(made, module_name=option.group)  # absl's help is divided by modules.


def read(record: type[Record]) -> Record:
    """Returns the values of a record's flags, after the command line was parsed."""
    own, options = map(_given, (record.flags(), record.more))
    return record(**own, options=options, given=frozenset({**own, **options}))


def _given(options):
    """Returns name -> value of the options whose flags are on the command line."""
    return {o.name: flags.FLAGS[o.name].value for o in options if flags.FLAGS[o.name].present}


def with_length_penalty(record: Record, config: dict[str, Any]) -> Record:
    """Returns a record with the --length_penalty of a model, unless the flag was given."""
    if record.length_penalty is not None:  # pyright: ignore[reportAttributeAccessIssue]
        return record
    return dataclasses.replace(record, length_penalty=config["length_penalty"])


@contextlib.contextmanager
def defined(record: type[Arguments]) -> Iterator[None]:
    """Within the `with` block, the flags of a record exist."""
    before = set(flags.FLAGS)
    try:
        define([*record.flags(), *record.more])
        yield
    finally:
        for name in set(flags.FLAGS) - before:
            delattr(flags.FLAGS, name)
        flags.FLAGS.unparse_flags()


def parse(argv: list[str], about: str = "") -> list[str]:
    """Reads the flags of a command line; returns only the name of the script, the first of `argv`.

    Loads the files of the user's own that flags name. For --help, `about` is the docstring of the
    script.
    Raises UserError: an unknown flag; a value that does not fit; an argument that is not a flag.
    Raises SystemExit: after printing help that was asked for.
    """
    if about and _HELP & {*argv[1:]}:
        parsers = (flags.FLAGS[name].parser for name in flags.FLAGS)
        groups = dict.fromkeys(p.option.group for p in parsers if isinstance(p, _Parser))
        print(about.strip(), *map(flags.FLAGS.module_help, groups), sep="\n")
        print("\n--helpfull prints the flags of all libraries, too.")
        raise SystemExit(0)
    try:
        rest = flags.FLAGS(_with_own_code(argv))
    except SystemExit:  # absl exits with status 1 after printing help.
        raise SystemExit(0) from None
    except flags.UnrecognizedFlagError as error:
        name = shortened(error.flagname)
        raise UserError(f"--{name}: there is no such flag; {_advice(name)}") from None
    except flags.Error as error:
        raise UserError(str(error)) from None
    if len(rest) > 1:
        raise UserError(
            f"unexpected argument {shortened(rest[1])!r}; flags start with --, and a value with "
            "spaces needs quotation marks"
        )
    return rest


def _advice(name: str) -> str:
    """Returns what to give in place of a flag that a script does not have."""
    known, settings = list(flags.FLAGS), {}
    if "update" in known:
        from nmt_zoo import models  # Other scripts do without Keras.

        for preset in (*models.PRESETS, "transformer_tiny"):
            settings |= models.preset_settings(preset)
    ours = (meant.split(", ") for names, meant in _ELSEWHERE.items() if name in names.split())
    meant = [n for n in next(ours, [name]) if n in known or n in settings]
    meant = meant or difflib.get_close_matches(name, known, n=1, cutoff=_ALIKE)
    shown = [f"--{n}" if n in known else f"--set {n}={settings[n]}" for n in meant]
    advice = f"did you mean {' or '.join(shown)}?" if shown else "--help lists all"
    in_settings = {n: settings[n] for n in meant if n not in known}
    return advice + (f" In Python: settings={in_settings}" if in_settings else "")


def _with_own_code(argv: list[str]) -> list[str]:
    """Returns `argv` with names in place of `file.py:Name`, after loading the files.

    Training options that the files register become flags.
    """
    before, arguments = dict(BY_NAME), []
    for argument in argv:
        name, equals, value = argument.partition("=")
        if equals and _MAY_BE_OWN.fullmatch(name):
            for path, _ in _OWN.findall(value):
                own_code.load(path)
            argument = f"{name}={_OWN.sub(lambda own: own[2], value)}"
        arguments.append(argument)
    for name, option in BY_NAME.items():
        if option is not before.get(name) and "update" in flags.FLAGS:
            if name in flags.FLAGS:
                delattr(flags.FLAGS, name)
            define([option])
    return arguments


def shortened(text: str, length: int = 60) -> str:
    """Shortens a text to at most `length` characters, for error messages."""
    return text if len(text) <= length else f"{text[: length - 3]}..."


def number_or(name: str, text: str, *words: str) -> int | str | None:
    """Returns the number from 1 that a flag gives, or one of `words`; None if `text` is empty.

    Raises UserError: anything else.
    """
    if not re.fullmatch("|".join([_NUMBER, *words, ""]), text):
        expected = " or ".join(["a number, counted from 1,", *words])
        raise UserError(f"--{name}={shortened(text)}: expected {expected}")
    return int(text) if text.isdigit() else text or None


class _Parser(flags.ArgumentParser):
    """Reads the text of one flag; its errors say what was expected and found."""

    def __init__(self, option: Option):
        if option.automatic and option.choices:
            option = option._replace(choices=(*option.choices, AUTO))
        self.option, self.kind = option, option.kind or type(option.default)
        is_text = self.kind is str and not option.choices
        self.syntactic_help = "" if is_text or self.kind is bool else option.expected()

    def parse(self, argument: str) -> Any:
        """Returns the value that a text gives; raises `UserError` if it does not fit."""
        option = self.option
        try:
            argument.encode()  # A byte that is not UTF-8 is a ValueError.
            if isinstance(option.default, list) and not option.repeatable:
                return [item.strip() for item in argument.split(",")] if argument else []
            value = _TRUTH[argument.lower()] if self.kind is bool else self.kind(argument)
            # An empty text may be an unset shell variable.
            fits = option.takes(value) and (value != "" or not option.default)
        except (ValueError, KeyError):
            fits = False
        if not fits:
            text = shortened(argument)
            raise UserError(f"--{option.name}={text}: {option.refusal(text or 'nothing')}")
        return value
