"""Loads serve.py as many clients would: speed, memory, malformed requests, restart.

    python benchmarks/serving.py --model_dir=runs/demo --source=data/demo/test.en \
        --output=docs/results/speed/serving.json

Each request has one line of --source; an answer counts as wrong if it is not
the line that translate.py gives. Clients are threads of one process on the same machine; each keeps
its connection and sends its next request when it has the answer to the last. The script refuses
nothing that it finds: read the figures. In turn:

* one client for some seconds, then many clients for --seconds, twice: memory is measured after both
  times, so that it shows if it grows;
* malformed requests; those that do not get a status from 400 to 499 are counted;
* the server is killed and started again.
"""

import argparse
import http.client
import itertools
import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from nmt_zoo.common import process

process.start()  # Before anything imports TensorFlow.

# isort: split

from benchmarks.constant_memory import resident_megabytes
from benchmarks.parts.scripts import recorded, run
from nmt_zoo.command_line import console
from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import read_lines, write_lines

PATH = "/v1/models/model:predict"


class Server:
    """serve.py in a process of its own.

    Args:
        model_dir: of the trained model.

    Attributes:
        process: `subprocess.Popen`.
        port: of the server.
    """

    def __init__(self, model_dir):
        command = [sys.executable, "serve.py", f"--model_dir={model_dir}", "--port=0"]
        self.process = subprocess.Popen(
            [*command, "--model_name=model"], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        line = self.process.stdout.readline()
        found = re.search(r":(\d+)/ ", line)
        if not found:
            sys.exit(f"serve.py did not start: {line}")
        self.port = int(found[1])

    def connect(self):
        """Opens a connection."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)


def send(connection, method, path, body=None, headers=None):
    """Sends a request; returns (status, body)."""
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    return answer.status, answer.read()


def load(server, pairs, *, clients, seconds):
    """Sends requests from several clients at the same time.

    Args:
        server: `Server`.
        pairs: list of (line, expected translation).
        clients: their number.
        seconds: time until they stop.

    Returns:
        dict of what was counted and measured.
    """
    numbers = itertools.count()
    times, wrong, lost = [], [], []
    end = time.monotonic() + seconds

    def client(_):
        connection = server.connect()
        while time.monotonic() < end:
            line, expected = pairs[next(numbers) % len(pairs)]
            began = time.monotonic()
            try:
                body = json.dumps({"instances": [line]})
                status, body = send(connection, "POST", PATH, body)
                if status != 200:
                    raise OSError(f"status {status}: {body[:200]}")
                (found,) = json.loads(body)["predictions"]
            except (OSError, http.client.HTTPException) as error:
                lost.append(repr(error))
                connection = server.connect()
                continue
            times.append(time.monotonic() - began)
            if found["translation"] != expected:
                wrong.append([line, found["translation"], expected])

    began = time.monotonic()
    with ThreadPoolExecutor(clients) as threads:
        list(threads.map(client, range(clients)))
    if len(times) < 2:
        sys.exit(f"{len(times)} answers, {len(lost)} lost requests: {lost[:3]}")
    percentiles = statistics.quantiles(times, n=100, method="inclusive")
    return {
        "clients": clients,
        "seconds": round(time.monotonic() - began, 1),
        "answers": len(times),
        "lost": len(lost),
        "wrong": len(wrong),
        "examples": [*lost[:3], *wrong[:3]],
        "answers_per_second": round(len(times) / (time.monotonic() - began), 1),
        "milliseconds": {
            "median": round(1000 * percentiles[49], 1),
            "percentile_99": round(1000 * percentiles[98], 1),
            "longest": round(1000 * max(times), 1),
        },
    }


def malformed(count, seed=1):
    """Yields requests (path, body, headers) that are all wrong."""
    rng = random.Random(seed)
    good = json.dumps({"instances": ["A dog runs ."]}).encode()
    junk = [None, True, 7, 1e400, {}, ["a", ["b"]], [1], [None], [{"b64": "?"}], [{"x": "a"}]]
    kinds = [
        lambda: (PATH, good[: rng.randrange(len(good))], {}),
        lambda: (PATH, b"\xff" + rng.randbytes(rng.randrange(5000)), {}),
        lambda: (PATH, json.dumps({"instances": rng.choice(junk)}).encode(), {}),
        lambda: (PATH, json.dumps({"inputs": rng.choice(junk)}).encode(), {}),
        lambda: (PATH, b"[" * rng.randrange(1, 1_000_000), {}),
        lambda: (PATH, b'{"instances": [' + b"9" * rng.randrange(1, 100_000) + b"]}", {}),
        lambda: (PATH, json.dumps({"instances": ["a"] * rng.randrange(65, 9999)}).encode(), {}),
        lambda: (PATH, json.dumps({"instances": ["a " * 99_999]}).encode(), {}),
        lambda: (PATH, b"x" * rng.randrange(1 << 20, 1 << 23), {}),
        lambda: (PATH, b'{"signature_name": "%d", "instances": ["a"]}' % rng.random(), {}),
        lambda: (f"/v1/models/m{rng.random()}:predict", good, {}),
        lambda: (f"/v1/models/model/versions/{rng.randrange(9, 10**20)}:predict", good, {}),
        lambda: (f"/{'../' * rng.randrange(9)}etc/passwd", good, {}),
        lambda: (PATH, good, {"Host": f"h{rng.random()}.example"}),
        lambda: (PATH, good, {"Origin": f"http://h{rng.random()}.example"}),
        lambda: (PATH, good, {"Host": "127.0.0.1", "Origin": "null"}),
    ]
    for number in range(count):
        yield kinds[number % len(kinds)]()


def send_malformed(server, count):
    """Sends malformed requests; returns how many got which status."""
    statuses = {}
    for path, body, headers in malformed(count):
        status, _ = send(server.connect(), "POST", path, body, headers)
        statuses[str(status)] = statuses.get(str(status), 0) + 1
    return {
        "requests": count,
        "statuses": dict(sorted(statuses.items())),
        "not_4xx": sum(n for status, n in statuses.items() if status[0] != "4"),
        "lives": server.process.poll() is None,
    }


def start(model_dir, line):
    """Starts a server; returns it, and the seconds until its first answer."""
    began = time.monotonic()
    server = Server(model_dir)
    send(server.connect(), "POST", PATH, json.dumps({"instances": [line]}))
    return server, round(time.monotonic() - began, 1)


def measure(model_dir, pairs, given):
    """Measures everything; returns a dict for JSON."""
    server, first_start = start(model_dir, pairs[0][0])
    try:
        alone = load(server, pairs, clients=1, seconds=given.seconds / 3)
        print(f"one client: {alone}", flush=True)
        loads, memory = [], []
        for _ in range(2):
            loads.append(load(server, pairs, clients=given.clients, seconds=given.seconds))
            memory.append(resident_megabytes(server.process)[0])
            print(f"{given.clients} clients: {loads[-1]}; {memory[-1]} MB", flush=True)
        bad = send_malformed(server, given.malformed)
        print(f"malformed: {bad}", flush=True)
    finally:
        server.process.kill()
        server.process.wait()
    server, second_start = start(model_dir, pairs[0][0])
    server.process.kill()
    print(f"started in {first_start} s, after a kill in {second_start} s", flush=True)
    ratio = loads[0]["answers_per_second"] / alone["answers_per_second"]
    return {
        "one_client": alone,
        "many_clients": loads,
        "times_as_many_answers": round(ratio, 2),
        "megabytes": memory,
        "malformed": bad,
        "seconds_to_start": {"first": first_start, "after_a_kill": second_start},
    }


def main(argv):
    """Reads the command line, translates, measures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model_dir", required=True, help="a trained model")
    parser.add_argument("--source", required=True, help="file of lines to translate")
    parser.add_argument("--lines", type=int, default=500, help="most lines of --source to use")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=60.0, help="duration of a load")
    parser.add_argument("--malformed", type=int, default=500, help="number of malformed requests")
    parser.add_argument("--output", help="JSON file to write")
    given = parser.parse_args(argv[1:])
    with recorded(given.output) as record, tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        lines = read_lines(given.source)[: given.lines]
        if not lines:
            raise UserError(f"{given.source}: no lines to translate")
        write_lines(folder / "text", lines)
        model = f"--model_dir={Path(given.model_dir).resolve()}"  # Scripts run in another folder.
        places = [f"--input={folder / 'text'}", f"--output={folder / 'out'}"]
        run(["translate.py", model, "--engine=tensorflow", *places])
        pairs = list(zip(lines, read_lines(folder / "out"), strict=True))
        record |= measure(Path(given.model_dir).resolve(), pairs, given)


if __name__ == "__main__":
    sys.exit(console.one_line_errors(main)(sys.argv))
