"""Trains and runs a Transformer of OpenNMT-tf by its Python interface, for rivals.py."""

import opennmt
import tensorflow as tf
from common import EVERY, task


class Clock:
    """Stands in for the evaluator of `Trainer`: notes rates, and stops when the time is up."""

    last_evaluated_step = None

    def __init__(self, task, trainer):
        self.task, self.trainer = task, trainer

    def __call__(self, step):
        summary = self.trainer._training_stats.get_last_summary()
        self.task.rates.append(summary["words_per_sec"]["target"])
        self.last_evaluated_step = step

    def should_stop(self):
        return self.task.seconds_left() < 0


def main(task):
    tf.config.threading.set_intra_op_parallelism_threads(task["threads"])
    tf.config.threading.set_inter_op_parallelism_threads(task["threads"])
    tf.random.set_seed(task["seed"])
    rates = {name: task["dropout"] for name in ("dropout", "attention_dropout", "ffn_dropout")}
    sizes = {"num_layers": 3, "num_units": 256, "num_heads": 4, "ffn_inner_dim": 1024, **rates}
    everything = opennmt.models.EmbeddingsSharingLevel.ALL
    model = opennmt.models.Transformer(share_embeddings=everything, **sizes)
    vocabulary, test = str(task.run / "vocabulary.txt"), str(task.run / "test.src")
    pieces = (task.texts / "pieces.txt").read_text("utf-8")
    with open(vocabulary, "w", encoding="utf-8") as file:
        file.write(f"<blank>\n<s>\n</s>\n{pieces}")
    params = {
        **{"optimizer": "Adam", "optimizer_params": {"beta_1": 0.9, "beta_2": 0.98}},
        **{"learning_rate": task["learning_rate"], "decay_type": "InvSqrtDecay"},
        **{"decay_params": {"warmup_steps": task["warmup_steps"]}, "average_loss_in_time": True},
        **{"label_smoothing": task["label_smoothing"], "beam_width": task["beam"]},
        **{"length_penalty": task["length_penalty"], "maximum_decoding_length": 100},
    }
    model.initialize({f"{x}_vocabulary": vocabulary for x in ("source", "target")}, params)
    batching = {"batch_size": task["max_tokens_per_batch"], "batch_type": "tokens"}
    batching |= {"length_bucket_width": 1, "shuffle_buffer_size": 29000}
    batching |= {"maximum_features_length": 100, "maximum_labels_length": 100}
    files = (f"{task.texts}/pieces/train.{x}" for x in ("src", "trg"))
    dataset = model.examples_inputter.make_training_dataset(*files, **batching)
    trainer = opennmt.training.Trainer(model, model.get_optimizer())
    steps = {"report_steps": 10**9, "save_steps": None, "eval_steps": EVERY}
    done = trainer(dataset, evaluator=Clock(task, trainer), **steps)
    functions = []

    def translate(lines, size):
        with open(test, "w", encoding="utf-8") as file:
            file.writelines(" ".join(line) + "\n" for line in lines)
        found = []
        dataset = model.examples_inputter.make_inference_dataset(test, size)
        if not functions:  # As in its documentation: one program for all shapes.
            functions.append(tf.function(model.infer, input_signature=[dataset.element_spec]))
        for batch in dataset:
            some = functions[0](batch)
            rows, lengths = (some[x].numpy()[:, 0] for x in ("tokens", "length"))
            both = zip(rows, lengths, strict=True)
            found += [[piece.decode() for piece in row[:length]] for row, length in both]
        return found

    settings = {"network": sizes, "sharing": "ALL", "params": params, "batching": batching}
    task.finish(task.decode(translate), settings, int(done["last_step"]))


if __name__ == "__main__":
    main(task())
