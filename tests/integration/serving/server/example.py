"""A model that needs neither training nor TensorFlow, and a server for it in a thread."""

import contextlib
import http.client
import json
import socket
import threading
import time
from types import SimpleNamespace
from typing import NamedTuple

import uvicorn

from nmt_zoo.common.errors import UserError
from nmt_zoo.serving.server.json_tensors import FLOAT, INTEGER, STRING
from nmt_zoo.serving.server.rest_api import ServerLimits, make_app
from nmt_zoo.serving.server.served_model import Signature


def signature_of(inputs, outputs, answers):
    """Makes a `Signature` whose answers are its outputs, and rows its inputs."""

    def rows(columns):
        return list(zip(*columns.values(), strict=True))

    return Signature(inputs, outputs, rows, answers)


def _upper(rows):
    """Translates into upper case, with the number of rows at once; refuses the line `bad`."""
    if ("bad",) in rows:
        raise UserError("a line is bad")
    return [{"translation": text.upper(), "rows": len(rows)} for (text,) in rows]


def _wait(rows):
    """Computes for some seconds."""
    time.sleep(max(0, rows[0][0]))
    return [{"steps": 1} for _ in rows]


def _pair(rows):
    return [{"joined": "".join(row)} for row in rows]


PAIR = {"source": STRING, "target": STRING}
SIGNATURES = {
    "serving_default": signature_of(
        {"text": STRING}, {"translation": STRING, "rows": INTEGER}, _upper
    ),
    "pair": signature_of(PAIR, {"joined": STRING}, _pair),
    "numbers": signature_of(
        {"count": INTEGER, "share": FLOAT},
        {"counts": INTEGER, "shares": FLOAT},
        lambda rows: [{"counts": count, "shares": [share] * count} for count, share in rows],
    ),
    "wait": signature_of({"seconds": FLOAT}, {"steps": INTEGER}, _wait),
}


def example_model(name):
    """Makes a model as `ServedModel`, with the signatures above."""
    page, facts = signature_of(PAIR, {}, _pair), {"about": "about", "example": "<an example>"}
    return SimpleNamespace(name=name, signatures=SIGNATURES, page=page, **facts)


class Answer(NamedTuple):
    """Status, headers (in lower case) and body of an answer."""

    status: int
    headers: dict
    body: bytes

    def json(self):
        """Returns the body parsed."""
        return json.loads(self.body)


class Client:
    """Sends requests to a server.

    Args:
        port: of the server, on 127.0.0.1.
    """

    def __init__(self, port):
        self.port = port

    def send(self, method, path, body=None, **headers):
        """Sends one request; `_` in the names of headers stands for `-`."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, named)
            answer = connection.getresponse()
            received = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, received, answer.read())
        finally:
            connection.close()

    def predict(self, request, path="/v1/models/example:predict", **headers):
        """Posts a request: bytes, or an object for JSON."""
        body = request if isinstance(request, bytes) else json.dumps(request).encode()
        return self.send("POST", path, body, **headers)

    def raw(self, data):
        """Sends bytes; returns the bytes that come until the server closes the connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.sendall(data)
            return b"".join(iter(lambda: connection.recv(65536), b""))


@contextlib.contextmanager
def running(model=None, allowed_hosts=(), *, log=None, **limits):
    """Runs a server of a `ServedModel`, by default the example; yields a `Client`."""
    model = model or example_model("example")
    app = make_app(model, ServerLimits(**limits), allowed_hosts=allowed_hosts, log=log)
    config = uvicorn.Config(app, log_config=None, log_level="critical", server_header=False)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as opened:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]})
        thread.start()
        try:
            yield Client(opened.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join()
