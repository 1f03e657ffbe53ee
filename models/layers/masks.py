"""Boolean masks, True where attention is allowed."""

from keras import ops


def padding_mask(ids, pad_id):
    """`[B, S]` ids -> `[B, S]` bool, True for real tokens."""
    return ops.not_equal(ids, pad_id)


def attend_to(source_mask):
    """`[B, S]` mask of keys -> `[B, 1, 1, S]`, broadcast over heads and queries."""
    return source_mask[:, None, None, :]


def causal_mask(length):
    """`[1, 1, T, T]` bool: query t may attend to keys 0..t."""
    positions = ops.arange(length)
    return (positions[:, None] >= positions[None, :])[None, None]
