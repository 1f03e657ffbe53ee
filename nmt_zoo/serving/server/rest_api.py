"""The REST API of TensorFlow Serving, and a page to try a model, as an ASGI application.

    GET  /                                          the page
    POST /page                                      what the page shows of a line of a text
    GET  /health                                    the model's name, if it answers
    GET  /v1/models/NAME[/versions/1]               state of the only version
    POST /v1/models/NAME[/versions/1]:predict       answers, see `json_tensors`

Errors are `{"error": "..."}` with the status of TensorFlow Serving.
"""

import asyncio
import contextlib
import html
import json
import re
import string
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route, Router

from nmt_zoo.common.errors import printable
from nmt_zoo.decoding.explorer.page import script, style
from nmt_zoo.serving.server import json_tensors
from nmt_zoo.serving.server.guard import Guard
from nmt_zoo.serving.server.request_queue import RequestQueue
from nmt_zoo.serving.server.served_model import ServedModel

_ASSETS = Path(__file__).parent / "assets"
_FILES = "server.css", "server.js"
_ADDRESS = re.compile(r"/v1/models/([^/:]+)(?:/versions/(\d{1,18}))?(:predict)?")
_NO_ERROR = {"error_code": "OK", "error_message": ""}
_VERSION = {"version": "1", "state": "AVAILABLE", "status": _NO_ERROR}
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"]


class ServerLimits(NamedTuple):
    """Bounds on what requests can ask of the server."""

    max_lines: int = 64  # Most rows of a request, and of requests that are answered together.
    max_body_bytes: int = 1 << 20  # Largest body of a request.
    max_requests: int = 256  # Most requests at a time; the others are refused.
    timeout_seconds: float = 60.0  # Time to read a request, and time to answer it.
    num_threads: int = 1  # Number of batches that are computed at the same time.


class RestApi:
    """The endpoints of a model and its queue."""

    def __init__(self, model: ServedModel, limits: ServerLimits) -> None:
        self._model = model
        self._limits = limits
        self._num_open = 0  # Requests that are being answered.
        self.queue = RequestQueue(
            max_rows=limits.max_lines,
            num_threads=limits.num_threads,
            seconds=limits.timeout_seconds,
        )

    async def models(self, request: Request) -> Response:
        """Answers everything below `/v1`."""
        method, path = request.method, request.scope["path"]  # `url.path` is escaped.
        match = _ADDRESS.fullmatch(path)
        if not match or method != ("POST" if match[3] else "GET"):
            raise HTTPException(400, f"Malformed request: {method} {path[:200]}")
        name, version, is_question = match.groups()
        if name != self._model.name or version not in (None, "1"):
            requested = f"Latest({name})" if version is None else f"Specific({name}, {version})"
            raise HTTPException(404, f"Servable not found for request: {requested}")
        if is_question:
            return await self._answer(request, self._predicted)
        return JSONResponse({"model_version_status": [_VERSION]})

    async def page(self, request: Request) -> Response:
        """Answers the page with what it shows for `{"text": text, "line": number from 0}`."""
        return await self._answer(request, self._shown)

    async def health(self, request: Request) -> Response:
        """Answers with the model's name once the model has translated a line."""
        signature = self._model.signatures["serving_default"]
        await self._answers(signature, signature.rows({"text": ["A dog runs."]}))
        return JSONResponse({"status": "ok", "model": self._model.name})

    async def _answer(self, request, answer):
        """Answers a request with what `answer` makes of its body, unless there are too many."""
        if self._num_open >= self._limits.max_requests:
            reason = "too many requests at a time; try again"
            raise HTTPException(503, reason, {"Retry-After": "1"})
        self._num_open += 1
        try:
            body = await self._body(request)
            return Response(await answer(body), media_type="application/json")
        finally:
            self._num_open -= 1

    async def _body(self, request):
        try:
            return await asyncio.wait_for(self._read(request), self._limits.timeout_seconds)
        except asyncio.TimeoutError:
            raise HTTPException(408, "the request did not arrive in time") from None
        except ClientDisconnect:
            raise HTTPException(499, "the client closed the connection") from None

    async def _read(self, request):
        """Reads a body; of one that is too large, the rest is dropped, so that an answer arrives.

        A client that is still sending would not read the answer.
        """
        limit, parts, size = self._limits.max_body_bytes, [], 0
        async for part in request.stream():
            size += len(part)
            if size <= limit:
                parts.append(part)
            elif size > 64 * limit:
                break
        if size > limit:
            raise HTTPException(413, f"the request has more than {limit} bytes; send several")
        return b"".join(parts)

    async def _answers(self, signature, rows):
        """Returns the model's answers; raises the first that is an error, with its place."""
        cost = sum(map(signature.cost, rows))
        answers = await self.queue.answer(signature.answers, rows, cost)
        for number, answer in enumerate(answers):
            if isinstance(answer, HTTPException):
                reason = f"{next(iter(signature.inputs))}[{number}]: {answer.detail}"
                raise HTTPException(answer.status_code, reason)
        return answers

    # In threads, because others would wait while many numbers are converted.

    async def _predicted(self, body):
        def read():
            request = json_tensors.parse(body)
            signature = _signature(self._model, request)
            limit = self._limits.max_lines
            inputs, in_rows = json_tensors.inputs_of(request, signature.inputs, limit)
            rows = signature.rows(inputs)
            if (cost := sum(map(signature.cost, rows))) > limit:
                reason = f"as long as {cost:.0f} lines or sentences, at most {limit} are possible"
                raise HTTPException(400, f"{reason}; send it in parts")
            return signature, inputs, rows, in_rows

        def written():
            warnings = signature.warnings(inputs, answers)
            return json_tensors.answer(answers, signature.outputs, in_rows, warnings)

        signature, inputs, rows, in_rows = await asyncio.to_thread(read)
        answers = await self._answers(signature, rows) if rows else []
        return await asyncio.to_thread(written)

    async def _shown(self, body):
        def read():
            request = {"instances": [json_tensors.parse(body)]}
            return page.rows(json_tensors.inputs_of(request, page.inputs, 1)[0])

        page = self._model.page
        (data,) = await self._answers(page, await asyncio.to_thread(read))
        return await asyncio.to_thread(lambda: json.dumps(data).encode())

    async def warm_up(self) -> None:
        """Answers requests of every kind, because the first ones take long."""
        try:
            for signature in self._model.signatures.values():
                for count in (1, 2):
                    inputs = {
                        name: count * ["A dog runs." if kind == json_tensors.STRING else -1]
                        for name, kind in signature.inputs.items()
                    }
                    await self._answers(signature, signature.rows(inputs))
        except Exception as error:
            reason = printable(" ".join(str(error).split()))[:500]
            print(f"warning: some answers stay slow: {reason}", flush=True)


