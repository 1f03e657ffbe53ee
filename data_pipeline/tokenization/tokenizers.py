"""Turns text into ids and back: `bpe`, `word` and `pretokenized`.

A `Tokenizer` has a vocabulary for the source and one for the target. If the vocabulary is shared,
both are the same object.
"""

import hashlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import FilePath
from nmt_zoo.common.progress import Progress
from nmt_zoo.data_pipeline.lines import AnyLines
from nmt_zoo.data_pipeline.text_form import JOINER
from nmt_zoo.data_pipeline.tokenization.vocabularies import (
    BpeVocabulary,
    PieceVocabulary,
    Vocabulary,
    WordVocabulary,
)

KINDS = ("bpe", "word", "pretokenized")
SIDES = ("source", "target")

# BPE merges frequent pairs of pieces: more text than this changes hardly a piece and takes minutes.
SAMPLE_PAIRS = 1_000_000

_VOCABULARIES = {"bpe": BpeVocabulary, "word": WordVocabulary, "pretokenized": PieceVocabulary}


class Tokenizer(NamedTuple):
    """A kind of tokenisation and the vocabularies of both sides."""

    kind: str
    source: Vocabulary
    target: Vocabulary

    @property
    def shared(self) -> bool:
        """True if every id stands for the same entry on both sides."""
        return self.in_one_file or (
            self.kind == "bpe"
            and len(self.source) == len(self.target)
            and self.source.pieces(range(len(self.source)))
            == self.target.pieces(range(len(self.target)))
        )

    @property
    def in_one_file(self) -> bool:
        """True if both sides use one vocabulary."""
        return self.source is self.target or (
            self.kind == "bpe" and self.source.model is self.target.model  # pyright: ignore[reportAttributeAccessIssue]
        )

    def save(self, folder: FilePath) -> list[Path]:
        """Writes `shared.*`, or `source.*` and `target.*`, into a folder; returns their paths.

        Earlier vocabularies in the folder are removed, because `load` would prefer a shared one.
        """
        for path in (Path(folder, n + self.source.file_suffix) for n in ("shared", *SIDES)):
            path.unlink(missing_ok=True)
        sides = {n: getattr(self, n) for n in SIDES}
        sides = {"shared": self.source} if self.in_one_file else sides
        paths = []
        for name, vocabulary in sides.items():
            paths.append(Path(folder, name + vocabulary.file_suffix))
            vocabulary.save(paths[-1])
        return paths

    @classmethod
    def load(cls, kind: str, folder: FilePath, form: str = "nfc") -> "Tokenizer":
        """Reads what `save` wrote; `form` is that of the text, from `text_form.FORMS`.

        Raises UserError: a file is missing or damaged.
        """
        vocabulary = _VOCABULARIES[kind]
        shared = Path(folder, "shared" + vocabulary.file_suffix)
        if shared.exists():
            both = vocabulary.load(shared, form)
            return cls(kind, both, both)
        return cls(
            kind,
            *(vocabulary.load(Path(folder, s + vocabulary.file_suffix), form) for s in SIDES),
        )

    def target_words(self, lines: list[str]) -> list[str]:
        """Returns lines of the target side in words, the form of translations.

        Lines of ready-made pieces are joined. Text that is in words already stays as it is.
        """
        return self.target.joined(lines) if self.kind == "pretokenized" else lines  # pyright: ignore[reportAttributeAccessIssue]

    def fingerprint(self) -> str:
        """Returns a hash that changes with the kind, the form of the text and any entry."""
        digest = hashlib.sha256(f"{self.kind} {self.source.form}".encode())
        for side in (self.source, self.target):
            data = side.model if self.kind == "bpe" else "\n".join(side.words).encode()  # pyright: ignore[reportAttributeAccessIssue]
            digest.update(hashlib.sha256(data).digest())
            digest.update(str(side.language_token or "").encode())
        return digest.hexdigest()


def train_tokenizer(
    kind: str,
    source_lines: AnyLines,
    target_lines: AnyLines,
    *,
    vocab_size: int | None = None,
    min_word_count: int = 2,
    vocab_file: FilePath | None = None,
    form: str = "nfc",
) -> Tokenizer:
    """Makes the tokenizer of a training corpus.

    Args:
        kind: "bpe" (one vocabulary learnt from both sides, or a ready-made one), "word" (one
            vocabulary per side), or "pretokenized" (the text is already in pieces, listed in
            `vocab_file`).
        vocab_size: "bpe": number of pieces; "word": most entries per side, 4 of them
            special tokens; None for no limit.
        min_word_count: "word": fewest occurrences of a word; rarer words become UNK.
        vocab_file: "pretokenized": path of the list of pieces, one per line; "bpe": path of a
            SentencePiece model to use instead of learning one.
        form: the form of the text, from `text_form.FORMS`.

    Raises UserError: the kind is unknown, or the vocabulary cannot be made.
    """
    if kind == "bpe":
        if vocab_file:
            both = BpeVocabulary.from_model(vocab_file, form)
        else:
            sample = sample_lines(source_lines, target_lines, SAMPLE_PAIRS)
            both = BpeVocabulary.train(sample, vocab_size, form)
        return Tokenizer(kind, both, both)
    if kind == "word":
        sides = [
            WordVocabulary.train(lines, vocab_size, min_word_count, form)
            for lines in (source_lines, target_lines)
        ]
        if split := [n for n, side in zip(SIDES, sides, strict=True) if side.style == JOINER]:
            print(f"{' and '.join(split)}: marks are split from words, and joined again")
        return Tokenizer(kind, *sides)
    if kind == "pretokenized":
        if not vocab_file:
            raise UserError("--tokenizer=pretokenized needs --vocab_file, a list of pieces")
        both = PieceVocabulary.from_pieces(vocab_file, form)
        return Tokenizer(kind, both, both)
    raise UserError(f"unknown tokenizer {kind!r}; expected one of {', '.join(KINDS)}")


def sample_lines(
    source_lines: AnyLines, target_lines: AnyLines, num_pairs: int, seed: int = 0
) -> Iterator[str]:
    """Draws at most `num_pairs` pairs; yields their source lines, then their target lines.

    The lines keep the order of the corpus.
    """
    size = len(source_lines)
    chosen = np.ones(size, np.uint8)
    if size > num_pairs:
        chosen[np.random.default_rng(seed).choice(size, size - num_pairs, replace=False)] = 0
    total = 2 * min(size, num_pairs)
    with Progress("reading lines for the vocabulary", total, "lines") as progress:
        for lines in (source_lines, target_lines):
            for line in itertools.compress(lines, chosen.tobytes()):
                yield line
                progress.update(1)
