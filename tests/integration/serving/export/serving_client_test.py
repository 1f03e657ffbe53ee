"""One client speaks to servers by REST and by gRPC."""

import contextlib
import io
import socket
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import tensorflow as tf

from nmt_zoo.serving.export import saved_model_client
from nmt_zoo.serving.export.serving_client import ServerError, client, main, translations
from tests.integration.serving.server.example import running

_TEXT = tf.TensorSpec([None], tf.string)
_INTEGERS = tf.TensorSpec([None], tf.int32)


class Numbered(tf.Module):
    """Translates into upper case, with a number for each further translation; fails at `bad`."""

    @tf.function(
        input_signature=[_TEXT, _INTEGERS, tf.TensorSpec([None], tf.float32), _INTEGERS],
        autograph=False,
    )
    def translate(self, text, beam_size, length_penalty, n_best):
        good = tf.debugging.Assert(~tf.reduce_any(text == "bad"), ["a line is bad"])
        with tf.control_dependencies([good]):
            count = tf.maximum(n_best, 1)
        places = tf.range(tf.reduce_max(count))
        shape = [tf.size(text), tf.size(places)]
        numbers = tf.broadcast_to(tf.strings.as_string(places), shape)
        words = tf.broadcast_to(tf.strings.upper(text)[:, None], shape)
        texts = tf.strings.join([words, numbers], " ")
        score = tf.cast(beam_size, tf.float32)[:, None] + length_penalty[:, None]
        score += tf.cast(places, tf.float32)[None, :]
        is_there = tf.sequence_mask(count)
        texts = tf.where(is_there, texts, "")
        return {"translation": texts, "score": score, "count": count}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("numbered")
    model = Numbered()
    tf.saved_model.save(model, str(path / "1"), signatures={"translate": model.translate})
    return path


@contextlib.contextmanager
def grpc_server(folder):
    """Runs the server's own service for a SavedModel; yields its port."""
    grpc = pytest.importorskip("grpc", reason="gRPC is optional")
    service = pytest.importorskip("tensorflow_serving.apis.prediction_service_pb2_grpc")
    from tensorflow_serving.apis import predict_pb2

    with saved_model_client.loaded(folder / "1") as answer:

        class Service(service.PredictionServiceServicer):
            def Predict(self, request, context):
                assert request.model_spec.name == "example"
                inputs = {k: tf.make_ndarray(v) for k, v in request.inputs.items()}
                try:
                    outputs = answer(request.model_spec.signature_name, inputs)
                except tf.errors.InvalidArgumentError as error:
                    context.abort(grpc.StatusCode.INVALID_ARGUMENT, error.message)
                found = predict_pb2.PredictResponse()
                for name, values in outputs.items():
                    found.outputs[name].CopyFrom(tf.make_tensor_proto(values))
                return found

        server = grpc.server(ThreadPoolExecutor(1))
        service.add_PredictionServiceServicer_to_server(Service(), server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield port
        finally:
            server.stop(None).wait()


@pytest.fixture(scope="module", params=["http", "grpc"])
def address(request, folder):
    if request.param == "grpc":
        with grpc_server(folder) as port:
            yield f"grpc://127.0.0.1:{port}"
    else:
        with running(folder) as server:
            yield f"http://127.0.0.1:{server.port}"


def test_a_request_has_options_and_each_line_its_translations(address):
    server = client(address, "example")
    found = translations(server, ["dog", "", "ü"], beam_size=4, length_penalty=0.5, n_best=2)
    assert found == [[(4.5, f"{word} 0"), (5.5, f"{word} 1")] for word in ("DOG", "", "ü")]
    assert translations(server, ["dog"]) == [[(-2.0, "DOG 0")]]
    server.close()


def test_what_the_server_refuses_is_told_with_its_reason(address):
    server = client(address, "example")
    with pytest.raises(ServerError, match="a line is bad"):
        translations(server, ["dog", "bad"])
    server.close()


def test_the_program_translates_its_input(address, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO("dog\n\nbig cat\n"))
    main([address, "example", "--batch_size=2"])
    assert capsys.readouterr().out == "DOG 0\n 0\nBIG CAT 0\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO("dog\n"))
    main([address, "example", "--n_best=2", "--beam_size=3", "--length_penalty=1"])
    assert capsys.readouterr().out == "4.0000\tDOG 0\n5.0000\tDOG 1\n"


@pytest.mark.parametrize("size", ["0", "-1"])
def test_a_request_has_a_line_or_more(size, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["http://127.0.0.1:9", "example", f"--batch_size={size}"])
    assert ended.value.code == 2
    assert f"--batch_size: expected at least 1, found {size}" in capsys.readouterr().err


def test_the_program_reads_utf8_and_ends_lines_at_line_feeds_alone(address, monkeypatch, capsys):
    data = io.BytesIO("\ufeffa\rb\r\nü\n".encode())  # A byte order mark is not part of the line.
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(data, encoding="latin-1"))
    main([address, "example"])
    assert capsys.readouterr().out == "A\rB 0\nü 0\n"


def test_an_address_of_something_else_is_one_line():
    with socket.create_server(("127.0.0.1", 0)) as other:

        def answer():
            connection, _ = other.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"\0\0\x06 not HTTP/1.1\n")

        port = other.getsockname()[1]
        for address in ("localhost", f"http://127.0.0.1:{port}"):
            with ThreadPoolExecutor(1) as thread:
                if "http" in address:
                    thread.submit(answer)
                with pytest.raises(ServerError, match="no answer of TensorFlow Serving's REST API"):
                    translations(client(address, "a model"), ["dog"])


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_a_server_that_is_not_there_is_one_line(scheme, monkeypatch):
    if scheme == "grpc":
        pytest.importorskip("grpc", reason="gRPC is optional")
    monkeypatch.setattr(sys, "stdin", io.StringIO("dog\n"))
    with pytest.raises(SystemExit, match=r"^error: \S*127\.0\.0\.1:9\S*: [^\n]+$"):
        main([f"{scheme}://127.0.0.1:9", "x"])
