"""Recurrent cells and layers.

Every cell has one matrix from its inputs to all its gates and one from its state to all its gates.
So the inputs of all time steps are projected at once before the loop, and a step in the loop needs
one matrix product.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from nmt_zoo.models.base import Tensor
from nmt_zoo.models.layers.basic import Composite, Dense
from nmt_zoo.models.layers.same_shape import add, multiply, where


def scan_over_time(
    step: Callable[[Tensor, list[Tensor]], tuple[Tensor, list[Tensor]]],
    inputs: Tensor,
    state: list[Tensor],
    step_mask: Tensor | None = None,
    reverse: bool = False,
) -> tuple[Tensor, list[Tensor]]:
    """Applies a step to every position in turn, passing the state from each step to the next.

    The loop is `keras.layers.RNN`, because XLA can compile its gradient. XLA cannot compile the
    gradient of `ops.scan`, which has no bound on the number of steps.
    Args:
        step: function of `(x [B, X], state)` that returns `(output [B, Y], state)`.
        inputs: `[B, T, X]`.
        state: list of `[B, *]`, in the dtype of `inputs`.
        step_mask: `[B, T]` bool; where it is False, the state stays unchanged, and the output is
            finite but has no meaning.
        reverse: whether to begin at the last position; the outputs `[B, T, Y]` stay in the order of
            the inputs.
    """
    if step_mask is not None:
        # Passed as a column of the inputs, because TensorFlow warns of transposing a bool mask.
        column = ops.cast(step_mask, inputs.dtype)[:, :, None]
        inputs, step = ops.concatenate([inputs, column], axis=-1), _where_real(step)
    loop = keras.layers.RNN(
        _Step(step, [leaf.shape[-1] for leaf in state], inputs.dtype),
        return_sequences=True,
        return_state=True,
        go_backwards=reverse,
        name="scan",
        dtype=keras.backend.standardize_dtype(inputs.dtype),
    )
    outputs, *state = loop(inputs, initial_state=list(state))
    return (ops.flip(outputs, axis=1) if reverse else outputs), state


def _where_real(step):
    """Returns a step that keeps the state where the last column of its input is 0."""

    def masked(x, state):
        x, column = ops.split(x, [x.shape[-1] - 1], axis=-1)
        output, new_state = step(x, state)
        is_real = column > 0.5
        pairs = zip(new_state, state, strict=True)
        return output, [where(is_real, new, old) for new, old in pairs]

    return masked


class _Step:
    """Wraps a function as a cell for `keras.layers.RNN`."""

    built = True

    def __init__(self, step, state_size, dtype):
        self.step = step
        self.state_size = state_size
        self.output_size = state_size[0]
        self.compute_dtype = keras.backend.standardize_dtype(dtype)

    def call(self, inputs: Any, states: Any, training: bool | None = None) -> Any:
        return self.step(inputs, list(states))

    __call__ = call


def product(x: Tensor, kernel: Tensor, bias: Tensor | None) -> Tensor:
    y = ops.matmul(x, kernel)
    return y if bias is None else y + bias


def _per_gate(make_initializer, num_gates):
    """Returns an initializer that draws a separate matrix for the columns of each gate."""

    def initialize(shape, dtype=None):
        gate = (shape[0], shape[1] // num_gates)
        # TensorFlow has no QR decomposition, as orthogonal matrices need it, in bfloat16.
        gates = [make_initializer()(gate, "float32") for _ in range(num_gates)]
        return ops.cast(ops.concatenate(gates, axis=1), dtype)

    return initialize


class RecurrentCell(keras.layers.Layer):
    """Base class of all cells: weights, and the projection of their inputs.

    Input weights are initialised as in Glorot and Bengio 2010, recurrent weights orthogonally (Saxe
    et al. 2014), both separately for each gate. Biases start at 0, except the forget gate's, which
    only `LSTMCell` has: it starts at `forget_bias`. `input_width` is the size of the inputs that
    are known before the loop begins, `fed_width` of those that the loop computes, such as fed-back
    attention (0: none). U, `units`, is the size of the state.
    """

    num_gates = 1
    num_states = 1

    def __init__(
        self,
        input_width: int,
        units: int,
        fed_width: int = 0,
        forget_bias: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.input_width = input_width
        self.units = units
        self.fed_width = fed_width
        self.forget_bias = forget_bias

    def build(self, input_shape: Any = None) -> None:
        glorot = _per_gate(keras.initializers.GlorotUniform, self.num_gates)
        orthogonal = _per_gate(keras.initializers.Orthogonal, self.num_gates)
        columns = self.num_gates * self.units
        self.kernel = self.add_weight(
            name="kernel", shape=(self.input_width, columns), initializer=glorot
        )
        self.fed_kernel = (
            self.add_weight(name="fed_kernel", shape=(self.fed_width, columns), initializer=glorot)
            if self.fed_width
            else None
        )
        self.recurrent_kernel = self.add_weight(
            name="recurrent_kernel", shape=(self.units, columns), initializer=orthogonal
        )
        self.bias = self.add_weight(name="bias", shape=(columns,), initializer=self._first_bias)
        self.built = True

    def _first_bias(self, shape, dtype=None):
        return ops.zeros(shape, dtype)

    def _times(self, x, kernel):
        return ops.matmul(x, ops.cast(kernel, self.compute_dtype))

    def project(self, x: Tensor) -> Tensor:
        """`[..., input_width]` -> `[..., gates * U]`, the contribution of `x` to the gates."""
        x = ops.cast(x, self.compute_dtype)
        return self._times(x, self.kernel) + ops.cast(self.bias, self.compute_dtype)

    def step(
        self, projected: Tensor, state: list[Tensor], fed: Tensor | None = None
    ) -> list[Tensor]:
        """Computes one time step; returns the new state.

        `projected [N, gates * U]` from `project`; `state`, `num_states` tensors `[N, U]`, the first
        is the cell's output; `fed [N, fed_width]`, or None if `fed_width` is 0.
        """
        if self.fed_kernel is not None:
            projected = add(projected, self._times(fed, self.fed_kernel))
        return self.gate(projected, state, product(state[0], *self.recurrent_weights()))

    def recurrent_weights(self) -> tuple[Tensor, Tensor | None]:
        """Returns the weights of the state: `(kernel [U, gates * U], bias [gates * U] or None)`."""
        return ops.cast(self.recurrent_kernel, self.compute_dtype), None

    def gate(self, projected: Tensor, state: list[Tensor], recurrent: Tensor) -> list[Tensor]:
        """Returns the new state, as `step`, from both projections `[N, gates * U]`."""
        raise NotImplementedError


@keras.saving.register_keras_serializable("nmt_zoo")
class RNNCell(RecurrentCell):
    """`h = tanh(A h' + B x + c)`, Elman 1990; h' is the previous state."""

    def gate(self, projected: Tensor, state: list[Tensor], recurrent: Tensor) -> list[Tensor]:
        return [ops.tanh(add(projected, recurrent))]


