"""The server's page, on which one types a sentence, with its style and scripts."""

import html
import string
from pathlib import Path

from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from nmt_zoo.decoding.explorer.page import script, style

_ASSETS = Path(__file__).parent / "assets"
_FILES = "server.css", "server.js"


def routes(name: str, n_best: int) -> list[Route]:
    """Returns the routes of the page; no request names a file to be read.

    `name` is the model's; `n_best` is the number of translations that the page asks for.
    """
    template = string.Template((_ASSETS / "server.html").read_text(encoding="utf-8"))
    page = template.substitute(name=html.escape(name), n_best=n_best)
    pages = [_route("/", HTMLResponse(page))]
    texts = {file: (_ASSETS / file).read_text(encoding="utf-8") for file in _FILES}
    for file, text in {**texts, "explorer.css": style(), "explorer.js": script()}.items():
        kind = "text/css" if file.endswith(".css") else "text/javascript"
        pages.append(_route(f"/static/{file}", Response(text, media_type=kind)))
    return pages


def _route(path, response):
    async def endpoint(_request):
        return response

    return Route(path, endpoint)
