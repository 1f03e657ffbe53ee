"""A record of what a training text was like, by which text unlike it is noticed."""

import collections
import dataclasses
import functools
import itertools
import json
import re
import shutil
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import read_bytes
from nmt_zoo.common.progress import Progress
from nmt_zoo.data_pipeline.text_form import normalised, script_of
from nmt_zoo.decoding.text.splitting import sentences

RECORD = "training_text.json"  # Name of the file in exported models.
_SAMPLE = 100_000  # Most lines whose words, capitals, sentences and lengths are looked at.
_AT_ONCE = 10_000  # Lines whose characters are looked at together.
_NUM_WORDS = 300  # Frequent words; they are more than half of all words in languages with spaces.
_RARE = 0.002  # Share of training lines below which a kind of line is unlike the training text.
_COMMON = 0.01  # Share of training lines from which lines of so many sentences are usual.
_WORD = re.compile(r"[^\W\d_]+")
_SCRIPTS = (
    "LATIN GREEK CYRILLIC ARMENIAN HEBREW ARABIC SYRIAC DEVANAGARI BENGALI GURMUKHI GUJARATI ORIYA "
    "TAMIL TELUGU KANNADA MALAYALAM SINHALA THAI LAO TIBETAN MYANMAR GEORGIAN HANGUL ETHIOPIC "
    "KHMER MONGOLIAN HIRAGANA KATAKANA CJK"
)
_NAMES = {"CJK": "Chinese"}
# Added to lengths before they are compared, because the ratios of short lines vary more.
_MORE_LENGTH = 10
_OUTER = 0.001  # Share of training pairs whose ratio is too low to be usual; as many are too high.
_MARGIN = 1.25  # Factor by which a ratio must lie outside those of the training pairs.

SCRIPT = "lines in another script than the training text, such as {}"
UNKNOWN = "lines without a word that the model knows; their translations mean nothing"
LANGUAGE = (
    "lines with hardly a frequent word of the training text, such as {}; perhaps in another "
    "language"
)
CASES = {
    "capitals": "lines in capitals, which the training text hardly has; write them as it does",
    "title": "lines with a capital at the beginning of nearly every word, which the training text "
    "hardly has; write them as it does",
    "small": "lines without a capital, which the training text hardly has; write them as it does",
}
CHARACTERS = "lines with characters that training never saw, such as {}"
SMALL_LETTERS = "lines with capital letters, such as {}; the training text has small letters only"
SHORT = "translations far shorter for their lines than in the training text, such as {}"
LONG = "translations far longer for their lines than in the training text, such as {}"


