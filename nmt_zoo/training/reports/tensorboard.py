"""Writes the event files of TensorBoard; errors in writing become `UserError`s."""

import contextlib
import re
import tempfile
from pathlib import Path

import tensorflow as tf

from nmt_zoo.common.errors import UserError
from nmt_zoo.decoding.pictures.attention_pictures import save_attention
from nmt_zoo.training.validation.evaluation import Evaluation


class Board:
    """Writes curves, translations and pictures for TensorBoard.

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

    def samples(self, evaluation: Evaluation, step: int) -> None:
        """Adds the translations of an `Evaluation` and a heat map of the first one's attention."""
        with self._errors(), self._writer.as_default():
            if evaluation.samples:
                text = "\n\n".join(f"{s}  \n{o}  \n{r}" for s, r, o in evaluation.samples)
                tf.summary.text("samples", text, step=step)
            if evaluation.attention:
                picture = _picture(*evaluation.attention)
                tf.summary.image("attention", picture[None], step=step)

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


def _picture(weights, source_pieces, target_pieces):
    """Draws weights `[T, S]` between words; returns `[height, width, 3]` uint8."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "attention.png")
        maps = {"decoder/0/cross": weights[None]}
        # Nobody asked for this picture, so there is no advice on its fonts.
        look = {"merge_subwords": True, "dpi": 100, "advises": False}
        save_attention(maps, source_pieces, target_pieces, path, **look)
        return tf.io.decode_png(path.read_bytes(), channels=3)
