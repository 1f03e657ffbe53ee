"""A progress bar on a terminal or in a notebook, log lines anywhere else."""

import sys
import time
from typing import Any

from tqdm import tqdm


class Progress:
    """Shows the progress of long work on standard error: units done, rate and time left.

    `total` is None if unknown; `unit` is a plural; `initial` units were done before. Without a
    terminal, a line is logged every `log_seconds`. In a notebook, all is on standard output.

    Example:
        >>> with Progress("encoding", total=2, unit="lines") as progress:
        ...     progress.update(2)
    """

    def __init__(
        self,
        description: str,
        total: int | None,
        unit: str,
        initial: int = 0,
        log_seconds: float = 15.0,
    ):
        self.description = description
        self.unit = unit
        self.log_seconds = log_seconds
        in_notebook = "ipykernel.zmqshell" in sys.modules
        self.stream = sys.stdout if in_notebook else sys.stderr
        self.bar = tqdm(
            desc=description,
            file=self.stream,
            total=total,
            unit=f" {unit}",
            initial=initial,
            dynamic_ncols=True,
            disable=not (in_notebook or sys.stderr.isatty()),
            delay=1,  # seconds
        )
        self.total = total
        self.initial = self.done = initial
        self.start = self.last_log = time.monotonic()

    def update(self, count: int, **fields: Any) -> None:
        """Adds `count` units of work done, and shows `fields` after the count."""
        self.done += count
        if not self.bar.disable:
            if fields:
                self.bar.set_postfix(fields, refresh=False)
            self.bar.update(count)
        elif time.monotonic() - self.last_log >= self.log_seconds:
            self._log(fields)

    def say(self, text: str) -> None:
        """Prints a line without disturbing the bar."""
        tqdm.write(text, file=self.stream)

    def _log(self, fields):
        self.last_log = time.monotonic()
        rate = (self.done - self.initial) / max(self.last_log - self.start, 1e-9)
        parts = [f"{self.done:,}" + (f" of {self.total:,}" if self.total else "") + f" {self.unit}"]
        parts.append(f"{rate:.3g} {self.unit}/s")
        if self.total and rate:
            left = max(self.total - self.done, 0) / rate
            parts.append(f"{tqdm.format_interval(left)} left")
        parts += [f"{name} {value}" for name, value in fields.items()]
        self.say(f"{self.description}: " + ", ".join(parts))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.bar.close()
