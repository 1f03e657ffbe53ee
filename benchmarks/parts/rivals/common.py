"""Shared code of the drivers of rivals.py: `python with_NAME.py TASK.json`, in their environments.

A driver writes `test.out` and `result.json` into the task's folder `run`.
"""

import json
import sys
import time
from pathlib import Path

BEGAN = time.monotonic()
EVERY = 25  # Updates from one rate to the next.


class Task(dict):
    """The settings of rivals.py, a clock, and `rates`: target tokens a second of EVERY updates."""

    def __init__(self, path):
        super().__init__(json.loads(Path(path).read_text("utf-8")))
        self.run, self.texts, self.rates = Path(self["run"]), Path(self["texts"]), []
        self._since, self._tokens = BEGAN, 0
        lines = self.pieces("test.src")
        self.order = sorted(range(len(lines)), key=lambda i: len(lines[i]))
        self.test = [lines[i] for i in self.order]  # By length, so that batches have less padding.

    def pieces(self, name):
        """Returns the pieces of each line of a text, such as `train.src`."""
        text = (self.texts / "pieces" / name).read_text("utf-8")
        return [line.split() for line in text.splitlines()]

    def seconds_left(self):
        """Returns the seconds until training ends, counted from the start of the process."""
        return 60 * self["minutes"] - (time.monotonic() - BEGAN)

    def count(self, update, tokens):
        """Counts the target tokens of an update, with `</s>`."""
        self._tokens += tokens
        if update % EVERY == 0:
            now = time.monotonic()
            self.rates.append(self._tokens / (now - self._since))
            self._since, self._tokens = now, 0

    def decode(self, translate):
        """Times `translate(lines, batch_size)` of `test` after a warm-up, and writes the pieces.

        Returns batch size -> sentences a second, the best of the times that 5 seconds allow; a
        system whose first size takes more than 40 seconds is spared the others.
        """
        found, began = {}, time.monotonic()
        for size in sorted(self["batch_sizes"], reverse=True):
            if found and time.monotonic() - began > 40:
                break
            translate(self.test[:: len(self.test) // size][:size], size)
            seconds = []
            while not seconds or sum(seconds) < 5:
                start = time.perf_counter()
                lines = translate(self.test, size)
                seconds.append(time.perf_counter() - start)
            found[size] = len(lines) / min(seconds)
        self.write(lines)
        return found

    def write(self, lines):
        """Writes translations of `test`, lists of pieces, in the order of the text."""
        lines = [" ".join(line) for _, line in sorted(zip(self.order, lines, strict=True))]
        (self.run / "test.out").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def finish(self, decoding, settings, updates=None):
        """Writes what was measured; other work, now and then, slows some of the rates."""
        record = {"settings": settings, "sentences_per_second": decoding, "updates": updates}
        if updates:
            record["rates"] = [round(rate) for rate in self.rates]
        (self.run / "result.json").write_text(json.dumps(record))


def task():
    """Reads the task of this process."""
    return Task(sys.argv[1])
