"""Makes small encoded corpora and models of pieces, and lists pairs."""

import io
import random

import numpy as np
import sentencepiece


def sentences(seed, count):
    """Makes random lines of 1 to 15 one-letter words."""
    rng = random.Random(seed)
    return [
        " ".join(rng.choice("abcdefgh") for _ in range(rng.randint(1, 15))) for _ in range(count)
    ]


SOURCE, TARGET = sentences(0, 200), sentences(1, 200)
SOURCE += SOURCE[:20]  # Some pairs occur twice and must count twice.
TARGET += TARGET[:20]


def rows_of(side):
    """Lists the ids of every sentence."""
    return [row.tolist() for row in np.split(side.ids, np.cumsum(side.lengths)[:-1])]


def pairs_of(corpus):
    """Lists (source ids, target ids) of every pair."""
    return list(zip(rows_of(corpus.source), rows_of(corpus.target), strict=True))


def same_corpus(one, other):
    """Returns whether two corpora contain the same pairs in the same order."""
    return pairs_of(one) == pairs_of(other)


def foreign_model(lines, **options):
    """Trains a SentencePiece model as others do, without our special ids; returns its bytes."""
    writer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=writer,
        minloglevel=2,
        **{"model_type": "bpe", "vocab_size": 100, **options},
    )
    return writer.getvalue()
