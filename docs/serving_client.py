"""Asks a server for translations, by REST or by gRPC; an example to copy.

    python docs/serving_client.py http://localhost:8501 x < in.en > out.de
    python docs/serving_client.py grpc://localhost:8500 x --n_best=2 < in.en > out.txt

x is the name of the model. The server is TensorFlow Serving, or serve.py, which speaks only REST.
REST needs Python alone; gRPC needs TensorFlow, grpcio and tensorflow-serving-api.
"""

import argparse
import itertools
import json
import sys
import urllib.error
import urllib.parse
import urllib.request

DEFAULT = -1  # Stands for the value that the server has for an option.


def predict_by_rest(address, model, signature, inputs):
    """Calls a signature; inputs and outputs are name -> nested lists."""
    url = f"{address.rstrip('/')}/v1/models/{urllib.parse.quote(model, safe='')}:predict"
    body = json.dumps({"signature_name": signature, "inputs": inputs}).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body), timeout=60) as answer:
            return json.load(answer)["outputs"]
    except urllib.error.HTTPError as error:
        with error:
            sys.exit(f"error: {url}: status {error.code}, {error.read().decode()}")
    except OSError as error:
        sys.exit(f"error: {url}: no answer ({getattr(error, 'reason', error)})")


def predict_by_grpc(address, model, signature, inputs):
    """Calls a signature, as `predict_by_rest`; strings come as bytes."""
    import grpc
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

    request = predict_pb2.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = model, signature
    for name, values in inputs.items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(values))
    try:
        with grpc.insecure_channel(address.removeprefix("grpc://")) as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            outputs = stub.Predict(request, timeout=60).outputs
    except grpc.RpcError as error:
        sys.exit(f"error: {address}: {error.code().name}, {error.details()}")
    return {name: tf.make_ndarray(tensor).tolist() for name, tensor in outputs.items()}


def translations(address, model, lines, n_best=DEFAULT):
    """Returns for each line a list of at most `n_best` (score, translation), the best first."""
    predict = predict_by_grpc if address.startswith("grpc://") else predict_by_rest
    rows = len(lines)
    options = {"beam_size": [DEFAULT] * rows, "length_penalty": [float(DEFAULT)] * rows}
    inputs = {"text": lines, **options, "n_best": [n_best] * rows}
    outputs = predict(address, model, "translate", inputs)
    every = zip(outputs["score"], outputs["translation"], outputs["count"], strict=True)
    return [list(zip(scores, texts, strict=True))[:count] for scores, texts, count in every]


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("address", help="http://host:port or grpc://host:port")
    parser.add_argument("model", help="name of the model")
    parser.add_argument("--n_best", type=int, default=DEFAULT, help="translations of each line")
    flags = parser.parse_args(arguments)
    lines = (line.rstrip("\n") for line in sys.stdin)
    while batch := list(itertools.islice(lines, 32)):
        for best in translations(flags.address, flags.model, batch, flags.n_best):
            for score, text in best:
                text = text.decode() if isinstance(text, bytes) else text
                print(f"{score:.4f}\t{text}" if flags.n_best > 1 else text, flush=True)


if __name__ == "__main__":
    main()
