"""The server's page, on which one types a sentence, with its style and scripts."""

import html
import string
from pathlib import Path

from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from decoding import explorer

_ASSETS = Path(__file__).parent / "assets"
_EXPLORER = Path(explorer.__file__).parent
_STATIC = {
    "server.css": (_ASSETS, "text/css"),
    "server.js": (_ASSETS, "text/javascript"),
    "explorer.css": (_EXPLORER, "text/css"),
    "explorer.js": (_EXPLORER, "text/javascript"),
}


def routes(name):
    """Returns the routes of the page for a model's name; no request names a file to be read."""
    template = string.Template((_ASSETS / "server.html").read_text(encoding="utf-8"))
    found = [_route("/", HTMLResponse(template.substitute(name=html.escape(name))))]
    for file, (folder, kind) in _STATIC.items():
        text = (folder / file).read_text(encoding="utf-8")
        found.append(_route(f"/static/{file}", Response(text, media_type=kind)))
    return found


def _route(path, response):
    async def endpoint(_request):
        return response

    return Route(path, endpoint)
