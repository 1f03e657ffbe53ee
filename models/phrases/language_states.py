"""The n-gram language model as an automaton for searches with NumPy.

A state is the longest context that has a node in the trie of `models.ngram.NgramLanguageModel`:
whatever follows, longer contexts could not change its probability.
"""

import numpy as np

ROOT = -1  # The state without context.


class LanguageStates:
    """Probabilities of words after states.

    Args:
        vocab_size: V.
        order: length of the longest n-grams.
        unigrams: `[V]`, P(word).
        keys: `[M]` int64, rising; the n-grams, as in `NgramLanguageModel`.
        probabilities: `[M]`, discounted relative frequency of the last word of each n-gram.
        backoffs: `[V + M]`, weight of the shorter context, by node.
        bos_id: id that starts sentences; `start` is the state after it.
    """

    def __init__(
        self,
        vocab_size: int,
        order: int,
        unigrams: np.ndarray,
        keys: np.ndarray,
        probabilities: np.ndarray,
        backoffs: np.ndarray,
        bos_id: int,
    ) -> None:
        self.order, self._vocab_size = order, vocab_size
        self._keys = np.append(keys, np.iinfo(np.int64).max)
        with np.errstate(divide="ignore"):
            self._log_backoffs = np.append(np.log(backoffs), 0.0)  # The last one: of the root.
        self._shorter = np.full(vocab_size + keys.size + 1, ROOT)
        values = np.concatenate([unigrams, np.zeros(keys.size)]).astype(np.float64)
        first, node = vocab_size, np.arange(vocab_size)
        for _ in range(2, order + 1):
            # The nodes of one length follow those of the length before.
            last = first + np.searchsorted(keys[first - vocab_size :], (node[-1] + 1) * vocab_size)
            node = np.arange(first, last)
            if not node.size:
                break
            contexts, words = np.divmod(keys[node - vocab_size], vocab_size)
            shorter = self._shorter[contexts]
            # The n-gram without its first word is in the trie, since it is in the text.
            self._shorter[node], _ = self._find(shorter, words)
            lower = backoffs[contexts] * values[self._shorter[node]]
            values[node] = probabilities[node - vocab_size] + lower
            first = last
        with np.errstate(divide="ignore"):
            self._log_values = np.maximum(np.log(values), -100.0)
        # The state after an n-gram: itself, or without its first word if it is of full length.
        self._after = np.arange(vocab_size + keys.size)
        self._after[node] = self._shorter[node]
        self.start = int(self._after[bos_id])

    def _find(self, states, words):
        """Returns (nodes of the words after the states, whether they exist)."""
        keys = np.where(states == ROOT, -1, states * self._vocab_size + words)
        index = np.searchsorted(self._keys, keys)
        is_root = states == ROOT
        exists = is_root | (self._keys[index] == keys)
        return np.where(is_root, words, index + self._vocab_size), exists

    def follow(self, states: np.ndarray, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns (log P(word | state), the next states), `[N]`, for `[N]` int64 each."""
        log_probs, after = np.zeros(states.size), np.zeros(states.size, np.int64)
        left = np.arange(states.size)
        while left.size:
            nodes, is_known = self._find(states, words)
            rows = left[is_known]
            log_probs[rows] += self._log_values[nodes[is_known]]
            after[rows] = self._after[nodes[is_known]]
            missed = ~is_known
            left, states, words = left[missed], states[missed], words[missed]
            log_probs[left] += self._log_backoffs[states]
            states = self._shorter[states]
        return log_probs, after
