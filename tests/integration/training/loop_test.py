"""Tests of the training loop and the model directory, with a real model on a small corpus."""

import copy
import itertools
import json
import math
import shutil
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import sacrebleu
import tensorflow as tf

from nmt_zoo import models
from nmt_zoo.common.errors import UserError
from nmt_zoo.configuration.options import DEFAULTS, LENGTH_PENALTY
from nmt_zoo.configuration.resolver import options_of
from nmt_zoo.data_pipeline.batching import Batching
from nmt_zoo.data_pipeline.encoded import EncodedCorpus
from nmt_zoo.data_pipeline.encoding import encode_lines, encode_pairs
from nmt_zoo.data_pipeline.tokenization.tokenizers import train_tokenizer
from nmt_zoo.decoding.translator import Translator
from nmt_zoo.model_directory.directory import ModelDirectory, model_arrays, read_archive, restore
from nmt_zoo.training.corpus.epochs import Epochs
from nmt_zoo.training.loop import limits, log
from nmt_zoo.training.loop import trainer as loop
from nmt_zoo.training.loop.ending import Ending
from nmt_zoo.training.loop.trainer import Trainer
from nmt_zoo.training.validation.choices import LEAST_LINES, penalty_choice
from nmt_zoo.training.validation.evaluation import Evaluation, Evaluator, perplexity
from nmt_zoo.training.ways.gradient.adam import adam
from nmt_zoo.training.ways.gradient.gradient import Gradient
from tests.tiny import SMALL, batches, pairs

# Some tests run the loop eagerly; that its data are prepared in graphs is meant to be so.
pytestmark = pytest.mark.filterwarnings("ignore:Even though the `tf.config.experimental_run")

OPTIONS = {
    **DEFAULTS,
    "max_steps": 12,
    "patience": 0,
    "eval_every_steps": 4,
    "save_every_steps": 4,
    "log_every_steps": 2,
    "average_checkpoints": 2,
}


@pytest.fixture(scope="module")
def text():
    return [list(side) for side in zip(*pairs(120), strict=True)]


@pytest.fixture(scope="module")
def tokenizer(text):
    return train_tokenizer("word", *text, min_word_count=1)


@pytest.fixture(scope="module")
def corpus(text, tokenizer, tmp_path_factory):
    return encode_pairs(*text, tokenizer, tmp_path_factory.mktemp("cache")).corpus


def started(path, tokenizer, preset, settings):
    """Starts a model directory, without any step."""
    directory = ModelDirectory(path)
    config = {
        "model": preset,
        "settings": settings,
        "tokenizer": "word",
        "vocab_sizes": [len(tokenizer.source), len(tokenizer.target)],
        "dataset": "files",
        "options": dict(options_of(preset, "files", {})),
    }
    directory.start(config, tokenizer)
    return directory


@pytest.fixture
def directory(tmp_path, tokenizer):
    """A directory of a model whose updates are traced in a fifth of a Transformer's time."""
    return started(tmp_path / "run", tokenizer, "attention_ibm2", {"width": 16, "max_positions": 8})


@pytest.fixture
def transformer_directory(tmp_path, tokenizer):
    """A directory of a model with layers and dropout, whose seeds are state, too."""
    settings = {**SMALL, "tie_embeddings": "target"}
    return started(tmp_path / "run", tokenizer, "transformer_tiny", settings)


class Script:
    """An evaluator that returns the scores of a list in turn: perplexities, or with BLEU."""

    def __init__(self, scores):
        self.scores = [s if isinstance(s, tuple) else (s, 0.0) for s in scores]

    def __call__(self):
        return Evaluation(*self.scores.pop(0), [("a", "b", "c")])


# Updates and their variables at the beginning; tracing one takes longer than a dozen steps.
TRACED = {}


def make_update(directory, learning_rate, of_update):
    of_adam = {"learning_rate": learning_rate, "warmup_steps": 10, **of_update.get("of_adam", {})}
    others = {name: value for name, value in of_update.items() if name != "of_adam"}
    return Gradient(directory.new_model(), adam(**of_adam), **others)


