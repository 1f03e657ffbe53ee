"""Requests that a server answers before it shows a version as available: its warm-up.

The first call of a signature takes seconds, which no client should wait for. TensorFlow Serving and
`serve.py` read the requests from `assets.extra/tf_serving_warmup_requests` in the version's folder,
a file of `PredictionLog`. Its package of protocol buffers is not needed: a request has a name, a
signature and tensors of TensorFlow.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.framework.tensor_pb2 import TensorProto

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.decoding.search.compiled import ROWS, WIDTHS, size_for
from nmt_zoo.decoding.search.types import padded
from nmt_zoo.serving.export.request_checks import DEFAULT
from nmt_zoo.serving.export.server_files import EXTRA

SAMPLES = ["A dog runs.", "", "The old man does not see the two houses.", "7 , 8 and 9 ?", "x"]
COMPILED = "_compiled"  # The end of the names of signatures that answer by compiled programs.
_FILE = "tf_serving_warmup_requests"


class WarmUpRequest(NamedTuple):
    """A request without the name of the model."""

    signature: str  # Name of a signature of the SavedModel.
    inputs: dict  # Name -> array or nested lists.


def sample_requests(
    tokenizer: Tokenizer, signatures: Mapping[str, Any], max_input_tokens: int
) -> list[WarmUpRequest]:
    """Makes a request of the `SAMPLES` to each signature of a `ServingModule`.

    To compiled ones, as `compiled_requests`. `signatures` are name -> `SignatureDef`. Samples above
    `max_input_tokens` are left out.
    """
    both = zip(tokenizer.source.encode(SAMPLES), tokenizer.target.encode(SAMPLES), strict=True)
    lengths = [max(map(len, ids)) for ids in both]
    lines = [line for line, n in zip(SAMPLES, lengths, strict=True) if n <= max_input_tokens]
    source_ids = tokenizer.source.encode(lines)
    values = {
        **dict.fromkeys(("text", "source", "target"), lines),
        **dict.fromkeys(("beam_size", "length_penalty", "n_best"), [DEFAULT] * len(lines)),
        "source_ids": padded(source_ids),
        "source_lengths": [len(ids) for ids in source_ids],
    }
    return [
        WarmUpRequest(name, {key: values[key] for key in signature.inputs})
        for name, signature in signatures.items()
        if signature.inputs and not name.endswith(COMPILED)
    ] + compiled_requests(tokenizer, signatures, max_input_tokens)


def compiled_requests(
    tokenizer: Tokenizer, signatures: Mapping[str, Any], max_input_tokens: int
) -> list[WarmUpRequest]:
    """Makes a request of each size that is compiled, to each compiled signature."""
    words = " ".join(SAMPLES).split()
    lines = [" ".join((words * WIDTHS[-1])[:n]) for n in range(1, WIDTHS[-1])]
    longest = {}
    for line, ids in zip(lines, tokenizer.source.encode(lines), strict=True):
        if len(ids) <= max_input_tokens and (size := size_for(1, len(ids))):
            longest[size.width] = line
    return [
        WarmUpRequest(
            name, {key: [DEFAULT] * rows for key in infos.inputs} | {"text": [line] * rows}
        )
        for name, infos in signatures.items()
        if name.endswith(COMPILED)
        for line in longest.values()
        for rows in ROWS
    ]


def write_requests(
    folder: Path, requests: Sequence[Any], signatures: Mapping[str, Any], name: str
) -> None:
    """Writes warm-up requests, of each signature the first and the last; all of compiled ones.

    `requests` have the attributes of `WarmUpRequest`; `signatures` are name -> `SignatureDef`.
    Raises `OSError` if the file cannot be written.
    """
    by_signature = {}
    for request in requests:
        by_signature.setdefault(request.signature, []).append(request.inputs)
    records = []
    for signature, every in by_signature.items():
        infos = signatures[signature].inputs
        are_all_needed = signature.endswith(COMPILED) or len(every) < 3
        for inputs in every if are_all_needed else (every[0], every[-1]):
            tensors = {
                key: tf.make_tensor_proto(values, dtype=infos[key].dtype).SerializeToString()
                for key, values in inputs.items()
            }
            records.append(_prediction_log(name, signature, tensors))
    (folder / EXTRA).mkdir(exist_ok=True)
    try:
        with tf.io.TFRecordWriter(str(folder / EXTRA / _FILE)) as file:
            for record in records:
                file.write(record)
    except tf.errors.OpError as error:
        raise OSError(error.message) from None


def read_requests(folder: Path) -> list[WarmUpRequest]:
    """Reads the warm-up requests of a version, if it has any.

    Raises `UserError` if the file is damaged.
    """
    path = folder / EXTRA / _FILE
    if not path.exists():
        return []
    try:
        records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
        return [_request_of(record) for record in records]
    except (tf.errors.OpError, DecodeError, LookupError, ValueError, TypeError):
        raise UserError(
            f"{path}: expected warm-up requests as export.py writes them; export the model again, "
            "or remove the file"
        ) from None


def _prediction_log(name, signature, tensors):
    """Returns a `PredictionLog` as bytes, in the wire format of protocol buffers."""
    model = _field(1, name.encode()) + _field(3, signature.encode())
    inputs = [_field(1, key.encode()) + _field(2, data) for key, data in sorted(tensors.items())]
    request = _field(1, model) + b"".join(_field(2, entry) for entry in inputs)
    return _field(6, _field(1, request))


def _request_of(log):
    ((_, call),) = _fields(log)
    ((_, request),) = _fields(call)
    (_, model), *inputs = _fields(request)
    tensors = {}
    for _, entry in inputs:
        key, data = dict(_fields(entry)).values()
        tensors[key.decode()] = tf.make_ndarray(TensorProto.FromString(data))
    return WarmUpRequest(dict(_fields(model))[3].decode(), tensors)


def _field(number, data):
    """Returns a field of a message: its number, the length of the data, the data."""
    return bytes([number << 3 | 2]) + _varint(len(data)) + data


def _varint(value):
    digits = []
    while value > 127:
        digits.append(value & 127 | 128)
        value >>= 7
    return bytes([*digits, value])


def _fields(message):
    """Yields number and data of each field of a message that `_field` wrote."""
    while message:
        number, length, rest = message[0] >> 3, 0, message[1:]
        for shift in range(0, 64, 7):
            byte, rest = rest[0], rest[1:]
            length |= (byte & 127) << shift
            if byte < 128:
                break
        yield number, rest[:length]
        message = rest[length:]
