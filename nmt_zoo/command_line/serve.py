"""Serves a model over HTTP: a page to try it, and the REST API of TensorFlow Serving.

    python serve.py --model_dir=runs/x
    python serve.py --export_dir=exports/x

prints an address to open in a browser. Programs ask for translations like this:

    curl -d '{"instances": ["A dog runs."]}' http://localhost:8501/v1/models/x:predict

With --export_dir, the newest version that export.py wrote is served, and replaced without a pause
when another one appears.
"""

from nmt_zoo.common import process

process.start(small_operations=True)  # Before anything imports TensorFlow.

import contextlib
import dataclasses
import multiprocessing
import os
import re
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import uvicorn

from nmt_zoo.command_line import console, flag_values
from nmt_zoo.command_line.flag_values import (
    beam_size_flag,
    flag,
    language_flag,
    length_penalty_flag,
    max_input_tokens_flag,
    split_sentences_flag,
    with_length_penalty,
)
from nmt_zoo.common.cores import give_way, num_cores
from nmt_zoo.common.errors import UserError, printable
from nmt_zoo.decoding.text import training_text
from nmt_zoo.decoding.translator import MAX_INPUT_TOKENS, Translator
from nmt_zoo.serving.export.warm_up import WarmUpRequest
from nmt_zoo.serving.server.loaded_model import FIRST
from nmt_zoo.serving.server.rest_api import ServerLimits, make_app
from nmt_zoo.serving.server.served_versions import ServedVersions, load_first, load_warm

_NOT_OF_EXPORT = {"model_dir": "export.py sets it for --export_dir"}
_MODEL, _SEARCH, _ADDRESS, _LIMITS = "Model", "Search", "Address", "Limits and information"


@dataclasses.dataclass(frozen=True)
class Arguments(flag_values.Arguments):
    """The flags of serve.py."""

    export_dir: str = flag(
        _MODEL, "", "Folder that export.py wrote, of which the newest version is served."
    )
    model_dir: str = flag(
        _MODEL,
        "",
        "Directory of the trained model, as train.py wrote it, instead of --export_dir; several "
        "with the same vocabularies, separated by commas, are served as an ensemble.",
        required="the model to serve",
        unless=("export_dir",),
        excludes=("export_dir",),
    )
    source_language: str = language_flag(_MODEL, "source")
    target_language: str = language_flag(_MODEL, "target")
    model_name: str = flag(
        _MODEL, "", "Name of the model in addresses. Default: the name of the folder."
    )
    beam_size: int = beam_size_flag(
        _SEARCH,
        ". This flag and the three below need --model_dir; an export has settings of its own",
        needs=_NOT_OF_EXPORT,
    )
    length_penalty: float | None = length_penalty_flag(_SEARCH, needs=_NOT_OF_EXPORT)
    max_input_tokens: int = max_input_tokens_flag(_SEARCH, MAX_INPUT_TOKENS, needs=_NOT_OF_EXPORT)
    compile: bool = flag(
        _SEARCH,
        True,
        "Lets XLA compile the searches of up to two lines, behind the first answers; they then "
        "take about a third of the time. Needs --model_dir; for an export, export.py --compile.",
        needs=_NOT_OF_EXPORT,
    )
    split_sentences: str = split_sentences_flag(
        _SEARCH, "Translates each sentence of a line by itself, and joins the translations"
    )
    host: str = flag(
        _ADDRESS,
        "127.0.0.1",
        "Address on which to listen. The default can be reached from this computer only; 0.0.0.0 "
        "can be reached from everywhere.",
    )
    port: int = flag(_ADDRESS, 8501, "Port on which to listen (0: any free one).", 0, 65535)
    allowed_hosts: list[str] = flag(
        _ADDRESS,
        [],
        "Host names by which clients may call the server, separated by commas, besides localhost "
        "and addresses.",
    )
    max_lines: int = flag(
        _LIMITS,
        ServerLimits().max_lines,
        "Most lines of a request, and of requests that are translated together.",
        1,
        10_000,
    )
    max_requests: int = flag(
        _LIMITS,
        ServerLimits().max_requests,
        "Most requests at a time. Further ones are asked to come again, with status 503.",
        1,
    )
    timeout_seconds: float = flag(
        _LIMITS,
        ServerLimits().timeout_seconds,
        "Time after which a request is given up, with status 504.",
        0.1,
        86_400.0,
    )
    log_requests: bool = flag(_LIMITS, False, "Prints a line for each request.")


