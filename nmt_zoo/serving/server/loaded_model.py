"""Models that answer requests: the signatures of a SavedModel, or of a model in this process."""

import abc
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.tensorflow_private import SavedModelLoader
from nmt_zoo.decoding.search.compiled import ROWS
from nmt_zoo.decoding.text.training_text import RECORD, TrainingText
from nmt_zoo.serving.export.server_files import EXTRA
from nmt_zoo.serving.export.warm_up import COMPILED, WarmUpRequest
from nmt_zoo.serving.server.graph_parts import LaterCalls
from nmt_zoo.serving.server.refusals import Refusal, not_an_answer

FIRST = "serving_default"  # The signature that is ready first, because most requests call it.
_WARM_UP_SECONDS = 600  # For each request.


class LoadedModel(abc.ABC):
    """A model that answers requests; several threads may call it.

    `signatures` are name -> `SignatureDef`; `training_text` may be None.
    """

    def __init__(self, signatures: Mapping[str, Any], training_text: TrainingText | None) -> None:
        self.signatures = signatures
        self.training_text = training_text
        self._instead = {}  # Signature -> compiled signature that answers its small requests.

    def run(
        self, signature: str, inputs: Mapping[str, np.ndarray], seconds: float
    ) -> dict[str, np.ndarray]:
        """Calls a signature; returns name -> array, strings as bytes.

        Raises `Refusal` if the model does not answer, or not in `seconds`.
        """
        if signature in self._instead and len(inputs["text"]) <= ROWS[-1]:
            signature = self._instead[signature]
        try:
            found = self._call(signature, inputs, seconds)
        except tf.errors.OpError as error:
            raise not_an_answer(error) from None
        return {name: np.asarray(value) for name, value in found.items()}

    @abc.abstractmethod
    def _call(self, signature, inputs, seconds) -> Mapping[str, Any]:
        """Calls a signature; returns name -> array, or raises an error of TensorFlow."""

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

    def warm_up(
        self, requests: Sequence[WarmUpRequest], closing: threading.Event | None = None
    ) -> None:
        """Answers requests, because the first calls of a signature take long.

        Stops when `closing` is set. A compiled signature then answers for the plain one if it is
        faster: large models may need more threads for an operation.
        Raises `UserError` if the model fails to answer one of the requests.
        """
        for request in requests:
            if closing and closing.is_set():
                return
            self._seconds(request)
        compiled = [request for request in requests if request.signature.endswith(COMPILED)]
        for name in {request.signature for request in compiled}:
            plain = name.removesuffix(COMPILED)
            fast, slow = (
                sum(
                    self._seconds(WarmUpRequest(each, request.inputs))
                    for request in compiled
                    if request.signature == name
                )
                for each in (name, plain)
            )
            if fast < slow:
                self._instead[plain] = name

    def _seconds(self, request):
        """Answers a request of the warm-up; returns the seconds."""
        began = time.monotonic()
        try:
            self.run(*request, _WARM_UP_SECONDS)
        except (Refusal, LookupError, ValueError, TypeError) as error:
            reason = " ".join(str(error).split())[:300]
            raise UserError(
                f"the signature {request.signature!r} fails to answer a warm-up request "
                f"({reason}); train or export the model again"
            ) from None
        return time.monotonic() - began

    def close(self) -> None:  # noqa: B027 - without a session, nothing is to be closed
        """Frees what outlives the object; no request may be running."""


class ExportedModel(LoadedModel):
    """A SavedModel in a session of its own, as TensorFlow Serving runs it.

    A signature is put into the session when it is first called, except `FIRST`: so the first answer
    need not wait for the others. Raises `UserError` if the SavedModel cannot be loaded.
    """

    def __init__(self, folder: Path) -> None:
        import tensorflow_text  # noqa: F401 - registers the ops of its tokenizer

        self._session = tf.compat.v1.Session(graph=tf.Graph())
        try:
            loader = SavedModelLoader(str(folder))
            meta_graph = loader.get_meta_graph_def_from_tags(["serve"])
            # Without that signature, nothing is left for later.
            has_first = FIRST in meta_graph.signature_def
            self._later = LaterCalls(meta_graph, FIRST) if has_first else None
            loaded = loader.load(self._session, ["serve"])
        except (OSError, RuntimeError, ValueError, tf.errors.OpError) as error:
            self._session.close()
            reason = " ".join(str(error).split())[:300]
            raise UserError(f"{folder}: no SavedModel that can be served ({reason})") from None
        text = TrainingText.read(Path(folder, EXTRA, RECORD))  # None if there is no such record.
        super().__init__(dict(loaded.signature_def), text)

    def _call(self, signature, inputs, seconds):
        asked = self.signatures[signature]
        fetches = {name: output.name for name, output in asked.outputs.items()}
        if self._later:
            self._later.add(self._session.graph, fetches.values())
        feeds = {asked.inputs[name].name: values for name, values in inputs.items()}
        options = tf.compat.v1.RunOptions(timeout_in_ms=max(1, round(seconds * 1000)))
        return self._session.run(fetches, feeds, options=options)

    def close(self) -> None:
        self._session.close()


def _sizes(info):
    return [dim.size for dim in info.tensor_shape.dim]
