"""Turns sentence pairs into padded id batches: encodes them once, caches, filters and batches."""

import numpy as np
import tensorflow as tf

from data_pipeline.batching import padding_share, plan_epoch
from data_pipeline.encoded import (  # noqa: F401 - re-exported, like the names below
    EncodedCorpus,
    EncodedSide,
    PairFilter,
)
from data_pipeline.encoding import (  # noqa: F401
    Encoded,
    encode_corpus,
    encode_lines,
    encode_pairs,
    text_hash,
)
from data_pipeline.files import UserError
from data_pipeline.mixing import mixture, parse_weights
from data_pipeline.static_shapes import choose_shapes
from data_pipeline.tokenization.vocabularies import PAD_ID, UNK_ID

_COUNTED_AT_ONCE = 1 << 24


def batch_options(
    corpus,
    sizes,
    max_tokens,
    *,
    max_sentences=0,
    corpus_weights="",
    temperature=1.0,
    pad_to_bucket=False,
    largest_first=False,
):
    """Returns the options of `batches` that are the same in every epoch of a run.

    Args:
        corpus: `EncodedCorpus`, of one or more corpora joined.
        sizes: number of pairs of each of the joined corpora.
        max_tokens: most tokens of a batch.
        max_sentences: most pairs of a batch (0: no limit).
        corpus_weights: text, as for `parse_weights`.
        temperature: as for `mixture`.
        pad_to_bucket: whether to pad batches to a few static shapes.
        largest_first: as for `plan_epoch`.

    Returns:
        dict, for `batches`, `plan_batches` and `describe`.

    Raises:
        UserError: the weights cannot be used, or a corpus has no pair.
    """
    weights = parse_weights(corpus_weights, len(sizes))
    if not all(sizes):
        raise UserError(f"no training pair is left of corpus {sizes.index(0) + 1}; leave it out")
    lengths = [side.lengths for side in corpus]
    return {
        "max_sentences": max_sentences,
        "mixture": mixture(sizes, weights, temperature),
        "shapes": choose_shapes(*lengths, max_tokens, max_sentences=max_sentences)
        if pad_to_bucket
        else None,
        "largest_first": largest_first,
    }


def plan_batches(corpus, max_tokens, *, seed=None, epoch=0, mixture=None, **options):
    """Plans one epoch; returns a `data_pipeline.batching.EpochPlan`.

    Args:
        corpus: `EncodedCorpus`.
        max_tokens: most tokens of a batch: rows x longest padded side.
        seed: as for `plan_epoch`; None for evaluation, in order of length.
        epoch: counted from 0.
        mixture: `data_pipeline.mixing.Mixture`; None takes every pair once.
        **options: further arguments of `plan_epoch`.
    """
    lengths = [side.lengths for side in corpus]
    rows = None if mixture is None else mixture.rows(seed, epoch)
    if rows is not None:
        lengths = [side[rows] for side in lengths]
    plan = plan_epoch(*lengths, max_tokens, seed=seed, epoch=epoch, **options)
    return plan if rows is None else plan._replace(rows=rows[plan.rows])


def batches(corpus, max_tokens, *, first_batch=0, **options):
    """Returns the batches of one epoch as a prefetched `tf.data.Dataset`.

    Args:
        corpus: `EncodedCorpus`.
        max_tokens: most tokens of a batch: rows x longest padded side.
        first_batch: number of batches to skip at the start, when a run is resumed.
        **options: further arguments of `plan_batches`, such as `seed` and `epoch`, which determine
            all batches.

    Returns:
        `Dataset` of `{"source_ids": [B, S], "target_ids": [B, T]}` int32, padded with `PAD_ID`.
        The target is not shifted; every sentence ends in EOS. With static shapes, some rows may
        hold only padding.
    """
    return dataset_of(corpus, plan_batches(corpus, max_tokens, **options), first_batch)


def dataset_of(corpus, plan, first_batch=0):
    """Returns the batches of an `EpochPlan` as a `Dataset`, as `batches` does."""
    rows, sizes = plan.batches(first_batch)
    with tf.device("CPU"):  # Keeps the corpus out of an accelerator's memory.
        source, target = (
            tf.RaggedTensor.from_row_lengths(_tensor(side.ids), side.lengths, validate=False)
            for side in corpus
        )
    rows = tf.RaggedTensor.from_row_lengths(rows, sizes)
    if plan.shapes is None:
        dataset = tf.data.Dataset.from_tensor_slices((rows,))
    else:
        dataset = tf.data.Dataset.from_tensor_slices((rows, plan.shapes[first_batch:]))

    def gather(rows, shape=None):
        size, *widths = (None, None, None) if shape is None else tf.unstack(shape)
        return {
            "source_ids": tf.gather(source, rows).to_tensor(PAD_ID, shape=[size, widths[0]]),
            "target_ids": tf.gather(target, rows).to_tensor(PAD_ID, shape=[size, widths[1]]),
        }

    # Private threads and no autotuning: with the shared threads on two cores, training waited half
    # a minute for its next batch every few hundred steps, while both cores were idle.
    options = tf.data.Options()
    options.autotune.enabled = False
    options.threading.private_threadpool_size = 2
    return dataset.map(gather).prefetch(8).with_options(options)


def describe(corpus, tokenizer, max_tokens, seed, *, plan=None, **options):
    """Describes an epoch of training: pairs, tokens, vocabulary and batches. Returns lines.

    Args:
        corpus: `EncodedCorpus`.
        tokenizer: `Tokenizer` of the corpus.
        max_tokens: as for `plan_batches`.
        seed: as for `plan_batches`.
        plan: `EpochPlan` of these arguments; None makes it.
        **options: further arguments of `plan_batches`.
    """
    if plan is None:
        plan = plan_batches(corpus, max_tokens, seed=seed, **options)
    source, target = corpus
    unknown = sum(map(_count_unknown, corpus)) / (source.ids.size + target.ids.size)
    vocabulary = (
        f"{len(tokenizer.source):,} pieces shared"
        if tokenizer.shared
        else f"{len(tokenizer.source):,} source and {len(tokenizer.target):,} target entries"
    )
    most = options.get("max_sentences", 0)
    sentences = f" and {most:,} pairs" if most else ""
    mixed = options.get("mixture")
    shapes = "" if plan.shapes is None else f" in {len(np.unique(plan.shapes, axis=0))} shapes"
    return [
        f"training pairs: {corpus.num_pairs:,}" + (f", {mixed.describe()}" if mixed else ""),
        f"tokens: {source.ids.size:,} source, {target.ids.size:,} target, with </s>",
        f"vocabulary ({tokenizer.kind}): {vocabulary}; unknown tokens {unknown:.2%}",
        f"batches an epoch: {plan.batch_sizes.size:,}{shapes} of at most {max_tokens:,} tokens a "
        f"side{sentences}; padding {padding_share(plan, source.lengths, target.lengths):.1%}",
    ]


def _count_unknown(side):
    parts = range(0, side.ids.size, _COUNTED_AT_ONCE)
    return sum(int((side.ids[i : i + _COUNTED_AT_ONCE] == UNK_ID).sum()) for i in parts)


def _tensor(ids):
    """Converts ids to a tensor; a memory-mapped file is shared, not copied."""
    if isinstance(ids, np.memmap):
        return tf.experimental.dlpack.from_dlpack(np.asarray(ids).__dlpack__())
    return tf.constant(ids, tf.int32)
