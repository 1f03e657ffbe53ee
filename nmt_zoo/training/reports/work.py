"""Counts the work of an update by the operations of its graph, of which none is run.

The graph is traced for one shape of a batch, so that the shapes of all large results are known.
"""

import collections
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import tensorflow as tf

from nmt_zoo.common.errors import UserError

# Operations that move nothing: views of their inputs, frames of other graphs, and constants.
_VIEWS = {"Identity", "IdentityN", "Reshape", "Bitcast", "ExpandDims", "Squeeze", "StopGradient"}
_LOOPS, _BRANCHES = {"While", "StatelessWhile"}, {"If", "StatelessIf"}
_FREE = {*_VIEWS, *_LOOPS, *_BRANCHES, "ReadVariableOp", "Placeholder", "Const", "NoOp"}
_PICKS = {"GatherV2", "ResourceGather", "StridedSlice", "TensorListGetItem"}  # Read what they give.
_LISTS = {"TensorListPushBack", "TensorListSetItem"}  # Keep their last input beyond their loop.
_TURNED = {"MatMul": ("transpose_a", "transpose_b"), "BatchMatMulV2": ("adj_x", "adj_y")}
_CONVOLUTIONS = {"Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter"}
# Reads a gradient, reads and writes weights and two moments, in about 11 operations a weight.
ADAM, _ADAM_MOVES, _ADAM_FLOATS = "ResourceApplyAdam", 7, 11


class Operation(NamedTuple):
    """An operation of a graph."""

    kind: str  # of TensorFlow
    times: int  # how often an update runs it
    floats: int  # floating-point operations, two for each multiplication of a product
    moved: int  # bytes that it reads and writes
    largest: int  # bytes of the largest array that it reads or writes
    precision: str  # of its result
    product: tuple[int, ...] = ()  # (batch, rows, inner, columns), if it is a product of matrices
    turned: tuple[bool, ...] = ()  # whether its matrices are read by columns, each


class Work(NamedTuple):
    """What an update does."""

    operations: list[Operation]
    most_alive: int  # most bytes of results that are needed at a time, besides all variables

    @property
    def floats(self) -> int:
        """Floating-point operations."""
        return sum(each.times * each.floats for each in self.operations)

    @property
    def floats_of_products(self) -> int:
        """Floating-point operations of products of matrices."""
        return sum(each.times * each.floats for each in self.operations if each.product)

    @property
    def moved(self) -> int:
        """Bytes that the operations read and write, if none is fused with the next one."""
        return sum(each.times * each.moved for each in self.operations)


def of_update(update: Any, rows: int, source: int, target: int) -> Work:
    """Returns the `Work` of a `GradientUpdate` by a batch of `rows` pairs of as many tokens.

    Raises `UserError` if only running the update would tell how often a loop runs.
    """
    lengths = {"source_ids": source, "target_ids": target}
    batch = {name: tf.TensorSpec([rows, length], tf.int32) for name, length in lengths.items()}
    function = tf.function(lambda batch: update.apply(*update.gradients(batch)), autograph=False)
    return of_graph(function.get_concrete_function(batch).graph)


def of_graph(graph: tf.Graph) -> Work:
    """Returns the `Work` of a graph; raises as `of_update`."""
    return Work([*_operations(graph, 1)], _most_alive(graph))


def _operations(graph, times) -> Iterator[Operation]:
    for op in graph.get_operations():
        for inner, often in _inner(op):
            yield from _operations(inner, times * often)
        if op.type not in _FREE and (moved := _moved(op)):
            yield _operation(op, times, moved)


def _operation(op, times, moved):
    tensors = [*op.inputs, *op.outputs]
    product, precision = _product(op), (op.outputs or op.inputs)[0].dtype.name
    floats = 2 * math.prod(product) if product else max(map(_count, tensors))
    if op.type == ADAM:
        floats *= _ADAM_FLOATS
    turned = [op.get_attr(name) for name in _TURNED.get(op.type, ())] if product else []
    largest = max(map(_bytes, tensors))
    return Operation(op.type, times, floats, moved, largest, precision, product, tuple(turned))


