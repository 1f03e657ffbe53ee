"""The sparse table of word translations of the IBM models."""

from typing import Any

import keras
import numpy as np
from keras import ops

from nmt_zoo.models.base import Tensor, add_array
from nmt_zoo.models.layers.masks import HIDDEN_SCORE, TINY


def logarithms(probabilities: np.ndarray) -> np.ndarray:
    """Natural logarithms, float32; the logarithm of 0 is finite."""
    return np.log(np.maximum(probabilities, TINY)).astype(np.float32)


@keras.saving.register_keras_serializable("nmt_zoo")
class TranslationTable(keras.layers.Layer):
    """t(e | f): a softmax over the target words that occur together with source word f.

    Stores one logit for each of the P word pairs that occur in the corpus, instead of the full
    table t(e given f) of Model 1; every other pair has a logit of minus infinity. P is
    `num_word_pairs` (0: all pairs of a source and a target word). A share of every row, `spread`,
    initially `smoothing`, in [0, 1), is then divided evenly among all target words, so that no
    sentence is impossible. If a source word has no pair, its row is entirely uniform. Rows sum to 1
    whatever the logits.

    Everything is float32 under every dtype policy, because the probabilities of rare words are very
    small.
    """

    def __init__(
        self,
        source_vocab_size: int,
        target_vocab_size: int,
        *,
        num_word_pairs: int = 0,
        smoothing: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source_vocab_size = source_vocab_size
        self.target_vocab_size = target_vocab_size
        self.num_word_pairs = num_word_pairs
        self.smoothing = smoothing
        self.is_precomputed = False

    def build(self, input_shape: Any = None) -> None:
        sizes = self.source_vocab_size, self.target_vocab_size
        count = self.num_word_pairs or sizes[0] * sizes[1]
        self.source_words = add_array(self, "source_words", (count,), 0, "int32")
        self.target_words = add_array(self, "target_words", (count,), 0, "int32")
        self.row_starts = add_array(self, "row_starts", (sizes[0] + 1,), 0, "int32")
        self.logits = self.add_weight(
            name="logits",
            shape=(count,),
            dtype="float32",
            autocast=False,
            # Almost equal at first, as in expectation maximisation.
            initializer=keras.initializers.RandomNormal(stddev=0.01),
        )
        self.spread = add_array(self, "spread", sizes[:1], self.smoothing)
        self.built = True
        if not self.num_word_pairs:
            source_words = np.repeat(np.arange(sizes[0]), sizes[1])
            self.set_word_pairs(source_words, np.tile(np.arange(sizes[1]), sizes[0]))

    def set_word_pairs(self, source_words: np.ndarray, target_words: np.ndarray) -> None:
        """Sets the word pairs that have a logit.

        `source_words [P]` int, rising; `target_words [P]` int, rising within a source word.
        """
        starts = np.searchsorted(source_words, np.arange(self.source_vocab_size + 1))
        self.source_words.assign(source_words)
        self.target_words.assign(target_words)
        self.row_starts.assign(starts)

    def set_probabilities(self, probabilities: np.ndarray) -> None:
        """Sets the probability of every word pair; what is missing from a row's sum of 1 is spread.

        `probabilities [P]` float64; no row sums to more than 1. Probability is missing where a
        sparse prior has taken it from the pairs of rare words. If it were divided among the other
        pairs of the row, rare source words would explain any target word that occurs with them.
        """
        size = self.source_vocab_size
        totals = np.bincount(np.asarray(self.source_words), probabilities, minlength=size)
        self.logits.assign(logarithms(probabilities))
        self.spread.assign(1 - (1 - self.smoothing) * np.minimum(totals, 1))

    def precompute(self) -> None:
        """Makes `exp(logits)` of every row sum to 1, so that later calls need not normalise.

        This does not change the probabilities. The table cannot be trained afterwards.
        """
        self.logits.assign(self.logits - ops.take(self._log_totals(), self.source_words))
        self.is_precomputed, self.trainable = True, False

    def _log_totals(self):
        """Computes log(sum(exp(logits))) of every row, `[source_vocab_size]` float32."""
        if self.is_precomputed:
            return ops.zeros(self.source_vocab_size)
        rows, size = ops.convert_to_tensor(self.source_words), self.source_vocab_size
        logits = ops.convert_to_tensor(self.logits)
        largest = ops.stop_gradient(ops.segment_max(logits, rows, size))
        largest = ops.maximum(largest, -1e30)  # A row without pairs has minus infinity.
        sums = ops.segment_sum(ops.exp(logits - ops.take(largest, rows)), rows, size)
        return ops.log(ops.maximum(sums, TINY)) + largest

    def _spread(self, source_ids):
        """Returns the share of each row that is spread, float32, in the shape of `source_ids`."""
        starts = ops.convert_to_tensor(self.row_starts)
        empty = ops.equal(ops.take(starts, source_ids), ops.take(starts, source_ids + 1))
        return ops.where(empty, 1.0, ops.take(self.spread, source_ids))

    def look_up(self, source_ids: Tensor, target_ids: Tensor) -> Tensor:
        """Returns the probability of each target word given each source word of its sentence.

        `source_ids [B, S]` int32, `target_ids [B, T]` int32 -> `[B, T, S]` float32.
        """
        source_ids, target_ids = source_ids[:, None, :], target_ids[:, :, None]
        pairs, exists = self._find(source_ids, target_ids)
        log_probs = ops.take(self.logits, pairs) - ops.take(self._log_totals(), source_ids)
        # Hidden before `exp`, so that the gradient of a missing pair is not infinity times 0.
        shares = ops.exp(ops.where(exists, log_probs, HIDDEN_SCORE))
        spread = self._spread(source_ids)
        return (1 - spread) * shares + spread / self.target_vocab_size

    def _find(self, source_ids, target_ids):
        """Finds word pairs by bisection: (`[B, T, S]` indices, `[B, T, S]` bool, True if found)."""
        target_words = ops.convert_to_tensor(self.target_words)
        starts = ops.convert_to_tensor(self.row_starts)
        shape = ops.shape(ops.add(source_ids, target_ids))
        low = ops.broadcast_to(ops.take(starts, source_ids), shape)
        end = ops.broadcast_to(ops.take(starts, source_ids + 1), shape)
        high, last = end, ops.size(target_words) - 1
        for _ in range(int(self.target_vocab_size).bit_length()):  # No row has more pairs.
            middle = (low + high) // 2
            below = ops.take(target_words, ops.minimum(middle, last)) < target_ids
            below = ops.logical_and(below, low < high)
            low, high = ops.where(below, middle + 1, low), ops.where(below, high, middle)
        pairs = ops.minimum(low, last)
        exists = ops.logical_and(low < end, ops.equal(ops.take(target_words, pairs), target_ids))
        return pairs, exists

    def rows(self, source_ids: Tensor) -> Tensor:
        """Returns the probabilities of all target words: `[B, S]` int32 -> `[B, S, V]` float32."""
        size = self.target_vocab_size
        words = ops.convert_to_tensor(self.source_words)
        flat = ops.reshape(source_ids, (-1,))
        count = ops.shape(flat)[0]
        # Each distinct word of the batch has one row in `table`, at its last occurrence.
        slots = ops.segment_max(ops.arange(count), flat, self.source_vocab_size)
        slot = ops.take(slots, words)  # [P], negative for words that are not in the batch.
        present = slot >= 0
        log_probs = self.logits - ops.take(self._log_totals(), words)
        values = ops.exp(ops.where(present, log_probs, HIDDEN_SCORE))
        cells = ops.where(present, slot, 0) * size + ops.convert_to_tensor(self.target_words)
        table = ops.reshape(ops.segment_sum(values, cells, count * size), (-1, size))
        spread = self._spread(source_ids)[:, :, None]
        shares = ops.take(table, ops.take(slots, source_ids), axis=0)
        return (1 - spread) * shares + spread / size
