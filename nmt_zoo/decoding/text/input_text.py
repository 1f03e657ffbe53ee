"""Opens what is translated and what translations are compared with."""

import sys
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.documents import Context, starts_of
from nmt_zoo.data_pipeline.downloads.markup import is_markup
from nmt_zoo.data_pipeline.lines import is_tsv
from nmt_zoo.data_pipeline.live_lines import LiveLines, reader
from nmt_zoo.data_pipeline.test_sets import other_translation, reference_texts, source_text

_STANDARD_INPUT = "standard input"
_MOST_BATCHES = 32  # In a window. Lines of similar length share batches only within a window.


class InputText(NamedTuple):
    read: Callable  # Function of the most lines to return, as `LiveLines.read`.
    name: str  # Its name in errors.
    size: int | None = None  # Number of lines, or None if it is unknown.
    prompts: bool = False  # Whether a person types the lines.
    references: list | tuple = ()  # List of reference translations, each a list of str.
    baseline: list | None = None  # List of str, other translations; or None.
    starts: Collection = ()  # Where documents begin, see `data_pipeline.documents.Context`.

    def in_documents(self, most: int) -> "InputText":
        """Returns the text with at most `most` sentences of its document before each line."""
        context = Context(most, self.starts)
        return self._replace(read=lambda most_lines: context.of(self.read(most_lines)))


def open_text(
    path: str, *, column: int | None = None, reference: str = "", baseline: str = ""
) -> InputText:
    """Opens a text, see `source_text`, and what its translations are compared with.

    An empty `path` is standard input, which is read as it arrives, or as a whole if there are
    references. `reference`, see `reference_texts`, and `baseline`, a file of other translations,
    are "" for none. Raises UserError as `source_text` and `reference_texts`.
    """
    name = path or _STANDARD_INPUT
    if column and not is_tsv(name):
        raise UserError(f"--input_column is for an --input that ends in .tsv, found {name}")
    starts = ()
    if path:
        lines = source_text(path, column or (1 if is_tsv(path) and reference else None))
        starts = starts_of(*lines.paths)
    else:
        prompts = sys.stdin.isatty()
        read = plain(LiveLines(sys.stdin, name, "> " if prompts else "").read)
        if not reference:
            return InputText(read, name, prompts=prompts)
        lines = [line for _, window in windows(read, 1000) for line in window]
    references = reference_texts(reference, name, lines, column) if reference else []
    others = None
    if baseline:
        others = other_translation(baseline, name, lines)
    compared = {"references": references, "baseline": others}
    return InputText(reader(lines), name, len(lines), starts=starts, **compared)


def plain(read: Callable[[int], list[str]]) -> Callable[[int], list[str]]:
    """Returns the function of a stream that refuses to begin with a test set in markup."""
    first = True

    def checked(most):
        nonlocal first
        lines = read(most)
        if first and is_markup("\n".join(lines), "", _STANDARD_INPUT):
            raise UserError(f"{_STANDARD_INPUT}: a test set in markup; give it as a file: --input")
        first = False
        return lines

    return checked


def windows(read: Callable[[int], list[str]], batch_size: int) -> Iterator[tuple[int, list[str]]]:
    """Yields windows of a text: (number of the first line, counted from 0; lines).

    Each may be twice as long as the one before, so that the first translations appear after one
    batch. `read`, of the most lines to return, ends the text by an empty list, see `LiveLines`.
    """
    first, most = 0, batch_size
    while lines := read(most):
        yield first, lines
        first += len(lines)
        most = min(2 * most, _MOST_BATCHES * batch_size)
