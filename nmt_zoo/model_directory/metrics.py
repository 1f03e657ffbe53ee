"""A file of records, one JSON object a line, that stays readable if its writer is killed.

A record has a kind, a step, the seconds of the run so far, and measured values.
"""

import errno
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import read_lines, write_lines

Record: TypeAlias = dict[str, Any]
# kind -> the value that each record of the kind must have; null if it was not finite.
KINDS = {"train": "nll", "valid": "perplexity"}
_EXPECTED = "no record of a step, of kind train with nll or valid with perplexity, in numbers"


def append_record(path: Path, record: Record) -> None:
    """Appends a record to a file as a whole, or not at all.

    Numbers that are not finite become null, because JSON cannot express them.
    Raises UserError: the record cannot be written; the file is unchanged.
    """
    line = (_json(record) + "\n").encode("utf-8")
    try:
        with open(path, "ab", buffering=0) as file:
            size = file.tell()
            try:
                if file.write(line) != len(line):  # A disk that becomes full accepts only a part.
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except OSError:
                file.truncate(size)
                raise
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror}); make room") from None


def read_records(path: Path) -> list[Record]:
    """Reads the records of a file; a missing file has no records. Skips a last line cut short.

    Raises UserError: another line (named) is damaged or is not a record.
    """
    lines = read_lines(path) if path.exists() else []
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            records.append(json.loads(line))
            fault = "" if _is_record(records[-1]) else _EXPECTED
        except RecursionError:
            fault = "nested too deeply"
        except ValueError:
            if number == len(lines):  # The process ended while it wrote this line.
                break
            fault = "damaged"
        if fault:
            shown = line if len(line) <= 60 else f"{line[:60]}..."
            raise UserError(
                f"{path}, line {number}: {fault} ({shown!r}); restore or remove the line"
            )
    return records


def _is_record(record):
    if not isinstance(record, dict) or str(record.get("kind")) not in KINDS:
        return False
    step, seconds = record.get("step"), record.get("seconds")
    return (
        (_is_number(step) and isinstance(step, int) and step >= 0)
        and (_is_number(seconds) and 0 <= seconds < math.inf)
        and KINDS[record["kind"]] in record
        and all(n == "kind" or x is None or _is_number(x) for n, x in record.items())
    )


def _is_number(value):
    return type(value) is float or (type(value) is int and abs(value) < 2**63)


def keep_records(path: Path, keep: Callable[[Record], bool]) -> None:
    """Drops the records for which `keep(record)` is false, and a last line that was cut short."""
    if path.exists():
        write_lines(path, [_json(record) for record in read_records(path) if keep(record)])


def _json(record):
    finite = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in record.items()
    }
    return json.dumps(finite, allow_nan=False)


def sync(path: Path) -> None:
    """Waits until everything written to a file is on the disk; does nothing without the file."""
    if path.exists():
        with open(path, "rb") as file:
            os.fsync(file.fileno())
