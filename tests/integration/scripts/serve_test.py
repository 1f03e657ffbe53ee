"""serve.py: from its flags to its answers, its page, and its end."""

import contextlib
import errno
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from nmt_zoo.command_line import serve
from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import write_lines
from nmt_zoo.decoding.scoring import Scorer
from nmt_zoo.model_directory.directory import ModelDirectory
from tests.browser import requested, violations
from tests.integration.serving.server.example import PAIR, Client, running
from tests.running import ROOT, attempt, eagerly, error_of, run_script, train
from tests.tiny import pairs

HOSTILE = "<script>document.title = 'x'</script> \"one\" 'dog' \u202e cat &amp;"
LINES = [source for source, _ in pairs(5, seed=3)] + ["", "dog zebra", "one dog . a cat ran ."]
PREDICT = "/v1/models/tiny:predict"


@pytest.fixture(scope="module")
def loaded(transformer):
    """The model with its tokenizer and configuration."""
    return ModelDirectory(transformer).load()


@pytest.fixture(scope="module")
def calibrated(transformer, folder):
    """The model with a temperature, which training chooses if there is enough validation text."""
    directory = ModelDirectory(shutil.copytree(transformer, folder / "calibrated"))
    directory.write_search({**directory.chosen(), "temperature": 3.0})
    return directory.path


@pytest.fixture(scope="module")
def server(calibrated):
    """A `Client` of a server for the trained model, in this process."""
    limits = {"beam_size": 3, "max_input_tokens": 200, "compile": False}
    arguments = serve.Arguments(model_dir=str(calibrated), **limits)
    with running(serve.load(arguments, "tiny"), max_lines=8) as client:
        yield client


def predicted(server, signature, **inputs):
    """Returns the outputs of a signature for columns of inputs."""
    answer = server.predict({"signature_name": signature, "inputs": inputs}, PREDICT)
    assert answer.status == 200, answer.body
    return answer.json()["outputs"]


def test_answers_are_those_of_translate(server, transformer, tmp_path):
    write_lines(tmp_path / "lines", LINES)
    flags = [f"--model_dir={transformer}", f"--input={tmp_path / 'lines'}", "--format=scores"]
    flags += ["--beam_size=3", "--max_input_tokens=200", "--compile=never"]
    expected = [line.split("\t", 1) for line in run_script("translate", flags).out.splitlines()]
    with ThreadPoolExecutor(8) as threads:
        requests = [{"instances": LINES[i : i + 2]} for i in range(0, len(LINES), 2)]
        answers = threads.map(lambda request: server.predict(request, PREDICT), requests)
        rows = [row for answer in answers for row in answer.json()["predictions"]]
    assert [row["translation"] for row in rows] == [text for _, text in expected]
    scores = [float(score) for score, _ in expected]
    np.testing.assert_allclose([row["score"] for row in rows], scores, atol=2e-4)
    (whole,) = predicted(server, "serving_default", text=["\n".join(LINES[:3])])["translation"]
    assert whole == "\n".join(text for _, text in expected[:3])
    # Of several translations, each is of the whole line, also if it has several sentences.
    several = run_script("translate", [f for f in flags if "format" not in f] + ["--n_best=2"])
    options = {"n_best": [2], "beam_size": [-1], "length_penalty": [-1]}
    (found,) = predicted(server, "translate", text=LINES[-1:], **options)["translation"]
    last = [line.split(" ||| ") for line in several.out.splitlines()[-2:]]
    assert [text for number, text, _ in last if int(number) == len(LINES) - 1] == found


