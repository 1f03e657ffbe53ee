"""Protects a local server from other web pages, and its answers from being read as something else.

A web page of another site can make a browser send requests to this computer. Two headers that the
page cannot choose show where a request comes from: `Origin` is the page's site, and `Host` is the
name under which the browser found the server. So a request passes only if its origin is this
server, and its host is an address, `localhost` or a name that was allowed. Any other name may be
one that a stranger has pointed to this computer (DNS rebinding).
"""

import ipaddress
import re
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from nmt_zoo.common.errors import printable

_HOST = re.compile(r"(?:\[(?P<v6>[0-9a-fA-F:.]+)\]|(?P<name>[^:\[\]]+))(?::\d{1,5})?")
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Guard:
    """ASGI application around another: checks Host and Origin, adds headers, logs, answers errors.

    Errors are answered in JSON, `{"error": message}`. `names` are the lower-case host names that
    are allowed besides addresses and `localhost`; `log` is called with a line for each request.
    """

    def __init__(
        self, app: Any, names: Sequence[str] = (), log: Callable[[str], None] | None = None
    ) -> None:
        self._app = app
        self._log = log
        self._names = {"localhost", *filter(None, names)}  # A list may end in a comma.

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        scope["app"] = self  # With it, a `Router` raises errors instead of answering in plain text.
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), None

        async def send_with_headers(message):
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [(name.lower().encode(), text.encode()) for name, text in HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *headers]}
            await send(message)

        try:
            self._check(scope["headers"])
            await self._app(scope, receive, send_with_headers)
        except Exception as error:
            if status is None:
                await _answer(error, scope)(scope, receive, send_with_headers)
        if self._log:
            milliseconds = 1000 * (time.monotonic() - began)
            path = printable(scope["path"])[:200]
            self._log(f"{scope['method']} {path} {status} {milliseconds:.0f} ms")

    def _check(self, headers):
        """Raises `HTTPException` if the request is for another host, or from another site."""
        hosts = [value.decode("latin-1").lower() for name, value in headers if name == b"host"]
        if len(hosts) != 1 or not self._is_ours(hosts[0]):
            raise HTTPException(
                403,
                "this server does not go by that Host; use its address, or start it with "
                "--allowed_hosts",
            )
        origins = {value.decode("latin-1").lower() for name, value in headers if name == b"origin"}
        if not origins <= {f"http://{hosts[0]}", f"https://{hosts[0]}"}:
            raise HTTPException(403, "requests from pages of another Origin are not answered")

    def _is_ours(self, host):
        match = _HOST.fullmatch(host)
        if not match:
            return False
        try:
            ipaddress.ip_address(match["v6"] or match["name"])
        except ValueError:
            return match["name"] in self._names
        return True


def _answer(error, scope):
    """Returns the response for an error; prints an unexpected one, whose text it leaves out."""
    if not isinstance(error, HTTPException):
        reason = printable(" ".join(f"{type(error).__name__}: {error}".split()))[:500]
        print(f"error: a request failed: {reason}", file=sys.stderr, flush=True)
        error = HTTPException(500, "internal error")
    # It may repeat half of a surrogate pair of the request, which UTF-8 does not have.
    message = error.detail.encode(errors="backslashreplace").decode()
    if message in ("Not Found", "Method Not Allowed"):  # As a `Router` says it.
        message += f": {scope['method'][:20]} {quote(scope['path'])[:200]}"
    return JSONResponse({"error": message}, error.status_code, error.headers)
