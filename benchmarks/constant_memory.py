"""Measures the memory of translate.py while a pipe gives it a million lines.

    python benchmarks/constant_memory.py --output=docs/results/speed/constant_memory.json

A small model is trained for seconds, or --model_dir names one. Lines are written to standard input
as fast as they are read; memory is that of the process, in the operating system's count, each time
another tenth of the translations has arrived. With --file, the text is a file and so are the
translations, which are kept for resuming, too.
"""

import argparse
import itertools
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from nmt_zoo.common import process

process.start()  # Before anything imports TensorFlow.

# isort: split

from benchmarks.parts.scripts import recorded, run
from nmt_zoo.command_line import console
from tests.tiny import WORDS, corpus_flags, small_flags

TRAINING = ["--num_pieces=300", "--max_steps=400", "--max_tokens_per_batch=1024"]


def lines(count, seed=1):
    """Yields lines of 1 to 7 words, a tenth of them empty, as bytes."""
    rng, words = random.Random(seed), list(WORDS)
    for _ in range(count):
        size = rng.randint(1, 7) if rng.random() < 0.9 else 0
        yield (" ".join(rng.choices(words, k=size)) + "\n").encode()


def resident_megabytes(process):
    """Returns (memory now, most so far) of a process."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return [round(int(fields[name].split()[0]) / 1024) for name in ("VmRSS", "VmHWM")]


def feed(stream, count):
    """Writes all lines to a stream and closes it."""
    with stream:
        text = lines(count)
        while block := b"".join(itertools.islice(text, 1000)):
            stream.write(block)


def lines_done(process, unfinished):
    """Yields the number of translations so far, whenever there are more.

    Args:
        process: translate.py.
        unfinished: its file of kept translations, or None if it writes to its standard output.
    """
    if unfinished is None:
        yield from (number for number, _ in enumerate(process.stdout, start=1))
        return
    position = done = 0
    while process.poll() is None:
        time.sleep(0.2)
        if unfinished.exists():
            with open(unfinished, "rb") as file:
                file.seek(position)
                block = file.read()
            position, done = position + len(block), done + block.count(b"\n")
            yield done


def measure(command, count, folder):
    """Translates `count` lines; returns a row for each tenth of them.

    Args:
        command: list of str, without input and output.
        count: number of lines.
        folder: `Path` for files; None measures from pipe to pipe.
    """
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    if folder:
        with open(folder / "text", "wb") as file:
            feed(file, count)
        command = [*command, f"--input={folder / 'text'}", f"--output={folder / 'out'}"]
        pipes = {"stdin": subprocess.DEVNULL}
    began, rows = time.monotonic(), []
    process = subprocess.Popen([sys.executable, *command], cwd=ROOT, **pipes)
    if not folder:
        threading.Thread(target=feed, args=(process.stdin, count), daemon=True).start()
    for done in lines_done(process, folder and folder / "out.unfinished"):
        if 10 * done >= count * (len(rows) + 1) and process.poll() is None:
            now, most = resident_megabytes(process)
            seconds = round(time.monotonic() - began, 1)
            rows.append({"lines": done, "seconds": seconds, "megabytes": now, "most": most})
            print(f"{done:10,} lines {seconds:8.1f} s {now:6} MB, at most {most} MB", flush=True)
    if process.wait():
        sys.exit(process.returncode)
    if folder:
        with open(folder / "out", "rb") as file:
            found = sum(1 for _ in file)
        if found != count:
            sys.exit(f"{found:,} lines of output, expected {count:,}")
    return rows


def main(argv):
    """Reads the command line, measures, prints a row for each tenth."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=1_000_000, help="lines of text")
    parser.add_argument("--model_dir", default="", help="a trained model; default: a tiny one")
    parser.add_argument("--beam_size", type=int, default=1)
    parser.add_argument("--batch_size", type=int, default=128)
    parser.add_argument("--file", action="store_true", help="from file to file instead of pipes")
    parser.add_argument("--output", help="JSON file to write")
    given = parser.parse_args(argv[1:])
    with recorded(given.output) as record, tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        model_dir = Path(given.model_dir or folder / "model").resolve()
        if not given.model_dir:
            small = small_flags("transformer_tiny")
            flags = [*small, *corpus_flags(folder, train=2000), *TRAINING]
            run(["train.py", *flags, f"--model_dir={model_dir}", f"--data_dir={folder / 'data'}"])
        command = ["translate.py", f"--model_dir={model_dir}", "--engine=tensorflow"]
        command += [f"--beam_size={given.beam_size}", f"--batch_size={given.batch_size}"]
        record["rows"] = measure(command, given.lines, folder if given.file else None)


if __name__ == "__main__":
    sys.exit(console.one_line_errors(main)(sys.argv))
