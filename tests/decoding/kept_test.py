"""Translations of an interrupted run are kept, and the same command resumes from them."""

import pytest

from data_pipeline.files import UserError
from decoding.kept import KeptTranslations
from decoding.translator import Translation

ONE = [Translation("ein Hund", -0.25, -0.5, True, [7, 8, 3])]
TWO = [Translation("zwei\u2028Katzen", -0.1, -0.2, False, [9]), *ONE]


class Stopped(BaseException):
    """Stands for `KeyboardInterrupt`, which would stop pytest itself."""


def interrupted(path, made_by, *batches):
    with pytest.raises(Stopped), KeptTranslations(path, made_by) as kept:
        for batch in batches:
            kept.add(batch)
        raise Stopped


def test_what_was_done_is_taken_up_and_goes_with_the_end(tmp_path, capsys):
    path = tmp_path / "out.unfinished"
    interrupted(path, {"beam": 4}, {"a dog": ONE}, {"two\u2028cats": TWO})
    assert f"{path} keeps 2 translations" in capsys.readouterr().err
    with KeptTranslations(path, {"beam": 4}) as kept:
        assert kept.num_taken_up == 2
        assert kept.get("a dog") == ONE and kept.get("two\u2028cats") == TWO
        assert kept.get("a cat") is None
    assert not path.exists()


def test_every_batch_is_in_the_file_at_once(tmp_path):
    path = tmp_path / "out.unfinished"
    with KeptTranslations(path, {}) as kept:
        kept.add({"a dog": ONE})
        assert KeptTranslations(path, {}).get("a dog") == ONE  # Like a new run after a kill.


def test_a_torn_line_costs_that_line_alone(tmp_path):
    path = tmp_path / "out.unfinished"
    interrupted(path, {}, {"a dog": ONE}, {"two cats": TWO})
    whole = path.read_bytes()
    for end in range(whole.rindex(b"two cats"), len(whole)):
        path.write_bytes(whole[:end])
        interrupted(path, {}, {"a cat": ONE})
        with KeptTranslations(path, {}) as kept:
            assert kept.get("a dog") == kept.get("a cat") == ONE
            assert kept.get("two cats") is None


@pytest.mark.parametrize(
    "change", [lambda text: text.replace("4", "5"), lambda text: text[:-9] + "\n"]
)
def test_what_another_model_made_or_is_damaged_is_not_taken_up(tmp_path, capsys, change):
    path = tmp_path / "out.unfinished"
    interrupted(path, {"beam": 4}, {"a dog": ONE})
    path.write_text(change(path.read_text()))
    capsys.readouterr()
    with KeptTranslations(path, {"beam": 4}) as kept:
        assert kept.num_taken_up == 0 and "starting again" in capsys.readouterr().err


def test_nothing_is_left_where_nothing_was_translated(tmp_path):
    interrupted(tmp_path / "out.unfinished", {})
    assert not list(tmp_path.iterdir())


def test_a_file_of_another_kind_is_not_overwritten(tmp_path):
    path = tmp_path / "out.unfinished"
    path.write_text("a novel\n")
    with pytest.raises(UserError, match="was not written by translate"):
        KeptTranslations(path, {})
    assert path.read_text() == "a novel\n"
