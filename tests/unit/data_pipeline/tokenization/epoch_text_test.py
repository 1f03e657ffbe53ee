"""The text of an epoch: altered pairs in random pieces, encoded in parts and kept in a file."""

import numpy as np
import pytest

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.encoded import EncodedCorpus
from nmt_zoo.data_pipeline.encoding import encode_lines
from nmt_zoo.data_pipeline.tokenization import epoch_text
from nmt_zoo.data_pipeline.tokenization.altered_pairs import AlteredPairs
from nmt_zoo.data_pipeline.tokenization.bpe_dropout import BpeDropout
from nmt_zoo.data_pipeline.tokenization.epoch_text import EpochText
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import BpeVocabulary
from tests.unit.data_pipeline.small import rows_of

TEXT = ["the banana and the bandana", "a banana in the sun", "the sun and a band", "banana"] * 20
HARD = ["", "▁", "  the   ▁▁banana ", "naïve — 日本語 bananas", "</s> <unk> <0x41> the", "b" * 300]
LINES = (TEXT + HARD), (TEXT + HARD)[::-1]


@pytest.fixture(scope="module")
def vocabulary():
    return BpeVocabulary.train(TEXT, 320)


@pytest.fixture(scope="module")
def tokenizer(vocabulary):
    return Tokenizer("bpe", vocabulary, vocabulary)


@pytest.fixture(scope="module")
def corpus(vocabulary):
    return EncodedCorpus(*(encode_lines(vocabulary, lines) for lines in LINES))


@pytest.mark.parametrize("tokens", [1, 50, 10**6])
def test_a_corpus_is_encoded_in_parts_and_kept_in_a_file(
    tokenizer, corpus, tokens, tmp_path, monkeypatch
):
    monkeypatch.setattr(epoch_text, "_TOKENS_AT_ONCE", tokens)
    altered, dropout = AlteredPairs(tokenizer, 0.5, 1, 99), BpeDropout(tokenizer, 0.3, 1, 99)
    found = EpochText(99, altered, dropout).encode(corpus, 4, tmp_path)
    of_altered = altered.sample(corpus, 4)
    for side in (0, 1):
        assert isinstance(found[side].ids, np.memmap)
        assert rows_of(found[side]) == rows_of(dropout.sample(of_altered[side], side, 4))
    assert not list(tmp_path.iterdir())


def test_lack_of_space_is_an_error_for_people(tokenizer, corpus, tmp_path):
    text = EpochText(99, AlteredPairs(tokenizer, 0.1, 1, 99))
    with pytest.raises(UserError, match="the text of an epoch cannot be written"):
        text.encode(corpus, 0, tmp_path / "none")