@keras.saving.register_keras_serializable("nmt_zoo")
class ReLUCell(RecurrentCell):
    """`h = max(0, A h' + B x + c)`, whose gradient does not vanish, but whose state may grow."""

    def gate(self, projected: Tensor, state: list[Tensor], recurrent: Tensor) -> list[Tensor]:
        return [ops.relu(add(projected, recurrent))]


@keras.saving.register_keras_serializable("nmt_zoo")
class GRUCell(RecurrentCell):
    """The gated recurrent unit, Cho et al. 2014, with the reset gate after the product.

    `r = sigmoid(W_r x + U_r h' + b_r)`, `z = sigmoid(W_z x + U_z h' + b_z)`,
    `n = tanh(W x + b + r * (U h' + b'))`, `h = (1 - z) * n + z * h'`. The paper has `U (r * h')`
    instead. This form, also used by cuDNN, needs one matrix product per step instead of two in
    sequence. The columns of the weights are in the order r, z, n.
    """

    num_gates = 3

    def build(self, input_shape: Any = None) -> None:
        super().build(input_shape)
        self.recurrent_bias = self.add_weight(
            name="recurrent_bias", shape=(self.units,), initializer="zeros"
        )

    def recurrent_weights(self) -> tuple[Tensor, Tensor | None]:
        kernel, _ = super().recurrent_weights()
        bias = ops.cast(self.recurrent_bias, self.compute_dtype)
        return kernel, ops.concatenate([ops.zeros((2 * self.units,), bias.dtype), bias])

    def gate(self, projected: Tensor, state: list[Tensor], recurrent: Tensor) -> list[Tensor]:
        (r, z, n), (recurrent_r, recurrent_z, recurrent_n) = (
            ops.split(x, 3, axis=-1) for x in (projected, recurrent)
        )
        r = ops.sigmoid(add(r, recurrent_r))
        z = ops.sigmoid(add(z, recurrent_z))
        n = ops.tanh(add(n, multiply(r, recurrent_n)))
        return [add(multiply(1 - z, n), multiply(z, state[0]))]


