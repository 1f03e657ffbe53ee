"""Keeps the translations of an interrupted run, so that the same command resumes from them."""

import contextlib
import json
import os
import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import atomic_path, one_line_errors, open_source
from nmt_zoo.decoding.translator import EMPTY, Translation

_KIND = "translations made by"  # The file begins with this key.
_VERSION = 2  # Of the form of the file.


def file_facts(paths: Iterable[str | Path]) -> list:
    """Returns facts by which `made_by` tells a changed file: path, size and time of each."""
    stats = [(os.path.realpath(path), os.stat(path)) for path in paths]
    return [[path, stat.st_size, stat.st_mtime_ns] for path, stat in stats]


class FinishedLines:
    """A file of lines and their translations; an interruption loses only the current batch.

    Of lines that are translated in parts, it also loses those of which a part is missing. Use it in
    a `with` statement. The file is deleted when the block ends without an error. If the block fails
    or the process is killed, the file stays, and the next run with the same `made_by` resumes from
    it. The file's first line records `made_by`; each further line holds the number of a line, its
    text and its translations. The file is never in memory as a whole.

    `made_by` is everything besides the text that translations depend on, such as model and beam
    size, as JSON values. The attribute `num_found` counts the lines whose translations the file of
    an earlier run has, `num_used` those whose translations were taken from it.
    Raises UserError: the file cannot be read or written, or is not a file of translations.

    Example:
        with FinishedLines("out.de.unfinished", {"beam_size": 4}) as finished:
            earlier = finished.take(0, lines)
            finished.add(0, lines, translations)
    """

    def __init__(self, path: str | Path, made_by: dict[str, Any]) -> None:
        self.path = Path(path)
        header = json.dumps({_KIND: {**made_by, "version": _VERSION}}, sort_keys=True)
        self._header = f"{header}\n".encode()
        self._num_added = self._num_replaced = self.num_used = 0
        self._numbers, self._offsets = self._take_over()
        self.num_found = len(self._numbers)
        if self.num_found:
            print(
                f"found {self.num_found:,} earlier translations in {self.path}; those of lines "
                "that are still the same are used",
                file=sys.stderr,
            )

    def _take_over(self):
        """Makes the file anew: a process that still writes to the old file cannot change it.

        Returns the sorted line numbers of the records, and the offset of each in the file, which
        has them in another order: a batch holds lines of similar length.
        """
        numbers, offsets = array("q"), array("q")
        with atomic_path(self.path) as temporary, open(temporary, "wb") as new:
            new.write(self._header)
            try:
                for record in self._earlier():
                    numbers.append(_parsed(record)[0])
                    offsets.append(new.tell())
                    new.write(record)
            except (ValueError, TypeError, OverflowError):
                print(f"{self.path}: damaged; starting again", file=sys.stderr)
                numbers, offsets = array("q"), array("q")
                new.truncate(new.seek(len(self._header)))
        # Of a line whose text changed meanwhile, the last record.
        unique, last = np.unique(np.array(numbers, np.int64)[::-1], return_index=True)
        return unique, np.array(offsets, np.int64)[::-1][last]

    def _earlier(self):
        """Yields the bytes of the complete records of an earlier run."""
        if not self.path.exists():
            return
        with open_source(self.path) as file:
            header = file.readline()
            if header == self._header:
                yield from (record for record in file if record.endswith(b"\n"))
            elif header.endswith(b"\n"):
                if not header.startswith(f'{{"{_KIND}": '.encode()):
                    raise UserError(
                        f"{self.path}: exists, but was not written by translate.py; move it"
                    )
                reason = "made by another model, version or with other settings"
                print(f"{self.path}: {reason}; starting again", file=sys.stderr)

    def take(self, first: int, lines: Sequence[str]) -> dict[int, list[Translation]]:
        """Returns the earlier translations of a window of lines, by index in `lines`.

        Their lines have the same text as then. `first` is the window's first line, counted from 0.
        """
        results = {}
        begin, end = np.searchsorted(self._numbers, [first, first + len(lines)])
        for offset in self._offsets[begin:end]:
            self._file.seek(offset)
            number, text, translations = _parsed(self._file.readline())
            if lines[number - first] == text:
                results[number - first] = translations
            else:
                self._num_replaced += 1
        self.num_used += len(results)
        return results

    def add(
        self, first: int, lines: Sequence[str], translations: Mapping[int, list[Translation]]
    ) -> None:
        """Adds translations, by index in `lines`; not those of empty or untranslated lines.

        `first` is the number of the window's first line, counted from 0.
        """
        records = [
            json.dumps([first + i, lines[i], results], ensure_ascii=False)
            for i, results in translations.items()
            if not results[0].problem and results[0] != EMPTY
        ]
        with one_line_errors(self.path):
            self._appended.write("".join(f"{record}\n" for record in records))
            self._appended.flush()
        self._num_added += len(records)

    def __enter__(self) -> "FinishedLines":
        with one_line_errors(self.path):
            self._file = open(self.path, "rb")
            self._file.readline()
            self._appended = open(self.path, "a", encoding="utf-8", newline="\n")
        return self

    def __exit__(self, kind, *_) -> None:
        self._file.close()
        with contextlib.suppress(OSError):  # A full disk has been reported by `add`.
            self._appended.close()
        count = self.num_found - self._num_replaced + self._num_added
        if kind is None or not count:
            self.path.unlink(missing_ok=True)
        else:
            print(
                f"{self.path} keeps {count:,} translations; run the same command to resume",
                file=sys.stderr,
            )


def _parsed(line):
    """Parses a record: (number, text, translations)."""
    number, text, translations = json.loads(line)
    return int(number), text, [Translation(*fields) for fields in translations]
