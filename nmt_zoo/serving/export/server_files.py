"""The files that TensorFlow Serving reads besides a SavedModel, and the operations that it has."""

import sys
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from nmt_zoo.common.errors import UserError

# TensorFlow Serving links the library of operations of tensorflow_text; these are ours.
_OF_TENSORFLOW_TEXT = {*("SentencepieceOp", "SentencepieceTokenizeOp", "SentencepieceDetokenizeOp")}
_OF_TENSORFLOW_TEXT |= {"NormalizeUTF8"}
# XLA has kernels of these alone; a server that can compile functions has them.
_OF_XLA = {"XlaDynamicUpdateSlice"}
# The Python package has these besides: they call Python, or need a compiler or a device.
_ONLY_IN_PYTHON = ("PyFunc", "EagerPyFunc", "Xla", "TPU")

# The file `batching.config` beside the versions, `BatchingParameters`.
BATCHING = """# How a server joins requests: --enable_batching --batching_parameters_file=FILE
max_batch_size { value: 64 }
# Time in which further requests may join the first one of a batch.
batch_timeout_micros { value: 2000 }
# Further requests are refused with the status UNAVAILABLE, or 503.
max_enqueued_batches { value: 100 }
"""


def read_meta_graph(folder: Path) -> Any:
    """Reads the `MetaGraphDef` of a SavedModel."""
    saved = saved_model_pb2.SavedModel()
    saved.ParseFromString((folder / "saved_model.pb").read_bytes())
    return saved.meta_graphs[0]


def check_operations(meta_graph: Any) -> None:
    """Raises `UserError` if the stock server lacks an operation of a SavedModel."""
    graph = meta_graph.graph_def
    used = {node.op for node in graph.node}
    used |= {node.op for function in graph.library.function for node in function.node_def}
    used -= {function.signature.name for function in graph.library.function}
    known = {*_OF_TENSORFLOW_TEXT}
    if any("_XlaMustCompile" in function.attr for function in graph.library.function):
        known |= _OF_XLA
    missing = sorted(
        name
        for name in used - known
        if not hasattr(tf.raw_ops, name) or name.startswith(_ONLY_IN_PYTHON)
    )
    if missing:
        raise UserError(
            f"the model uses operations that TensorFlow Serving does not have: {', '.join(missing)}"
            "; compute these without them"
        )


def write_warm_up(
    extra: Path,
    requests: Sequence[Any],
    signatures: Mapping[str, Any],
    name: str,
    further: Sequence[Any] = (),
) -> None:
    """Writes requests that a server answers before it shows a version as available.

    The first call of a signature takes seconds, which no client should wait for. The file in the
    folder `assets.extra` has the first and the last request of each signature, and all `further`
    requests, as `PredictionLog`. Requests have a `signature`, by its name, and `inputs`, name ->
    nested lists; `signatures` are name -> `SignatureDef`; `name` is the model's. Prints a line
    instead if the package of the server's interface is not installed. Raises `OSError` if the file
    cannot be written.
    """
    try:
        from tensorflow_serving.apis import prediction_log_pb2 as logs
    except ImportError:
        print(
            "no warm-up requests are written, so the first ones to a server take seconds; pip "
            "install tensorflow-serving-api, and export again",
            file=sys.stderr,
        )
        return
    by_signature = {}
    for request in requests:
        by_signature.setdefault(request.signature, []).append(request)
    ends = (calls if len(calls) < 3 else (calls[0], calls[-1]) for calls in by_signature.values())
    try:
        with tf.io.TFRecordWriter(str(extra / "tf_serving_warmup_requests")) as file:
            for signature, inputs in ((r.signature, r.inputs) for r in (*chain(*ends), *further)):
                log = logs.PredictionLog()  # pyright: ignore[reportAttributeAccessIssue]
                request = log.predict_log.request
                request.model_spec.name, request.model_spec.signature_name = name, signature
                for key, values in inputs.items():
                    dtype = signatures[signature].inputs[key].dtype
                    request.inputs[key].CopyFrom(tf.make_tensor_proto(values, dtype=dtype))
                file.write(log.SerializeToString())
    except tf.errors.OpError as error:
        raise OSError(error.message) from None
