"""The arguments and results of a search, and functions of a model as graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from nmt_zoo.configuration.options import LENGTH_PENALTY
from nmt_zoo.data_pipeline.tokenization.vocabularies import BOS_ID, PAD_ID, UNK_ID

if TYPE_CHECKING:  # At run time, TensorFlow is imported by the functions that need it.
    import tensorflow as tf

IMPOSSIBLE = -1e9  # Finite, so that sums and differences of impossible scores are never NaN.


class Hypotheses(NamedTuple):
    """Translations of B sentences: K hypotheses for each, the best first, unfinished ones last.

    If a sentence has fewer than K, its unused places have a log-probability of -1e8 or less. If the
    model's scores for it are not numbers, its `log_probs` and `scores` are NaN and its ids mean
    nothing.
    """

    ids: tf.Tensor  # [B, K, T] int32, with EOS, padded after it.
    log_probs: tf.Tensor  # [B, K] float32, sum over all tokens with EOS of the model's scores.
    scores: tf.Tensor  # [B, K] float32, `log_probs` with the length penalty.
    finished: tf.Tensor  # [B, K] bool, whether EOS was reached within the length limit.
    # [B, K, T] float32, of which `log_probs` are the sums; (): another engine than our search.
    token_log_probs: Any = ()


class Sentence(NamedTuple):
    """A sentence to translate, and what is asked of its translation."""

    source_ids: list  # List of int, with `</s>`.
    number: int = 1  # Of its line; random draws depend on it.
    prefix: tuple = ()  # Ids with which the translation begins, without `</s>`.
    required: tuple = ()  # List of phrases, lists of ids, that the translation contains.
    # Number of this part of its line, counted from 0; random draws depend on it, too.
    part: int = 0


# When XLA compiles searches: behind the answers of a graph, once it pays; before the first; never.
AUTO, ALWAYS, NEVER = COMPILE = ("auto", "always", "never")


class SearchOptions(NamedTuple):
    beam_size: int = 4  # K, hypotheses that a search follows at a time; 1 is greedy search.
    length_penalty: float = LENGTH_PENALTY  # Alpha of `length_normaliser`; 0: none.
    emit_unknowns: bool = False  # Whether a translation may contain UNK.
    min_length_factor: float = 0.0  # Fewest tokens of a translation for each token of its source.
    max_length_factor: float = 2.0  # Most tokens of a translation for each token of its source.
    max_length_extra: int = 20  # Further tokens that a translation may have.
    no_repeat_ngram: int = 0  # Length of n-grams that a translation has at most once; 0: none.
    sample: bool = False  # Whether tokens are drawn at random, not searched for; K is then 1.
    temperature: float = 1.0  # Of draws, as top_k and top_p; see `processors.draw`.
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0  # Of draws.
    banned: Any = None  # `banned.BannedPhrases`, or None.
    shortlist: Any = None  # `shortlist.Shortlist`, or None: all tokens are scored.
    rules: tuple = ()  # `rules.DecodingRule`s of the user's own.
    # Token with which every translation begins, such as the token of its language; None: any. It
    # counts in scores, but not in `length_limit`.
    first: int | None = None
    compile: str = NEVER  # When XLA compiles searches of few sentences, one of `COMPILE`.

    @property
    def never(self) -> tuple[int, ...]:
        """The ids that are never emitted."""
        return (PAD_ID, BOS_ID) if self.emit_unknowns else (PAD_ID, BOS_ID, UNK_ID)

    def length_limit(self, source_length: int | tf.Tensor) -> int | tf.Tensor:
        """Returns the most tokens of a translation, for the tokens of its source: int or int32."""
        if isinstance(source_length, int):
            # In float32, too, so that both are equal.
            limit = np.float32(self.max_length_factor) * np.float32(source_length)
            return int(limit) + self.max_length_extra
        import tensorflow as tf

        limit = self.max_length_factor * tf.cast(source_length, tf.float32)
        return tf.cast(limit, tf.int32) + self.max_length_extra

    def max_length(self, source_length: int | tf.Tensor) -> int | tf.Tensor:
        """Returns `length_limit` with the token `first`."""
        return self.length_limit(source_length) + (self.first is not None)


class SentenceOptions(NamedTuple):
    """Options in which the sentences of a batch differ."""

    beam_size: tf.Tensor  # [B] int32, 1 to K; a sentence is searched as with a beam of this size.
    length_penalty: tf.Tensor | tuple  # [B] float32; () if all have that of `SearchOptions`.
    n_best: tf.Tensor  # [B] int32, 1 to `beam_size`.

    @classmethod
    def of(
        cls, options: SearchOptions, n_best: tf.Tensor, batch_size: tf.Tensor
    ) -> SentenceOptions:
        """Gives all sentences the same options."""
        import tensorflow as tf

        beam_size, n_best = (tf.fill([batch_size], n) for n in (options.beam_size, n_best))
        return cls(beam_size, (), n_best)


def length_normaliser(length: int | tf.Tensor, length_penalty: float | tf.Tensor) -> tf.Tensor:
    """Returns `length ^ length_penalty`; with 1, a score is the mean over tokens."""
    if not isinstance(length, int):
        import tensorflow as tf

        length = tf.cast(length, tf.float32)
    return length**length_penalty


def padded(sentences: Sequence[Sequence[int]]) -> np.ndarray:
    """Pads lists of ids to one `[B, S]` int32 array."""
    ids = np.full((len(sentences), max(map(len, sentences))), PAD_ID, np.int32)
    for row, sentence in zip(ids, sentences, strict=True):
        row[: len(sentence)] = sentence
    return ids


def in_graph(model: Any, function: Callable) -> Callable:
    """Returns a function of ids of source `[B, S]` and target `[B, T]` int32 as a graph.

    It stays as it is if the model is not made of tensors.
    """
    if model.decoder_class:
        return function
    import tensorflow as tf

    ids = tf.TensorSpec([None, None], tf.int32)
    # AutoGraph has nothing to convert, and would hide the model's errors.
    return tf.function(function, input_signature=[ids, ids], autograph=False)


class Engine(Protocol):
    """What searches for translations: a graph of TensorFlow, CTranslate2, or a model's decoder."""

    options: SearchOptions
    refusal: str  # Why it takes no sentences with prefixes or required phrases; "": it does.

    def search(self, sentences: Sequence[Sentence], n_best: int) -> list[Hypotheses | None]:
        """Returns the `Hypotheses` of each sentence of a batch, NumPy arrays without the axis B.

        None stands for a sentence that does not fit into memory, even alone. Only the first
        `n_best` are certain.
        """
        ...