def trainer(
    directory,
    corpus,
    scores,
    learning_rate=1e-3,
    of_update=None,
    of_epochs=None,
    more=None,
    fresh=False,
    **changes,
):
    """Makes a `Trainer`.

    `of_update`, `of_epochs` and `more` are arguments of the update, the epochs and the trainer;
    `changes` are training options. An update is as new, but has been traced before unless `fresh`.
    """
    settings = {"learning_rate": learning_rate, "of_update": of_update or {}}
    config = directory.config()
    key = json.dumps([*(config[n] for n in ("model", "settings", "vocab_sizes")), settings])
    update = make_update(directory, **settings) if fresh or key not in TRACED else TRACED[key][0]
    if not fresh:
        beginning = {name: np.array(v) for name, v in update.variables().items()}
        restore(update.variables(), TRACED.setdefault(key, (update, beginning))[1], "beginning")
    update, options = copy.copy(update), {**OPTIONS, **changes}
    epochs = Epochs(corpus, Batching(**{"max_tokens": 64, **(of_epochs or {})}), seed=1)
    return Trainer(directory, update, epochs, Script(scores), options, **(more or {}))


@pytest.fixture(scope="module")
def finished_run(tokenizer, corpus, tmp_path_factory):
    """A run of twelve steps whose average of the last two checkpoints is its best model."""
    path = tmp_path_factory.mktemp("finished") / "run"
    begun = started(path, tokenizer, "attention_ibm2", {"width": 16, "max_positions": 8})
    keras.utils.set_random_seed(1)
    run = trainer(begun, corpus, [9, 8, 7, 3], fresh=True)
    assert run.run() == 0
    return run, path


@pytest.fixture
def finished(finished_run, tmp_path):
    """A copy of the directory of that run."""
    return ModelDirectory(shutil.copytree(finished_run[1], tmp_path / "finished"))


def records(directory, kind):
    lines = directory.metrics_path.read_text().splitlines()
    return [r for r in map(json.loads, lines) if r["kind"] == kind]


def check_resume(directory, corpus, tmp_path, stops, **how):
    """Checks that a run with stops equals one without; returns its last state and its records."""
    runs = []
    for path, steps in ((tmp_path / "a", stops[-1:]), (tmp_path / "b", stops)):
        own = ModelDirectory(shutil.copytree(directory.path, path))
        for max_steps in steps:
            keras.utils.set_random_seed(1)
            options = {"max_steps": max_steps, "log_every_steps": 1, **how}
            trainer(ModelDirectory(own.path), corpus, [9] * 9, fresh=True, **options).run()
        arrays, state = read_archive(own.checkpoint_path(stops[-1]))
        names = ("step", "epoch", "loss", "learning_rate")
        losses = [[record[name] for name in names] for record in records(own, "train")]
        runs.append((arrays, losses))
    (at_once, losses), (resumed, same_losses) = runs
    assert all(np.array_equal(at_once[name], resumed[name]) for name in at_once)
    assert losses == same_losses
    return state, np.array(losses)


def test_stops_at_the_largest_step_and_keeps_the_last_checkpoints(finished_run, finished):
    run, _ = finished_run
    assert run.state["step"] == 12
    assert finished.checkpoint_steps() == [8, 12]
    assert [r["step"] for r in records(finished, "train")] == [2, 4, 6, 8, 10, 12]
    assert [r["perplexity"] for r in records(finished, "valid")] == [9, 8, 7]
    last = records(finished, "train")[-1]
    assert run.log.shown["epoch"] == last["epoch"]
    assert float(run.log.shown["rate"]) == pytest.approx(last["learning_rate"], rel=0.05)
    assert "warm-up" not in run.log.shown


def test_progress_shows_the_warm_up_and_knows_the_last_step_of_all_epochs(directory, corpus):
    run = trainer(directory, corpus, [9], max_steps=2)
    run.way.warmup_steps = 20
    run.run()
    assert run.log.shown["warm-up"] == "2 of 20"
    num_batches = sum(1 for _ in batches(corpus, Batching(64), seed=1))
    for max_steps, most in ((0, 3 * num_batches), (5, 5)):
        run = trainer(directory, corpus, [], max_steps=max_steps, max_epochs=3)
        assert run._most_steps() == most


