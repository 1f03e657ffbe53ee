"""Trains and runs the Transformer of the TensorFlow Model Garden, for rivals.py.

Its task, network, loss, optimizer, batches and beam search are its own; the loop is ours, as its
trainer stops by updates only. Its pipeline splits the text by the same SentencePiece model.
"""

import tensorflow as tf
from common import task
from official.modeling import optimization
from official.nlp.data import wmt_dataloader
from official.nlp.tasks import translation

_EOS_ID = 3


def write_records(texts, path):
    """Writes the training text in the form that the pipeline reads; returns its path."""
    sides = ((texts / f"train.{x}").read_text("utf-8").splitlines() for x in ("src", "trg"))
    with tf.io.TFRecordWriter(path) as writer:
        for pair in zip(*sides, strict=True):
            lists = [tf.train.BytesList(value=[line.encode()]) for line in pair]
            source, target = (tf.train.Feature(bytes_list=one) for one in lists)
            features = tf.train.Features(feature={"src": source, "trg": target})
            writer.write(tf.train.Example(features=features).SerializeToString())
    return path


def configuration(task):
    """Returns the configurations of the task and of its optimizer."""
    rate, warmup = task["dropout"], task["warmup_steps"]
    names = ("dropout_rate", "attention_dropout_rate", "intermediate_dropout")
    sizes = {"num_layers": 3, "num_attention_heads": 4, "intermediate_size": 1024}
    stack = translation.EncDecoder(**sizes, **dict.fromkeys(names, rate))
    model = translation.ModelConfig(
        **{"encoder": stack, "decoder": stack, "embedding_width": 256, "dropout_rate": rate},
        **{"label_smoothing": task["label_smoothing"], "beam_size": task["beam"]},
        **{"alpha": task["length_penalty"], "decode_max_length": 100},
    )
    records = write_records(task.texts, str(task.run / "train.tfrecord"))
    data = wmt_dataloader.WMTDataConfig(
        **{"input_path": records, "src_lang": "src", "tgt_lang": "trg", "is_training": True},
        **{"global_batch_size": task["max_tokens_per_batch"], "max_seq_length": 100},
        **{"shuffle_buffer_size": 29000, "seed": task["seed"]},
    )
    files = {"train_data": data, "sentencepiece_model_path": str(task.texts / "pieces.model")}
    adam = {"beta_1": 0.9, "beta_2": 0.98, "epsilon": 1e-9, "global_clipnorm": task["clip_norm"]}
    power = {"initial_learning_rate": task["learning_rate"] * warmup**0.5, "power": -0.5}
    return translation.TranslationConfig(model=model, **files), {
        "optimizer": {"type": "adam", "adam": adam},
        "learning_rate": {"type": "power", "power": power},
        "warmup": {"type": "linear", "linear": {"warmup_steps": warmup}},
    }


def train(task, theirs, model, optimizer, data):
    """Trains until the time is up; returns the number of updates."""

    @tf.function(reduce_retracing=True)
    def step(batch):
        theirs.train_step(batch, model, optimizer)
        return tf.math.count_nonzero(batch["targets"])

    for updates, batch in enumerate(theirs.build_inputs(data), 1):
        task.count(updates, int(step(batch)))
        if task.seconds_left() < 0:
            return updates


def main(task):
    tf.config.threading.set_intra_op_parallelism_threads(task["threads"])
    tf.config.threading.set_inter_op_parallelism_threads(task["threads"])
    tf.random.set_seed(task["seed"])
    config, optimizing = configuration(task)
    theirs = translation.TranslationTask(config)
    model = theirs.build_model()
    optimizer = theirs.create_optimizer(optimization.OptimizationConfig(optimizing))
    updates = train(task, theirs, model, optimizer, config.train_data)
    tokenizer = theirs._sp_tokenizer
    search = tf.function(lambda ids: model({"inputs": ids}, training=False)["outputs"])
    search = search.get_concrete_function(tf.TensorSpec([None, None], tf.int32))

    def translate(lines, size):
        found = []
        for i in range(0, len(lines), size):
            ids = tokenizer.string_to_id(tf.ragged.constant(lines[i : i + size])).to_list()
            ids = tf.ragged.constant([[*row, _EOS_ID] for row in ids], tf.int32)
            for row in search(ids.to_tensor()).numpy().tolist():
                found.append(row[: [*row, _EOS_ID].index(_EOS_ID)])
        pieces = tokenizer.id_to_string(tf.ragged.constant(found, tf.int32)).to_list()
        return [[piece.decode() for piece in row] for row in pieces]

    settings = {"task": config.as_dict(), "optimizer": optimizing}
    task.finish(task.decode(translate), settings, updates)


if __name__ == "__main__":
    main(task())
