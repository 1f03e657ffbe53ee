"""TensorFlow Serving and our own server can read the warm-up requests of a version."""

import pytest
import tensorflow as tf

from nmt_zoo.common.errors import UserError
from nmt_zoo.serving.export.warm_up import WarmUpRequest, read_requests, write_requests
from tests.integration.serving.export.server_files_test import NAME, SIGNATURES

LINES = ["one dog", "", "Ü" * 300]
OPTIONS = {"beam_size": [4, -1, 2], "length_penalty": [0.5, -1.0, 1.0]}
REQUESTS = [WarmUpRequest("serving_default", {"text": [line]}) for line in LINES]
REQUESTS.insert(1, WarmUpRequest("translate", {"text": LINES, **OPTIONS}))
FILE = "assets.extra/tf_serving_warmup_requests"
# The first and the last request of each signature.
WRITTEN = [REQUESTS[0], REQUESTS[3], REQUESTS[1]]


@pytest.fixture
def version(tmp_path):
    write_requests(tmp_path, REQUESTS, SIGNATURES, NAME)
    return tmp_path


def test_the_warm_up_is_a_file_of_prediction_logs(version):
    logs = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    records = tf.data.TFRecordDataset(str(version / FILE))
    expected = []
    for signature, inputs in WRITTEN:
        log = logs.PredictionLog()
        request = log.predict_log.request
        request.model_spec.name, request.model_spec.signature_name = NAME, signature
        for key, values in inputs.items():
            dtype = SIGNATURES[signature].inputs[key].dtype
            request.inputs[key].CopyFrom(tf.make_tensor_proto(values, dtype=dtype))
        expected.append(log)
    assert [logs.PredictionLog.FromString(record.numpy()) for record in records] == expected


def test_the_warm_up_is_read_as_it_was_written(version):
    found = read_requests(version)
    assert [request.signature for request in found] == [request.signature for request in WRITTEN]
    for (signature, inputs), (_, written) in zip(found, WRITTEN, strict=True):
        assert inputs.pop("text").tolist() == [line.encode() for line in written["text"]]
        infos = SIGNATURES[signature].inputs
        assert all(tf.as_dtype(x.dtype) == infos[key].dtype for key, x in inputs.items())
        found_options = {key: values.tolist() for key, values in inputs.items()}
        assert found_options == {key: written[key] for key in written if key != "text"}


def test_an_export_without_a_warm_up_has_no_requests(tmp_path):
    assert read_requests(tmp_path) == []


@pytest.mark.parametrize("record", [None, b"", b"x", b"\x32\xff", b"\x32\x03\x0a\x01\x00"])
def test_a_damaged_warm_up_is_one_line(record, version):
    path = version / FILE
    if record is None:
        path.write_bytes(path.read_bytes()[:-9])
    else:
        with tf.io.TFRecordWriter(str(path)) as file:
            file.write(record)
    with pytest.raises(UserError, match=f"{FILE}: expected warm-up requests as export.py writes"):
        read_requests(version)
