"""The one interface of every translation model.

Letters used in shapes: B sentences, K beams, N = B * K hypotheses, S source length, T target
length, V target vocabulary, D width, H heads. Ids are int32, masks are bool with True for real
tokens, logits and log-probabilities are float32 under every dtype policy.
"""

from typing import Any, NamedTuple

import keras
from keras import ops

LARGEST = 2**31 - 1  # What a 32-bit integer holds.


class SettingError(ValueError):
    """A preset, or a setting of one, that does not exist or does not fit."""


def require(condition, expected):
    """Raises `SettingError(expected)` unless the condition holds."""
    if not condition:
        raise SettingError(expected)


def require_at_least(least, settings, names):
    """Raises `SettingError` at a named setting below `least`."""
    for name in names:
        require(settings[name] >= least, f"{name} must be at least {least}, found {settings[name]}")


def require_at_most(most, settings, names):
    """Raises `SettingError` at a named setting above `most`."""
    for name in names:
        require(settings[name] <= most, f"{name} must be at most {most}, found {settings[name]}")


def require_layers(settings):
    """Raises `SettingError` at a number of layers below 1, or that would take minutes to make."""
    names = ("num_encoder_layers", "num_decoder_layers")
    require_at_least(1, settings, names)
    require_at_most(200, settings, names)


def require_rates(settings, names):
    """Raises `SettingError` at a named setting outside [0, 1)."""
    for name in names:
        require(0 <= settings[name] < 1, f"{name} must be in [0, 1), found {settings[name]}")


def require_choices(settings, choices):
    """Raises `SettingError` at a setting that is none of its choices: name -> tuple of str."""
    for name, values in choices.items():
        require(
            settings[name] in values,
            f"{name} must be one of {', '.join(values)}, found {settings[name]!r}",
        )


class StepOutput(NamedTuple):
    """What one decoding step returns.

    Attributes:
        logits: `[N, V]` float32, unnormalised scores of the next token.
        state: the state given to the step, updated; same structure, shapes and dtypes.
        attention: `[N, S]` float32, the source weights behind this prediction; rows sum to 1.
    """

    logits: Any
    state: Any
    attention: Any


def shift_right(target_ids, bos_id):
    """Turns target ids into decoder input: `[a, b, </s>]` becomes `[<s>, a, b]`.

    The only place where the shift is made.

    Args:
        target_ids: `[B, T]` int32.
        bos_id: the id that starts every sentence.

    Returns:
        `[B, T]` int32.
    """
    bos = ops.full_like(target_ids[:, :1], bos_id)
    return ops.concatenate([bos, target_ids[:, :-1]], axis=1)


def dense_weights(layer):
    """`(kernel, bias or None)` of a `keras.layers.Dense` in its compute dtype."""
    bias = ops.cast(layer.bias, layer.compute_dtype) if layer.use_bias else None
    return ops.cast(layer.kernel, layer.compute_dtype), bias


class Searchable(keras.Model):
    """A model that the search can extend token by token.

    A subclass implements `encode`, `initial_state` and `decode_step`, and `log_normaliser` where
    its scores are no probabilities. It knows ids and tensors only: no vocabulary, search or file.

    Two kinds of tensors live through decoding and are never mixed:

    * *context*, from `encode`, belongs to a sentence, keeps `B` rows and is never reordered;
    * *state*, from `initial_state`, belongs to a hypothesis; the search gathers every leaf of it
      along its first axis.

    `decode_step` is given `N` hypotheses where `N` is a multiple `K` of the context's `B` rows,
    those of a sentence standing together. Nothing is kept on the model between calls.

    Args:
        source_vocab_size: number of source ids.
        target_vocab_size: number of target ids, V.
        pad_id: the id of padding, in both vocabularies.
        bos_id: the id that starts every target sentence.
    """

    def __init__(self, source_vocab_size, target_vocab_size, *, pad_id=0, bos_id=2, **kwargs):
        super().__init__(**kwargs)
        self.source_vocab_size = source_vocab_size
        self.target_vocab_size = target_vocab_size
        self.pad_id = pad_id
        self.bos_id = bos_id

    # Facts about a model class, for code that would otherwise ask for its type.
    reads_source = True  # False: a language model of the target, which translates nothing.
    corpus_sizes = ()  # Arguments of the constructor that only a corpus determines.
    # The cheapest form of its predictions that a loss can use: "features" of the output layer,
    # "logits" of the whole vocabulary, or "scores" of the target words alone.
    predicts = "features"
    # Whether there is an `align` that tells source words apart.
    has_alignment = False

    def encode(self, source_ids, training=False):
        """Reads the source.

        Args:
            source_ids: `[B, S]` int32.
            training: whether dropout is active.

        Returns:
            context: a dict of tensors whose first axis is B.
        """
        raise NotImplementedError

    def initial_state(self, context, max_target_length):
        """Makes the state of hypotheses that hold no token yet.

        Args:
            context: from `encode`.
            max_target_length: the number of steps for which there must be room.

        Returns:
            state: a dict, possibly empty, of tensors whose first axis is B.
        """
        raise NotImplementedError

    def decode_step(self, token_ids, step, state, context):
        """Predicts the next token of every hypothesis.

        Args:
            token_ids: `[N]` int32, the tokens chosen last (at step 0: `bos_id`).
            step: scalar int32, how many tokens stand before `token_ids`.
            state: as `initial_state`, with N rows.
            context: from `encode`, with B rows; N is a multiple of B.

        Returns:
            `StepOutput`.
        """
        raise NotImplementedError

    def log_normaliser(self, logits):
        """What is taken off logits, so that scores add up along a sentence.

        Of a probability model that is the logarithm of what their exponentials sum to. Models that
        combine others' log-probabilities take off nothing: their scores are no probabilities.

        Args:
            logits: `[..., V]` float32.

        Returns:
            `[..., 1]` float32.
        """
        return ops.logsumexp(logits, axis=-1, keepdims=True)

    def freeze(self):
        """Computes once what follows from the weights alone, for a model that is only used.

        The weights must not change afterwards.
        """

    def get_config(self):
        return {
            **super().get_config(),
            "source_vocab_size": self.source_vocab_size,
            "target_vocab_size": self.target_vocab_size,
            "pad_id": self.pad_id,
            "bos_id": self.bos_id,
        }


