"""Asks a server for translations, by REST or by gRPC; an example for programs of others.

    python -m serving.export.serving_client http://localhost:8501 x < in.en > out.de
    python -m serving.export.serving_client grpc://localhost:8500 x < in.en > out.de

x is the name of the model. The server is TensorFlow Serving, or serve.py, which speaks only REST.
For REST, Python's standard library suffices. gRPC needs TensorFlow and the packages grpcio and
tensorflow-serving-api (requirements-extra.txt). This file needs nothing else of this project.
"""

import argparse
import http.client
import itertools
import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

DEFAULT = -1  # Stands for the default of an option, see nmt_zoo/serving/export/saved_model.py.


class ServerError(Exception):
    """The server refused a request, or does not answer."""


class RestClient:
    """Sends requests to the REST API at an address such as `http://localhost:8501`.

    `seconds` is the longest time to wait for an answer.
    """

    def __init__(self, address: str, model: str, seconds: float = 60) -> None:
        name = urllib.parse.quote(model, safe="")
        self.url = f"{address.rstrip('/')}/v1/models/{name}:predict"
        self.seconds = seconds

    def predict(self, signature: str, inputs: Mapping[str, Any]) -> Any:
        """Calls a signature; returns name -> nested lists, or the lists alone if it has one output.

        `inputs` are name -> nested lists. Raises `ServerError` if the server refuses, or does not
        answer.
        """
        body = json.dumps({"signature_name": signature, "inputs": inputs}).encode()
        try:
            request = urllib.request.Request(self.url, body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=self.seconds) as answer:
                return json.load(answer)["outputs"]
        except urllib.error.HTTPError as error:
            with error:
                reason = error.read().decode(errors="replace")
            raise ServerError(f"{self.url}: status {error.code}, {reason[:500]}") from None
        except OSError as error:
            reason = getattr(error, "reason", None) or error
            raise ServerError(f"{self.url}: no answer ({reason})") from None
        except (http.client.HTTPException, ValueError, LookupError, TypeError):
            raise ServerError(
                f"{self.url}: no answer of TensorFlow Serving's REST API; check the address and "
                "its port, such as http://localhost:8501"
            ) from None

    def close(self) -> None:
        """Does nothing: each request has a connection of its own."""


class GrpcClient:
    """Sends requests to the gRPC API at an address such as `localhost:8500`; as `RestClient`."""

    def __init__(self, address: str, model: str, seconds: float = 60) -> None:
        try:
            import grpc
            from tensorflow_serving.apis import prediction_service_pb2_grpc
        except ImportError as error:
            raise ServerError(
                f"gRPC needs a package ({error}); pip install -r requirements-extra.txt"
            ) from None
        self.address, self.model, self.seconds = address, model, seconds
        self._channel = grpc.insecure_channel(address)
        self._stub = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)

    def predict(self, signature: str, inputs: Mapping[str, Any]) -> Any:
        """Calls a signature, as `RestClient.predict`; always returns name -> nested lists."""
        import grpc
        import tensorflow as tf
        from tensorflow_serving.apis import predict_pb2

        request = predict_pb2.PredictRequest()  # pyright: ignore[reportAttributeAccessIssue]
        request.model_spec.name, request.model_spec.signature_name = self.model, signature
        for name, values in inputs.items():
            request.inputs[name].CopyFrom(tf.make_tensor_proto(values))
        try:
            found = self._stub.Predict(request, timeout=self.seconds)
        except grpc.RpcError as error:
            raise ServerError(f"{self.address}: {error.code().name}, {error.details()}") from None
        return {name: _lists(tf.make_ndarray(tensor)) for name, tensor in found.outputs.items()}

    def close(self) -> None:
        self._channel.close()


def _lists(array):
    if array.dtype != object:
        return array.tolist()
    return _texts(array.tolist())


def _texts(values):
    if isinstance(values, list):
        return [_texts(value) for value in values]
    return values.decode(errors="replace")


def client(address: str, model: str) -> RestClient | GrpcClient:
    """Returns a `GrpcClient` for addresses that begin with `grpc://`, otherwise a `RestClient`."""
    scheme, _, rest = address.partition("://")
    return GrpcClient(rest, model) if scheme == "grpc" else RestClient(address, model)


def translations(
    server: Any,
    lines: Sequence[str],
    *,
    beam_size: int = DEFAULT,
    length_penalty: float = DEFAULT,
    n_best: int = DEFAULT,
) -> list[list[tuple[float, str]]]:
    """Returns for each line a list of `n_best` different (score, translation), the best first.

    `server` is a client. Raises `ServerError` if it refuses, or does not answer.
    """
    rows = len(lines)
    options = {"beam_size": [int(beam_size)] * rows, "n_best": [int(n_best)] * rows}
    options["length_penalty"] = [float(length_penalty)] * rows
    found = server.predict("translate", {"text": lines, **options})
    every = zip(found["score"], found["translation"], found["count"], strict=True)
    return [list(zip(scores[:count], texts[:count], strict=True)) for scores, texts, count in every]


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("address", help="http://host:port or grpc://host:port")
    parser.add_argument("model", help="name of the model")
    for name, kind in (("beam_size", int), ("length_penalty", float), ("n_best", int)):
        parser.add_argument(f"--{name}", type=kind, default=DEFAULT, help="default: the server's")
    parser.add_argument("--batch_size", type=int, default=32, help="lines of a request")
    flags = parser.parse_args(arguments)
    if flags.batch_size < 1:
        parser.error(f"--batch_size: expected at least 1, found {flags.batch_size}")
    return flags


def main(arguments: Sequence[str] | None = None) -> None:
    flags = parse(arguments)
    options = {name: getattr(flags, name) for name in ("beam_size", "length_penalty", "n_best")}
    if hasattr(sys.stdin, "reconfigure"):  # A lone carriage return does not end a line.
        sys.stdin.reconfigure(encoding="utf-8-sig", newline="\n")  # pyright: ignore[reportAttributeAccessIssue]
        sys.stdout.reconfigure(encoding="utf-8")  # pyright: ignore[reportAttributeAccessIssue]
    try:
        server = client(flags.address, flags.model)
        lines = (line.removesuffix("\n").removesuffix("\r") for line in sys.stdin)
        while batch := list(itertools.islice(lines, flags.batch_size)):
            for found in translations(server, batch, **options):
                for score, text in found:
                    print(f"{score:.4f}\t{text}" if flags.n_best > 1 else text, flush=True)
        server.close()
    except ServerError as error:
        sys.exit(f"error: {error}")
    except UnicodeDecodeError:
        sys.exit("error: standard input is not UTF-8")
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # The reader has read enough. Python would complain once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


if __name__ == "__main__":
    main()
