"""Unknown words that translations by phrases copy."""

from types import SimpleNamespace

import numpy as np
import pytest

from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import SPECIALS, UNK_ID, WordVocabulary
from nmt_zoo.models.phrases.table_decoder import Phrase, PhraseTranslation
from nmt_zoo.training.ways.phrases.tuning_update import Tuning
from tests.unit.models.phrase_model_test import random_model

# Of words, each side numbers its own.
TOKENIZER = Tokenizer(
    "word",
    WordVocabulary([*SPECIALS, "the", "Peter", "sleeps"]),
    WordVocabulary([*SPECIALS, "Peter", "schläft", "der"]),
)
SLEEPS = TOKENIZER.target.words.index("schläft")


def translation(*phrases):
    return PhraseTranslation([UNK_ID, SLEEPS, 3], -1.0, np.zeros(2), lambda: [*phrases])


@pytest.mark.parametrize(("links", "copied"), [([], "c"), ([(2, 0)], "c"), ([(1, 0)], "b")])
def test_an_unknown_word_is_the_one_it_is_linked_with_or_else_of_its_phrase(links, copied):
    found = translation(Phrase([0], [1], [(0, 1)]), Phrase([2, 1], [0], links))
    assert found.words("abc", UNK_ID) == [copied, SLEEPS]


@pytest.mark.parametrize(
    ("reference", "matches"), [("Peter schläft", [2, 1]), ("schläft schläft", [1, 0])]
)
def test_tuning_compares_a_copied_word_with_the_words_of_the_reference(reference, matches):
    lines, candidates = [([5, 6, 3], "Peter sleeps", reference)], [{}]
    tuning = SimpleNamespace(lines=lines, tokenizer=TOKENIZER, candidates=candidates)
    phrases = Phrase([0], [0], [(0, 0)]), Phrase([1], [1], [(1, 1)])
    Tuning._add(tuning, 0, [translation(*phrases)])
    ((_, counts),) = candidates[0].values()
    assert counts[:2] == matches


def test_all_weights_are_tuned_but_the_price_of_unknown_words():
    model, words = random_model(1), WordVocabulary([*SPECIALS, *"abcde"])
    lines = ["a b c d", "c d e a", "b d a c"]
    tuning = Tuning(model, Tokenizer("word", words, words), lines, lines, seed=1)
    first = np.array(model.feature_weights)
    for _ in range(2):
        tuning.step(None)
    changed = np.array(model.feature_weights) != first
    assert changed[:-1].all() and not changed[-1]
