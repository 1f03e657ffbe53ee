"""Translations of an interrupted run are kept, and the same command resumes from them."""

import pytest

from nmt_zoo.common.errors import UserError
from nmt_zoo.decoding.text.finished import FinishedLines
from nmt_zoo.decoding.translator import EMPTY, NO_MEMORY, Translation

ONE = [Translation("ein Hund", -0.25, -0.5, True, [7, 8, 3])]
TWO = [Translation("zwei\u2028Katzen", -0.1, -0.2, False, [9]), *ONE]
LINES = ["a dog", "two\u2028cats", "a cat"]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "out.unfinished"


class Stopped(BaseException):
    """Stands for `KeyboardInterrupt`, which would stop pytest itself."""


def interrupted(path, made_by, *batches):
    """Keeps batches, {place in `LINES`: translations} each, until the run is stopped."""
    with pytest.raises(Stopped), FinishedLines(path, made_by) as finished:
        for batch in batches:
            finished.add(0, LINES, batch)
        raise Stopped


def test_what_was_done_is_taken_up_and_goes_with_the_end(path, capsys):
    interrupted(path, {"beam": 4}, {1: TWO}, {0: ONE})
    assert f"{path} keeps 2 translations" in capsys.readouterr().err
    with FinishedLines(path, {"beam": 4}) as finished:
        assert finished.num_found == 2
        assert finished.take(0, LINES) == {0: ONE, 1: TWO}
        assert finished.take(3, LINES) == {}
        assert finished.num_used == 2
    assert not path.exists()


def test_lines_that_changed_count_once(path, capsys):
    interrupted(path, {}, {0: ONE, 1: TWO})
    changed = ["another dog", *LINES[1:]]
    with pytest.raises(Stopped), FinishedLines(path, {}) as finished:
        assert finished.take(0, changed) == {1: TWO}
        assert (finished.num_found, finished.num_used) == (2, 1)
        finished.add(0, changed, {0: TWO})
        raise Stopped
    assert capsys.readouterr().err.endswith(
        "keeps 2 translations; run the same command to resume\n"
    )
    with FinishedLines(path, {}) as finished:
        assert finished.num_found == 2 and finished.take(0, changed) == {0: TWO, 1: TWO}


def test_windows_of_any_size_take_up_what_has_the_same_text_in_any_order(path):
    interrupted(path, {}, {0: ONE, 1: TWO}, {2: ONE})
    with pytest.raises(Stopped), FinishedLines(path, {}) as finished:
        assert finished.take(0, LINES[:1]) == {0: ONE}
        assert finished.take(1, ["other", "a cat"]) == {1: ONE}
        assert finished.take(3, LINES) == {}
        raise Stopped
    interrupted(path, {}, {})  # Stopped before any window: nothing is lost.
    with FinishedLines(path, {}) as finished:
        assert finished.take(2, LINES[2:]) == {0: ONE}
    interrupted(path, {}, {2: ONE, 0: TWO}, {1: ONE})  # The longest line first.
    with pytest.raises(Stopped), FinishedLines(path, {}) as finished:
        found = [finished.take(i, LINES[i : i + 1]) for i in range(3)]
        assert found == [{0: TWO}, {0: ONE}, {0: ONE}]
        raise Stopped
    with FinishedLines(path, {}) as finished:
        assert finished.take(1, LINES[1:]) == {0: ONE, 1: ONE}
        assert finished.take(0, LINES[:1]) == {0: TWO}


def test_lines_left_untranslated_are_tried_again(path):
    left = [Translation("", 0.0, 0.0, True, [], NO_MEMORY)]
    interrupted(path, {}, {0: left, 1: [EMPTY], 2: ONE})
    with FinishedLines(path, {}) as finished:
        assert finished.take(0, LINES) == {2: ONE}


def test_every_batch_is_in_the_file_at_once(path):
    with FinishedLines(path, {}) as finished:
        finished.add(0, LINES, {0: ONE})
        with FinishedLines(path, {}) as other:  # Like a new run after a kill.
            assert other.take(0, LINES) == {0: ONE}


def test_a_torn_line_costs_that_line_alone(path):
    interrupted(path, {}, {0: ONE}, {1: TWO})
    whole = path.read_bytes()
    for end in range(whole.rindex(b"[1, "), len(whole)):
        path.write_bytes(whole[:end])
        interrupted(path, {}, {2: ONE})
        with FinishedLines(path, {}) as finished:
            assert finished.take(0, LINES) == {0: ONE, 2: ONE}


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace('"beam": 4', '"beam": 5'),
        lambda text: text[:-9] + "\n",
        lambda text: text.replace("[0, ", "["),
    ],
)
def test_what_another_model_made_or_is_damaged_is_not_taken_up(path, capsys, change):
    interrupted(path, {"beam": 4}, {0: ONE})
    before = path.read_text()
    path.write_text(change(before))
    assert path.read_text() != before
    capsys.readouterr()
    with FinishedLines(path, {"beam": 4}) as finished:
        assert finished.num_found == 0 and "starting again" in capsys.readouterr().err
        assert finished.take(0, LINES) == {}


def test_nothing_is_left_where_nothing_was_translated(path):
    interrupted(path, {})
    assert not list(path.parent.iterdir())


def test_a_file_of_another_kind_is_not_overwritten(path):
    path.write_text("a novel\n")
    with pytest.raises(UserError, match="was not written by translate"):
        FinishedLines(path, {})
    assert path.read_text() == "a novel\n"
