"""Small texts of ids and their n-gram models."""

import numpy as np

from nmt_zoo.models.ngram import NgramLanguageModel
from nmt_zoo.training.ways.counting.counting import estimate
from tests.unit.training.expectation_maximisation.textbook import side

VOCAB = 9


def random_text(seed, sentences=40, words=range(4, VOCAB - 1), length=7):
    """Draws sentences with repeated n-grams: each word has one likely next word."""
    generator = np.random.default_rng(seed)
    text = []
    for _ in range(sentences):
        sentence = [int(generator.choice(words))]
        while len(sentence) < generator.integers(1, length + 1):
            usual = words[(sentence[-1] * 2) % len(words)]
            sentence.append(int(usual if generator.random() < 0.6 else generator.choice(words)))
        text.append(sentence)
    return [*text, text[0], text[0], [words[0]] * 5]


def model_of(sentences, order, vocab_size=VOCAB):
    """Makes the (`NgramLanguageModel`, `NgramTable`) of sentences, which are lists of ids."""
    table = estimate(side(sentences), vocab_size, order)
    model = NgramLanguageModel(vocab_size, vocab_size, order=order, num_ngrams=table.keys.size)
    model.fill(table)
    return model, table
