"""Flags whose value names a file of the user's own, such as --model=my_model.py:Name."""

import re

from absl import flags

from nmt_zoo.command_line import flag_values
from nmt_zoo.common import own_code
from nmt_zoo.configuration.options import BY_NAME

_OWN = re.compile(r"--?(architecture|model|update|dataset|rules)")
_VALUE = re.compile(r"([^,]+\.py):(\w+)")


def parse(argv: list[str], about: str = "") -> list[str]:
    """Loads the files that flags name, and then does as `flag_values.parse` with the names."""
    return flag_values.parse(_loaded(argv), about)


def _loaded(argv: list[str]) -> list[str]:
    """Returns `argv` with names in place of `file.py:Name`, after loading the files.

    Training options that the files register become flags.
    """
    before, found = dict(BY_NAME), []
    for argument in argv:
        flag, equals, value = argument.partition("=")
        if equals and _OWN.fullmatch(flag):
            for path, _ in _VALUE.findall(value):
                own_code.load(path)
            argument = f"{flag}={_VALUE.sub(lambda own: own[2], value)}"
        found.append(argument)
    for name, option in BY_NAME.items():
        if option is not before.get(name) and "update" in flags.FLAGS:
            if name in flags.FLAGS:
                delattr(flags.FLAGS, name)
            flag_values.define_options([option])
    return found
