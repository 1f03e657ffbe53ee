"""The n-gram language model, P(target), which the search extends like a translation model."""

from typing import Any

import keras
import numpy as np
from keras import ops

from nmt_zoo.models.architecture import SOFTMAX, TARGET_WORDS, Architecture, Part
from nmt_zoo.models.base import (
    Searchable,
    StepOutput,
    Tensor,
    add_array,
    require_at_least,
    shift_right,
)
from nmt_zoo.models.layers.masks import padding_mask

_MOST_ORDER = 20
_LAST = np.iinfo(np.int64).max
IMPOSSIBLE = -1e9  # Finite, so that sums of impossible scores are never NaN.


@keras.saving.register_keras_serializable("nmt_zoo")
class NgramLanguageModel(Searchable):
    """Every word depends only on the `order - 1` words before it.

    With c a context and c' the same without its first word,

        P(w | c) = a(c w) + g(c) P(w | c')

    where `a`, the discounted probability of a seen n-gram, and `g`, the weight of the shorter
    context, are tables that `training.ways.counting` makes by modified Kneser-Ney smoothing (Chen
    and Goodman 1998). After an unseen context, g is 1 and a is 0. Every word, including `<unk>` but
    not `<pad>` and `<s>`, has a probability above 0, and these probabilities sum to 1.

    The n-grams are a trie in one sorted list: n-gram number i is node V + i, word w is node w, and
    the key of an n-gram is its context's node times V plus its last word. So the words that follow
    a context are adjacent in the list, and a binary search finds an n-gram. There are no trainable
    weights, because nothing is trained by gradients. All computation is in float32 under every
    dtype policy. The number of words after a context is known only at run time, so XLA cannot
    compile this model. Logits are log-probabilities; the attention of decoding steps is uniform.
    Raises `SettingError` at a setting out of its range.

    Args:
        source_vocab_size: number of source ids; the source is not read.
        target_vocab_size: V.
        order: length of the longest n-grams, in words.
        num_ngrams: number of n-grams of two and more words, known once they are counted.
        bos_id: id that starts sentences.
    Example:
        >>> model = NgramLanguageModel(90, 90, order=3)
        >>> ids = ops.convert_to_tensor([[5, 6, 3]], "int32")
        >>> model.score(ids, ids).shape
        TensorShape([1, 3])
    """

    reads_source = False
    trained_by = ("counting",)
    corpus_facts = "n-grams"
    corpus_sizes = ("num_ngrams",)
    predicts = "scores"

    def __init__(
        self,
        source_vocab_size: int,
        target_vocab_size: int,
        *,
        order: int = 3,
        num_ngrams: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(source_vocab_size, target_vocab_size, **kwargs)
        self.settings = {"order": order, "num_ngrams": num_ngrams}
        require_at_least(1, self.settings, ("order",), _MOST_ORDER)
        require_at_least(0, self.settings, ("num_ngrams",))
        self.order = order
        self.unigrams = self.add_weight(
            name="unigrams",
            shape=(target_vocab_size,),
            dtype="float32",
            initializer=self._uniform,
            trainable=False,
            autocast=False,
        )
        # One more key than there are n-grams, so that a search beyond the last n-gram finds a key.
        self.ngram_keys = add_array(self, "keys", (num_ngrams + 1,), _LAST, "int64")
        self.probabilities = add_array(self, "probabilities", (num_ngrams + 1,), 0)
        self.backoffs = add_array(self, "backoffs", (target_vocab_size + num_ngrams,), 1)
        self.built = True

    def _uniform(self, shape, dtype):
        values = np.full(shape, 1 / max(self.target_vocab_size - 2, 1))
        values[[self.pad_id, self.bos_id]] = 0
        return ops.convert_to_tensor(values, dtype)

    def fill(self, table: Any) -> None:
        """Copies the arrays of a `training.ways.counting.counting.NgramTable`."""
        self.unigrams.assign(table.unigrams)
        self.ngram_keys.assign(np.append(table.keys, _LAST))
        self.probabilities.assign(np.append(table.probabilities, np.float32(0)))
        self.backoffs.assign(table.backoffs)

    def architecture(self) -> Architecture:
        return Architecture((), (TARGET_WORDS, self.table_part(), SOFTMAX))

    def table_part(self) -> Part:
        """Describes the table, for models that have a language model inside."""
        lines = f"n-grams, orders 1 to {self.order}", "modified Kneser-Ney: a(c w) + g(c) P(w | c')"
        return Part("Language model", "table", lines, (self,))

    # The trie

    def _find(self, node, word):
        """Finds the n-gram `node` + `word`: (index, True if it exists); any shapes, int64."""
        key = node * self.target_vocab_size + word
        index = ops.cast(ops.searchsorted(self.ngram_keys, key), "int64")
        return index, ops.equal(ops.take(self.ngram_keys, index), key)

    def _contexts(self, history):
        """`[N, order - 1]` words -> order - 1 nodes `[N]`, the shortest context first; -1: unseen.

        Places before the start of a sentence hold `pad_id`, which occurs in no n-gram.
        """
        history = ops.cast(history, "int64")
        contexts = []
        for first in reversed(range(self.order - 1)):
            node = history[:, first]
            for column in range(first + 1, self.order - 1):
                index, exists = self._find(node, history[:, column])
                node = ops.where(exists, index + self.target_vocab_size, -1)
            contexts.append(node)
        return contexts

    def _weight(self, node):
        """Returns `g` of every node, or 1 for a node of -1."""
        return ops.where(node < 0, 1.0, ops.take(self.backoffs, ops.maximum(node, 0)))

    def _seen(self, node):
        """Returns `a` of every word after every node: `[N]` -> `[N, V]`."""
        vocab_size = self.target_vocab_size
        first, last = (
            ops.cast(ops.searchsorted(self.ngram_keys, n * vocab_size), "int64")
            for n in (node, node + 1)
        )
        counts = last - first
        ends = ops.cumsum(counts)
        # All n-grams after all nodes in one sequence, and for each n-gram its row of the result.
        places = ops.arange(ops.sum(counts), dtype="int64")
        rows = ops.cast(ops.searchsorted(ends, places, side="right"), "int64")
        index = places - ops.take(ends - last, rows)
        cells = rows * vocab_size + ops.take(self.ngram_keys, index) % vocab_size
        size = ops.shape(node)[0] * vocab_size
        seen = ops.scatter(cells[:, None], ops.take(self.probabilities, index), (size,))
        return ops.reshape(seen, (-1, vocab_size))

    def _log_probs(self, history):
        """`[N, order - 1]` words -> `[N, V]` float32 log-probabilities of the next word."""
        probabilities = self.unigrams[None]
        for node in self._contexts(history):
            probabilities = self._seen(node) + self._weight(node)[:, None] * probabilities
        shape = (ops.shape(history)[0], self.target_vocab_size)
        return _log(ops.broadcast_to(probabilities, shape))

    def _histories(self, target_in_ids):
        """`[B, T]` -> `[B * T, order - 1]`: each word of the input and those before it."""
        length = ops.shape(target_in_ids)[1]
        padded = ops.pad(
            target_in_ids, ((0, 0), (max(self.order - 2, 0), 0)), constant_values=self.pad_id
        )
        columns = [padded[:, first : first + length] for first in range(self.order - 1)]
        if not columns:
            return ops.zeros((ops.size(target_in_ids), 0), "int32")
        return ops.reshape(ops.stack(columns, axis=-1), (-1, self.order - 1))

    # The interface

    def call(self, inputs: dict[str, Tensor], training: bool | None = None) -> Tensor:
        """Returns `[B, T, V]` log-probabilities of next tokens; as `TranslationModel.call`."""
        target_in_ids = inputs["target_in_ids"]
        batch_size, length = ops.shape(target_in_ids)
        log_probs = self._log_probs(self._histories(target_in_ids))
        return ops.reshape(log_probs, (batch_size, length, self.target_vocab_size))

    def encode(self, source_ids: Tensor, training: bool = False) -> dict[str, Any]:
        """Context: `source_mask [B, S]`, for the attention."""
        return {"source_mask": padding_mask(source_ids, self.pad_id)}

    def initial_state(self, context: dict[str, Any]) -> dict[str, Any]:
        """State: `history [B, order - 1]` int32, the last words; `pad_id` before the start."""
        batch_size = ops.shape(context["source_mask"])[0]
        return {"history": ops.full((batch_size, self.order - 1), self.pad_id, "int32")}

    def decode_step(
        self, token_ids: Tensor, step: Tensor, state: dict[str, Any], context: dict[str, Any]
    ) -> StepOutput:
        history = ops.concatenate([state["history"], token_ids[:, None]], axis=1)[:, 1:]
        num_beams = ops.shape(token_ids)[0] // ops.shape(context["source_mask"])[0]
        mask = ops.repeat(ops.cast(context["source_mask"], "float32"), num_beams, axis=0)
        return StepOutput(
            logits=self._log_probs(history),
            state={"history": history},
            attention=mask / ops.sum(mask, axis=1, keepdims=True),
        )

    def score(self, source_ids: Tensor, target_ids: Tensor) -> Tensor:
        """As `TranslationModel.score`; looks up only these words, much faster than `call`."""
        batch_size, length = ops.shape(target_ids)
        history = self._histories(shift_right(target_ids, self.bos_id))
        words = ops.cast(ops.reshape(target_ids, (-1,)), "int64")
        probabilities = ops.take(self.unigrams, words)
        for node in self._contexts(history):
            index, exists = self._find(node, words)
            seen = ops.where(exists, ops.take(self.probabilities, index), 0.0)
            probabilities = seen + self._weight(node) * probabilities
        return ops.reshape(_log(probabilities), (batch_size, length))


def _log(probabilities):
    logs = ops.log(ops.maximum(probabilities, 1e-37))
    return ops.where(probabilities > 0, logs, IMPOSSIBLE)