class TranslationModel(Searchable):
    """A conditional language model P(target | source), trainable, searchable and explainable.

    A subclass implements `features` and `output_weights`, or `call` where its predictions are no
    product of these two (its `predicts` is then not "features"), `attention_maps`, `align`, and
    what `Searchable` asks for; `score` follows from `call`. It knows nothing of losses and
    optimisers. Args as `Searchable`.
    """

    # Whether decoding steps know what has been translated so far, and so do not repeat `call`.
    tracks_coverage = False

    @property
    def has_alignment(self):
        """Whether `align` tells source words apart: not without attention, or if it is uniform."""
        return True

    def call(self, inputs, training=None):
        """Predicts every target token from the source and the tokens before it.

        Args:
            inputs: `{"source_ids": [B, S], "target_in_ids": [B, T]}`, int32.
            training: whether dropout is active.

        Returns:
            `[B, T, V]` float32 logits.
        """
        return self.logits(self.features(inputs, training))

    def features(self, inputs, training=None):
        """What the output layer makes its predictions from; arguments as `call`.

        Returns:
            `[B, T, D]` in the compute dtype.
        """
        raise NotImplementedError

    def output_weights(self):
        """The output layer: `logits = features kernel + bias`.

        A loss that is told features and weights need not hold the logits of a whole batch.

        Returns:
            `(kernel [D, V], bias [V] or None)` in the compute dtype.
        """
        raise NotImplementedError

    def translations(self, source_ids):
        """What each source word alone is translated to, t(e | f), a row of a model's own table.

        Args:
            source_ids: `[B, S]` int32.

        Returns:
            `[B, S, V]` float32, rows sum to 1; None where a model has no such table.
        """
        return None

    def logits(self, features):
        """`[..., D]` features -> `[..., V]` float32."""
        kernel, bias = self.output_weights()
        logits = ops.matmul(features, kernel)
        return ops.cast(logits if bias is None else logits + bias, "float32")

    def attention_maps(self, source_ids, target_ids):
        """Every attention distribution of the model, for pictures.

        Args:
            source_ids: `[B, S]` int32.
            target_ids: `[B, T]` int32, unshifted, with the final `</s>`.

        Returns:
            name -> `[B, H, queries, keys]` float32. Names are `encoder/0/self`,
            `decoder/0/self`, `decoder/0/cross`, layers counted from 0. Row t of a decoder map is
            the attention with which target token t was predicted.
        """
        raise NotImplementedError

    def align(self, source_ids, target_ids):
        """Soft word alignment.

        Args:
            source_ids: `[B, S]` int32.
            target_ids: `[B, T]` int32, unshifted, with the final `</s>`.

        Returns:
            `[B, T, S]` float32; row t aligns target token t; rows sum to 1 and are 0 on padding.
        """
        raise NotImplementedError

    def score(self, source_ids, target_ids):
        """Log-probability of every target token given the source and the tokens before it.

        Args:
            source_ids: `[B, S]` int32.
            target_ids: `[B, T]` int32, unshifted, with the final `</s>`.

        Returns:
            `[B, T]` float32, natural logarithms. Entries of padding mean nothing.
        """
        logits = self(
            {"source_ids": source_ids, "target_in_ids": shift_right(target_ids, self.bos_id)},
            training=False,
        )
        token_logits = ops.take_along_axis(logits, ops.expand_dims(target_ids, -1), axis=-1)
        return ops.squeeze(token_logits - self.log_normaliser(logits), -1)
