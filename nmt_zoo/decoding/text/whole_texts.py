"""Translates or scores a whole text window by window, into a file or a stream."""

import contextlib
import itertools
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from nmt_zoo.common.files import growing_file
from nmt_zoo.common.progress import Progress
from nmt_zoo.data_pipeline.input_text import InputText, windows
from nmt_zoo.data_pipeline.text_form import is_blank
from nmt_zoo.decoding.text.finished import FinishedLines
from nmt_zoo.decoding.text.line_warnings import LineWarnings
from nmt_zoo.decoding.translator import UNSURE, Translation, Translator

if TYPE_CHECKING:
    from nmt_zoo.decoding.scoring import Scorer

# Lines with words at the start of a text, of which the model must know at least one word.
_BEGINNING = 100


class Output(NamedTuple):
    path: str  # File for them; "" if there is none.
    write: Callable  # Function of a list of lines, which is called in order if there is no file.
    batch_size: int  # Lines that are done at once, see `windows`.
    made_by: dict  # Everything besides the text that the lines depend on, see `FinishedLines`.
    shows_progress: bool = True  # Whether to show progress on standard error.
    end: str = "\n"  # What is written after each of the lines.


def unfinished(path: str) -> str:
    """Returns the path where translations for a file are kept until all are done."""
    return f"{path}.unfinished"


def translate_text(
    text: InputText,
    translator: Translator,
    output: Output,
    *,
    n_best: int,
    formatted: Callable,
    warnings: LineWarnings,
    abstain: Callable = lambda lines, results: results,
) -> tuple[list[str | None], int]:
    """Translates a text; translations for a file are kept until all are done.

    `formatted` is a function of a window and its results that returns lines, see `formats`;
    `warnings` counts what is to be reported; `abstain`, a function of lines and their results,
    leaves some out, see `confidence.Abstaining`. Returns (the best translations if the text has
    references, None for those that were left out, otherwise an empty list; the number of lines that
    an earlier run had translated).
    Raises UserError: the model knows no word of the whole text, or of its first `_BEGINNING` lines
    with words, unless it replaces unknown words.
    """
    outputs, finished, num_lines = [], None, 0
    # The lines so far, until they are checked.
    beginning = None if translator.options.unknowns else []
    if text.size is not None:  # Before the work.
        translator.check_constraints(text.size)
    if output.path:
        finished = FinishedLines(unfinished(output.path), output.made_by)
    with (
        finished or contextlib.nullcontext(),
        _writing(text, output, "translating") as (write, advance),
    ):
        for window in windows(text.read, output.batch_size):
            first, lines = window
            num_lines = first + len(lines)
            sentences = [translator.divided(line)[-1] for line in lines]
            if beginning is not None:
                beginning += sentences
                # Of a shorter part nothing follows: the next line may be known.
                if num_lines == text.size or sum(not is_blank(x) for x in beginning) >= _BEGINNING:
                    translator.check_known(beginning, text.name)
                    beginning = None
            results = abstain(lines, translations(translator, window, n_best, finished, advance))
            warnings.add(sentences, translator.tokenizer.source.encode(lines), results)
            if text.references:
                outputs.extend(
                    best.text if best.problem != UNSURE else None for best, *_ in results
                )
            write(formatted(window, results))
            if text.prompts:
                taken = warnings.take()
                for warning in taken if any(map(str.strip, lines)) else ():
                    print(warning, file=sys.stderr)
        if beginning and not text.prompts:  # A stream that ended sooner.
            translator.check_known(beginning, text.name)
        translator.check_constraints(num_lines)
    return outputs, finished.num_used if finished else 0


def translations(
    translator: Translator,
    window: tuple[int, Sequence[str]],
    n_best: int = 1,
    finished: FinishedLines | None = None,
    advance: Callable[[int], None] = lambda count: None,
) -> list[list[Translation]]:
    """Translates a window as `Translator.translate`, except lines translated by an earlier run.

    `advance` is called with the number of lines that are done, after every batch.
    """
    first, lines = window
    results = finished.take(first, lines) if finished else {}
    todo = [i for i in range(len(lines)) if i not in results]

    def done(batch):
        batch = {todo[i]: result for i, result in batch.items()}
        results.update(batch)
        if finished and batch:
            finished.add(first, lines, batch)
        advance(len(batch))

    advance(len(results))
    numbers = [first + i + 1 for i in todo]
    translator.translate([lines[i] for i in todo], n_best, numbers=numbers, done=done)
    return [results[i] for i in range(len(lines))]


def score_text(text: InputText, scorer: "Scorer", output: Output, formatted: Callable) -> None:
    """Scores given translations, which are the only reference of the text."""
    (targets,) = map(iter, text.references)
    with _writing(text, output, "scoring") as (write, advance):
        for window in windows(text.read, output.batch_size):
            first, lines = window
            numbers = range(first + 1, first + 1 + len(lines))
            scored = scorer.score(lines, list(itertools.islice(targets, len(lines))), numbers)
            advance(len(lines))
            write(formatted(window, [[translation] for translation in scored]))


@contextlib.contextmanager
def _writing(text, output, name):
    """Yields functions that write lines of output as soon as they are done, and advance a bar."""
    write, advance = output.write, lambda count: None
    with contextlib.ExitStack() as stack:
        if output.path:
            write = stack.enter_context(growing_file(output.path, output.end))
        if output.shows_progress:
            advance = stack.enter_context(Progress(name, text.size, "lines")).update
        yield write, advance
