"""Reads a script's command line: checks every flag and gives all errors the same form."""

import contextlib
import difflib
import re
import shutil
import textwrap
from pathlib import Path

from absl import flags

from nmt_zoo.common import own_code
from nmt_zoo.common.errors import UserError
from nmt_zoo.configuration.options import AUTO, BY_NAME, LENGTH_PENALTY, MAX_LENGTH_PENALTY

_HELP = ("--help", "-help", "--helpshort", "-h", "-?")
_WIDEST = 100  # Most characters of a line of help.
# Former flags of visualize_attention.py -> their names in align.py.
_MOVED = {
    "source_file": "source",
    "target_file": "target",
    "alignments": "alignments",
    "from_alignments": "from_alignments",
    "gold": "gold",
    "lexicon": "lexicon",
    "reverse_model_dir": "reverse_model_dir",
    "save_scores": "save_scores",
    "symmetrise": "symmetrise",
    "threshold": "threshold",
}
_NUMBER = "[1-9][0-9]{0,8}"  # Of a layer or head.
_LOWERED = ("batch_size", "max_lines", "beam_size")  # Flags whose lower values need less memory.
_LARGEST = {int: 2**31 - 1, float: 3.4e38}  # Largest values of int32 and float32.

flags.disclaim_key_flags()  # So that absl attributes each flag to the script that calls `define`.


@contextlib.contextmanager
def group(title):
    """Lists the flags that the `with` block defines under one heading of --help."""
    before = set(flags.FLAGS)
    yield
    for name in set(flags.FLAGS) - before:
        flags.FLAGS[name].group = title  # pyright: ignore[reportAttributeAccessIssue]


def define_beam_size(more=""):
    """Defines --beam_size; `more` is added to its description."""
    text = f"Number of hypotheses that the beam search keeps (1: greedy){more}."
    flags.DEFINE_integer("beam_size", 4, text, 1, 1000)


def define_length_penalty(more=""):
    """Defines --length_penalty; `more` is added to its description."""
    text = (
        "Exponent alpha of the length penalty of Wu et al. 2016 (0: no penalty). Default: the one "
        f"that training chose on validation text, else {LENGTH_PENALTY}{more}."
    )
    flags.DEFINE_float("length_penalty", None, text, 0.0, MAX_LENGTH_PENALTY)


def set_length_penalty(config):
    """Sets --length_penalty to that of a model's configuration, unless the flag was given."""
    if flags.FLAGS.length_penalty is None:
        flags.FLAGS.length_penalty = config["length_penalty"]


def define_split_sentences(text):
    """Defines --split_sentences with a description; it may also be given without a value."""
    flags.DEFINE_flag(
        flags.Flag(
            _SplitParser(),
            flags.ArgumentSerializer(),
            "split_sentences",
            "auto",
            f"{text}: always, never, or auto, which does so where a line has more sentences than "
            "the lines of the training text. Default: auto; without a value, always.",
            boolean=True,
        )
    )


_FORMER = {"true": "always", "1": "always", "false": "never", "0": "never"}


class _SplitParser(flags.ArgumentParser):
    """Parses --split_sentences, which was a flag without values."""

    syntactic_help = "auto, always or never"

    def parse(self, argument):
        value = _FORMER.get(str(argument).lower(), argument)
        if value not in ("auto", "always", "never"):
            raise ValueError("expected auto, always or never")
        return value


def define_max_input_tokens(default, text):
    """Defines --max_input_tokens with a description."""
    flags.DEFINE_integer("max_input_tokens", default, text, 2, 1_000_000)


def advice_on_memory():
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


def define(option):
    """Defines the flag of an `Option` of `configuration.options`.

    Its value is None unless it is given: recipes choose the default for each model and corpus.
    """
    name, kind, text = option.name, type(option.default), option.help
    if option.only_with:
        other, values = option.only_with
        text += f" Only with --{other}={' or '.join(values)}."
    if option.default or kind is float:
        text += f" Default: {option.default}."
    if option.choices:
        choices = (*option.choices, AUTO) if option.automatic else option.choices
        flags.DEFINE_enum(name, None, choices, text)
    elif kind is bool:
        flags.DEFINE_bool(name, None, text)
    elif kind is str:
        flags.DEFINE_string(name, None, text)
    else:
        make = flags.DEFINE_integer if kind is int else flags.DEFINE_float
        make(name, None, text, option.minimum, option.maximum)


def help_lines(about, width):
    """Yields the lines of --help: the script's docstring, then its flags by group.

    Args:
        about: the docstring of the script.
        width: most characters of a line.
    """
    yield from about.strip().splitlines()
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
    """Yields the help lines of one flag: its name, and its description in a second column."""
    kind = "" if flag.boolean else "=N" if _is_number(flag.parser) else "=TEXT"
    text = flag.help.partition(";\n")[0]  # absl appends a note on repeated flags.
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


