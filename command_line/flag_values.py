"""Reads the command line of a script: one check of every flag, and one look of every error."""

import difflib
import re

from absl import flags

from data_pipeline.files import UserError

_LARGEST = {int: 2**31 - 1, float: 3.4e38}  # What int32 and float32 hold.


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
    if not isinstance(parser, (flags.IntegerParser, flags.FloatParser)):
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
