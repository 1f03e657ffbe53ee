"""Recurrent encoder-decoders, without attention, with attention and with lexical translation.

Sutskever et al. 2014, "Sequence to Sequence Learning with Neural Networks"; Bahdanau et al. 2015,
"Neural Machine Translation by Jointly Learning to Align and Translate"; Luong et al. 2015,
"Effective Approaches to Attention-based Neural Machine Translation"; Nguyen and Chiang 2018
(arXiv 2017), "Improving Lexical Choice in Neural Machine Translation".
"""

from functools import partial
from typing import Any, ClassVar

import keras
from keras import ops

from nmt_zoo.models.architecture import SOFTMAX, SOURCE_WORDS, TARGET_WORDS, Architecture, Part
from nmt_zoo.models.base import (
    Tensor,
    TranslationModel,
    by_hypothesis,
    by_sentence,
    dense_weights,
    require,
    require_at_least,
    require_choices,
    require_layers,
    require_rates,
    round_weight,
    settings_of,
)
from nmt_zoo.models.layers.attention_scores import SCORES
from nmt_zoo.models.layers.basic import Composite, Dense, Dropout
from nmt_zoo.models.layers.embeddings import Embedding
from nmt_zoo.models.layers.masks import padding_mask
from nmt_zoo.models.layers.recurrent import CELLS, BidirectionalLayer, RecurrentLayer
from nmt_zoo.models.layers.recurrent_decoder import RecurrentDecoder

_STARTS = {
    "uniform": partial(keras.initializers.RandomUniform, -0.1, 0.1),
    "normal": partial(keras.initializers.RandomNormal, stddev=1.0),
}


