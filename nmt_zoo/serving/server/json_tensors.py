"""JSON of TensorFlow Serving's REST API, from and to values.

A request has its inputs in rows, `{"instances": ["a", "b"]}`, or in columns, `{"inputs": ["a",
"b"]}`. If a signature has several inputs, rows are objects, `{"instances": [{"source": "a",
"target": "b"}]}`, and columns are an object of lists, `{"inputs": {"source": ["a"], "target":
["b"]}}`. Answers have the same form, with the keys `predictions` and `outputs`. A string may also
be given by its bytes in base64, `{"b64": "..."}`.
"""

import base64
import json
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from starlette.exceptions import HTTPException

STRING, INTEGER, FLOAT = "DT_STRING", "DT_INT32", "DT_FLOAT"  # Names of TensorFlow's types.
_TYPES = {STRING: ("a string", str), INTEGER: ("an int32", int), FLOAT: ("a float", int, float)}
_PART = 1 << 16  # Numbers that are converted at once, because as text each takes 128 bytes.


def parse(body: bytes) -> dict[str, Any]:
    """Parses the body of a request; raises `HTTPException` if it is no JSON object in UTF-8."""
    try:
        request = json.loads(body.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:  # Also of too many digits.
        raise HTTPException(400, f"the body is not JSON in UTF-8: {error}") from None
    if not isinstance(request, dict):
        raise HTTPException(400, "the body is not a JSON object")
    return request


def inputs_of(
    request: Mapping[str, Any], types: Mapping[str, str], max_rows: int
) -> tuple[dict[str, list], bool]:
    """Returns the inputs of a request, name -> list of values, and whether they are in rows.

    `types` are those of the signature's inputs, name -> `STRING`, `INTEGER` or `FLOAT`. Raises
    `HTTPException` if the request does not fit the signature, or has too many rows.
    """
    keys = [key for key in ("instances", "inputs") if key in request]
    if len(keys) != 1:
        reason = f"expected one of 'instances' and 'inputs', found {len(keys)} of them"
        raise HTTPException(400, reason)
    values, names = request[keys[0]], ", ".join(sorted(types))
    in_rows = keys == ["instances"]
    if in_rows and not (isinstance(values, list) and values):
        raise HTTPException(400, "expected 'instances' to be a list of values")
    objects: list[Any] = values if in_rows else [values]
    if not any(map(_is_object, objects)):
        if len(types) > 1:
            raise HTTPException(400, f"'{keys[0]}' has values without names; expected {names}")
        columns = dict.fromkeys(types, values)
    else:
        for number, row in enumerate(objects):
            if not _is_object(row) or row.keys() != types.keys():
                raise HTTPException(
                    400,
                    f"'{keys[0]}'{f', row {number}' if in_rows else ''}: expected an object with "
                    f"{names}; found {reprlib.repr(row)}",
                )
        columns = {name: [row[name] for row in values] for name in types} if in_rows else values
    inputs = {name: _column(name, columns[name], types[name], max_rows) for name in types}
    if len({*map(len, inputs.values())}) > 1:
        reason = "different numbers of rows; give the same number of each"
        raise HTTPException(400, f"{names}: {reason}")
    return inputs, in_rows


def _column(name, values, dtype, max_rows):
    """Returns the values of an input, one for each row, as str, int or float."""
    if not isinstance(values, list):
        raise HTTPException(400, f"input {name}: expected a list, found {reprlib.repr(values)}")
    if len(values) > max_rows:
        reason = f"{len(values)} rows, at most {max_rows} are possible; send several"
        raise HTTPException(400, f"input {name}: {reason}")
    try:
        return [_value(value, *_TYPES[dtype]) for value in values]
    except ValueError as error:
        raise HTTPException(400, f"input {name}: {error}") from None


def _value(value, kind, *types):
    """Returns a value, of a binary string its text; raises `ValueError` at another type."""
    if _is_base64(value) and str in types:
        value = base64.b64decode(value["b64"].encode("ascii"), validate=True)
        value = value.decode(errors="replace")
    if type(value) not in types:
        raise ValueError(f"expected {kind}, found {reprlib.repr(value)}")
    if str in types:
        value.encode()  # Raises at half of a surrogate pair.
    return value


def answer(
    rows: Sequence[Mapping[str, Any]],
    outputs: Mapping[str, tuple[str, Sequence[int]]],
    in_rows: bool,
    warnings: Sequence[str] = (),
) -> bytes:
    """Returns the body of an answer, JSON; its key `warnings` is left out if there are none.

    `rows` are name -> value, of which values with axes are padded to the longest of the request;
    `outputs` are name -> (type, sizes of the axes), the first of them that of the rows.
    """
    columns = {
        name: _plain(_stacked([row[name] for row in rows], *outputs[name]))
        for name in sorted(outputs)
    }
    values: Any = columns
    if len(columns) == 1:
        (values,) = columns.values()
    elif in_rows:
        by_row = zip(*columns.values(), strict=True)
        values = [dict(zip(columns, row, strict=True)) for row in by_row]
    body = {"predictions" if in_rows else "outputs": values}
    if warnings:
        body["warnings"] = warnings
    return json.dumps(body, ensure_ascii=False).encode()


def _stacked(values, dtype, sizes):
    """Makes one array of the values of all rows; those with axes are padded to the longest."""
    kind, padding = {STRING: (object, ""), INTEGER: (np.int32, 0), FLOAT: (np.float32, 0)}[dtype]
    arrays = [np.asarray(value, kind) for value in values]
    shapes = [array.shape for array in arrays] or [[0] * (len(sizes) - 1)]
    stacked = np.full([len(arrays), *np.max(shapes, axis=0).astype(int)], padding, kind)
    for number, array in enumerate(arrays):
        stacked[(number, *map(slice, array.shape), ...)] = array
    return stacked


def _plain(array):
    """Converts an array to nested lists for JSON."""
    if array.dtype != np.float32:
        return array.tolist()
    # The shortest decimals, 0.1 and not 0.10000000149.
    parts = np.array_split(array.ravel(), array.size // _PART + 1)
    decimals = [part.astype("U32").astype(np.float64) for part in parts]
    return np.concatenate(decimals).reshape(array.shape).tolist()


def _is_base64(value):
    return isinstance(value, dict) and [*value] == ["b64"] and isinstance(value["b64"], str)


def _is_object(value):
    return isinstance(value, dict) and not _is_base64(value)
