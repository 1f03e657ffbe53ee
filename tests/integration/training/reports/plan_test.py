"""Tests of the plan that --dry_run prints."""

import re

import pytest

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.batching import Batching
from nmt_zoo.data_pipeline.encoding import encode_pairs
from nmt_zoo.data_pipeline.mixing import mixture
from nmt_zoo.data_pipeline.tokenization.tokenizers import train_tokenizer
from nmt_zoo.training.corpus.epochs import Epochs
from nmt_zoo.training.reports.plan import report
from tests.unit.data_pipeline.small import SOURCE, TARGET

BUDGET = 64


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer("bpe", SOURCE, TARGET, vocab_size=290)


@pytest.fixture(scope="module")
def corpus(tokenizer, tmp_path_factory):
    return encode_pairs(SOURCE, TARGET, tokenizer, tmp_path_factory.mktemp("cache")).corpus


@pytest.mark.parametrize("pad_to_bucket", [False, True])
def test_plan_says_what_an_epoch_is(corpus, tokenizer, pad_to_bucket):
    longest = int(max(side.lengths.max() for side in corpus))
    batching = Batching(BUDGET, longest=longest if pad_to_bucket else 0)
    epochs = Epochs(corpus, batching, seed=1)
    text = "\n".join(report(epochs, tokenizer))
    assert "training pairs: 220" in text
    assert f"batches per epoch: {epochs.first.batch_sizes.size}" in text
    assert re.search(r"largest batch: \d+ rows of \d+ source and \d+ target tokens", text)
    counts = [int(count) for count in re.findall(r"^    \d+ x \d+ x \d+: (\d+)$", text, re.M)]
    assert sum(counts) == (epochs.first.batch_sizes.size if pad_to_bucket else 0)


def test_examples_are_pairs_of_the_text(corpus, tokenizer):
    text = "\n".join(report(Epochs(corpus, Batching(BUDGET), seed=1), tokenizer))
    examples = re.findall(r"^pair (\d+):\n    (.*)\n      (.*)\n    (.*)\n", text, re.M)
    assert len(examples) == 3
    for number, source, pieces, target in examples:
        assert (source, target) == (SOURCE[int(number)], TARGET[int(number)])
        assert pieces.split()[-1] == "</s>"


@pytest.mark.parametrize("weights", ["1", "1,2,3", "a,b", "1,-1", "0,0", "1,"])
def test_weights_that_do_not_fit_the_corpora_are_refused(weights):
    with pytest.raises(UserError, match=r"--corpus_weights=.*expected 2 numbers") as e:
        mixture([20, 200], weights)
    assert "\n" not in str(e.value)


def test_corpus_of_which_nothing_is_left_is_named():
    with pytest.raises(UserError, match="pairs of corpus 2 were dropped"):
        mixture([220, 0])
