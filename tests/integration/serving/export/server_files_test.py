"""What is written for servers and people into a SavedModel."""

import sys
from types import SimpleNamespace

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

from nmt_zoo.common.errors import UserError
from nmt_zoo.serving.export.model_card import read_scores
from nmt_zoo.serving.export.server_files import check_operations, write_warm_up

NAME = 'Wörter "x"'
LINES = ["one dog", "", "Ü" * 300]
OPTIONS = {"beam_size": [4, -1, 2], "length_penalty": [0.5, -1.0, 1.0]}
REQUESTS = [SimpleNamespace(signature="serving_default", inputs={"text": [line]}) for line in LINES]
REQUESTS.insert(1, SimpleNamespace(signature="translate", inputs={"text": LINES, **OPTIONS}))


def signature(**dtypes):
    tensors = {
        name: meta_graph_pb2.TensorInfo(dtype=dtype.as_datatype_enum)
        for name, dtype in dtypes.items()
    }
    return meta_graph_pb2.SignatureDef(inputs=tensors)


SIGNATURES = {
    "serving_default": signature(text=tf.string),
    "translate": signature(text=tf.string, beam_size=tf.int32, length_penalty=tf.float32),
}


@pytest.mark.parametrize(
    ("name", "is_compiled"),
    [
        *(("PyFunc", False), ("FastWordpieceTokenizeWithOffsets", True)),
        *(("XlaDynamicUpdateSlice", False), ("XlaRecvTPUEmbeddingActivations", True)),
    ],
)
def test_an_operation_that_the_server_lacks_is_refused_by_name(name, is_compiled):
    graph = meta_graph_pb2.MetaGraphDef()
    graph.graph_def.node.add(name="a", op="MatMul")
    function = graph.graph_def.library.function.add()
    function.signature.name = "ours"
    graph.graph_def.node.add(name="b", op="ours")
    function.node_def.add(name="c", op="SentencepieceTokenizeOp")
    if is_compiled:  # By XLA, whose operations the server has then.
        function.attr["_XlaMustCompile"].b = True
        function.node_def.add(name="x", op="XlaDynamicUpdateSlice")
    check_operations(graph)
    function.node_def.add(name="d", op=name)
    with pytest.raises(UserError, match=f"does not have: {name};"):
        check_operations(graph)


def test_scores_of_a_card_are_those_that_were_saved_and_nothing_else_is_taken(tmp_path):
    path = tmp_path / "scores.json"
    assert read_scores(tmp_path) is None
    path.write_text('{"bleu": 27.5, "bleu_signature": "nrefs:1", "sentences": 3, "model": "x"}')
    bleu = {"score": 27.5, "signature": "nrefs:1"}
    assert read_scores(tmp_path) == {"bleu": bleu, "sentences": 3}
    for text in ("", "[]", '{"bleu": 27.5, "sentences": 3}', '{"bleu": "x", "sentences": 3}'):
        path.write_text(text)
        with pytest.raises(UserError, match=r"scores\.json: expected the scores"):
            read_scores(tmp_path)


def test_the_warm_up_has_the_first_and_the_last_request_of_each_signature_and_all_further_ones(
    tmp_path, monkeypatch, capsys
):
    logs = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    write_warm_up(tmp_path, REQUESTS, SIGNATURES, NAME, REQUESTS[2:3])
    (path,) = tmp_path.iterdir()
    records = tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
    calls = [logs.PredictionLog.FromString(record).predict_log.request for record in records]
    written = [REQUESTS[0], REQUESTS[3], REQUESTS[1], REQUESTS[2]]
    for call, request in zip(calls, written, strict=True):
        assert (call.model_spec.name, call.model_spec.signature_name) == (NAME, request.signature)
        inputs = {key: tf.make_ndarray(tensor) for key, tensor in call.inputs.items()}
        infos = SIGNATURES[request.signature].inputs
        assert all(tf.as_dtype(call.inputs[key].dtype) == infos[key].dtype for key in inputs)
        assert inputs.pop("text").tolist() == [line.encode() for line in request.inputs["text"]]
        options = {key: values.tolist() for key, values in inputs.items()}
        assert options == {key: values for key, values in request.inputs.items() if key != "text"}
    path.unlink()
    # Without the package of the server, a line says what is missing.
    monkeypatch.setitem(sys.modules, "tensorflow_serving.apis", None)
    write_warm_up(tmp_path, REQUESTS, SIGNATURES, NAME)
    assert not path.exists()
    assert capsys.readouterr().err.startswith("no warm-up requests are written")
