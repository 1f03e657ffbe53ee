"""Calls a script from Python: keyword arguments in place of flags, exceptions in place of exits."""

import importlib
import signal
import time
from typing import Any

from nmt_zoo.command_line.flag_values import defined, parse, read
from nmt_zoo.common import process
from nmt_zoo.common.errors import UserError
from nmt_zoo.models import SettingError


def call(name: str, **options: Any) -> None:
    """Runs a script, such as "train", in this process; its flags exist only during the call.

    `options` are flag -> value. None leaves a flag out; a list gives it several times; a dict gives
    it as `key=value` for each key.
    Raises UserError: as the script would print it. KeyboardInterrupt: Ctrl-C stopped the script.
    """
    process.BEGAN = time.monotonic()
    module = importlib.import_module(f"nmt_zoo.command_line.{name}")
    try:
        with defined(module.Arguments):
            parse([name, *arguments_of(options)])
            status = module.main(read(module.Arguments))
    except SettingError as error:
        raise UserError(str(error)) from None
    if status:
        raise KeyboardInterrupt if status == 128 + signal.SIGINT else SystemExit(status)


def arguments_of(options: dict[str, Any]) -> list[str]:
    """Returns options as the arguments of a command line.

    >>> arguments_of({"model": "ibm1", "seed": None, "set": {"width": 8}})
    ['--model=ibm1', '--set=width=8']
    """
    arguments = []
    for name, value in options.items():
        if isinstance(value, dict):
            values = [f"{key}={item}" for key, item in value.items()]
        else:
            values = value if isinstance(value, list | tuple) else [value]
        arguments += [f"--{name}={item}" for item in values if item not in (None, "")]
    return arguments
