"""Compares the Kneser-Ney language model with a loop over dictionaries."""

import collections
import itertools

import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo.training.ways.counting.counting import FALLBACK, estimate_discounts
from tests.ngrams import VOCAB, model_of, random_text

PAD, UNK, BOS, EOS = range(4)


def textbook(sentences, order, vocab_size=VOCAB):
    """Returns the function `probability(context, word)`, by the equations, over dictionaries."""
    padded = [(BOS, *sentence, EOS) for sentence in sentences]
    raw, left = collections.Counter(), collections.defaultdict(set)
    for sentence in padded:
        for start, end in itertools.combinations(range(len(sentence) + 1), 2):
            raw[sentence[start:end]] += 1
            if start:
                left[sentence[start:end]].add(sentence[start - 1])
    adjusted = {
        gram: raw[gram] if len(gram) == order or gram[0] == BOS else len(left[gram])
        for gram in raw
        if gram != (BOS,) and len(gram) <= order
    }
    taken = {}
    for length in range(1, order + 1):
        counts = [count for gram, count in adjusted.items() if len(gram) == length]
        taken[length] = estimate_discounts(np.array(counts))[0]

    def probability(context, word):
        lower = probability(context[1:], word) if context else 1 / (vocab_size - 2)
        behind = [adjusted[gram] for gram in adjusted if gram[:-1] == context]
        if not behind:
            return lower
        off = [taken[len(context) + 1][min(count, 3) - 1] for count in behind]
        count = adjusted.get((*context, word), 0)
        seen = count - taken[len(context) + 1][min(count, 3) - 1] if count else 0.0
        return (seen + sum(off) * lower) / sum(behind)

    return probability


@pytest.mark.parametrize("order", [1, 2, 3])
def test_equals_a_textbook_loop(order):
    text = random_text(order)
    model, table = model_of(text, order)
    padded = [(BOS, *sentence, EOS) for sentence in text]
    for length, count in zip(range(2, order + 1), table.num_ngrams, strict=True):
        grams = {s[i : i + length] for s in padded for i in range(len(s) - length + 1)}
        assert count == len(grams)
    assert sum(table.num_ngrams) == table.keys.size and (np.diff(table.keys) > 0).all()
    expected = textbook(text, order)
    generator = np.random.default_rng(5)
    histories = [sentence[:n] for sentence in text[:4] for n in range(len(sentence) + 1)]
    histories += generator.integers(4, VOCAB, (10, 4)).tolist()
    for history in histories:
        context = tuple([BOS, *history][len(history) + 2 - order :] if order > 1 else [])
        state = np.full((1, order - 1), PAD, np.int32)
        if order > 1:
            state[0, order - 1 - len(context) :] = context
        found = np.exp(model._log_probs(tf.constant(state)))[0]
        for word in [UNK, *range(3, VOCAB)]:
            assert found[word] == pytest.approx(expected(context, word), rel=1e-5, abs=1e-6)


Y = 100 / 180


@pytest.mark.parametrize(
    ("counts", "wanted"),
    [
        (
            np.repeat([1, 2, 3, 4, 7], [100, 40, 20, 12, 30]),
            [1 - 2 * Y * 0.4, 2 - 3 * Y * 0.5, 3 - 4 * Y * 0.6],
        ),
        ([], FALLBACK),
        ([0, 1, 1, 2, 3], FALLBACK),  # No count of 4.
        ([1, 2, 3, 3, 3, 3, 4], FALLBACK),  # The discount of 2 would be negative.
    ],
)
def test_discounts_follow_the_equation_or_are_fixed_for_a_text_too_small(counts, wanted):
    found, estimated = estimate_discounts(np.array(counts, np.int64))
    assert estimated == (wanted is not FALLBACK)
    np.testing.assert_allclose(found, wanted)
