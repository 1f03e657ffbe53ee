"""The files that TensorFlow Serving reads besides a SavedModel, and the operations that it has.

In the folder of a version:

* `assets.extra/tf_serving_warmup_requests`: see `warm_up`

Beside the versions, written once and then left to their reader:

* `batching.config`: how it joins requests, `BatchingParameters`
* `README.md`: the commands that start a server
"""

from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import write_text

EXTRA = "assets.extra"

# TensorFlow Serving links the library of operations of tensorflow_text; these are ours.
_OF_TENSORFLOW_TEXT = {*("SentencepieceOp", "SentencepieceTokenizeOp", "SentencepieceDetokenizeOp")}
_OF_TENSORFLOW_TEXT |= {"NormalizeUTF8"}
# The Python package has these besides: they call Python, or need a compiler or a device.
_ONLY_IN_PYTHON = ("PyFunc", "EagerPyFunc", "Xla", "TPU")

_BATCHING = """# How a server joins requests: --enable_batching --batching_parameters_file=FILE
max_batch_size { value: 64 }
# Time in which further requests may join the first one of a batch.
batch_timeout_micros { value: 2000 }
# Further requests are refused with the status UNAVAILABLE, or 503.
max_enqueued_batches { value: 100 }
"""
_README = """# {name}: a translation model for TensorFlow Serving

Each numbered folder is a version; a server loads the largest number, and notices new ones.
What a version is and which signatures it has: `assets.extra/MODEL_CARD.md` in its folder.

With Docker, in this folder:

    docker run -p 8500:8500 -p 8501:8501 -v "$PWD:/models/{name}" -e MODEL_NAME="{name}" \\
        tensorflow/serving \\
        --enable_batching --batching_parameters_file=/models/{name}/batching.config

With the package tensorflow-model-server, in this folder:

    tensorflow_model_server --port=8500 --rest_api_port=8501 \\
        --model_name="{name}" --model_base_path="$PWD" \\
        --enable_batching --batching_parameters_file="$PWD/batching.config"

A request to port 8501 (8500 speaks gRPC):

    curl -d '{{"instances": ["A dog runs."]}}' http://localhost:8501/v1/models/{name}:predict

The files beside the versions are yours: an export writes those that are missing and changes none.
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
    missing = sorted(
        name
        for name in used - _OF_TENSORFLOW_TEXT
        if not hasattr(tf.raw_ops, name) or name.startswith(_ONLY_IN_PYTHON)
    )
    if missing:
        raise UserError(
            f"the model uses operations that TensorFlow Serving does not have: {', '.join(missing)}"
            "; compute these without them"
        )


def write_beside(folder: Path, name: str) -> None:
    """Writes the files beside the versions that are not there yet; may raise `OSError`."""
    texts = {"batching.config": _BATCHING, "README.md": _README.format(name=name)}
    for file, text in texts.items():
        if not (folder / file).exists():
            write_text(folder / file, text)
