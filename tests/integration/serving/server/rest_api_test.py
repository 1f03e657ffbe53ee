"""The server answers as TensorFlow Serving does, and refuses everything else without harm."""

import contextlib
import json
import re
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest

from nmt_zoo.serving.server import json_tensors
from tests.integration.serving.server.example import SIGNATURES, example_model, running

MODEL = "/v1/models/example"
PREDICT = f"{MODEL}:predict"
GOOD = {"instances": ["a"]}


def works(client):
    """Says whether the server still answers."""
    return client.predict({"inputs": ["a"]}).json()["outputs"]["translation"] == ["A"]


def test_rows_and_columns_are_answered(client):
    rows = client.predict({"instances": ["dog", "ü <b>"]})
    assert rows.status == 200 and rows.headers["content-type"] == "application/json"
    assert [row["translation"] for row in rows.json()["predictions"]] == ["DOG", "Ü <B>"]
    columns = client.predict({"inputs": {"text": ["dog"]}, "signature_name": "serving_default"})
    assert columns.json() == {"outputs": {"rows": [1], "translation": ["DOG"]}}
    assert client.predict({"instances": [{"text": "dog"}]}).json() == {
        "predictions": [{"rows": 1, "translation": "DOG"}]
    }
    pairs = {"source": ["a", "c"], "target": ["b", "d"]}
    columns = client.predict({"signature_name": "pair", "inputs": pairs})
    assert columns.json() == {"outputs": ["ab", "cd"]}
    pair = {"signature_name": "pair", "instances": [{"source": "a", "target": "b"}]}
    assert client.predict(pair, f"{MODEL}/versions/1:predict").json() == {"predictions": ["ab"]}
    assert client.predict({"inputs": []}).json() == {"outputs": {"rows": [], "translation": []}}
    shown = client.predict({"source": "a", "target": "b"}, "/page")
    assert shown.json() == {"joined": "ab"}


def test_the_status_is_that_of_tensorflow_serving(client):
    expected = {"version": "1", "state": "AVAILABLE"}
    expected["status"] = {"error_code": "OK", "error_message": ""}
    for path in (MODEL, f"{MODEL}/versions/1"):
        assert client.send("GET", path).json() == {"model_version_status": [expected]}


def test_health_is_the_name_of_a_model_that_answers(client, monkeypatch):
    health = client.send("GET", "/health")
    assert (health.status, health.json()) == (200, {"status": "ok", "model": "example"})
    broken = SIGNATURES["serving_default"]._replace(answers=lambda rows: [][0])
    monkeypatch.setitem(SIGNATURES, "serving_default", broken)
    assert client.send("GET", "/health").status == 500


def nested(depth):
    return b'{"instances": ' + b"[" * depth + b"]" * depth + b"}"


def numbers(**changed):
    inputs = {"count": [1], "share": [0.5], **changed}
    return {"signature_name": "numbers", "inputs": inputs}


