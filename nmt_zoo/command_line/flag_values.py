"""Flags as records: a dataclass names a script's flags, and an instance of it has their values."""

import contextlib
import dataclasses
import difflib
import re
import shutil
import textwrap
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from absl import flags

from nmt_zoo.common.errors import UserError
from nmt_zoo.configuration.options import AUTO, LENGTH_PENALTY, MAX_LENGTH_PENALTY, Option

_HELP = ("--help", "-help", "--helpshort", "-h", "-?")
_WIDEST = 100  # Most characters of a line of help.
_NUMBER = "[1-9][0-9]{0,8}"  # Of a layer or head.
_LOWERED = ("batch_size", "max_lines", "beam_size")  # Flags whose lower values need less memory.
_LARGEST = {int: 2**31 - 1, float: 3.4e38}  # Largest values of int32 and float32.
_TRUTH = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}

Record = TypeVar("Record", bound="Arguments")

flags.disclaim_key_flags()  # So that absl attributes each flag to the script that defines it.


@dataclasses.dataclass(frozen=True)
class Arguments:
    """The flags of a script. A subclass has a field for each flag, made by `flag`.

    `given` has the names of the flags on the command line.
    """

    given: frozenset[str] = dataclasses.field(default=frozenset(), kw_only=True)

    @property
    def languages(self) -> tuple[str, str]:
        """The languages of source and target that are asked for; "": those of the model."""
        return self.source_language, self.target_language  # pyright: ignore[reportAttributeAccessIssue]

    def values(self) -> dict[str, Any]:
        """Returns name -> value of all flags."""
        return {each.name: getattr(self, each.name) for each in _fields(type(self))}


def flag(
    group: str,
    default: Any,
    text: str,
    minimum: float | None = None,
    maximum: float | None = None,
    *,
    choices: Iterable[str] = (),
    repeatable: bool = False,
) -> Any:
    """Makes a field of `Arguments` that is a flag; the field's type is the flag's.

    `group` is the heading in --help. Without the flag, the value is `default`; None if that is not
    a value. `text` is a whole phrase, with its unit. `choices` are the texts that are allowed;
    empty for any. Each use of a `repeatable` flag adds to a list; otherwise, commas separate its
    items.
    """
    about = {"group": group, "text": text, "minimum": minimum, "maximum": maximum}
    about |= {"choices": tuple(choices), "repeatable": repeatable}
    if isinstance(default, list):
        return dataclasses.field(default_factory=lambda: list(default), metadata=about)
    return dataclasses.field(default=default, metadata=about)


def beam_size_flag(group: str, more: str = "") -> Any:
    """Makes the field `beam_size`; `more` is added to its description."""
    text = f"Number of hypotheses that the beam search keeps (1: greedy){more}."
    return flag(group, 4, text, 1, 1000)


def language_flag(group: str, side: str) -> Any:
    """Makes the field `source_language` or `target_language`, for a model of several languages."""
    text = (
        f"Language of the {side}, as the model calls it; a wrong one prints the list. Default: the "
        "one that import_model.py or training was given. Only for a model of several languages."
    )
    return flag(group, "", text)


def length_penalty_flag(group: str, more: str = "") -> Any:
    """Makes the field `length_penalty`; `more` is added to its description."""
    text = (
        "Exponent alpha of the length penalty of Wu et al. 2016 (0: no penalty). Default: the one "
        f"that training chose on validation text, else {LENGTH_PENALTY}{more}."
    )
    return flag(group, None, text, 0.0, MAX_LENGTH_PENALTY)


def max_input_tokens_flag(
    group: str,
    default: int,
    text: str = "Longest line that is translated, in tokens with </s>; a request with a longer "
    "line is refused.",
) -> Any:
    """Makes the field `max_input_tokens`; `text` says what it limits."""
    return flag(group, default, text, 2, 1_000_000)


def split_sentences_flag(group: str, text: str) -> Any:
    """Makes the field `split_sentences`; `text` says what it does."""
    text += (
        ": always, never, or auto, which does so where a line has more sentences than the lines of "
        "the training text."
    )
    return flag(group, "auto", text, choices=("auto", "always", "never"))


