"""JSON of TensorFlow Serving's REST API, from and to tensors.

A request has its inputs in rows, `{"instances": ["a", "b"]}`, or in columns, `{"inputs": ["a",
"b"]}`. If a signature has several inputs, rows are objects, `{"instances": [{"source": "a",
"target": "b"}]}`, and columns are an object of lists, `{"inputs": {"source": ["a"], "target":
["b"]}}`. Answers have the same form, with the keys `predictions` and `outputs`. A string that is
not text is `{"b64": "..."}`, also in outputs whose names end in `_bytes`.
"""

import base64
import binascii
import json
import math

import numpy as np
import tensorflow as tf

from nmt_zoo.serving.server.refusals import Refusal

_KINDS = {str: "String", bool: "Boolean", int: "Number", float: "Number"}
_KINDS |= {list: "Array", dict: "Object", type(None): "Null"}
_PART = 1 << 16  # Numbers that are converted at once, because as text each takes 128 bytes.


def parse(body):
    """Parses the body of a request: bytes -> dict.

    Raises:
        Refusal: it is not UTF-8, not JSON, or not an object.
    """
    try:
        request = json.loads(body.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise Refusal(400, f"JSON Parse error: not UTF-8 at offset: {error.start}") from None
    except json.JSONDecodeError as error:
        raise Refusal(400, f"JSON Parse error: {error.msg} at offset: {error.pos}") from None
    except ValueError:  # Python refuses to convert thousands of digits.
        raise Refusal(400, "JSON Parse error: a number has too many digits") from None
    except RecursionError:
        raise Refusal(400, "JSON Parse error: nested too deeply") from None
    if not isinstance(request, dict):
        raise Refusal(400, f"JSON Value of type {_kind(request)} is not an object")
    return request


def inputs_of(request, infos, max_rows):
    """Returns the inputs of a request.

    Args:
        request: dict.
        infos: name -> `TensorInfo`, the inputs of the signature.
        max_rows: most rows of an input.

    Returns:
        `(name -> array, whether they are in rows)`.

    Raises:
        Refusal: the request does not fit the signature, or has too many rows.
    """
    keys = [key for key in ("instances", "inputs") if key in request]
    if len(keys) != 1:
        found = "found both" if keys else "Missing 'inputs' or 'instances' key"
        raise Refusal(400, f"expecting only one of 'inputs' or 'instances' keys: {found}")
    in_rows, values = keys == ["instances"], request[keys[0]]
    columns = _transposed(values, infos) if in_rows else _columns(values, infos)
    inputs = {name: tensor(columns[name], info, name, max_rows) for name, info in infos.items()}
    return inputs, in_rows


def _transposed(rows, infos):
    """Returns the values of each input from those of each row."""
    if not isinstance(rows, list) or not rows:
        found = "No values in" if rows == [] else f"found {_kind(rows)} as"
        raise Refusal(400, f"expecting 'instances' to be a list of values: {found} 'instances'")
    if not any(_is_object(row) for row in rows):
        return {_only(infos, "instances"): rows}
    for place, row in enumerate(rows):
        if not _is_object(row) or row.keys() != infos.keys():
            found = ",".join(sorted(row)) if _is_object(row) else _kind(row)
            raise Refusal(
                400,
                f"Failed to process element: {place} of 'instances' list. JSON object keys must be "
                f"equal to: {','.join(sorted(infos))}; found: {found[:200]}",
            )
    return {name: [row[name] for row in rows] for name in infos}


def _columns(values, infos):
    """Returns the values of each input."""
    if not _is_object(values):
        return {_only(infos, "inputs"): values}
    if missing := sorted(infos.keys() - values.keys()):
        raise Refusal(400, f"Missing named input: {missing[0]} in 'inputs' object.")
    if more := sorted(values.keys() - infos.keys()):
        raise Refusal(400, f"'inputs' object has {more[0][:200]!r}, which is not a named input")
    return values


def _only(infos, key):
    """Returns the name of the only input."""
    if len(infos) > 1:
        names = ", ".join(sorted(infos))
        raise Refusal(400, f"{key} is a plain value/list, but expecting objects with: {names}")
    return next(iter(infos))


def tensor(values, info, name, max_rows):
    """Makes a tensor of nested lists.

    Args:
        values: a value, or nested lists of values.
        info: `TensorInfo` of the tensor.
        name: of the tensor, for errors.
        max_rows: most rows.

    Returns:
        array of the type and the rank of `info`; strings as bytes.

    Raises:
        Refusal: a value has another type, or the lists have another depth, different lengths or
            too many rows.
    """
    dtype = tf.as_dtype(info.dtype)
    sizes = [dim.size for dim in info.tensor_shape.dim]
    shape, first = [], values
    while isinstance(first, list) and len(shape) <= len(sizes):
        shape.append(len(first))
        first = first[0] if first else None
    shape += [0] * (len(sizes) - len(shape)) if 0 in shape else []
    fits = len(shape) == len(sizes)
    if not fits or any(size not in (-1, n) for size, n in zip(sizes, shape, strict=True)):
        raise Refusal(400, f"input {name} has the shape {shape}, and the signature expects {sizes}")
    if shape and shape[0] > max_rows:
        raise Refusal(
            400,
            f"Task size {shape[0]} is larger than maximum input batch size {max_rows}; send "
            "several requests",
        )
    flat = list(_flat(values, shape, name))
    limits = _limits(dtype)  # Once, because TensorFlow takes long to look them up.
    converted = [_value(value, dtype, limits, name) for value in flat]
    array = np.empty(len(converted), dtype.as_numpy_dtype)
    array[:] = converted
    return array.reshape(shape)


def _flat(values, shape, name):
    """Yields the values of nested lists; refuses lists of different lengths."""
    if not shape:
        if isinstance(values, list):
            raise Refusal(400, f"input {name}: Encountered list at unexpected level")
        yield values
        return
    if not isinstance(values, list):
        raise Refusal(400, f"input {name}: {_kind(values)} found at incorrect level")
    if len(values) != shape[0]:
        raise Refusal(
            400,
            f"input {name}: Encountered list at unexpected size: {len(values)}, expected size: "
            f"{shape[0]}",
        )
    for value in values:
        yield from _flat(value, shape[1:], name)


def _limits(dtype):
    """Returns the least and the largest number of a type; None if it is not one of numbers."""
    if dtype.is_integer:
        return dtype.min, dtype.max
    return (float(dtype.min), float(dtype.max)) if dtype.is_floating else None


def _value(value, dtype, limits, name):
    """Converts a value of JSON to a type of TensorFlow with these `_limits`."""
    if dtype == tf.string:
        if isinstance(value, str):
            return _encoded(value, name)
        if _is_base64(value):
            return _decoded(value["b64"], name)
    elif dtype == tf.bool:
        if isinstance(value, bool):
            return value
    elif dtype.is_integer:
        if type(value) is int:
            if limits[0] <= value <= limits[1]:
                return value
            raise Refusal(400, f"input {name}: a number does not fit into {dtype.name}")
    elif dtype.is_floating and type(value) in (int, float):
        return _decimal(value, dtype, limits, name)
    raise Refusal(
        400,
        f"input {name}: JSON Value of Type: {_kind(value)} is not of expected type: {dtype.name}",
    )


def _encoded(text, name):
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise Refusal(400, f"input {name}: a string has half of a surrogate pair") from None


def _decoded(text, name):
    try:
        return base64.b64decode(text.encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error):
        raise Refusal(400, f"input {name}: Unable to base64 decode") from None


def _decimal(value, dtype, limits, name):
    try:
        value = float(value)
    except OverflowError:
        value = None
    if value is None or (math.isfinite(value) and abs(value) > limits[1]):
        raise Refusal(400, f"input {name}: a number does not fit into {dtype.name}")
    return value


def answer(outputs, in_rows, warnings=()):
    """Returns the body of an answer.

    Args:
        outputs: name -> array.
        in_rows: whether the request was in rows.
        warnings: texts for the key `warnings`, which is left out if there are none.

    Returns:
        bytes of JSON.

    Raises:
        Refusal: outputs in rows have different numbers of rows.
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
        flat = [convert(value) for value in array.ravel()]
        kept = np.empty(len(flat), object)
        kept[:] = flat
        return kept.reshape(array.shape).tolist()
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


def _kind(value):
    return _KINDS[type(value)]
