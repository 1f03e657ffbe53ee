"""The decoder of recurrent models: cells, attention to the source, and feedback between them."""

from typing import Any

import keras
from keras import ops

from nmt_zoo.models.base import Tensor, by_hypothesis, by_sentence
from nmt_zoo.models.layers.attention_scores import SourceAttention
from nmt_zoo.models.layers.basic import Composite, Dense, Dropout
from nmt_zoo.models.layers.recurrent import RecurrentLayer, scan_over_time
from nmt_zoo.models.layers.same_shape import multiply


class RecurrentDecoder(Composite):
    """A stack of cells with at most one attention, whose query is the top cell's state.

    With h_t the top cell's state at target position t and c_t the context, the mean of the memory
    (encoder outputs of size `memory_width`) under the attention weights, the output is

    * without attention: `h_t`
    * combine "tanh": `tanh(W [c_t; h_t])`, Luong et al. 2015, equation 5
    * combine "sum": `V c_t + h_t`

    The query is h_t; with `attend_before` it is h_(t-1), and c_t enters the lowest cell together
    with token t (Bahdanau et al. 2015, appendix A.2.2). With `input_feeding`, the output of
    position t - 1 also enters the lowest cell (Luong et al. 2015, section 3.3). The attention is
    part of the loop over time only with one of these two options; without them, all positions
    attend at once. `settings` are those of `models.rnn.RecurrentTranslationModel`.
    """

    def __init__(self, settings: dict[str, Any], memory_width: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        dtype, units = self.dtype_policy, settings["decoder_units"]
        is_sum = settings["combine"] == "sum"
        self.units = units
        self.input_feeding = settings["input_feeding"]
        self.attend_before = settings["attend_before"]
        context_width = units if is_sum else memory_width
        fed_width = context_width * self.attend_before + units * self.input_feeding
        self.stack = [
            RecurrentLayer(
                settings["cell"],
                units if index else settings["embedding_width"],
                units,
                fed_width=0 if index else fed_width,
                forget_bias=settings["forget_bias"],
                name=f"layer_{index}",
                dtype=dtype,
            )
            for index in range(settings["num_decoder_layers"])
        ]
        self.attention = None
        self.combination = None
        if settings["score"] != "none":
            self.attention = SourceAttention(
                settings["score"],
                units,
                memory_width,
                settings["rank"],
                value_width=units if is_sum else 0,
                name="attention",
                dtype=dtype,
            )
            if not is_sum:
                self.combination = Dense(
                    context_width + units,
                    units,
                    activation="tanh",
                    use_bias=False,
                    name="combination",
                    dtype=dtype,
                )
        self.dropout = Dropout(settings["dropout"], name="dropout", dtype=dtype)
        rate = settings["output_dropout"]
        self.output_dropout = Dropout(rate, name="output_dropout", dtype=dtype)

    @property
    def num_states(self) -> int:
        """Number of tensors in the state of a layer: 2 for "lstm", 1 for the other cells."""
        return self.stack[0].cell.num_states

    def project_memory(self, memory: Tensor) -> dict[str, Tensor]:
        """`[B, S, memory_width]` -> context entries `keys`, `values`; {} without attention."""
        if self.attention is None:
            return {}
        keys, values = self.attention.project_memory(memory)
        return {"keys": keys, "values": values}

    def attend(self, query: Tensor, context: dict[str, Tensor]) -> tuple[Tensor | None, Tensor]:
        """`query [B, T, U]` -> `(context vectors [B, T, *], weights [B, T, S] float32)`.

        Without attention, the vectors are None and the weights are equal on all real tokens.
        """
        source_mask = context["source_mask"][:, None, :]
        if self.attention is not None:
            return self.attention(query, context["keys"], context["values"], source_mask)
        real = ops.cast(source_mask, "float32")
        weights = real / ops.maximum(ops.sum(real, axis=-1, keepdims=True), 1.0)
        return None, ops.repeat(weights, ops.shape(query)[1], axis=1)

    def combine(self, vectors: Tensor | None, top: Tensor) -> Tensor:
        """Context vectors and top states, `[..., *]` and `[..., U]` -> `[..., U]`."""
        if self.attention is None:
            return top
        if self.combination is None:
            return vectors + top
        return self.combination(ops.concatenate([vectors, top], axis=-1))

    def _attend_each(self, query, context):
        """`attend` for N hypotheses: `[N, U]` -> `[N, *]`, `[N, S]`."""
        query = by_sentence(query, ops.shape(context["source_mask"])[0])
        vectors, weights = self.attend(query, context)  # [B, K, *]
        if vectors is not None:
            vectors = by_hypothesis(vectors)
        return vectors, by_hypothesis(weights)

    def step(
        self,
        projected: Tensor,
        state: dict[str, Any],
        context: dict[str, Any],
        kept: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Any], Tensor]:
        """Decodes one target position; returns `(output [N, U], state, weights [N, S])`.

        Args:
            projected: `[N, gates * U]`, the token's embedding, projected by the lowest cell.
            state: `{"cells": [[N, U], ...]}`, `num_states` tensors per layer, lowest layer first;
                with input feeding also `"fed" [N, U]`, the output of the previous position.
            context: `source_mask [B, S]`, `keys`, `values`; N is a multiple of B.
            kept: dropout factors `[N, num_layers * U]`: between the layers, then for the output;
                None for no dropout.
        """
        count = self.num_states
        cells = [state["cells"][i : i + count] for i in range(0, len(state["cells"]), count)]
        fed, x = [], None
        if self.attend_before:
            vectors, weights = self._attend_each(cells[-1][0], context)
            fed.append(vectors)
        if self.input_feeding:
            fed.append(state["fed"])
        fed = ops.concatenate(fed, axis=-1) if len(fed) > 1 else fed[0] if fed else None
        new_cells = []
        for index, (layer, cell_state) in enumerate(zip(self.stack, cells, strict=True)):
            if index == 0:
                new = layer.cell.step(projected, cell_state, fed)
            else:
                new = layer.step(self._dropped(x, kept, index - 1), cell_state)
            x = new[0]
            new_cells.extend(new)
        if not self.attend_before:
            vectors, weights = self._attend_each(x, context)
        output = self._dropped(self.combine(vectors, x), kept, len(self.stack) - 1)
        new_state = {"cells": new_cells}
        if self.input_feeding:
            new_state["fed"] = output
        return output, new_state, weights

    def _dropped(self, x, kept, index):
        """Applies the dropout of a layer, `kept` as of `step`."""
        if kept is None:
            return x
        return multiply(x, ops.split(kept, len(self.stack), axis=-1)[index])

    def call(
        self,
        embedded: Tensor,
        state: dict[str, Any],
        context: dict[str, Any],
        need_weights: bool = False,
        training: bool | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Decodes whole target sequences, `embedded [B, T, embedding_width]`.

        `state` is the first state, as in `step`, with B rows. Returns outputs `[B, T, U]` and
        weights `[B, T, S]` float32; these may be None unless `need_weights`, if they cost extra.
        """
        if not (self.input_feeding or self.attend_before):
            top, outputs = self._layer_by_layer(embedded, state, training), None
        elif not self.input_feeding:
            [top], outputs = self._loop(embedded, state, context, training, ["top"]), None
        elif need_weights:
            top, outputs = self._loop(embedded, state, context, training, ["top", "output"])
        else:
            [outputs] = self._loop(embedded, state, context, training, ["output"])
            return outputs, None
        query = top
        if self.attend_before:
            first = state["cells"][-self.num_states][:, None]
            query = ops.concatenate([first, top[:, :-1]], axis=1)
        vectors, weights = self.attend(query, context)
        if not self.input_feeding:
            outputs = self.output_dropout(self.combine(vectors, top), training=training)
        return outputs, weights

    def _layer_by_layer(self, x, state, training):
        """Computes the top states `[B, T, U]` if no output is fed back."""
        count = self.num_states
        for index, layer in enumerate(self.stack):
            if index:
                x = self.dropout(x, training=training)
            x, _ = layer(x, state=state["cells"][index * count : (index + 1) * count])
        return x

    def _loop(self, embedded, state, context, training, wanted):
        """Decodes in a loop, for models with feedback: a `[B, T, U]` for each name in `wanted`."""
        gates = self.stack[0].cell.project(embedded)  # [B, T, gates * U]
        inputs, width = gates, gates.shape[-1]
        if training:
            inputs = ops.concatenate([gates, self._dropout_factors(gates)], axis=-1)

        def step(x, leaves):
            x, kept = ops.split(x, [width], axis=-1) if training else (x, None)
            output, new, _ = self.step(x, keras.tree.pack_sequence_as(state, leaves), context, kept)
            vectors = {"top": new["cells"][-self.num_states], "output": output}
            outputs = ops.concatenate([vectors[name] for name in wanted], axis=-1)
            return outputs, keras.tree.flatten(new)

        outputs, _ = scan_over_time(step, inputs, keras.tree.flatten(state))
        return ops.split(outputs, len(wanted), axis=-1)

    def _dropout_factors(self, gates):
        """Draws `kept` of `step` for all positions, before the loop, to keep the loop stateless."""
        ones = ops.ones((*ops.shape(gates)[:2], self.units), gates.dtype)
        layers = [self.dropout] * (len(self.stack) - 1) + [self.output_dropout]
        return ops.concatenate([dropout(ones, training=True) for dropout in layers], axis=-1)
