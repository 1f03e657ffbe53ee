"""Summaries of attention heads over a text: what each head looks at, and which heads align words.

For every map of attention `a[t, s]` from a query token t to a key token s, with the queries of the
whole text counted alike:

* entropy: the mean of `-sum_s a[t, s] ln a[t, s]`, in nats; 0 for a head that looks at one token,
  `ln S` for one that looks at all S tokens equally. Ghader and Monz 2017, "What does Attention in
  Neural Machine Translation Pay Attention to?", section 5; Clark et al. 2019, "What Does BERT Look
  At?", section 3.3.
* distance: the mean of `sum_s a[t, s] |t - s|` in tokens for self-attention; heads with a small one
  are the positional heads of Voita et al. 2019, "Analyzing Multi-Head Self-Attention", section 5.
  For cross-attention the mean of `sum_s a[t, s] |t / T - s / S|`, where T and S are the lengths of
  the two sentences, so 0 is a diagonal.
* share: the mean of the weight on the source's `</s>`, where heads look that find nothing (Clark
  et al. 2019, section 3.2, of `[SEP]`). The decoder's self-attention reads its target shifted
  right, without `</s>`; its share is of `<s>`.
* AER, precision, recall: of the links that give each target word its source word of largest
  weight, or none where that is `</s>` (Garg et al. 2019, "Jointly Learning to Align and Translate",
  section 4.1; AER is of Och and Ney 2003, section 5.1). Weights of pieces are merged to words as in
  `subword_merging.word_weights`.

Tokens include `</s>`, positions count from 0. A layer of several heads also has the summary of
their mean.
"""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.progress import Progress
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import EOS_ID, PAD_ID
from nmt_zoo.decoding.alignment.aligner import MAX_COST, EncodedText, batches, decide_links
from nmt_zoo.decoding.alignment.links import AlignmentScore, GoldAlignment, count_links, score_of
from nmt_zoo.decoding.alignment.map_names import KINDS, layers_by_kind
from nmt_zoo.decoding.search.types import in_graph
from nmt_zoo.models.base import TranslationModel

_PAIRS_AT_ONCE = 8192  # Pairs that are encoded, and sorted by length into batches, at once.
_CELLS = 1 << 26  # Weights of a batch of several pairs: 256 MiB.
_MOST_CELLS = 1 << 29  # Weights of a batch of one pair: 2 GiB.


class Head(NamedTuple):
    kind: str  # "cross", "encoder" or "decoder".
    layer: int  # Counted from 1.
    head: int | str  # Counted from 1, or "mean".
    entropy: float  # In nats.
    distance: float  # In tokens; for "cross" as a share of the sentence.
    share: float  # Of attention on the source's `</s>`; for "decoder" on `<s>`.
    score: AlignmentScore | None = None  # Of a "cross" head, if there are links to compare with.

    def __str__(self) -> str:
        return f"layer {self.layer}, {'head ' * (self.head != 'mean')}{self.head}"


class Summary(NamedTuple):
    heads: list[Head]  # `Head`s by kind, layer and head.
    pairs: int  # Number of sentence pairs that count.
    empty: int  # Number of pairs that were left out, because a side is empty.
    unknown: int  # Number of lines in which the model knows no word.


