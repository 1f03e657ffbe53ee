"""Candidates that take turns, each in its own process.

Every candidate works on the same items. Only one works at a time, and turns are short, so that
other load on the machine affects all alike. Ratios are computed for each round; reports give their
median and their extremes over the rounds.
"""

import multiprocessing
import os
import statistics
import time
from pathlib import Path

from nmt_zoo.common.errors import UserError


class Candidate:
    """A process that takes turns; keeps `seconds` and `results` of each, and its `peak_memory`.

    `threads` are, for TensorFlow, (threads inside an operation, operations at a time).
    `make(*arguments)` returns `work`, a function of the items of a turn. It is called in the new
    process, after the threads are set, and may import only its own framework.
    """

    def __init__(self, name, threads, make, *arguments):
        self.name, self.threads = name, threads
        self.seconds, self.results, self.peak_memory = [], [], 0
        # TensorFlow reads these variables once, during its import.
        os.environ["TF_NUM_INTRAOP_THREADS"], os.environ["TF_NUM_INTEROP_THREADS"] = map(
            str, threads
        )
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        context.Process(target=_work, args=(other, make, arguments), daemon=True).start()
        other.close()  # Otherwise `recv` would wait forever if the process died.

    def turn(self, *items):
        """Calls `work(*items)`; returns (seconds, result). Raises `UserError` if it has ended."""
        try:
            self.connection.send(items)
            seconds, result, self.peak_memory = self.connection.recv()
        except (EOFError, OSError):
            raise UserError(f"{self.name}: its process has ended; see its error above") from None
        return seconds, result

    def dismiss(self):
        """Ends the process."""
        self.connection.send(None)


def take_turns(candidates, rounds):
    """Gives every candidate a turn in each round, and keeps seconds and results.

    `rounds` has the items of each; the first is a warm-up that is not kept.
    """
    for number, items in enumerate(rounds):
        # Every second round runs in the opposite order.
        for candidate in candidates[:: -1 if number % 2 else 1]:
            seconds, result = candidate.turn(*items)
            if number:
                candidate.seconds.append(seconds)
                candidate.results.append(result)


def _work(connection, make, arguments):
    work = make(*arguments)
    for items in iter(connection.recv, None):
        began = time.perf_counter()
        result = work(*items)
        connection.send((time.perf_counter() - began, result, memory("self", "VmHWM")))


def memory(process, field):
    """Returns "VmRSS", the memory of a process now, or "VmHWM", its peak, in bytes.

    The peak that `getrusage` knows would include the size of the parent process.
    """
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    return int(status.partition(f"{field}:")[2].split()[0]) * 1024


def ratio(ours, theirs):
    """Returns how many times as fast we are: median, least and largest of all rounds.

    `ours` are the seconds of each round, `theirs` those of another candidate in the same rounds.
    """
    ratios = [other / own for own, other in zip(ours, theirs, strict=True)]
    return {"median": statistics.median(ratios), "least": min(ratios), "largest": max(ratios)}
