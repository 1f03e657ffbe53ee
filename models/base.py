"""The common interface of all models.

Letters used in shapes: B sentences, K beams, N = B * K hypotheses, S source length, T target
length, V target vocabulary, D width, H heads. Ids are int32, masks are bool with True for real
tokens, logits and log-probabilities are float32 under every dtype policy.
"""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NamedTuple

import keras
import numpy as np
from keras import ops

from nmt_zoo.models.architecture import Architecture, layers_of
from nmt_zoo.models.layers.products import Int8, product

Tensor = Any  # A tensor or array of Keras's backend; its shape and dtype are in the docstring.
LARGEST = 2**31 - 1  # The largest 32-bit integer.
_ROUNDED = "a model in 8 bits can neither be trained nor saved; load it in float32"


class SettingError(ValueError):
    """Raised at a preset or setting that does not exist, or a value that does not fit."""


def require(condition: bool, expected: str) -> None:
    """Raises `SettingError(expected)` unless the condition holds."""
    if not condition:
        raise SettingError(expected)


def require_at_least(
    least: int, settings: dict[str, Any], names: Iterable[str], most: int = LARGEST
) -> None:
    """Raises `SettingError` at a named setting below `least` or above `most`."""
    for name in names:
        require(settings[name] >= least, f"{name} must be at least {least}, found {settings[name]}")
        require(settings[name] <= most, f"{name} must be at most {most}, found {settings[name]}")


def require_layers(settings: dict[str, Any]) -> None:
    """Raises `SettingError` at fewer than 1 layer, or so many that building takes minutes."""
    require_at_least(1, settings, ("num_encoder_layers", "num_decoder_layers"), 200)


def require_rates(settings: dict[str, Any], names: Iterable[str]) -> None:
    """Raises `SettingError` at a named setting outside [0, 1)."""
    for name in names:
        require(0 <= settings[name] < 1, f"{name} must be in [0, 1), found {settings[name]}")


def require_choices(settings: dict[str, Any], choices: dict[str, tuple[str, ...]]) -> None:
    """Raises `SettingError` at a setting that is not among its choices, name -> tuple of str."""
    for name, values in choices.items():
        require(
            settings[name] in values,
            f"{name} must be one of {', '.join(values)}, found {settings[name]!r}",
        )


