"""Finds places of a parallel text where line n of one side does not belong to line n of the other.

Which units of both sides go together is counted between each line and the lines at all small
offsets alike, so that no offset is preferred. If the sides are translations, units of one offset
fit together far better than those of the others, and the offset is 0 in a sound text.
"""

from typing import NamedTuple

import numpy as np

from nmt_zoo.data_pipeline.checks.samples import BLOCK, Block, matrix, most_frequent, units_of

FARTHEST = 3  # Lines that a side may be shifted by, in either direction.
_OFFSETS = range(-FARTHEST, FARTHEST + 1)
_UNITS = 500  # Most units of a side.
_CLEAR = 4  # Standard errors.


class Pairing(NamedTuple):
    """How the sides of a block of pairs go together."""

    offset: int | None  # line n of the source belongs to n + offset of the target; None: unclear
    is_related: bool  # whether lines n of both sides fit together better than other lines
    example: int  # number of the pair in the block that shows the offset best


def pairings(blocks: list[Block]) -> list[Pairing]:
    """Returns the `Pairing` of each block of `BLOCK` pairs; of a single block, none."""
    if len(blocks) < 2:
        return []
    source, target = (
        _features([pair[side] for block in blocks for pair in block.pairs]) for side in (0, 1)
    )
    fit = _fit(source, target)
    return [_pairing(block) for block in np.clip(fit, *np.quantile(fit, (0.01, 0.99)))]


def _features(lines):
    """Returns `[blocks, BLOCK, features]`: standardised units and length of each line."""
    units = [units_of(line) for line in lines]
    lengths = np.log1p([[len(line)] for line in lines]).astype(np.float32)
    found = np.hstack([matrix(units, most_frequent(units, _UNITS, least=3)), lengths])
    found -= found.mean(0)
    found /= found.std(0) + 1e-6
    return found.reshape(-1, BLOCK, found.shape[-1])


def _fit(source, target):
    """Returns `[blocks, lines, offsets]`, how well each line fits the target line at an offset.

    The first and the last `FARTHEST` lines of a block are left out.
    """
    inner = source[:, FARTHEST:-FARTHEST]
    shifted = [target[:, FARTHEST + d : BLOCK - FARTHEST + d] for d in _OFFSETS]
    count = inner.shape[0] * inner.shape[1]
    together = np.einsum("bnv,bnw->vw", inner, sum(shifted), optimize=True) / count
    noise = 2 * np.sqrt(len(_OFFSETS) / count)
    together = np.sign(together) * np.maximum(np.abs(together) - noise, 0)
    expected = inner @ together
    return np.stack([np.einsum("bnw,bnw->bn", expected, t) for t in shifted], -1)


def _pairing(fit):
    """Returns the `Pairing` of a block with `fit` `[lines, offsets]`."""
    second, best = np.argsort(fit.mean(0))[-2:]
    lead = fit[:, best] - fit[:, second]
    others = np.delete(fit, FARTHEST, axis=1).mean(1)
    return Pairing(
        _OFFSETS[best] if _in_errors(lead) > _CLEAR else None,
        # Lines that are all alike have nothing to tell.
        not fit.any() or _in_errors(fit[:, FARTHEST] - others) > _CLEAR / 2,
        FARTHEST + int(lead.argmax()),
    )


def _in_errors(values):
    """Returns the mean in standard errors."""
    return values.mean() / (values.std() / np.sqrt(values.size) + 1e-9)
