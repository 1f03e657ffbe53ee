"""Hostile flags and folders for serve.py, and odd text in requests."""

import base64
import os
import signal

from nmt_zoo.common.errors import UserError
from tests.hostile.case import Case, Ends, Refused, Works
from tests.hostile.inputs import BROKEN, ODDITIES, PLAIN, both, files
from tests.serving.server.example import running

_EXPORT = "--export_dir=../models/saved_model"


def cases():
    """Yields `Case`s."""
    yield from _flags()
    yield from _folders()
    yield from _ends()
    odd = [line.encode() for line in ODDITIES.values()]
    yield Case("server", "all odd text", odd_text, (odd,), Works())
    yield Case("server", "text that is not UTF-8", odd_text, ([*BROKEN.values()],), Works())


def _serve(name, expected, *flags, **more):
    return Case("serve.py", name, "serve", ("--port=0", *flags), expected, **more)


def _flags():
    yield _serve("no model", Refused("give either"))
    for flag in (
        "--model_dir=../models/bpe",
        "--port=-1",
        "--port=65536",
        "--port=http",
        "--host=",
        "--host=no.such.host.invalid",
        "--host=256.256.256.256",
        "--host=1\ud800",
        "--host=" + "x" * 300,
        "--model_name=a/b",
        "--model_name=a:predict",
        "--model_name=..%2f",
        "--model_name=a b",
        "--max_lines=0",
        "--max_body_bytes=0",
        "--max_requests=0",
        "--timeout_seconds=0",
        "--timeout_seconds=nan",
        "--timeout_seconds=1e300",
        "--beam_size=2",
        "--length_penalty=1",
    ):
        name = ascii(flag)[1:-1]
        pattern = "give either" if "model_dir" in flag else flag[2:].partition("=")[0].split("_")[0]
        if flag.startswith("--host=") and flag != "--host=" and "\ud800" not in flag:
            pattern = "cannot listen"
        yield _serve(name[:60], Refused(pattern), _EXPORT, flag.encode("utf-8", "surrogatepass"))


def _in(folder, texts):
    """Returns a function that makes a folder with files."""
    paths = {f"{folder}/{name}": text for name, text in texts.items()}
    return both(lambda: os.makedirs(folder), files(paths))


def _folders():
    for name, prepare in {
        "missing": None,
        "a file": files({"out": "x"}),
        "empty": lambda: os.mkdir("out"),
        "a version without files": lambda: os.makedirs("out/1"),
        "a version that is a file": _in("out", {"1": "x"}),
        "a version that is no model": _in("out/1", {"saved_model.pb": "x" * 1000}),
        "a version of CTranslate2": _in("out/1", {"model.bin": "x"}),
        "a link to itself": lambda: os.symlink("out", "out"),
    }.items():
        yield _serve(f"--export_dir: {name}", Refused("out"), "--export_dir=out", prepare=prepare)
    yield _serve("--model_dir: missing", Refused("nowhere"), "--model_dir=nowhere")
    yield _serve(
        "--model_dir: no translation model", Refused("ngram_lm"), "--model_dir=../models/lm"
    )


def _ends():
    for name, number, expected in (
        ("Ctrl-C", signal.SIGINT, Ends(130)),
        ("SIGTERM", signal.SIGTERM, Works()),
    ):
        yield _serve(f"{name} while it serves", expected, _EXPORT, signal=(number, "serving"))


def odd_text(lines):
    """Asks a server for lines, together and alone; the plain lines among them must not change."""
    with running("../models/saved_model") as client:
        rows = [{"b64": base64.b64encode(line).decode()} for line in lines]
        together = client.predict({"instances": [PLAIN, *rows, PLAIN]})
        if together.status != 200:
            raise UserError(f"status {together.status}: {together.body[:300]}")
        found = [row["translation"] for row in together.json()["predictions"]]
        alone = [client.predict({"instances": [row]}).json()["predictions"][0] for row in rows]
    if found[0] != found[-1] or found[1:-1] != [row["translation"] for row in alone]:
        raise UserError(f"together {found}, alone {alone}")
