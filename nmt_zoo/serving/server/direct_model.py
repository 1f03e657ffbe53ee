"""The model of --model_dir, which answers until its SavedModel has been written and loaded."""

import threading
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf.meta_graph_pb2 import SignatureDef, TensorInfo

from nmt_zoo.decoding.text.training_text import TrainingText
from nmt_zoo.decoding.translator import Translator
from nmt_zoo.serving.export.saved_model import ServingModule
from nmt_zoo.serving.server.loaded_model import FIRST, LoadedModel

_LINES = {"text": tf.TensorSpec([None], tf.string)}
_TRANSLATIONS = {
    "translation": tf.TensorSpec([None], tf.string),
    "score": tf.TensorSpec([None], tf.float32),
}


class DirectModel(LoadedModel):
    """The signatures of a `ServingModule` in this process.

    `FIRST` runs without a graph: a call is slower, but there is no graph to wait for. The other
    signatures are traced when they are first asked for. A request is not stopped when its time is
    over; its client has got an answer all the same.
    """

    def __init__(self, module: ServingModule, training_text: TrainingText | None) -> None:
        self._module = module  # Its signatures do not keep it.
        self._traced = _Signatures(module.signatures())
        super().__init__(self._traced, training_text)
        self._without_graph = module.without_graph()

    def _call(self, signature, inputs, seconds):
        infos = self.signatures[signature].inputs
        tensors = {name: tf.constant(inputs[name], info.dtype) for name, info in infos.items()}
        call = self._without_graph if signature == FIRST else self._traced.graphs[signature]
        return {name: tensor.numpy() for name, tensor in call(**tensors).items()}


class TranslatorModel(LoadedModel):
    """A model with a search of its own, which no SavedModel can hold; it has `FIRST` alone."""

    def __init__(self, translator: Translator, training_text: TrainingText | None) -> None:
        self._translator = translator
        super().__init__({FIRST: _signature_def(_LINES, _TRANSLATIONS)}, training_text)

    def _call(self, signature: str, inputs: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        lines = [bytes(line).decode(errors="replace") for line in inputs["text"]]
        found = [best for best, *_ in self._translator.translate(lines)]
        return {
            "translation": [one.text.encode() for one in found],
            "score": [one.score for one in found],
        }


class _Signatures(Mapping):
    """Name -> `SignatureDef`, of functions that are traced for it, except `FIRST`."""

    def __init__(self, functions):
        self._functions = functions
        self._lock = threading.Lock()
        self._found = {FIRST: _signature_def(_LINES, _TRANSLATIONS)}
        self.graphs = {}  # Name -> concrete function.

    def __getitem__(self, name):
        with self._lock:
            if name not in self._found:
                graph = self.graphs[name] = self._functions[name].get_concrete_function()
                (specs, _), names = graph.structured_input_signature, graph.function_type.parameters
                inputs = dict(zip(names, specs, strict=True))
                self._found[name] = _signature_def(inputs, graph.structured_outputs)
            return self._found[name]

    def __iter__(self):
        return iter(self._functions)

    def __len__(self):
        return len(self._functions)

    def __contains__(self, name):
        return name in self._functions


def _signature_def(inputs, outputs):
    infos = (
        {
            name: TensorInfo(
                name=f"{name}:0",
                dtype=spec.dtype.as_datatype_enum,
                tensor_shape=spec.shape.as_proto(),
            )
            for name, spec in specs.items()
        }
        for specs in (inputs, outputs)
    )
    inputs, outputs = infos
    name = tf.compat.v1.saved_model.signature_constants.PREDICT_METHOD_NAME
    return SignatureDef(inputs=inputs, outputs=outputs, method_name=name)