# Name -> (status, body of a request): bytes, or an object for JSON.
MALFORMED = {
    "nothing": (400, b""),
    "no JSON": (400, b"hello"),
    "JSON that breaks off": (400, b'{"instances": ["a"'),
    "text after JSON": (400, b'{"instances": ["a"]} x'),
    "null": (400, b"null"),
    "no inputs": (400, {}),
    "rows and columns": (400, {"instances": ["a"], "inputs": ["a"]}),
    "no rows": (400, {"instances": []}),
    "a string for rows": (400, {"instances": "a"}),
    "numbers for text": (400, {"instances": [1, 2]}),
    "NaN for text": (400, b'{"instances": [NaN]}'),
    "objects and texts": (400, {"instances": [{"text": "a"}, "b"]}),
    "texts and objects": (400, {"instances": ["a", {"text": "b"}]}),
    "a scalar in columns": (400, {"inputs": "a"}),
    "an input with another name": (400, {"instances": [{"source": "a"}]}),
    "one input too many": (400, {"instances": [{"text": "a", "more": "b"}]}),
    "a missing column": (400, {"inputs": {}}),
    "a plain list for two inputs": (400, {"signature_name": "pair", "instances": ["a"]}),
    "columns of different lengths": (
        400,
        {"signature_name": "pair", "inputs": {"source": ["a", "b"], "target": ["c", "d", "e"]}},
    ),
    "an unknown signature": (400, {**GOOD, "signature_name": "nothing"}),
    "a number for the signature": (400, {**GOOD, "signature_name": 7}),
    "text that is not UTF-8": (400, b'{"instances": ["\xff"]}'),
    "UTF-16": (400, '{"instances": ["a"]}'.encode("utf-16")),
    "half a surrogate pair": (400, rb'{"instances": ["\ud800"]}'),
    "half a surrogate pair for the signature": (
        400,
        rb'{"instances": ["a"], "signature_name": "\ud800"}',
    ),
    "control characters in a string": (400, b'{"instances": ["a\x00b"]}'),
    "nested deeply": (400, nested(2000)),
    "brackets that stay open": (400, b"[" * 4000),
    "a number of 4,000 digits": (400, b'{"instances": [' + b"9" * 4000 + b"]}"),
    "a decimal for a whole number": (400, numbers(count=[1.0])),
    "a truth value for a number": (400, numbers(count=[True])),
    "a string for a number": (400, numbers(share=["0"])),
    "a line that the model refuses": (400, {"instances": ["a", "bad"]}),
    "too many lines": (400, {"instances": ["a"] * 9}),
    "a body that is too large": (413, {"instances": ["a" * 5000]}),
    "a body that is much too large": (413, b"x" * 1_000_000),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_request_is_refused_in_json(name, client):
    status, body = MALFORMED[name]
    answer = client.predict(body)
    assert answer.status == status, answer.body
    error = answer.json()["error"]
    assert list(answer.json()) == ["error"] and error and len(error) < 600
    assert "Traceback" not in error and ".py" not in error and "\n" not in error
    assert works(client)


# Method, path -> status.
ADDRESSES = {
    ("GET", "/v1/models"): 400,
    ("GET", "/v1/models/nothing"): 404,
    ("GET", f"{MODEL}/versions/2"): 404,
    ("GET", f"{MODEL}/versions/x"): 400,
    ("GET", f"{MODEL}/versions/99999999999999999999999"): 400,
    ("GET", PREDICT): 400,
    ("POST", MODEL): 400,
    ("POST", "/v1/models/nothing:predict"): 404,
    ("POST", f"{MODEL}/versions/2:predict"): 404,
    ("POST", f"{MODEL}:classify"): 400,
    ("PUT", PREDICT): 400,
    ("POST", "/"): 405,
    ("POST", "/page"): 400,
    ("GET", "/page"): 405,
    ("GET", "/etc/passwd"): 404,
    ("GET", "/static/"): 404,
    ("GET", "/static/../rest_api.py"): 404,
    ("GET", "/static/..%2frest_api.py"): 404,
    ("GET", "/v1/../serve.py"): 400,
    ("GET", "/%00"): 404,
    ("GET", "/v1/models/%ff"): 404,
    ("GET", "/" + "a" * 5000): 404,
}


@pytest.mark.parametrize(("method", "path"), ADDRESSES)
def test_a_strange_address_is_refused(method, path, client):
    answer = client.send(method, path, json.dumps(GOOD).encode() if method == "POST" else None)
    assert answer.status == ADDRESSES[method, path], answer.body
    assert list(answer.json()) == ["error"] and len(answer.json()["error"]) < 600


POST = b"POST %b HTTP/1.1\r\nHost: localhost\r\n" % PREDICT.encode()
NOT_HTTP = {
    "a word": b"hello\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
    "an address that is not ASCII": b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "the beginning of TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "a chunk of zz bytes": POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
    "two lengths": POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
}


@pytest.mark.parametrize("name", NOT_HTTP)
def test_bytes_that_are_not_http_are_refused(name, client):
    answer = client.raw(NOT_HTTP[name])
    assert answer.split(b"\r\n")[0].split(b" ")[1] in (b"400", b"403"), answer
    assert b"Traceback" not in answer
    assert works(client)


def test_a_client_that_goes_away_harms_no_other(client):
    with socket.create_connection(("127.0.0.1", client.port)) as connection:
        connection.sendall(POST + b"Content-Length: 100\r\n\r\n{")
    assert works(client)


def test_a_body_without_a_length_is_limited_too(client):
    assert client.send("POST", PREDICT, iter([b"x" * 4096] * 4)).status == 413


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (200, {"Host": "localhost:1234"}),
        (200, {"Host": "192.168.1.7:8501"}),
        (200, {"Host": "[::1]:8501"}),
        (200, {"Host": "Model.Example:8501"}),
        (200, {"Host": "localhost:8501", "Origin": "http://localhost:8501"}),
        (200, {"Host": "model.example", "Origin": "https://model.example"}),
        (403, {"Host": "stranger.example"}),
        (403, {"Host": "localhost.stranger.example"}),
        (403, {"Host": "2130706433"}),
        (403, {"Host": ""}),
        (403, {"Host": "localhost", "Origin": "http://stranger.example"}),
        (403, {"Host": "localhost:8501", "Origin": "http://localhost:8502"}),
        (403, {"Host": "localhost", "Origin": "null"}),
    ],
)
def test_requests_of_other_sites_are_not_answered(status, headers, client):
    for answer in (client.predict(GOOD, **headers), client.send("GET", "/", **headers)):
        assert answer.status == status
        assert status == 200 or "error" in answer.json()


