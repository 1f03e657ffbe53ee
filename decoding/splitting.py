"""Splits lines that are too long for a model."""

import itertools
import re

# A full stop with all that closes behind it, and then white space, which does not follow those of
# Chinese and Japanese. The end of the line is none.
_SENTENCE_END = re.compile(r"[.!?…][\"'»”’)\]]*(?=\s)|[。！？][」』”’）]*(?=[^」』”’）])")
_WHITE_SPACE = re.compile(r"\s+")


def split_line(line, fits):
    """Splits a line into its sentences, and a sentence that is too long into halves of halves.

    Models know sentences, and translate a text of many at once badly. Halves end at the white space
    nearest the middle; where there is none, in the middle.

    Args:
        line: str.
        fits: says of a text whether it is short enough.

    Returns:
        list of str, without white space at their ends. One of a single character may not fit.

    Example:
        >>> split_line("A dog. A cat and another cat.", lambda text: len(text) < 15)
        ['A dog.', 'A cat and', 'another cat.']
    """
    ends = [match.end() for match in _SENTENCE_END.finditer(line)]
    bounds = [0, *ends, len(line)]
    sentences = [line[i:j] for i, j in itertools.pairwise(bounds)]
    return [part for sentence in sentences for part in _halved(sentence.strip(), fits)]


def _halved(text, fits):
    if len(text) < 2 or fits(text):
        return [text]
    middle = len(text) // 2
    spaces = [match.end() for match in _WHITE_SPACE.finditer(text)]
    cut = min(spaces, key=lambda space: abs(space - middle), default=middle)
    return _halved(text[:cut].strip(), fits) + _halved(text[cut:], fits)
