"""Keeps the translations of an interrupted run, so that the same command resumes from them."""

import contextlib
import json
import sys
from pathlib import Path

from data_pipeline.files import UserError, decode_lines, read_bytes, write_lines
from decoding.translator import Translation

_KIND = "translations made by"  # The file begins with this key.


class KeptTranslations:
    """A file of lines and their translations; an interruption loses only the current batch.

    Use it in a `with` statement. The file is deleted when the block ends without an error. If the
    block fails or the process is killed, the file stays, and the next run with the same `made_by`
    resumes from it. The file's first line records `made_by`; each further line holds one line of
    text and its translations.

    Args:
        path: the file.
        made_by: everything besides the text that translations depend on, such as model and beam
            size; JSON.

    Raises:
        UserError: the file cannot be read or written, or is not a file of translations.

    Example:
        with KeptTranslations("out.de.unfinished", {"beam_size": 4}) as kept:
            translator.translate(lines, kept=kept)
    """

    def __init__(self, path, made_by):
        self.path = Path(path)
        header = json.dumps({_KIND: made_by}, sort_keys=True)
        self._found = self._read(header)
        self.num_taken_up = len(self._found)
        # Replace the file: a process that still writes to the old one cannot change the new one.
        write_lines(self.path, [header, *map(_line, self._found.items())])
        self._file = None

    def _read(self, header):
        """Reads what an earlier run kept: line -> translations; ignores an incomplete last line."""
        if not self.path.exists():
            return {}
        data = read_bytes(self.path)
        lines = decode_lines(data[: data.rfind(b"\n") + 1], self.path)
        if lines and not lines[0].startswith(f'{{"{_KIND}": '):
            raise UserError(f"{self.path}: exists, but was not written by translate.py; move it")
        try:
            if lines and lines[0] == header:
                pairs = map(json.loads, lines[1:])
                return {text: [Translation(*t) for t in found] for text, found in pairs}
            reason = "made by another model or with other settings"
        except (ValueError, TypeError):
            reason = "damaged"
        print(f"{self.path}: {reason}; starting again", file=sys.stderr)
        return {}

    def get(self, text):
        """Returns the kept translations of a line, or None."""
        return self._found.get(text)

    def add(self, translations):
        """Adds translations to the file: a dict of line -> list of `Translation`."""
        self._found.update(translations)
        with self._one_line_errors():
            self._file.write("".join(f"{_line(pair)}\n" for pair in translations.items()))
            self._file.flush()

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
            self._file = open(self.path, "a", encoding="utf-8", newline="\n")
        return self

    def __exit__(self, kind, *_):
        with contextlib.suppress(OSError):  # A full disk has been reported by `add`.
            self._file.close()
        if kind is None or not self._found:
            self.path.unlink(missing_ok=True)
        else:
            print(
                f"{self.path} keeps {len(self._found):,} translations; run the same command to "
                "resume",
                file=sys.stderr,
            )


def _line(pair):
    return json.dumps(pair, ensure_ascii=False)
