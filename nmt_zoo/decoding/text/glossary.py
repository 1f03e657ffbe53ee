"""Terms with given translations: found in lines, required of their translations, and counted."""

from collections.abc import Sequence

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import read_lines
from nmt_zoo.data_pipeline.text_form import is_blank, normalised
from nmt_zoo.decoding.search.phrases import has_phrase, is_boundary

_MOST_NUMBERS = 10  # Most lines that the summary lists.


class Glossary:
    """The terms of a file, `term<tab>translation` a line, and how many translations have them.

    A term is found as whole words, in its own case, or with a capital at the start of a line; of
    terms that overlap, the longest. `form` is of `text_form.FORMS`.
    Raises UserError: the file cannot be read or has no terms, a line has not two columns, or a term
    has two translations.
    """

    def __init__(self, path: str, form: str = "nfc") -> None:
        self.path = path
        self.wanted: list[list[str]] = []  # Translations on each line of the file.
        terms: dict[str, str] = {}
        for number, line in enumerate(read_lines(path), start=1):
            columns = [] if is_blank(line) else [normalised(x, form) for x in line.split("\t")]
            self.wanted.append(columns[1:])
            if columns and (len(columns) != 2 or not all(columns)):
                raise UserError(
                    f"{path}, line {number}: expected a term, a tab and its translation, found "
                    f"{line[:60]!r}"
                )
            if columns and terms.setdefault(*columns) != columns[1]:
                raise UserError(
                    f"{path}, line {number}: {columns[0]!r} is to be {columns[1]!r} here and "
                    f"{terms[columns[0]]!r} above; leave one out"
                )
        if not terms:
            raise UserError(f"{path}: empty; expected lines of a term, a tab and its translation")
        self._terms = sorted(terms.items(), key=lambda pair: -len(pair[0]))
        self._asked = self._met = 0
        self._lacking: list[int] = []  # Numbers of lines.

    def find(self, line: str) -> list[str]:
        """Returns the translations of the terms of a line, each once."""
        found, taken = [], [False] * len(line)
        start = next((i for i, character in enumerate(line) if character.isalnum()), 0)
        uncapitalised = line[:start] + line[start : start + 1].lower() + line[start + 1 :]
        for term, wanted in self._terms:
            for text in dict.fromkeys((line, uncapitalised)):
                begin = text.find(term)
                while begin >= 0:
                    end = begin + len(term)
                    is_whole = is_boundary(text, begin) and is_boundary(text, end)
                    if is_whole and not any(taken[begin:end]):
                        taken[begin:end] = [True] * len(term)
                        found.append(wanted)
                    begin = text.find(term, begin + 1)
        return list(dict.fromkeys(found))

    def capitalised(self, line: str, text: str) -> str:
        """Gives a translation that begins with a term the capital of its line."""
        begins = any(text.startswith(wanted) for wanted in self.find(line))
        return text[:1].upper() + text[1:] if begins and line[:1].isupper() else text

    def count(self, number: int, wanted: Sequence[str], text: str) -> None:
        """Counts the terms that a translation has, and notes a line that lacks one."""
        met = [has_phrase(text, x) or has_phrase(text, x[:1].upper() + x[1:]) for x in wanted]
        self._asked, self._met = self._asked + len(met), self._met + sum(met)
        if not all(met):
            self._lacking.append(number)

    def summary(self) -> str:
        """Reports the terms asked for and met, in one line."""
        line = f"terms of {self.path}: {self._asked:,} asked for, {self._met:,} met"
        if not self._lacking:
            return line
        lines = sorted(set(self._lacking))
        numbers = ", ".join(f"{number:,}" for number in lines[:_MOST_NUMBERS])
        return f"{line}; lacking in lines {numbers}{', ...' * (len(lines) > _MOST_NUMBERS)}"
