"""The command line and the terminal: errors look alike, and failing output stops no work."""

import contextlib
import functools
import io
import os
import re
import signal
import subprocess
import sys

import pytest
import tensorflow as tf
from absl import flags

from nmt_zoo.command_line import console
from nmt_zoo.command_line.console import one_line_errors, write_result
from nmt_zoo.common.errors import UserError
from nmt_zoo.common.progress import Progress
from nmt_zoo.configuration.options import DEFAULTS, OPTIONS
from tests.running import ROOT, attempt

BAD_FLAGS = {
    "train": {
        "--max_stepz=3": "--max_stepz: there is no such flag; did you mean --max_steps?",
        "--dropout=0.3": "did you mean --set dropout=0.3? In Python: settings={'dropout': 0.3}",
        "--batch_size=9": "did you mean --max_tokens_per_batch or --max_sentences_per_batch?",
        "--hidden_size=9": "did you mean --set width=128?",
        "--momentum=1": "--momentum: there is no such flag; --help lists all",
        "--max_steps=many": "--max_steps=many: expected a whole number from 0 to 2147483647",
        "--max_steps=1.5": "--max_steps=1.5: expected a whole number from 0 to",
        "--max_steps=-1": "--max_steps=-1: expected a whole number from 0 to",
        "--max_steps=a: b": "--max_steps=a: b: expected a whole number from 0 to 2147483647",
        "--max_steps": "Missing value for flag --max_steps",
        "--max_length=0": "--max_length=0: expected a whole number from 1 to 2147483647, found 0",
        "--seed=4294967296": "--seed=4294967296: expected a whole number",
        "--max_tokens_per_batch=1000000000000000": "--max_tokens_per_batch=1000000000000000: exp",
        f"--max_steps={'9' * 5000}": "--max_steps=9999",
        "--max_minutes=nan": "--max_minutes=nan: expected a number from 0 to 3.4e+38, found nan",
        "--learning_rate=inf": "--learning_rate=inf: expected a number from 0 to 1000",
        "--ema_decay=nan": "--ema_decay=nan: expected a number from 0 to 0.999999",
        "--offline=maybe": "--offline=maybe: expected true or false, found maybe",
        "--update=foo": "--update=foo: expected one of gradient, em, tuning, found foo",
        "--model_dir=": "--model_dir=: expected a text in UTF-8, found nothing",
        "--model_dir=name\udcff": "expected a text in UTF-8",
        "--set=dropout=" + "[" * 100_000: "[[...: expected a value like 0.3",
        "--set=width=" + "1" * 5000: "111...: expected a value like 128",
        "stray": "unexpected argument 'stray'",
    },
    "translate": {
        "--alpha=1": "--alpha: there is no such flag; did you mean --length_penalty?",
        "--length_penalty=1e30": "--length_penalty=1e30: expected a number from 0 to 10",
        "--beam_size=nan": "--beam_size=nan: expected a whole number from 1 to 1000, found nan",
        "--n_best=0": "--n_best=0: expected a whole number from 1",
        "--flagfile=/no/such": "/no/such",
    },
    "visualize_attention": {
        "--layer=0": "--layer=0: expected a number, counted from 1, or all",
        "--source=A dog \udcff": "expected a text in UTF-8",
        "--head=0": "--head=0: expected a number, counted from 1, or mean",
        "--output=x.txt": "x.txt: a picture's name must end in .png, .svg, .pdf",
        "--output=": "--output=: expected a text",
    },
    "align": {
        "--threshold=nan": "--threshold=nan: expected a number from 0 to 1, found nan",
        "--from_alignments=a,b\udcff": "expected a text in UTF-8",
        "--head=0": "--head=0: expected a number, counted from 1, or mean",
    },
    "export": {
        "--export_dir=x": "give --model_dir: the directory of the trained model",
        "--beam_size=2000000000": "--beam_size=2000000000: expected a whole number from 1 to 1000",
    },
}


def test_help_is_grouped_and_lists_the_flags_of_its_script():
    done = attempt("train", ["--help"])
    assert (done.status, done.err) == (0, "")
    headings = re.findall(r"^(\w.*):$", done.out, re.M)
    groups = dict.fromkeys(option.group for option in OPTIONS)
    assert headings == [*headings[:3], "Several devices", *groups]
    flags = re.findall(r"^ +--(?:\[no\])?(\w+):", done.out, re.M)
    assert set(DEFAULTS) <= set(flags) and len(flags) == len(set(flags))
    assert not {"?", "verbosity", "helpfull"} & set(flags)
    words = " ".join(done.out.split())
    assert "Seed of the weights, of dropout and of the order of batches. Default: 1." in words
    done = attempt("train", ["--helpfull"])
    assert (done.status, done.err) == (0, "") and "--max_tokens_per_batch" in done.out
    for script in ("translate", "visualize_attention", "export"):
        done = attempt(script, ["--help"])
        assert (done.status, done.err) == (0, "") and "  --model_dir: " in done.out
        assert "--max_steps" not in done.out


