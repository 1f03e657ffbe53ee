"""Serves a model over HTTP: a page to try it, and the REST API of TensorFlow Serving.

    python serve.py --model_dir=runs/x
    python serve.py --export_dir=serving/x

prints an address to open in a browser. Programs ask for translations like this:

    curl -d '{"instances": ["A dog runs."]}' http://localhost:8501/v1/models/x:predict

With --export_dir, the newest version that export.py wrote is served, and replaced without a pause
when another one appears.
"""

from nmt_zoo.command_line import startup, small_operations, quiet  # noqa: F401, I001 - first of all

# isort: split

import contextlib
import gc
import os
import re
import signal
import socket
import sys
import tempfile
import threading
from pathlib import Path

import uvicorn
from absl import flags

from nmt_zoo.command_line import console
from nmt_zoo.command_line.flag_values import (
    define_beam_size,
    define_length_penalty,
    define_max_input_tokens,
    define_split_sentences,
    group,
    set_length_penalty,
)
from nmt_zoo.common.cores import num_cores
from nmt_zoo.common.errors import UserError
from nmt_zoo.decoding.text import training_text
from nmt_zoo.decoding.translator import MAX_INPUT_TOKENS
from nmt_zoo.serving.server.rest_api import ServerLimits, make_app
from nmt_zoo.serving.server.served_versions import ServedVersions, load_warm

FLAGS = flags.FLAGS
_SEARCH = ("beam_size", "length_penalty", "max_input_tokens")

with group("Model"):
    flags.DEFINE_string(
        "export_dir",
        "",
        "Folder that export.py wrote, of which the newest version is served.",
    )
    flags.DEFINE_string(
        "model_dir",
        "",
        "Directory of the trained model, as train.py wrote it, instead of --export_dir; several "
        "with the same vocabularies, separated by commas, are served as an ensemble.",
    )
    flags.DEFINE_string(
        "model_name", "", "Name of the model in addresses. Default: the name of the folder."
    )
with group("Search"):
    define_beam_size(
        ". This flag and the two below need --model_dir; an export has settings of its own"
    )
    define_length_penalty()
    define_max_input_tokens(
        MAX_INPUT_TOKENS,
        "Longest line that is translated, in tokens with </s>; a request with a longer line is "
        "refused.",
    )
    define_split_sentences(
        "Translates each sentence of a line by itself, and joins the translations"
    )
with group("Address"):
    flags.DEFINE_string(
        "host",
        "127.0.0.1",
        "Address on which to listen. The default can be reached from this computer only; 0.0.0.0 "
        "can be reached from everywhere.",
    )
    flags.DEFINE_integer("port", 8501, "Port on which to listen (0: any free one).", 0, 65535)
    flags.DEFINE_list(
        "allowed_hosts",
        "",
        "Host names by which clients may call the server, separated by commas, besides localhost "
        "and addresses.",
    )
with group("Limits"):
    flags.DEFINE_integer(
        "max_lines",
        ServerLimits().max_lines,
        "Most lines of a request, and of requests that are translated together.",
        1,
        10_000,
    )
    flags.DEFINE_integer(
        "max_body_bytes", ServerLimits().max_body_bytes, "Largest request in bytes.", lower_bound=1
    )
    flags.DEFINE_integer(
        "max_requests",
        ServerLimits().max_requests,
        "Most requests at a time. Further ones are asked to come again, with status 503.",
        lower_bound=1,
    )
    flags.DEFINE_float(
        "timeout_seconds",
        ServerLimits().timeout_seconds,
        "Time after which a request is given up, with status 504.",
        lower_bound=0.1,
        upper_bound=86_400.0,
    )
with group("Information"):
    flags.DEFINE_bool("log_requests", False, "Prints a line for each request.")


def check_flags():
    """Raises `UserError` if flags contradict each other."""
    if bool(FLAGS.model_dir) == bool(FLAGS.export_dir):
        raise UserError("give either --export_dir or --model_dir")
    for name in _SEARCH:
        if FLAGS.export_dir and FLAGS[name].present:
            raise UserError(f"--{name} needs --model_dir; export.py sets it for --export_dir")