@keras.saving.register_keras_serializable("nmt_zoo")
class LSTMCell(RecurrentCell):
    """Long short-term memory with a forget gate, Gers et al. 2000.

    `i, f, o = sigmoid(W x + U h' + b)`, `g = tanh(W_g x + U_g h' + b_g)`, `c = f * c' + i * g`,
    `h = o * tanh(c)`. The state is `[h, c]`; the columns of the weights are in the order i, f, o,
    g. With an initial bias of 1, an untrained forget gate remembers (Jozefowicz et al. 2015).
    """

    num_gates = 4
    num_states = 2

    def _first_bias(self, shape, dtype=None):
        forget = ops.full((self.units,), self.forget_bias, dtype)
        rest = ops.zeros((2 * self.units,), dtype)
        return ops.concatenate([ops.zeros((self.units,), dtype), forget, rest])

    def gate(self, projected: Tensor, state: list[Tensor], recurrent: Tensor) -> list[Tensor]:
        i, f, o, g = ops.split(add(projected, recurrent), 4, axis=-1)
        c = add(multiply(ops.sigmoid(f), state[1]), multiply(ops.sigmoid(i), ops.tanh(g)))
        return [multiply(ops.sigmoid(o), ops.tanh(c)), c]


CELLS = {"rnn": RNNCell, "relu": ReLUCell, "gru": GRUCell, "lstm": LSTMCell}


