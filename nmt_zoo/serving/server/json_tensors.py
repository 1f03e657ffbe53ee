"""JSON of TensorFlow Serving's REST API, from and to tensors.

A request has its inputs in rows, `{"instances": ["a", "b"]}`, or in columns, `{"inputs": ["a",
"b"]}`. If a signature has several inputs, rows are objects, `{"instances": [{"source": "a",
"target": "b"}]}`, and columns are an object of lists, `{"inputs": {"source": ["a"], "target":
["b"]}}`. Answers have the same form, with the keys `predictions` and `outputs`. A string that is
not text is `{"b64": "..."}`, also in outputs whose names end in `_bytes`.
"""

import base64
import json
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from nmt_zoo.serving.server.refusals import Refusal

_PART = 1 << 16  # Numbers that are converted at once, because as text each takes 128 bytes.


def parse(body: bytes) -> dict[str, Any]:
    """Parses the body of a request; raises `Refusal` if it is no JSON object in UTF-8."""
    try:
        request = json.loads(body.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:  # Also of too many digits.
        raise Refusal(400, f"the body is not JSON in UTF-8: {error}") from None
    if not isinstance(request, dict):
        raise Refusal(400, "the body is not a JSON object")
    return request


def inputs_of(
    request: Mapping[str, Any], infos: Mapping[str, Any], max_rows: int
) -> tuple[dict[str, np.ndarray], bool]:
    """Returns the inputs of a request, name -> array, and whether they are in rows.

    `infos` are the inputs of the signature, name -> `TensorInfo`. Raises `Refusal` if the request
    does not fit the signature, or has too many rows.
    """
    keys = [key for key in ("instances", "inputs") if key in request]
    if len(keys) != 1:
        raise Refusal(400, f"expected one of 'instances' and 'inputs', found {len(keys)} of them")
    values, names = request[keys[0]], ", ".join(sorted(infos))
    in_rows = keys == ["instances"]
    if in_rows and not (isinstance(values, list) and values):
        raise Refusal(400, "expected 'instances' to be a list of values")
    objects: list[Any] = values if in_rows else [values]
    if not any(map(_is_object, objects)):
        if len(infos) > 1:
            raise Refusal(400, f"'{keys[0]}' has values without names; expected {names}")
        columns = dict.fromkeys(infos, values)
    else:
        for place, each in enumerate(objects):
            if not _is_object(each) or each.keys() != infos.keys():
                raise Refusal(
                    400,
                    f"'{keys[0]}'{f', row {place}' if in_rows else ''}: expected an object with "
                    f"{names}; found {reprlib.repr(each)}",
                )
        columns = {name: [row[name] for row in values] for name in infos} if in_rows else values
    inputs = {name: tensor(columns[name], info, name, max_rows) for name, info in infos.items()}
    return inputs, in_rows


def tensor(values: Any, info: Any, name: str, max_rows: int) -> np.ndarray:
    """Makes a tensor of the type and the rank of `info`, strings as bytes.

    `values` is a value, or nested lists of values. Raises `Refusal` if a value has another type, or
    the lists have another depth, different lengths or too many rows.
    """
    sizes = [dim.size for dim in info.tensor_shape.dim]
    array = np.array(values, object)  # Where lists have different lengths, they are values.
    shape = array.shape
    if not array.size:
        shape += (0,) * (len(sizes) - len(shape))
    if len(shape) != len(sizes) or any(
        size not in (-1, found) for size, found in zip(sizes, shape, strict=True)
    ):
        raise Refusal(400, f"input {name}: the shape is {[*shape]}, expected {sizes}")
    if shape and shape[0] > max_rows:
        raise Refusal(
            400, f"input {name}: {shape[0]} rows, at most {max_rows} are possible; send several"
        )
    try:
        return _converted(array.ravel().tolist(), tf.as_dtype(info.dtype)).reshape(shape)
    except (ValueError, OverflowError) as error:
        raise Refusal(400, f"input {name}: {error}") from None


def _converted(values, dtype):
    """Converts values of JSON to a flat array; raises `ValueError` or `OverflowError`."""
    if dtype == tf.string:
        array = np.empty(len(values), object)
        array[:] = [_as_bytes(value) for value in values]
        return array
    kinds = (bool,) if dtype == tf.bool else (int,) if dtype.is_integer else (int, float)
    for value in values:
        if type(value) not in kinds:
            raise ValueError(f"expected {dtype.name}, found {reprlib.repr(value)}")
    if not dtype.is_floating:
        return np.array(values, dtype.as_numpy_dtype)
    wide = np.array(values, np.float64)
    with np.errstate(over="ignore"):
        array = wide.astype(dtype.as_numpy_dtype)
    if (np.isfinite(wide) & ~np.isfinite(array)).any():
        raise ValueError(f"a number does not fit into {dtype.name}")
    return array


def _as_bytes(value):
    if isinstance(value, str):
        return value.encode()
    if not _is_base64(value):
        raise ValueError(f"expected a string, found {reprlib.repr(value)}")
    return base64.b64decode(value["b64"].encode("ascii"), validate=True)


def answer(outputs: Mapping[str, np.ndarray], in_rows: bool, warnings: Sequence[str] = ()) -> bytes:
    """Returns the body of an answer, JSON; its key `warnings` is left out if there are none.

    Raises `Refusal` if outputs in rows have different numbers of rows.
    """
    values = {name: _plain(array, name) for name, array in sorted(outputs.items())}
    if in_rows:
        rows = {len(array) if array.ndim else None for array in outputs.values()}
        if len(rows) > 1 or None in rows:
            raise Refusal(400, "the outputs have no rows in common; send 'inputs', not 'instances'")
        names = values.keys()
        values = [dict(zip(names, row, strict=True)) for row in zip(*values.values(), strict=True)]
    if len(outputs) == 1:
        (name,) = outputs
        values = [row[name] for row in values] if in_rows else values[name]
    body = {"predictions" if in_rows else "outputs": values}
    if warnings:
        body["warnings"] = warnings
    return json.dumps(body, ensure_ascii=False).encode()


def _plain(array, name):
    """Converts an array to nested lists for JSON."""
    if array.dtype == object:
        convert = _as_base64 if name.endswith("_bytes") else _as_text
        return np.vectorize(convert, [object])(array).tolist() if array.size else array.tolist()
    if array.dtype == np.float32:  # The shortest decimals, 0.1 and not 0.10000000149.
        parts = np.array_split(array.ravel(), array.size // _PART + 1)
        decimals = [part.astype("U32").astype(np.float64) for part in parts]
        return np.concatenate(decimals).reshape(array.shape).tolist()
    return array.tolist()


def _as_base64(value):
    return {"b64": base64.b64encode(value).decode()}


def _as_text(value):
    return value.decode(errors="replace")


def _is_base64(value):
    return isinstance(value, dict) and [*value] == ["b64"] and isinstance(value["b64"], str)


def _is_object(value):
    return isinstance(value, dict) and not _is_base64(value)
