import numpy as np
import pytest
import sacrebleu

from nmt_zoo.training.ways.phrases import tuning


def counts_of(words, reference):
    return tuning.match_counts(words, tuning.ngram_counts(reference))


def test_bleu_is_that_of_sacrebleu():
    draw = np.random.default_rng(0)
    words = np.array(["a", "b", "c"])
    texts, references = (
        [words[draw.integers(0, 3, draw.integers(5, 12))].tolist() for _ in range(20)]
        for _ in range(2)
    )
    counts = np.sum([counts_of(*x) for x in zip(texts, references, strict=True)], axis=0)
    expected = sacrebleu.corpus_bleu(
        list(map(" ".join, texts)), [list(map(" ".join, references))], tokenize="none"
    )
    assert 100 * tuning.bleu(counts) == pytest.approx(expected.score)


def test_sentence_bleu_prefers_more_matches_and_the_right_length():
    reference = ["a", "b", "c", "d", "e", "f"]
    texts = ["a b c d e f", "a b c d e", "a b c d e f g", "a b c x e f", "f e d c b a"]
    counts = [counts_of(text.split(), reference) for text in texts]
    exact, short, long, one_wrong, reversed_ = tuning.bleu(np.array(counts), added=1)
    assert exact > max(short, long) > one_wrong > reversed_ > 0
    assert exact == pytest.approx(np.exp(1 - 7 / 6))  # The reference counts one word more.


def test_finds_weights_that_rank_as_the_score_does():
    draw = np.random.default_rng(0)
    true = np.array([1.0, -2.0, 0.0, 0.0])
    lists = []
    for _ in range(30):
        features = draw.normal(size=(10, 4))
        matches = np.clip(10 + 2 * features @ true, 0, 20)
        counts = [[m, m, m, m, 20, 20, 20, 20, 20, 20] for m in matches]
        lists.append(list(zip(features, counts, strict=True)))
    start = np.array([0.5, 0.5, 0.5, 9.0])
    free = np.array([0, 1, 2])
    candidates = tuning.joined([[(f * [1, 1, 1, 0], c) for f, c in some] for some in lists])
    found = tuning.optimise(candidates, start, free, draw)
    assert found[3] == 9 and np.abs(found[free]).sum() == pytest.approx(1.5)
    assert found[0] > 0 > found[1] and abs(found[1]) > found[0] > 3 * abs(found[2])
    assert tuning.chosen_bleu(candidates, found) > tuning.chosen_bleu(candidates, start)


def test_weights_stay_where_nothing_can_be_ranked():
    same = (np.ones(3), counts_of([1, 2], [1, 2]))
    candidates = tuning.joined([[same], [same, same]])
    weights = np.array([1.0, 2.0, 3.0])
    draw = np.random.default_rng(0)
    assert tuning.optimise(candidates, weights, np.array([0, 1]), draw) is weights
