"""Documents: sentences that are translated after those before them in the same document.

A source line becomes `the sentence before >>context<< the sentence`; the target is that of the
sentence alone (Tiedemann and Scherrer 2017, "2+1"). A document ends at a blank line, at the end of
its file, and where a test set in SGML or XML says so.
"""

import collections
import itertools
from collections.abc import Collection, Iterable, Sequence

from nmt_zoo.data_pipeline.lines import Lines, TextFile
from nmt_zoo.data_pipeline.text_form import is_blank

SEPARATOR = ">>context<<"  # After each sentence of the context.
_BETWEEN = f" {SEPARATOR} "
_LONGEST = 1000  # Sentences of a document that is worth a word.


class Context:
    """Puts each line after at most `most` sentences before it; may be called window by window.

    `starts` are the numbers of lines, counted from 0, where documents begin without a blank line.

    Attributes:
        num_documents: documents so far.
        longest: sentences of the longest of them.

    Example:
        >>> Context(1).of(["A dog runs.", "It barks."])
        ['A dog runs.', 'A dog runs. >>context<< It barks.']
    """

    def __init__(self, most: int, starts: Collection[int] = ()):
        self.num_documents = self.longest = 0
        self._starts = starts
        self._before = collections.deque(maxlen=most)
        self._count = self._length = 0  # Lines so far; sentences so far of the document.

    def of(self, lines: Iterable[str]) -> list[str]:
        """Returns the next lines with their contexts; a blank line stays as it is."""
        return [self.after_context(line) for line in lines]

    def after_context(self, line: str) -> str:
        """Returns the next line with its context."""
        if is_blank(line) or self._count in self._starts:
            self._before.clear()
            self._length = 0
        self._count += 1
        if is_blank(line):
            return line
        joined = _BETWEEN.join([*self._before, line])
        self._before.append(line)
        self._length += 1
        self.num_documents += self._length == 1
        self.longest = max(self.longest, self._length)
        return joined


def divided(line: str) -> tuple[list[str], str]:
    """Returns (the sentences of the context, the sentence) of a line of `Context`."""
    *context, sentence = line.split(_BETWEEN)
    return context, sentence


def joined(context: Sequence[str], sentence: str) -> str:
    """Returns the line that `divided` divides."""
    return _BETWEEN.join([*context, sentence])


def starts_of(file: TextFile) -> Collection[int]:
    """Returns where documents begin in one side of a corpus, see `Context`."""
    documents = [document for document, _ in file.segments or ()]
    return {i for i, (a, b) in enumerate(itertools.pairwise(documents), start=1) if a != b}


def with_contexts(lines: Lines, most: int) -> tuple[Lines, str]:
    """Puts each line after at most `most` sentences before it in its document.

    A file begins a document. Returns the lines, and a line of text about their documents, for which
    they are read once.
    """
    contexts = []

    def begin(file):
        contexts.append(Context(most, starts_of(lines.paths[file])))
        return contexts[-1].after_context

    in_documents = lines.map(begin, f"context {most}")
    collections.deque(in_documents, maxlen=0)
    count, longest = sum(c.num_documents for c in contexts), max(c.longest for c in contexts)
    summary = f"documents: {count:,}, the longest of {longest:,} sentences"
    if longest > _LONGEST:
        summary += "; a blank line in both files ends a document, and their lines must be in order"
    return in_documents, summary