def _signature(model, request):
    """Returns the `Signature` that a request asks for."""
    name = request.get("signature_name") or "serving_default"
    if not isinstance(name, str) or name not in model.signatures:
        reason = f'Serving signature name: "{str(name)[:200]}" not found in signature def'
        raise HTTPException(400, reason)
    return model.signatures[name]


def _pages(model):
    """Returns the routes of the page, on which one types a sentence; no request names a file."""
    template = string.Template((_ASSETS / "server.html").read_text(encoding="utf-8"))
    facts = {name: html.escape(getattr(model, name)) for name in ("name", "about", "example")}
    address = f"v1/models/{quote(model.name)}:predict"
    responses = {"/": HTMLResponse(template.substitute(facts, address=address))}
    texts = {file: (_ASSETS / file).read_text(encoding="utf-8") for file in _FILES}
    for file, text in {**texts, "explorer.css": style(), "explorer.js": script()}.items():
        kind = "text/css" if file.endswith(".css") else "text/javascript"
        responses[f"/static/{file}"] = Response(text, media_type=kind)

    async def page_of(request):
        return responses[request.scope["path"]]

    return [Route(path, page_of) for path in responses]


def make_app(
    model: ServedModel,
    limits: ServerLimits,
    *,
    allowed_hosts: Sequence[str] = (),
    log: Callable[[str], None] | None = None,
) -> Guard:
    """Makes the ASGI application; `log` is called with a line for each request."""
    api = RestApi(model, limits)

    @contextlib.asynccontextmanager
    async def lifespan(_app):
        warming = asyncio.create_task(api.warm_up())
        yield
        warming.cancel()
        api.queue.close()

    routes = [
        *_pages(model),
        Route("/page", api.page, methods=["POST"]),
        Route("/health", api.health),
        Route("/v1/{rest:path}", api.models, methods=_METHODS),
    ]
    return Guard(Router(routes, lifespan=lifespan), allowed_hosts, log)
