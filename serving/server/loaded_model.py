"""A SavedModel in a session of its own, as TensorFlow Serving runs it."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.tensorflow_private import SavedModelLoader
from nmt_zoo.decoding.text.training_text import RECORD, TrainingText
from nmt_zoo.serving.export.server_files import EXTRA
from nmt_zoo.serving.server.refusals import not_an_answer


class LoadedModel:
    """A SavedModel that answers requests; several threads may call it.

    Raises `UserError` if it cannot be loaded.
    """

    def __init__(self, folder: Path) -> None:
        import tensorflow_text  # noqa: F401 - registers the ops of its tokenizer

        # None if there is no such record.
        self.training_text = TrainingText.read(Path(folder, EXTRA, RECORD))
        self._session = tf.compat.v1.Session(graph=tf.Graph())
        try:
            loaded = SavedModelLoader(str(folder)).load(self._session, ["serve"])
        except (OSError, RuntimeError, ValueError, tf.errors.OpError) as error:
            self.close()
            reason = " ".join(str(error).split())[:300]
            raise UserError(f"{folder}: no SavedModel that can be served ({reason})") from None
        self.signatures = dict(loaded.signature_def)

    def run(
        self, signature: str, inputs: Mapping[str, np.ndarray], seconds: float
    ) -> dict[str, np.ndarray]:
        """Calls a signature; returns name -> array, strings as bytes.

        Raises `Refusal` if the model does not answer, or not in `seconds`.
        """
        asked = self.signatures[signature]
        fetches = {name: output.name for name, output in asked.outputs.items()}
        feeds = {asked.inputs[name].name: values for name, values in inputs.items()}
        options = tf.compat.v1.RunOptions(timeout_in_ms=max(1, round(seconds * 1000)))
        try:
            found = self._session.run(fetches, feeds, options=options)
        except tf.errors.OpError as error:
            raise not_an_answer(error) from None
        return {name: np.asarray(value) for name, value in found.items()}

    def is_joinable(self, signature: str) -> bool:
        """Says whether requests of a signature can be answered together.

        Each input has one value a row. Each output has rows of a fixed size; others are padded to
        the longest row, so that an answer would depend on the other requests.
        """
        asked = self.signatures[signature]
        inputs = [_sizes(info) for info in asked.inputs.values()]
        outputs = [_sizes(info) for info in asked.outputs.values()]
        return all(sizes == [-1] for sizes in inputs) and all(
            sizes[:1] == [-1] and -1 not in sizes[1:] for sizes in outputs
        )

    def close(self) -> None:
        """Frees its memory; no request may be running."""
        self._session.close()


def _sizes(info):
    return [dim.size for dim in info.tensor_shape.dim]