@dataclasses.dataclass(frozen=True)
class TrainingText:
    """What a training text was like. Shares are from 0 to 1."""

    characters: str  # All different characters of the source side, sorted, without white space.
    # Name of a script, such as "LATIN" -> its share of the letters of the source side.
    scripts: dict
    words: list  # The most frequent words of the source side, in lower case.
    words_share: float  # Share of these words among all words.
    cases: dict  # Key of `CASES` -> share of the lines of that kind.
    # Sentences of a line that are usual: at least 1% of the lines have as many.
    most_sentences: int
    length_ratios: list  # [low, high], usual ratios of target to source length, as `_length`.
    context_sentences: int = 0  # That the model reads before each line.

    @classmethod
    def of(
        cls, source: Sequence[str], target: Sequence[str], context_sentences: int = 0
    ) -> "TrainingText":
        """Reads a text once: all characters, and the other facts of at most `_SAMPLE` lines."""
        every = -(-len(source) // _SAMPLE)
        seen, sample = np.zeros(0x110000, bool), []
        pairs = zip(source, target, strict=True)
        with Progress("looking at the training text", len(source), "lines") as progress:
            while chunk := list(itertools.islice(pairs, _AT_ONCE)):
                text = unicodedata.normalize("NFC", "\n".join(line for line, _ in chunk))
                seen[np.frombuffer(text.encode("utf-32-le"), np.uint32)] = True
                sample += chunk[-progress.done % every :: every]
                progress.update(len(chunk))
        characters = "".join(filter(normalised, map(chr, np.flatnonzero(seen))))
        pairs = [tuple(map(normalised, pair)) for pair in sample]
        facts = _facts([pair for pair in pairs if all(pair)])
        return cls(characters, **facts, context_sentences=context_sentences)

    @classmethod
    def read(cls, path: Path) -> "TrainingText | None":
        """Reads what `text` wrote, None if there is no file; raises UserError if it is damaged."""
        if not path.exists():
            return None
        try:
            values = json.loads(read_bytes(path))
            found = cls(**values)
            types = {field.name: field.type for field in dataclasses.fields(cls)}
            low, high = found.length_ratios
            numbers = [low, high, *found.scripts.values(), *found.cases.values()]
            if types != {name: type(value) for name, value in values.items()} or not (
                {*map(type, numbers)} == {float} and {*map(type, found.words)} <= {str}
            ):
                raise ValueError
        except (ValueError, TypeError, AttributeError, RecursionError):
            raise UserError(
                f"{path}: damaged (expected what train.py records of a training text); restore it, "
                "or remove it, and translations come without warnings about unusual text"
            ) from None
        return found

    def text(self) -> str:
        return json.dumps(dataclasses.asdict(self), ensure_ascii=False) + "\n"

    def joined(self, other: "TrainingText") -> "TrainingText":
        """Returns the record of a model that has been trained on the texts of two records."""
        return TrainingText(
            characters="".join(sorted({*self.characters, *other.characters})),
            scripts=_largest(self.scripts, other.scripts),
            words=list(dict.fromkeys(self.words + other.words)),
            words_share=max(self.words_share, other.words_share),
            cases=_largest(self.cases, other.cases),
            most_sentences=max(self.most_sentences, other.most_sentences),
            length_ratios=[
                min(self.length_ratios[0], other.length_ratios[0]),
                max(self.length_ratios[1], other.length_ratios[1]),
            ],
            context_sentences=self.context_sentences,
        )

    def unlike(self, line: str, translation: str) -> tuple[str, str]:
        """Returns how a line differs from the training text: (kind, example); "" twice if not.

        The kind is such as `SCRIPT`, with "{}" for the example. Characters that the translation
        has, too, have been copied.
        """
        line = normalised(line)
        scripts = _scripts(line).most_common(1)
        if scripts and self.scripts.get(script := scripts[0][0], 0.0) < _RARE:
            return SCRIPT, _NAMES.get(script) or script.title()
        unseen = [c for c in line if c not in self._characters and c != " "]
        missing = [c for c in unseen if c not in translation]
        if missing and len(unseen) == len(line.replace(" ", "")):
            return UNKNOWN, ""
        words = _WORD.findall(line.lower())
        known = sum(word in self._words for word in words)
        if self.words_share > 0.5 and len(words) > 4 and known < self.words_share * len(words) / 5:
            return LANGUAGE, repr(max(words, key=len))
        case = _case(line)
        if case and self.cases.get(case, 0.0) < _RARE:
            return CASES[case], ""
        if not missing:
            return "", ""
        if all(c != c.lower() and {*c.lower()} <= self._characters for c in missing):
            return SMALL_LETTERS, missing[0]
        return CHARACTERS, _shown(missing[0])

    def unusual_length(self, line: str, translation: str) -> tuple[str, str]:
        """Returns `SHORT` or `LONG`, and an example; two times "" for a usual length."""
        line, translation = normalised(line), normalised(translation)
        ratio, (low, high) = _ratio(line, translation), self.length_ratios
        if low <= ratio <= high:
            return "", ""
        lengths = f"{len(translation):,} characters for {len(line):,}"
        return (SHORT if ratio < low else LONG), lengths

    @functools.cached_property
    def _characters(self):
        return frozenset(self.characters)

    @functools.cached_property
    def _words(self):
        return frozenset(self.words)


def copy(path: Path, folder: Path) -> None:
    """Copies the record of a model directory, if there is one, into the folder of an export."""
    if path.exists():
        shutil.copyfile(path, folder / RECORD)


def _facts(pairs):
    """Returns the facts about a sample of pairs that are not blank: name -> value."""
    lines = [line for line, _ in pairs]
    cases = collections.Counter(map(_case, lines))
    words = collections.Counter(word for line in lines for word in _WORD.findall(line.lower()))
    frequent = words.most_common(_NUM_WORDS)
    scripts = _scripts(itertools.chain.from_iterable(lines))
    num_sentences = np.array([len(sentences(line)) for line in lines] or [1])
    usual = [n for n in range(1, 100) if np.mean(num_sentences >= n) >= _COMMON]
    ratios = [_ratio(*pair) for pair in pairs] or [1.0]
    low, high = np.quantile(ratios, [_OUTER, 1 - _OUTER]).tolist()
    return {
        "scripts": {name: round(n / scripts.total(), 5) for name, n in scripts.most_common()},
        "words": [word for word, _ in frequent],
        "words_share": round(sum(n for _, n in frequent) / max(words.total(), 1), 5),
        "cases": {name: round(n / len(lines), 5) for name, n in cases.items() if name},
        "most_sentences": usual[-1],
        "length_ratios": [round(low / _MARGIN, 5), round(high * _MARGIN, 5)],
    }


def _ratio(line, translation):
    return (len(translation) + _MORE_LENGTH) / (len(line) + _MORE_LENGTH)


def _scripts(characters):
    """Counts the letters of each script: a `Counter` of names such as "LATIN"."""
    found = collections.Counter()
    for character, count in collections.Counter(characters).items():
        script = script_of(character) if character.isalpha() else ""
        if script in _SCRIPTS.split():
            found[script] += count
    return found


def _case(line):
    """Returns the key of `CASES` for a line with unusual capitals or without any, or ""."""
    words = [word for word in _WORD.findall(line) if len(word) > 1]
    if len(words) < 2 or line.lower() == line.upper():
        return ""
    if sum(word[1:] != word[1:].lower() for word in words) >= 0.8 * len(words):
        return "capitals"
    if len(words) > 5 and sum(word != word.lower() for word in words) >= 0.8 * len(words):
        return "title"
    return "small" if len(words) > 2 and line == line.lower() else ""


def _largest(one, other):
    """Returns name -> the larger value of two dicts of numbers."""
    return {name: max(one.get(name, 0.0), other.get(name, 0.0)) for name in {**one, **other}}


def _shown(character):
    """Returns a character with its number; only the number if it cannot be seen alone."""
    number = f"U+{ord(character):04X}"
    if not character.isprintable() or unicodedata.combining(character):
        return number
    return f"{character} ({number})"
