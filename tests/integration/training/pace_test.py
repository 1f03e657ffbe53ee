"""Tests of the pace of a new run: warm-up, validation and saving."""

import itertools
import threading
from types import SimpleNamespace

import pytest

from nmt_zoo.configuration.recipes import TextSize
from nmt_zoo.configuration.resolver import options_of
from nmt_zoo.training import pace
from nmt_zoo.training.pace import Outlook

SMALL = options_of("transformer_tiny", "files", {})


def chosen(updates_an_epoch, updates=None, seconds=None, model="transformer_tiny", **given):
    options = options_of(model, "files", given)
    return pace.choose(
        options, pace.undecided(options), Outlook(updates_an_epoch, updates, "", seconds)
    )


def test_a_long_run_has_the_numbers_of_its_recipe():
    assert chosen(5000, 100_000) == {name: SMALL[name] for name in pace.NAMES}
    assert chosen(5000) == {name: SMALL[name] for name in pace.NAMES}


@pytest.mark.parametrize("updates", [1, 6, 100, 474, 1800, 3900])
def test_a_short_run_leaves_its_warm_up_and_is_validated_and_saved_often(updates):
    found = chosen(150, updates)
    assert 1 <= found["warmup_steps"] <= max(1, updates // 4)
    if updates >= 400:
        assert updates // found["eval_every_steps"] >= 8
    if updates >= 100:
        assert updates // found["save_every_steps"] >= 10
        # The checkpoints that are averaged in the end come from the last half of the run.
        averaged = SMALL["average_checkpoints"] * found["save_every_steps"]
        assert averaged <= updates / 2


def test_validations_are_minutes_apart_where_time_is_the_limit():
    found = chosen(150, 1800, seconds=0.375)  # 15 minutes
    assert found["eval_every_steps"] * 0.375 == pytest.approx(120, abs=1)
    found = chosen(150, 360, seconds=0.375, max_minutes=3.0)
    assert found["eval_every_steps"] == 180 and found["save_every_steps"] == 18
    assert found["bleu_lines"] == 100
    found = chosen(150, 360, seconds=0.375, max_minutes=3.0, keep_best_by="bleu")
    assert found["bleu_lines"] == SMALL["bleu_lines"]


def test_epochs_are_validated_but_patience_does_not_end_a_run_in_its_warm_up():
    assert chosen(250)["eval_every_steps"] == chosen(250)["save_every_steps"] == 250
    for updates_an_epoch in (1, 30, 120):
        for model in ("transformer_tiny", "transformer_base", "lstm_luong"):
            found = chosen(updates_an_epoch, model=model)
            assert found["save_every_steps"] <= max(updates_an_epoch, 100)
            patience = SMALL["patience"] * found["eval_every_steps"]
            assert patience >= min(2 * found["warmup_steps"], 5000)
    assert chosen(120, patience=0)["eval_every_steps"] == 120


def test_flags_and_the_recipes_of_corpora_and_counts_stay():
    given = {"warmup_steps": 777, "eval_every_steps": 3, "bleu_lines": 0}
    assert set(chosen(10, 40, **given)) == {"save_every_steps"}
    assert not pace.undecided(options_of("transformer_tiny", "demo", {}))
    assert pace.undecided(options_of("ibm1_factored", "demo", {"max_minutes": 1.0}))
    assert not pace.undecided(options_of("ibm1", "files", {}))
    by_gradient = options_of("ibm1", "files", {"update": "gradient"})
    assert pace.undecided(by_gradient) == list(pace.NAMES)


@pytest.mark.parametrize("model", ["transformer_tiny", "transformer_small"])
def test_the_rate_falls_to_zero_when_time_is_over(model):
    def chosen_in_time(**given):
        options = options_of(model, "files", {"max_minutes": 8.0, **given}, size=size)
        return options, pace.undecided(options)

    size = TextSize(20_000, 300_000)
    options, names = chosen_in_time()
    found = pace.choose(options, names, Outlook(150, 3000, "", 0.12))
    assert options["schedule"] == "cosine"
    assert found["decay_steps"] == 3000 and found["warmup_steps"] == 375
    rising = chosen_in_time(warmup_steps=2000)
    assert pace.choose(*rising, Outlook(150, 3000, "", 0.12))["decay_steps"] == 8000
    for name in ("max_steps", "decay_steps"):
        assert "decay_steps" not in chosen_in_time(**{name: 70})[1]


def test_the_nearest_limit_counts():
    options = {**SMALL, "max_steps": 900, "max_epochs": 5, "max_minutes": 10.0}
    assert pace.outlook(options, 200)[1:] == (900, "--max_steps=900", None)
    assert pace.outlook(options, 100)[1:] == (500, "--max_epochs=5", None)
    found = pace.outlook(options, 200, seconds_left=400.0, seconds_an_update=1.0)
    assert found.updates == 320 and found.limit == "--max_minutes=10 at 1 s an update"
    assert found.seconds_an_update == 1.0
    assert pace.outlook({**options, "decay_steps": 90}, 200).updates == 90
    assert pace.outlook(SMALL, 200).updates is None


def test_what_was_chosen_is_said_with_its_reason():
    outlook = Outlook(150, 400, "--max_steps=400")
    line = pace.report(pace.choose(SMALL, pace.NAMES, outlook), SMALL, outlook)
    assert line == (
        "pace: about 400 updates at most (--max_steps=400), 150 updates an epoch; so "
        "--warmup_steps=100 instead of 1000, --eval_every_steps=50 instead of 500, "
        "--save_every_steps=20 instead of 500"
    )
    assert not pace.report({"warmup_steps": 1000}, SMALL, outlook)


@pytest.mark.parametrize(
    ("plain", "half", "precision"), [(0.9, 0.5, "bfloat16"), (0.55, 0.5, "float32")]
)
def test_bfloat16_is_chosen_only_if_it_is_clearly_faster(
    plain, half, precision, monkeypatch, capsys
):
    run = SimpleNamespace(with_options=lambda _, precision: {"float32": plain}.get(precision, half))
    monkeypatch.setattr(pace, "why_untimed", lambda run: "")
    monkeypatch.setattr(pace, "seconds_an_update", lambda seconds, duration: seconds)
    assert pace.choose_precision(run, 1.0) == (precision, plain if precision == "float32" else half)
    gain = f"bfloat16 is {plain / half:.2f} times as fast as float32 here"
    assert f"precision: {precision}; {gain}" in capsys.readouterr().out


def test_devices_of_one_processor_are_timed_at_once():
    all_work, calls = threading.Barrier(2, timeout=10), itertools.count()

    def step(batch):
        if next(calls):  # The first traces, and is alone.
            all_work.wait()
        return {"loss": (1.0, 1.0)}

    assert pace.time_updates(SimpleNamespace(step=step), ["batch"], 1, 0.0, at_once=2) > 0
    assert next(calls) == 5
