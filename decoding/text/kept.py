"""Keeps the translations of an interrupted run, so that the same command resumes from them."""

import contextlib
import json
import sys
from pathlib import Path

from data_pipeline.files import UserError, atomic_path, open_source
from decoding.translator import EMPTY, Translation

_KIND = "translations made by"  # The file begins with this key.
_VERSION = 2  # Of the form of the file.


class KeptTranslations:
    """A file of lines and their translations; an interruption loses only the current batch.

    Use it in a `with` statement. The file is deleted when the block ends without an error. If the
    block fails or the process is killed, the file stays, and the next run with the same `made_by`
    resumes from it. The file's first line records `made_by`; each further line holds the number of
    a line, its text and its translations. The file is never in memory as a whole.

    Args:
        path: the file.
        made_by: everything besides the text that translations depend on, such as model and beam
            size; a dict of JSON values.

    Attributes:
        num_taken_up: translations in the file of an earlier run.

    Raises:
        UserError: the file cannot be read or written, or is not a file of translations.

    Example:
        with KeptTranslations("out.de.unfinished", {"beam_size": 4}) as kept:
            found = kept.take(0, lines)
            kept.add(0, lines, translations)
    """

    def __init__(self, path, made_by):
        self.path = Path(path)
        self._header = json.dumps({_KIND: {**made_by, "version": _VERSION}}, sort_keys=True)
        self._num_added = 0
        self._next = None  # The first record that belongs to later lines.
        self.num_taken_up = self._left = self._take_over()

    def _take_over(self):
        """Makes the file anew with the records of an earlier run; returns their number.

        A process that still writes to the old file cannot change the new one.
        """
        count = self._count() if self.path.exists() else 0
        with atomic_path(self.path) as temporary, open(temporary, "wb") as new:
            new.write(f"{self._header}\n".encode())
            if count:
                with open(self.path, "rb") as old:
                    old.readline()
                    new.writelines(old.readline() for _ in range(count))
        return count

    def _count(self):
        """Counts the records that an earlier run kept; ignores an incomplete last line."""
        with open_source(self.path) as file:
            header = file.readline()
            if header.endswith(b"\n") and not header.startswith(f'{{"{_KIND}": '.encode()):
                raise UserError(
                    f"{self.path}: exists, but was not written by translate.py; move it"
                )
            count = 0
            try:
                if header == f"{self._header}\n".encode():
                    for line in file:
                        if line.endswith(b"\n"):
                            _parsed(line)
                            count += 1
                    return count
                reason = "made by another model, version or with other settings"
            except (ValueError, TypeError):
                reason = "damaged"
        if header.endswith(b"\n"):
            print(f"{self.path}: {reason}; starting again", file=sys.stderr)
        return 0

    def take(self, first, lines):
        """Returns the kept translations of a window of lines.

        Call it with all windows of a text in order. A translation is used if its line has the same
        text as then.

        Args:
            first: number of the window's first line, counted from 0.
            lines: list of str.

        Returns:
            {place in `lines`: list of `Translation`}.
        """
        found = {}
        while self._next or self._left:
            if not self._next:
                self._next = _parsed(self._file.readline())
                self._left -= 1
            number, text, translations = self._next
            place = number - first
            if place >= len(lines):
                break
            self._next = None
            if place >= 0 and lines[place] == text:
                found[place] = translations
        return found

    def add(self, first, lines, translations):
        """Adds translations to the file, except those of lines that are empty or left untranslated.

        Args:
            first: number of the window's first line, counted from 0.
            lines: list of str.
            translations: {place in `lines`: list of `Translation`}.
        """
        records = [
            json.dumps([first + place, lines[place], found], ensure_ascii=False)
            for place, found in translations.items()
            if not found[0].problem and found[0] != EMPTY
        ]
        with self._one_line_errors():
            self._appended.write("".join(f"{record}\n" for record in records))
            self._appended.flush()
        self._num_added += len(records)

    @contextlib.contextmanager
    def _one_line_errors(self):
        try:
            yield
        except OSError as error:
            raise UserError(
                f"{self.path}: cannot be written ({error.strerror}); make room and run the same "
                "command again"
            ) from None

    def __enter__(self):
        with self._one_line_errors():
            self._file = open(self.path, "rb")
            self._file.readline()
            self._appended = open(self.path, "a", encoding="utf-8", newline="\n")
        return self

    def __exit__(self, kind, *_):
        self._file.close()
        with contextlib.suppress(OSError):  # A full disk has been reported by `add`.
            self._appended.close()
        count = self.num_taken_up + self._num_added
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
    return int(number), text, [Translation(*each) for each in translations]
