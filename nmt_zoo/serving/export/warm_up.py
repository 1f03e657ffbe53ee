"""Requests that a server answers before it shows a version as available: its warm-up.

The first call of a signature takes seconds, which no client should wait for. TensorFlow Serving
reads the requests from `assets.extra/tf_serving_warmup_requests` in the version's folder, a file of
`PredictionLog`.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

_FILE = "tf_serving_warmup_requests"


def write_requests(
    extra: Path, requests: Sequence[Any], signatures: Mapping[str, Any], name: str
) -> None:
    """Writes the first and the last request of each signature into the folder `assets.extra`.

    `requests` have a `signature`, by its name, and `inputs`, name -> nested lists; `signatures` are
    name -> `SignatureDef`; `name` is the model's. Prints a line instead if the package of the
    server's interface is not installed. Raises `OSError` if the file cannot be written.
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
        by_signature.setdefault(request.signature, []).append(request.inputs)
    try:
        with tf.io.TFRecordWriter(str(extra / _FILE)) as file:
            for signature, calls in by_signature.items():
                for inputs in calls if len(calls) < 3 else (calls[0], calls[-1]):
                    log = logs.PredictionLog()  # pyright: ignore[reportAttributeAccessIssue]
                    request = log.predict_log.request
                    request.model_spec.name, request.model_spec.signature_name = name, signature
                    for key, values in inputs.items():
                        dtype = signatures[signature].inputs[key].dtype
                        request.inputs[key].CopyFrom(tf.make_tensor_proto(values, dtype=dtype))
                    file.write(log.SerializeToString())
    except tf.errors.OpError as error:
        raise OSError(error.message) from None
