"""The signatures of a SavedModel one by one, because loading all of them takes long."""

import threading
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

_CALLS = ("PartitionedCall", "StatefulPartitionedCall")


class LaterCalls:
    """The calls and functions of all signatures but one, taken out of a `MetaGraphDef`.

    In a SavedModel of TensorFlow 2, a signature is one call of a function; all signatures have the
    same variables and tables, which stay. In others, everything stays.
    """

    def __init__(self, meta_graph: Any, first: str) -> None:
        graph, signatures = meta_graph.graph_def, meta_graph.signature_def
        self._lock = threading.Lock()
        self._functions = {each.signature.name: each for each in graph.library.function}
        self._versions = graph.versions
        later = {
            _node(output.name)
            for signature in signatures.values()
            for output in signature.outputs.values()
        }
        later -= {_node(output.name) for output in signatures[first].outputs.values()}
        later -= {_node(name) for node in graph.node for name in node.input}
        self._calls = {
            node.name: node
            for node in graph.node
            if node.name in later
            and node.op in _CALLS
            and not any(name.startswith("^") for name in node.input)
        }
        kept = [node for node in graph.node if node.name not in self._calls]
        graph.CopyFrom(self._graph_of(kept))

    def add(self, graph: tf.Graph, outputs: Iterable[str]) -> None:
        """Adds what computes outputs, names of tensors, to the graph, if it is not yet there."""
        names = {_node(name) for name in outputs}
        with self._lock:
            calls = [self._calls.pop(name) for name in names & self._calls.keys()]
            if not calls:
                return
            read = {name for call in calls for name in call.input}
            there = {name: graph.get_tensor_by_name(_tensor(name)) for name in read}
            with graph.as_default():
                tf.graph_util.import_graph_def(self._graph_of(calls), input_map=there, name="")

    def _graph_of(self, nodes):
        """Returns a `GraphDef` of nodes and of all functions that they call."""
        graph = tf.compat.v1.GraphDef(node=nodes, versions=self._versions)
        left, called = list(nodes), {}
        while left:
            for name in _called(left.pop()):
                if name in self._functions and name not in called:
                    called[name] = self._functions[name]
                    left += called[name].node_def
        graph.library.function.extend(called.values())
        return graph


def _called(node):
    """Yields the names of functions that a node calls; others may be among them."""
    yield node.op
    for value in node.attr.values():
        if value.HasField("func"):
            yield value.func.name
        yield from (function.name for function in value.list.func)


def _node(name):
    """Returns the name of the node in that of one of its outputs, or of a control input."""
    return name.removeprefix("^").partition(":")[0]


def _tensor(name):
    return name if ":" in name else f"{name}:0"
