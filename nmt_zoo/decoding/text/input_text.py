"""Opens what is translated and what translations are compared with."""

import sys
from collections.abc import Callable, Collection
from typing import NamedTuple

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.documents import Context, starts_of
from nmt_zoo.data_pipeline.downloads.markup import is_markup
from nmt_zoo.data_pipeline.lines import is_tsv
from nmt_zoo.data_pipeline.live_lines import LiveLines, reader
from nmt_zoo.data_pipeline.test_sets import other_translation, reference_texts, source_text
from nmt_zoo.decoding.text.streaming import windows

_STANDARD_INPUT = "standard input"


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
