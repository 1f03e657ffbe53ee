"""A file of records, one JSON object a line, that survives the end of its writer at any moment."""

import errno
import json
import math
import os

from data_pipeline.files import UserError, read_lines, write_lines


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
        UserError: another line is damaged, naming it.
    """
    lines = read_lines(path) if path.exists() else []
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
            record["step"], record["kind"]
        except (ValueError, KeyError, TypeError):
            if number == len(lines):  # The end of the process came in the middle of it.
                break
            raise UserError(
                f"{path}, line {number}: damaged ({line[:60]!r}); restore or remove the line"
            ) from None
        records.append(record)
    return records


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
