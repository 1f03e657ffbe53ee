"""Answers requests with a SavedModel in a session, as TensorFlow Serving and other languages do.

    python saved_model_client.py FOLDER REQUESTS ANSWERS

Needs numpy, tensorflow and the custom ops of tensorflow_text, but no code of this project. Each
line of the file REQUESTS is a request, `[signature, {input: values}]` in JSON. The same line of the
file ANSWERS is its answer, `{output: values}`.
"""

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf


@contextlib.contextmanager
def loaded(folder: Any) -> Iterator[Callable]:
    """Loads a SavedModel; yields `answer(signature, inputs)`, which returns name -> array.

    `inputs` are name -> nested lists or arrays.
    """
    import tensorflow_text  # noqa: F401 - registers the ops of its tokenizer

    session = tf.compat.v1.Session(graph=tf.Graph())
    try:
        signatures = tf.compat.v1.saved_model.load(session, ["serve"], str(folder)).signature_def

        def answer(signature, inputs):
            infos = signatures[signature]
            return session.run(
                {name: output.name for name, output in infos.outputs.items()},
                {infos.inputs[name].name: values for name, values in inputs.items()},
            )

        yield answer
    finally:
        session.close()


def main(folder: str, requests: str, answers: str) -> None:
    """Answers every request of a file."""
    with (
        loaded(folder) as answer,
        open(requests, encoding="utf-8") as lines,
        open(answers, "w", encoding="utf-8") as file,
    ):
        for line in lines:
            outputs = answer(*json.loads(line))
            values = {name: array.tolist() for name, array in outputs.items()}
            file.write(json.dumps(values, default=bytes.decode) + "\n")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Exception as error:  # export.py shows any error in one line.
        sys.exit(f"{type(error).__name__}: {' '.join(str(error).split())[:1000]}")
