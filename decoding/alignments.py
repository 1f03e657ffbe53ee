"""Attention between words instead of between subword pieces.

Models attend from piece to piece; people read words. `merge_words` turns the weights of
`▁Donau dampf schiff </s>` into those of `Donaudampfschiff </s>`.
"""

import re
from collections.abc import Sequence

import numpy as np

_STYLES = ("sentencepiece", "@@", "plain")
_SPECIAL = ("<s>", "</s>")
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def word_groups(pieces: Sequence[str], style: str | None = None) -> list[list[int]]:
    """Finds which pieces make up each word.

    Args:
        pieces: the subword pieces, or plain words, of one sentence.
        style: "sentencepiece" (a piece that begins with "▁" begins a word), "@@" (a piece that
            ends in "@@" goes on in the next one) or "plain" (every piece is a word). None
            decides from the pieces themselves.

    Returns:
        One list of positions for each word, in order; together they are 0 ... len(pieces) - 1.
        "<s>" and "</s>" are always words of their own. A byte piece such as "<0xE2>" belongs to
        the word before it.

    Raises:
        ValueError: `style` is not one of the three.

    Example:
        >>> word_groups(["▁Hal", "lo", "▁Welt", "</s>"])
        [[0, 1], [2], [3]]
    """
    style = _style_of(pieces) if style is None else style
    if style not in _STYLES:
        raise ValueError(f"unknown style {style!r}; the styles are {', '.join(_STYLES)}")
    groups = []
    for position, piece in enumerate(pieces):
        before = pieces[position - 1] if position else None
        if _starts_word(piece, before, style):
            groups.append([position])
        else:
            groups[-1].append(position)
    return groups


def merge_words(
    weights: np.ndarray, source_pieces: Sequence[str], target_pieces: Sequence[str]
) -> tuple[np.ndarray, list[str], list[str]]:
    """Merges attention between pieces into attention between words.

    The weights of a source word are the sum over its pieces, because attention is a mass that
    its pieces share. Those of a target word are the mean over its pieces, because each piece
    has spent a whole unit of attention. So rows that sum to 1 still do.

    Args:
        weights: [..., T, S], any floating dtype; row t is what target piece t attends to.
        source_pieces: S pieces. For self-attention, the pieces that are attended to.
        target_pieces: T pieces.

    Returns:
        The weights [..., T', S'], at least float32; the S' source words; the T' target words.
        Words are without subword markers, byte pieces decoded where they are valid UTF-8.

    Raises:
        ValueError: the last two sizes of `weights` are not T and S.
    """
    weights = np.asarray(weights)
    sizes = (len(target_pieces), len(source_pieces))
    if weights.shape[-2:] != sizes:
        raise ValueError(f"weights of shape {weights.shape} do not end in [T, S] = {list(sizes)}")
    weights = weights.astype(np.result_type(weights.dtype, np.float32))

    source_groups, target_groups = word_groups(source_pieces), word_groups(target_pieces)
    merged = _sum_groups(weights, source_groups, axis=-1)  # [..., T, S']
    merged = _sum_groups(merged, target_groups, axis=-2)  # [..., T', S']
    group_sizes = np.array([len(group) for group in target_groups], merged.dtype)
    merged /= group_sizes[:, None]
    return merged, _words(source_pieces, source_groups), _words(target_pieces, target_groups)


def _style_of(pieces: Sequence[str]) -> str:
    if any(piece.startswith("▁") for piece in pieces):
        return "sentencepiece"
    return "@@" if any(map(_continues, pieces)) else "plain"


def _continues(piece: str) -> bool:
    return piece.endswith("@@") and piece != "@@"  # "@@" alone is text, not a marker


def _starts_word(piece: str, before: str | None, style: str) -> bool:
    if before is None or piece in _SPECIAL or before in _SPECIAL:
        return True
    if _BYTE.fullmatch(piece):
        return False
    if style == "sentencepiece":
        return piece.startswith("▁")
    return style == "plain" or not _continues(before)


def _sum_groups(weights: np.ndarray, groups: list[list[int]], axis: int) -> np.ndarray:
    starts = np.array([group[0] for group in groups], np.intp)
    return np.add.reduceat(weights, starts, axis=axis)  # groups are contiguous and cover the axis


def _words(pieces: Sequence[str], groups: list[list[int]]) -> list[str]:
    style = _style_of(pieces)
    return [_join([pieces[position] for position in group], style) for group in groups]


def _join(pieces: list[str], style: str) -> str:
    if style == "@@":
        pieces = [piece[:-2] if _continues(piece) else piece for piece in pieces]
    text = _decode_bytes(pieces)
    if style == "sentencepiece":
        # A "▁" inside a piece is a space; a word that is nothing but "▁" must stay visible.
        text = text.replace("▁", " ").strip() or text
    return text


def _decode_bytes(pieces: list[str]) -> str:
    """Joins pieces, with "<0xC3>" "<0xA9>" read as "é"; as written if that is not UTF-8."""
    encoded = b""
    try:
        for piece in pieces:
            byte = _BYTE.fullmatch(piece)
            encoded += bytes.fromhex(byte[1]) if byte else piece.encode()
        return encoded.decode()
    except UnicodeError:
        return "".join(pieces)
