"""serve.py in processes of its own: from its flags to its answers, its page, and its end."""

import asyncio
import contextlib
import errno
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from nmt_zoo.command_line.serve import Arguments, call_elsewhere, served
from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import read_lines
from nmt_zoo.model_directory import combined_models
from nmt_zoo.serving.server.served_versions import load_first
from tests.browser import chromium, requested, violations
from tests.integration.serving.server.example import Client, Example
from tests.running import ROOT, run_script
from tests.tiny import corpus_flags, pairs, small_flags

HOSTILE = "<script>document.title = 'x'</script> \"one\" 'dog' \u202e cat &amp;"
LINES = [source for source, _ in pairs(20, seed=3)] + ["", "dog zebra"]


KINDS = {"length_penalty": np.float32}
KINDS |= dict.fromkeys(("beam_size", "n_best", "source_ids", "source_lengths"), np.int32)


def facts(infos):
    """Returns types and shapes, by name."""
    return {
        name: (info.dtype, [dim.size for dim in info.tensor_shape.dim])
        for name, info in infos.items()
    }


@contextlib.contextmanager
def serving(*flags, name):
    """Starts serve.py on a free port; yields (process, `Client`) once it answers."""
    command = [sys.executable, str(ROOT / "serve.py"), "--port=0", *map(str, flags)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        found = re.fullmatch(rf"serving {name} at http://127\.0\.0\.1:(\d+)/ .*\n", line)
        assert found, (line, process.stderr.read() if not line else "")
        yield process, Client(int(found[1]))
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("serve")


@pytest.fixture(scope="module")
def example(folder):
    Example().save(folder / "example" / "1")
    return folder / "example"


@pytest.fixture(scope="module")
def model(folder):
    """The directory of a trained model."""
    flags = [*corpus_flags(folder, train=60, valid=6), *small_flags("transformer_tiny")]
    flags += ["--num_pieces=300", "--max_tokens_per_batch=256", "--max_steps=20", "--bleu_lines=0"]
    flags += ["--learning_rate=0.03", "--warmup_steps=1", "--eval_every_steps=20"]
    path = folder / "tiny model"
    flags += [f"--data_dir={folder / 'data'}", f"--model_dir={path}"]
    assert run_script("train", flags).status == 0
    return path


@pytest.fixture(scope="module")
def server(model):
    """A `Client` of serve.py for the trained model."""
    flags = f"--model_dir={model}", "--model_name=tiny", "--max_input_tokens=200"
    with serving(*flags, name="tiny") as (_, client):
        yield client


def test_a_killed_server_answers_again_and_a_stopped_one_finishes_its_requests(example):
    with serving(f"--export_dir={example}", name="example") as (process, client):
        assert client.predict({"inputs": ["a"]}).json()["outputs"]["translation"] == ["A"]
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    flags = f"--export_dir={example}", "--model_name=example", "--log_requests"
    with serving(*flags, name="example") as (process, client), ThreadPoolExecutor(1) as thread:
        wait = {"signature_name": "wait", "inputs": 1.5}
        running = thread.submit(client.predict, wait)
        assert client.predict({"inputs": ["\u202e"]}).status == 200
        assert client.predict({"inputs": 7}).status == 400
        assert client.send("GET", "/", Host="stranger.example").status == 403
        process.send_signal(signal.SIGTERM)
        assert running.result().status == 200
        assert process.wait() == 0
        lines = process.stdout.read().splitlines()
        assert process.stderr.read() == ""
    assert lines.pop() == "stopped"
    answered = sorted(re.fullmatch(r"(.*) \d+ ms", line)[1] for line in lines)
    predict = "POST /v1/models/example:predict"
    assert answered == ["GET / 403", f"{predict} 200", f"{predict} 200", f"{predict} 400"]


def test_a_server_that_is_stopped_while_it_warms_up_leaves_no_files(model, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with serving(f"--model_dir={model}", "--model_name=tiny", name="tiny") as (process, _):
        # Behind its answers, the server writes the model into a folder.
        while not any(path.is_dir() for path in tmp_path.iterdir()):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.communicate() == ("stopped\n", "")
    assert process.returncode == 0 and not any(tmp_path.iterdir())


def test_what_a_killed_server_has_begun_ends_with_it(model):
    with serving(f"--model_dir={model}", "--model_name=tiny", name="tiny") as (process, _):
        process.kill()
        # Whoever still runs holds the streams.
        assert process.communicate(timeout=20) == ("", "")


def test_a_process_behind_the_answers_that_fails_says_why(tmp_path, capfd):
    with pytest.raises(UserError, match="status 1"):
        call_elsewhere(os.mkdir, tmp_path, stop=threading.Event())
    assert capfd.readouterr().err.startswith("error: [Errno 17] File exists")


def test_the_first_answers_are_those_of_the_exported_model(model):
    """The model answers in this process until its SavedModel takes its place."""
    asked = Arguments(model_dir=str(model), max_input_tokens=12)
    versions = served(asked, "tiny")
    with versions.use("tiny") as first:
        signatures = dict(first.signatures)
        asyncio.run(versions.succeed())
        with versions.use("tiny") as exported:
            assert exported is not first
            for name in exported.signatures.keys() - {"__saved_model_init_op"}:
                ours, theirs = signatures[name], exported.signatures[name]
                assert facts(ours.inputs) == facts(theirs.inputs)
                assert facts(ours.outputs) == facts(theirs.outputs)
                values = {"beam_size": -1, "length_penalty": -1.0, "n_best": -1}
                values |= {"source_ids": [5, 6, 3], "source_lengths": 3}
                inputs = {
                    key: np.array([values.get(key, b"one dog")] * 2, KINDS.get(key, object))
                    for key in ours.inputs
                }
                found, expected = (each.run(name, inputs, 60.0) for each in (first, exported))
                for key in expected:
                    if expected[key].dtype == np.float32:
                        np.testing.assert_allclose(found[key], expected[key], atol=2e-5)
                    else:
                        assert found[key].tolist() == expected[key].tolist()
    versions.close()


def test_answers_are_those_of_translate(server, model, folder):
    text, out = folder / "lines", folder / "out"
    text.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    flags = [f"--model_dir={model}", f"--input={text}", f"--output={out}", "--format=scores"]
    assert run_script("translate", flags).status == 0
    expected = [line.split("\t", 1) for line in read_lines(out)]
    with ThreadPoolExecutor(8) as threads:
        requests = [{"instances": LINES[i : i + 2]} for i in range(0, len(LINES), 2)]
        path = "/v1/models/tiny:predict"
        answers = threads.map(lambda request: server.predict(request, path), requests)
        found = [row for answer in answers for row in answer.json()["predictions"]]
    assert [row["translation"] for row in found] == [text for _, text in expected]
    scores = [float(score) for score, _ in expected]
    np.testing.assert_allclose([row["score"] for row in found], scores, atol=2e-4)


@pytest.fixture(scope="module")
def browser():
    with chromium() as driver:
        yield driver


def test_the_page_translates_by_keyboard_and_shows_hostile_text_as_text(server, browser):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait

    def find(selector):
        return browser.find_elements(By.CSS_SELECTOR, selector)

    def until(condition):
        return WebDriverWait(browser, 60).until(lambda _: condition())

    address = f"http://127.0.0.1:{server.port}/"
    browser.get(address)
    browser.switch_to.active_element.send_keys(HOSTILE, Keys.ENTER)
    until(lambda: find("#explorer .explorer select"))
    assert browser.title == "tiny" and not find("main script")
    rows = find("#translations tr")
    assert rows and all(re.fullmatch(r".+ -?\d+\.\d{3}", row.text, re.DOTALL) for row in rows)
    shown = find("#explorer")[0].text
    assert "<script>document.title = 'x'</script> \"one\" 'dog'" in shown and "&amp;" in shown
    assert "\u202e" not in browser.find_element(By.ID, "explorer").get_attribute("textContent")
    buttons = find("#translations button")
    assert buttons[0].get_attribute("aria-pressed") == "true"
    if len(buttons) > 1:
        buttons[0].send_keys(Keys.TAB)
        browser.switch_to.active_element.send_keys(Keys.ENTER)
        until(lambda: buttons[1].get_attribute("aria-pressed") == "true")
        assert buttons[0].get_attribute("aria-pressed") == "false"
    field = find("#text")[0]
    field.clear()
    field.send_keys("dog " * 250, Keys.ENTER)  # More tokens than are allowed.
    until(lambda: "tokens" in find("#status.error")[0].text if find("#status.error") else False)
    refused = [entry for entry in browser.get_log("browser") if "400" not in entry["message"]]
    assert refused == []
    asked = requested(browser)
    assert asked and all(url.startswith((address, "data:")) for url in asked)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_the_page_accessible(server, browser, scheme):
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait

    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.get(f"http://127.0.0.1:{server.port}/")
    assert violations(browser) == []
    browser.switch_to.active_element.send_keys("one dog", Keys.ENTER)
    WebDriverWait(browser, 60).until(
        lambda driver: driver.find_elements("css selector", "#explorer .explorer select")
    )
    assert violations(browser) == []


def test_a_warning_of_loading_a_model_is_shown(monkeypatch, capfd):
    def warn(directories, **how):
        os.write(2, b"a warning\n")
        raise UserError("no model")

    monkeypatch.setattr(combined_models, "load_models", warn)
    done = run_script("serve", ["--port=0", "--model_dir=x"], capfd)
    assert done.status == 1 and done.err == "a warning\nerror: no model\n"


def test_a_port_that_is_taken_while_the_model_loads_is_refused_in_one_line(
    example, monkeypatch, capsys
):
    with contextlib.ExitStack() as stack:
        other = stack.enter_context(socket.socket())
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]

        def load_while_the_other_begins(*arguments):
            other.listen()
            return load_first(*arguments)

        monkeypatch.setattr(
            "nmt_zoo.serving.server.served_versions.load_first", load_while_the_other_begins
        )
        done = run_script("serve", [f"--export_dir={example}", f"--port={port}"], capsys)
    assert done.status == 1 and done.out == ""
    assert done.err.startswith(f"error: 127.0.0.1:{port}: cannot listen there")
    assert done.err.count("\n") == 1 and os.strerror(errno.EADDRINUSE) in done.err
