"""The flag --set: settings of a model."""

import json
from typing import Any

from nmt_zoo import models
from nmt_zoo.command_line.flag_values import shortened
from nmt_zoo.common.errors import UserError


def parse_settings(given: list[str], preset: str, check_read: bool = True) -> dict[str, Any]:
    """Reads texts of the form name=value; each value gets the type of the preset's value.

    Raises UserError: no setting of this name, a value that does not fit, or, with `check_read`, a
    setting that would have no effect.
    """
    valid = models.preset_settings(preset)
    settings = {}
    for text in given:
        (name, equals, value), shown = text.partition("="), f"--set {shortened(text)}"
        if not equals:
            raise UserError(f"{shown}: expected name=value")
        if name not in valid:
            names = ", ".join(sorted(valid))
            raise UserError(f"{shown}: {preset} has no such setting; valid: {names}")
        try:
            settings[name] = value if isinstance(valid[name], str) else json.loads(value.lower())
        except (ValueError, RecursionError):
            raise UserError(f"{shown}: expected a value like {valid[name]!r}") from None
    for name, value in settings.items() if check_read else ():
        if value != valid[name] and (reason := models.why_unread(preset, name, settings)):
            raise UserError(f"--set {name}={value}: it {reason}")
    return settings
