"""The Transformer, Vaswani et al. 2017, "Attention Is All You Need"."""

from functools import partial
from typing import Any

import keras
from keras import ops

from nmt_zoo.models.architecture import (
    SOFTMAX,
    SOURCE_WORDS,
    TARGET_WORDS,
    Architecture,
    Part,
)
from nmt_zoo.models.base import (
    Precomputed,
    Tensor,
    TranslationModel,
    by_hypothesis,
    dense_weights,
    require,
    require_at_least,
    require_choices,
    require_layers,
    require_rates,
    settings_of,
    shift_right,
)
from nmt_zoo.models.layers.attention import MAX_DISTANCE, POSITIONS
from nmt_zoo.models.layers.basic import Composite, Dense, Dropout
from nmt_zoo.models.layers.embeddings import TokenEmbedding
from nmt_zoo.models.layers.masks import padding_mask
from nmt_zoo.models.layers.transformer_layers import (
    ACTIVATIONS,
    Decoder,
    Encoder,
    StackInput,
    distinct,
)
from nmt_zoo.models.transformer_settings import NORM_EPSILON


@keras.saving.register_keras_serializable("nmt_zoo")
class Transformer(Composite, TranslationModel):
    """Encoder and decoder stacks of self-attention (figure 1 of the paper).

    Raises `SettingError` at a setting out of its range.

    Args:
        num_encoder_layers: layers of the encoder, at least 1.
        num_decoder_layers: layers of the decoder, at least 1.
        width: D, size of every representation; even and a multiple of `num_heads`.
        num_heads: H.
        ffn_width: inner size of the feed-forward sub-layers.
        dropout: after embeddings and sub-layers, in [0, 1).
        attention_dropout: on attention weights, in [0, 1).
        ffn_dropout: inside the feed-forward sub-layers, in [0, 1).
        norm: "post" as published, or "pre".
        tie_embeddings: "all" (source, target and output share one matrix: needs one shared
            vocabulary), "target" (target and output), or "none".
        alignment_head: the attention that aligns: "mean" of all heads of the last decoder layer but
            one, until the end of training measures which layer and head align best; or "first",
            the first head of that layer, which `train.py --guide` trains to align.
        positions: "sinusoidal" as published; "marian" or "fairseq", other orders and lengths of
            the waves, see `embeddings.SINUSOIDS`; "learned", a vector for each position (Gehring et
            al. 2017); "relative", learned vectors of distances in every self-attention (Shaw et al.
            2018); "rotary", rotated queries and keys (Su et al. 2021), which needs an even
            `width / num_heads`; or "none": an encoder that reads a bag of words, and a decoder that
            knows the order of its words only by what each could see.
        max_positions: the number of learned positions, at least 1; the last one serves all later
            ones, too. 0 with any other kind.
        max_distance: the longest distance that positions=relative tells from longer ones.
        scale_scores: whether attention divides its scores by the square root of their width.
        scale_embeddings: whether embeddings are multiplied by the square root of the width.
        norm_embeddings: whether each stack normalises its input (Liu et al. 2020, mBART).
        norm_epsilon: number that each layer normalisation adds to the variance, above 0.
        activation: of the feed-forward sub-layers: "relu" as published, "gelu" or "swish", see
            `transformer_layers.ACTIVATIONS`.
        output_bias: whether each target token has a bias that is added to its logit.
        share_layers: "none" as published, or the order in which the layers of each stack use
            `distinct_layers` sets of weights (Takase and Kiyono 2021). With 2 sets and 4 layers:
            "sequence" 0 0 1 1, "cycle" 0 1 0 1, "cycle_reversed" 0 1 1 0.
        distinct_layers: number of sets of weights in each stack, if layers are shared. With 1,
            all layers of a stack are the same (Dabre and Fujita 2019).
        ssru: whether the decoder has an `SSRU` in the place of each self-attention (Kim et al.
            2019). A step then costs the same at every position.
    Example:
        >>> model = Transformer(100, 100, num_encoder_layers=1, num_decoder_layers=1,
        ...                     width=16, num_heads=2, ffn_width=32)
        >>> ids = ops.convert_to_tensor([[5, 6, 3]], "int32")
        >>> model({"source_ids": ids, "target_in_ids": ids}).shape
        TensorShape([1, 3, 100])
    """

    can_compile = True

    def __init__(
        self,
        source_vocab_size: int,
        target_vocab_size: int,
        *,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        width: int = 512,
        num_heads: int = 8,
        ffn_width: int = 2048,
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        ffn_dropout: float = 0.0,
        norm: str = "post",
        tie_embeddings: str = "all",
        alignment_head: str = "mean",
        positions: str = "sinusoidal",
        max_distance: int = MAX_DISTANCE,
        max_positions: int = 0,
        scale_scores: bool = True,
        scale_embeddings: bool = True,
        norm_embeddings: bool = False,
        norm_epsilon: float = NORM_EPSILON,
        activation: str = "relu",
        output_bias: bool = False,
        share_layers: str = "none",
        distinct_layers: int = 1,
        ssru: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(source_vocab_size, target_vocab_size, **kwargs)
        settings = self.settings = settings_of(locals())
        _check_settings(settings, source_vocab_size, target_vocab_size)
        self.width = width
        head = "mean" if alignment_head == "mean" and num_heads > 1 else 1
        self.alignment = max(num_decoder_layers - 1, 1), head

        policy = self.dtype_policy
        embedding = partial(TokenEmbedding, width=width, scaled=scale_embeddings, dtype=policy)
        self.target_embedding = embedding(target_vocab_size, name="target_embedding")
        self.source_embedding = (
            self.target_embedding
            if tie_embeddings == "all"
            else embedding(source_vocab_size, name="source_embedding")
        )
        self.output_layer = (
            Dense(width, target_vocab_size, use_bias=output_bias, name="output", dtype=policy)
            if tie_embeddings == "none"
            else None
        )
        self.embedding_dropout = Dropout(dropout, name="embedding_dropout", dtype=policy)
        self.source_input, self.target_input = (
            StackInput(settings, name=f"{side}_input", dtype=policy)
            for side in ("source", "target")
        )
        self.encoder = Encoder(settings, num_encoder_layers, name="encoder", dtype=policy)
        self.decoder = Decoder(settings, num_decoder_layers, name="decoder", dtype=policy)
        # Of an output layer that shares the target embeddings, `[V]`.
        self.output_bias = None
        if output_bias and self.output_layer is None:
            self.output_bias = self.add_weight(
                name="output_bias", shape=(target_vocab_size,), initializer="zeros"
            )
        self.build()

    def _encode(self, source_ids, training):
        source_mask = padding_mask(source_ids, self.pad_id)
        x = self.source_input(self.source_embedding(source_ids))  # [B, S] -> [B, S, D]
        x = self.embedding_dropout(x, training=training)
        x, maps = self.encoder(x, source_mask, training=training)
        return x, source_mask, maps

    def _decode(self, target_in_ids, memory, source_mask, training):
        x = self.target_input(self.target_embedding(target_in_ids))
        x = self.embedding_dropout(x, training=training)
        return self.decoder(x, memory, source_mask, training=training)

    def features_and_alignment(
        self, inputs: dict[str, Tensor], training: bool | None = None
    ) -> tuple[Tensor, Tensor]:
        """As `TranslationModel`; aligns by the layer and head of `alignment`.

        Without a measurement, this is the last decoder layer but one (Garg et al. 2019, section
        4.1), or the only one. The attention of a decoding step is the same.
        """
        memory, source_mask, _ = self._encode(inputs["source_ids"], training)
        features, _, maps = self._decode(inputs["target_in_ids"], memory, source_mask, training)
        return features, self._alignment(maps)

    def align_by(self, layer: int, head: int | str) -> None:
        """Sets `alignment`; raises `SettingError` if there is no such layer or head."""
        layers, heads = self.settings["num_decoder_layers"], self.settings["num_heads"]
        is_there = layer in range(1, layers + 1) and head in ("mean", *range(1, heads + 1))
        require(is_there, f"there is no head {head} of layer {layer}")
        self.alignment = layer, head

    precomputed_output = None  # `Precomputed` transposed target embeddings, `[D, V]`.

    def precompute(self) -> None:
        if self.output_layer is None and not self.is_quantised:
            # Products of a few rows with a transposed matrix take up to 15 times as long.
            self.precomputed_output = Precomputed(self.output_weights()[0])
        for layer in distinct(self.decoder.layers if not self.settings["ssru"] else ()):
            layer.self_attention.precompute()

    def output_weights(self) -> tuple[Tensor, Tensor | None]:
        """Returns the output layer's weights, or the transposed target embeddings (section 3.4)."""
        if self.output_layer is not None:
            return dense_weights(self.output_layer)
        bias = self.output_bias
        bias = None if bias is None else ops.cast(bias, self.compute_dtype)
        if self.is_quantised:
            return self.target_embedding.embeddings, bias
        if self.precomputed_output is not None:
            return ops.convert_to_tensor(self.precomputed_output.variables[0]), bias
        table = ops.cast(self.target_embedding.embeddings, self.compute_dtype)
        return ops.transpose(table), bias

    def encode(self, source_ids: Tensor, training: bool = False) -> dict[str, Any]:
        """Context: `source_mask [B, S]`; `cross_keys`, `cross_values`, `[B, H, S, d]` per layer."""
        memory, source_mask, _ = self._encode(source_ids, training)
        keys, values = self.decoder.project_memory(memory)
        return {"source_mask": source_mask, "cross_keys": keys, "cross_values": values}

    def initial_state(self, context: dict[str, Any]) -> dict[str, Any]:
        """State: self-attention `keys`, `values`, `[B, H, t, d]` per layer; t grows from 0.

        With SSRUs: `cells [B, D]` float32 per layer.
        """
        return self.decoder.empty_caches(ops.shape(context["source_mask"])[0])

    def with_max_length(
        self, state: dict[str, Any], max_length: int | Tensor, beam_size: int
    ) -> dict[str, Any]:
        """As `Searchable`; the state becomes caches of sentences, and who continues whom.

        Moving the caches of all hypotheses would take most of a step's time. So each sentence keeps
        what all its K hypotheses ever added: `fixed`, keys `[B, H, d, max_length * K]` and values
        `[B, H, max_length * K, d]` of each layer. `slots [N, max_length]` int32 says which of the K
        added the key of a position of a hypothesis; -1: none did. SSRUs have no caches.
        """
        if self.settings["ssru"]:
            return state
        if "fixed" not in state:
            rows = ops.shape(state["keys"][0])[0]
            caches = self.decoder.empty_caches(rows // beam_size)
            caches["keys"] = [ops.swapaxes(keys, 2, 3) for keys in caches["keys"]]
            state = {"fixed": caches, "slots": ops.zeros((rows, 0), "int32")}

        def longer(cache, axis, size, value=0):
            sizes = [[0, 0] for _ in cache.shape]
            sizes[axis][1] = size - ops.shape(cache)[axis]
            return ops.pad(cache, sizes, constant_values=value)

        fixed = {
            name: [longer(cache, axis, max_length * beam_size) for cache in state["fixed"][name]]
            for name, axis in (("keys", 3), ("values", 2))
        }
        return {"fixed": fixed, "slots": longer(state["slots"], 1, max_length, -1)}

    def reordered(self, state: dict[str, Any], parents: Tensor) -> dict[str, Any]:
        if "fixed" not in state:
            return super().reordered(state, parents)
        return {**state, "slots": ops.take(state["slots"], parents, axis=0)}

    def step_features(
        self, token_ids: Tensor, step: Tensor, state: dict[str, Any], context: dict[str, Any]
    ) -> tuple[Tensor, dict[str, Any], Tensor]:
        x = self.target_embedding(token_ids)  # [N, D]
        x = self.target_input(x, ops.reshape(step, (1,)))
        memory = context["cross_keys"], context["cross_values"], context["source_mask"]
        if "fixed" in state:
            slots, visible = self._followed(state["slots"], step, ops.shape(memory[0][0])[0])
            x, caches, maps = self.decoder.step(x, state["fixed"], memory, (step, visible))
            state = {"fixed": caches, "slots": slots}
        else:
            x, state, maps = self.decoder.step(x, state, memory)
        attention = by_hypothesis(self._alignment(maps))  # [B, K, S] -> [N, S]
        return x, state, attention

    def _followed(self, slots, step, num_sentences):
        """Adds a position to `slots [N, T]`; also returns `[B, 1, K, T * K]` bool, visible keys."""
        rows, length = ops.shape(slots)
        beam_size = rows // num_sentences
        own = ops.arange(beam_size)
        is_now = ops.arange(length) == step
        slots = ops.where(is_now, ops.arange(rows)[:, None] % beam_size, slots)
        visible = ops.reshape(slots, (num_sentences, 1, beam_size, length, 1)) == own
        return slots, ops.reshape(visible, (num_sentences, 1, beam_size, length * beam_size))

    def attention_maps(self, source_ids: Tensor, target_ids: Tensor) -> dict[str, Tensor]:
        memory, source_mask, encoder_maps = self._encode(source_ids, training=False)
        target_in_ids = shift_right(target_ids, self.bos_id)
        _, self_maps, cross_maps = self._decode(target_in_ids, memory, source_mask, training=False)
        return {
            **{f"encoder/{i}/self": weights for i, weights in enumerate(encoder_maps)},
            **{f"decoder/{i}/self": w for i, w in enumerate(self_maps) if w is not None},
            **{f"decoder/{i}/cross": weights for i, weights in enumerate(cross_maps)},
        }

    def architecture(self) -> Architecture:
        source = SOURCE_WORDS, *self._parts("source", self.encoder, "encoder")
        target = TARGET_WORDS, *self._parts("target", self.decoder, "decoder")
        layers = self.output_layer or self.target_embedding, self.output_bias
        output = Part("Output layer", "output", (), layers)
        return Architecture(source, (*target, output, SOFTMAX))

    def _parts(self, side, stack, name):
        """Describes the embedding and the layers of a side."""
        settings, heads = self.settings, self.settings["num_heads"]
        inputs = getattr(self, f"{side}_embedding"), getattr(self, f"{side}_input")
        positions = f"{settings['positions']} positions"
        yield Part(f"{side.title()} embedding", "embedding", (positions,), inputs)
        frame = f"{len(stack.layers)} × {name}"
        heads = (f"{heads} heads of {self.width // heads}",)
        masked = heads + ("no later words",) * (side == "target")
        own = "Self-attention", "attention", masked
        if settings["ssru"] and side == "target":
            own = "Recurrence", "layer", ("SSRU: forgets, adds",)
        for title, kind, lines, sub_layer in (
            (*own, "self_attention"),
            ("Cross-attention", "attention", heads, "cross_attention"),
            ("Feed-forward", "layer", (settings["activation"],), "feed_forward"),
        ):
            layers = [getattr(layer, sub_layer, None) for layer in stack.layers]
            if layers[0] is not None:
                yield Part(title, kind, lines, layers, frame, sub_layer == "cross_attention")
        norm = "before" if settings["norm"] == "pre" else "after"
        lines = (f"{norm} every sub-layer, with a residual",)
        yield Part("Layer normalisation", "layer", lines, (stack,), frame)

    def _alignment(self, cross_maps):
        """Selects the attention that aligns: `[B, H, T, S]` of every layer -> `[B, T, S]`."""
        layer, head = self.alignment
        weights = cross_maps[layer - 1]
        return ops.mean(weights, axis=1) if head == "mean" else weights[:, head - 1]


def _check_settings(settings, source_vocab_size, target_vocab_size):
    require_layers(settings)
    require_at_least(1, settings, ("width", "num_heads", "ffn_width"))
    require_rates(settings, ("dropout", "attention_dropout", "ffn_dropout"))
    require(
        0 < settings["norm_epsilon"] < 1,
        f"norm_epsilon must be above 0 and below 1, found {settings['norm_epsilon']}",
    )
    width, num_heads = settings["width"], settings["num_heads"]
    require(
        width % num_heads == 0 and width % 2 == 0,
        f"width must be even and a multiple of num_heads, found width={width}, "
        f"num_heads={num_heads}",
    )
    require_choices(
        settings,
        {
            "norm": ("post", "pre"),
            "tie_embeddings": ("all", "target", "none"),
            "alignment_head": ("mean", "first"),
            "positions": POSITIONS,
            "activation": tuple(ACTIVATIONS),
            "share_layers": ("none", "sequence", "cycle", "cycle_reversed"),
        },
    )
    _check_positions(settings)
    _check_shared_layers(settings)
    require(
        settings["tie_embeddings"] != "all" or source_vocab_size == target_vocab_size,
        "tie_embeddings=all needs one vocabulary for both sides, found "
        f"{source_vocab_size} source and {target_vocab_size} target ids; "
        "use tie_embeddings=target or a shared tokenizer such as bpe",
    )


def _check_positions(settings):
    require_at_least(1, settings, ("max_distance",), 10_000)
    is_learned = settings["positions"] == "learned"
    require(
        (settings["max_positions"] >= 1) == is_learned and settings["max_positions"] >= 0,
        "max_positions must be at least 1 with positions=learned, and 0 otherwise, found "
        f"{settings['max_positions']} with positions={settings['positions']}",
    )
    width, num_heads, positions = (settings[n] for n in ("width", "num_heads", "positions"))
    require(
        positions == "relative" or settings["max_distance"] == MAX_DISTANCE,
        f"max_distance needs positions=relative, found positions={positions}",
    )
    require(
        positions != "rotary" or width // num_heads % 2 == 0,
        "positions=rotary rotates pairs of units, so width / num_heads must be even, found "
        f"{width} / {num_heads} = {width // num_heads}",
    )


def _check_shared_layers(settings):
    require_at_least(1, settings, ("distinct_layers",))
    count, order = settings["distinct_layers"], settings["share_layers"]
    require(
        order != "none" or count == 1,
        f"distinct_layers={count} needs share_layers=sequence, cycle or cycle_reversed, found "
        "share_layers=none",
    )
    most = max(settings["num_encoder_layers"], settings["num_decoder_layers"])
    require(
        count <= most,
        f"distinct_layers must be at most {most}, the layers of the deeper stack, found {count}",
    )
