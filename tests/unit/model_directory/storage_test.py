"""Damaged files, full disks, folders that cannot be written, and two runs in one directory."""

import errno
import itertools
import json
import os
import random
import re
import shutil
import signal
import tempfile
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import write_lines
from nmt_zoo.common.locks import RunLock
from nmt_zoo.model_directory.configuration import read_configuration
from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.model_directory.metrics import append_record, keep_records, read_records
from nmt_zoo.model_directory.weight_files import DamagedError, read_archive, write_archive
from nmt_zoo.training.devices.replicas import _ReadOnlyDirectory
from nmt_zoo.training.loop.log import Board

ARRAYS = {
    "model/a": np.arange(60, dtype=np.float32).reshape(5, 12),
    "optimizer/0000": np.arange(4),
    "seed/0000": np.array([7, 3], np.uint32),
}


@pytest.fixture
def saved(tmp_path):
    """A model directory with the checkpoints of steps 4, 8 and 12."""
    directory = ModelDirectory(tmp_path / "run")
    for step in (4, 8, 12):
        arrays = {name: array + step for name, array in ARRAYS.items()}
        directory.save_checkpoint(arrays, {"step": step}, keep=3, every=4)
    return directory


def fresh_variables():
    return {name: tf.Variable(np.zeros_like(array)) for name, array in ARRAYS.items()}


def test_a_flipped_bit_is_noticed_or_harmless_and_a_file_cut_short_is_noticed(tmp_path):
    path = tmp_path / "x.npz"
    write_archive(path, ARRAYS, {"step": 3})
    data = path.read_bytes()
    rng, noticed = random.Random(1), 0
    for bit in rng.sample(range(8 * len(data)), 600):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        try:
            arrays, state = read_archive(path)
        except DamagedError as error:
            noticed += 1
            assert "\n" not in str(error)
            continue
        # The flipped bit is part of a date or a version, so it is harmless.
        assert state == {"step": 3} and set(arrays) == set(ARRAYS)
        for name in ARRAYS:
            np.testing.assert_array_equal(arrays[name], ARRAYS[name], strict=True)
    assert noticed > 400
    for size in range(0, len(data), 7):
        path.write_bytes(data[:size])
        with pytest.raises(DamagedError, match="damaged"):
            read_archive(path)


@pytest.mark.parametrize("kept", [100, 0])
def test_the_checkpoint_before_a_damaged_one_is_used_and_both_are_named(saved, kept, capsys):
    newest = saved.checkpoint_path(12)
    left = saved.checkpoint_folder / ".unfinished-abc.npz"  # By a killed save.
    left.write_bytes(newest.read_bytes()[:500])
    whole = newest.read_bytes()
    newest.write_bytes(whole[:kept])
    variables = fresh_variables()
    assert saved.average([4, 8, 12])[0] == [4, 8] and "00000012.npz" in capsys.readouterr().err
    newest.write_bytes(whole[:kept])
    assert saved.restore_newest(variables) == {"step": 8}
    np.testing.assert_array_equal(variables["model/a"], ARRAYS["model/a"] + 8)
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and str(newest) in err and "00000008.npz is used" in err
    assert saved.checkpoint_steps() == [4, 8] and newest.with_suffix(".damaged").exists()
    assert not left.exists()
    np.testing.assert_array_equal(saved.average([4, 8])[1]["model/a"], ARRAYS["model/a"] + 6)
    for step in (4, 8):
        saved.checkpoint_path(step).write_bytes(b"PK")
    with pytest.raises(UserError, match=r"all 2 checkpoints are damaged.*00000008.npz"):
        saved.restore_newest(fresh_variables())
    assert saved.checkpoint_steps() == [4, 8]


