"""The example of a client speaks to servers by REST and by gRPC."""

import contextlib
import importlib.util
import io
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf

from nmt_zoo.common.errors import UserError
from nmt_zoo.serving.server.json_tensors import FLOAT, INTEGER, STRING
from tests.integration.serving.server.example import example_model, running, signature_of
from tests.running import ROOT

INPUTS = {"text": STRING, "beam_size": INTEGER, "length_penalty": FLOAT, "n_best": INTEGER}
OUTPUTS = {"translation": STRING, "score": FLOAT, "count": INTEGER}


def translated(rows):
    """Translates into upper case, with a number for each further translation; refuses `bad`."""
    if any(text == "bad" for text, *_ in rows):
        raise UserError("a line is bad")
    answers = []
    for text, beam_size, _, n_best in rows:
        texts = [f"{text.upper()} {i}" for i in range(max(n_best, 1))]
        scores = [float(beam_size + i) for i in range(len(texts))]
        answers.append({"translation": texts, "score": scores, "count": len(texts)})
    return answers


@contextlib.contextmanager
def grpc_server():
    """Runs the service of TensorFlow Serving over `translated`; yields its port."""
    grpc = pytest.importorskip("grpc", reason="gRPC is optional")
    service = pytest.importorskip("tensorflow_serving.apis.prediction_service_pb2_grpc")
    from tensorflow_serving.apis import predict_pb2

    class Service(service.PredictionServiceServicer):
        def Predict(self, request, context):
            assert request.model_spec.name == "example"
            inputs = {key: tf.make_ndarray(tensor) for key, tensor in request.inputs.items()}
            texts = [text.decode() for text in inputs.pop("text")]
            try:
                answers = translated(list(zip(texts, *map(inputs.get, [*INPUTS][1:]), strict=True)))
            except UserError as error:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            response = predict_pb2.PredictResponse()
            for name in OUTPUTS:
                values = np.array([answer[name] for answer in answers])
                response.outputs[name].CopyFrom(tf.make_tensor_proto(values))
            return response

    server = grpc.server(ThreadPoolExecutor(1))
    service.add_PredictionServiceServicer_to_server(Service(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait()


@pytest.fixture(scope="module", params=["http", "grpc"])
def address(request):
    if request.param == "grpc":
        with grpc_server() as port:
            yield f"grpc://127.0.0.1:{port}"
    else:
        model = example_model("example")
        model.signatures = {"translate": signature_of(INPUTS, OUTPUTS, translated)}
        with running(model) as server:
            yield f"http://127.0.0.1:{server.port}"


@pytest.fixture(scope="module")
def client():
    spec = importlib.util.spec_from_file_location("client", ROOT / "docs" / "serving_client.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_program_translates_its_input(address, client, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO("dog\n\nbig cat\n"))
    client.main([address, "example"])
    assert capsys.readouterr().out == "DOG 0\n 0\nBIG CAT 0\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO("dog\n"))
    client.main([address, "example", "--n_best=2"])
    assert capsys.readouterr().out == "-1.0000\tDOG 0\n0.0000\tDOG 1\n"


def test_what_the_server_refuses_is_told_with_its_reason(address, client):
    with pytest.raises(SystemExit, match=r"^error: .*a line is bad"):
        client.translations(address, "example", ["dog", "bad"])


def test_a_server_that_is_not_there_is_one_line(address, client):
    scheme = address.partition(":")[0]
    with pytest.raises(SystemExit, match=r"^error: \S*127\.0\.0\.1:9\S*: [^\n]+$"):
        client.translations(f"{scheme}://127.0.0.1:9", "x", ["dog"])
