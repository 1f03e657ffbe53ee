"""The temperature at which a trained model's probabilities are right as often as they say."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from nmt_zoo.data_pipeline.tokenization.vocabularies import PAD_ID
from nmt_zoo.decoding.search.types import in_graph, padded
from nmt_zoo.models.base import shift_right
from nmt_zoo.training.validation.choices import LEAST_LINES, MOST_LINES

_TEMPERATURES = np.float32(np.exp(np.linspace(np.log(0.4), np.log(2.5), 43)))
_LINES_AT_ONCE = 16
_LONGEST = 128  # Tokens; logits of longer sentences take much memory.
_BINS = 15  # Of the calibration error, as Guo et al. 2017.


def temperature_choice(model: Any, tokenizer: Any, lines: Any) -> Callable[..., Any] | None:
    """Returns a function that chooses a temperature, as `penalty_choice` a penalty.

    The temperature is the one of `_TEMPERATURES` with the largest likelihood of the first
    `MOST_LINES` validation `lines` (source, target). None if fewer than `LEAST_LINES` of them have
    2 to 128 tokens, or the model's scores are not those of single tokens.
    """
    if not model.reads_source or model.decoder_class or model.tracks_coverage:
        return None
    sides = (v.encode(x[:MOST_LINES]) for v, x in zip(tokenizer[1:], lines, strict=True))
    pairs = [p for p in zip(*sides, strict=True) if all(1 < len(x) <= _LONGEST for x in p)]
    if len(pairs) < LEAST_LINES:
        return None
    pairs.sort(key=lambda pair: len(pair[1]))

    def measured(source_ids, target_ids):
        """Returns the log-likelihood at each temperature, `[n]`; hits and top probabilities."""
        logits = model({"source_ids": source_ids, "target_in_ids": shift_right(target_ids, 2)})
        is_real = target_ids != PAD_ID
        logits, ids = tf.boolean_mask(logits, is_real), tf.boolean_mask(target_ids, is_real)
        of_ids, best = tf.gather(logits, ids, batch_dims=1), tf.reduce_max(logits, axis=1)

        def at(temperature):
            total = tf.reduce_logsumexp(logits / temperature, axis=1)
            likelihood = tf.reduce_sum(of_ids / temperature - total)
            return likelihood, tf.exp(best / temperature - total)

        likelihoods, sure = tf.map_fn(
            at,
            tf.constant(_TEMPERATURES),
            parallel_iterations=1,  # Each has the logits of all tokens in memory.
            fn_output_signature=(tf.float32, tf.float32),
        )
        return likelihoods, of_ids >= best, sure

    def choose(is_late):
        graph = in_graph(model, measured)
        found = []
        for start in range(0, len(pairs), _LINES_AT_ONCE):
            if is_late():
                return None
            sides = zip(*pairs[start : start + _LINES_AT_ONCE], strict=True)
            found.append([x.numpy() for x in graph(*map(tf.constant, map(padded, sides)))])
        likelihoods, hits, sure = zip(*found, strict=True)
        hits, sure = np.concatenate(hits), np.concatenate(sure, axis=1)
        best = int(np.argmax(np.sum(likelihoods, axis=0)))
        plain = int(np.argmin(np.abs(_TEMPERATURES - 1)))
        errors = [calibration_error(sure[i], hits) for i in (best, plain)]
        temperature = round(float(_TEMPERATURES[best]), 3)
        line = (
            f"confidence is that at a temperature of {temperature:g}, from now on; calibration "
            f"error of {hits.size:,} validation tokens: {errors[0]:.1%} (at 1: {errors[1]:.1%})"
        )
        return line, {"temperature": temperature, "calibration_error": errors[0]}

    return choose


def calibration_error(sure: np.ndarray, hits: np.ndarray) -> float:
    """Returns the expected calibration error of `[n]` probabilities in [0, 1], and bool hits.

    Guo et al. 2017, equation 3: |share of hits - mean probability|, over bins of equal width,
    weighted by the share of the predictions in each.
    """
    bins = np.minimum((sure * _BINS).astype(int), _BINS - 1)
    gaps = np.bincount(bins, weights=hits - sure.astype(float), minlength=_BINS)
    return float(np.abs(gaps).sum() / len(sure))
