"""Chains of models: each stage begins with what the simpler model before it has found."""

from typing import NamedTuple

from nmt_zoo.training.ways.expectation_maximisation.jump_estimates import JumpsEstimate
from nmt_zoo.training.ways.expectation_maximisation.position_estimates import (
    DiagonalEstimate,
    PositionEstimate,
    UniformEstimate,
)


class Stage(NamedTuple):
    """A model of a chain."""

    name: str  # as it is printed
    positions: PositionEstimate | None  # to begin with; None: from the stage before
    fertile: bool = False  # whether source words have fertilities


# Model 1 comes first because it has a single optimum, so that starting from its table makes a
# richer model less sensitive to initialisation.
MODEL_1 = Stage("Model 1", UniformEstimate())
MODEL_2 = Stage("Model 2", DiagonalEstimate())
HMM = Stage("HMM", JumpsEstimate.first())
HMM_BEFORE_FERTILITIES = Stage("HMM", JumpsEstimate.first(null_probability=0.08))
FERTILITIES = Stage("HMM with fertilities", None, fertile=True)

# Model of align.py -> its chain.
CHAINS = {
    "ibm1": (MODEL_1,),
    "ibm2": (MODEL_1, MODEL_2),
    "hmm": (MODEL_1, HMM),
    "fertility": (MODEL_1, HMM_BEFORE_FERTILITIES, FERTILITIES),
}
