"""Plans epochs of encoded sentence pairs, and turns them into padded batches of ids."""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from nmt_zoo.data_pipeline.batching import Batching, EpochPlan, padding_share, plan_epoch
from nmt_zoo.data_pipeline.encoded import EncodedCorpus, EncodedSide
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import PAD_ID, UNK_ID

_COUNTED_AT_ONCE = 1 << 24


def plan_batches(
    corpus: EncodedCorpus, batching: Batching, *, seed: int | None = None, epoch: int = 0
) -> EpochPlan:
    """Plans one epoch; `seed` and `epoch` (from 0), as for `plan_epoch`, determine all batches."""
    lengths = [side.lengths for side in corpus]
    rows = None if batching.mixture is None else batching.mixture.rows(seed, epoch)
    if rows is not None:
        lengths = [side[rows] for side in lengths]
    plan = plan_epoch(*lengths, batching, seed=seed, epoch=epoch)
    return plan if rows is None else plan._replace(rows=rows[plan.rows])


def dataset_of(corpus: EncodedCorpus, plan: EpochPlan, first_batch: int = 0) -> tf.data.Dataset:
    """Returns the batches of an epoch, `{"source_ids": [B, S], "target_ids": [B, T]}`, prefetched.

    Ids are int32, padded with `PAD_ID`. The target is not shifted; every sentence ends in EOS. With
    static shapes, some rows may hold only padding. To resume an epoch, skip its `first_batch`
    batches.
    """
    plan = plan.select(range(first_batch, plan.batch_sizes.size))
    with tf.device("CPU"):  # Keeps the corpus out of an accelerator's memory.
        source, target = map(sentence_look_up, corpus)
    rows = tf.RaggedTensor.from_row_lengths(plan.rows, plan.batch_sizes)  # pyright: ignore[reportAttributeAccessIssue]
    inputs = (rows,) if plan.shapes is None else (rows, plan.shapes)
    dataset = tf.data.Dataset.from_tensor_slices(inputs)

    def gather(rows, shape=None):
        size, *widths = (None, None, None) if shape is None else tf.unstack(shape)
        return {
            "source_ids": source(rows).to_tensor(PAD_ID, shape=[size, widths[0]]),
            "target_ids": target(rows).to_tensor(PAD_ID, shape=[size, widths[1]]),
        }

    # Private threads and no autotuning: with the shared threads on two cores, training waited half
    # a minute for its next batch every few hundred steps, while both cores were idle.
    options = tf.data.Options()
    options.autotune.enabled = False
    options.threading.private_threadpool_size = 2
    return dataset.map(gather).prefetch(8).with_options(options)


def sentence_look_up(side: EncodedSide) -> Callable[[tf.Tensor], tf.RaggedTensor]:
    """Returns a function of pair numbers `[B]` that gives their sentences, ragged ids `[B, *]`.

    The ids of a memory-mapped file are not copied, and there may be any number of them. (TensorFlow
    fails to gather rows of a ragged tensor that has more than 2^31 values.)
    """
    lengths = side.lengths.astype(np.int64)
    starts = tf.constant(np.cumsum(lengths) - lengths)
    ids, lengths = _tensor(side.ids), tf.constant(lengths)

    def look_up(rows):
        first = tf.gather(starts, rows)
        positions = tf.ragged.range(first, first + tf.gather(lengths, rows))
        return positions.with_values(tf.gather(ids, positions.values))

    return look_up


def describe(
    corpus: EncodedCorpus, tokenizer: Tokenizer, batching: Batching, plan: EpochPlan | None = None
) -> list[str]:
    """Describes an epoch of training in lines: pairs, tokens, vocabulary, and batches of a plan."""
    source, target = corpus
    unknown = sum(map(_count_unknown, corpus)) / (source.ids.size + target.ids.size)
    vocabulary = (
        f"{len(tokenizer.source):,} pieces shared"
        if tokenizer.shared
        else f"{len(tokenizer.source):,} source and {len(tokenizer.target):,} target entries"
    )
    max_sentences, mixture = batching.max_sentences, batching.mixture
    lines = [
        f"training pairs: {corpus.num_pairs:,}" + (f", {mixture.describe()}" if mixture else ""),
        f"tokens: {source.ids.size:,} source, {target.ids.size:,} target, with </s>",
        f"vocabulary ({tokenizer.kind}): {vocabulary}; unknown tokens {unknown:.2%}",
    ]
    if plan is not None:
        sentences = f" and {max_sentences:,} pairs" if max_sentences else ""
        shapes = "" if plan.shapes is None else f" in {len(np.unique(plan.shapes, axis=0))} shapes"
        padding = padding_share(plan, source.lengths, target.lengths)
        lines.append(
            f"batches per epoch: {plan.batch_sizes.size:,}{shapes} of at most "
            f"{batching.max_tokens:,} tokens per side{sentences}; padding {padding:.1%}"
        )
    return lines


def _count_unknown(side):
    parts = range(0, side.ids.size, _COUNTED_AT_ONCE)
    return sum(int((side.ids[i : i + _COUNTED_AT_ONCE] == UNK_ID).sum()) for i in parts)


def _tensor(ids):
    """Converts ids to a tensor; a memory-mapped file is shared, not copied."""
    if isinstance(ids, np.memmap):
        return tf.experimental.dlpack.from_dlpack(np.asarray(ids).__dlpack__())
    return tf.constant(ids, tf.int32)
