"""Boolean masks, True where attention is allowed, and the softmax that they act on."""

from keras import ops

from nmt_zoo.models.base import Tensor

# A float32 score that a softmax turns into 0. It is finite, because a row of only -inf gives NaN.
HIDDEN_SCORE = -1e9
TINY = 1e-30  # Replaces a probability of 0, so that its logarithm is finite.


def padding_mask(ids: Tensor, pad_id: int) -> Tensor:
    """`[B, S]` ids -> `[B, S]` bool, True for real tokens."""
    return ops.not_equal(ids, pad_id)


def causal_mask(length: int | Tensor) -> Tensor:
    """`[1, 1, T, T]` bool: query t may attend to keys 0..t."""
    positions = ops.arange(length)
    return (positions[:, None] >= positions[None, :])[None, None]


def masked_softmax(scores: Tensor, attention_mask: Tensor | None = None) -> Tensor:
    """Computes weights that sum to 1 over the last axis and are 0 where the mask is False.

    `scores [..., S]`; `attention_mask`, bool, broadcastable to their shape, or None, which allows
    all -> `[..., S]` float32. If every key is hidden, all weights are equal, never NaN.
    """
    scores = ops.cast(scores, "float32")
    if attention_mask is not None:
        scores = ops.where(attention_mask, scores, HIDDEN_SCORE)
    # Avoids Keras's warning about a softmax over one key, which is correct here.
    return ops.softmax(scores) if scores.shape[-1] != 1 else ops.ones_like(scores)
