import numpy as np
import pytest
import sacrebleu

from nmt_zoo.training.ways.phrases import tuning


def random_candidates(seed, num_sentences=6, most=5, num_features=3):
    draw = np.random.default_rng(seed)
    lists = []
    for _ in range(num_sentences):
        reference = draw.integers(0, 4, draw.integers(4, 9)).tolist()
        lists.append(
            [
                (
                    # Equal slopes and heights are to occur.
                    draw.integers(-3, 4, num_features).astype(float),
                    tuning.match_counts(
                        draw.integers(0, 4, draw.integers(0, 9)).tolist(), reference
                    ),
                )
                for _ in range(draw.integers(1, most + 1))
            ]
        )
    return tuning.joined(lists)


def test_bleu_is_that_of_sacrebleu():
    draw = np.random.default_rng(0)
    words = np.array(["a", "b", "c"])
    texts, references = (
        [words[draw.integers(0, 3, draw.integers(5, 12))].tolist() for _ in range(20)]
        for _ in range(2)
    )
    counts = np.sum([tuning.match_counts(*x) for x in zip(texts, references, strict=True)], axis=0)
    expected = sacrebleu.corpus_bleu(
        list(map(" ".join, texts)), [list(map(" ".join, references))], tokenize="none"
    )
    assert 100 * tuning.bleu(counts) == pytest.approx(expected.score)


@pytest.mark.parametrize("seed", range(30))
def test_line_search_finds_the_best_of_all_steps(seed):
    candidates = random_candidates(seed)
    draw = np.random.default_rng(seed)
    weights, direction = draw.normal(size=(2, 3))
    step, found = tuning.line_search(candidates, weights, direction)
    steps = np.concatenate([[-1e6, 1e6], np.linspace(-40, 40, 4001)])
    values = [tuning.chosen_bleu(candidates, weights + x * direction) for x in steps]
    assert found == pytest.approx(tuning.chosen_bleu(candidates, weights + step * direction))
    assert found >= max(values) - 1e-6


@pytest.mark.parametrize("seed", range(5))
def test_optimised_weights_are_never_worse(seed):
    candidates = random_candidates(seed, num_sentences=20)
    weights = np.array([0.5, -0.2, 3.0])
    best, value = tuning.optimise(
        candidates, weights, np.array([0, 1]), np.random.default_rng(0), restarts=2
    )
    assert value >= tuning.chosen_bleu(candidates, weights)
    assert tuning.chosen_bleu(candidates, best) == pytest.approx(value)
