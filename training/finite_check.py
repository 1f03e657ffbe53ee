"""Numbers that are none, found before they do harm."""

import numpy as np

from data_pipeline.files import UserError

ADVICE = "try a lower --learning_rate or more --warmup_steps in a new --model_dir"


def check_finite(variables, step, advice=ADVICE):
    """Raises `UserError` if a value of name -> variable is infinite or no number."""
    for name, variable in variables.items():
        if not np.isfinite(np.asarray(variable)).all():
            raise UserError(f"{name} is not finite at step {step:,}; {advice}")
