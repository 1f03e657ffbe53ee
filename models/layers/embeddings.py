"""Token embeddings and positions. Vaswani et al. 2017, sections 3.4 and 3.5; Su et al. 2021."""

import math
from typing import Any

import keras
from keras import ops

from nmt_zoo.models.base import Tensor, round_weight
from nmt_zoo.models.layers.products import Int8

# Kinds of sinusoids. "marian" and "fairseq", named after the toolkits whose models have them: all
# sines before all cosines; fairseq's wave lengths grow by the power 2i/(D - 2), its first position
# is 2.
SINUSOIDS = ("sinusoidal", "marian", "fairseq")


def sinusoidal_positions(positions: Tensor, width: int, kind: str = "sinusoidal") -> Tensor:
    """Sinusoids of geometrically growing wave length, section 3.5.

    `PE(p, 2i) = sin(p / 10000^(2i/D))`, `PE(p, 2i+1) = cos(p / 10000^(2i/D))`. They are computed,
    not looked up, so sentences may be of any length. `positions [T]` int32, counted from 0;
    `width`, D, even; `kind`, of `SINUSOIDS` -> `[T, D]` float32.
    """
    if kind != "sinusoidal":
        angles = (
            _angles(positions, width)
            if kind == "marian"
            else _angles(positions + 2, width, width / 2 / max(width / 2 - 1, 1))
        )
        return ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=-1)
    angles = _angles(positions, width)
    pairs = ops.stack([ops.sin(angles), ops.cos(angles)], axis=-1)  # [T, D/2, 2]
    return ops.reshape(pairs, (-1, width))


def rotate(x: Tensor, first: int | Tensor = 0) -> Tensor:
    """Rotates pairs of units by angles that grow with the position, Su et al. 2021, equation 34.

    The product of a rotated query and a rotated key depends on their distance only, not on where
    they are. The paper pairs units 2i and 2i + 1. Here i and i + d/2 are a pair, which is the same
    but for the order of the units, and quicker. `x [..., T, d]`, d even, at positions `first` (int
    or scalar int32), `first + 1` and so on -> `[..., T, d]`.
    """
    angles = _angles(first + ops.arange(ops.shape(x)[-2]), x.shape[-1])
    cos, sin = (ops.cast(wave(angles), x.dtype) for wave in (ops.cos, ops.sin))
    a, b = ops.split(x, 2, axis=-1)
    return ops.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)


def _angles(positions, width, steepness=1.0):
    """`p / 10000^(2i/D)` for positions p `[T]` and i below D/2: `[T, D/2]` float32."""
    slope = -math.log(1e4) / width * steepness
    frequencies = ops.exp(ops.arange(0, width, 2, dtype="float32") * slope)
    return ops.cast(positions, "float32")[:, None] * frequencies[None, :]


@keras.saving.register_keras_serializable("nmt_zoo")
class Embedding(keras.layers.Embedding):
    """As `keras.layers.Embedding`, but quick under mixed precision.

    Keras casts the whole table to the compute dtype at every look-up. Without its automatic casts,
    only the vectors that have been looked up are cast.
    """

    def add_weight(self, *args: Any, **kwargs: Any) -> keras.Variable:
        return super().add_weight(*args, **kwargs, autocast=False)


@keras.saving.register_keras_serializable("nmt_zoo")
class TokenEmbedding(keras.layers.Layer):
    """Looks up a vector for each of V ids; `scaled`: multiplies it by sqrt(D), section 3.4."""

    def __init__(self, vocab_size: int, width: int, scaled: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.scaled = scaled
        self.vocab_size = vocab_size
        self.width = width

    def build(self, ids_shape: Any = None) -> None:
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.vocab_size, self.width),
            # Gives unit variance after the multiplication by sqrt(D), and small logits if tied.
            initializer=keras.initializers.RandomNormal(stddev=self.width**-0.5),
            autocast=False,  # For the reason given in `Embedding`.
        )
        self.built = True

    def quantise(self) -> None:
        """As `Searchable.quantise`."""
        # As the kernel of an output layer that shares them: XLA has no fast product with a
        # transposed matrix, but looks up columns nearly as fast as rows.
        round_weight(self, "embeddings", ops.transpose(self.embeddings))

    def call(self, ids: Tensor) -> Tensor:
        """`[B, T]` int32 -> `[B, T, D]`."""
        if isinstance(self.embeddings, Int8):
            vectors = self.embeddings.taken(ids)
        else:
            vectors = ops.take(self.embeddings, ids, axis=0)
        vectors = ops.cast(vectors, self.compute_dtype)
        return vectors * self.width**0.5 if self.scaled else vectors


@keras.saving.register_keras_serializable("nmt_zoo")
class PositionalEncoding(keras.layers.Layer):
    """Adds a vector for each position, Vaswani et al. 2017, section 3.5.

    `kind` is of `SINUSOIDS`, or "learned": `num_learned` vectors of `width`, the last of
    which serves all later positions, too.
    Example:
        >>> PositionalEncoding()(ops.zeros((1, 2, 4)))[0, 0]
        <tf.Tensor: shape=(4,), dtype=float32, numpy=array([0., 1., 0., 1.], dtype=float32)>
    """

    def __init__(
        self, kind: str = "sinusoidal", num_learned: int = 0, width: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.kind = kind
        self.learned_shape = num_learned, width

    def build(self, input_shape: Any = None) -> None:
        if self.kind == "learned":
            start = keras.initializers.RandomNormal(stddev=self.learned_shape[1] ** -0.5)
            self.vectors = self.add_weight(
                name="vectors", shape=self.learned_shape, initializer=start, autocast=False
            )
        self.built = True

    def call(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """`x [..., T, D]`, D even; `positions [T]` int32, None: from 0 -> `[..., T, D]`."""
        positions = ops.arange(ops.shape(x)[-2]) if positions is None else positions
        if self.kind == "learned":
            vectors = ops.take(
                self.vectors, ops.minimum(positions, self.learned_shape[0] - 1), axis=0
            )
        else:
            vectors = sinusoidal_positions(positions, x.shape[-1], self.kind)
        return x + ops.cast(vectors, x.dtype)
