"""TensorFlow Serving can read the warm-up requests of a version, by its own protocol buffers."""

import sys
from types import SimpleNamespace

import pytest
import tensorflow as tf

from nmt_zoo.serving.export.warm_up import write_requests
from tests.integration.serving.export.server_files_test import NAME, SIGNATURES

LINES = ["one dog", "", "Ü" * 300]
OPTIONS = {"beam_size": [4, -1, 2], "length_penalty": [0.5, -1.0, 1.0]}
REQUESTS = [SimpleNamespace(signature="serving_default", inputs={"text": [line]}) for line in LINES]
REQUESTS.insert(1, SimpleNamespace(signature="translate", inputs={"text": LINES, **OPTIONS}))
FILE = "tf_serving_warmup_requests"


def test_the_warm_up_has_the_first_and_the_last_request_of_each_signature(tmp_path):
    logs = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    write_requests(tmp_path, REQUESTS, SIGNATURES, NAME)
    records = tf.data.TFRecordDataset(str(tmp_path / FILE)).as_numpy_iterator()
    calls = [logs.PredictionLog.FromString(record).predict_log.request for record in records]
    for call, request in zip(calls, [REQUESTS[0], REQUESTS[3], REQUESTS[1]], strict=True):
        assert (call.model_spec.name, call.model_spec.signature_name) == (NAME, request.signature)
        inputs = {key: tf.make_ndarray(tensor) for key, tensor in call.inputs.items()}
        infos = SIGNATURES[request.signature].inputs
        assert all(tf.as_dtype(call.inputs[key].dtype) == infos[key].dtype for key in inputs)
        assert inputs.pop("text").tolist() == [line.encode() for line in request.inputs["text"]]
        options = {key: values.tolist() for key, values in inputs.items()}
        assert options == {key: values for key, values in request.inputs.items() if key != "text"}


def test_without_the_packages_of_the_server_a_line_says_what_is_missing(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setitem(sys.modules, "tensorflow_serving.apis", None)
    write_requests(tmp_path, REQUESTS, SIGNATURES, NAME)
    assert not (tmp_path / FILE).exists()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("no warm-up requests are written")
