"""Word alignments of whole texts from the soft alignments of a model.

A model aligns its own tokens; people and other tools count the words of their lines. So weights of
subword pieces are merged into weights of words, and words are linked by these weights.
"""

import contextlib
import itertools
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.progress import Progress
from nmt_zoo.data_pipeline.batching import Batching, plan_epoch
from nmt_zoo.data_pipeline.encoding import encode_lines
from nmt_zoo.data_pipeline.text_form import JOINER, split_words
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import EOS_ID, UNK_ID, WordVocabulary
from nmt_zoo.decoding.alignment.links import Link
from nmt_zoo.decoding.alignment.map_names import layers_by_kind
from nmt_zoo.decoding.alignment.parallel_text import ParallelText
from nmt_zoo.decoding.alignment.subword_merging import word_weights
from nmt_zoo.decoding.search.types import in_graph, padded

if TYPE_CHECKING:  # A model of CTranslate2 aligns without TensorFlow.
    from nmt_zoo.models.base import TranslationModel

# Largest cost of a batch. A sentence costs length x (length + 256), because attention is quadratic,
# so a batch holds 960 sentences of 16 tokens, 200 of 64 or 10 of 512.
MAX_COST = 1 << 22
# Numbers in the largest tensor of a model for each unit of cost, at most: 256 MB a batch.
_NUMBERS = 16


class EncodedText:
    """A text in the ids of a tokenizer; `names`, of the source and target text, are for errors.

    `lines` are (source lines, target lines), equally many. `tokens` are (of source lines, of target
    lines), each with `(ids, numbers)` of each line: ids with `</s>`, and the number of the word of
    each, as `numbers_in_text`. A translation may have other ids than its text encodes to. None: the
    lines are encoded.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        names: tuple[str, str],
        lines: tuple[Sequence[str], Sequence[str]],
        tokens: Any = None,
    ) -> None:
        self.names, self.lines, self.vocabularies = names, lines, tokenizer[1:]
        self._numbers = None
        if tokens:
            sides = (zip(*side, strict=True) for side in tokens)
            self.ids, self._numbers = zip(*sides, strict=True)
        else:
            encoded = [encode_lines(*side) for side in zip(self.vocabularies, lines, strict=True)]
            self.ids = [np.split(ids, np.cumsum(lengths))[:-1] for ids, lengths in encoded]
        lengths = [[*map(len, side)] for side in self.ids]
        self.lengths = np.array(lengths, np.int64)  # [2, pairs], tokens with `</s>`.
        of_words = (isinstance(v, WordVocabulary) and v.style != JOINER for v in self.vocabularies)
        self.of_words = all(of_words) and not tokens
        self.num_words = self.lengths - 1  # [2, pairs], without `</s>`.
        if tokens:
            self.num_words = np.array([[words[-1] for words in side] for side in self._numbers])
        elif not self.of_words:
            self.num_words = np.array([[len(split_words(x)) for x in side] for side in lines])

    def count_unknown(self, model_name: str, *, is_start: bool = True) -> int:
        """Counts the lines that have words, but no word of the vocabulary.

        `is_start` is False for a later part of a longer text, which may be as short as one line.
        Raises UserError: with `is_start`, no line of a side has a known word. It names the model.
        """
        total = 0
        for ids, name in zip(self.ids, self.names, strict=True):
            lines = [line[:-1] for line in ids if len(line) > 1]
            unknown = sum((np.asarray(line) == UNK_ID).all() for line in lines)
            if is_start and unknown and unknown == len(lines):
                raise UserError(
                    f"{name}, lines 1 to {len(ids)}: {model_name} knows none of their words; "
                    "expected text in the language and tokenisation that it was trained on"
                )
            total += unknown
        return total

    def padded(self, rows: np.ndarray) -> list[np.ndarray]:
        """Returns ids of source `[B, S]` and target `[B, T]` of some pairs, int32, padded."""
        return [padded([ids[row] for row in rows]) for ids in self.ids]

    def between_words(self, weights: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Merges weights `[B, ..., T, S]` between the tokens of some pairs.

        Returns `[B, ..., T', S']` float32 between words. T' and S' are the largest numbers of
        words, with `</s>`, among these pairs. Weights after the `</s>` of a pair are meaningless.
        """
        if self.of_words:
            return weights
        sources, targets = self.num_words[:, rows].max(axis=1) + 1
        merged = np.zeros([*weights.shape[:-2], targets, sources], np.float32)
        numbers = [self._word_numbers(side, rows) for side in (0, 1)]
        for words, tokens, *pair in zip(merged, weights, *numbers, strict=True):
            weights = word_weights(tokens, *pair)
            words[..., : weights.shape[-2], : weights.shape[-1]] = weights
        return merged

    def _word_numbers(self, side, rows):
        if self._numbers:
            return [self._numbers[side][row] for row in rows]
        return self.vocabularies[side].word_numbers(self.lines[side][row] for row in rows)


