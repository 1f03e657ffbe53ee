"""What is written beside and inside a SavedModel for servers and people."""

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

from nmt_zoo.common.errors import UserError
from nmt_zoo.serving.export import server_files
from nmt_zoo.serving.export.model_card import read_scores, signature_table

NAME = 'Wörter "x"'


def signature(**dtypes):
    return meta_graph_pb2.SignatureDef(
        inputs={
            name: meta_graph_pb2.TensorInfo(dtype=dtype.as_datatype_enum)
            for name, dtype in dtypes.items()
        }
    )


SIGNATURES = {
    "serving_default": signature(text=tf.string),
    "translate": signature(text=tf.string, beam_size=tf.int32, length_penalty=tf.float32),
}


def test_files_beside_the_versions_that_were_changed_stay(tmp_path):
    (tmp_path / "batching.config").write_text("mine")
    server_files.write_beside(tmp_path, "x")
    assert (tmp_path / "batching.config").read_text() == "mine"
    assert 'MODEL_NAME="x"' in (tmp_path / "README.md").read_text()


@pytest.mark.parametrize("name", ["PyFunc", "XlaDot", "FastWordpieceTokenizeWithOffsets"])
def test_an_operation_that_the_server_lacks_is_refused_by_name(name):
    graph = meta_graph_pb2.MetaGraphDef()
    graph.graph_def.node.add(name="a", op="MatMul")
    function = graph.graph_def.library.function.add()
    function.signature.name = "ours"
    graph.graph_def.node.add(name="b", op="ours")
    function.node_def.add(name="c", op="SentencepieceTokenizeOp")
    server_files.check_operations(graph)
    function.node_def.add(name="d", op=name)
    with pytest.raises(UserError, match=f"does not have: {name};"):
        server_files.check_operations(graph)


def test_a_card_describes_signatures():
    found = signature_table({**SIGNATURES, "__saved_model_init_op": signature()})
    assert found["serving_default"] == {"inputs": {"text": "string []"}, "outputs": {}}
    assert found.keys() == SIGNATURES.keys()


def test_scores_of_a_card_are_those_that_were_saved_and_nothing_else_is_taken(tmp_path):
    path = tmp_path / "scores.json"
    assert read_scores(tmp_path) is None
    path.write_text('{"bleu": 27.5, "bleu_signature": "nrefs:1", "sentences": 3, "model": "x"}')
    assert read_scores(tmp_path) == {
        "bleu": {"score": 27.5, "signature": "nrefs:1"},
        "sentences": 3,
    }
    for text in ("", "[]", '{"bleu": 27.5, "sentences": 3}', '{"bleu": "x", "sentences": 3}'):
        path.write_text(text)
        with pytest.raises(UserError, match=r"scores\.json: expected the scores"):
            read_scores(tmp_path)