def test_answers_cannot_be_read_by_or_framed_in_other_pages(client):
    for answer in (client.send("GET", "/"), client.send("GET", "/nothing"), client.predict(GOOD)):
        assert not {"access-control-allow-origin", "server"} & answer.headers.keys()
        assert answer.headers["x-content-type-options"] == "nosniff"
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy


def test_more_requests_than_allowed_are_asked_to_come_again():
    def answer_other_than(status):
        while (answer := client.predict(GOOD)).status == status:
            pass  # The server has not read all that the others did.
        return answer

    with running(max_requests=2) as client, contextlib.ExitStack() as others:
        for _ in range(2):  # Clients that do not end their requests.
            other = others.enter_context(socket.create_connection(("127.0.0.1", client.port)))
            other.sendall(POST + b"Content-Length: 100\r\n\r\n{")
        refused = answer_other_than(200)
        assert refused.status == 503 and "error" in refused.json()
        assert refused.headers["retry-after"] == "1"
        others.close()
        assert answer_other_than(503).status == 200


def test_a_request_that_takes_too_long_is_given_up():
    with running(timeout_seconds=0.5) as client:
        answer = client.predict({"signature_name": "wait", "inputs": [2.0]})
        assert answer.status == 504 and "error" in answer.json()
        with socket.create_connection(("127.0.0.1", client.port)) as connection:
            connection.sendall(POST + b"Content-Length: 100\r\n\r\n{")
            assert connection.recv(100).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("step", ["parse", "inputs_of", "answer"])
def test_a_request_is_answered_while_a_long_one_is_converted(step, client, monkeypatch):
    convert, began, other = getattr(json_tensors, step), threading.Event(), threading.Event()

    def convert_after_the_other(*arguments):
        began.set()
        assert other.wait(20)
        return convert(*arguments)

    monkeypatch.setattr(json_tensors, step, convert_after_the_other)
    with ThreadPoolExecutor(1) as thread:
        long = thread.submit(client.predict, GOOD)
        assert began.wait(20) and client.send("GET", MODEL).status == 200
        other.set()
        assert long.result().status == 200


def test_every_request_has_a_line_in_the_log(monkeypatch):
    def fail(*_):
        raise RuntimeError("no answer")

    lines = []
    with running(log=lines.append) as client:
        assert client.predict(GOOD).status == 200
        for path in ("/", "/static/server.js", "/nothing\u202e"):
            client.send("GET", quote(path))
        client.send("PUT", "/")
        client.send("GET", "/", Host="stranger.example")
        client.predict(GOOD, Origin="http://stranger.example")
        monkeypatch.setattr(json_tensors, "answer", fail)
        client.predict(GOOD)
    assert [re.fullmatch(r"(.*) \d+ ms", line)[1] for line in lines] == [
        f"POST {PREDICT} 200",
        "GET / 200",
        "GET /static/server.js 200",
        r"GET /nothing\u202e 404",
        "PUT / 405",
        "GET / 403",
        f"POST {PREDICT} 403",
        f"POST {PREDICT} 500",
    ]


def test_a_model_of_any_name_is_found_and_its_name_is_text_in_the_page():
    name = 'tür\\<script>"x"'
    with running(example_model(name)) as client:
        answer = client.predict(GOOD, f"/v1/models/{quote(name)}:predict")
        assert answer.status == 200, answer.body
        page = client.send("GET", "/").body.decode()
    assert '<script>"x"' not in page and "&lt;script&gt;&quot;x&quot;" in page