@pytest.mark.parametrize("script", BAD_FLAGS)
def test_every_error_of_a_flag_is_one_line_that_names_it(script, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for flag, expected in BAD_FLAGS[script].items():
        more = ["--model_dir=m", "--source=x"] if flag.startswith("--output") else []
        done = attempt(script, [flag, *more])
        assert (done.status, done.err.count("\n")) == (1, 1), (flag, done.err)
        assert done.err.startswith("error: ") and expected in done.err, done.err
        assert len(done.err) < 1100
    assert not list(tmp_path.iterdir())


def _raises(error):
    def main(argv):
        raise error

    return main


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (UserError("a\nb\x1b[31m"), r"error: a\nb\x1b[31m"),
        (PermissionError(13, "Permission denied", "/x/y"), "error: /x/y: Permission denied; check"),
        (MemoryError(), "error: not enough memory; give fewer and shorter lines, or use a smaller"),
        (
            tf.errors.ResourceExhaustedError(None, None, "OOM: tensor with shape[1,4,9] and"),
            "error: not enough memory, for a tensor of shape[1,4,9]; give",
        ),
        (RecursionError(), "error: a value or file is nested too deeply"),
    ],
)
def test_what_the_user_can_mend_is_one_line(error, expected, capsys):
    assert one_line_errors(_raises(error))(["x"]) == 1
    err = capsys.readouterr().err
    assert err.startswith(expected) and err.count("\n") == 1
    with pytest.raises(ZeroDivisionError):  # An error of ours keeps its traceback.
        one_line_errors(_raises(ZeroDivisionError()))(["x"])


@pytest.mark.parametrize("library", [False, True])
def test_interrupting_is_one_word_also_if_a_library_makes_an_error_of_it(library, capsys):
    def main(argv):
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            if library:
                raise ValueError("Invalid dtype") from None
            raise

    assert one_line_errors(main)(["x"]) == 128 + signal.SIGINT
    assert capsys.readouterr().err == "interrupted\n"


@contextlib.contextmanager
def _broken(pipe=False):
    """Makes a stream that cannot be written: closed, as by the scripts, or without a reader."""
    descriptor = os.open(os.devnull, os.O_RDONLY)
    if pipe:
        os.close(descriptor)
        read, descriptor = os.pipe()
        os.close(read)
    with open(descriptor, "w") as stream:
        yield stream


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("train", "lower --max_tokens_per_batch, give fewer and shorter lines, or use a smaller"),
        ("translate", "lower --batch_size or --beam_size, give fewer and shorter lines, or"),
        ("align", "not enough memory; give fewer and shorter lines, or use a smaller model"),
        ("export", "lower --beam_size, give fewer"),
    ],
)
def test_advice_on_memory_names_flags_of_the_script(script, expected, capsys, monkeypatch):
    known = set()

    def parse(argv, about):
        known.update(flags.FLAGS)
        raise MemoryError

    monkeypatch.setattr(console, "parse", parse)
    done = attempt(script, [])
    assert (done.status, done.err.count("\n")) == (1, 1) and expected in done.err
    assert set(re.findall(r"--(\w+)", done.err)) <= known


STREAMS = {
    "full": functools.partial(open, "/dev/full", "w"),
    "closed": _broken,
    "pipe": functools.partial(_broken, pipe=True),
}


@pytest.mark.parametrize("name", STREAMS)
def test_information_that_cannot_be_shown_stops_nothing(name, capsys):
    done = []

    def main(argv):
        print("information", flush=True)
        print("more of it" * 10_000)
        print("and here", file=sys.stderr, flush=True)
        with Progress("working", 10, "steps", log_seconds=0) as progress:
            progress.update(5)
        done.append(argv)

    with STREAMS[name]() as stream, contextlib.redirect_stdout(stream):
        assert one_line_errors(main)(["x"]) == 0
    lost = [line for line in capsys.readouterr().err.splitlines() if "standard output" in line]
    assert len(lost) == (0 if name == "pipe" else 1)
    with STREAMS[name]() as stream, contextlib.redirect_stderr(stream):
        assert one_line_errors(main)(["x"]) == 0
    assert len(done) == 2


@pytest.mark.parametrize("name", STREAMS)
def test_a_result_that_cannot_be_written_is_an_error(name, capsys):
    def main(argv):
        for line in argv:
            print(line)  # Information may be lost before the result is.
        write_result("result")

    for argv in ([], ["information"]):
        with STREAMS[name]() as stream, contextlib.redirect_stdout(stream):
            assert one_line_errors(main)(argv) == 1
        err = capsys.readouterr().err
        if name == "pipe":  # Such as a pipe to `head`, which has read all lines that it needs.
            assert err == ""
        else:
            assert err.startswith("error: standard output: cannot be written")
            assert err.count("\n") == 1


def test_any_stream_shows_all_characters(tmp_path, monkeypatch):
    """A terminal may lack characters; the output of a notebook has no buffer of bytes."""
    with (
        open(tmp_path / "out", "w", encoding="latin-1") as stream,
        contextlib.redirect_stdout(stream),
    ):
        assert one_line_errors(lambda argv: print("Straße ▁"))(["x"]) == 0
    assert (tmp_path / "out").read_text("latin-1") == "Straße \\u2581\n"
    monkeypatch.setattr("sys.stdout", io.StringIO())
    write_result("größer", "kleiner")
    assert sys.stdout.getvalue() == "größer\nkleiner\n"


def test_closed_streams_are_held_so_that_no_file_gets_their_numbers(tmp_path):
    code = """
import os, sys
from nmt_zoo.common import process
process.start(tensorflow=False)
with open(sys.argv[1], "w") as file:
    print(file.fileno() > 2, file=file)
    for stream in (sys.stdout, sys.stderr):
        try:
            print("lost", file=stream, flush=True)
        except OSError as error:
            print(error.strerror, file=file)
    try:
        sys.stdin.read()
    except OSError as error:
        print(error.strerror, file=file)
    file.flush()
    os._exit(0)
"""
    command = [sys.executable, "-c", code, str(tmp_path / "told")]
    subprocess.run(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command], cwd=ROOT, check=True)
    bad = "Bad file descriptor\n"
    assert (tmp_path / "told").read_text() == "True\n" + 3 * bad


def test_interrupting_the_imports_is_one_word():
    process = subprocess.Popen(
        [sys.executable, "export.py"], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(0.7)  # Importing TensorFlow alone takes longer.
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[1] == "interrupted\n"
    assert process.returncode == 128 + signal.SIGINT
