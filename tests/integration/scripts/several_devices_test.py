"""train.py on several devices and in several processes."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.model_directory.weight_files import read_archive
from nmt_zoo.training import pace
from tests.running import ROOT, run_script
from tests.tiny import corpus_flags, small_flags

pytestmark = pytest.mark.replicas

QUICK = [
    *(*small_flags("attention_ibm2"), "--num_pieces=300", "--max_tokens_per_batch=64"),
    *("--tokenizer=bpe", "--bleu_lines=0", "--bpe_dropout=0.2"),
    *("--log_every_steps=2", "--save_every_steps=5", "--eval_every_steps=10"),
    *("--average_checkpoints=2", "--max_steps=20", "--warmup_steps=100"),
]


@pytest.fixture(scope="module")
def flags(corpus):
    return [*corpus, *QUICK]


@pytest.fixture(scope="module")
def mirrored(folder, flags):
    """A run of two replicas in one process, stopped and resumed once."""
    more = [f"--model_dir={folder / 'mirrored'}", "--distribution=mirrored", "--num_replicas=2"]
    for steps in (7, 20):
        run_script("train", [*flags, *more, f"--max_steps={steps}"])
    return ModelDirectory(folder / "mirrored")


def test_a_run_of_replicas_chooses_its_length_penalty(tmp_path):
    flags = [*corpus_flags(tmp_path, valid=100), *QUICK, "--bleu_lines=100", "--max_steps=2"]
    flags += [f"--data_dir={tmp_path / 'data'}", f"--model_dir={tmp_path / 'run'}"]
    done = run_script("train", [*flags, "--distribution=mirrored", "--num_replicas=2"])
    # After so few updates all of them have a BLEU of 0.
    assert "length penalty stays 1, because valid BLEU is 0 with each" in done.err


def test_a_run_of_replicas_is_timed_so_that_its_warm_up_ends(flags, tmp_path, monkeypatch):
    really, found = pace.seconds_an_update, []

    def slow(run, duration):
        found.append(really(run, duration))
        return 100.0

    monkeypatch.setattr(pace, "seconds_an_update", slow)
    own = [flag for flag in flags if not flag.startswith("--warmup_steps")]
    own += [f"--model_dir={tmp_path}", "--max_minutes=10", "--max_steps=5"]
    done = run_script("train", [*own, "--distribution=mirrored", "--num_replicas=2"])
    assert 0 < found[0] < 10
    assert "(--max_minutes=10 at 100 s an update)" in done.out
    assert "so --warmup_steps=1 instead of 100" in done.out


def start_workers(flags, log):
    """Starts two processes that find each other on free ports of this machine."""
    sockets = [socket.socket() for _ in range(2)]
    for each in sockets:
        each.bind(("localhost", 0))
    addresses = [f"localhost:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    workers = []
    for index in range(2):
        task = {"type": "worker", "index": index}
        config = json.dumps({"cluster": {"worker": addresses}, "task": task})
        with open(f"{log}{index}", "w") as output:
            workers.append(
                subprocess.Popen(
                    [sys.executable, "train.py", *flags, "--distribution=multi_worker"],
                    cwd=ROOT,
                    env={**os.environ, "TF_CONFIG": config, "TF_NUM_INTRAOP_THREADS": "1"},
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
            )
    return workers


def same_weights(directory, other):
    (found, _), (expected, _) = (read_archive(d.checkpoint_path(20)) for d in (directory, other))
    assert found.keys() == expected.keys()
    for name in expected:
        if "key/bias" not in name:
            np.testing.assert_allclose(found[name], expected[name], atol=1e-5, err_msg=name)


def losses(directory):
    records = map(json.loads, directory.metrics_path.read_text().splitlines())
    return {(r["kind"], r["step"]): r.get("loss", r["perplexity"]) for r in records}


def test_workers_train_as_replicas_do_and_go_on_after_one_was_killed(
    folder, flags, mirrored, tmp_path
):
    directory = ModelDirectory(folder / "workers")
    flags = [*flags, f"--model_dir={directory.path}"]
    workers = start_workers(flags, tmp_path / "killed")
    try:
        while not directory.checkpoint_path(10).exists():
            assert all(worker.poll() is None for worker in workers), "ended too early"
            time.sleep(0.02)
        workers[0].kill()
        assert workers[0].wait() == -signal.SIGKILL and workers[1].wait() == 1
        last = (tmp_path / "killed1").read_text().splitlines()
        assert any(line.startswith("error: worker 1: another worker has stopped") for line in last)
        assert "Traceback" not in "".join(last)

        workers = start_workers(flags, tmp_path / "again")
        assert [worker.wait() for worker in workers] == [0, 0]
    finally:
        for worker in workers:
            worker.kill()
    assert "resumed at step" in (tmp_path / "again1").read_text()
    same_weights(directory, mirrored)
    found, expected = losses(directory), losses(mirrored)
    expected.pop(("valid", 7))  # Validated only because that run ended there and was resumed.
    assert found.keys() == expected.keys()
    for name in expected:
        assert found[name] == pytest.approx(expected[name], rel=1e-5)


def test_an_epoch_ends_with_its_batches_on_other_devices(folder, flags, mirrored):
    path = shutil.copytree(mirrored.path, folder / "one")
    more = ["--max_steps=0", "--max_epochs=1", f"--model_dir={path}"]
    done = run_script("train", [*flags, *more])
    assert "resumed at step 20" in done.out
    directory = ModelDirectory(path)
    _, state = read_archive(directory.checkpoint_path(directory.checkpoint_steps()[-1]))
    batches = int(done.out.partition("batches per epoch: ")[2].split()[0])
    assert state["epoch"] == 1 and state["step"] >= 20 + (batches - 40)
    assert state["planned_replicas"] == 2