def _inner(op):
    """Returns pairs of the graphs that an operation runs, and how often it runs each."""
    if op.type in _BRANCHES:
        return [(_graph(op, "then_branch"), 1)]  # The other branch skips an update.
    if op.type not in _LOOPS:
        return []
    with op.graph.as_default():
        # A loop's second input is its limit. TensorFlow knows the shape of an array of that size.
        often = tf.zeros([tf.maximum(op.inputs[1], 0)]).shape[0]
    if not often:
        raise UserError(
            f"--device: only running the model tells how often its loop {op.name} runs; use "
            "--dry_run alone, which tries updates"
        )
    return [(_graph(op, "body"), often)]


def _graph(op, name):
    return op.graph._get_function(op.get_attr(name).name).graph


def _sizes(tensor):
    """Returns the shape of a tensor; the few unknown sizes, of small tensors, count as 1."""
    return [size or 1 for size in tensor.shape.as_list()] if tensor.shape.rank is not None else []


def _count(tensor):
    return math.prod(_sizes(tensor))


def _bytes(tensor):
    is_array = tensor.dtype not in (tf.resource, tf.variant, tf.string)
    return _count(tensor) * tensor.dtype.size if is_array else 0


def _moved(op):
    if op.type == ADAM:
        return _ADAM_MOVES * max(map(_bytes, op.inputs))
    written = sum(map(_bytes, op.outputs))
    return written + (written if op.type in _PICKS else sum(map(_bytes, op.inputs)))


def _product(op):
    """Returns (batch, rows, inner, columns) of a product of matrices; of all else ()."""
    if op.type == "Einsum":
        left, right, result = op.get_attr("equation").decode().replace("->", ",").split(",")
        sizes = dict(zip(left + right, (n for t in op.inputs for n in _sizes(t)), strict=True))
        axes = (
            {*left} & {*right} & {*result},
            {*left} - {*right},
            {*left} & {*right} - {*result},
            {*right} - {*left},
        )
        return tuple(math.prod(sizes[name] for name in names) for names in axes)
    if op.type in _CONVOLUTIONS:
        kernel = op.outputs[0] if op.type.endswith("Filter") else op.inputs[1]
        result = op.inputs[2] if "Backprop" in op.type else op.outputs[0]
        columns = _sizes(kernel)[-1]
        return 1, _count(result) // columns, _count(kernel) // columns, columns
    if op.type not in _TURNED:
        return ()
    *batch, rows, columns = _sizes(op.outputs[0])
    is_turned = op.get_attr(_TURNED[op.type][0])
    inner, count = _sizes(op.inputs[0])[-2 if is_turned else -1], math.prod(batch)
    is_shared = len(_sizes(op.inputs[1])) == 2  # One matrix for the whole batch.
    return (1, count * rows, inner, columns) if is_shared else (count, rows, inner, columns)


def _most_alive(graph):
    """Returns the most bytes of results that are needed at a time, in the order of the graph."""
    operations, owner, last = graph.get_operations(), {}, {}
    for i, op in enumerate(operations):
        for tensor in op.inputs:
            last[owner.get(id(tensor), id(tensor))] = i
        if op.type in _VIEWS:
            pairs = zip(op.outputs, op.inputs, strict=False)
            owner |= {id(view): owner.get(id(of), id(of)) for view, of in pairs}
    ends, alive, most = collections.Counter(), 0, 0
    for i, op in enumerate(operations):
        within, results = 0, [(id(t), _bytes(t)) for t in op.outputs]
        for inner, often in _inner(op):
            within = max(within, _most_alive(inner))
            kept = [o.inputs[-1] for o in inner.get_operations() if o.type in _LISTS]
            end = max((last.get(name, i) for name, _ in results), default=i)
            ends[end] += often * sum(map(_bytes, kept))
            alive += often * sum(map(_bytes, kept))
        for name, size in results if op.type not in _FREE - _LOOPS - _BRANCHES else ():
            ends[last.get(name, i)] += size
            alive += size
        most = max(most, alive + within)
        alive -= ends[i]
    return most
