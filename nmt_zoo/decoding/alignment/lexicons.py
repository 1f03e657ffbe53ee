"""Lexicons of word translations, counted in word alignments or read from a model's table.

`decoding.unknowns.read_lexicon` reads the files of `write_lexicon`.
"""

import collections
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import write_lines
from nmt_zoo.common.progress import Progress
from nmt_zoo.data_pipeline.tokenization.vocabularies import EOS_ID
from nmt_zoo.decoding.alignment.links import Link

LEAST_PROBABLE = 0.01  # Less probable pairs occur together only by chance.
_CELLS = 1 << 24  # Most cells of the table that are in memory at once.


def lexicon_entries(
    alignments: Iterable[Iterable[Link]],
    source_words: Iterable[Sequence[str]],
    target_words: Iterable[Sequence[str]],
) -> list[tuple[str, str, float]]:
    """Returns (source word, target word, probability) of all linked words of a text.

    The probability is the target word's share of all links of the source word. Entries are sorted
    by source word, then by falling probability.

    Example:
        >>> lexicon_entries([[(0, 1)]], [["Haus"]], [["the", "house"]])
        [('Haus', 'house', 1.0)]
    """
    counts = collections.Counter(
        (source[i], target[j])
        for links, source, target in zip(alignments, source_words, target_words, strict=True)
        for i, j in links
    )
    totals = collections.Counter()
    for (source, _), count in counts.items():
        totals[source] += count
    entries = [(source, target, n / totals[source]) for (source, target), n in counts.items()]
    return sorted(entries, key=lambda entry: (entry[0], -entry[2], entry[1]))


def table_entries(
    model: Any, tokenizer: Any, *, threshold: float = LEAST_PROBABLE, name: str = "the model"
) -> list[tuple[str, str, float]]:
    """Reads word pairs more probable than `threshold` from a model's word translation table.

    Returns (source word, target word, t(e | f)) as `lexicon_entries`, without UNK. `</s>` is a word
    of both sides; as a source word, it is NULL. The number of source words without an
    entry is printed on standard error. `name` is the model's in errors.
    Raises UserError: the model has no table, or one of subword pieces, or no pair is so probable.

    Example:
        table_entries(model, tokenizer, threshold=0.1)  # [("Haus", "house", 0.8), ...]
    """
    if model.translations(np.zeros([1, 1], np.int32)) is None:
        raise UserError(
            f"{name} has no table of word translations; count the links of a text instead "
            "(--source), or use an IBM model, such as ibm1"
        )
    if tokenizer.source.style in ("▁", "@@"):
        raise UserError(
            f"{name} translates pieces of words; a lexicon needs a model of words: train.py "
            "--tokenizer=word"
        )
    first = EOS_ID  # The special before the words.
    source_words, target_words = tokenizer.source.words, tokenizer.target.words
    ids = np.array(sorted(range(first, len(source_words)), key=source_words.__getitem__), np.int32)
    rows_at_once = max(_CELLS // len(target_words), 1)
    entries = []
    with Progress("reading the table", ids.size, "words") as progress:
        for start in range(0, ids.size, rows_at_once):
            chunk = ids[start : start + rows_at_once]
            table = np.asarray(model.translations(chunk[None]))[0]
            sources, targets = np.nonzero(table[:, first:] > threshold)
            targets += first
            values = table[sources, targets]
            for row in np.lexsort((targets, -values, sources)):
                source, target = chunk[sources[row]], targets[row]
                entries.append((source_words[source], target_words[target], float(values[row])))
            progress.update(chunk.size)
    if not entries:
        raise UserError(
            f"{name} has no word pair of probability above {threshold:g}; lower --threshold"
        )
    missing = ids.size - len({source for source, _, _ in entries})
    if missing:
        print(
            f"{missing:,} of {ids.size:,} source words have no translation of probability above "
            f"{threshold:g} and are left out",
            file=sys.stderr,
        )
    return entries


def write_lexicon(path: str, entries: Sequence[tuple[str, str, float]]) -> int:
    """Writes lines `source_word target_word probability`, atomically; returns their number.

    White space separates the three, so a word with white space inside, such as a number with
    no-break spaces, cannot be written. Its pairs are left out, and counted on standard error.
    Raises UserError: the file cannot be written.
    """
    lines = [
        f"{source} {target} {probability:.6g}"
        for source, target, probability in entries
        if source.split() == [source] and target.split() == [target]
    ]
    write_lines(path, lines)
    left_out = len(entries) - len(lines)
    if left_out:
        print(
            f"word pairs left out: {left_out:,} (a lexicon cannot hold words with white space "
            "inside, such as no-break spaces)",
            file=sys.stderr,
        )
    return len(lines)