def test_stops_after_the_largest_number_of_epochs(directory, corpus, capsys):
    run = trainer(directory, corpus, [9] * 99, max_steps=0, max_epochs=2)
    run.run()
    last = 2 * sum(1 for _ in batches(corpus, Batching(64), seed=1))
    assert run.state["step"] == last
    assert records(directory, "valid")[-1]["epoch"] == 2
    assert f"step {last}, epoch 2: valid" in capsys.readouterr().err


@pytest.fixture
def clock(monkeypatch):
    """The seconds of the loop's clock, in a list that tests change."""
    seconds = [1000.0]
    for module in (loop, limits, log):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: seconds[0]))
    return seconds


def test_the_minutes_hold_the_start_and_the_end_of_a_run(directory, corpus, clock, capsys):
    """The start takes 20 seconds, an update 1, a validation 7."""

    class Slow(Script):
        def __call__(self):
            clock[0] += 7
            return super().__call__()

    def make(scores, max_minutes):
        limits = {"max_steps": 0, "max_minutes": max_minutes, "save_every_steps": 5}
        run = trainer(directory, corpus, [], more={"began": clock[0]}, **limits)
        clock[0] += 20
        step, run.evaluator = run.way.step, Slow(scores)
        run.way.step = lambda batch: (clock.__setitem__(0, clock[0] + 1), step(batch))[1]
        return run

    run = make([9, 8, 7, 3], 1)
    began = clock[0] - 20
    run.run()
    # 7 seconds are left for the average.
    assert (run.state["step"], run.reason) == (12, "--max_minutes=1")
    assert clock[0] - began == 60
    run = make([9], 1.2)  # The 12 seconds more have passed before the first update.
    run.run()
    assert run.state["step"] == 12 and run.state["seconds"] > 72
    assert "average of 2" in capsys.readouterr().err
    run = make([], 1)  # The start alone takes too long to validate the average again.
    run.run()
    assert "no time is left to validate the average" in capsys.readouterr().err


def test_a_step_over_the_whole_text_is_not_begun_if_it_would_end_too_late(directory, corpus, clock):
    run = trainer(directory, corpus, [9], max_steps=0, max_minutes=1, more={"began": clock[0]})
    run.way.takes_batches = False
    run.way.step = lambda _: (clock.__setitem__(0, clock[0] + 25), {})[1]
    run.run()
    assert run.state["step"] == 2


def test_a_run_whose_minutes_are_over_makes_no_more_updates(directory, corpus, clock):
    """Although the time for its end, which is long here, passes after the last save."""
    left = [240]  # Seconds that the choice of the length penalty could use.

    def choose(is_late):
        while left[0] and not is_late():
            clock[0] += 10
            left[0] -= 10
        return "chosen", {"length_penalty": 0.6}

    steps = []
    for _ in range(2):
        limits = {"max_steps": 0, "max_minutes": 60, "save_every_steps": 5}
        more = {"began": clock[0], "choices": {"it": choose}}
        run = trainer(directory, corpus, [9 - i / 100 for i in range(99)], more=more, **limits)
        clock[0] += 10
        step = run.way.step
        run.way.step = lambda batch, step=step: (
            clock.__setitem__(0, clock[0] + 50),
            step(batch),
        )[1]
        run.run()
        steps.append(run.state["step"])
    assert steps[0] == steps[1] > 50


def test_time_that_is_over_before_the_first_update_is_an_error(directory, corpus, clock):
    run = trainer(directory, corpus, [], max_minutes=1, more={"began": clock[0] - 90})
    with pytest.raises(UserError, match=r"--max_minutes=1: starting took 1\.5 minutes"):
        run.run()
    assert not directory.best_path.exists() and not directory.checkpoint_steps()