def define(record: type[Arguments]) -> None:
    """Defines the flags of a record."""
    hints = typing.get_type_hints(record)
    for each in _fields(record):
        kind, default = hints[each.name], each.default
        if isinstance(kind, types.UnionType):  # `int | None`
            kind = next(one for one in typing.get_args(kind) if one is not type(None))
        about = dict(each.metadata)
        is_list, repeatable = typing.get_origin(kind) is list, about.pop("repeatable")
        if is_list:
            kind, default = str, each.default_factory()  # pyright: ignore[reportCallIssue]
        _define(each.name, kind, default, is_list=is_list, repeatable=repeatable, **about)


def define_options(options: Iterable[Option]) -> None:
    """Defines a flag for each option, whose value is None unless the flag is given."""
    for option in options:
        kind, text = type(option.default), option.help
        if option.only_with:
            other, values = option.only_with
            text += f" Only with --{other}={' or '.join(values)}."
        if option.default or kind is float:
            text += f" Default: {option.default}."
        choices = (*option.choices, *[AUTO] * option.automatic) if option.choices else ()
        limits = {"minimum": option.minimum, "maximum": option.maximum, "choices": choices}
        _define(option.name, kind, None, text=text, group=option.group, **limits)


def given_options(options: Iterable[Option]) -> dict[str, Any]:
    """Returns name -> value of the options whose flags are on the command line."""
    return {o.name: flags.FLAGS[o.name].value for o in options if flags.FLAGS[o.name].present}


def read(record: type[Record]) -> Record:
    """Returns the values of a record's flags, after the command line was parsed."""
    found = {each.name: flags.FLAGS[each.name] for each in _fields(record)}
    given = frozenset(name for name, each in found.items() if each.present)
    return record(**{name: each.value for name, each in found.items()}, given=given)


def with_length_penalty(record: Record, config: dict[str, Any]) -> Record:
    """Returns a record with the --length_penalty of a model, unless the flag was given."""
    if record.length_penalty is not None:  # pyright: ignore[reportAttributeAccessIssue]
        return record
    return dataclasses.replace(record, length_penalty=config["length_penalty"])


@contextlib.contextmanager
def defined(define_flags: Callable[[], None]) -> Iterator[None]:
    """Within the `with` block, the flags that a function defines exist."""
    before = set(flags.FLAGS)
    try:
        define_flags()
        yield
    finally:
        for name in set(flags.FLAGS) - before:
            delattr(flags.FLAGS, name)
        flags.FLAGS.unparse_flags()


def parse(argv: list[str], about: str = "") -> list[str]:
    """Reads the flags of a command line; returns only the name of the script, the first of `argv`.

    For --help, `about` is the docstring of the script.
    Raises UserError: an unknown flag; a value that does not fit; an argument that is not a flag.
    Raises SystemExit: after printing help that was asked for.
    """
    if about and any(argument in _HELP for argument in argv[1:]):
        width = min(shutil.get_terminal_size().columns, _WIDEST)
        print(*help_lines(about, max(width, 60)), sep="\n")
        raise SystemExit(0)
    try:
        rest = flags.FLAGS(argv)
    except SystemExit:  # absl exits with status 1 after printing help.
        raise SystemExit(0) from None
    except flags.UnrecognizedFlagError as error:
        close = difflib.get_close_matches(error.flagname, list(flags.FLAGS), n=1)
        advice = f"did you mean --{close[0]}?" if close else "--help lists all"
        raise UserError(f"--{shortened(error.flagname)}: there is no such flag; {advice}") from None
    except flags.Error as error:
        raise UserError(_rewritten(str(error))) from None
    if len(rest) > 1:
        raise UserError(
            f"unexpected argument {shortened(rest[1])!r}; flags start with --, and a value with "
            "spaces needs quotation marks"
        )
    return rest


