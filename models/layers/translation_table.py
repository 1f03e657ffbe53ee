"""The sparse table of word translations of the IBM models."""

import keras
import numpy as np
from keras import ops

from models.layers.attention import HIDDEN_SCORE

_LEAST = 1e-30  # Probabilities below have the logit of this one.


@keras.saving.register_keras_serializable("nmt_zoo")
class TranslationTable(keras.layers.Layer):
    """t(e | f): a softmax over the target words that stand together with source word f.

    Of the table that equations 3.14 to 3.16 of the chapter on Model 1 have, with a logit for every
    source and every target word, only the logits of P word pairs are kept, those of a corpus; all
    others are minus infinity there. Here a share of every row, `spread`, is spread evenly over all
    target words, so that no sentence is impossible, and all of it where a source word has no pair
    at all. Rows sum to 1 whatever the logits.

    Everything is float32 under every dtype policy: a table is no network, and its probabilities
    are as small as words are rare.

    Args:
        source_vocab_size: number of source ids.
        target_vocab_size: number of target ids, V.
        num_word_pairs: P; `set_word_pairs` says which. 0: every source with every target word.
        smoothing: the first share that is spread, in [0, 1).
    """

    def __init__(
        self, source_vocab_size, target_vocab_size, *, num_word_pairs=0, smoothing=0.0, **kwargs
    ):
        super().__init__(**kwargs)
        self.source_vocab_size = source_vocab_size
        self.target_vocab_size = target_vocab_size
        self.num_word_pairs = num_word_pairs
        self.smoothing = smoothing
        self.frozen = False

    def build(self, input_shape=None):
        sizes = self.source_vocab_size, self.target_vocab_size
        count = self.num_word_pairs or sizes[0] * sizes[1]

        def integers(name, size):
            return self.add_weight(
                name=name, shape=(size,), dtype="int32", initializer="zeros", trainable=False
            )

        self.source_words = integers("source_words", count)
        self.target_words = integers("target_words", count)
        self.row_starts = integers("row_starts", sizes[0] + 1)
        self.logits = self.add_weight(
            name="logits",
            shape=(count,),
            dtype="float32",
            autocast=False,
            # Equal at first, as in expectation maximisation.
            initializer=keras.initializers.RandomNormal(stddev=0.01),
        )
        self.spread = self.add_weight(
            name="spread",
            shape=(sizes[0],),
            dtype="float32",
            autocast=False,
            initializer=keras.initializers.Constant(self.smoothing),
            trainable=False,
        )
        self.built = True
        if not self.num_word_pairs:
            source_words = np.repeat(np.arange(sizes[0]), sizes[1])
            self.set_word_pairs(source_words, np.tile(np.arange(sizes[1]), sizes[0]))

    def set_word_pairs(self, source_words, target_words):
        """Says which word pairs have a logit.

        Args:
            source_words: `[P]` int, rising.
            target_words: `[P]` int, rising within a source word.
        """
        starts = np.searchsorted(source_words, np.arange(self.source_vocab_size + 1))
        self.source_words.assign(source_words)
        self.target_words.assign(target_words)
        self.row_starts.assign(starts)

    def set_probabilities(self, probabilities):
        """Gives every word pair its probability; what rows lack of 1 is spread.

        A row lacks what a sparse prior has taken from rare words. Divided among the others of its
        row, it would make rare source words explain whatever stands beside them.

        Args:
            probabilities: `[P]` float64; no row sums to more than 1.
        """
        size = self.source_vocab_size
        totals = np.bincount(np.asarray(self.source_words), probabilities, minlength=size)
        self.logits.assign(np.log(np.maximum(probabilities, _LEAST)))
        self.spread.assign(1 - (1 - self.smoothing) * np.minimum(totals, 1))

    def freeze(self):
        """Makes `exp(logits)` of every row sum to 1, so that no call has to sum them again.

        The probabilities stay as they are, and must: no training after that.
        """
        self.logits.assign(self.logits - ops.take(self._log_totals(), self.source_words))
        self.frozen, self.trainable = True, False

    def _log_totals(self):
        """`[Vs]` float32, logarithms of what `exp(logits)` sum to in every row."""
        if self.frozen:
            return ops.zeros(self.source_vocab_size)
        rows, size = ops.convert_to_tensor(self.source_words), self.source_vocab_size
        logits = ops.convert_to_tensor(self.logits)
        largest = ops.stop_gradient(ops.segment_max(logits, rows, size))
        largest = ops.maximum(largest, -1e30)  # Of a row without pairs it is minus infinity.
        sums = ops.segment_sum(ops.exp(logits - ops.take(largest, rows)), rows, size)
        return ops.log(ops.maximum(sums, 1e-30)) + largest

    def _spread(self, source_ids):
        """The share of their rows that is spread evenly, float32, in the shape of `source_ids`."""
        starts = ops.convert_to_tensor(self.row_starts)
        empty = ops.equal(ops.take(starts, source_ids), ops.take(starts, source_ids + 1))
        return ops.where(empty, 1.0, ops.take(self.spread, source_ids))

    def look_up(self, source_ids, target_ids):
        """Probabilities of target words beside each source word of their sentence.

        Args:
            source_ids: `[B, S]` int32.
            target_ids: `[B, T]` int32.

        Returns:
            `[B, T, S]` float32.
        """
        source_ids, wanted = source_ids[:, None, :], target_ids[:, :, None]
        places, found = self._find(source_ids, wanted)
        log_probs = ops.take(self.logits, places) - ops.take(self._log_totals(), source_ids)
        # Hidden before `exp`, so that no gradient of the wrong pair is infinite times 0.
        known = ops.exp(ops.where(found, log_probs, HIDDEN_SCORE))
        spread = self._spread(source_ids)
        return (1 - spread) * known + spread / self.target_vocab_size

    def _find(self, source_ids, wanted):
        """(`[B, T, S]` places of word pairs, whether they are there), by bisection of the rows."""
        target_words = ops.convert_to_tensor(self.target_words)
        starts = ops.convert_to_tensor(self.row_starts)
        shape = ops.shape(ops.add(source_ids, wanted))
        low = ops.broadcast_to(ops.take(starts, source_ids), shape)
        end = ops.broadcast_to(ops.take(starts, source_ids + 1), shape)
        high, last = end, ops.size(target_words) - 1
        for _ in range(int(self.target_vocab_size).bit_length()):  # No row is longer.
            middle = (low + high) // 2
            below = ops.take(target_words, ops.minimum(middle, last)) < wanted
            below = ops.logical_and(below, low < high)
            low, high = ops.where(below, middle + 1, low), ops.where(below, high, middle)
        places = ops.minimum(low, last)
        found = ops.logical_and(low < end, ops.equal(ops.take(target_words, places), wanted))
        return places, found

    def rows(self, source_ids):
        """The probabilities of all target words, for decoding.

        Args:
            source_ids: `[B, S]` int32.

        Returns:
            `[B, S, V]` float32.
        """
        size = self.target_vocab_size
        words = ops.convert_to_tensor(self.source_words)
        flat = ops.reshape(source_ids, (-1,))
        count = ops.shape(flat)[0]
        # Each word of the batch has one row here, that of its last occurrence.
        slots = ops.segment_max(ops.arange(count), flat, self.source_vocab_size)
        slot = ops.take(slots, words)  # [P], below 0 for words that are not in the batch.
        present = slot >= 0
        log_probs = self.logits - ops.take(self._log_totals(), words)
        values = ops.exp(ops.where(present, log_probs, HIDDEN_SCORE))
        cells = ops.where(present, slot, 0) * size + ops.convert_to_tensor(self.target_words)
        table = ops.reshape(ops.segment_sum(values, cells, count * size), (-1, size))
        spread = self._spread(source_ids)[:, :, None]
        known = ops.take(table, ops.take(slots, source_ids), axis=0)
        return (1 - spread) * known + spread / size

    def get_config(self):
        return {
            **super().get_config(),
            "source_vocab_size": self.source_vocab_size,
            "target_vocab_size": self.target_vocab_size,
            "num_word_pairs": self.num_word_pairs,
            "smoothing": self.smoothing,
        }