def test_answers_say_how_sure_the_model_is_as_translate_does(server, calibrated, tmp_path):
    write_lines(tmp_path / "lines", LINES)
    flags = [f"--model_dir={calibrated}", f"--input={tmp_path / 'lines'}", "--format=jsonl"]
    flags += ["--beam_size=3", "--max_input_tokens=200", "--compile=never"]
    records = [json.loads(line) for line in run_script("translate", flags).out.splitlines()]
    requests = [{"signature_name": "confidence", "instances": x} for x in (LINES[:4], LINES[4:])]
    answers = [server.predict(request, PREDICT).json()["predictions"] for request in requests]
    for record, answer in zip(records, itertools.chain(*answers), strict=True):
        assert answer["translation"] == record["translation"]
        for name in ("confidence", "word_confidence", "token_log_probs"):
            expected, found = record.get(name), answer[name]
            if isinstance(expected, list):  # Padded to the longest row.
                assert not any(found[len(expected) :])
                found = found[: len(expected)]
            assert (found is None) == (expected is None) == (record["source"] == "")
            np.testing.assert_allclose(found or [], expected or [], atol=2e-4)
    rows = [records[0], records[1]]
    whole = predicted(server, "confidence", text=["\n\n".join(row["source"] for row in rows)])
    for name in ("word_confidence", "token_log_probs"):
        expected = rows[0][name] + rows[1][name]
        np.testing.assert_allclose(whole[name][0], expected, atol=2e-4)
    logs = [[np.log(row["confidence"])] * len(row["token_log_probs"]) for row in rows]
    assert np.log(whole["confidence"][0]) == pytest.approx(np.mean(np.concatenate(logs)), abs=1e-3)


@eagerly
@pytest.mark.parametrize("precision", ["int8", "auto"])
def test_precisions_are_those_of_translate(precision, transformer, tmp_path, monkeypatch, capsys):
    gain = "nmt_zoo.decoding.search.precision_choice.kernels_gain"
    monkeypatch.setattr(gain, lambda: 0.5)
    arguments = serve.Arguments(model_dir=str(transformer), precision=precision, beam_size=2)
    served = serve.load(arguments, "tiny")
    said = capsys.readouterr().err
    assert said.startswith("precision: float32, as products" if precision == "auto" else "")
    write_lines(tmp_path / "lines", LINES[:2])
    flags = [f"--model_dir={transformer}", f"--input={tmp_path / 'lines'}", "--format=scores"]
    done = run_script("translate", [*flags, f"--precision={precision}", "--beam_size=2"])
    translate = served.signatures["translate"]
    inputs = {"text": LINES[:2], "beam_size": [2, 1], "length_penalty": [-1, -1], "n_best": [1, 1]}
    answers = translate.answers(translate.rows(inputs))
    score, text = done.out.splitlines()[0].split("\t")
    assert answers[0]["translation"] == [text]
    np.testing.assert_allclose(answers[0]["score"], float(score), atol=1e-4)
    assert answers[1]["translation"][0] and capsys.readouterr().err == ""
    sure = served.signatures["confidence"]  # No temperature was chosen for this model.
    (answer,) = sure.answers(sure.rows({"text": LINES[:1]}))
    assert answer["translation"] == text and answer["word_confidence"] is None


def test_given_translations_are_scored(server, loaded):
    model, tokenizer, config = loaded
    pair = {"source": ["one dog", "", "cat"], "target": ["eins Hund", "", "große Katze"]}
    scorer = Scorer(model, tokenizer, length_penalty=config["length_penalty"])
    expected = scorer.score(*pair.values())
    scores = predicted(server, "score", **pair)
    for name in ("log_prob", "score"):
        values = [getattr(scored, name) for scored in expected]
        np.testing.assert_allclose(scores[name], values, rtol=1e-4)
    np.testing.assert_allclose(np.sum(scores["token_log_probs"], axis=1), scores["log_prob"])


