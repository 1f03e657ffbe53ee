"""Counts the matrix products of a Transformer, in training and search; measures their speed."""

import time
from typing import Any, NamedTuple

import numpy as np

SQUARE = 2048  # Rows and columns of the large product.
KEPT = 3  # Number of batches whose operands are made.


class Task(NamedTuple):
    """The work that is given to every candidate.

    Attributes:
        threads: `(threads inside an operation, operations at a time)`.
        corpus: `EncodedCorpus`.
        max_tokens: token budget of a batch.
        batches: batches of the corpus, in the order of the turns.
        vocab_size: entries of the vocabulary.
        settings: settings of the model, name -> value.
        options: options of the update, name -> value.
        seed: random seed of weights and batch order.
        preset: name of the model.
        precision: number type of matrix products, "float32" or "bfloat16".
    """

    threads: tuple
    corpus: Any
    max_tokens: int
    batches: list
    vocab_size: int
    settings: dict
    options: dict
    seed: int
    preset: str = ""
    precision: str = "float32"


def matrix_products(source_ids, target_ids, vocab_size, settings):
    """Lists the matrix products of a forward pass over a batch.

    Returns:
        List of `(times, batch, rows, inner, columns)`: `times` products `[batch, rows, inner]` x
        `[batch, inner, columns]`. The backward pass has two products for each of them, with the
        same number of operations.
    """
    (rows, source), (_, target) = source_ids.shape, target_ids.shape
    width, inner, heads = (settings[n] for n in ("width", "ffn_width", "num_heads"))
    encoder, decoder = settings["num_encoder_layers"], settings["num_decoder_layers"]
    found = []

    def attention(layers, queries, keys):
        found.append((2 * layers, 1, rows * queries, width, width))  # Queries, output.
        found.append((2 * layers, 1, rows * keys, width, width))  # Keys, values.
        found.append((layers, rows * heads, queries, width // heads, keys))
        found.append((layers, rows * heads, queries, keys, width // heads))

    for layers, length in ((encoder, source), (decoder, target)):
        attention(layers, length, length)
        found.append((layers, 1, rows * length, width, inner))
        found.append((layers, 1, rows * length, inner, width))
    attention(decoder, target, source)
    # In groups, as in `projected_cross_entropy`: all logits at once would not fit into a cache.
    groups = max(1, rows * target // 256)
    found.append((groups, 1, rows * target // groups, width, vocab_size))
    return found


def operations(*of):
    """Counts the floating-point operations in an update; arguments as for `matrix_products`."""
    return 3 * 2 * sum(int(np.prod(five)) for five in matrix_products(*of))


def decoding_operations(source_length, target_length, beam_size, vocab_size, settings):
    """Counts the floating-point operations of the matrix products in a beam search.

    Args:
        source_length: tokens of the source.
        target_length: number of steps.
        beam_size: hypotheses that every step extends.
        vocab_size: entries of the target vocabulary.
        settings: settings of the model, name -> value.
    """
    width, inner = settings["width"], settings["ffn_width"]
    encoder, decoder = settings["num_encoder_layers"], settings["num_decoder_layers"]
    squares, feed_forward = width * width, 2 * width * inner
    # Four projections and the attention of every position to every other.
    source = encoder * (4 * squares + feed_forward + 2 * source_length * width)
    source += decoder * 2 * squares  # Keys and values for the decoder.
    mean_past = (target_length + 1) / 2
    step = decoder * (6 * squares + feed_forward + 2 * (source_length + mean_past) * width)
    step += width * vocab_size
    return 2 * (source_length * source + target_length * beam_size * step)


def products(task):
    """Returns `work(first, count)`: only the matrix products of updates by `count` batches.

    The operands of the first `KEPT` batches are made once and used for all batches. `work` returns
    operations a second; with `count` 0 it measures products of large square matrices instead.
    """
    from nmt_zoo.common import process

    process.start()  # Before anything imports TensorFlow.

    # isort: split

    import tensorflow as tf

    process.start_tensorflow()
    rng = np.random.default_rng(task.seed)

    def operands(batch, rows, inner, columns):
        shapes = ((rows, inner), (inner, columns), (rows, columns))
        batch = (batch,) if batch > 1 else ()
        arrays = (rng.random((*batch, *s), np.float32) for s in shapes)
        return [tf.cast(array, task.precision) for array in arrays]

    def multiply(times, a, b, c):
        for _ in range(times):
            tf.matmul(a, b)
            tf.matmul(c, b, transpose_b=True)
            tf.matmul(a, c, transpose_a=True)

    square = operands(1, *(SQUARE,) * 3)
    of_model = (task.vocab_size, task.settings)
    made = [
        [(times, *operands(*shape)) for times, *shape in matrix_products(*batch, *of_model)]
        for batch in task.batches[:KEPT]
    ]
    sizes = [operations(*batch, *of_model) for batch in task.batches[:KEPT]]

    def work(first, count):
        began, done = time.perf_counter(), 0
        if not count:
            multiply(3, *square)
            done = 3 * 3 * 2 * SQUARE**3
        for number in range(first, first + count):
            for times, *three in made[number % KEPT]:
                multiply(times, *three)
            done += sizes[number % KEPT]
        return done / (time.perf_counter() - began)

    return work
