"""Finds infinite values and NaN before they are saved."""

from typing import Any

import numpy as np

from nmt_zoo.common.errors import UserError

ADVICE = (
    "try a lower --learning_rate or more --warmup_steps (--update=em: a larger --alpha) in a new "
    "--model_dir"
)


def check_finite(variables: dict[str, Any], step: int, advice: str = ADVICE) -> None:
    """Raises `UserError` if a variable of name -> variable has an infinite value or NaN."""
    for name, variable in variables.items():
        if not np.isfinite(np.asarray(variable)).all():
            raise UserError(f"{name} is not finite at step {step:,}; {advice}")