# Name -> (signature, inputs, what the error says).
REFUSED = {
    "a long line": ("serving_default", {"text": ["a", "dog " * 70]}, "text[1]: longer than"),
    "many sentences": ("serving_default", {"text": ["A dog . " * 9]}, "at most 8 are possible"),
    "many tokens": ("serving_default", {"text": ["dog " * 50] * 4}, "as long as"),
    "many pairs of tokens": (
        "score",
        dict.fromkeys(PAIR, ["dog " * 50] * 4),
        "as long as 9 lines",
    ),
    "many lines": ("serving_default", {"text": ["dog\n" * 9]}, "at most 8 are possible"),
    "a wide beam": ("translate", {"beam_size": 4}, "beam_size[0] is 4, not from 1 to 3"),
    "a penalty": ("translate", {"length_penalty": 11}, "length_penalty[0] is 11, not from 0 to 10"),
    "NaN": ("translate", {"length_penalty": float("nan")}, "length_penalty[0] is nan"),
    "n_best": ("translate", {"beam_size": 2, "n_best": 3}, "n_best[0] is 3, not from 1 to 2"),
    "many options": ("translate", {"length_penalty": [0.1, 0.2, 0.3]}, "more than 2"),
    "a long pair": ("score", {"source": ["a"], "target": ["dog " * 250]}, "target[0] has"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_answered_is_refused_with_the_reason(name, server):
    signature, inputs, reason = REFUSED[name]
    if signature == "translate":
        options = {"beam_size": -1, "length_penalty": -1, "n_best": -1, **inputs}
        rows = max(np.size(value) for value in options.values())
        inputs = {key: np.resize(value, rows).tolist() for key, value in options.items()}
        inputs["text"] = ["dog"] * rows
    answer = server.predict({"signature_name": signature, "inputs": inputs}, PREDICT)
    assert answer.status == 400 and reason in answer.json()["error"]


def test_the_page_shows_attention_and_alternatives_of_each_line(server):
    lines = ["one dog", "one {☕} dog"]
    (text,) = predicted(server, "serving_default", text=["\n".join(lines)])["translation"]
    for number, (line, translation) in enumerate(zip(lines, text.split("\n"), strict=True)):
        shown = server.predict({"text": "\n".join(lines), "line": number}, "/page").json()["model"]
        assert shown["target"]["text"] == shown["translations"][0]["text"] == translation
        assert shown["source"]["text"] == line and len(shown["translations"]) > 1
        maps = {"encoder/0/self", "decoder/0/self", "decoder/0/cross"}
        assert {*shown["maps"]} >= maps
    for number in (-1, 1):
        assert server.predict({"text": "one dog", "line": number}, "/page").status == 400


def test_the_page_says_what_a_model_translates_as_far_as_it_is_known():
    known = {"model": "m", "languages": {"source": "en", "target": ""}}
    for config, asked, expected in (
        ({"model": "m", "dataset": "demo"}, ("", ""), "m, made from demo (English-German"),
        ({"model": "m", "dataset": "files"}, ("", ""), "m, made from texts of its owner."),
        ({**known, "imported": {"from": "/x/opus"}}, ("", "de"), "opus. Languages: en to de."),
    ):
        assert expected in serve.about(config, asked)


def test_unusual_lines_and_translations_have_warnings(server):
    request = {"instances": ["one dog", "one dog . two cat ."]}
    warnings = server.predict(request, PREDICT).json()["warnings"]
    assert any("(see --split_sentences): 1 of 2 (line 2)" in warning for warning in warnings)


def test_a_stopped_server_finishes_its_requests(corpus, tmp_path):
    train(tmp_path, "ibm", *corpus, "--model=ibm1", "--max_steps=1", "--bleu_lines=0")
    flags = ["--port=0", f"--model_dir={tmp_path / 'ibm'}", "--model_name=tiny", "--log_requests"]
    flags += ["--beam_size=1", "--nocompile"]
    command = [sys.executable, str(ROOT / "serve.py"), *flags]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        address = re.fullmatch(r"serving tiny at http://127\.0\.0\.1:(\d+)/ .*\n", line)
        assert address, (line, process.stderr.read() if not line else "")
        client = Client(int(address[1]))
        assert client.predict({"inputs": ["\u202e"]}, PREDICT).status == 200
        assert client.predict({"inputs": 7}, PREDICT).status == 400
        assert client.send("GET", "/", Host="stranger.example").status == 403
        body = json.dumps({"inputs": ["dog"]}).encode()
        head = f"POST {PREDICT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", client.port), timeout=60) as connection:
            connection.sendall(head.encode() + body[:5])
            assert client.send("GET", "/v1/models/tiny").status == 200  # The other has arrived.
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.5)
            connection.sendall(body[5:])
            assert connection.recv(100).startswith(b"HTTP/1.1 200 ")
        assert process.wait(60) == 0
        lines = process.stdout.read().splitlines()
        assert process.stderr.read() == ""
    finally:
        process.kill()
        process.communicate()
    assert lines.pop() == "stopped"
    answered = sorted(re.fullmatch(r"(.*) \d+ ms", line)[1] for line in lines)
    predict = f"POST {PREDICT}"
    expected = ["GET / 403", "GET /v1/models/tiny 200", f"{predict} 200", f"{predict} 200"]
    assert answered == [*expected, f"{predict} 400"]


