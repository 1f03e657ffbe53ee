"""A file of records, one JSON object a line, that survives the end of its writer at any moment.

A record has a kind, a step, the seconds of the run so far, and what was measured.
"""

import errno
import json
import math
import os

from data_pipeline.files import UserError, read_lines, write_lines

# kind -> what every record of it measures; null where that was not finite.
KINDS = {"train": "nll", "valid": "perplexity"}


def append_record(path, record):
    """Adds a record at the end of a file, all of it or nothing.

    JSON has no numbers that are not finite: they become null.

    Raises:
        UserError: it cannot be written; the file is as it was.
    """
    line = (_json(record) + "\n").encode("utf-8")
    try:
        with open(path, "ab", buffering=0) as file:
            size = file.tell()
            try:
                if file.write(line) != len(line):  # A disk that is full takes a part.
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except OSError:
                file.truncate(size)
                raise
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror}); make room") from None


def read_records(path):
    """The records of a file, none if it is missing; a last line that was cut short is left out.

    Raises:
        UserError: another line is damaged or no record, naming it.
    """
    lines = read_lines(path) if path.exists() else []
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
            fault = _fault(record)
        except RecursionError:
            fault = "nested too deeply"
        except ValueError:
            if number == len(lines):  # The end of the process came in the middle of it.
                break
            fault = "damaged"
        if fault:
            shown = line if len(line) <= 60 else f"{line[:60]}..."
            raise UserError(
                f"{path}, line {number}: {fault} ({shown!r}); restore or remove the line"
            )
        records.append(record)
    return records


def _fault(record):
    """What is wrong with a record, or None."""
    if not isinstance(record, dict):
        return "no record"
    kind, step, seconds = (record.get(name) for name in ("kind", "step", "seconds"))
    if not isinstance(kind, str) or kind not in KINDS:
        return f"its kind is not one of {', '.join(KINDS)}"
    if not _is_number(step) or step < 0 or isinstance(step, float):
        return "its step is not a whole number from 0"
    if not _is_number(seconds) or not 0 <= seconds < math.inf:
        return "its seconds are not a number from 0"
    if KINDS[kind] not in record:
        return f"it lacks {KINDS[kind]}"
    for name, value in record.items():
        if name != "kind" and value is not None and not _is_number(value):
            return f"its {name} is not a number"
    return None


def _is_number(value):
    return type(value) is float or (type(value) is int and abs(value) < 2**63)


def keep_records(path, keep):
    """Drops the records for which `keep(record)` is false, and a last line that was cut short."""
    if path.exists():
        write_lines(path, [_json(record) for record in read_records(path) if keep(record)])


def _json(record):
    finite = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in record.items()
    }
    return json.dumps(finite, allow_nan=False)


def sync(path):
    """Waits until the disk has all that was written to a file, if there is one."""
    if path.exists():
        with open(path, "rb") as file:
            os.fsync(file.fileno())
