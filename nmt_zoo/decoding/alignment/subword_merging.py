"""Attention between words instead of between subword pieces.

Models attend from piece to piece; people read words. `word_weights` merges weights given the word
of each token. `merge_words` finds the words from the pieces themselves: it turns the weights of
`▁Donau dampf schiff </s>` into weights of `Donaudampfschiff </s>`.
"""

import bisect
import itertools
import re
from collections.abc import Sequence
from unicodedata import category

import numpy as np

from nmt_zoo.data_pipeline.text_form import JOINER

_SPECIAL = ("<s>", "</s>")
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_WORD = re.compile(rb"[^ ]+")


def words_of(pieces: Sequence[str]) -> tuple[np.ndarray, list[str]]:
    """Returns the number of the word of each piece of a sentence, counted from 0, and the words.

    If a piece begins with "▁", such pieces begin words. Otherwise every piece is a word, except
    after a piece that ends in "@@", and beside a `JOINER`. "<s>" and "</s>" are always words of
    their own. A byte piece such as "<0xE2>" belongs to the word before it. Punctuation at the ends
    of a word is a word of its own.

    Example:
        >>> words_of(["▁Hal", "lo", "▁Welt", "</s>"])
        (array([0, 0, 1, 2]), ['Hallo', 'Welt', '</s>'])
    """
    groups, has_spaces = [], any(piece.startswith("▁") for piece in pieces)
    for before, piece in zip(["<s>", *pieces], pieces, strict=False):
        if piece in _SPECIAL or before in _SPECIAL:
            starts = True
        elif _BYTE.fullmatch(piece):
            starts = False
        else:
            joins = _continues(before) or before.endswith(JOINER) or piece.startswith(JOINER)
            starts = piece.startswith("▁") if has_spaces else not joins
        if starts:
            groups.append([])
        groups[-1].append(piece.replace(JOINER, ""))
    groups = [part for group in groups for part in _without_punctuation(group)]
    words = [_joined(group, has_spaces) for group in groups]
    return np.repeat(np.arange(len(groups)), [*map(len, groups)]), words


def _without_punctuation(pieces: list[str]) -> list[list[str]]:
    """Splits the punctuation off a word's ends: `▁year .` becomes `▁year` and `.`."""
    inner = [i for i, piece in enumerate(pieces) if not _is_punctuation(piece)]
    first, end = (inner[0], inner[-1] + 1) if inner else (0, 0)
    return [part for part in (pieces[:first], pieces[first:end], pieces[end:]) if part]


def _is_punctuation(piece: str) -> bool:
    text = piece.removeprefix("▁")
    return bool(text) and not _continues(piece) and all(category(c)[0] == "P" for c in text)


def word_weights(
    weights: np.ndarray, source_numbers: Sequence[int], target_numbers: Sequence[int]
) -> np.ndarray:
    """Merges weights between tokens to weights `[..., T', S']` between words, at least float32.

    The weight of a source word is the sum over its tokens, because the tokens share the word's
    attention. The weight of a target word is the mean over its tokens, because each token spends
    one unit of attention. So rows that sum to 1 still do. A source word in which no token begins
    has weight 0; such a target word attends to the last source word.

    `weights` `[..., T, S]` are of any floating dtype; T and S may be larger, for padding. The
    numbers are the word of each of S or T tokens, counted from 0 and never falling; the last token,
    such as `</s>`, is a word of its own. A first token of the number -1, the sign of a language, is
    no word; attention to it counts as attention to `</s>`.
    """
    dtype = np.result_type(weights.dtype, np.float32)
    weights = weights[..., : len(target_numbers), : len(source_numbers)].astype(dtype)
    if target_numbers[0] < 0:
        target_numbers, weights = target_numbers[1:], weights[..., 1:, :]
    if source_numbers[0] < 0:
        of_sign = weights[..., :1]
        source_numbers, weights = source_numbers[1:], weights[..., 1:]
        weights[..., -1:] += of_sign
    sources, columns = np.unique(source_numbers, return_index=True)
    targets, rows, counts = np.unique(target_numbers, return_index=True, return_counts=True)
    weights = np.add.reduceat(np.add.reduceat(weights, columns, axis=-1), rows, axis=-2)
    merged = np.zeros([*weights.shape[:-2], target_numbers[-1] + 1, source_numbers[-1] + 1], dtype)
    merged[..., -1] = 1
    merged[..., targets[:, None], sources] = weights / counts[:, None].astype(dtype)
    return merged


def merge_words(
    weights: np.ndarray, source_pieces: Sequence[str], target_pieces: Sequence[str]
) -> tuple[np.ndarray, list[str], list[str]]:
    """Merges attention between pieces into attention between words, as `word_weights`.

    `weights` `[..., T, S]` are of any floating dtype; row t is the attention of target piece t. For
    self-attention, `source_pieces` are the pieces that are attended to. Returns weights
    `[..., T', S']`, the source words and the target words. Words have no subword markers, and byte
    pieces are decoded if they are valid UTF-8. Raises ValueError if sizes do not fit the pieces.
    """
    weights = np.asarray(weights)
    sizes = (len(target_pieces), len(source_pieces))
    if weights.shape[-2:] != sizes:
        raise ValueError(f"weights of shape {weights.shape} do not end in [T, S] = {list(sizes)}")
    numbers, words = zip(*map(words_of, (source_pieces, target_pieces)), strict=True)
    return word_weights(weights, *numbers), *words


def numbers_in_text(texts: Sequence[bytes]) -> list[int]:
    """Finds the word, between spaces of the joined text, in which each token begins.

    `texts` are what each token adds to the text. The numbers of the words are counted from 0 and
    never fall; the last entry is the number of words, as the number of `</s>`.
    """
    ends = [word.end() for word in _WORD.finditer(b"".join(texts))]
    starts = itertools.accumulate(map(len, texts[:-1]), initial=0) if texts else ()
    last = max(len(ends) - 1, 0)
    return [*(min(bisect.bisect_right(ends, start), last) for start in starts), len(ends)]


def _continues(piece: str) -> bool:
    return piece.endswith("@@") and piece != "@@"  # "@@" alone is text, not a marker


def _joined(pieces: list[str], has_spaces: bool) -> str:
    if not has_spaces:
        return _decode_bytes([piece[:-2] if _continues(piece) else piece for piece in pieces])
    text = _decode_bytes(pieces)
    # A "▁" inside a piece is a space; a word that is only "▁" must stay visible.
    return text.replace("▁", " ").strip() or text


def _decode_bytes(pieces: list[str]) -> str:
    """Joins pieces and decodes bytes, "<0xC3>" "<0xA9>" as "é", unless that is not UTF-8."""
    encoded = b""
    try:
        for piece in pieces:
            byte = _BYTE.fullmatch(piece)
            encoded += bytes.fromhex(byte[1]) if byte else piece.encode()
        return encoded.decode()
    except UnicodeError:
        return "".join(pieces)
