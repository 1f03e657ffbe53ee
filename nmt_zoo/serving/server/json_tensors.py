"""JSON of TensorFlow Serving's REST API, from and to values.

A request has its inputs in rows, `{"instances": ["a", "b"]}`, or in columns, `{"inputs": ["a",
"b"]}`. If a signature has several inputs, rows are objects, `{"instances": [{"source": "a",
"target": "b"}]}`, and columns are an object of lists, `{"inputs": {"source": ["a"], "target":
["b"]}}`. Answers have the same form, with the keys `predictions` and `outputs`.
"""

import json
import re
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from starlette.exceptions import HTTPException

STRING, INTEGER, FLOAT = "DT_STRING", "DT_INT32", "DT_FLOAT"  # Names of TensorFlow's types.
_TYPES = {STRING: ("a string", str), INTEGER: ("an int32", int), FLOAT: ("a float", int, float)}
_HALF_A_PAIR = re.compile("[\ud800-\udfff]")  # Surrogates, which JSON can name and UTF-8 cannot.


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
    (key,), names = keys, ", ".join(sorted(types))
    values, in_rows = request[key], key == "instances"
    if in_rows and not (isinstance(values, list) and values):
        raise HTTPException(400, "expected 'instances' to be a list of values")
    objects: list[Any] = values if in_rows else [values]
    if not any(isinstance(row, dict) for row in objects):
        if len(types) > 1:
            raise HTTPException(400, f"'{key}' has values without names; expected {names}")
        columns = dict.fromkeys(types, values)
    else:
        for number, row in enumerate(objects):
            if not isinstance(row, dict) or row.keys() != types.keys():
                raise HTTPException(
                    400,
                    f"'{key}'{f', row {number}' if in_rows else ''}: expected an object with "
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
    kind, *types = _TYPES[dtype]
    if not isinstance(values, list):
        reason = f"expected a list, found {reprlib.repr(values)}"
    elif len(values) > max_rows:
        reason = f"{len(values)} rows, at most {max_rows} are possible; send several"
    elif wrong := [value for value in values if type(value) not in types]:
        reason = f"expected {kind}, found {reprlib.repr(wrong[0])}"
    elif dtype == STRING and _HALF_A_PAIR.search("".join(values)):
        reason = "a string has half of a surrogate pair"
    else:
        return values
    raise HTTPException(400, f"input {name}: {reason}")


def answer(
    rows: Sequence[Mapping[str, Any]],
    outputs: Mapping[str, str],
    in_rows: bool,
    warnings: Sequence[str] = (),
) -> bytes:
    """Returns the body of an answer, JSON; its key `warnings` is left out if there are none.

    `rows` are name -> value or list, or None for null; lists are padded to the longest of the
    request. `outputs` are name -> type.
    """
    columns = {
        name: _padded([row[name] for row in rows], outputs[name]) for name in sorted(outputs)
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


def _padded(values, dtype):
    """Returns the values of all rows for JSON; shorter lists are filled with "" or 0."""
    if dtype == FLOAT:  # The shortest decimals, 0.1 and not 0.10000000149.
        values = [x if x is None else np.array(x, "f4").astype("U32") for x in values]
        values = [x if x is None else x.astype("f8").tolist() for x in values]
    longest = max((len(x) for x in values if isinstance(x, list)), default=0)
    more = [""] if dtype == STRING else [0]
    return [x + more * (longest - len(x)) if isinstance(x, list) else x for x in values]