def test_work_is_saved_by_the_clock_too_and_what_is_averaged_stays(
    directory, corpus, tmp_path, monkeypatch
):
    other = ModelDirectory(shutil.copytree(directory.path, tmp_path / "other"))
    limits = {"max_steps": 8, "eval_every_steps": 8, "average_checkpoints": 2}
    keras.utils.set_random_seed(1)
    trainer(directory, corpus, [9, 3], **limits).run()
    monkeypatch.setattr(loop, "SAVE_SECONDS", 0.0)
    saved, save = [], other.save_checkpoint
    other.save_checkpoint = lambda variables, state, **how: (
        saved.append(state["step"]),
        save(variables, state, **how),
    )
    keras.utils.set_random_seed(1)
    trainer(other, corpus, [9, 3], **limits).run()
    assert saved == list(range(1, 9))
    assert other.checkpoint_steps() == [4, 7, 8]  # 7 is kept as the one before the newest.
    (best, state), (same, same_state) = (read_archive(d.best_path) for d in (directory, other))
    assert state == same_state and state["averaged_steps"] == [4, 8]
    assert all(np.array_equal(best[name], same[name]) for name in best)


@pytest.mark.parametrize(
    ("criterion", "scores"),
    [("perplexity", [9, 5, 8, 6]), ("bleu", [(9, 10.0), (8, 12.0), (7, 11.0), (1, 11.5)])],
)
def test_stops_without_a_better_score_and_keeps_the_weights_of_the_best(
    criterion, scores, directory, corpus
):
    options = {"keep_best_by": criterion, "max_steps": 99, "patience": 1}
    run = trainer(directory, corpus, scores, **options)
    run.run()
    assert run.state["step"] == 12
    assert f"no better {criterion} in 1 validations" in run.reason
    best, state = read_archive(directory.best_path)
    assert (state["step"], state[criterion]) == (8, {"perplexity": 5, "bleu": 12.0}[criterion])
    at_step_8, _ = read_archive(directory.checkpoint_path(8))
    assert all(np.array_equal(best[name], at_step_8[name]) for name in best)


def test_perplexity_decides_until_bleu_is_above_0(directory, corpus, capsys):
    scores = [(9, 0.0), (8, 0.001), (9, 0.0)]  # The last of an average.
    scores += [(7, 0.0), (8, 0.2), (6, 0.0), (9, 0.3), (5, 0.1), (4, 0.2), (9, 0.0)]
    scores, of_bleu = iter(scores), {"keep_best_by": "bleu"}
    for steps, count in ((8, 3), (99, 7)):
        some = list(itertools.islice(scores, count))
        run = trainer(directory, corpus, some, **of_bleu, max_steps=steps, patience=2)
        run.run()
        said = capsys.readouterr().err
        assert "best so far by perplexity, which decides until BLEU is above 0" in said
    assert read_archive(directory.best_path)[1]["step"] == 24 and run.state["step"] == 32


def test_the_moving_average_is_kept_and_training_goes_on_from_its_own_weights(directory, corpus):
    run = trainer(directory, corpus, [9, 8, 7, 9], of_update={"ema_decay": 0.9})
    run.run()
    best, _ = read_archive(directory.best_path)
    last, _ = read_archive(directory.checkpoint_path(12))
    averages = [last[name] for name in sorted(last) if name.startswith("average/")]
    names = ["model/" + v.path.split("/", 1)[1] for v in run.way.model.trainable_variables]
    for name, average in zip(names, averages, strict=True):
        np.testing.assert_array_equal(best[name], average)
    assert any(not np.array_equal(best[name], last[name]) for name in names)


@pytest.mark.usefixtures("eagerly")
def test_all_state_of_an_update_resumes_exactly(transformer_directory, corpus, tmp_path):
    of_adam = {"schedule": "plateau", "patience": 1, "factor": 0.5, "weight_decay": 0.1}
    of_adam["muon"] = "float32"
    of_update = {"ema_decay": 0.9, "of_adam": {**of_adam, "warmup_steps": 5}}
    how = {"of_update": of_update, "eval_every_steps": 2, "save_every_steps": 2}
    _, losses = check_resume(transformer_directory, corpus, tmp_path, [4, 7], **how)
    # The validation at step 2 is the best; the validations at steps 4 and 6 are no better.
    np.testing.assert_allclose(losses[2:, -1], [8e-4, 1e-3, 5e-4, 5e-4, 2.5e-4])


