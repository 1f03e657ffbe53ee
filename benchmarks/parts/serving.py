"""Loads serve.py as many clients would: speed, memory, restart; and times starts of processes.

Each request has one line of the source; an answer counts as wrong if it is not the line that
translate.py gives. Clients are threads of one process on the same machine; each keeps its
connection and sends its next request when it has the answer to the last. In turn: one client; many
clients twice, because memory that grows shows then; and the server is killed and started again.
"""

import http.client
import itertools
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.parts.scripts import ROOT, run
from benchmarks.parts.turns import memory
from nmt_zoo.common.files import read_lines, write_lines

IMPORT, SENTENCE = "import tensorflow", "A dog runs ."


class Server:
    """serve.py in a process of its own; `seconds` are those until its answer to a line."""

    def __init__(self, model_dir, line):
        began = time.monotonic()
        command = [sys.executable, "serve.py", f"--model_dir={Path(model_dir).resolve()}"]
        self.process = subprocess.Popen(
            [*command, "--port=0", "--model_name=model"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        line_of_address = self.process.stdout.readline()
        address = re.search(r":(\d+)/ ", line_of_address)
        if not address:
            sys.exit(f"serve.py did not start: {line_of_address}")
        self.port = int(address[1])
        status, body = send(self.connect(), line)
        if status != 200:
            sys.exit(f"serve.py failed: {body}")
        self.seconds = time.monotonic() - began

    def connect(self):
        """Opens a connection."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)

    def kill(self):
        """Kills the process."""
        self.process.kill()
        self.process.wait()


def send(connection, line):
    """Asks for the translation of a line; returns (status, body)."""
    connection.request("POST", "/v1/models/model:predict", json.dumps({"instances": [line]}))
    answer = connection.getresponse()
    return answer.status, answer.read()


def load(server, pairs, clients, seconds):
    """Sends requests from several clients at the same time; returns what was counted.

    `pairs` is a list of (line, expected translation).
    """
    numbers = itertools.count()
    times, wrong, lost = [], [], []
    began = time.monotonic()

    def client(_):
        connection = server.connect()
        while time.monotonic() < began + seconds:
            line, expected = pairs[next(numbers) % len(pairs)]
            sent = time.monotonic()
            try:
                status, body = send(connection, line)
                if status != 200:
                    raise OSError(f"status {status}: {body[:200]}")
                (prediction,) = json.loads(body)["predictions"]
            except (OSError, http.client.HTTPException) as error:
                lost.append(repr(error))
                connection = server.connect()
                continue
            times.append(time.monotonic() - sent)
            if prediction["translation"] != expected:
                wrong.append([line, prediction["translation"], expected])

    with ThreadPoolExecutor(clients) as threads:
        list(threads.map(client, range(clients)))
    if len(times) < 2:
        sys.exit(f"{len(times)} answers, {len(lost)} lost requests: {lost[:3]}")
    percentiles = statistics.quantiles(times, n=100, method="inclusive")
    extremes = (percentiles[49], percentiles[98], max(times))
    names = ("median", "percentile_99", "longest")
    return {
        "clients": clients,
        "answers": len(times),
        "lost": len(lost),
        "wrong": len(wrong),
        "examples": [*lost[:3], *wrong[:3]],
        "answers_per_second": round(len(times) / (time.monotonic() - began), 1),
        "milliseconds": {n: round(1000 * s, 1) for n, s in zip(names, extremes, strict=True)},
    }


def measure(arguments, record):
    """Translates, serves and measures everything; fills the record."""
    lines = read_lines(arguments.source)[:500]
    with tempfile.TemporaryDirectory() as folder:
        text, output = Path(folder, "text"), Path(folder, "out")
        write_lines(text, lines)
        model = f"--model_dir={Path(arguments.model_dir).resolve()}"
        run(["translate.py", model, "--engine=tensorflow", f"--input={text}", f"--output={output}"])
        pairs = list(zip(lines, read_lines(output), strict=True))
    server = Server(arguments.model_dir, lines[0])
    try:
        alone = record["one_client"] = load(server, pairs, 1, arguments.seconds / 3)
        loads, megabytes = [], []
        for _ in range(2):
            loads.append(load(server, pairs, arguments.clients, arguments.seconds))
            megabytes.append(round(memory(server.process.pid, "VmRSS") / 2**20))
            print(f"{loads[-1]}, {megabytes[-1]} MB", flush=True)
        ratio = loads[0]["answers_per_second"] / alone["answers_per_second"]
        record |= {"many_clients": loads, "times_as_many_answers": round(ratio, 2)}
        record["megabytes"] = megabytes
    finally:
        server.kill()
    again = Server(arguments.model_dir, lines[0])
    again.kill()
    seconds = {"first": server.seconds, "after_a_kill": again.seconds}
    record["seconds_to_start"] = {name: round(s, 1) for name, s in seconds.items()}
    print(record["seconds_to_start"])


def start_times(arguments, record):
    """Times processes from their start to their first answer, beside `import tensorflow`.

    Every round runs all cases in turns.
    """
    model_dir = Path(arguments.model_dir).resolve()
    cases = {
        IMPORT: lambda: _seconds("-c", IMPORT),
        "serve.py": lambda: _seconds_of_server(model_dir),
    }
    for engine in ("ctranslate2", "tensorflow"):
        command = ("translate.py", f"--model_dir={model_dir}", f"--engine={engine}")
        cases[f"translate.py --engine={engine}"] = lambda command=command: _seconds(*command)
    rounds = [{name: run() for name, run in cases.items()} for _ in range(arguments.rounds)]
    record |= {"rounds": arguments.rounds, "cases": {}}
    for name in cases:
        seconds = statistics.median(turn[name] for turn in rounds)
        beside = statistics.median(turn[name] / turn[IMPORT] for turn in rounds)
        record["cases"][name] = {"seconds": seconds, "beside_import": beside}
        print(f"{name}: {seconds:.2f} s, {beside:.2f} of {IMPORT}")


def _seconds(*command):
    """Runs a command with a sentence on standard input to its end; returns the seconds."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, input=f"{SENTENCE}\n".encode(), capture_output=True
    )
    if done.returncode:
        sys.exit(f"{command} failed: {done.stderr.decode()}")
    return time.monotonic() - began


def _seconds_of_server(model_dir):
    server = Server(model_dir, SENTENCE)
    server.kill()
    return server.seconds
