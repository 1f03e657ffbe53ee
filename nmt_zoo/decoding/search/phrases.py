"""Phrases as text and as tokens, in scripts with and without spaces between words."""

import re
import unicodedata

import numpy as np

from nmt_zoo.data_pipeline.tokenization.vocabularies import SPECIALS, Vocabulary

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
# Han, Kana, Thai, Lao, Khmer and Myanmar have no spaces between words, so a word may begin and end
# beside any of their letters.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\uff66-\uff9f\U0001b000-\U0001b16f\U00020000-\U0003ffff]"
)
# A private character: no piece has it together with other characters.
_MARKER = "\ue000"


def piece_texts(vocabulary: Vocabulary) -> list[bytes]:
    """Returns what each token adds to a line, as bytes; nothing for special tokens."""
    pieces = vocabulary.pieces(range(len(vocabulary)))
    style = vocabulary.style
    return [b""] * len(SPECIALS) + [piece_text(piece, style) for piece in pieces[len(SPECIALS) :]]


def word_joints(vocabulary: Vocabulary) -> tuple[np.ndarray, np.ndarray]:
    """Finds the tokens between which no word begins or ends, as two arrays `[V]` bool.

    The first marks the tokens that continue the word of the token before them, the second the
    tokens whose word the next token continues, whatever the two are.
    """
    continues, opens = np.zeros([2, len(vocabulary)], bool)
    if vocabulary.style == "▁":
        lines = [text.decode(errors="surrogateescape") for text in piece_texts(vocabulary)]
        continues = np.array([_may_continue_word(line[:1]) for line in lines])
    elif vocabulary.style == "@@":
        opens = np.array([p.endswith("@@") for p in vocabulary.pieces(range(len(vocabulary)))])
    return continues, opens


def piece_text(piece: str, style: str) -> bytes:
    """Returns what a piece adds to a line, as bytes; `style` as `piece_style` returns it."""
    if style == "▁":
        byte = _BYTE.fullmatch(piece)
        return bytes([int(byte[1], 16)]) if byte else piece.replace("▁", " ").encode()
    if style == "@@" and piece.endswith("@@"):
        return piece.removesuffix("@@").encode()
    return f"{piece} ".encode()


def has_phrase(text: str, phrase: str) -> bool:
    """Returns whether a text has a phrase as whole words, as `banned_phrases` finds it."""
    places = (match.start() for match in re.finditer(f"(?={re.escape(phrase)})", text))
    return any(is_boundary(text, i) and is_boundary(text, i + len(phrase)) for i in places)


def phrase_ids(phrase: str, vocabulary: Vocabulary) -> list[int]:
    """Encodes a phrase, without `</s>`, as it is encoded inside a line.

    In scripts without spaces, that is without the space with which SentencePiece begins a line.
    """
    if vocabulary.style == "▁" and _UNSPACED.match(phrase):
        marker, marked = vocabulary.encode([_MARKER, _MARKER + phrase])
        if marked[: len(marker) - 1] == marker[:-1]:
            return marked[len(marker) - 1 : -1]
    (ids,) = vocabulary.encode([phrase])
    # A language is not part of a phrase.
    return ids[ids[0] == vocabulary.language_token : -1]


def is_boundary(text, i):
    """Returns whether a word may begin or end before character i of a text."""
    if i in (0, len(text)):
        return True
    return not _is_mark(text[i]) and not (in_word(text[i - 1]) and in_word(text[i]))


def in_word(character):
    """Returns whether a character, or "", is part of a word that spaces separate from others."""
    if not character:
        return False
    kind = unicodedata.category(character)[0]  # Letter, mark, number or another.
    is_spaced = kind in "LM" and not _UNSPACED.match(character)
    return is_spaced or kind == "N" or character == "_"


def _is_mark(character):
    return unicodedata.category(character)[0] == "M"


def _may_continue_word(character):
    if not character:
        return False
    is_byte = "\udc80" <= character <= "\udcff"  # Of a longer character, of which nothing is known.
    return is_byte or in_word(character) or _is_mark(character)