def help_lines(about: str, width: int) -> Iterator[str]:
    """Yields the lines of --help: the script's docstring `about`, then its flags by group.

    `width` is the most characters of a line.
    """
    yield from about.strip().splitlines()
    every: Iterable[Any] = map(flags.FLAGS.__getitem__, flags.FLAGS)
    found = [each for each in every if hasattr(each, "group")]
    title, margin = None, 28
    for each in dict.fromkeys(found):
        if title != (title := each.group):
            yield from ("", f"{title}:")
        kind = "" if each.boolean else "=N" if each.parser.kind in _LARGEST else "=TEXT"
        text = each.help.partition(";\n")[0]  # absl appends a note on repeated flags.
        if each.parser.choices:
            text += f" One of: {', '.join(each.parser.choices)}."
        if each.default and not each.boolean:
            default = each.default if isinstance(each.default, list) else [each.default]
            text += f" Default: {', '.join(map(str, default))}."
        lines = [
            " " * margin + line
            for line in textwrap.wrap(text, width - margin, break_on_hyphens=False)
        ]
        head = f"  --{each.name}{kind} "
        if len(head) <= margin:
            lines[0] = head.ljust(margin) + lines[0].lstrip()
        else:
            lines.insert(0, head.rstrip())
        yield from lines
    yield from ("", "--helpfull prints the flags of all libraries, too.")


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


def advice_on_memory() -> str:
    """Returns how the script could do with less memory; names only flags that it has."""
    known = set(flags.FLAGS)
    if "max_tokens_per_batch" in known:
        return (
            "lower --max_tokens_per_batch, or make the model smaller with --set, in a new "
            "--model_dir"
        )
    lowered = [f"--{name}" for name in _LOWERED if name in known]
    advice = [f"lower {' or '.join(lowered)}"] if lowered else []
    if known & {"source", "input"}:
        advice.append("give fewer lines at a time, without the longest")
    return ", or ".join([*advice, "use a computer with more"])


def _fields(record):
    return [each for each in dataclasses.fields(record) if each.metadata]


def _define(name, kind, default, *, text, group, is_list=False, repeatable=False, **limits):
    parser = _Parser(kind, required=bool(default), is_list=is_list and not repeatable, **limits)
    make = flags.MultiFlag if repeatable else flags.Flag
    more = {} if repeatable else {"boolean": kind is bool}
    made = make(parser, flags.ArgumentSerializer(), name, default, text, **more)
    made.group = group  # pyright: ignore[reportAttributeAccessIssue]
    flags.DEFINE_flag(made)


class _Parser(flags.ArgumentParser):
    """Reads the text of one flag; its errors say what was expected and found."""

    def __init__(self, kind, *, minimum, maximum, choices, required=False, is_list=False):
        self.kind, self.choices = kind, choices
        self.required, self.is_list = required, is_list
        largest = _LARGEST.get(kind)
        self.largest = largest if maximum is None else maximum
        self.least = -largest if largest and minimum is None else minimum

    def parse(self, argument: Any) -> Any:
        if not isinstance(argument, str):  # A default.
            return argument
        try:
            found = self._convert(argument)
        except (ValueError, KeyError):
            found = None
        if found is None:
            raise ValueError(
                f"expected {self._expected()}, found {shortened(argument) or 'nothing'}"
            )
        return found

    def _convert(self, text):
        text.encode()  # A byte that is not UTF-8 is a ValueError.
        if self.is_list:
            return [item.strip() for item in text.split(",")] if text else []
        if self.kind is bool:
            return _TRUTH[text.lower()]
        if self.kind is str:
            fits = text in self.choices if self.choices else text or not self.required
            return text if fits else None  # An empty text may be an unset shell variable.
        number = self.kind(text)
        return number if self.least <= number <= self.largest else None  # Not for NaN.

    def _expected(self):
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if self.kind is bool:
            return "true or false"
        if self.kind is str:
            return "a text in UTF-8"
        kind = "a whole number" if self.kind is int else "a number"
        return f"{kind} from {self.least:.10g} to {self.largest:.10g}"


def _rewritten(text):
    """Rewrites absl's error about a value in the form of all other errors."""
    if found := re.fullmatch("Missing value for flag (-.*)", text):
        return f"{found[1]}: expected a value, found nothing"
    found = re.fullmatch("flag --([^=]+)=(.*): (expected .*)", text, re.DOTALL)
    return f"--{found[1]}={shortened(found[2])}: {found[3]}" if found else text
