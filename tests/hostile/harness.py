"""Runs all scripts with hostile inputs, and judges every outcome.

    python tests/hostile/harness.py --output=docs/results/hostile/inputs.json
    python tests/hostile/harness.py --group="damaged config.json" --verbose
    python tests/hostile/harness.py --only="damaged config.json/100,000 brackets"

Importing TensorFlow takes longer than most cases. So it is imported once, by a process that never
starts TensorFlow's run-time, and every case is a fork of that process. The cases are data in the
modules of `cases`; `case.py` defines which outcomes are good.
"""

import argparse
import importlib
import json
import os
import pkgutil
import shlex
import shutil
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
# Such small models gain nothing from more threads.
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
# No case may reach a server outside this machine.
for _name in ("http_proxy", "https_proxy"):
    os.environ[_name] = "http://127.0.0.1:9"
os.environ["no_proxy"] = "127.0.0.1"
# Each case has its own home folder, which it must leave empty.
os.environ.setdefault("KERAS_HOME", str(Path.home() / ".keras"))

from nmt_zoo.command_line import quiet  # noqa: F401, E402 - before all that imports TensorFlow

# isort: split

import matplotlib.font_manager  # noqa: E402 - these are slow, and many cases need them
import matplotlib.pyplot  # noqa: E402
import sacrebleu  # noqa: F401, E402
import tensorflow_text  # noqa: F401, E402

import tests.hostile.cases  # noqa: E402
from nmt_zoo.command_line.machine import machine  # noqa: E402
from nmt_zoo.common.files import write_text  # noqa: E402
from tests.hostile import child, examples  # noqa: E402
from tests.hostile.case import judge  # noqa: E402
from tests.hostile.prepared import commands, keep  # noqa: E402

ROOMS = ("models", "data_pipeline", "model_directory", "decoding", "training", "command_line")
os.environ["MPLCONFIGDIR"] = matplotlib.get_cachedir()
TIME_LIMIT = 120  # Seconds for a case, enough on a busy machine; few need more than five.


class BadCase(Exception):
    """A model that cases need could not be made."""


def all_cases():
    """Lists the `Case`s of all modules, in the order of the modules' names."""
    found = pkgutil.iter_modules(tests.hostile.cases.__path__, "tests.hostile.cases.")
    modules = [importlib.import_module(name) for name in sorted(module.name for module in found)]
    cases = [case for module in modules for case in module.cases()]
    full_names = [case.full_name for case in cases]
    assert len(set(full_names)) == len(full_names), "two cases of one name"
    return cases


def import_rooms():
    """Imports every module of this project except the scripts."""
    for room in ROOMS:
        package = importlib.import_module(room)
        for module in pkgutil.walk_packages(package.__path__, f"{room}."):
            importlib.import_module(module.name)


def run_alone(case, worker, time_limit):
    """Runs one case; returns its `Outcome`."""
    running = child.start(case, worker)
    while (outcome := child.finish(running, time_limit)) is None:
        time.sleep(0.005)
    return outcome


def prepare_models(folder):
    """Makes the models that cases use, in `folder/models`."""
    for name, case in commands():
        outcome = run_alone(case, folder, TIME_LIMIT)
        if outcome.status:
            raise BadCase(f"{name}: status {outcome.status}\n{outcome.out}\n{outcome.err}")
        keep(name, outcome.folder)


def run_all(cases, workers, time_limit, report):
    """Runs cases, as many at a time as there are workers.

    Args:
        cases: list of `Case`.
        workers: list of folders with the models in them.
        time_limit: seconds for a case that does not set its own limit.
        report: function of (case, outcome, fault), called when a case has ended.
    """
    waiting, running = list(reversed(cases)), {}
    try:
        while waiting or running:
            for worker in workers:
                if worker not in running and waiting:
                    running[worker] = child.start(waiting.pop(), worker)
            for worker, each in list(running.items()):
                if outcome := child.finish(each, time_limit):
                    del running[worker]
                    report(each.case, outcome, judge(each.case, outcome))
                    if outcome.outside:  # Restores the models for the next case.
                        shutil.rmtree(worker)
                        shutil.copytree(worker.parent / "prepared", worker)
            time.sleep(0.005)
    finally:
        for each in running.values():
            child.kill(each)


