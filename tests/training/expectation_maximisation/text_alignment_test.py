"""Compares the models of align.py with those of train.py."""

import numpy as np
import pytest

import models
from data_pipeline.encoded import EncodedCorpus
from tests.training.expectation_maximisation import textbook
from training.corpus.preparation import WordTable
from training.expectation_maximisation.agreement import index_directions
from training.expectation_maximisation.em_update import AgreementUpdate, EMUpdate
from training.expectation_maximisation.text_alignment import train_chain

# Model of align.py -> the same model of train.py, its settings and its iterations of Model 1.
TWINS = {
    "ibm1": ("ibm1", {}, 0),
    "ibm2": ("ibm2", {"positions": "diagonal"}, 3),
    "hmm": ("hmm_alignment", {}, 3),
}


def new_model(preset, corpus, words, settings):
    sizes = [int(side.ids.max()) + 1 for side in corpus]
    model = models.create(preset, *sizes, num_word_pairs=words.source_words.size, **settings)
    WordTable(corpus).fill(model)
    return model


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("name", TWINS)
def test_a_text_gives_the_same_table_as_in_train_py(name, both):
    preset, settings, before = TWINS[name]
    corpus = textbook.corpus_of(textbook.random_pairs(60, seed=7, words=12))
    ways = (corpus, EncodedCorpus(corpus.target, corpus.source))
    directions = index_directions(corpus)
    twins = [
        new_model(preset, way, words, settings) for way, words in zip(ways, directions, strict=True)
    ]
    options = {"alpha": 0.1, "model1_steps": before}
    if both:
        update, given = AgreementUpdate(twins[0], directions, twins[1], **options), directions
    else:
        update, given = EMUpdate(twins[0], directions.forward, **options), directions.forward
    for _ in range(before + 3):
        update.step(given)
    trained = list(directions) if both else [given]
    estimates = train_chain(trained, name, 3, report=lambda line: None)
    for model, words, estimate in zip(twins, trained, estimates, strict=False):
        pairs = words.source_words[:, None], words.target_words[:, None]
        found = np.asarray(model.table.look_up(*pairs)).ravel()
        np.testing.assert_allclose(estimate.translation, found, rtol=1e-4)
