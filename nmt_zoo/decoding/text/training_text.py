"""A record of what a training text was like, by which text unlike it is noticed."""

import collections
import dataclasses
import functools
import json
import math
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import read_bytes
from nmt_zoo.common.progress import Progress
from nmt_zoo.data_pipeline.text_form import normalised
from nmt_zoo.decoding.text.splitting import sentences

PERIODS = ".。।።"  # Full stops.
CLOSING = ")\\]\"'”’»」"  # Marks that may follow them.
_END = re.compile(rf"(?<=\S)([!?…！？؟{PERIODS}])[{CLOSING}]*$")  # Of a sentence.
_SAMPLE = 100_000  # Most lines whose sentences are looked at.
_COMMON = 0.01  # Share of training lines from which lines of so many sentences are usual.
_NEARLY_ALL = 0.9
# A word that begins and ends with marks, such as <formal>, [x] or __y__.
_TAG = re.compile(r"[^\w\s][^\s]*\w[^\s]*[^\w\s]|_\S*\w\S*_")

UNKNOWN = "lines without a word that the model knows; their translations mean nothing"
CHARACTERS = "lines with characters that training never saw, such as {}"
SMALL_LETTERS = "lines with capital letters, such as {}; the training text has small letters only"


@dataclasses.dataclass(frozen=True)
class TrainingText:
    """What the source side of a training text was like."""

    characters: str  # All different ones, sorted, without white space.
    # Sentences of a line that are usual: at least 1% of the lines have as many.
    most_sentences: int
    example: str = ""  # Its first line of a usual length, with which a model can be tried.
    # Words in brackets or other marks before 1% of the lines or more, such as <formal>.
    tags: tuple[str, ...] = ()
    # The full stop that ends lines, if at least 90% of them end a sentence; else "".
    stop: str = ""

    @classmethod
    def of(cls, lines: Sequence[str]) -> "TrainingText":
        """Reads a text once: all characters, and the sentences of at most `_SAMPLE` lines."""
        every = -(-len(lines) // _SAMPLE)
        characters, counts, tags, example = set(), [1], collections.Counter(), ""
        ends = collections.Counter()
        with Progress("looking at the training text", len(lines), "lines") as progress:
            for number, line in enumerate(map(normalised, lines)):
                characters.update(line)
                if line and number % every == 0:
                    counts.append(len(sentences(line)))
                    tags[line.split(" ", 1)[0]] += 1
                    ends.update(_END.findall(line))
                    example = example or line * (20 <= len(line) <= 80)
                progress.update(1)
        usual = sorted(counts, reverse=True)[math.ceil(_COMMON * len(counts)) - 1]
        common = [t for t, n in tags.items() if n >= _COMMON * len(counts) and _TAG.fullmatch(t)]
        stop = max(PERIODS, key=ends.__getitem__)
        if not 0 < _NEARLY_ALL * (len(counts) - 1) <= ends.total() or not ends[stop]:
            stop = ""
        return cls("".join(sorted(characters - {" "})), usual, example, tuple(sorted(common)), stop)

    @classmethod
    def read(cls, path: Path) -> "TrainingText | None":
        """Reads what `text` wrote, None if there is no file; raises UserError if it is damaged."""
        if not path.exists():
            return None
        try:
            record = cls(**json.loads(read_bytes(path)))
            *facts, tags, stop = dataclasses.astuple(record)
            are_tags = isinstance(tags, list | tuple) and all(isinstance(t, str) for t in tags)
            if [*map(type, [*facts, stop])] != [str, int, str, str] or not are_tags:
                raise ValueError
            record = dataclasses.replace(record, tags=tuple(tags))
        except (ValueError, TypeError, RecursionError):
            raise UserError(
                f"{path}: damaged (expected what train.py records of a training text); restore it, "
                "or remove it, and translations come without warnings about unusual text"
            ) from None
        return record

    def text(self) -> str:
        return json.dumps(dataclasses.asdict(self), ensure_ascii=False) + "\n"

    def joined(self, other: "TrainingText") -> "TrainingText":
        """Returns the record of a model that has been trained on the texts of two records."""
        return TrainingText(
            characters="".join(sorted({*self.characters, *other.characters})),
            most_sentences=max(self.most_sentences, other.most_sentences),
            example=self.example,
            tags=tuple(sorted({*self.tags, *other.tags})),
            stop=self.stop if self.stop == other.stop else "",
        )

    def unlike(self, line: str, translation: str) -> tuple[str, str]:
        """Returns how a line differs from the training text: (kind, example); "" twice if not.

        The kind is such as `CHARACTERS`, with "{}" for the example. Characters that the translation
        has, too, have been copied.
        """
        line = normalised(line)
        unseen = [c for c in line if c not in self._characters and c != " "]
        missing = [c for c in unseen if c not in translation]
        if not missing:
            return "", ""
        if len(unseen) == len(line.replace(" ", "")):
            return UNKNOWN, ""
        if all(c != c.lower() and {*c.lower()} <= self._characters for c in missing):
            return SMALL_LETTERS, missing[0]
        number = f"U+{ord(missing[0]):04X}"
        if not missing[0].isprintable() or unicodedata.combining(missing[0]):
            return CHARACTERS, number  # Alone, it cannot be seen.
        return CHARACTERS, f"{missing[0]} ({number})"

    @functools.cached_property
    def _characters(self):
        return frozenset(self.characters)
