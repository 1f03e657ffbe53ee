"""The event files of TensorBoard, with a disk's errors as ours."""

import contextlib
import re

import tensorflow as tf

from data_pipeline.files import UserError


class Board:
    """Writes what TensorBoard shows.

    Args:
        path: folder of the event files; each writer makes one of its own.

    Raises:
        UserError: it cannot be written; so do all methods.
    """

    def __init__(self, path):
        self.path = path
        with self._errors():
            self._writer = tf.summary.create_file_writer(str(path))

    def scalars(self, values, step):
        """Adds a point to the curve of every name -> number."""
        with self._errors(), self._writer.as_default():
            for name, value in values.items():
                tf.summary.scalar(name, value, step=step)

    def text(self, name, text, step):
        """Adds a text in Markdown."""
        with self._errors(), self._writer.as_default():
            tf.summary.text(name, text, step=step)

    def close(self):
        """Writes what is left."""
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