def test_the_page_is_accessible_translates_by_keyboard_and_shows_hostile_text_as_text(
    server, browser
):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait

    def find(selector):
        return browser.find_element(By.CSS_SELECTOR, selector)

    def until(condition):
        return WebDriverWait(browser, 60).until(lambda _: condition())

    def translate(text):
        find("#text").clear()
        find("#text").send_keys(text, Keys.CONTROL, Keys.ENTER)
        until(lambda: find("#result").get_attribute("aria-busy") == "false")

    address = f"http://127.0.0.1:{server.port}/"
    browser.get(address)
    assert browser.switch_to.active_element == find("#text") and browser.title == "tiny"
    find("#example").click()
    until(lambda: find("#translation").text)
    assert find("#text").get_attribute("value") in {source for source, _ in pairs(200)}
    translate(f"one dog{Keys.ENTER}{HOSTILE}")
    (expected,) = predicted(server, "serving_default", text=[f"one dog\n{HOSTILE}"])["translation"]
    assert find("#translation").text.split("\n")[0] == expected.split("\n")[0]
    sure = predicted(server, "confidence", text=[f"one dog\n{HOSTILE}"])
    marks = browser.find_elements(By.CSS_SELECTOR, "#translation mark")
    words = zip(sure["translation"][0].split(), sure["word_confidence"][0], strict=True)
    unsure = [(word, f"{number:.0%} sure") for word, number in words if number < 0.5]
    assert [mark.get_attribute("title") for mark in marks] == [title for _, title in unsure] != []
    assert marks[-1].text == unsure[-1][0]
    content = "return getComputedStyle(arguments[0], '::after').content"  # For screen readers.
    assert f"{unsure[0][1]}" in browser.execute_script(content, marks[0])
    assert f"is {sure['confidence'][0]:.0%} sure" in find("#legend").text
    find("summary").click()
    until(lambda: find("#explorer select"))
    assert find("#which").is_displayed()
    find("#line option:last-child").click()
    until(lambda: "&amp;" in find("#explorer").get_attribute("textContent"))
    shown = find("#shown").get_attribute("textContent")
    assert HOSTILE.partition("\u202e")[0].strip() in shown and "\u202e" not in shown
    assert not browser.find_elements(By.CSS_SELECTOR, "main script") and "\ufffd" not in shown
    for scheme in ("light", "dark"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        assert violations(browser) == []
    translate("one dog")
    assert not find("#which").is_displayed()
    translate("dog " * 70)  # More tokens than are allowed.
    assert find("#status.error").text.startswith("Longer than the limit of 200 tokens")
    assert not find("#result").is_displayed()
    refused = [entry for entry in browser.get_log("browser") if "400" not in entry["message"]]
    assert refused == []
    urls = requested(browser)
    assert urls and all(url.startswith((address, "data:")) for url in urls)


def test_a_warning_of_loading_a_model_is_shown(monkeypatch, capfd):
    def warn(*directories, **how):
        os.write(2, b"a warning\n")
        raise UserError("no model")

    monkeypatch.setattr(serve, "load_models", warn)
    run_script("serve", ["--port=0", "--model_dir=x"], "no model")
    assert capfd.readouterr().err == "a warning\n"


def test_a_port_that_is_taken_is_refused_in_one_line():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = attempt("serve", ["--model_dir=x", f"--port={port}"])
    assert error_of(done) and done.out == "" and done.err.count("\n") == 1
    assert done.err.startswith(f"error: 127.0.0.1:{port}: cannot listen there")
    assert os.strerror(errno.EADDRINUSE) in done.err
