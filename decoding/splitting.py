"""Splits lines that are too long for a model."""

import itertools
import re

# A full stop (or ! ? …) and closing quotes or brackets, followed by white space. Chinese and
# Japanese full stops need no white space. The end of the line does not match.
_SENTENCE_END = re.compile(r"[.!?…][\"'»”’)\]]*(?=\s)|[。！？][」』”’）]*(?=[^」』”’）])")
_WHITE_SPACE = re.compile(r"\s+")


def split_line(line, fits):
    """Splits a line into sentences, and halves a sentence until its parts are short enough.

    Models are trained on single sentences and translate several at once badly. A sentence is cut at
    the white space nearest its middle; if it has no white space, in the middle.

    Args:
        line: str.
        fits: function of a text; True if the text is short enough.

    Returns:
        list of str, without white space at their ends. A single character is a part even if it does
        not fit.

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
