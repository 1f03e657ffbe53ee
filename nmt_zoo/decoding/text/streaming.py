"""Translates texts of any length, a window of lines at a time, in order."""

from collections.abc import Callable, Iterator, Sequence

from nmt_zoo.decoding.text.kept import KeptTranslations
from nmt_zoo.decoding.translator import Translation, Translator

_MOST_BATCHES = 32  # In a window. Lines of similar length share batches only within a window.


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


def translations(
    translator: Translator,
    window: tuple[int, Sequence[str]],
    n_best: int = 1,
    kept: KeptTranslations | None = None,
    advance: Callable[[int], None] = lambda count: None,
) -> list[list[Translation]]:
    """Translates a window as `Translator.translate`, except lines translated by an earlier run.

    `advance` is called with the number of lines that are done, after every batch.
    """
    first, lines = window
    found = kept.take(first, lines) if kept else {}
    todo = [place for place in range(len(lines)) if place not in found]

    def done(new):
        new = {todo[i]: result for i, result in new.items()}
        found.update(new)
        if kept and new:
            kept.add(first, lines, new)
        advance(len(new))

    advance(len(found))
    translator.translate(
        [lines[place] for place in todo],
        n_best,
        numbers=[first + place + 1 for place in todo],
        done=done,
    )
    return [found[place] for place in range(len(lines))]