@pytest.mark.parametrize(
    "arrays",
    [
        {"a": np.array([{}])},
        {"a": np.array(["text"])},
        {"a": np.array([1j])},
        {"a": np.zeros(2), "state": np.array("[1]")},
        {"a": np.zeros(2), "state": np.array(7)},
        {"state": np.array("{")},
    ],
    ids=range(6),
)
def test_entries_that_are_no_numbers_and_states_that_are_no_objects_are_damage(tmp_path, arrays):
    path = tmp_path / "x.npz"
    np.savez(path, **{"state": np.array("{}"), **arrays})
    with pytest.raises(DamagedError, match=f"^{path}: damaged or unreadable") as caught:
        read_archive(path)
    assert not re.search("pickle|unsafe|\n", str(caught.value))
    path.unlink()
    os.mkfifo(path)  # It is not waited for.
    with pytest.raises(DamagedError, match=r"x\.npz: damaged .*not a regular file"):
        read_archive(path)


@pytest.mark.parametrize("error", [MemoryError(), OSError(errno.EACCES, "Permission denied")])
def test_what_cannot_be_read_for_another_reason_is_not_set_aside(saved, error, monkeypatch):
    saved.write_best(ARRAYS, {"step": 12})
    before = sorted(saved.path.rglob("*"))

    def fail(*_, **__):
        raise error

    monkeypatch.setattr(np, "load", fail)
    for read in (saved.best_state, lambda: saved.restore_newest(fresh_variables())):
        with pytest.raises((UserError, MemoryError)) as caught:
            read()
        assert not isinstance(caught.value, DamagedError)
    assert sorted(saved.path.rglob("*")) == before
    monkeypatch.undo()
    saved.best_path.write_bytes(b"PK")
    with pytest.raises(DamagedError):  # Only the chief sets damaged weights aside.
        _ReadOnlyDirectory(saved.path).best_state()
    assert saved.best_path.exists()
    assert saved.best_state() is None and not saved.best_path.exists()


def test_a_full_disk_leaves_what_was_there_and_nothing_half_written(saved, full_disk):
    files = set(saved.path.rglob("*"))
    for free_bytes in (0, 100, 800):
        with full_disk(free_bytes), pytest.raises(UserError, match=r"00000016.npz.*make room"):
            saved.save_checkpoint(ARRAYS, {"step": 16}, keep=3, every=4)
        assert set(saved.path.rglob("*")) == files
    assert saved.restore_newest(fresh_variables()) == {"step": 12}
    for step, expected in ((14, [12, 14]), (15, [12, 14, 15]), (16, [15, 16])):
        saved.save_checkpoint(ARRAYS, {"step": step}, keep=1, every=4)
        assert saved.checkpoint_steps() == expected
    saved.append_metrics(RECORDS[0])
    before = saved.metrics_path.read_bytes()
    with full_disk(len(before) + 5), pytest.raises(UserError, match="make room"):
        saved.append_metrics(RECORDS[1])
    assert saved.metrics_path.read_bytes() == before
    board = Board(saved.path / "curves")
    with full_disk(), pytest.raises(UserError, match=r"curves: cannot be written.*large") as caught:
        board.scalars({"a": 1.0}, 1)
        board.close()
    assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match=r"jsonl: cannot be written.*Not a directory") as caught:
        Board(saved.metrics_path)
    assert "\n" not in str(caught.value) and "{{" not in str(caught.value)


RECORDS = [{"step": s, "kind": "train", "seconds": 0.5, "nll": 1.0} for s in (1, 2)]


def test_a_last_record_that_was_cut_short_is_dropped_and_another_damaged_one_named(tmp_path):
    path = tmp_path / "metrics.jsonl"
    for record in RECORDS:
        append_record(path, record)
    path.write_text(path.read_text() + '{"st')
    keep_records(path, lambda record: record["step"] < 2)
    assert read_records(path) == RECORDS[:1]
    path.write_text('{"st\n' + path.read_text())
    with pytest.raises(UserError, match="line 1: damaged"):
        read_records(path)


