"""Epochs whose text is encoded anew: batches follow from seed and epoch, and keep to all limits."""

import pytest

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.batching import Batching
from nmt_zoo.data_pipeline.encoded import EncodedCorpus
from nmt_zoo.data_pipeline.encoding import encode_lines
from nmt_zoo.data_pipeline.pipeline import dataset_of
from nmt_zoo.data_pipeline.tokenization.altered_pairs import AlteredPairs
from nmt_zoo.data_pipeline.tokenization.bpe_dropout import BpeDropout
from nmt_zoo.data_pipeline.tokenization.epoch_text import EpochText
from nmt_zoo.data_pipeline.tokenization.tokenizers import train_tokenizer
from nmt_zoo.training.corpus.epochs import Epochs
from tests.tiny import pairs
from tests.unit.data_pipeline.pipeline_test import arrays, same_batches

SOURCE, TARGET = zip(*pairs(150), strict=True)
MAX_TOKENS = 128


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer("bpe", SOURCE, TARGET, vocab_size=300)


@pytest.fixture(scope="module")
def corpus(tokenizer):
    return EncodedCorpus(*(encode_lines(tokenizer.source, side) for side in (SOURCE, TARGET)))


def epochs(tokenizer, corpus, folder, rate=0.3, share=0.0):
    altered = AlteredPairs(tokenizer, {"copies": share}, 1, 60) if share else None
    text = EpochText(60, altered, BpeDropout(tokenizer, rate, 1, 60))
    return Epochs(corpus, Batching(MAX_TOKENS), 1, text, folder)


def batches(of, epoch, first=0):
    return arrays(dataset_of(*of.begin(epoch, 1), first))


def test_a_resumed_epoch_has_the_batches_of_one_that_was_never_stopped(tokenizer, corpus, tmp_path):
    whole = epochs(tokenizer, corpus, tmp_path, share=0.1)
    of_epochs = [batches(whole, epoch) for epoch in range(3)]
    again = epochs(tokenizer, corpus, tmp_path, share=0.1)
    assert same_batches(batches(again, 2, first=3), of_epochs[2][3:])
    assert same_batches(batches(whole, 0), of_epochs[0])
    sums = [sum(int(batch["source_ids"].sum()) for batch in epoch) for epoch in of_epochs]
    assert len(set(sums)) == 3
    dropout = epochs(tokenizer, corpus, tmp_path)
    sampled = sum(side.ids.size for side in dropout.corpus_of(0))
    share = sampled / sum(side.ids.size for side in corpus)
    assert share > 1 and f"BPE-dropout: {share:.2f} times" in dropout.describe(tokenizer)[-1]
    without = Epochs(corpus, Batching(MAX_TOKENS), 1)
    assert without.corpus_of(0) is corpus and without.begin(3, 1)[0] is corpus


@pytest.mark.parametrize("static", [False, True])
def test_no_batch_is_larger_than_allowed_and_every_sentence_is_whole(
    tokenizer, corpus, tmp_path, static
):
    of = epochs(tokenizer, corpus, tmp_path, rate=0.6)
    if static:
        of.batching = of.batching._replace(longest=60)  # Any epoch may have such a sentence.
    shapes = set()
    for epoch in range(2):
        texts = []
        for batch in batches(of, epoch):
            source, target = batch["source_ids"], batch["target_ids"]
            assert len(source) * max(source.shape[1], target.shape[1]) <= MAX_TOKENS
            shapes.add((*source.shape, target.shape[1]))
            decode = tokenizer.source.decode
            texts += [(decode(s), decode(t)) for s, t in zip(source, target, strict=True) if s[0]]
        assert sorted(texts) == sorted(zip(SOURCE, TARGET, strict=True))
    assert not static or len(shapes) <= 24


def test_an_error_while_the_next_epoch_is_encoded_is_raised_where_the_epoch_begins(
    tokenizer, corpus, tmp_path
):
    of = epochs(tokenizer, corpus, tmp_path)
    of.begin(0, 1)
    of.folder = tmp_path / "none"
    of.begin(1, 1)
    with pytest.raises(UserError, match="cannot be written"):
        of.begin(2, 1)
