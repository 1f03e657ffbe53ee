"""Tokenizers inside a graph equal their Python twins byte for byte."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401 - a loaded SavedModel needs its ops

from nmt_zoo.data_pipeline.tokenization.graph_tokenizers import graph_vocabulary
from nmt_zoo.data_pipeline.tokenization.vocabularies import (
    EOS_ID,
    PAD_ID,
    SPECIALS,
    BpeVocabulary,
    PieceVocabulary,
    WordVocabulary,
)
from tests.unit.data_pipeline.small import foreign_model

TRAINING = [f"the quick brown fox jumps over {n} lazy dogs ." for n in range(100)]
TRAINING += ["say <pad> and </s> aloud", "tab\there"] * 20
NASTY = [
    *("", " ", "     ", "the", " the quick", "the quick ", "   the   quick   ", "\t"),
    *("\tthe\tquick\t", "the \t quick", "the\rquick\r", "the\vquick\ffox", "the\nquick"),
    *("the\x1cquick\x1ffox", "the\0quick\0", "the\u00a0quick\u3000fox\u2028dogs\u0085."),
    *("Ελληνικά 日本語 ﷺ", "😀 👨‍👩‍👧the🏳️‍🌈"),
    "e\u0301 é \ufeffthe q\u0323u\u00adick\u2060 e\u200b\u0301 th\u200ce \u202f\u200b fox",
    "\u3000\u200b\ufeff\u00a0",
    "".join(chr(c) for c in range(0x20, 0x500)) + "\u1112\u1161\u11ab \u0958 \u212b",
    *("</s>", "<pad> the </s> quick <s> <unk>", "the</s>quick", "▁", "▁the▁quick ▁fox ▁ ▁ ▁a▁b"),
    *(
        "“The” (quick)…",
        "l'homme, the fox's U.S... 10:30 ?!)\". ((((x ‿. ‿\u2060.",
        "' - -- ... 's",
    ),
    *("the@@ quick@@ fox @@ over@@", "@@ @@", "⁇ ▅ <0x41>", "the quick " * 2000, "x" * 5000),
]


def ready_model(**options):
    """Makes a vocabulary from a foreign SentencePiece model, trained with the given options."""
    ids = {f"{name}_id": i for i, name in enumerate(("pad", "unk", "bos", "eos"))}
    size = {"vocab_size": 320, "hard_vocab_limit": False, "byte_fallback": True}
    size["model_type"] = "unigram"
    return BpeVocabulary(foreign_model(TRAINING, **ids, **size, **options))


VOCABULARIES = {
    "bpe": lambda: BpeVocabulary.train(TRAINING, 400),
    "spaces kept": lambda: ready_model(remove_extra_whitespaces=False),
    "spaces as suffixes": lambda: ready_model(
        remove_extra_whitespaces=False, treat_whitespace_as_suffix=True
    ),
    "word": lambda: WordVocabulary.train([*TRAINING, *NASTY[:-2]] * 2, None, 2),
    "word, as it is": lambda: WordVocabulary.train([*TRAINING, *NASTY[:-2]] * 2, None, 2, "none"),
    "word, marks split": lambda: WordVocabulary.train([*NASTY[:-2]] * 2, None, 2),
    "bpe, as it is": lambda: BpeVocabulary.train(TRAINING, 400, "none"),
    "@@": lambda: PieceVocabulary([*SPECIALS, "the", "the@@", "quick@@", "fox", "@@", "@@@@", "▁"]),
    "▁": lambda: PieceVocabulary([*SPECIALS, "▁", "▁the", "quick", "▁fox", "▁▁", "▁a▁b", "the@@"]),
}


class Endpoints(tf.Module):
    """A module with the tokenizer functions that a SavedModel of this project contains."""

    def __init__(self, vocabulary):
        super().__init__()
        self.vocabulary = graph_vocabulary(vocabulary)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def encode(self, lines):
        return self.vocabulary.encode(lines)

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)], autograph=False)
    def decode(self, ids):
        return self.vocabulary.decode(ids)

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)], autograph=False)
    def pieces(self, ids):
        return tf.gather(self.vocabulary.words, ids)


@pytest.fixture(scope="module", params=VOCABULARIES)
def vocabulary(request):
    return VOCABULARIES[request.param]()


@pytest.fixture(scope="module")
def graph(vocabulary, tmp_path_factory):
    """The graph twin as functions of unknown shapes from a SavedModel."""
    folder = str(tmp_path_factory.mktemp("saved"))
    tf.saved_model.save(Endpoints(vocabulary), folder)
    return tf.saved_model.load(folder)


def padded(rows):
    width = max(map(len, rows))
    return [[*row, *[PAD_ID] * (width - len(row))] for row in rows]


def texts(strings):
    return [s.decode() for s in strings.numpy()]


def test_encodes_like_its_twin_together_and_line_by_line(vocabulary, graph):
    ids = graph.encode(tf.constant(NASTY))
    assert ids.dtype == tf.int32
    assert ids.numpy().tolist() == padded(vocabulary.encode(NASTY))
    for line in NASTY:
        assert graph.encode(tf.constant([line])).numpy().tolist() == vocabulary.encode([line])
    assert graph.encode(tf.constant([], tf.string)).shape[0] == 0


def test_decodes_like_its_twin_whatever_the_ids(vocabulary, graph):
    """What was encoded, padding, unknowns, invalid UTF-8, line feeds, and no EOS or several."""
    last = len(vocabulary) - 1
    draws = np.random.default_rng(0).integers(0, len(vocabulary), (500, 12))
    draws[:100] %= min(len(vocabulary), 20)  # More special ids, and more of the first bytes.
    for ids in (
        padded(vocabulary.encode(NASTY)),
        draws,
        [[4, EOS_ID, last, EOS_ID], [EOS_ID, 4, last, last], [4, last, 4, last]],
        [[last, 4, PAD_ID, PAD_ID], [last, 4, EOS_ID, PAD_ID]],
    ):
        expected = [vocabulary.decode(row) for row in ids]
        assert texts(graph.decode(tf.constant(ids, tf.int32))) == expected
        assert not any("\n" in line for line in expected)
    assert expected == [vocabulary.decode([last, 4])] * 2
    assert graph.decode(tf.zeros([0, 3], tf.int32)).shape == (0,)
    assert texts(graph.decode(tf.zeros([2, 0], tf.int32))) == ["", ""]


def test_names_pieces_like_its_twin(vocabulary, graph):
    ids = np.arange(len(vocabulary), dtype=np.int32)[None]
    assert [texts(row) for row in graph.pieces(tf.constant(ids))] == [vocabulary.pieces(ids[0])]
