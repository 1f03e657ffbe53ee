"""A web server on this machine that can be told to misbehave."""

import contextlib
import http.server
import threading
from typing import NamedTuple


class Request(NamedTuple):
    """A request: its path, and its Range header or None."""

    path: str
    range: str | None


class Server:
    """Serves bytes.

    Attributes:
        url: address without a slash at the end.
        files: path -> bytes; other paths are answered by 404.
        faults: path -> list of faults, one for each request in turn. A positive int is a status to
            answer; a negative int -n sends n bytes fewer than promised; a pair is a status and its
            name; None is no fault.
        ranges: whether Range headers are obeyed.
        requests: list of `Request`.
    """

    def __init__(self):
        self.url = None
        self.files, self.faults, self.requests = {}, {}, []
        self.ranges = True

    def answer(self, handler):
        """Answers one request."""
        asked = handler.headers.get("Range")
        self.requests.append(Request(handler.path, asked))
        faults = self.faults.get(handler.path)
        fault = faults.pop(0) if faults else None
        data = self.files.get(handler.path)
        if isinstance(fault, tuple):
            handler.send_response(*fault)
            handler.end_headers()
            return
        if data is None or (fault or 0) > 0:
            handler.send_error(fault or 404)
            return
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and self.ranges else 0
        if start and start >= len(data):
            handler.send_response(416)
            handler.send_header("Content-Range", f"bytes */{len(data)}")
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return
        handler.send_response(206 if start else 200)
        if start:
            handler.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        handler.send_header("Content-Length", str(len(data) - start))
        handler.end_headers()
        handler.wfile.write(data[start : len(data) + (fault or 0)])


@contextlib.contextmanager
def serving():
    """Runs a `Server` during the `with` block."""
    server = Server()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            with contextlib.suppress(ConnectionError):  # The client has closed the connection.
                server.answer(self)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        server.url = f"http://127.0.0.1:{listening.server_port}"
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            listening.shutdown()
            thread.join()