@keras.saving.register_keras_serializable("nmt_zoo")
class RecurrentTranslationModel(Composite, TranslationModel):
    """A recurrent encoder and a recurrent decoder, with or without attention between them.

    Raises `SettingError` at a setting out of its range.

    Args:
        cell: "rnn" (tanh), "relu", "gru" or "lstm".
        num_encoder_layers: layers of the encoder, at least 1.
        num_decoder_layers: layers of the decoder, at least 1.
        embedding_width: E, size of the embeddings of both sides.
        encoder_units: size of the encoder's state, in each direction.
        decoder_units: U, size of the decoder's state and output.
        bidirectional: whether the encoder reads in both directions.
        convolution_width: width, in tokens, of a convolution over the source embeddings; 0 for no
            convolution.
        score: how the decoder scores source positions: "dot", "multiplicative", "reduced_rank",
            "additive" (see `models.layers.attention_scores`), or "none" for no attention. With
            "none", `align` and the attention of a step are uniform over the real source tokens, and
            there are no attention maps.
        rank: k of the scores "reduced_rank" and "additive"; 0 stands for `decoder_units`.
        input_feeding: whether the output of a position is an input of the next position.
        attend_before: whether the previous state is the query, and the context enters the cell.
        lexical: whether source embeddings, averaged with the attention weights, add to the logits
            (Nguyen and Chiang, section 4): `f_t = tanh(sum_s a_t(s) f_s)`,
            `h_t = tanh(W f_t) + f_t`.
        reverse_source: whether to read the source, without its final `</s>`, from its end.
            Attention is reported in the order of the text.
        source_start: whether the encoder reads `<s>` before the source, to which there is no
            attention.
        one_network: whether the decoder reads the source, too, so that a single network reads
            source, end, start and target one after the other. Needs score=none,
            initial_state=final and sides of the same shape.
        initial_state: the decoder's first state: "zero"; "final", the encoder's last state, where
            the top layer starts the top layer, and so on down; "projected", `W` times the encoder's
            last state; or "projected_tanh", `tanh(W ... + b)`. The last state of a bidirectional
            encoder is the concatenation of both directions.
        combine: how context and state are combined to the output: "tanh" or "sum" (see
            `models.layers.recurrent_decoder`); has no effect without attention.
        embedding_dropout: on the embeddings of both sides, in [0, 1).
        dropout: after every layer of the encoder and between the layers of the decoder, in [0, 1).
        output_dropout: on the decoder's outputs, including outputs that are fed back, in [0, 1).
        embedding_start: first embeddings: "uniform" between -0.1 and 0.1, or "normal" with a spread
            of 1, as those of PyTorch.
        forget_bias: initial bias of the forget gates of "lstm".
    Example:
        >>> model = RecurrentTranslationModel(100, 90, embedding_width=8, encoder_units=8,
        ...                                   decoder_units=16)
        >>> ids = ops.convert_to_tensor([[5, 6, 3]], "int32")
        >>> model({"source_ids": ids, "target_in_ids": ids}).shape
        TensorShape([1, 3, 90])
    """

    can_compile = True
    read_with: ClassVar = {
        "rank": ("score", ("reduced_rank", "additive")),
        "forget_bias": ("cell", ("lstm",)),
    }

    def __init__(
        self,
        source_vocab_size: int,
        target_vocab_size: int,
        *,
        cell: str = "lstm",
        num_encoder_layers: int = 1,
        num_decoder_layers: int = 1,
        embedding_width: int = 64,
        encoder_units: int = 64,
        decoder_units: int = 128,
        bidirectional: bool = True,
        convolution_width: int = 0,
        score: str = "multiplicative",
        rank: int = 0,
        input_feeding: bool = True,
        attend_before: bool = False,
        lexical: bool = False,
        reverse_source: bool = False,
        source_start: bool = False,
        one_network: bool = False,
        initial_state: str = "zero",
        combine: str = "tanh",
        embedding_dropout: float = 0.25,
        dropout: float = 0.25,
        output_dropout: float = 0.25,
        forget_bias: float = 1.0,
        embedding_start: str = "uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(source_vocab_size, target_vocab_size, **kwargs)
        settings = self.settings = settings_of(locals())
        _check_settings(settings)
        self.reverse_source = reverse_source
        self.memory_width = _memory_width(settings)
        policy = self.dtype_policy
        dense, dropped = partial(Dense, dtype=policy), partial(Dropout, dtype=policy)
        self.source_embedding, self.target_embedding = (
            Embedding(
                size,
                embedding_width,
                embeddings_initializer=_STARTS[embedding_start](),
                name=f"{side}_embedding",
                dtype=policy,
            )
            for side, size in (("source", source_vocab_size), ("target", target_vocab_size))
        )
        self.embedding_dropout = dropped(embedding_dropout, name="embedding_dropout")
        self.encoder_dropout = dropped(dropout, name="encoder_dropout")
        self.convolution = None
        if convolution_width:
            options = {"padding": "same", "name": "convolution", "dtype": policy}
            self.convolution = keras.layers.Conv1D(embedding_width, convolution_width, **options)
        self.decoder = RecurrentDecoder(settings, self.memory_width, name="decoder", dtype=policy)
        if one_network:
            self.encoder_layers = [*self.decoder.stack]
        else:
            layer = BidirectionalLayer if bidirectional else RecurrentLayer
            widths = [embedding_width, *[self.memory_width] * (num_encoder_layers - 1)]
            options = {"forget_bias": forget_bias, "dtype": policy}
            self.encoder_layers = [
                layer(cell, width, encoder_units, name=f"encoder_{i}", **options)
                for i, width in enumerate(widths)
            ]
        num_starts = num_decoder_layers * self.decoder.num_states
        has_tanh = initial_state == "projected_tanh"
        options = {"activation": "tanh" if has_tanh else None, "use_bias": has_tanh}
        self.start_projections = [
            dense(self.memory_width, decoder_units, name=f"start_{i}", **options)
            for i in range(num_starts if initial_state.startswith("projected") else 0)
        ]
        self.output_layer = dense(decoder_units, target_vocab_size, name="output")
        self.lexical_hidden = self.lexical_output = None
        if lexical:
            # Without biases, because the paper's second output bias would only add to the first.
            matrix = partial(dense, embedding_width, use_bias=False)
            self.lexical_hidden = matrix(embedding_width, name="lexical_hidden")
            self.lexical_output = matrix(target_vocab_size, name="lexical_output")
        self.build()

    @property
    def has_alignment(self) -> bool:
        return self.settings["score"] != "none"

    @property
    def align_sizes(self) -> tuple[int, int]:
        is_additive = self.settings["score"] == "additive"
        return 0, (self.settings["rank"] or self.settings["decoder_units"]) if is_additive else 1

    def build(self, input_shape: Any = None) -> None:
        if self.convolution is not None:
            self.convolution.build((None, None, self.settings["embedding_width"]))
        super().build()

    def encode(self, source_ids: Tensor, training: bool = False) -> dict[str, Any]:
        """Context, in the order of reading: `source_mask [B, S]`; the attention's `keys`, `values`.

        Also `start`, the first state of the decoder's cells, unless it is zero;
        `source_order [B, S]` with `reverse_source`; `source_embeddings [B, S, E]` with `lexical`.
        """
        context = {"source_mask": padding_mask(source_ids, self.pad_id)}
        if self.reverse_source:
            context["source_order"] = reversed_order(context["source_mask"])
            source_ids = ops.take_along_axis(source_ids, context["source_order"], axis=1)
        first = int(self.settings["source_start"])
        read_ids, read_mask = source_ids, context["source_mask"]
        if first:
            start = ops.full_like(source_ids[:, :1], self.bos_id)
            read_ids = ops.concatenate([start, source_ids], axis=1)
            read_mask = ops.pad(read_mask, ((0, 0), (1, 0)), constant_values=True)
        embedded = self._embed(self.source_embedding, read_ids, training)
        if self.lexical_hidden is not None:
            context["source_embeddings"] = embedded[:, first:]
        memory, states = self._read(embedded, read_mask, training)
        memory = memory[:, first:]
        context.update(self.decoder.project_memory(memory))
        if self.settings["initial_state"] != "zero":
            context["start"] = self._start(states)
        return context

    def _embed(self, embedding, ids, training):
        return self.embedding_dropout(embedding(ids), training=training)

    def _read(self, x, source_mask, training):
        """`x [B, S, E]` -> `(memory [B, S, memory_width], last state of each layer)`."""
        if self.convolution is not None:
            # Padding becomes zeros, as beyond the edge, so that its amount has no effect.
            x = self.convolution(x * ops.cast(source_mask, x.dtype)[:, :, None])
        states = []
        for layer in self.encoder_layers:
            x, state = layer(x, step_mask=source_mask)
            x = self.encoder_dropout(x, training=training)
            states.append(state)
        return x, states

    def _start(self, states):
        """Last states of the encoder's layers -> first states of all cells of the decoder."""
        last, count = len(states) - 1, len(self.decoder.stack)
        # Paired from the top layers down, so that the encoder's last layer is always used.
        leaves = [leaf for i in range(count) for leaf in states[max(last - count + 1 + i, 0)]]
        if not self.start_projections:
            return leaves
        return [project(x) for project, x in zip(self.start_projections, leaves, strict=True)]

    def initial_state(self, context: dict[str, Any]) -> dict[str, Any]:
        """State: `cells`, h (and c) of each layer, `[B, U]`; `fed [B, U]` with input feeding."""
        batch_size = ops.shape(context["source_mask"])[0]
        zeros = [leaf for layer in self.decoder.stack for leaf in layer.zero_state(batch_size)]
        state = {"cells": list(context.get("start", zeros))}
        if self.settings["input_feeding"]:
            state["fed"] = ops.zeros((batch_size, self.decoder.units), self.compute_dtype)
        return state

    def _decode(self, inputs, need_weights, training):
        """Returns the context, features and weights `[B, T, S]` of whole sentences."""
        context = self.encode(inputs["source_ids"], training)
        embedded = self._embed(self.target_embedding, inputs["target_in_ids"], training)
        state = self.initial_state(context)
        outputs, weights = self.decoder(
            embedded, state, context, need_weights=need_weights, training=training
        )
        return context, self._features(outputs, weights, context), weights

    def _features(self, outputs, weights, context):
        """`outputs [B, T, U]`, `weights [B, T, S]` -> `[B, T, U]`; lexical `[B, T, U + E]`."""
        if self.lexical_hidden is None:
            return outputs
        embeddings = context["source_embeddings"]
        f = ops.tanh(ops.matmul(ops.cast(weights, embeddings.dtype), embeddings))  # [B, T, E]
        return ops.concatenate([outputs, ops.tanh(self.lexical_hidden(f)) + f], axis=-1)

    def quantise(self) -> None:
        """Rounds the output layer alone: the other products are too small to gain by it."""
        round_weight(self.output_layer, "_kernel", self.output_weights()[0])
        if self.lexical_output is not None:  # Its rows are in that kernel now.
            del self.lexical_output._kernel
            self.lexical_output = None

    def output_weights(self) -> tuple[Tensor, Tensor | None]:
        """Returns the output layer's weights; rows for lexical features follow in the kernel."""
        kernel, bias = dense_weights(self.output_layer)
        if self.lexical_output is not None:
            kernel = ops.concatenate([kernel, dense_weights(self.lexical_output)[0]], axis=0)
        return kernel, bias

    def features(self, inputs: dict[str, Tensor], training: bool | None = None) -> Tensor:
        return self._decode(inputs, self.lexical_hidden is not None, training)[1]

    def features_and_alignment(
        self, inputs: dict[str, Tensor], training: bool | None = None
    ) -> tuple[Tensor, Tensor]:
        """As `TranslationModel`; without attention, equal weights on all real source tokens."""
        context, features, weights = self._decode(inputs, True, training)
        return features, self._in_text_order(weights, context)

    def step_features(
        self, token_ids: Tensor, step: Tensor, state: dict[str, Any], context: dict[str, Any]
    ) -> tuple[Tensor, dict[str, Any], Tensor]:
        projected = self.decoder.stack[0].cell.project(self.target_embedding(token_ids))
        outputs, state, weights = self.decoder.step(projected, state, context)
        batch_size = ops.shape(context["source_mask"])[0]
        outputs, weights = by_sentence(outputs, batch_size), by_sentence(weights, batch_size)
        features = self._features(outputs, weights, context)
        attention = self._in_text_order(weights, context)
        return by_hypothesis(features), state, by_hypothesis(attention)

    def _in_text_order(self, weights, context):
        """`[B, T, S]` in the order of reading -> `[B, T, S]` in the order of the text."""
        if not self.reverse_source:
            return weights
        order = ops.broadcast_to(context["source_order"][:, None, :], ops.shape(weights))
        return ops.take_along_axis(weights, order, axis=2)

    def attention_maps(self, source_ids: Tensor, target_ids: Tensor) -> dict[str, Tensor]:
        """Returns `decoder/i/cross`, i being the decoder's last layer; {} without attention."""
        if not self.has_alignment:
            return {}
        name = f"decoder/{len(self.decoder.stack) - 1}/cross"
        return {name: self.align(source_ids, target_ids)[:, None]}

    def architecture(self) -> Architecture:
        settings, decoder, lexical = self.settings, self.decoder, self.lexical_hidden
        encoder_title, decoder_title = (
            f"{len(layers)} × {settings['cell'].upper()} {name}"
            for layers, name in ((self.encoder_layers, "encoder"), (decoder.stack, "decoder"))
        )
        directions = "in both directions" if settings["bidirectional"] else "in one direction"
        order = ("the source from its end",) * self.reverse_source
        source = (
            SOURCE_WORDS,
            Part("Source embedding", "embedding", (), (self.source_embedding,)),
            Part("Convolution", "layer", (), (self.convolution,)),
            Part(encoder_title, "recurrent", (directions, *order), self.encoder_layers),
            Part("First state of decoder", "layer", (), self.start_projections),
        )
        has_start = settings["initial_state"] != "zero"
        score = f"{settings['score'].replace('_', ' ')} score, one head"
        query = f"reads the state {'before' if settings['attend_before'] else 'after'} each step"
        fed = ("read again by the next step",) * settings["input_feeding"]
        attention = (
            Part("Attention", "attention", (score, query), (decoder.attention,), reads_source=True),
            Part("Context and state", "layer", ("joined", *fed), (decoder.combination,)),
        )
        target = (
            TARGET_WORDS,
            Part("Target embedding", "embedding", (), (self.target_embedding,)),
            Part(decoder_title, "recurrent", (), decoder.stack, reads_source=has_start),
            *(attention if decoder.attention is not None else ()),
            Part("Lexical translation", "layer", (), (lexical, self.lexical_output)),
            Part("Output layer", "output", (), (self.output_layer,)),
            SOFTMAX,
        )
        return Architecture(source, target)


def reversed_order(source_mask: Tensor) -> Tensor:
    """Computes the positions that reverse a sentence except its final `</s>` and padding.

    `source_mask [B, S]` bool, True for real tokens, which come before all padding -> `[B, S]`
    int32, a permutation that is its own inverse: `[2, 1, 0, 3, 4]` for `[a, b, c, </s>, 0]`.
    """
    positions = ops.broadcast_to(ops.arange(ops.shape(source_mask)[1]), ops.shape(source_mask))
    last = ops.sum(ops.cast(source_mask, "int32"), axis=1, keepdims=True) - 1  # </s>
    return ops.where(positions < last, last - 1 - positions, positions)


def _memory_width(settings):
    return settings["encoder_units"] * (2 if settings["bidirectional"] else 1)


def _check_settings(settings):
    require_choices(
        settings,
        {
            "cell": tuple(CELLS),
            "score": ("none", *SCORES),
            "initial_state": ("zero", "final", "projected", "projected_tanh"),
            "combine": ("tanh", "sum"),
            "embedding_start": tuple(_STARTS),
        },
    )
    require_layers(settings)
    require_at_least(1, settings, ("embedding_width", "encoder_units", "decoder_units"))
    require_at_least(0, settings, ("convolution_width", "rank"))
    require_rates(settings, ("embedding_dropout", "dropout", "output_dropout"))
    _check_connections(settings)


def _check_connections(settings):
    memory_width, units = _memory_width(settings), settings["decoder_units"]
    sizes = f"found {memory_width} and {units}"
    if settings["score"] == "none":
        for name in ("attend_before", "lexical"):
            require(not settings[name], f"{name} needs attention, found score=none")
        require(
            settings["initial_state"] != "zero",
            "initial_state must be one of final, projected, projected_tanh with score=none, or "
            "nothing of the source would reach the decoder; found 'zero'",
        )
    if settings["one_network"]:
        alike = ("num_encoder_layers", "num_decoder_layers"), ("encoder_units", "decoder_units")
        require(
            settings["score"] == "none"
            and settings["initial_state"] == "final"
            and not (settings["bidirectional"] or settings["convolution_width"])
            and not settings["input_feeding"]
            and all(settings[one] == settings[other] for one, other in alike),
            "one_network needs score=none, initial_state=final, bidirectional=False, "
            "input_feeding=False, convolution_width=0 and as many layers and units on both sides",
        )
    if settings["score"] == "dot":
        require(
            memory_width == units,
            "score=dot needs the encoder's outputs (encoder_units, twice if bidirectional) as "
            f"wide as decoder_units, {sizes}",
        )
    if settings["score"] == "reduced_rank":
        rank, most = settings["rank"] or units, min(memory_width, units)
        require(
            rank <= most,
            f"rank must be at most {most}, the size of the vectors that reduced_rank compares, "
            f"found {rank}",
        )
    if settings["initial_state"] == "final":
        require(
            memory_width == units,
            "initial_state=final needs the encoder's state (encoder_units, twice if "
            f"bidirectional) as wide as decoder_units, {sizes}; or use initial_state=projected",
        )
