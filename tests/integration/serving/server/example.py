"""A SavedModel that needs no training, and a server for it in a thread."""

import contextlib
import http.client
import json
import socket
import threading
from typing import NamedTuple

import tensorflow as tf
import uvicorn

from nmt_zoo.serving.server.rest_api import ServerLimits, make_app
from nmt_zoo.serving.server.served_versions import ServedVersions

_TEXT = tf.TensorSpec([None], tf.string)


class Example(tf.Module):
    """Translates into upper case.

    Args:
        prefix: begins every translation.
    """

    def __init__(self, prefix=""):
        super().__init__()
        self.prefix = prefix

    @tf.function(input_signature=[_TEXT], autograph=False)
    def translate(self, text):
        """Refuses the line `bad`."""
        bad = tf.where(text == "bad")[:1, 0]
        message = tf.strings.format("text[{}] is bad", bad)
        with tf.control_dependencies([tf.debugging.Assert(tf.size(bad) == 0, [message])]):
            translation = tf.strings.join([self.prefix, tf.strings.upper(text)])
        # The number of rows shows whether requests were answered together.
        rows = tf.fill(tf.shape(text), tf.size(text))
        return {"translation": translation, "rows": rows}

    @tf.function(input_signature=[_TEXT, _TEXT], autograph=False)
    def pair(self, source, target):
        """Joins two texts."""
        return {"joined": tf.strings.join([source, target])}

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, 2], tf.float32),
            tf.TensorSpec([None], tf.int32),
            tf.TensorSpec([None], tf.bool),
        ],
        autograph=False,
    )
    def numbers(self, pairs, count, flag):
        """Returns its inputs, and bytes."""
        raw = tf.strings.join([tf.strings.as_string(count), b"\xff"])
        return {"pairs": pairs, "count": count, "flag": flag, "raw_bytes": raw}

    @tf.function(input_signature=[tf.TensorSpec([], tf.float32)], autograph=False)
    def wait(self, seconds):
        """Computes for some seconds."""
        end = tf.timestamp() + tf.cast(seconds, tf.float64)
        steps = tf.while_loop(lambda _: tf.timestamp() < end, lambda n: [n + 1], [0])
        return {"steps": steps[0]}

    @tf.function(input_signature=[_TEXT], autograph=False)
    def words(self, text):
        """Splits lines into words; rows are padded to the longest."""
        return {"words": tf.strings.split(text).to_tensor()}

    def save(self, folder):
        """Writes the SavedModel."""
        names = {"serving_default": self.translate, "pair": self.pair}
        names |= {"numbers": self.numbers, "wait": self.wait, "words": self.words}
        tf.saved_model.save(self, str(folder), signatures=names)


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
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, found, answer.read())
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
def running(folder, allowed_hosts=(), *, name="example", log=None, **limits):
    """Runs a server for the versions in a folder; yields a `Client`."""
    versions = ServedVersions.of_folder(folder, name)
    app = make_app(versions, name, ServerLimits(**limits), allowed_hosts=allowed_hosts, log=log)
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
