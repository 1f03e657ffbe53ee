"""Reads the command line of a script: one check of every flag, and one look of every error."""

import contextlib
import difflib
import re
import shutil
import sys
import textwrap

from absl import flags

from data_pipeline.files import UserError

_HELP = ("--help", "-help", "--helpshort", "-h", "-?")
_WIDEST = 100  # Characters of a line of help, at most.
_LARGEST = {int: 2**31 - 1, float: 3.4e38}  # What int32 and float32 hold.

flags.disclaim_key_flags()  # absl takes a flag for one of the script that calls `define`.


@contextlib.contextmanager
def group(title):
    """Puts the flags that are defined meanwhile under a heading of --help."""
    before = set(flags.FLAGS)
    yield
    for name in set(flags.FLAGS) - before:
        flags.FLAGS[name].group = title


def define(option):
    """Defines the flag of an `Option` of `model_directory.options`.

    Its value is None unless it is given: recipes choose the default for each model and corpus.
    """
    name, kind, text = option.name, type(option.default), option.help
    if option.only_with:
        other, values = option.only_with
        text += f" Only with --{other}={' or '.join(values)}."
    if option.default or kind is float:
        text += f" Default: {option.default}."
    if option.choices:
        flags.DEFINE_enum(name, None, option.choices, text)
    elif kind is bool:
        flags.DEFINE_bool(name, None, text)
    elif kind is str:
        flags.DEFINE_string(name, None, text)
    else:
        make = flags.DEFINE_integer if kind is int else flags.DEFINE_float
        make(name, None, text, option.minimum, option.maximum)


def help_lines(width):
    """Yields --help of the script: its docstring, then its flags by group, as they are defined.

    Args:
        width: characters of a line.
    """
    yield from (sys.modules["__main__"].__doc__ or "").strip().splitlines()
    title = None
    for name, flag in _flags_of_script():
        if title != (title := getattr(flag, "group", "Flags")):
            yield from ("", f"{title}:")
        yield from _help_of(name, flag, width)
    yield from ("", "--helpfull prints the flags of all libraries, too.")


def _flags_of_script():
    others = {
        flag.name
        for module, found in flags.FLAGS.flags_by_module_dict().items()
        if module.partition(".")[0] in ("absl", "tensorflow", "keras")
        for flag in found
    }
    found = [(name, flags.FLAGS[name]) for name in flags.FLAGS]
    return [(name, flag) for name, flag in found if flag.name == name and name not in others]


def _help_of(name, flag, width):
    """Lines of one flag: its name, and beside it what it does."""
    kind = "" if flag.boolean else "=N" if _is_number(flag.parser) else "=TEXT"
    text = flag.help.partition(";\n")[0]  # absl adds how to repeat it.
    if isinstance(flag.parser, flags.EnumParser):
        text = text.partition(">: ")[2] + f" One of: {', '.join(flag.parser.enum_values)}."
    if flag.default and not flag.boolean:
        default = flag.default if isinstance(flag.default, list) else [flag.default]
        text += f" Default: {', '.join(map(str, default))}."
    margin = 28
    lines = textwrap.wrap(text, width - margin, break_on_hyphens=False)
    head = f"  --{name}{kind}".ljust(margin)
    if len(head) > margin or head[-1] != " ":
        yield head
        head = " " * margin
    for line in lines:
        yield head + line
        head = " " * margin


def _is_number(parser):
    return isinstance(parser, (flags.IntegerParser, flags.FloatParser))


def parse(argv):
    """Parses flags with absl.

    Args:
        argv: list of str, the name of the script first.

    Returns:
        `argv` without flags: the name of the script alone.

    Raises:
        UserError: an unknown flag; a value that does not fit, is not finite, is beyond int32 or
            float32, or is not UTF-8; an empty one where the default is not; an argument that is no
            flag.
        SystemExit: help was asked for, and printed.
    """
    if any(argument in _HELP for argument in argv[1:]):
        width = min(shutil.get_terminal_size().columns, _WIDEST)
        print(*help_lines(max(width, 60)), sep="\n")
        raise SystemExit(0)
    try:
        rest = flags.FLAGS(argv)
    except SystemExit:  # absl ends with 1 after printing help.
        raise SystemExit(0) from None
    except (flags.Error, ValueError) as error:
        raise UserError(_in_one_line(error)) from None
    for name in flags.FLAGS:
        _check(flags.FLAGS[name])
    if len(rest) > 1:
        raise UserError(
            f"unexpected argument {shortened(rest[1])!r}; flags start with --, and a value with "
            "spaces needs quotation marks"
        )
    return rest


def shortened(text, length=60):
    """A text as errors show it: at most so many characters."""
    return text if len(text) <= length else f"{text[: length - 3]}..."


def _check(flag):
    """Raises `UserError` at a value that absl takes and no computer can work with."""
    for value in flag.value if isinstance(flag.value, list) else [flag.value]:
        if isinstance(value, str):
            _check_text(flag.name, value)
        if value == "" and (flag.default or flag.validators):  # Such as an unset variable.
            raise UserError(f"--{flag.name} is empty; give it a value")
        largest = _LARGEST.get(type(value))
        if type(value) is int and flag.parser.upper_bound:
            continue  # absl has checked it.
        if largest and not abs(value) <= largest:  # Nor is NaN.
            raise UserError(_does_not_fit(flag, str(value)))


def _check_text(name, text):
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        byte = ord(text[error.start]) - 0xDC00  # As Python keeps a byte that is not UTF-8.
        raise UserError(
            f"--{name}: not UTF-8 (byte 0x{byte:02x}); type it in a terminal that is set to UTF-8, "
            "or give the file another name"
        ) from None


def _does_not_fit(flag, value):
    value = shortened(value)
    return f"--{flag.name}={value}: expected {_expected(flag.parser)}, found {value or 'nothing'}"


def _expected(parser):
    """What a parser of absl takes, in words."""
    if isinstance(parser, flags.EnumParser):
        return f"one of {', '.join(parser.enum_values)}"
    if isinstance(parser, flags.BooleanParser):
        return "true or false"
    if not _is_number(parser):
        return parser.syntactic_help or "a text"
    is_whole = isinstance(parser, flags.IntegerParser)
    lower, upper = parser.lower_bound, parser.upper_bound or _LARGEST[int if is_whole else float]
    lower = -upper if lower is None else lower
    if is_whole:
        return f"a whole number from {lower} to {upper}"
    return f"a number from {lower:g} to {upper:g}"


def _in_one_line(error):
    """An error of absl as all others look."""
    if isinstance(error, flags.UnrecognizedFlagError):
        close = difflib.get_close_matches(error.flagname, list(flags.FLAGS), n=1)
        advice = f"did you mean --{close[0]}?" if close else "--help lists all"
        return f"--{shortened(error.flagname)}: there is no such flag; {advice}"
    text = str(error)
    if found := re.fullmatch("Missing value for flag (-.*)", text):
        return f"{found[1]}: expected a value, found nothing"
    found = re.match("flag --([^=]+)=(.*)", text, re.DOTALL)
    if not found:
        return text
    flag = flags.FLAGS[found[1]]
    if text.endswith("must have a value other than None."):
        return f"--{flag.name} is missing; give it: {flag.help}"
    return _does_not_fit(flag, _value(flag.parser, found[2]))


def _value(parser, text):
    """The value in absl's `value: reason`, of which both parts may have colons."""
    for place in re.finditer(": ", text):
        try:
            parser.parse(text[: place.start()])
        except (TypeError, ValueError, OverflowError) as error:
            if str(error) == text[place.end() :]:
                return text[: place.start()]
    return text