def summarise_heads(
    model: TranslationModel,
    tokenizer: Tokenizer,
    text: tuple[tuple[str, str], tuple[Any, Any]],
    *,
    name: str = "the model",
    gold: Sequence[GoldAlignment] | None = None,
) -> Summary:
    """Computes the summaries of all heads; memory does not depend on the size of the text.

    `text` is (names of source and target, (source lines, target lines)); lines may be
    `data_pipeline.lines.Lines`. `gold` has the alignment of every pair.
    Raises UserError: the model has no attention, knows no word of the text or is too large for a
    sentence, or all pairs have an empty side.
    """
    maps = model.attention_maps(*[tf.constant([[EOS_ID]])] * 2)
    if not maps:
        raise UserError(f"{name} has no attention, so its heads have no summary")
    totals = _Totals(model, maps, with_links=gold is not None)
    num_maps = sum(weights.shape[1] for weights in maps.values())
    pairs = done = unknown = 0
    with Progress("summarising heads", len(text[1][0]), "lines") as progress:
        for lines in _chunks(*text[1]):
            encoded = EncodedText(tokenizer, text[0], lines)
            unknown += encoded.count_unknown(name, is_start=not done)
            correct = gold and gold[done : done + len(lines[0])]
            # A model of few heads needs memory for other things, such as tables of word pairs.
            most = min(_CELLS // num_maps, MAX_COST)
            for rows in batches(encoded.lengths[None], most, model.align_sizes):
                _check_size(encoded, rows, num_maps, text[0], done)
                totals.add(encoded, rows, correct)
                pairs += rows.size
            done += len(lines[0])
            progress.update(len(lines[0]))
    if not pairs:
        raise UserError(f"{' and '.join(text[0])}: one side of every pair is empty")
    return Summary(totals.heads(), pairs, done - pairs, unknown)


class _Totals:
    """Sums over a text, of every map of a model, by the map's name."""

    def __init__(self, model, maps, with_links):
        layers = layers_by_kind(maps)
        # (name, kind, layer) of every map.
        self.maps = [(name, k, layer) for k in layers for layer, name in layers[k].items()]
        self.cross = [*layers.get("cross", {}).values()] if with_links else []
        self.sums, self.queries, self.counts = {}, {}, {}

        def measure(source_ids, target_ids):
            maps = model.attention_maps(source_ids, target_ids)
            maps = {name: _with_mean(maps[name]) for name, _, _ in self.maps}
            masks = source_ids != PAD_ID, target_ids != PAD_ID
            sums = {name: _sums(kind, maps[name], *masks) for name, kind, _ in self.maps}
            return sums, {name: maps[name] for name in self.cross}

        self._measure = in_graph(model, measure)

    def add(self, text: Any, rows: Any, gold: Any) -> None:
        """Adds some pairs of an `EncodedText`; `gold` has the `GoldAlignment` of all its pairs."""
        sums, maps = self._measure(*text.padded(rows))
        for name, kind, _ in self.maps:
            side = 0 if kind == "encoder" else 1
            total = sums[name].numpy().sum(axis=0, dtype=np.float64)
            self.sums[name] = self.sums.get(name, 0) + total
            self.queries[name] = self.queries.get(name, 0) + text.lengths[side, rows].sum()
        for name in self.cross:
            weights = text.between_words(maps[name].numpy(), rows)
            num_heads = weights.shape[1]
            sizes = np.repeat(text.num_words[:, rows], num_heads, 1)
            links = decide_links(weights.reshape(-1, *weights.shape[2:]), *sizes, None)
            pairs = zip(links, np.repeat(rows, num_heads), strict=True)
            counts = np.array([count_links(of_head, gold[row]) for of_head, row in pairs])
            counts = counts.reshape(rows.size, num_heads, -1).sum(axis=0)
            self.counts[name] = self.counts.get(name, 0) + counts

    def heads(self) -> list[Head]:
        """Returns the summaries."""
        heads = []
        for name, kind, layer in self.maps:
            means = (self.sums[name] / self.queries[name]).tolist()
            counts = self.counts.get(name, [None] * len(means))
            numbers = [1] if len(means) == 1 else [*range(1, len(means)), "mean"]
            for head, mean, count in zip(numbers, means, counts, strict=True):
                score = None if count is None else score_of(count)
                heads.append(Head(kind, layer, head, *mean, score))
        return heads


def _with_mean(weights):
    """Appends the mean of the heads, `[B, H, Q, K]` -> `[B, H + 1, Q, K]`, if there are several."""
    if weights.shape[1] == 1:
        return weights
    return tf.concat([weights, tf.reduce_mean(weights, axis=1, keepdims=True)], axis=1)


def _sums(kind, weights, source_mask, target_mask):
    """Sums entropy, distance and share over query tokens: `[B, H, Q, K]` -> `[B, H, 3]` float32."""
    query_mask = source_mask if kind == "encoder" else target_mask
    key_mask = target_mask if kind == "decoder" else source_mask
    real = query_mask[:, None, :, None] & key_mask[:, None, None, :]
    weights = tf.where(real, weights, 0.0)
    masks = query_mask, key_mask
    num_queries, num_keys = (tf.reduce_sum(tf.cast(m, tf.float32), 1)[:, None, None] for m in masks)
    queries, keys = (tf.range(tf.shape(m)[1]) for m in masks)
    queries, keys = (tf.cast(x, tf.float32) for x in (queries[None, :, None], keys[None, None, :]))
    if kind == "cross":
        distances = tf.abs(queries / num_queries - keys / num_keys)
    else:
        distances = tf.abs(queries - keys)
    mark = tf.zeros_like(num_keys) if kind == "decoder" else num_keys - 1
    on_mark = tf.cast(keys == mark, tf.float32)
    values = (
        -tf.math.xlogy(weights, weights),
        weights * distances[:, None],
        weights * on_mark[:, None],
    )
    return tf.stack([tf.reduce_sum(value, axis=(2, 3)) for value in values], axis=-1)


def _chunks(source_lines, target_lines):
    """Yields ([source lines], [target lines]) of some thousand pairs at a time."""
    pairs = zip(source_lines, target_lines, strict=True)
    while chunk := list(itertools.islice(pairs, _PAIRS_AT_ONCE)):
        yield tuple(map(list, zip(*chunk, strict=True)))


def _check_size(text, rows, num_maps, names, first):
    """Raises `UserError` if the maps of a sentence pair would not fit into memory."""
    lengths = text.lengths[:, rows].max(axis=0)
    longest = int(lengths.max())
    if num_maps * longest**2 > _MOST_CELLS:
        line = first + rows[lengths.argmax()] + 1
        raise UserError(
            f"{names[0]} and {names[1]}, line {line}: {longest:,} tokens, too many for the "
            f"{num_maps} heads of this model; leave the line out or split it"
        )


def table_of(heads: Sequence[Head]) -> list[str]:
    """Returns the lines of a text table of `Head`s, which names the best head if AER is known."""
    lines = []
    for kind, group in itertools.groupby(heads, key=lambda head: head.kind):
        group = list(group)
        mark = "<s>" if kind == "decoder" else "</s>"
        columns = ["layer", "head", "entropy", "distance", f"on {mark}"]
        scored = group[0].score is not None
        columns += ["AER", "precision", "recall"] if scored else []
        lines += [KINDS[kind], "  ".join(f"{name:>9}" for name in columns)]
        for head in group:
            values = (head.entropy, head.distance, head.share, *(head.score or ()))
            shown = [str(head.layer), str(head.head), *(f"{value:.4f}" for value in values)]
            lines.append("  ".join(f"{value:>9}" for value in shown))
    if scored := [(head.score.aer, head) for head in heads if head.score]:
        aer, best = min(scored, key=lambda pair: pair[0])
        lines.append(f"aligns best: {best} (AER {aer:.4f})")
    return lines


def record_of(summary: Summary) -> dict[str, Any]:
    """Returns a `Summary` as a dict for JSON."""
    heads = [{**h._asdict(), "score": h.score and h.score._asdict()} for h in summary.heads]
    return {"sentences": summary.pairs, "heads": heads}