UNFIT = (
    *("[]", "7", "{}", '{"kind": "foo"}', '{"kind": ["train"]}', '{"kind": "train"}'),
    *(
        f'{{"kind": "train", "step": {x}, "seconds": 1, "nll": 2}}'
        for x in ('"7"', 7.5, "true", -1)
    ),
    *(f'{{"kind": "train", "step": 7, "seconds": {x}, "nll": 2}}' for x in ("null", '"1"', "NaN")),
    *(f'{{"kind": "{kind}", "step": 7, "seconds": 1}}' for kind in ("train", "valid")),
    '{"kind": "train", "step": 7, "seconds": 1, "nll": "2"}',
    '{"kind": "train", "step": 7, "seconds": 1, "nll": 2, "skipped_steps": []}',
    '{"kind": "train", "step": 7, "seconds": 1, "nll": 1' + 400 * "0" + "}",
    100_000 * "[",
)


def test_a_line_that_is_no_record_is_named_also_at_the_end(tmp_path):
    path = tmp_path / "metrics.jsonl"
    for line, (before, after) in itertools.product(UNFIT, (([], RECORDS), (RECORDS, []))):
        lines = [*map(json.dumps, before), line, *map(json.dumps, after)]
        write_lines(path, lines)
        fault = f"line {len(before) + 1}: (no record of a step|nested too deeply)"
        with pytest.raises(UserError, match=fault):
            read_records(path)


def test_a_read_only_folder_is_one_line():
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o555)
    directory, user = ModelDirectory(folder), os.geteuid()
    os.seteuid(65534 if user == 0 else user)  # A superuser could write.
    try:
        for write in (
            directory.lock.acquire,
            lambda: directory.append_metrics({"step": 1}),
            lambda: directory.save_checkpoint(ARRAYS, {"step": 1}, keep=1, every=1),
        ):
            with pytest.raises(UserError, match=f"{folder}.*cannot be written"):
                write()
        assert not list(folder.iterdir())
    finally:
        os.seteuid(user)
        shutil.rmtree(folder)


def test_the_lock_of_a_killed_process_is_free(tmp_path, request, capsys):
    lock = RunLock(tmp_path / "lock")
    lock.acquire()
    lock.acquire()
    lock.release()
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        lock.acquire()
        os.write(writer, b"x")
        signal.pause()
    os.read(reader, 1)
    with pytest.raises(UserError, match=f"{tmp_path}: another run is under way"):
        lock.acquire()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(reader)
    os.close(writer)
    lock.acquire()
    lock.release()
    request.getfixturevalue("without_locks")  # A run goes on.
    lock.acquire()
    assert f"{tmp_path / 'lock'}: this file system has no locks (" in capsys.readouterr().err


def test_weights_of_another_vocabulary_are_refused(tmp_path):
    directories = []
    for name, crc in (("a", 1), ("b", 2)):
        directory = ModelDirectory(tmp_path / name)
        directory.config = lambda crc=crc: {"vocabulary_crc32": {"v": crc}}
        directory.path.mkdir()
        directory.config_path.write_text("{}")
        directory.write_best({"model/w": np.ones(2)}, {"step": 3})
        directories.append(directory)
    assert directories[0].read_best()[1] == {"step": 3}
    directories[0].best_path.write_bytes(directories[1].best_path.read_bytes())
    with pytest.raises(UserError, match="another vocabulary"):
        directories[0].read_best()


def test_an_archive_that_would_fill_the_memory_is_damaged(tmp_path):
    path = tmp_path / "best.npz"
    np.savez_compressed(path, w=np.zeros(100_000), state=np.array("{}"))
    with pytest.raises(DamagedError, match="would unpack to 8"):
        read_archive(path)


def test_a_settings_file_of_gigabytes_is_refused_at_once(tmp_path):
    path = tmp_path / "config.json"
    with open(path, "wb") as file:
        file.truncate(1 << 33)
    with pytest.raises(UserError, match="at most 268,435,456 are read"):
        read_configuration(path)