def name_of_model():
    """Returns the name of the model in addresses."""
    folder = FLAGS.export_dir or FLAGS.model_dir.split(",")[0]
    name = FLAGS.model_name or os.path.basename(os.path.abspath(folder))
    if not re.fullmatch(r"[^/:?#%\s]+", name):
        raise UserError(f"--model_name={name}: expected a name without spaces and / : ? # %")
    return name


@contextlib.contextmanager
def ends_at_sigterm():
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


def served(name):
    """Loads what is to be served; returns `ServedVersions`."""
    with contextlib.ExitStack() as stack:
        folder = FLAGS.export_dir or stack.enter_context(tempfile.TemporaryDirectory())
        if FLAGS.model_dir:
            save_model(Path(folder, "1"), name)
        with quiet.silence():  # tensorflow_text prints that SentencePiece normalises nothing.
            return ServedVersions(folder, name, load_warm)


def save_model(folder, name):
    """Writes the model of --model_dir like an export, so that all that is served is the same."""
    from nmt_zoo.model_directory.combined_models import load_models, model_directories
    from nmt_zoo.serving.export.saved_model import ServingModule, write_saved_model
    from nmt_zoo.serving.export.server_files import EXTRA
    from nmt_zoo.serving.export.warm_up import sample_requests

    directories = model_directories(FLAGS.model_dir)
    model, tokenizer, config = load_models(directories)
    set_length_penalty(config)
    search = {name: FLAGS[name].value for name in _SEARCH}
    with quiet.silence():  # As above.
        module = ServingModule(model, tokenizer, **search)
    limit = FLAGS.max_input_tokens
    write_saved_model(
        folder, module, name, lambda signatures: sample_requests(tokenizer, signatures, limit)
    )
    training_text.copy(directories[0].training_text_path, folder / EXTRA)
    del model, module
    gc.collect()


@contextlib.contextmanager
def errors_of_the_address():
    """Turns an error of the network in the `with` block into one about --host and --port."""
    try:
        yield
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(
            f"{FLAGS.host}:{FLAGS.port}: cannot listen there ({reason}); give another --port or "
            "--host"
        ) from None


def bound_socket():
    """Opens a socket at --host and --port, which does not listen yet."""
    with errors_of_the_address(), contextlib.ExitStack() as stack:
        family, kind, protocol, _, address = socket.getaddrinfo(
            FLAGS.host, FLAGS.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        opened = stack.enter_context(socket.socket(family, kind, protocol))
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        stack.pop_all()
    return opened


def answer_requests(app, opened, name):
    """Answers requests with an ASGI application until the process gets a signal to stop."""
    config = uvicorn.Config(
        app,
        ws="none",
        access_log=False,
        log_config=None,
        log_level="critical",
        server_header=False,
        timeout_graceful_shutdown=round(FLAGS.timeout_seconds) + 5,
    )
    server = uvicorn.Server(config)
    if threading.current_thread() is threading.main_thread():
        # For the moment before uvicorn handles signals; and for the end, when running requests have
        # been answered and uvicorn sends this process its signal again.
        signal.signal(signal.SIGTERM, lambda *_: setattr(server, "should_exit", True))
    with errors_of_the_address():  # Another server may have begun to listen while this one loaded.
        opened.listen(2048)
    host, port, *_ = opened.getsockname()
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    print(f"serving {name} at http://{address}/ (Ctrl-C stops it)", flush=True)
    server.run(sockets=[opened])


def main(argv):
    """Reads flags, loads the model, and answers requests until it is stopped."""
    del argv
    check_flags()
    name = name_of_model()
    names = "max_lines", "max_body_bytes", "max_requests", "timeout_seconds"
    limits = ServerLimits(num_threads=num_cores(), **{each: FLAGS[each].value for each in names})
    with bound_socket() as opened:  # Before the model is loaded, which takes long.
        quiet.start(intra_op_threads=1)
        with ends_at_sigterm():
            versions = served(name)
        app = make_app(
            versions,
            name,
            limits,
            split_sentences=FLAGS.split_sentences,
            allowed_hosts=[host.lower() for host in FLAGS.allowed_hosts],
            log=(lambda line: print(line, flush=True)) if FLAGS.log_requests else None,
        )
        answer_requests(app, opened, name)
    print("stopped")
    return 0


def command():
    """Runs the script on the command line, and exits."""
    console.run(main)