def name_of_model(asked: Arguments) -> str:
    """Returns the name of the model in addresses."""
    folder = asked.export_dir or asked.model_dir.split(",")[0]
    name = asked.model_name or os.path.basename(os.path.abspath(folder))
    if not re.fullmatch(r"[^/:?#%\s]+", name):
        raise UserError(f"--model_name={name}: expected a name without spaces and / : ? # %")
    return name


@contextlib.contextmanager
def ends_at_sigterm() -> Iterator[None]:
    """Lets SIGTERM end this process like an error, so that temporary folders are removed."""
    received = []

    def end(number, _frame):
        received.append(number)
        sys.exit(128 + number)

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, end)
    try:
        yield
    except Exception:
        if received:  # A library has turned the SystemExit into an error of its own.
            sys.exit(128 + received[0])
        raise


def served(asked: Arguments, name: str) -> ServedVersions:
    """Loads what is to be served."""
    if asked.export_dir:
        return ServedVersions.of_folder(asked.export_dir, name)
    return served_directly(asked, name)


def served_directly(asked: Arguments, name: str) -> ServedVersions:
    """Loads the model of --model_dir.

    It answers at once, until another process has written it like an export and this one has loaded
    that, so that all that is served is the same.
    """
    from nmt_zoo.serving.export.warm_up import SAMPLES
    from nmt_zoo.serving.server.direct_model import DirectModel, TranslatorModel

    def exported(closing):
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary, "1")
            if call_elsewhere(write_version, asked, name, folder, stop=closing):
                yield load_first(folder)
                yield load_warm(folder, closing)

    module, _, text_path = module_of(asked)
    own_search = isinstance(module, Translator)  # No SavedModel can hold such a model.
    kind = TranslatorModel if own_search else DirectModel
    first = kind(module, training_text.TrainingText.read(text_path))
    first.warm_up([WarmUpRequest(FIRST, {"text": SAMPLES[:1]})])
    return ServedVersions(name, first, successors=None if own_search else exported)


def write_version(asked: Arguments, name: str, folder: Path) -> None:
    """Writes the model of --model_dir as export.py does, but compares nothing."""
    from nmt_zoo.serving.export.saved_model import write_saved_model
    from nmt_zoo.serving.export.server_files import EXTRA
    from nmt_zoo.serving.export.warm_up import sample_requests

    process.start_tensorflow()
    module, tokenizer, text_path = module_of(asked)
    limit = asked.max_input_tokens
    write_saved_model(
        folder, module, name, lambda signatures: sample_requests(tokenizer, signatures, limit)
    )
    training_text.copy(text_path, folder / EXTRA)


def module_of(asked: Arguments) -> tuple[Any, Any, Path]:
    """Returns the model of --model_dir with its signatures, its tokenizer, its text's record.

    A model with a search of its own has no signatures: a `Translator` takes their place.
    """
    from nmt_zoo.model_directory.combined_models import load_models
    from nmt_zoo.model_directory.directory import model_directories
    from nmt_zoo.serving.export.saved_model import ServingModule

    directories = model_directories(asked.model_dir)
    model, tokenizer, config = load_models(directories, languages=asked.languages)
    asked = with_length_penalty(asked, config)
    search = {
        name: getattr(asked, name) for name in ("beam_size", "length_penalty", "max_input_tokens")
    }
    search["context_sentences"] = config["options"]["context_sentences"]
    if model.own_search:
        translator = Translator(model, tokenizer, **search)
        return translator, tokenizer, directories[0].training_text_path
    with process.silence():  # tensorflow_text prints that SentencePiece normalises nothing.
        module = ServingModule(model, tokenizer, compiled=asked.compile, **search)
    return module, tokenizer, directories[0].training_text_path