def test_the_average_is_kept_if_it_is_better(finished_run, finished):
    best, state = read_archive(finished.best_path)
    assert state["averaged_steps"] == [8, 12]
    ends = [read_archive(finished.checkpoint_path(step))[0] for step in (8, 12)]
    for name, array in best.items():
        np.testing.assert_allclose(array, (ends[0][name] + ends[1][name]) / 2, atol=1e-6)
    model, tokenizer, _ = finished.load()
    assert all(np.array_equal(best[n], v.numpy()) for n, v in model_arrays(model).items())
    assert tokenizer.fingerprint() == finished.tokenizer().fingerprint()
    # The training weights are still the weights of the last step.
    now = model_arrays(finished_run[0].way.model)
    assert all(np.array_equal(ends[1][name], now[name].numpy()) for name in now)


def test_an_average_reads_and_checks_weights_alone(finished, capsys):
    newest = finished.checkpoint_path(12)
    arrays, _ = read_archive(newest)
    for part, left in (("optimizer/", [8, 12]), ("model/", [8])):
        names = [name for name in arrays if name.startswith(part)]
        data = bytearray(newest.read_bytes())
        data[data.index(max((arrays[n] for n in names), key=np.size).tobytes()) + 100] ^= 1
        newest.write_bytes(data)
        with pytest.raises(UserError, match="damaged"):
            read_archive(newest)
        found, average = finished.average([8, 12])
        assert found == left and average.keys() == {n for n in arrays if n.startswith("model/")}
    assert f"{newest}: damaged" in capsys.readouterr().err


@pytest.mark.usefixtures("eagerly")
def test_batches_of_static_shapes_resume_exactly(directory, corpus, tmp_path):
    longest = int(max(side.lengths.max() for side in corpus))
    check_resume(directory, corpus, tmp_path, [5, 18], of_epochs={"longest": longest})