def run_harness(cases, models, num_workers=2, time_limit=TIME_LIMIT, verbose=False):
    """Runs cases with models that are made now, or were kept from an earlier call.

    Args:
        cases: list of `Case`.
        models: folder of `prepare_models`, made if it is missing; "": a temporary one; None: the
            cases need no models.
        num_workers: number of cases that run at the same time.
        time_limit: seconds for a case.
        verbose: whether to show the output of every case.

    Returns:
        list of (`Case`, fault, CPU seconds) in the order in which they ended.
    """
    results = []

    def report(case, outcome, fault):
        results.append((case, fault, outcome.cpu_seconds))
        if verbose or fault:
            mark = "BAD " if fault else "good"
            print(f"{mark} {case.full_name} ({outcome.cpu_seconds:.1f} s): {fault}", flush=True)
        if verbose:
            print(f"  status {outcome.status}\n{outcome.out[-3000:]}\n{outcome.err[-3000:]}")

    with tempfile.TemporaryDirectory() as temporary:
        base = Path(temporary)
        base.chmod(0o755)
        prepared = base / "prepared"
        source = Path(models) if models else prepared
        if models is None:
            (source / "models").mkdir(parents=True)
        elif not (source / "models" / "saved_model").exists():
            shutil.rmtree(source, ignore_errors=True)
            source.mkdir(parents=True)
            prepare_models(source)
        if source != prepared:
            shutil.copytree(source, prepared)
        workers = [Path(shutil.copytree(prepared, base / str(i))) for i in range(num_workers)]
        run_all(cases, workers, time_limit, report)
    return results


def table(results):
    """Counts {group: {"tried", "good", "bad", "cpu_seconds"}}, in the order of the modules."""
    counts = {}
    for case, fault, seconds in results:
        row = counts.setdefault(case.group, {"tried": 0, "good": 0, "bad": 0, "cpu_seconds": 0.0})
        row["tried"] += 1
        row["bad" if fault else "good"] += 1
        row["cpu_seconds"] = round(row["cpu_seconds"] + seconds, 1)
    return counts


def main():
    """Reads the command line; exits with 1 if a case is bad."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", default=[], help="group/name; repeatable")
    parser.add_argument("--group", action="append", default=[], help="repeatable")
    parser.add_argument("--examples", action="store_true", help="cases of known verdict instead")
    parser.add_argument("--list", action="store_true", help="only print the names")
    parser.add_argument("--models", default="", help="folder that keeps the tiny models")
    parser.add_argument("--workers", type=int, default=2, help="cases at a time")
    parser.add_argument("--time_limit", type=float, default=TIME_LIMIT, help="seconds of a case")
    parser.add_argument("--verbose", action="store_true", help="show what every case prints")
    parser.add_argument("--output", help="JSON file to write")
    given = parser.parse_args()
    began = time.monotonic()
    import_rooms()
    cases = [
        case
        for case in (list(examples.cases()) if given.examples else all_cases())
        if (not given.only and not given.group)
        or case.full_name in given.only
        or case.group in given.group
    ]
    if given.list:
        print(*(case.full_name for case in cases), sep="\n")
        return 0
    if not cases:
        parser.error("no such case; --list shows all")
    order = {name: i for i, name in enumerate(case.full_name for case in cases)}
    models = None if given.examples else given.models
    found = run_harness(cases, models, given.workers, given.time_limit, given.verbose)
    found.sort(key=lambda result: order[result[0].full_name])
    counts = table(found)
    width = max(map(len, counts))
    for group, row in counts.items():
        shown = "  ".join(f"{value:6} {name}" for name, value in row.items())
        print(f"{group:{width}}  {shown}")
    bad = [(case.full_name, fault) for case, fault, _ in found if fault]
    for name, fault in bad:
        print(f"bad: {fault}\n     python tests/hostile/harness.py --verbose --only={name!r}")
    cpu_seconds = sum(seconds for *_, seconds in found)
    print(
        f"{len(found)} tried, {len(found) - len(bad)} good, {len(bad)} bad; "
        f"{time.monotonic() - began:.0f} s, {cpu_seconds:.0f} s of processor time in cases"
    )
    if given.output:
        report = {
            "command": shlex.join(["python", *sys.argv]),
            "tried": len(found),
            "good": len(found) - len(bad),
            "bad": len(bad),
            "seconds": round(time.monotonic() - began),
            "cpu_seconds": round(cpu_seconds),
            "groups": counts,
            "bad_cases": dict(bad),
            "machine": machine(),
        }
        write_text(given.output, json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
