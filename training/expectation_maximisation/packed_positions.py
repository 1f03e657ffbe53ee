"""Position models as arrays: for checkpoints, and for the layers of `models`."""

import numpy as np

from models.layers import jumps, source_positions
from training.expectation_maximisation.jump_estimates import Jumps
from training.expectation_maximisation.position_estimates import Diagonal, PositionTable, Uniform

_LEAST = 1e-30  # Probabilities below have the logit of this one.


def logarithms(probabilities):
    """float64 -> float32."""
    return np.log(np.maximum(probabilities, _LEAST)).astype(np.float32)


def first(positions, max_jump, null_probability, **_):
    """The parameters that training begins with, for some settings of `AlignmentModel`."""
    if positions == "jumps":
        return Jumps.first(widest=max_jump, null_probability=null_probability)
    if positions == "diagonal":
        return Diagonal(null_probability=null_probability)
    return PositionTable({}) if positions == "table" else Uniform()


def pack(positions, words=None, max_positions=0):
    """The parameters of a position model as one float64 array.

    A table is `[n - 1, target position, source position]`, as large as the corpus needs and
    `max_positions` allows, 0 where there is no row.
    """
    if isinstance(positions, Diagonal):
        return np.array([positions.tension])
    if isinstance(positions, Jumps):
        return np.concatenate([positions.widths, positions.starts])
    if isinstance(positions, Uniform):
        return np.zeros(0)
    heights = max((block.active.size for block in words.blocks), default=0)
    lengths = max((block.source_length for block in words.blocks), default=0)
    heights, lengths = min(heights, max_positions), min(lengths, max_positions)
    array = np.zeros([lengths, heights, lengths])
    for n, table in positions.tables.items():
        if n <= lengths:
            rows = table[:heights]
            array[n - 1, : len(rows), :n] = rows
    return array


def unpack(positions, array):
    """The position model of a packed array, like the one given in all else."""
    if isinstance(positions, Diagonal):
        return positions._replace(tension=float(array[0]))
    if isinstance(positions, Jumps):
        size = positions.widths.size
        return positions._replace(widths=array[:size], starts=array[size:])
    if isinstance(positions, Uniform):
        return positions
    heights = np.count_nonzero(array.any(axis=2), axis=1)
    tables = {n: array[n - 1, :h, :n] for n, h in enumerate(heights.tolist(), start=1) if h}
    return PositionTable(tables)


def assign(layer, array):
    """Gives a packed array to the layer of models.layers that has the same model."""
    if isinstance(layer, source_positions.Diagonal):
        layer.tension.assign(array[0])
    elif isinstance(layer, jumps.Jumps):
        size = layer.jump_logits.shape[0]
        layer.jump_logits.assign(logarithms(array[:size]))
        layer.start_logits.assign(logarithms(array[size:]))
    elif isinstance(layer, source_positions.PositionTable):
        logits = np.zeros(layer.logits.shape, np.float32)
        logits[tuple(map(slice, array.shape))] = logarithms(array)
        layer.logits.assign(logits)
