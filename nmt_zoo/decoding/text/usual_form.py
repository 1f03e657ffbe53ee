"""Lines in capitals, or without a stop, in the usual form of a training text, and back."""

import re
from collections.abc import Callable

from nmt_zoo.data_pipeline.tokenization.vocabularies import UNK_ID, Vocabulary
from nmt_zoo.decoding.text.kept_parts import TECHNICAL
from nmt_zoo.decoding.text.training_text import CLOSING, PERIODS

_WORDS = re.compile(rf"({TECHNICAL})|[^\W\d_][\w'’]*")
# Such a line has more tokens than in small letters, unless training has shown its words to a model.
_MORE_TOKENS = 1.2
_UNKNOWN_COST = 2  # Tokens.
_WORD_AT_END = re.compile(rf"\w[{CLOSING}]*$")
_STOP = re.compile(rf"(?<=\S)[{PERIODS}]$")

Form = Callable[[str], str]


def in_capitals(line: str) -> str:
    """Writes a line in capitals, but for addresses, placeholders and tags."""
    return _words_as(str.upper, line)


def in_first_capitals(line: str) -> str:
    """Begins each word of a line with a capital."""
    return _words_as(lambda word: word[0].upper() + word[1:], line)


class UsualForm:
    """Puts lines into the form that a model knows from its training text.

    Lines in capitals, and lines of which every word begins with one, are put into small letters. A
    line that ends in a word gets the final stop that nearly all lines of the training text have.

    Args:
        vocabulary: of the source; it tells which words the model knows.
        stop: see `TrainingText.stop`; "": lines without a stop stay as they are.
    """

    def __init__(self, vocabulary: Vocabulary, stop: str = "") -> None:
        self._vocabulary, self._stop = vocabulary, stop

    def of(self, line: str) -> tuple[str, Form | None]:
        """Returns (line in its usual form, what gives its translation the form of the line).

        A line that the model knows as it is is returned as it is, with None.
        """
        usual, form = self._small(line)
        if not (self._stop and _WORD_AT_END.search(usual)):
            return usual, form
        return usual + self._stop, lambda text: (form or str)(_STOP.sub("", text))

    def _small(self, line):
        """As `of`, for capitals. The first word keeps its capital if the model knows it so."""
        matches = [match for match in _WORDS.finditer(line) if not match[1]]
        words = [match[0] for match in matches]
        if len(words) > 1 and all(map(str.isupper, words)):
            form, small = in_capitals, _words_as(str.lower, line)
        elif len(words) > 2 and all(word[0].isupper() for word in words):
            # Capitals inside of a word, as of a name, stay.
            form = in_first_capitals
            small = _words_as(lambda word: word.lower() if word.istitle() else word, line)
        else:
            return line, None
        first = matches[0].start()
        sentence = small[:first] + line[first] + small[first + 1 :]
        usual = min(sentence, small, key=self._cost)
        if self._cost(line) <= _MORE_TOKENS * self._cost(usual):
            return line, None
        return usual, form

    def _cost(self, line):
        (ids,) = self._vocabulary.encode([line])
        return len(ids) + _UNKNOWN_COST * list(ids).count(UNK_ID)


def _words_as(form, line):
    return _WORDS.sub(lambda match: match[0] if match[1] else form(match[0]), line)
