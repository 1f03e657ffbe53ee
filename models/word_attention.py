"""From IBM Model 1 to attention: every target word is predicted from the source words alone.

Brown et al. 1993, "The Mathematics of Statistical Machine Translation", Models 1 and 2, with word
embeddings instead of tables, and three ways to average over the source words.
"""

from typing import Any

import keras
from keras import ops

from nmt_zoo.models.architecture import SOFTMAX, SOURCE_WORDS, Architecture, Part
from nmt_zoo.models.base import Tensor, require_at_least, require_choices
from nmt_zoo.models.coverage import CoverageModel
from nmt_zoo.models.layers.basic import Dense
from nmt_zoo.models.layers.embeddings import Embedding
from nmt_zoo.models.layers.masks import HIDDEN_SCORE, TINY, masked_softmax, padding_mask


@keras.saving.register_keras_serializable("nmt_zoo")
class WordAttention(CoverageModel):
    """Predicts target word i from an average over the source words f_1 ... f_n, including `</s>`.

    With U the embeddings of the target words, V the embeddings of the source words and `a(j | i)`
    the weight of source position j for target position i, the word e_i has the probability

    * average="probabilities": `sum_j a(j | i) softmax(U V_fj)[e_i]`, IBM Models 1 and 2 with the
      table of word translations as a product of two matrices of rank `width`;
    * average="embeddings": `softmax(U sum_j a(j | i) V_fj)[e_i]`, which is attention: source words
      add up, as "por" and "qué" must do to mean "why".

    Without positions (Model 1), the weights are `1 / n`. With positions (Model 2), they are
    `softmax_j(K_j . Q_i)` over the n positions of the sentence, with Q and K learned embeddings of
    target and source positions. Positions from `max_positions` on share the last embedding. So
    longer sentences are translated less well: train with a `--max_length` of at most
    `max_positions`.

    `align` is the attention `a(j | i)` with average="embeddings". With average="probabilities" it
    is the posterior `P(a_i = j | e_i)`, so its row t depends on target word t itself.

    No prediction depends on the previous target words, and `</s>` is predicted like any other word.
    With these probabilities, translations would repeat one word, or end at once. So decoding works
    as `CoverageModel` describes, with `a(j | i)` as the prior.
    Raises `SettingError` at a setting out of its range.

    Args:
        average: quantity that is averaged over the source words, "probabilities" or "embeddings".
        width: D, size of every embedding.
        max_positions: number of positions per side with a separate embedding; 0: no positions, so
            that all source words have equal weights.
    Example:
        >>> model = WordAttention(100, 90, width=16, max_positions=50)
        >>> ids = ops.convert_to_tensor([[5, 6, 3]], "int32")
        >>> model({"source_ids": ids, "target_in_ids": ids}).shape
        TensorShape([1, 3, 90])
    """

    predicts = "logits"

    def __init__(
        self,
        source_vocab_size: int,
        target_vocab_size: int,
        *,
        average: str = "embeddings",
        width: int = 64,
        max_positions: int | None = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(source_vocab_size, target_vocab_size, **kwargs)
        self.settings = {"average": average, "width": width, "max_positions": max_positions}
        require_choices(self.settings, {"average": ("probabilities", "embeddings")})
        require_at_least(1, self.settings, ("width",))
        require_at_least(0, self.settings, ("max_positions",))
        self.head_names = ("posterior",) * self.is_mixture
        self.source_embedding = self._embedding(source_vocab_size, 0.3, "source_embedding")
        self.target_positions = self.source_positions = None
        if max_positions:
            # The products K_j . Q_i start small, so that all weights are similar at first.
            stddev = width**-0.5
            self.target_positions = self._embedding(max_positions, stddev, "target_positions")
            self.source_positions = self._embedding(max_positions, stddev, "source_positions")
        # The kernel is U, transposed. It starts so small that all words are about equally probable,
        # as in EM for Model 1, because a mixture is slow to lose initial preferences.
        self.output_layer = Dense(
            width,
            target_vocab_size,
            use_bias=False,
            kernel_initializer=keras.initializers.RandomNormal(stddev=0.01),
            name="output",
            dtype=self.dtype_policy,
        )
        self.build()

    def _embedding(self, size, stddev, name):
        return Embedding(
            size,
            self.settings["width"],
            embeddings_initializer=keras.initializers.RandomNormal(stddev=stddev),
            name=name,
            dtype=self.dtype_policy,
        )

    @property
    def is_mixture(self) -> bool:
        """True if probabilities are averaged: each target word comes from one source word."""
        return self.settings["average"] == "probabilities"

    @property
    def has_alignment(self) -> bool:
        return self.is_mixture or self.target_positions is not None

    @property
    def align_sizes(self) -> tuple[int, int]:
        return self.target_vocab_size if self.is_mixture else 0, 1

    def architecture(self) -> Architecture:
        table = Part("Source embeddings V", "embedding", (), (self.source_embedding,))
        logits = Part("Target embeddings U", "output", (), (self.output_layer,))
        positions = self.target_positions, self.source_positions
        weights = "a = softmax K_j · Q_t" if self.target_positions is not None else "a = 1 / S"
        mean = "Σ_j a_j softmax U V_f_j" if self.is_mixture else "Σ_j a_j V_f_j"
        target = (
            Part("Position of target word", "input", ("t, of T; no word before it",)),
            Part("Attention over positions", "attention", (weights,), positions),
            Part(f"Average of {self.settings['average']}", "attention", (mean,), reads_source=True),
            *([] if self.is_mixture else [logits, SOFTMAX]),
            self._search_part(),
        )
        return Architecture((SOURCE_WORDS, table, *[logits] * self.is_mixture), target)

    def _read(self, source_ids):
        """Returns `source_mask [B, S]` and the quantity that is averaged: `log_probs` or `values`.

        `log_probs [B, S, V]` float32 is the logarithm of each source word's distribution over the
        target words, -1e9 for padding; `values [B, S, D]` are the source embeddings.
        """
        context = {"source_mask": padding_mask(source_ids, self.pad_id)}
        values = self.source_embedding(source_ids)
        if not self.is_mixture:
            return {**context, "values": values}
        hidden = ops.where(context["source_mask"][:, :, None], self._log_rows(values), HIDDEN_SCORE)
        return {**context, "log_probs": hidden}

    def _log_rows(self, values):
        """`[B, S, D]` source embeddings -> `[B, S, V]` float32, `log softmax(U V_f)`."""
        return ops.log_softmax(ops.cast(self.output_layer(values), "float32"))

    def encode(self, source_ids: Tensor, training: bool = False) -> dict[str, Any]:
        """Context: `source_mask [B, S]`, `rows [B, S, V]`; attention also `values [B, S, D]`."""
        context = self._read(source_ids)
        if self.is_mixture:
            return {"source_mask": context["source_mask"], "rows": ops.exp(context["log_probs"])}
        return {**context, "rows": ops.exp(self._log_rows(context["values"]))}

    def translations(self, source_ids: Tensor) -> Tensor | None:
        """As `TranslationModel`: `softmax(U V_f)` for a mixture, None for attention."""
        return ops.exp(self._read(source_ids)["log_probs"]) if self.is_mixture else None

    def _scores(self, target_positions, source_mask):
        """`K_j . Q_i`, `[T, S]` for `[T]` positions; without positions equal scores, `[1, S]`."""
        source_positions = ops.arange(ops.shape(source_mask)[1])
        if self.target_positions is None:
            return ops.zeros_like(source_positions, dtype="float32")[None, :]
        last = self.settings["max_positions"] - 1
        queries = self.target_positions(ops.minimum(target_positions, last))
        keys = self.source_positions(ops.minimum(source_positions, last))
        return ops.cast(ops.matmul(queries, ops.transpose(keys)), "float32")

    def _weights(self, target_positions, source_mask):
        """`a(j | i)`: `[B, T, S]` float32 for `[T]` positions, `[B, 1, S]` without positions."""
        scores = self._scores(target_positions, source_mask)
        return masked_softmax(scores[None], source_mask[:, None, :])

    def _logits(self, weights, context):
        """`weights [B, T, S]` -> `[B, T, V]` float32."""
        if self.is_mixture:
            return _log_mixture(weights, context["log_probs"])
        values = context["values"]
        mean = ops.matmul(ops.cast(weights, values.dtype), values)  # [B, T, D]
        return ops.cast(self.output_layer(mean), "float32")

    def call(self, inputs: dict[str, Tensor], training: bool | None = None) -> Tensor:
        context = self._read(inputs["source_ids"])
        batch_size, length = ops.shape(inputs["target_in_ids"])
        weights = self._weights(ops.arange(length), context["source_mask"])
        logits = self._logits(weights, context)
        return ops.broadcast_to(logits, (batch_size, length, self.target_vocab_size))

    def position_prior(self, step: Tensor, state: dict[str, Any], source_mask: Tensor) -> Tensor:
        return self._weights(ops.reshape(step, (1,)), source_mask)

    def gain(self, prior: Tensor, context: dict[str, Any]) -> Tensor | None:
        if self.is_mixture:
            return None
        mixture = ops.matmul(prior, context["rows"])
        return ops.log_softmax(self._logits(prior, context)) - ops.log(ops.maximum(mixture, TINY))

    def align(self, source_ids: Tensor, target_ids: Tensor) -> Tensor:
        """Returns the attention; for a mixture, the posterior, which depends on target words."""
        source_mask = padding_mask(source_ids, self.pad_id)
        scores = self._scores(ops.arange(ops.shape(target_ids)[1]), source_mask)[None]
        if self.is_mixture:
            log_probs = self._read(source_ids)["log_probs"]
            # P(e_t | f_j): [B, S, V] at [B, 1, T] -> [B, S, T] -> [B, T, S]
            chosen = ops.take_along_axis(log_probs, target_ids[:, None, :], axis=2)
            scores = scores + ops.swapaxes(chosen, 1, 2)
        weights = masked_softmax(scores, source_mask[:, None, :])
        shape = (*ops.shape(target_ids), ops.shape(source_ids)[1])
        return ops.broadcast_to(weights, shape)


def _log_mixture(weights, log_probs):
    """Computes `log sum_j weights_tj exp(log_probs_jv)` with one matrix product.

    `weights [B, T, S]`, `log_probs [B, S, V]` -> `[B, T, V]`, finite even where every probability
    is too small for a float32.
    """
    largest = ops.stop_gradient(ops.max(log_probs, axis=1, keepdims=True))  # [B, 1, V]
    sums = ops.matmul(weights, ops.exp(log_probs - largest))
    # The maximum avoids log(0) where the only probable source word has weight 0.
    return ops.log(ops.maximum(sums, TINY)) + largest
