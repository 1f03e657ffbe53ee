"""Replaces UNK in a translation by a source word, or its translation in a lexicon; lexicons.

Follows Luong et al. 2015, "Addressing the Rare Word Problem in Neural Machine Translation". The
source word is found by attention, as in Jean et al. 2015, "On Using Very Large Target Vocabulary
for Neural Machine Translation".
"""

import collections
import math
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import read_lines, write_lines
from nmt_zoo.data_pipeline.text_form import normalised
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import UNK_ID
from nmt_zoo.decoding.search.types import in_graph, padded

if TYPE_CHECKING:  # A model of CTranslate2 aligns without TensorFlow.
    from nmt_zoo.models.base import TranslationModel


def read_lexicon(path: str) -> dict[str, str]:
    """Reads the most probable translation of each word, the first of equally probable ones.

    The lines are `source_word target_word probability`, separated by white space, in any order.
    Raises UserError: the file is unreadable or empty, or a line (named) has another form.
    """
    best = {}
    for number, line in enumerate(read_lines(path), start=1):
        try:
            source, target, text = line.split()
            probability = float(text)
            if not 0 <= probability <= 1:
                raise ValueError
        except ValueError:
            raise UserError(
                f"{path}, line {number}: {line[:60]!r}; expected a source word, a target word and "
                "a probability from 0 to 1"
            ) from None
        if probability > best.get(source, ("", -math.inf))[1]:
            best[source] = (target, probability)
    if not best:
        raise UserError(f"{path}: empty; expected lines `source_word target_word probability`")
    return {source: target for source, (target, _) in best.items()}


def write_lexicon(
    path: str,
    alignments: Iterable[Iterable[tuple[int, int]]],
    source_words: Iterable[Sequence[str]],
    target_words: Iterable[Sequence[str]],
) -> int:
    """Writes a lexicon of links for `read_lexicon`, atomically; returns the number of its lines.

    The probability is the target word's share of all links of the source word in a text. Lines are
    sorted by source word, then by falling probability. White space separates the three, so a word
    with white space inside, such as a number with no-break spaces, cannot be written. Its pairs are
    left out, and counted on standard error.
    Raises UserError: the file cannot be written.
    """
    counts = collections.Counter(
        (source[i], target[j])
        for links, source, target in zip(alignments, source_words, target_words, strict=True)
        for i, j in links
    )
    totals = collections.Counter()
    for (source, _), count in counts.items():
        totals[source] += count
    lines = [
        f"{source} {target} {count / totals[source]:.6g}"
        for (source, target), count in sorted(
            counts.items(), key=lambda entry: (entry[0][0], -entry[1], entry[0][1])
        )
        if source.split() == [source] and target.split() == [target]
    ]
    write_lines(path, lines)
    left_out = len(counts) - len(lines)
    if left_out:
        print(
            f"word pairs left out: {left_out:,} (a lexicon cannot hold words with white space "
            "inside, such as no-break spaces)",
            file=sys.stderr,
        )
    return len(lines)


class UnknownReplacer:
    """Detokenises translations and replaces every UNK.

    UNK is replaced by the source word with the highest weight of `model.align`, `</s>` excluded. If
    the lexicon has that word, its translation is written instead. With a `pretokenized` text, a
    "word" is one piece. The tokenizer is "word" or "pretokenized". The attribute `counts` has the
    numbers of replacements that were counted: "translated" with the lexicon, and "copied".
    Raises UserError: the model has no alignment, or the tokenizer never gives UNK.
    """

    def __init__(
        self,
        model: "TranslationModel",
        tokenizer: Tokenizer,
        lexicon: dict[str, str] | None = None,
    ) -> None:
        if tokenizer.kind == "bpe":
            raise UserError(
                "--replace_unknowns: a model with --tokenizer=bpe spells every word and never "
                "emits UNK; leave the flag out"
            )
        if not model.has_alignment:
            raise UserError(
                f"--replace_unknowns: the model cannot align words: {model.no_alignment}"
            )
        self.tokenizer = tokenizer
        form = tokenizer.source.form
        self.lexicon = {normalised(word, form): text for word, text in (lexicon or {}).items()}
        self.counts = collections.Counter()
        self._align = in_graph(model, model.align)

    def texts(
        self, source_line: str, target_ids: Sequence[list[int]]
    ) -> tuple[list[str], list[list[str]]]:
        """Detokenises translations of one line, given the ids of each.

        Returns (texts, words): the words are, for each text, the source words whose replacements
        are in it, for `count`.
        """
        decode = self.tokenizer.target.decode
        if not any(UNK_ID in ids for ids in target_ids):
            return [decode(ids) for ids in target_ids], [[] for _ in target_ids]
        (source_ids,) = self.tokenizer.source.encode([source_line])
        words = self.tokenizer.source.split(source_line)  # pyright: ignore[reportAttributeAccessIssue]
        weights = self._align(padded([source_ids] * len(target_ids)), padded(target_ids))
        # The last source position is </s>, which is not a word.
        positions = np.asarray(weights)[:, :, :-1].argmax(axis=2)  # [n, T], T with padding
        replaced = [
            [words[position] for token, position in zip(ids, row, strict=False) if token == UNK_ID]
            for ids, row in zip(target_ids, positions, strict=True)
        ]
        texts = [
            decode(ids, unknowns=[self.lexicon.get(word, word) for word in own_words])
            for ids, own_words in zip(target_ids, replaced, strict=True)
        ]
        return texts, replaced

    def count(self, words: Iterable[str]) -> None:
        """Counts the replacements of a translation that is written: source words, from `texts`."""
        for word in words:
            self.counts["translated" if word in self.lexicon else "copied"] += 1

    def summary(self) -> str:
        """Reports the replacements so far, in one line."""
        return (
            f"unknown words in translations: {self.counts['copied']:,} copied from the source, "
            f"{self.counts['translated']:,} translated with the lexicon"
        )