@pytest.mark.usefixtures("eagerly")
def test_accumulated_batches_resume_exactly_and_epochs_have_fewer_updates(
    directory, corpus, tmp_path
):
    num_batches = sum(1 for _ in batches(corpus, Batching(64), seed=1))
    updates = -(-num_batches // 3)
    assert num_batches % 3, "the last update of an epoch has fewer batches"
    steps = updates + 2
    state, losses = check_resume(directory, corpus, tmp_path, [2, steps], accumulate_steps=3)
    assert (state["step"], state["epoch"], state["batch"]) == (steps, 1, 6)
    assert losses[:, 1].tolist() == [1] * updates + [2] * 2  # Counted from 1, as on the screen.


def test_a_loss_that_is_not_finite_stops_the_run_loudly(directory, corpus):
    run = trainer(directory, corpus, [9], learning_rate=float("inf"))
    with pytest.raises(UserError, match=r"is not finite at step .*; try a lower --learning_rate"):
        run.run()
    assert not directory.checkpoint_steps()
    trainer(directory, corpus, [9], max_steps=4).run()
    run = trainer(directory, corpus, [8], learning_rate=float("inf"))
    with pytest.raises(UserError, match="; everything saved is still good: try a lower"):
        run.run()


def test_restore_assigns_nothing_unless_everything_fits(directory):
    model = directory.new_model()
    before = [w.numpy() for w in model.weights]
    arrays = {name: np.ones(v.shape, np.float32) for name, v in model_arrays(model).items()}
    name = list(arrays)[-1]
    for broken in (
        {**arrays, name: np.ones((1, 2, 3), np.float32)},
        {**arrays, name: arrays[name].astype(np.float64)},
        {n: a for n, a in arrays.items() if n != name},
    ):
        with pytest.raises(UserError, match=name):
            restore(model_arrays(model), broken, "file")
        assert all(np.array_equal(b, w.numpy()) for b, w in zip(before, model.weights, strict=True))


@pytest.fixture(scope="module")
def evaluating(tokenizer):
    """The update of a model that is not trained, and its greedy translator."""
    sizes = len(tokenizer.source), len(tokenizer.target)
    model = models.create("attention_ibm2", *sizes, width=16, max_positions=8)
    update = Gradient(model, adam(learning_rate=1e-3, warmup_steps=10))
    return update, Translator.of(model, tokenizer, beam_size=1)


def test_evaluation_is_the_perplexity_a_token_and_sacrebleu_of_greedy_output(
    evaluating, corpus, tokenizer, text
):
    update, translator = evaluating
    found = Evaluator(update, translator, corpus, *text, max_tokens=64)()

    total = tokens = 0
    signature = [tf.TensorSpec([None, None], tf.int32)] * 2
    score = tf.function(update.model.score, input_signature=signature, autograph=False)
    for source, target in zip(*text, strict=True):
        source_ids = np.array(tokenizer.source.encode([source]), np.int32)
        target_ids = np.array(tokenizer.target.encode([target]), np.int32)
        total -= float(np.sum(score(source_ids, target_ids)))
        tokens += target_ids.size
    assert found.perplexity == pytest.approx(math.exp(total / tokens), rel=1e-4)
    outputs = [best[0].text for best in translator.translate(text[0])]
    bleu = sacrebleu.corpus_bleu(outputs, [text[1]], force=True)
    assert found.bleu == pytest.approx(bleu.score)


def test_lines_without_a_reference_are_not_translated(evaluating, corpus, text):
    update, translator = evaluating
    blank = ["\u00a0" if i % 2 else line for i, line in enumerate(text[1])]
    found = Evaluator(update, translator, corpus, text[0], blank, max_tokens=64)()
    half = Evaluator(update, translator, corpus, text[0][::2], text[1][::2], max_tokens=64)()
    assert found.bleu == half.bleu and [s for s, *_ in found.samples] == text[0][:6:2]
    assert Evaluator(update, translator, corpus, ["a"], [" "], max_tokens=64)().bleu is None


def test_blank_lines_between_documents_are_no_pairs(evaluating, corpus, tokenizer, text):
    update, translator = evaluating
    lines = [[line for pair in side for line in (pair, "")] for side in text]
    sides = zip((tokenizer.source, tokenizer.target), lines, strict=True)
    divided = EncodedCorpus(*(encode_lines(*side) for side in sides))
    expected = Evaluator(update, translator, corpus, *text, max_tokens=64)()
    found = Evaluator(update, translator, divided, *text, max_tokens=64)()
    assert found.perplexity == pytest.approx(expected.perplexity, rel=1e-6)


def test_each_of_several_texts_has_its_scores(evaluating, corpus, text):
    update, translator = evaluating
    names = ["ab"[i % 2] for i in range(corpus.num_pairs)]
    whole = Evaluator(update, translator, corpus, *text, max_tokens=64)()
    found = Evaluator(update, translator, corpus, *text, max_tokens=64, names=names)()
    assert found.perplexity == pytest.approx(whole.perplexity, rel=1e-5)
    assert found.bleu == whole.bleu and found.samples == whole.samples and not whole.texts
    for place, (name, scores) in enumerate(found.texts):
        rows = np.arange(place, corpus.num_pairs, 2)
        part = EncodedCorpus(*(side.take(rows) for side in corpus))
        lines = [side[place::2] for side in text]
        alone = Evaluator(update, translator, part, *lines, max_tokens=64)()
        assert name == "ab"[place] and scores.bleu == alone.bleu
        assert scores.perplexity == pytest.approx(alone.perplexity, rel=1e-5)
        assert found.all_figures()[f"{name}: bleu"] == alone.bleu
    few = Evaluator(update, translator, corpus, text[0][:1], text[1][:1], 64, names=names)()
    assert [scores.bleu is None for _, scores in few.texts] == [False, True]


def test_references_in_pieces_are_joined_as_translations_are(corpus, tmp_path):
    (tmp_path / "pieces").write_text("a\nd@@\nog\n")
    pieces = train_tokenizer("pretokenized", [], [], vocab_file=tmp_path / "pieces")
    lines = ["a d@@ og", "d@@ og"] * LEAST_LINES
    translator = SimpleNamespace(tokenizer=pieces)
    evaluator = Evaluator(None, translator, corpus, lines, lines, max_tokens=64)
    assert evaluator.source_lines == lines and evaluator.target_lines[:2] == ["a dog", "dog"]
    choose = penalty_choice(SimpleNamespace(decoder_class=None), pieces, (lines, lines))
    assert choose.args[2][0][1] == "a dog"


def test_best_npz_is_only_replaced_by_what_is_better_than_what_it_holds(finished, corpus, capsys):
    kept = finished.best_path.read_bytes()
    run = trainer(finished, corpus, [6.9, 9], max_steps=16)
    run.run()
    assert finished.best_path.read_bytes() == kept
    assert run.state["best_perplexity"] == 6.9 and run.state["evaluations_since_best"] == 0
    assert "; best.npz holds a better model (3.00)" in capsys.readouterr().err
    trainer(finished, corpus, [2.9, 9], max_steps=20).run()
    assert read_archive(finished.best_path)[1]["step"] == 20
    assert [r["step"] for r in records(finished, "valid")] == [4, 8, 12, 16, 20]


def test_a_kill_between_best_npz_and_the_checkpoint_changes_nothing(directory, corpus):
    keras.utils.set_random_seed(1)
    trainer(directory, corpus, [9, 8, 8.5], max_steps=8).run()
    best, last = directory.best_path.read_bytes(), directory.checkpoint_path(8)
    state = read_archive(last)[1]
    last.unlink()  # best.npz has the weights of step 8 already.
    trainer(directory, corpus, [8, 8.5], max_steps=8).run()
    assert directory.best_path.read_bytes() == best
    again = read_archive(last)[1]
    assert {**again, "seconds": 0} == {**state, "seconds": 0}


def test_the_length_penalty_is_chosen_for_the_best_weights(directory, corpus, text, capsys):
    def watched(is_late):
        watched.weights = {name: np.array(v) for name, v in model_arrays(run.way.model).items()}
        return choose(is_late)

    run = trainer(directory, corpus, [5, 8, 7, 9])  # The first weights are the best.
    choose = penalty_choice(run.way.model, directory.tokenizer(), text)
    run.choices = {"the length penalty": watched}
    run.run()
    best, last = map(read_archive, (directory.best_path, directory.checkpoint_path(12)))
    now = model_arrays(run.way.model)
    for name, value in watched.weights.items():
        np.testing.assert_array_equal(value, best[0][name])
        np.testing.assert_array_equal(now[name], last[0][name])
    chosen = json.loads(directory.search_path.read_text())
    assert f"length penalty {chosen['length_penalty']:g} from now on" in capsys.readouterr().err
    assert directory.load()[2]["length_penalty"] == chosen["length_penalty"]
    aligned = {**chosen, "alignment": {"layer": 1, "head": "mean"}}
    directory.write_search(aligned)
    run.choices["the head"] = lambda is_late: None  # The run ends again, without time for this one.
    Ending(run).choose()
    assert json.loads(directory.search_path.read_text()) == aligned


def test_a_length_penalty_does_not_outlive_the_weights_for_which_it_was_chosen(directory):
    directory.write_best({}, {})
    directory.write_search({"length_penalty": 2.0})
    assert directory.chosen()["length_penalty"] == 2.0
    directory.write_best({}, {})
    assert directory.chosen()["length_penalty"] == LENGTH_PENALTY


@pytest.mark.parametrize("found", ["{}", "[]", '{"length_penalty": "1"}', '{"length_penalty": -1}'])
def test_a_damaged_length_penalty_is_named(directory, found):
    assert directory.chosen()["length_penalty"] == LENGTH_PENALTY
    directory.search_path.write_text(found)
    with pytest.raises(UserError, match=r"search\.json: damaged"):
        directory.chosen()


def test_a_best_npz_that_is_gone_or_damaged_is_made_anew(directory, corpus, capsys):
    trainer(directory, corpus, [9, 8, 7, 9]).run()
    best, state = read_archive(directory.best_path)
    directory.best_path.write_bytes(directory.best_path.read_bytes()[:-100])
    run = trainer(directory, corpus, [7, 9])
    run.run()
    assert run.state["evaluations_since_best"] == 0
    again, same_state = read_archive(directory.best_path)
    assert state == same_state and all(np.array_equal(best[name], again[name]) for name in best)
    assert "best.npz: damaged" in capsys.readouterr().err
    assert [r["step"] for r in records(directory, "valid")] == [4, 8, 12]


def test_a_validation_that_makes_best_npz_anew_counts_once_and_a_new_one_counts(directory, corpus):
    def make(scores, max_steps):
        plateau = {"of_adam": {"schedule": "plateau", "patience": 1, "factor": 0.5}}
        limits = {"max_steps": max_steps, "average_checkpoints": 1}
        return trainer(directory, corpus, scores, of_update=plateau, **limits)

    make([7, 8], 8).run()
    directory.best_path.unlink()
    run = make([8, 9], 10)  # Of step 8 again, and of the last step.
    run.run()
    assert run.state["evaluations_since_best"] == 2
    assert float(run.way.plateau.reduction) == 0.25
    assert [r["perplexity"] for r in records(directory, "valid")] == [7, 8, 9]
    directory.best_path.unlink()
    run = make([8, 9], 12)
    run.run()
    assert run.state["evaluations_since_best"] == 3
    assert [r["step"] for r in records(directory, "valid")] == [4, 8, 10, 12]


def test_the_rate_after_a_resume_counts_the_tokens_since(directory, corpus, monkeypatch):
    clock = itertools.count(1.0)
    monkeypatch.setattr(loop.time, "monotonic", lambda: next(clock))
    trainer(directory, corpus, [9] * 9, max_steps=7, log_every_steps=8).run()
    trainer(directory, corpus, [9] * 9, max_steps=16, log_every_steps=8).run()
    first, second = (r["tokens_per_second"] for r in records(directory, "train"))
    assert first < 1.5 * second  # The first is of one step, with the tokens of one.


NAN = float("nan")


def test_a_validation_that_is_not_finite_is_none(directory, corpus, capsys):
    run = trainer(directory, corpus, [NAN, 8, float("inf"), NAN])
    assert run.run() == 0
    assert read_archive(directory.best_path)[1]["step"] == 8
    assert run.state["evaluations_since_best"] == 1
    said = capsys.readouterr().err
    assert said.count("valid perplexity is not finite; it counts as no improvement") == 2
    assert "average of 2 checkpoints (8, 12): valid perplexity is not finite; not better" in said
    lines = directory.metrics_path.read_text().splitlines()
    strict = [json.loads(line, parse_constant=pytest.fail) for line in lines]
    assert [r["perplexity"] for r in strict if r["kind"] == "valid"] == [None, 8, None]


def test_a_run_without_a_finite_validation_ends_with_an_error(directory, corpus):
    for max_steps in (8, 12):  # A new run and a resumed run.
        run = trainer(directory, corpus, [NAN] * 9, max_steps=max_steps)
        with pytest.raises(UserError, match=f"no validation was finite up to step {max_steps}"):
            run.run()
    assert not directory.best_path.exists()


def test_a_perplexity_beyond_all_floats_is_not_finite_and_nothing_is_translated(
    directory, corpus, tokenizer, text
):
    model = directory.new_model()
    for weight in model.weights:
        weight.assign(np.full(weight.shape, 1e30))
    update = Gradient(model, adam(learning_rate=1e-3, warmup_steps=10))
    found = Evaluator(update, Translator.of(model, tokenizer, beam_size=1), corpus, *text, 64)()
    assert not found.is_finite and found.bleu is None and not found.samples
    assert perplexity(1000.0) == math.inf and perplexity(2.0) == pytest.approx(math.exp(2))
