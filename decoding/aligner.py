"""Word alignments of whole texts from the soft alignments of a model.

A model aligns its own tokens; people and other tools count the words of their lines. So weights of
subword pieces are merged to those of words, as `decoding.alignments.merge_words` does, and every
word is linked with what has its weight.
"""

import contextlib
import re
import sys

import numpy as np
import tensorflow as tf

from data_pipeline.batching import plan_epoch
from data_pipeline.files import UserError
from data_pipeline.progress import Progress
from data_pipeline.tokenizers import EOS_ID, UNK_ID, WordVocabulary, split_words
from decoding.pictures import layer_names
from decoding.translator import padded

_BYTE = re.compile(r"<0x[0-9A-F]{2}>")
_IDS = tf.TensorSpec([None, None], tf.int32)
_MAX_TOKENS = 4096  # Of a batch. Attention is quadratic: 64 sentences of 64 tokens, or 8 of 512.


class Aligner:
    """Links the words of sentence pairs.

    Args:
        model: `TranslationModel`.
        tokenizer: its `Tokenizer`.
        name: what to call the model in errors, such as its directory.
        layer: the decoder layer whose cross-attention counts, from 1; None: `model.align`, which is
            the posterior of an IBM model.
        head: the head of that layer, from 1; None or "mean": the mean of all. Without a layer, of
            the only one that attends to the source.

    Raises:
        UserError: the model has no alignment, or no such layer or head.

    Example:
        Aligner(model, tokenizer).links(["ein Haus"], ["a house"])  # [[(0, 0), (1, 1)]]
    """

    def __init__(self, model, tokenizer, *, name="the model", layer=None, head=None):
        if not model.has_alignment:
            raise UserError(
                f"{name} has no alignment: it has no attention, or the same to every source word; "
                "use a model of another preset"
            )
        self.tokenizer = tokenizer
        self.name = name
        align = model.align if layer is head is None else _attention(model, name, layer, head)
        # Not converted by AutoGraph, which has nothing to do in a model and would hide its errors.
        self._align = tf.function(align, input_signature=[_IDS, _IDS], autograph=False)

    def count_unknown(self, text):
        """Counts the lines of a `ParallelText` that have words, but none in the vocabulary.

        Raises:
            UserError: all lines of a side.
        """
        total = 0
        for vocabulary, name, lines in zip(self.tokenizer[1:], *text, strict=True):
            words = [ids[:-1] for ids in vocabulary.encode(lines) if len(ids) > 1]
            unknown = sum(set(ids) == {UNK_ID} for ids in words)
            if words and unknown == len(words):
                raise UserError(
                    f"{name}, lines 1 to {len(lines)}: {self.name} knows no word of them; expected "
                    "text in the language and tokenisation of its training"
                )
            total += unknown
        return total

    def links(self, source_lines, target_lines, *, threshold=None, description=None):
        """Aligns every line with its translation.

        Words are what stands between ASCII white space, whatever the tokenizer.

        Args:
            source_lines: list of str.
            target_lines: list of str, as many.
            threshold: links with a weight above it, any number for a target word; None: the source
                word with the largest weight for each target word, none where that is `</s>`.
            description: name of the progress bar, or None for no bar.

        Returns:
            For every pair, the sorted list of its (source position, target position), counted from
            0; empty where a line is.
        """
        sides = list(zip(self.tokenizer[1:], (source_lines, target_lines), strict=True))
        ids = [vocabulary.encode(lines) for vocabulary, lines in sides]
        lengths = [np.array([len(row) for row in side], np.int64) for side in ids]
        rows = np.flatnonzero((lengths[0] > 1) & (lengths[1] > 1))
        lengths = [side[rows] for side in lengths]
        longest = max([_MAX_TOKENS, *map(int, lengths[0]), *map(int, lengths[1])])
        plan = plan_epoch(*lengths, longest)
        results = [[] for _ in source_lines]
        bar = Progress(description, rows.size, "lines") if description else contextlib.nullcontext()
        with bar as progress:
            for batch in np.split(rows[plan.rows], np.cumsum(plan.batch_sizes)[:-1]):
                if not batch.size:
                    continue
                weights = self._align(*(padded([side[row] for row in batch]) for side in ids))
                for row, matrix in zip(batch, weights.numpy(), strict=True):
                    words = [
                        word_numbers(vocabulary, lines[row], side[row])
                        for (vocabulary, lines), side in zip(sides, ids, strict=True)
                    ]
                    results[row] = _decide(word_weights(matrix, *words), threshold)
                if progress:
                    progress.update(batch.size)
        return results


def align_directions(text, forward=None, reverse=None, *, threshold=None):
    """Aligns a text with models of one or both directions.

    Args:
        text: `ParallelText`.
        forward: `Aligner` of a model from source to target, or None.
        reverse: that of a model from target to source, or None.
        threshold: as `Aligner.links`.

    Returns:
        The links of every pair for each of the aligners, all as (source position, target position).
    """
    found = []
    for aligner, way, step in ((forward, text, 1), (reverse, text.swapped(), -1)):
        if aligner:
            unknown = aligner.count_unknown(way)
            if unknown:
                print(f"{unknown:,} lines of which {aligner.name} knows no word", file=sys.stderr)
            links = aligner.links(*way.lines, threshold=threshold, description="aligning")
            found.append([sorted(link[::step] for link in pair) for pair in links])
    return found


def _attention(model, name, layer, head):
    """The cross-attention of one layer as a function like `model.align`."""
    one = tf.constant([[EOS_ID]], tf.int32)
    maps = model.attention_maps(one, one)
    layers = layer_names(maps, "cross")
    if layer is None and len(layers) > 1:
        raise UserError(f"{name} has {len(layers)} layers with such heads; give --layer, too")
    number = next(iter(layers)) if layer is None else layer
    if number not in layers:
        raise UserError(
            f"{name}: there is no layer {number} that attends to the source; layers: "
            f"{', '.join(map(str, layers))}"
        )
    num_heads = maps[layers[number]].shape[1]
    if head not in (None, "mean", *range(1, num_heads + 1)):
        raise UserError(f"{name}: there is no head {head}; heads: 1 to {num_heads}, or mean")

    def attend(source_ids, target_ids):
        weights = model.attention_maps(source_ids, target_ids)[layers[number]]
        return tf.reduce_mean(weights, 1) if head in (None, "mean") else weights[:, head - 1]

    return attend


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


def _decide(weights, threshold):
    """The links of `[T', S']` weights of words with `</s>`."""
    weights = weights[:-1]
    if threshold is None:
        best = weights.argmax(axis=1)
        targets = np.flatnonzero(best < weights.shape[1] - 1)
        sources = best[targets]
    else:
        targets, sources = np.nonzero(weights[:, :-1] > threshold)
    return sorted(zip(sources.tolist(), targets.tolist(), strict=True))


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
