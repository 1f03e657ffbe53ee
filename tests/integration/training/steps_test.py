"""Steps without a finite loss, and signals in the middle of a validation."""

import itertools
import os
import signal

import numpy as np
import pytest

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.batching import Batching
from nmt_zoo.data_pipeline.tokenization.vocabularies import UNK_ID
from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.model_directory.weight_files import read_archive
from nmt_zoo.training.loop import trainer as loop
from tests.integration.training.loop_test import Script, records, trainer
from tests.tiny import batches

HUGE = 3e38  # Finite, but overflows when the embedding is scaled.


@pytest.fixture
def corpus(corpus):
    """The corpus with a rare source token at the beginning of two sentences."""
    source = corpus.source._replace(ids=np.array(corpus.source.ids))
    starts = np.cumsum([0, *source.lengths])
    source.ids[starts[[3, 60]]] = UNK_ID
    return corpus._replace(source=source)


def trainer_of_spoilt_model(directory, corpus):
    """Makes a trainer whose loss is not finite for every batch with the rare token."""
    run = trainer(directory, corpus, [9, 8, 7, 6])
    (table,) = run.way.model.source_embedding.trainable_variables
    rows = table.numpy()
    rows[UNK_ID] = HUGE
    table.assign(rows)
    return run


def bad_steps(corpus, steps):
    """Lists which of the first `steps` steps have a batch with the rare token."""
    epochs = (batches(corpus, Batching(64), seed=1, epoch=epoch) for epoch in range(steps))
    first = itertools.islice(itertools.chain.from_iterable(epochs), steps)
    return [n for n, batch in enumerate(first, start=1) if UNK_ID in batch["source_ids"].numpy()]


def test_a_step_without_a_finite_loss_changes_nothing_is_counted_and_its_batch_kept(
    directory, corpus, monkeypatch, capsys
):
    expected = bad_steps(corpus, 12)
    assert 1 < len(expected) < 12 and min(np.diff(expected)) > 1
    # Bad steps never follow each other, so the limit of two in a row is not reached.
    monkeypatch.setattr(loop, "MAX_BAD_STEPS", 2)
    run = trainer_of_spoilt_model(directory, corpus)
    batch = next(b for b in batches(corpus, Batching(64)) if UNK_ID in b["source_ids"].numpy())
    before = {name: np.array(v) for name, v in run.variables.items()}
    assert float(run.way.step(batch)["skipped"][0]) == 1.0
    for name, v in run.variables.items():
        if not name.startswith("seed/"):
            np.testing.assert_array_equal(before[name], v, err_msg=name)
    assert run.run() == 0
    assert run.state["skipped_steps"] == len(expected)
    assert int(run.way.optimizer.iterations) == 12 - len(expected)
    kept = sorted(directory.bad_batch_folder.iterdir())
    assert [int(path.stem) for path in kept] == expected
    arrays, state = read_archive(kept[0])
    assert UNK_ID in arrays["0/source_ids"] and state["step"] == expected[0]
    assert records(directory, "train")[-1]["skipped_steps"] == len(expected)
    assert all(np.isfinite(record["loss"]) for record in records(directory, "train"))
    assert capsys.readouterr().err.count("skipped, because a number is not finite") == len(expected)


def test_too_many_bad_steps_in_a_row_stop_the_run(directory, corpus, monkeypatch):
    first = bad_steps(corpus, 12)[0]
    monkeypatch.setattr(loop, "MAX_BAD_STEPS", 1)
    run = trainer_of_spoilt_model(directory, corpus)
    with pytest.raises(UserError, match=f"1 steps in a row, up to step {first}, .*bad_batches"):
        run.run()


class Interrupted(Script):
    """An evaluator that receives a signal in the middle of its first validation."""

    def __call__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        return super().__call__()


def test_a_signal_ends_a_validation_and_the_next_sitting_makes_up_for_it(quick_directory, corpus):
    run = trainer(quick_directory, corpus, [])
    run.evaluator = Interrupted([])  # Has no results, so a validation that completed would fail.
    assert run.run() == signal.SIGTERM
    assert quick_directory.checkpoint_steps() == [4] and not records(quick_directory, "valid")
    again = trainer(ModelDirectory(quick_directory.path), corpus, [9, 8, 7, 6])
    assert again.run() == 0
    assert [(r["step"], r["perplexity"]) for r in records(quick_directory, "valid")] == [
        (4, 9),
        (8, 8),
        (12, 7),
    ]
    state = read_archive(quick_directory.checkpoint_path(12))[1]
    assert state["best_perplexity"] == 7
