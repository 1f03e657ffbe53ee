"""The error that a user can mend, checks of what Python is given, and how foreign text is shown."""

from collections.abc import Iterable
from typing import Any


class UserError(Exception):
    """An error that the user can fix: its message names what was found, where, and what to do."""

    def _render_traceback_(self) -> list[str]:
        return [f"UserError: {self}"]  # All that a notebook shows.


def texts_of(**sides: Any) -> list[list[str]]:
    """Returns the lines of each side, a collection or one text, as a list.

    Raises UserError: one is not a text, or the sides differ in length.
    """
    for name, lines in sides.items():
        are_several = isinstance(lines, Iterable) and not isinstance(lines, str)
        sides[name] = list(lines) if are_several else [lines]
        for number, line in enumerate(sides[name], start=1):
            if not isinstance(line, str):
                raise UserError(f"{name}, line {number}: expected a text, found {repr(line)[:60]}")
    if len({*map(len, sides.values())}) > 1:
        found = " and ".join(
            f"{len(lines):,} {name.replace('_', ' ')}" for name, lines in sides.items()
        )
        raise UserError(f"expected a translation of every line, found {found}")
    return [*sides.values()]


def printable(text: str) -> str:
    """Escapes control characters in foreign text, such as a server's, before it is printed."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