@keras.saving.register_keras_serializable("nmt_zoo")
class RecurrentLayer(Composite):
    """A cell, one of `CELLS`, that reads a sequence from its first token.

    `call` takes whole sequences; `step` takes one position and `fed`. Both give equal results.
    Example:
        >>> layer = RecurrentLayer("lstm", input_width=3, units=4)
        >>> outputs, (h, c) = layer(ops.ones((2, 5, 3)))
        >>> outputs.shape, h.shape
        (TensorShape([2, 5, 4]), TensorShape([2, 4]))
    """

    def __init__(
        self,
        cell: str,
        input_width: int,
        units: int,
        fed_width: int = 0,
        forget_bias: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.cell = CELLS[cell](
            input_width, units, fed_width, forget_bias, name="cell", dtype=self.dtype_policy
        )

    def zero_state(self, batch_size: int | Tensor) -> list[Tensor]:
        """Returns the state before the first token: `num_states` zero tensors `[B, U]`."""
        shape = (batch_size, self.cell.units)
        return [ops.zeros(shape, self.compute_dtype) for _ in range(self.cell.num_states)]

    def call(
        self, x: Tensor, state: list[Tensor] | None = None, step_mask: Tensor | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """Reads whole sequences `[B, T, input_width]`; returns outputs `[B, T, U]` and last state.

        The first state is a list of `[B, U]`; None for zeros. `step_mask [B, T]` bool is True for
        real tokens. Padding leaves the state unchanged, so it has no effect in either direction.
        """
        state = self.zero_state(ops.shape(x)[0]) if state is None else state

        def step(projected, state):
            state = self.cell.step(projected, state)
            return state[0], state

        return scan_over_time(step, self.cell.project(x), state, step_mask)

    def step(self, x: Tensor, state: list[Tensor], fed: Tensor | None = None) -> list[Tensor]:
        """Reads one position `x [N, input_width]`; `state`, `fed` and result as in the cell."""
        return self.cell.step(self.cell.project(x), state, fed)


def _both_ways(forward, backward):
    """Two tensors `[B, T, *]` -> `[2B, T, *]`, the second reversed in time."""
    return ops.concatenate([forward, ops.flip(backward, axis=1)], axis=0)


@keras.saving.register_keras_serializable("nmt_zoo")
class BidirectionalLayer(Composite):
    """Two layers of U units, one forward, one backward (Schuster and Paliwal 1997)."""

    def __init__(
        self, cell: str, input_width: int, units: int, forget_bias: float = 1.0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        settings = {"forget_bias": forget_bias, "dtype": self.dtype_policy}
        self.forward = RecurrentLayer(cell, input_width, units, name="forward", **settings)
        # Also reads from the first token, of sentences that `call` has reversed.
        self.backward = RecurrentLayer(cell, input_width, units, name="backward", **settings)

    def call(self, x: Tensor, step_mask: Tensor | None = None) -> tuple[Tensor, list[Tensor]]:
        """As `RecurrentLayer.call`; outputs `[B, T, 2U]`, states `[B, 2U]`, forward half first."""
        # One loop for both directions: the rows of the batch, then the same rows reversed in time.
        cells = [self.forward.cell, self.backward.cell]
        inputs = _both_ways(*(cell.project(x) for cell in cells))
        step_mask = None if step_mask is None else _both_ways(step_mask, step_mask)
        weights = [cell.recurrent_weights() for cell in cells]
        kernel, bias = (
            None if pair[0] is None else ops.stack(pair) for pair in zip(*weights, strict=True)
        )
        bias = None if bias is None else bias[:, None]

        def step(projected, state):
            h = ops.reshape(state[0], (2, -1, state[0].shape[-1]))
            recurrent = ops.reshape(product(h, kernel, bias), (-1, projected.shape[-1]))
            state = cells[0].gate(projected, state, recurrent)
            return state[0], state

        state = self.forward.zero_state(ops.shape(inputs)[0])
        outputs, state = scan_over_time(step, inputs, state, step_mask)
        forward, backward = ops.split(outputs, 2, axis=0)
        return (
            ops.concatenate([forward, ops.flip(backward, axis=1)], axis=-1),
            [ops.concatenate(ops.split(leaf, 2, axis=0), axis=-1) for leaf in state],
        )


@keras.saving.register_keras_serializable("nmt_zoo")
class SSRU(Composite):
    """Simpler simple recurrent unit, in the place of masked self-attention (Kim et al. 2019).

    The cell `c_t = f_t c_{t-1} + (1 - f_t) W x_t` forgets by `f_t = sigmoid(V x_t + b)`; the output
    is `relu(c_t)`. The cell is the only state, so all steps cost the same. `call` takes whole
    sequences; `step` takes one position. Both give equal results.
    Example:
        >>> SSRU(width=8)(ops.ones((2, 3, 8)))[0].shape
        TensorShape([2, 3, 8])
    """

    def __init__(self, width: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.width = width
        self.forget = Dense(width, width, name="forget", dtype=self.dtype_policy)
        self.value = Dense(width, width, use_bias=False, name="value", dtype=self.dtype_policy)

    def call(self, x: Tensor, training: bool | None = None) -> tuple[Tensor, None]:
        """`x [B, T, D]` -> `(output [B, T, D], None)`, because there are no attention weights."""
        empty = self.empty_state(ops.shape(x)[0]).values()
        cells, _ = scan_over_time(self._next, self._gates(x), list(empty))
        return ops.cast(ops.relu(cells), self.compute_dtype), None

    def empty_state(self, batch_size: int | Tensor) -> dict[str, Tensor]:
        """Makes the state before the first position: `cells [N, D]` float32."""
        return {"cells": ops.zeros((batch_size, self.width), "float32")}

    def step(
        self, x: Tensor, cells: Tensor, place: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """`x [N, D]`, `cells [N, D]` of the last position -> `(output [N, D], cells [N, D])`."""
        cells, _ = self._next(self._gates(x), [cells])
        return ops.cast(ops.relu(cells), self.compute_dtype), cells

    def _gates(self, x):
        """`[..., D]` -> `[..., 2 D]`: how much of the cell is kept, and what is added to it."""
        kept = ops.sigmoid(ops.cast(self.forget(x), "float32"))
        return ops.concatenate([kept, (1 - kept) * ops.cast(self.value(x), "float32")], axis=-1)

    def _next(self, gates, state):
        kept, added = ops.split(gates, 2, axis=-1)
        cells = kept * state[0] + added
        return cells, [cells]