def call_elsewhere(function: Callable[..., None], *args: Any, stop: threading.Event) -> bool:
    """Calls a function in a new process, which gives way to this one and ends when `stop` is set.

    Returns whether the function came to its end. Raises `UserError` if it failed; the process
    prints why. Call this in a thread of its own: Ctrl-C no longer reaches it, nor the new process.
    """
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    child = multiprocessing.get_context("spawn").Process(
        target=call_behind_parent, args=(function, *args), daemon=True
    )
    child.start()
    while child.exitcode is None and not stop.wait(0.05):
        pass
    if stop.is_set():
        child.kill()
        child.join()
        return False
    if child.exitcode:
        raise UserError(f"a process ended with status {child.exitcode}")
    return True


def call_behind_parent(function: Callable[..., None], *args: Any) -> None:
    """Calls a function in a process that gives way to its parent, and does not outlive it."""

    def end_with_parent():
        multiprocessing.parent_process().join()
        os._exit(1)

    give_way()
    threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        function(*args)
    except Exception as error:
        sys.exit(f"error: {printable(' '.join(str(error).split()))}")


@contextlib.contextmanager
def errors_of_the_address(asked: Arguments) -> Iterator[None]:
    """Turns an error of the network in the `with` block into one about --host and --port."""
    try:
        yield
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(
            f"{asked.host}:{asked.port}: cannot listen there ({reason}); give another --port or "
            "--host"
        ) from None


def bound_socket(asked: Arguments) -> socket.socket:
    """Opens a socket at --host and --port, which does not listen yet."""
    with errors_of_the_address(asked), contextlib.ExitStack() as stack:
        family, kind, protocol, _, address = socket.getaddrinfo(
            asked.host, asked.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        opened = stack.enter_context(socket.socket(family, kind, protocol))
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        stack.pop_all()
    return opened


def answer_requests(asked: Arguments, app: Any, opened: socket.socket, name: str) -> None:
    """Answers requests with an ASGI application until the process gets a signal to stop."""
    config = uvicorn.Config(
        app,
        ws="none",
        access_log=False,
        log_config=None,
        log_level="critical",
        server_header=False,
        timeout_graceful_shutdown=round(asked.timeout_seconds) + 5,
    )
    server = uvicorn.Server(config)
    if threading.current_thread() is threading.main_thread():
        # For the moment before uvicorn handles signals; and for the end, when running requests have
        # been answered and uvicorn sends this process its signal again.
        signal.signal(signal.SIGTERM, lambda *_: setattr(server, "should_exit", True))
    # Another server may have begun to listen while this one loaded.
    with errors_of_the_address(asked):
        opened.listen(2048)
    host, port, *_ = opened.getsockname()
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    print(f"serving {name} at http://{address}/ (Ctrl-C stops it)", flush=True)
    server.run(sockets=[opened])


def main(asked: Arguments) -> int:
    """Reads flags, loads the model, and answers requests until it is stopped."""
    asked.check()
    name = name_of_model(asked)
    names = "max_lines", "max_requests", "timeout_seconds"
    limits = ServerLimits(num_threads=num_cores(), **{each: getattr(asked, each) for each in names})
    with bound_socket(asked) as opened:  # Before the model is loaded, which takes long.
        process.start_tensorflow(intra_op_threads=1)
        with ends_at_sigterm():
            versions = served(asked, name)
        app = make_app(
            versions,
            name,
            limits,
            split_sentences=asked.split_sentences,
            allowed_hosts=[host.lower() for host in asked.allowed_hosts],
            log=(lambda line: print(line, flush=True)) if asked.log_requests else None,
        )
        answer_requests(asked, app, opened, name)
    print("stopped")
    return 0


def command() -> None:
    """Runs the script on the command line, and exits."""
    console.run(main, Arguments)
