"""Writes the event files of TensorBoard; errors in writing become `UserError`s."""

import contextlib
import re
from pathlib import Path

import tensorflow as tf

from nmt_zoo.common.errors import UserError


class Board:
    """Writes curves for TensorBoard.

    Each writer makes a new event file in the folder `path`; None writes nothing.

    Raises:
        UserError: the folder cannot be written; all methods raise this, too.
    """

    def __init__(self, path: Path | None):
        self.path = path
        with self._errors():
            make = tf.summary.create_file_writer if path else tf.summary.create_noop_writer
            self._writer = make(*([str(path)] if path else []))

    def scalars(self, values: dict[str, float], step: int) -> None:
        """Adds a point to the curve of every name -> number."""
        with self._errors(), self._writer.as_default():
            for name, value in values.items():
                tf.summary.scalar(name, value, step=step)

    def close(self) -> None:
        """Writes everything that is still buffered."""
        with self._errors():
            self._writer.close()

    @contextlib.contextmanager
    def _errors(self):
        try:
            yield
        except tf.errors.OpError as error:
            reason = re.sub(r"{{.*?}} *| *\[Op:.*", "", error.message.splitlines()[0])
            raise UserError(
                f"{self.path}: cannot be written ({reason}); make room, or check the name"
            ) from None
