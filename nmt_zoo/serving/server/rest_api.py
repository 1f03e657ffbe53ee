"""The REST API of TensorFlow Serving, and a page to try a model, as an ASGI application.

    GET  /                                          the page
    GET  /v1/models/NAME[/versions/N]               states of the versions
    GET  /v1/models/NAME[/versions/N]/metadata      signatures
    POST /v1/models/NAME[/versions/N]:predict       answers, see `json_tensors`

Errors are `{"error": "..."}` with the status of TensorFlow Serving. The API serves any SavedModel;
`translated_lines` alone knows of translation.
"""

import asyncio
import contextlib
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from google.protobuf.json_format import MessageToDict
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from nmt_zoo.serving.server import json_tensors, web_page
from nmt_zoo.serving.server.guard import Guard, error_answer
from nmt_zoo.serving.server.refusals import Refusal
from nmt_zoo.serving.server.request_queue import RequestQueue
from nmt_zoo.serving.server.served_versions import ServedVersions
from nmt_zoo.serving.server.translated_lines import LineTranslations

_GET = re.compile(r"/v1/models(?:/([^/:]+))?(?:/versions/(\d{1,18}))?(/metadata)?")
_POST = re.compile(r"/v1/models/([^/:]+)(?:/versions/(\d{1,18}))?:(classify|regress|predict)")
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"]
_POLL_SECONDS = 1.0  # How often a new version is looked for.


class ServerLimits(NamedTuple):
    """Bounds on what requests can ask of the server."""

    max_lines: int = 64  # Most rows of a request, and of requests that are answered together.
    max_body_bytes: int = 1 << 20  # Largest body of a request.
    max_requests: int = 256  # Most requests at a time; the others are refused.
    timeout_seconds: float = 60.0  # Time to read a request, and time to answer it.
    num_threads: int = 1  # Number of batches that are computed at the same time.


class RestApi:
    """Endpoints below `/v1`."""

    def __init__(
        self, versions: ServedVersions, limits: ServerLimits, split_sentences: str
    ) -> None:
        self._versions = versions
        self._limits = limits
        self._open_requests = 0
        self._queue = RequestQueue(
            max_rows=limits.max_lines,
            num_threads=limits.num_threads,
            seconds=limits.timeout_seconds,
        )
        self._translations = LineTranslations(
            self._queue, split_sentences, limits.max_lines, limits.timeout_seconds
        )

    def close(self) -> None:
        self._queue.close()

    async def endpoint(self, request: Request) -> Response:
        try:
            return await self._response(request)
        except Refusal as refusal:
            return error_answer(refusal)
        except ClientDisconnect:
            return error_answer(Refusal(499, "the client closed the connection"))

    async def _response(self, request):
        method, path = request.method, request.scope["path"]  # `url.path` is escaped.
        if method == "GET" and (found := _GET.fullmatch(path)):
            name, number, metadata = found.groups()
            number = number and int(number)
            if name is None:
                raise Refusal(400, "Missing model name in request.")
            if not metadata:
                return JSONResponse(self._versions.status(name, number))
            with self._versions.use(name, number) as model:
                found = await asyncio.to_thread(_metadata, model, name, self._versions.number)
                return JSONResponse(found)
        if method == "POST" and (found := _POST.fullmatch(path)):
            name, number, verb = found.groups()
            body = await self._call(request, name, number and int(number), verb)
            return Response(body, media_type="application/json")
        raise Refusal(400, f"Malformed request: {method} {path[:200]}")

    async def _call(self, request, name, number, verb):
        """Answers a call of a signature; returns bytes of JSON."""
        if self._open_requests >= self._limits.max_requests:
            raise Refusal(503, "too many requests at a time; try again", retry_after="1")
        self._open_requests += 1
        try:
            body = await self._body(request)
            with self._versions.use(name, number) as model:
                # In threads, because others would wait while many numbers are converted.
                signature, inputs, in_rows = await asyncio.to_thread(
                    _asked, body, model, verb, self._limits.max_lines
                )
                outputs, warnings = await self._translations.answer(model, signature, inputs)
                return await asyncio.to_thread(json_tensors.answer, outputs, in_rows, warnings)
        finally:
            self._open_requests -= 1

    async def _body(self, request):
        try:
            return await asyncio.wait_for(self._read(request), self._limits.timeout_seconds)
        except asyncio.TimeoutError:
            raise Refusal(408, "the request did not arrive in time") from None

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
            raise Refusal(413, f"the request has more than {limit} bytes; send several")
        return b"".join(parts)


def _asked(body, model, verb, max_lines):
    """Reads what a body asks of a model: name of the signature, inputs, whether in rows."""
    asked = json_tensors.parse(body)
    name, infos = _signature(model, asked, verb)
    return name, *json_tensors.inputs_of(asked, infos, max_lines)


def _signature(model, asked, verb):
    """Returns the name of the signature that a request asks for, and its inputs."""
    name = asked.get("signature_name", "serving_default")
    if not isinstance(name, str):
        raise Refusal(400, "'signature_name' key must be a string value.")
    name = name or "serving_default"
    if name not in model.signatures:
        raise Refusal(400, f'Serving signature name: "{name[:200]}" not found in signature def')
    signature = model.signatures[name]
    if verb != "predict":
        what = {"classify": "classification", "regress": "regression"}[verb]
        raise Refusal(
            400,
            f"Expected {what} signature method_name to be tensorflow/serving/{verb}. Was: "
            f"{signature.method_name}",
        )
    if not signature.inputs:
        raise Refusal(400, f"Failed to get input map for signature: {name}")
    return name, signature.inputs


def _metadata(model, name, number):
    """Returns the description of a model's signatures, as TensorFlow Serving gives it."""
    signatures = {
        each: MessageToDict(
            signature, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )
        for each, signature in model.signatures.items()
    }
    return {
        "model_spec": {"name": name, "signature_name": "", "version": str(number)},
        "metadata": {"signature_def": {"signature_def": signatures}},
    }


def make_app(
    versions: ServedVersions,
    name: str,
    limits: ServerLimits,
    *,
    split_sentences: str = "auto",
    allowed_hosts: Sequence[str] = (),
    log: Callable[[str], None] | None = None,
) -> Starlette:
    """Makes the ASGI application; `log` is called with a line for each request."""
    api = RestApi(versions, limits, split_sentences)

    @contextlib.asynccontextmanager
    async def lifespan(_app):
        watching = asyncio.create_task(versions.watch(_POLL_SECONDS))
        yield
        watching.cancel()
        api.close()
        versions.close()

    async def not_found(request, _error):
        return error_answer(Refusal(404, f"nothing is at {request.url.path[:200]}"))

    async def wrong_method(request, _error):
        return error_answer(Refusal(405, f"{request.method[:20]} is not possible here"))

    return Starlette(
        routes=[*web_page.routes(name), Route("/v1/{rest:path}", api.endpoint, methods=_METHODS)],
        middleware=[Middleware(Guard, names=allowed_hosts, log=log)],
        exception_handlers={404: not_found, 405: wrong_method},
        lifespan=lifespan,
    )
