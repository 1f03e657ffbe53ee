"""Reports what a user may not expect of translations, such as lines that were cut."""

import collections
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from nmt_zoo.decoding.text.splitting import sentences
from nmt_zoo.decoding.text.training_text import UNKNOWN, TrainingText
from nmt_zoo.decoding.translator import PROBLEMS, TOO_LONG, Translation, is_unknown

_MOST_NUMBERS = 10  # Most line numbers that a warning lists.
_LOOPS = 4  # Times that a translation repeats words until it is noticed.

IN_PARTS = "lines of several sentences, each translated by itself (see --split_sentences)"
SEVERAL = (
    "lines of several sentences, unlike the training text, some of which may be missing in the "
    "translations (see --split_sentences)"
)
LOOP = "translations that repeat words again and again, such as {}"
# Kinds of which no line numbers are listed.
_EMPTY = "empty lines, left empty"
_LONG = "lines longer than any in training ({:,} tokens), translated in full but perhaps badly"
_CUT = "translations cut at their length limit (see --max_length_factor)"


class LineWarnings:
    """Counts lines and translations that are unusual as texts, and notes the first of each kind.

    `training_text` is None if the model has no record of it. `split`, of a line and its number,
    returns the sentences that were translated each by itself, or only the line.
    """

    def __init__(
        self,
        training_text: TrainingText | None = None,
        split: Callable[[str, int], list[str]] = lambda line, number: [line],
    ) -> None:
        self._training_text = training_text
        self._split = split
        self._num_lines = 0
        self._num_taken = 0  # Lines of which `take` has returned the warnings.
        self._counts, self._examples = collections.Counter(), {}
        self._numbers = collections.defaultdict(list)

    def add_text(self, line: str, translation: str, is_unknown: bool = False) -> bool:
        """Adds the next line; returns whether each of its sentences was translated by itself.

        `translation` is "" if it was not translated; `is_unknown` is True if the vocabulary has
        none of its words.
        """
        self._num_lines += 1
        like, kind, example = self._training_text, UNKNOWN, ""
        if not is_unknown:
            kind, example = like.unlike(line, translation) if like else ("", "")
        if kind:
            self._note(kind, example)
        is_split = len(self._split(line, self._num_lines)) > 1
        if is_split:
            self._note(IN_PARTS)
        elif like and len(sentences(line)) > like.most_sentences:
            self._note(SEVERAL)
        if repeated := loop(translation, line):
            self._note(LOOP, repr(repeated))
        return is_split

    def _note(self, kind, example="", is_numbered=True):
        """Counts the last line as one of a kind, in which "{}" stands for an example."""
        self._counts[kind] += 1
        self._examples.setdefault(kind, example)
        if is_numbered and len(self._numbers[kind]) < _MOST_NUMBERS:
            self._numbers[kind].append(f"{self._num_lines:,}")

    def __iter__(self) -> Iterator[str]:
        """Yields a line of text for each kind of line that occurred."""
        num_lines = self._num_lines - self._num_taken
        for kind, count in filter(all, self._counts.items()):
            which = ", ".join(self._numbers[kind])
            if which:
                more = ", ..." * (count > len(self._numbers[kind]))
                which = f" (line{'s' * (count > 1)} {which}{more})"
            yield f"{kind.replace('{}', self._examples[kind])}: {count:,} of {num_lines:,}{which}"

    def take(self) -> list[str]:
        """Returns the warnings about the lines since the last call."""
        warnings, self._num_taken = [*self], self._num_lines
        self._counts = collections.Counter(dict.fromkeys(self._counts, 0))  # In the same order.
        self._examples.clear()
        self._numbers.clear()
        return warnings


class TranslationWarnings(LineWarnings):
    """Counts lines that are empty, long, cut, untranslated or unusual.

    `max_length` is the longest source sentence in training, in tokens with `</s>`; `n_best` the
    number of translations that were asked for; `replaces_unknowns` whether UNK is replaced. `text`
    has arguments of `LineWarnings`.

    Example:
        warnings = TranslationWarnings(1024, 256)
        warnings.add(["one dog"], [[5, 6, 3]], [[translation]])
        print(*warnings, sep="\\n")
    """

    def __init__(
        self,
        max_input_tokens: int,
        max_length: int,
        n_best: int = 1,
        replaces_unknowns: bool = False,
        **text: Any,
    ) -> None:
        super().__init__(**text)
        self._replaces_unknowns, self._max_length = replaces_unknowns, max_length
        limit = f"{max_input_tokens:,} tokens"
        reasons = {problem: problem for problem in PROBLEMS}
        reasons[TOO_LONG] += f" of {limit}; see --long_lines"
        # Kind -> test of a line's length and its translations; reported in this order.
        self._kinds = {
            _EMPTY: lambda length, best, *_: length <= 1,
            **{
                f"lines left untranslated ({reason})": (
                    lambda length, best, *_, problem=problem: best.problem == problem
                )
                for problem, reason in reasons.items()
            },
            f"lines of more than {limit}, translated in parts"
            + ", with one translation each" * (n_best > 1): (
                lambda length, best, *_: length > max_input_tokens and not best.problem
            ),
            _LONG.format(max_length): (
                lambda length, best, *_: (
                    max_length < length <= max_input_tokens and not best.problem
                )
            ),
            _CUT: lambda length, best, *_: not best.finished,
            "empty translations of lines that are not empty": (
                lambda length, best, *_: length > 1 and not (best.text or best.problem)
            ),
            f"lines with fewer than {n_best} different translations (see --beam_size; equal draws "
            "of --sample count once)": (
                lambda length, best, *others: (
                    1 < length <= max_input_tokens and not best.problem and 1 + len(others) < n_best
                )
            ),
        }
        self._unnumbered = {_EMPTY, _LONG.format(max_length), _CUT}
        self._counts.update(dict.fromkeys(self._kinds, 0))

    def add(
        self,
        lines: Sequence[str],
        sources: Sequence[list[int]],
        results: Sequence[list[Translation]],
    ) -> None:
        """Adds the next lines: source ids with `</s>`, and translations, the best first."""
        for line, ids, translations in zip(lines, sources, results, strict=True):
            length = len(ids)
            unknown = length > 1 and not self._replaces_unknowns and is_unknown(ids)
            if self.add_text(line, translations[0].text, unknown):
                length = min(length, self._max_length)  # Of sentences, no length is unusual.
            for kind, holds in self._kinds.items():
                if holds(length, *translations):
                    self._note(kind, is_numbered=kind not in self._unnumbered)


def loop(text: str, source: str) -> str:
    """Returns three words that a text repeats again and again, unlike its source; "" if none.

    In languages without spaces, characters stand for words.
    """
    for words, count in _triples(text).most_common(1):
        usual = max(_triples(source).values(), default=1)
        if count >= max(_LOOPS, 2 * usual + 1):
            return (" " if " " in text else "").join(words)
    return ""


def _triples(text):
    """Counts the sequences of three words that are at least a twentieth of all in a text."""
    words = text.split()
    if len(words) < 2 or len(text) > 20 * len(words):
        words = text
    counts = collections.Counter(zip(words, words[1:], words[2:], strict=False))
    return collections.Counter({n: c for n, c in counts.items() if 20 * c >= len(words)})
