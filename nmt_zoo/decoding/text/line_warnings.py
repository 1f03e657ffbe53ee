"""Reports what a user may not expect of translations, such as lines that were cut."""

import collections
from collections.abc import Callable, Iterator, Sequence

from nmt_zoo.configuration.options import MAX_INPUT_TOKENS
from nmt_zoo.decoding.text.formats import BARS, ESCAPED
from nmt_zoo.decoding.text.splitting import sentences
from nmt_zoo.decoding.text.training_text import UNKNOWN, TrainingText
from nmt_zoo.decoding.translator import TOO_LONG, Translation, is_unknown

_MOST_NUMBERS = 10  # Most line numbers that a warning lists.
_LOOPS = 4  # Times that a translation repeats words until it is noticed.

IN_PARTS = "lines of several sentences, each translated by itself (see --split_sentences)"
SEVERAL = (
    "lines of several sentences, unlike the training text, some of which may be missing in the "
    "translations (see --split_sentences)"
)
LOOP = "translations that repeat words again and again, such as {}"


class LineWarnings:
    """Counts lines and translations that are unusual, and notes the first of each kind.

    `training_text` is None if the model has no record of it. `split`, of a line and its number,
    returns the sentences that were translated each by itself, or only the line. The others are for
    `add`: `max_length` is the longest source sentence in training, in tokens with `</s>`; `n_best`
    the number of translations that were asked for; `replaces_unknowns` whether UNK is replaced.

    Example:
        warnings = LineWarnings(max_length=256)
        warnings.add(["one dog"], [[5, 6, 3]], [[translation]])
        print(*warnings, sep="\\n")
    """

    def __init__(
        self,
        training_text: TrainingText | None = None,
        split: Callable[[str, int], list[str]] = lambda line, number: [line],
        *,
        max_input_tokens: int = MAX_INPUT_TOKENS,
        max_length: int = MAX_INPUT_TOKENS,
        n_best: int = 1,
        replaces_unknowns: bool = False,
    ) -> None:
        self._training_text, self._split = training_text, split
        self._most_tokens, self._max_length = max_input_tokens, max_length
        self._n_best, self._replaces_unknowns = n_best, replaces_unknowns
        self._num_lines = self._num_taken = 0  # Lines; those of which `take` has returned warnings.
        self._noted: dict[str, tuple[str, list[int]]] = {}  # Kind -> warning, numbers of lines.

    def add(
        self,
        lines: Sequence[str],
        sources: Sequence[list[int]],
        results: Sequence[list[Translation]],
    ) -> None:
        """Adds the next lines: source ids with `</s>`, and translations, the best first."""
        for line, ids, translations in zip(lines, sources, results, strict=True):
            best, length = translations[0], len(ids)
            if "\n" in line:  # A document: what is said of lines holds for each of them.
                for texts in zip(line.split("\n"), best.text.split("\n"), strict=False):
                    self.add_text(*texts)
                continue
            unknown = length > 1 and not self._replaces_unknowns and is_unknown(ids)
            if self.add_text(line, best.text, unknown):
                length = min(length, self._max_length)  # Of sentences, no length is unusual.
            self._note_translations(length, best, len(translations))
            if not best.finished:
                self._note("translations cut at their length limit (see --max_length_factor)")

    def _note_translations(self, length, best, count):
        limit = f"{self._most_tokens:,} tokens"
        if length <= 1:
            return self._note("empty lines, left empty")
        if best.problem:
            more = f" of {limit}; see --long_lines" * (best.problem == TOO_LONG)
            return self._note(f"lines left untranslated ({best.problem}{more})")
        if length > self._most_tokens:
            more = ", with one translation each" * (self._n_best > 1)
            self._note(f"lines of more than {limit}, translated in parts{more}")
        elif count < self._n_best:
            self._note(
                f"lines with fewer than {self._n_best} different translations (see --beam_size; "
                "equal draws of --sample count once)"
            )
        if self._max_length < length <= self._most_tokens:
            self._note(
                f"lines longer than any in training ({self._max_length:,} tokens), translated in "
                "full but perhaps badly"
            )
        if not best.text:
            self._note("empty translations of lines that are not empty")
        if BARS in best.text and self._n_best > 1:
            self._note(f"translations with {BARS}, written as {ESCAPED}")

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

    def _note(self, kind, example=""):
        """Counts the last line as one of a kind, in which "{}" stands for an example."""
        _, numbers = self._noted.setdefault(kind, (kind.replace("{}", example), []))
        numbers.append(self._num_lines)

    def __iter__(self) -> Iterator[str]:
        """Yields a line of text for each kind of line that occurred."""
        for warning, numbers in self._noted.values():
            which = ", ".join(f"{number:,}" for number in numbers[:_MOST_NUMBERS])
            which += ", ..." * (len(numbers) > _MOST_NUMBERS)
            share = f"{len(numbers):,} of {self._num_lines - self._num_taken:,}"
            yield f"{warning}: {share} (line{'s' * (len(numbers) > 1)} {which})"

    def take(self) -> list[str]:
        """Returns the warnings about the lines since the last call."""
        warnings = [*self]
        self._num_taken, self._noted = self._num_lines, {}
        return warnings


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
