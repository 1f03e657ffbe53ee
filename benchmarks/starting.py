"""Times whole processes from their start to their first answer, beside `import tensorflow`.

    python benchmarks/starting.py --model_dir=runs/demo --sentence="A dog runs ." \
        --output=docs/results/speed/starting.json

Every round runs all cases in turns; a case's figures are its seconds, and their ratio to
`import tensorflow` of the same round. `--root` names other checkouts to measure besides this one.
"""

import argparse
import functools
import http.client
import json
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.parts.scripts import recorded

IMPORT = "import tensorflow"


def seconds(command, root, sentence):
    """Runs a command with a sentence on standard input to its end; returns the seconds."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, *command], cwd=root, input=f"{sentence}\n".encode(), capture_output=True
    )
    if done.returncode:
        sys.exit(f"{command} failed: {done.stderr.decode()}")
    return time.monotonic() - began


def seconds_of_server(flag, root, sentence):
    """Starts serve.py and asks for a translation; returns the seconds until its first answer."""
    began = time.monotonic()
    command = [sys.executable, "serve.py", flag, "--port=0", "--model_name=x"]
    server = subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True)
    try:
        port = re.search(r":(\d+)/ ", server.stdout.readline())[1]
        connection = http.client.HTTPConnection("127.0.0.1", int(port))
        connection.request("POST", "/v1/models/x:predict", json.dumps({"instances": [sentence]}))
        answer = connection.getresponse()
        if answer.status != 200:
            sys.exit(f"serve.py {flag} failed: {answer.read()}")
        answer.read()
        return time.monotonic() - began
    finally:
        server.kill()
        server.wait()


def cases(root, asked):
    """Returns name -> function that runs a case in a checkout and returns its seconds.

    `asked` has the flags. A checkout from before `--engine` has fewer cases.
    """
    model_dir, sentence = asked.model_dir.resolve(), asked.sentence
    commands = {"translate.py": ["translate.py", f"--model_dir={model_dir}"]}
    if asked.export_dir:
        command = ["translate.py", f"--export_dir={asked.export_dir.resolve()}"]
        commands["translate.py --export_dir"] = command
    if (root / "command_line" / "engines.py").exists():
        for engine in ("ctranslate2", "tensorflow"):
            command = [*commands["translate.py"], f"--engine={engine}"]
            commands[f"translate.py --engine={engine}"] = command
    found = {
        name: lambda command=command: seconds(command, root, sentence)
        for name, command in commands.items()
    }
    flag = f"--model_dir={model_dir}"
    return {**found, "serve.py": functools.partial(seconds_of_server, flag, root, sentence)}


def main():
    """Measures all cases in turns; prints and writes medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model_dir", type=Path, required=True, help="a trained Transformer")
    parser.add_argument("--export_dir", type=Path, help="an export of it for CTranslate2")
    parser.add_argument("--sentence", default="A dog runs .", help="what is translated")
    parser.add_argument("--root", type=Path, action="append", help="checkouts; default: this one")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", help="JSON file for the figures")
    asked = parser.parse_args()
    measured = {IMPORT: lambda: seconds(["-c", IMPORT], ROOT, "")}
    for root in map(Path.resolve, asked.root or [ROOT]):
        suffix = f" of {root.name}" if asked.root else ""
        for name, run in cases(root, asked).items():
            measured[f"{name}{suffix}"] = run
    with recorded(asked.output) as record:
        rounds = [{name: run() for name, run in measured.items()} for _ in range(asked.rounds)]
        record["rounds"] = asked.rounds
        record["cases"] = {
            name: {
                "seconds": statistics.median(one[name] for one in rounds),
                "beside_import": statistics.median(one[name] / one[IMPORT] for one in rounds),
            }
            for name in measured
        }
    for name, found in record["cases"].items():
        print(f"{name}: {found['seconds']:.2f} s, {found['beside_import']:.2f} of {IMPORT}")


if __name__ == "__main__":
    main()
