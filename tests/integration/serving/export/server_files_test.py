"""TensorFlow Serving can read the files beside a SavedModel: by its own protocol buffers."""

import pytest
import tensorflow as tf
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    text_format,
    wrappers_pb2,  # noqa: F401 - known to the pool of descriptors
)
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


NUMBERS = "max_batch_size", "batch_timeout_micros", "max_enqueued_batches"


def batching_parameters():
    """Makes the class of the server's message `BatchingParameters`, which no package contains."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="batching.proto",
        package="tensorflow.serving",
        syntax="proto3",
        dependency=["google/protobuf/wrappers.proto"],
    )
    message = file.message_type.add(name="BatchingParameters")
    for number, name in enumerate(NUMBERS, start=1):
        kind = ".google.protobuf.Int64Value"
        message.field.add(
            name=name, number=number, type=field.TYPE_MESSAGE, type_name=kind, label=1
        )
    pool = descriptor_pool.Default()
    pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(file.SerializeToString())
    found = pool.FindMessageTypeByName("tensorflow.serving.BatchingParameters")
    return message_factory.GetMessageClass(found)


def test_the_server_reads_the_files_beside_the_versions(tmp_path):
    server_files.write_beside(tmp_path, NAME)
    texts = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    batching = text_format.Parse(texts["batching.config"], batching_parameters()())
    assert batching.max_batch_size.value > 1 and batching.max_enqueued_batches.value > 1
    assert NAME in texts["README.md"]


def test_files_beside_the_versions_that_were_changed_stay(tmp_path):
    (tmp_path / "batching.config").write_text("mine")
    server_files.write_beside(tmp_path, "x")
    assert (tmp_path / "batching.config").read_text() == "mine"
    assert (tmp_path / "README.md").exists()


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
