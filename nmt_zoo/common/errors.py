"""The error that a user can mend, and how foreign text is shown."""


class UserError(Exception):
    """An error that the user can fix: its message names what was found, where, and what to do."""


def printable(text: str) -> str:
    """Escapes control characters in foreign text, such as a server's, before it is printed."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
