"""Weights between the words of lines, from those between the tokens of a model.

As `decoding.alignments.merge_words`, but for words as other tools count them, whatever the pieces.
"""

import re

import numpy as np

from data_pipeline.tokenizers import WordVocabulary, split_words
from decoding.pictures import layer_names

_BYTE = re.compile(r"<0x[0-9A-F]{2}>")


def word_numbers(vocabulary, line, ids):
    """Which word of a line, between ASCII white space, each of its tokens begins in.

    Args:
        vocabulary: one side of a `Tokenizer`.
        line: str.
        ids: the line's ids with `</s>`.

    Returns:
        A number, counted from 0, for every id, never falling; that of `</s>` is the number of
        words.
    """
    if isinstance(vocabulary, WordVocabulary):
        return list(range(len(ids)))
    # Pieces spell the line but for its white space, of which "▁" is one to SentencePiece.
    sizes = [len(word.replace("▁", "").encode()) for word in split_words(line)]
    number_of_byte = np.repeat(np.arange(len(sizes)), sizes)
    ends = np.cumsum([0, *map(_num_bytes, vocabulary.pieces(ids[:-1]))])
    begins = np.minimum(ends[:-1], max(number_of_byte.size - 1, 0))
    numbers = number_of_byte[begins].tolist() if number_of_byte.size else [0] * begins.size
    return [*numbers, len(sizes)]


def _num_bytes(piece):
    """How many bytes of words a SentencePiece piece spells."""
    if _BYTE.fullmatch(piece):
        return int(int(piece[3:5], 16) not in b" \t\n\r\f\v")
    return len("".join(split_words(piece.replace("▁", " "))).encode())


def word_weights(weights, source_numbers, target_numbers):
    """Merges weights of tokens to those of words: sums over source, means over target tokens.

    Args:
        weights: `[T, S]`, or more of both where padding follows.
        source_numbers: of S tokens, from `word_numbers`.
        target_numbers: of T tokens.

    Returns:
        `[T', S']` float32, words with `</s>`; rows that sum to 1 still do. A word in which no token
        begins has the weight 0, and looks at `</s>`.
    """
    sources, columns = np.unique(source_numbers, return_index=True)
    targets, rows, counts = np.unique(target_numbers, return_index=True, return_counts=True)
    weights = weights[: len(target_numbers), : len(source_numbers)]
    weights = np.add.reduceat(np.add.reduceat(weights, columns, axis=1), rows, axis=0)
    merged = np.zeros([target_numbers[-1] + 1, source_numbers[-1] + 1], np.float32)
    merged[:, -1] = 1.0
    merged[np.ix_(targets, sources)] = weights / counts[:, None]
    return merged


def word_maps(maps, tokenizer, lines, ids):
    """Cross-attention between the words of one sentence pair instead of its tokens.

    Args:
        maps: name -> `[H, T, S]`, from `TranslationModel.attention_maps`.
        tokenizer: `Tokenizer`.
        lines: (source line, target line).
        ids: (source ids, target ids), with `</s>`.

    Returns:
        (name -> `[H, T', S']` of every cross-attention, (source words, target words)), words with
        `</s>`.
    """
    sides = zip(tokenizer[1:], lines, ids, strict=True)
    numbers = [word_numbers(*side) for side in sides]
    merged = {
        name: np.stack([word_weights(head, *numbers) for head in maps[name]])
        for name in layer_names(maps, "cross").values()
    }
    return merged, [[*split_words(line), "</s>"] for line in lines]