def settings_of(arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns a model's settings: the arguments of its constructor that are its own.

    To be called before there are other variables, as `settings_of(locals())`. Unlike a list of the
    settings by hand, the result cannot lack one, which `get_config` would then not save.
    """
    others = {"self", "__class__", "source_vocab_size", "target_vocab_size", "kwargs"}
    return {name: value for name, value in arguments.items() if name not in others}


class StepOutput(NamedTuple):
    """The result of one decoding step."""

    logits: Any  # [N, V] float32, unnormalised scores of the next token.
    # The state given to the step, updated; same structure, dtypes and ranks. Axes after the first
    # may have grown, unless `Searchable.with_max_length` fixed them.
    state: Any
    attention: Any  # [N, S] float32, the source weights of this prediction; rows sum to 1.


def shift_right(target_ids: Tensor, bos_id: int) -> Tensor:
    """Turns target ids into decoder input, both `[B, T]` int32: `[a, b, </s>]` to `[<s>, a, b]`.

    No other code shifts targets.
    """
    bos = ops.full_like(target_ids[:, :1], bos_id)
    return ops.concatenate([bos, target_ids[:, :-1]], axis=1)


def by_sentence(x: Tensor, batch_size: int | Tensor) -> Tensor:
    """Groups the K hypotheses of each of B sentences: `[N, X]` -> `[B, K, X]`."""
    return ops.reshape(x, (batch_size, -1, ops.shape(x)[-1]))


def by_hypothesis(x: Tensor) -> Tensor:
    """Gives each hypothesis its own row: `[B, K, X]` -> `[N, X]`."""
    return ops.reshape(x, (-1, ops.shape(x)[-1]))


def dense_weights(layer: keras.layers.Dense) -> tuple[Tensor | Int8, Tensor | None]:
    """Returns `(kernel, bias or None)` of a `keras.layers.Dense`, for its compute dtype."""
    bias = ops.cast(layer.bias, layer.compute_dtype) if layer.use_bias else None
    kernel = layer.kernel
    return kernel if isinstance(kernel, Int8) else ops.cast(kernel, layer.compute_dtype), bias


def add_array(
    layer: keras.layers.Layer,
    name: str,
    shape: tuple[int, ...],
    value: Any,
    dtype: str = "float32",
    trainable: bool = False,
) -> keras.Variable:
    """Adds a weight that keeps its dtype; `value`, a number or a whole array, fills it at first."""
    return layer.add_weight(
        name=name,
        shape=shape,
        dtype=dtype,
        initializer=lambda shape, dtype: ops.convert_to_tensor(
            np.broadcast_to(np.asarray(value, dtype), shape)
        ),
        trainable=trainable,
        autocast=False,
    )


class Precomputed:
    """Tensors that `Searchable.precompute` computes from weights, such as a transposed matrix.

    They are variables, because the loops of a graph read a variable where it is used and carry a
    tensor from step to step. No layer counts them among its weights.
    """

    def __init__(self, *values: Tensor | Int8) -> None:
        self.values = keras.tree.map_structure(
            lambda value: keras.Variable(
                value, dtype=keras.backend.standardize_dtype(value.dtype), trainable=False
            ),
            values,
        )
        self.variables = keras.tree.flatten(self.values)


def round_weight(layer: keras.layers.Layer, name: str, matrix: Tensor) -> None:
    """Puts an `Int8` of `[D, V]` numbers into the place of a weight, which is freed."""
    layer._untrack_variable(getattr(layer, name))
    layer._tracker.unlock()  # Keras locks it when a layer is built.
    setattr(layer, name, Precomputed(Int8.of(matrix)).values[0])
    layer._tracker.lock()


class Searchable(keras.Model):
    """A model whose hypotheses the search can extend token by token.

    A subclass implements `encode`, `initial_state` and `decode_step`. Models handle
    only ids and tensors: no vocabulary, search or file.

    Decoding keeps two kinds of tensors, which are never mixed:

    * *context*, from `encode`, belongs to a sentence, keeps `B` rows and is never reordered;
    * *state*, from `initial_state`, belongs to a hypothesis; the search gathers every leaf of it
      along its first axis.

    `decode_step` takes `N = B * K` hypotheses, K for each of the context's `B` rows; the hypotheses
    of a sentence are next to each other. A model keeps nothing between calls.

    Args:
        pad_id: the id of padding, in both vocabularies.
        bos_id: the id that starts every target sentence.
    """

    def __init__(
        self,
        source_vocab_size: int,
        target_vocab_size: int,
        *,
        pad_id: int = 0,
        bos_id: int = 2,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source_vocab_size = source_vocab_size
        self.target_vocab_size = target_vocab_size
        self.pad_id = pad_id
        self.bos_id = bos_id
        self.settings: dict[str, Any] = {}  # A subclass's own, which its configuration has, too.

    # Facts about a model class, for code that would otherwise ask for its type.
    reads_source = True  # False: a language model of the target, which translates nothing.
    # Class of the decoder that a model without decoding steps has, see `decoder` of
    # `phrases.table_model`; its `score` and `align` are NumPy then, and no part of a graph.
    decoder_class: type | None = None
    trained_by: tuple[str, ...] = ("gradient",)  # Names of ways of training, the usual one first.
    # What of a corpus the model stores before it is trained, a name in
    # `training.ways.preparation`; "" for nothing.
    corpus_facts = ""
    corpus_sizes = ()  # Arguments of the constructor that only a corpus determines.
    # Setting -> (another setting, the values of that one with which the first has an effect).
    read_with: ClassVar = {}
    # The cheapest form of its predictions that a loss can use: "features" of the output layer,
    # "logits" of the whole vocabulary, or "scores" of the target words alone.
    predicts = "features"
    # True if extending a hypothesis never raises its score, as with log-probabilities. The search
    # may then stop early.
    scores_only_fall = True
    # True if logits are log-probabilities already, or scores that are not probabilities.
    logits_add_up = False
    # True if XLA can compile `encode` and `decode_step`: all their shapes follow from those of the
    # arguments.
    can_compile = False
    # Loads a copy in 8 bits, where searches shall take the faster one; whether they do, once known.
    rounded: Callable | None = None
    takes_rounded: bool | None = None
    # True if there is an `align` that distinguishes source words.
    has_alignment = False
    # Why there is none, and what to do.
    no_alignment = (
        "it has no attention, or attends to all source words equally; use a model of another preset"
    )
    # What the heads of `attention_maps` are in a model without attention, such as "links".
    head_names: tuple[str, ...] = ()
    # (layer, head) whose attention `align` returns, from 1, or "mean" of heads; None: the only one.
    alignment: tuple[int, int | str] | None = None
    # Size of the largest tensor of `align`: numbers for each source token, and for each pair of a
    # source token and a target token.
    align_sizes = (0, 1)

    def encode_to_score(self, source_ids: Tensor, target_ids: Tensor) -> dict[str, Any]:
        """Returns the context in which to score given translations, `[B, T]` ids with `</s>`."""
        return self.encode(source_ids)

    def encode(self, source_ids: Tensor, training: bool = False) -> dict[str, Any]:
        """Reads the source, `[B, S]` int32; returns the context, a dict of tensors with B rows."""
        raise NotImplementedError

    def initial_state(self, context: dict[str, Any]) -> dict[str, Any]:
        """Returns the state of empty hypotheses: a dict, possibly empty, of tensors with B rows."""
        raise NotImplementedError

    def with_max_length(
        self, state: dict[str, Any], max_length: int | Tensor, beam_size: int
    ) -> dict[str, Any]:
        """Returns a state, of N hypotheses, whose shapes no step below `max_length` changes.

        The first call, at step 0, gives `beam_size`, K; it may be called again, with a larger
        `max_length`. By default the state itself, for models whose states do not grow.
        """
        return state

    def reordered(self, state: dict[str, Any], parents: Tensor) -> dict[str, Any]:
        """Returns the state of hypotheses that continue those in the rows `parents`, `[N]` int32.

        Each continues one of its own sentence.
        """
        return keras.tree.map_structure(lambda leaf: ops.take(leaf, parents, axis=0), state)

    def decode_step(
        self, token_ids: Tensor, step: Tensor, state: dict[str, Any], context: dict[str, Any]
    ) -> StepOutput:
        """Predicts the next token of every hypothesis.

        `token_ids [N]` int32 were chosen last (at step 0: `bos_id`); `step`, scalar int32, is the
        number of tokens before them. `state` is as in `initial_state`, with N rows; `context`, from
        `encode`, has B rows; N is a multiple of B.
        """
        raise NotImplementedError

    def log_normaliser(self, logits: Tensor) -> Tensor:
        """Returns the value to subtract from logits, so that scores add up along a sentence.

        `logits [..., V]` float32 -> `[..., 1]` float32, the logarithm of the sum of their
        exponentials, or 0 if `logits_add_up`.
        """
        if self.logits_add_up:
            return ops.zeros_like(logits[..., :1])
        return ops.logsumexp(logits, axis=-1, keepdims=True)

    def quantise(self) -> None:
        """Replaces weights of products and embeddings by 8 bits; to be called before `precompute`.

        The exact ones are freed, so training or saving the model raises `SettingError`.
        """
        for layer in self._flatten_layers(include_self=False):
            if hasattr(layer, "quantise"):
                layer.quantise()

    @property
    def is_quantised(self) -> bool:
        """True if weights are in 8 bits; only a compiled search is quick then."""
        return any(weight.dtype == "int8" for weight in self.weights)

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        require(not self.is_quantised, _ROUNDED)
        return super().trainable_variables

    def save_own_variables(self, store: dict[str, Any]) -> None:
        require(not self.is_quantised, _ROUNDED)
        super().save_own_variables(store)

    def precompute(self) -> None:
        """Precomputes what depends on the weights alone; the weights must not change afterwards."""

    def precomputed(self) -> list[Precomputed]:
        """Returns what decoding reads besides the weights, after `precompute`."""
        layers, names = self._flatten_layers(), ("joined", "precomputed_output")
        found = (getattr(layer, name, None) for layer in layers for name in names)
        return [tensors for tensors in found if isinstance(tensors, Precomputed)]

    def architecture(self) -> Architecture:
        """Describes the model for a picture; by default, as a list of its Keras layers."""
        return layers_of(self)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "source_vocab_size": self.source_vocab_size,
            "target_vocab_size": self.target_vocab_size,
            "pad_id": self.pad_id,
            "bos_id": self.bos_id,
            **self.settings,
        }


class TranslationModel(Searchable):
    """A conditional language model P(target | source), trainable, searchable and explainable.

    A subclass implements `attention_maps`, `align` or `features_and_alignment`, `encode`,
    `initial_state`, and `features`, `step_features` and `output_weights`; or `call` and
    `decode_step` if its predictions are no product of features and output weights (its `predicts`
    is then not "features"). `score` is computed from `call`. Models are independent of losses and
    optimisers. Args as `Searchable`.
    """

    # True if decoding steps track what has been translated so far, and so differ from `call`.
    tracks_coverage = False
    # True if `align` distinguishes source words: not if attention is missing or uniform.
    has_alignment = True

    def call(self, inputs: dict[str, Tensor], training: bool | None = None) -> Tensor:
        """Predicts every target token from the source and the tokens before it.

        `{"source_ids": [B, S], "target_in_ids": [B, T]}`, int32 -> logits `[B, T, V]` float32.
        """
        return self.logits(self.features(inputs, training))

    def features(self, inputs: dict[str, Tensor], training: bool | None = None) -> Tensor:
        """Computes the inputs of the output layer, `[B, T, D]` in the compute dtype; as `call`."""
        return self.features_and_alignment(inputs, training)[0]

    def features_and_alignment(
        self, inputs: dict[str, Tensor], training: bool | None = None
    ) -> tuple[Tensor, Tensor]:
        """Computes, in one pass, `features` and the attention that `align` returns; as `call`.

        Only models that have features and an alignment implement this. Returns features `[B, T, D]`
        in the compute dtype and attention `[B, T, S]` float32, in training before dropout.
        """
        raise NotImplementedError

    def output_weights(self) -> tuple[Tensor | Int8, Tensor | None]:
        """Returns the output layer's kernel `[D, V]` and bias `[V]` or None, in the compute dtype.

        `logits = features @ kernel + bias`. After `quantise`, the kernel is an `Int8`. A loss that
        has features and weights need not hold the logits of a whole batch in memory.
        """
        raise NotImplementedError

    def step_features(
        self, token_ids: Tensor, step: Tensor, state: dict[str, Any], context: dict[str, Any]
    ) -> tuple[Tensor, dict[str, Any], Tensor]:
        """Computes the input of the output layer for the next token; arguments as `decode_step`.

        Returns features `[N, D]` in the compute dtype; state and attention as in `StepOutput`.
        """
        raise NotImplementedError

    def decode_step(
        self, token_ids: Tensor, step: Tensor, state: dict[str, Any], context: dict[str, Any]
    ) -> StepOutput:
        features, state, attention = self.step_features(token_ids, step, state, context)
        return StepOutput(self.logits(features), state, attention)

    def translations(self, source_ids: Tensor) -> Tensor | None:
        """Returns t(e | f) of each source word alone; None if the model has no table of these.

        `source_ids [B, S]` int32 -> `[B, S, V]` float32, rows sum to 1.
        """
        return None

    def logits(
        self, features: Tensor, weights: tuple[Tensor, Tensor | None] | None = None
    ) -> Tensor:
        """Applies the output layer: `[..., D]` features -> `[..., V]` float32.

        `weights` are some columns of `output_weights`, to score these tokens only; None: all.
        """
        kernel, bias = weights or self.output_weights()
        logits = product(features, kernel)
        return ops.cast(logits if bias is None else logits + bias, "float32")

    def attention_maps(self, source_ids: Tensor, target_ids: Tensor) -> dict[str, Tensor]:
        """Returns every attention distribution of the model, for pictures; arguments as `align`.

        Name -> `[B, H, queries, keys]` float32. Names are `encoder/0/self`, `decoder/0/self`,
        `decoder/0/cross`, layers counted from 0. Row t of a decoder map is the attention with which
        target token t was predicted.
        """
        raise NotImplementedError

    def align(self, source_ids: Tensor, target_ids: Tensor) -> Tensor:
        """Computes a soft word alignment: the attention of `features_and_alignment`.

        `source_ids [B, S]` int32; `target_ids [B, T]` int32, unshifted, with the final `</s>` ->
        `[B, T, S]` float32; row t aligns target token t; rows sum to 1 and are 0 on padding.
        """
        inputs = {"source_ids": source_ids, "target_in_ids": shift_right(target_ids, self.bos_id)}
        return self.features_and_alignment(inputs, training=False)[1]

    def score(self, source_ids: Tensor, target_ids: Tensor) -> Tensor:
        """Computes the log-probability of every target token given source and previous tokens.

        Arguments as `align`; returns `[B, T]` float32, natural logarithms, without meaning at
        padding.
        """
        logits = self(
            {"source_ids": source_ids, "target_in_ids": shift_right(target_ids, self.bos_id)},
            training=False,
        )
        token_logits = ops.take_along_axis(logits, ops.expand_dims(target_ids, -1), axis=-1)
        return ops.squeeze(token_logits - self.log_normaliser(logits), -1)
