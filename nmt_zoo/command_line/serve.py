"""Serves a trained model over HTTP: a page to try it, and the REST API of TensorFlow Serving.

    python serve.py --model_dir=runs/x

prints an address to open in a browser. Programs ask for translations like this:

    curl -d '{"instances": ["A dog runs."]}' http://localhost:8501/v1/models/x:predict

An export is served by TensorFlow Serving, see docs/serving.md.
"""

from nmt_zoo.common import process

process.start(small_operations=True)  # Before anything imports TensorFlow.

import dataclasses
import functools
import logging
import os
import re
import signal
import socket
import threading
from typing import Any

import uvicorn

from nmt_zoo.command_line import console
from nmt_zoo.command_line.engines import start_tensorflow
from nmt_zoo.command_line.flag_values import (
    ModelArguments,
    group,
    precision_flag,
    split_sentences_flag,
    with_length_penalty,
)
from nmt_zoo.common.errors import UserError
from nmt_zoo.common.parallel import num_cores
from nmt_zoo.data_pipeline.datasets import DATASETS
from nmt_zoo.data_pipeline.tokenization.tokenizers import SIDES
from nmt_zoo.decoding.confidence import temperature_of
from nmt_zoo.decoding.search.requests import translator_options
from nmt_zoo.decoding.search.types import AUTO, NEVER
from nmt_zoo.decoding.text.training_text import TrainingText
from nmt_zoo.model_directory.combined_models import load_models
from nmt_zoo.model_directory.directory import model_directories
from nmt_zoo.serving.server.rest_api import ServerLimits, make_app
from nmt_zoo.serving.server.served_model import ServedModel

_model, _search, _address = map(group, ("Model", "Search", "Address"))
_limits = group("Limits and information")


@dataclasses.dataclass(frozen=True)
class Arguments(ModelArguments):
    """The flags of serve.py."""

    model_name: str = _model("", "Name of the model in addresses. Default: the name of the folder.")
    compile: bool = _search(
        True,
        "Lets XLA compile the searches of up to two lines in the background, once as much time was "
        "spent on such searches; they then take about a third of the time.",
    )
    precision: str = precision_flag(_search, needs=("compile",))
    split_sentences: str = split_sentences_flag(
        _search, "Translates each sentence of a line by itself, and joins the translations"
    )
    host: str = _address(
        "127.0.0.1",
        "Address on which to listen. The default can be reached from this computer only; 0.0.0.0 "
        "can be reached from everywhere.",
    )
    port: int = _address(8501, "Port on which to listen (0: any free one).", 0, 65535)
    allowed_hosts: list[str] = _address(
        [],
        "Host names by which clients may call the server, separated by commas, besides localhost "
        "and addresses.",
    )
    max_lines: int = _limits(
        ServerLimits().max_lines,
        "Most lines of a request, and of requests that are translated together.",
        1,
        10_000,
    )
    max_requests: int = _limits(
        ServerLimits().max_requests,
        "Most requests at a time. Further ones are asked to come again, with status 503.",
        1,
    )
    timeout_seconds: float = _limits(
        ServerLimits().timeout_seconds,
        "Time after which a request is given up, with status 504.",
        0.1,
        86_400.0,
    )
    log_requests: bool = _limits(False, "Prints a line for each request.")


def name_of_model(arguments: Arguments) -> str:
    """Returns the name of the model in addresses."""
    folder = arguments.model_dir.split(",")[0]
    name = arguments.model_name or os.path.basename(os.path.abspath(folder))
    if not re.fullmatch(r"[^/:?#%\s]+", name):
        raise UserError(f"--model_name={name}: expected a name without spaces and / : ? # %")
    return name


def about(config: dict[str, Any], languages: tuple[str, str]) -> str:
    """Returns what a model is and translates, as far as its configuration says it, as a line.

    `languages` are those that were asked for; "": the model's own.
    """
    dataset, known = config.get("dataset", ""), config.get("languages", {})
    origin = os.path.basename(config.get("imported", {}).get("from", "texts of its owner"))
    if dataset in DATASETS:
        origin = f"{dataset} ({DATASETS[dataset].about})"
    pair = [asked or known.get(side) for asked, side in zip(languages, SIDES, strict=True)]
    spoken = " to ".join(filter(None, pair))
    return f"Model: {config['model']}, made from {origin}.{spoken and f' Languages: {spoken}.'}"


def load(arguments: Arguments, name: str) -> ServedModel:
    """Loads the model of --model_dir."""
    directories = model_directories(arguments.model_dir)
    loaded = load_models(directories, arguments.precision, languages=arguments.languages)
    arguments = with_length_penalty(arguments, loaded[2])
    training_text = TrainingText.read(directories[0].training_text_path)
    split, names = arguments.split_sentences, ("beam_size", "length_penalty", "max_input_tokens")
    options = {
        **translator_options({}, loaded[1], directories, training_text, split),
        **{name: getattr(arguments, name) for name in names},
        "compile": AUTO if arguments.compile else NEVER,
    }
    # It would warn that every option of requests has a graph.
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    facts = {"training_text": training_text, "about": about(loaded[2], arguments.languages)}
    facts["temperature"] = temperature_of(loaded[0], directories, None)
    return ServedModel(name, *loaded[:2], options, **facts)


def listening(arguments: Arguments) -> socket.socket:
    """Opens a socket at --host and --port; clients that come before the model is loaded wait."""
    family = socket.AF_INET6 if ":" in arguments.host else socket.AF_INET
    try:
        return socket.create_server((arguments.host, arguments.port), family=family, backlog=2048)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(
            f"{arguments.host}:{arguments.port}: cannot listen there ({reason}); give another "
            "--port or --host"
        ) from None


def answer_requests(arguments: Arguments, app: Any, opened: socket.socket, name: str) -> None:
    """Answers requests with an ASGI application until the process gets a signal to stop."""
    config = uvicorn.Config(
        app,
        ws="none",
        access_log=False,
        log_config=None,
        log_level="critical",
        server_header=False,
        timeout_graceful_shutdown=round(arguments.timeout_seconds) + 5,
    )
    server = uvicorn.Server(config)
    if threading.current_thread() is threading.main_thread():
        # For the moment before uvicorn handles signals; and for the end, when running requests have
        # been answered and uvicorn sends this process its signal again.
        signal.signal(signal.SIGTERM, lambda *_: setattr(server, "should_exit", True))
    host, port, *_ = opened.getsockname()
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    print(f"serving {name} at http://{address}/ (Ctrl-C stops it)", flush=True)
    server.run(sockets=[opened])


def main(arguments: Arguments) -> int:
    """Checks flags, loads the model, and answers requests until it is stopped."""
    arguments.check()
    name = name_of_model(arguments)
    names = "max_lines", "max_requests", "timeout_seconds"
    limits = ServerLimits(num_threads=num_cores(), **{n: getattr(arguments, n) for n in names})
    with listening(arguments) as opened:  # Before the model is loaded, which takes long.
        start_tensorflow(arguments)
        app = make_app(
            load(arguments, name),
            limits,
            allowed_hosts=[host.lower() for host in arguments.allowed_hosts],
            log=(lambda line: print(line, flush=True)) if arguments.log_requests else None,
        )
        answer_requests(arguments, app, opened, name)
    print("stopped")
    return 0


command = functools.partial(console.run, main, Arguments)