def batches(
    lengths: np.ndarray, max_cost: int = MAX_COST, sizes: tuple[int, int] = (0, 1)
) -> Iterator[np.ndarray]:
    """Yields the rows `[B]` of batches of pairs of similar length.

    `lengths` `[texts, 2, pairs]` are the `EncodedText.lengths` of one or more encodings of a text.
    Pairs with an empty side in any of them are left out. `max_cost` is the largest cost of a batch
    of several pairs; a pair costs L x (L + 256), where L is the length of its longer side, or more
    where the model needs a larger tensor.
    """
    per_token, per_pair = sizes
    rows = np.flatnonzero((lengths > 1).all(axis=(0, 1)))
    longest = lengths[:, :, rows].max(axis=0)
    costs = longest * np.maximum(longest + 256, (longest * per_pair + per_token) // _NUMBERS)
    plan = plan_epoch(*costs, Batching(max(max_cost, int(costs.max(initial=0)))))
    for batch in np.split(rows[plan.rows], np.cumsum(plan.batch_sizes)[:-1]):
        if batch.size:
            yield batch


class Aligner:
    """Links the words of sentence pairs; `name` is the model's in errors, such as its directory.

    `layer` is the decoder layer whose cross-attention is used, counted from 1. None with a `head`:
    the only layer that attends to the source; None without: `model.align`, which is the posterior
    of an IBM model, or attention. `head` is counted from 1; None or "mean": the mean of all heads.
    Raises UserError if the model has no alignment, or no such layer or head.

    Example:
        Aligner(model, tokenizer).links(["ein Haus"], ["a house"])  # [[(0, 0), (1, 1)]]
    """

    def __init__(
        self,
        model: "TranslationModel",
        tokenizer: Tokenizer,
        *,
        name: str = "the model",
        layer: int | None = None,
        head: int | str | None = None,
    ) -> None:
        if not model.has_alignment:
            raise UserError(f"{name} cannot align words: {model.no_alignment}")
        self.tokenizer = tokenizer
        self.name = name
        self.sizes = model.align_sizes
        align = model.align if layer is head is None else _attention(model, name, layer, head)
        self._align = in_graph(model, align)

    def links(
        self,
        source_lines: Sequence[str],
        target_lines: Sequence[str],
        *,
        tokens: Any = None,
        threshold: float | None = None,
    ) -> list[list[Link]]:
        """Returns the sorted links of every pair; none if a line of the pair is empty.

        Words are separated by white space, see `split_words`, whatever the tokenizer. With a
        `threshold`, all links of a larger weight are returned, any number for a target word. With
        None, each target word is linked with the source word of largest weight, unless that is
        `</s>`.
        """
        lines = source_lines, target_lines
        text = EncodedText(self.tokenizer, ("source", "target"), lines, tokens)
        return _links([self], [text], threshold)


def _links(aligners, texts, threshold, shows=False):
    """Returns the links of one direction, or those on which two directions agree."""
    lengths = np.array([text.lengths[:: -1 if i else 1] for i, text in enumerate(texts)])
    results = [[] for _ in range(lengths.shape[2])]
    count = int((lengths > 1).all(axis=(0, 1)).sum())
    bar = Progress("aligning", count, "lines") if shows else contextlib.nullcontext()
    with bar as progress:
        for batch in batches(lengths, sizes=np.max([a.sizes for a in aligners], axis=0)):
            sizes = texts[0].num_words[:, batch]
            weights = _weights(aligners[0], texts[0], batch)
            limit = threshold
            if len(texts) > 1:
                height, width = sizes[::-1].max(axis=1) + 1
                facing = _weights(aligners[1], texts[1], batch).transpose(0, 2, 1)
                weights = weights[:, :height, :width] * facing[:, :height, :width]
                limit = threshold**2
            for row, links in zip(batch, decide_links(weights, *sizes, limit), strict=True):
                results[row] = links
            if progress:
                progress.update(batch.size)
    return results


def _weights(aligner, text, rows):
    """Returns weights `[B, T', S']` between the words of some pairs of an `EncodedText`."""
    return text.between_words(np.asarray(aligner._align(*text.padded(rows))), rows)


def align_text(
    text: ParallelText,
    forward: Aligner | None = None,
    reverse: Aligner | None = None,
    *,
    threshold: float | None = None,
    agree: bool = False,
) -> list[list[list[Link]]]:
    """Returns the links of every pair for each aligner, as (source position, target position).

    `forward` is of a model from source to target, `reverse` of a model from target to source. If
    they are to `agree`, there is one list of links: those of which the geometric mean of both
    weights is above `threshold`; Liang et al. 2006, section 3.2.
    """
    ways = [(forward, text, 1), (reverse, text.swapped(), -1)]
    ways = [(aligner, _encode_known(aligner, way), step) for aligner, way, step in ways if aligner]
    if agree:
        aligners, texts, _ = zip(*ways, strict=True)
        return [_links(aligners, texts, threshold, shows=True)]
    return [
        [
            sorted(link[::step] for link in pair)
            for pair in _links([aligner], [encoded], threshold, shows=True)
        ]
        for aligner, encoded, step in ways
    ]


def _encode_known(aligner, text):
    """Encodes a text; prints how many lines have no known word."""
    encoded = EncodedText(aligner.tokenizer, *text)
    unknown = encoded.count_unknown(aligner.name)
    if unknown:
        print(f"{unknown:,} lines in which {aligner.name} knows no word", file=sys.stderr)
    return encoded


def _attention(model, name, layer, head):
    """Makes a function like `model.align` from the cross-attention of one layer."""
    import tensorflow as tf

    maps = model.attention_maps(*[tf.constant([[EOS_ID]], tf.int32)] * 2)
    layers = layers_by_kind(maps)["cross"]
    if layer is None and len(layers) > 1:
        raise UserError(f"{name} has attention heads in {len(layers)} layers; also give --layer")
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


def decide_links(
    weights: np.ndarray, num_sources: np.ndarray, num_targets: np.ndarray, threshold: float | None
) -> list[list[Link]]:
    """Returns the links of every pair of a batch, given the numbers of its words, `[B]` each.

    `weights` `[B, T', S']` are between words with `</s>`; T' and S' may be larger than needed.
    """
    positions = [np.arange(size) for size in weights.shape[1:]]
    is_target = positions[0] < num_targets[:, None]
    if threshold is None:
        best = np.where(positions[1] <= num_sources[:, None, None], weights, -1).argmax(axis=2)
        rows, targets = np.nonzero(is_target & (best < num_sources[:, None]))
        sources = best[rows, targets]
        order = np.lexsort((targets, sources, rows))
        rows, sources, targets = rows[order], sources[order], targets[order]
    else:
        is_link = (weights > threshold) & is_target[:, :, None]
        is_link &= positions[1] < num_sources[:, None, None]
        rows, sources, targets = np.nonzero(is_link.transpose(0, 2, 1))
    links = list(zip(sources.tolist(), targets.tolist(), strict=True))
    ends = np.searchsorted(rows, np.arange(num_sources.size + 1)).tolist()
    return [links[start:end] for start, end in itertools.pairwise(ends)]