def parse(argv, about=""):
    """Parses flags with absl.

    Args:
        argv: list of str, the name of the script first.
        about: the docstring of the script, for --help.

    Returns:
        `argv` without flags: only the name of the script.

    Raises:
        UserError: an unknown flag; a value that does not fit, is not finite, is beyond int32 or
            float32, or is not UTF-8; an empty value of a flag whose default is not empty; an
            argument that is not a flag.
        SystemExit: after printing help that was asked for.
    """
    if any(argument in _HELP for argument in argv[1:]):
        width = min(shutil.get_terminal_size().columns, _WIDEST)
        print(*help_lines(about, max(width, 60)), sep="\n")
        raise SystemExit(0)
    try:
        rest = flags.FLAGS(_with_own_code(argv))
    except SystemExit:  # absl exits with status 1 after printing help.
        raise SystemExit(0) from None
    except (flags.Error, ValueError) as error:
        raise UserError(_in_one_line(error, Path(argv[0]).stem)) from None
    for name in flags.FLAGS:
        _check(flags.FLAGS[name])
    if len(rest) > 1:
        raise UserError(
            f"unexpected argument {shortened(rest[1])!r}; flags start with --, and a value with "
            "spaces needs quotation marks"
        )
    return rest


# Flags whose value may be `file.py:Name`.
_OWN = re.compile(r"--?(model|update|dataset|rules)")
_OWN_VALUE = re.compile(r"([^,]+\.py):(\w+)")


def _with_own_code(argv):
    """Loads the files that values like `my_model.py:Name` name; returns `argv` with the names.

    Training options that these files register become flags.
    """
    before, found = dict(BY_NAME), []
    for argument in argv:
        flag, equals, value = argument.partition("=")
        if equals and _OWN.fullmatch(flag):
            for path, _ in _OWN_VALUE.findall(value):
                own_code.load(path)
            argument = f"{flag}={_OWN_VALUE.sub(lambda own: own[2], value)}"
        found.append(argument)
    for name, option in BY_NAME.items():
        if option is not before.get(name) and "update" in flags.FLAGS:
            if name in flags.FLAGS:
                delattr(flags.FLAGS, name)
            with group(option.group):
                define(option)
    return found


def shortened(text, length=60):
    """Shortens a text to at most `length` characters, for error messages."""
    return text if len(text) <= length else f"{text[: length - 3]}..."


def _check(flag):
    """Raises `UserError` at a value that absl accepts but the program cannot use."""
    for value in flag.value if isinstance(flag.value, list) else [flag.value]:
        if isinstance(value, str):
            _check_text(flag.name, value)
        if value == "" and (flag.default or flag.validators):  # Perhaps an unset shell variable.
            raise UserError(f"--{flag.name} is empty; give it a value")
        largest = _LARGEST.get(type(value))
        if type(value) is int and flag.parser.upper_bound:
            continue  # absl has checked the range.
        if largest and not abs(value) <= largest:  # True for NaN, too.
            raise UserError(_does_not_fit(flag, str(value)))


def _check_text(name, text):
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        byte = ord(text[error.start]) - 0xDC00  # Python stores an undecodable byte b as 0xDC00 + b.
        raise UserError(
            f"--{name}: not UTF-8 (byte 0x{byte:02x}); set the terminal to UTF-8, or rename the "
            "file"
        ) from None


def _does_not_fit(flag, value):
    value = shortened(value)
    return f"--{flag.name}={value}: expected {_expected(flag.parser)}, found {value or 'nothing'}"


def _expected(parser):
    """Describes the values that an absl parser accepts."""
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


def _in_one_line(error, script):
    """Rewrites an absl error of a script in the form of all other errors."""
    if isinstance(error, flags.UnrecognizedFlagError):
        if script == "visualize_attention" and error.flagname in _MOVED:
            return f"--{error.flagname} is now --{_MOVED[error.flagname]} of align.py"
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
    """Extracts the value from absl's `value: reason`; both parts may contain colons."""
    for place in re.finditer(": ", text):
        try:
            parser.parse(text[: place.start()])
        except (TypeError, ValueError, OverflowError) as error:
            if str(error) == text[place.end() :]:
                return text[: place.start()]
    return text


def number_or(name, text, *words):
    """Returns the number from 1 that a flag gives, or the one of `words`; None if it is empty.

    Raises:
        UserError: anything else.
    """
    if not re.fullmatch("|".join([_NUMBER, *words, ""]), text):
        expected = " or ".join(["a number, counted from 1,", *words])
        raise UserError(f"--{name}={shortened(text)}: expected {expected}")
    return int(text) if text.isdigit() else text or None
