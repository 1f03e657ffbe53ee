"""Lexical shortlists: a search that scores only the tokens that may translate a sentence.

L'Hostis, Grangier and Auli 2016, "Vocabulary Selection Strategies for Neural Machine Translation".
The output layer, the sum over the vocabulary and the choice of the best tokens take up to half of a
decoding step. With a shortlist they take a time that does not depend on the vocabulary.
"""

from typing import Any

import numpy as np
import tensorflow as tf

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.tokenization.vocabularies import EOS_ID, PAD_ID, SPECIALS
from nmt_zoo.decoding.search.largest import PART
from nmt_zoo.decoding.search.types import IMPOSSIBLE, SearchOptions
from nmt_zoo.models import StepOutput
from nmt_zoo.models.base import Searchable, TranslationModel

# Fields of `SearchOptions` for requests that look at the whole vocabulary.
_EXCLUDED = ("min_length_factor", "no_repeat_ngram", "banned", "sample", "rules")
_CELLS = 1 << 24  # Most cells of the table of translations that are in memory at once.


class Shortlist:
    """The target tokens that may occur in the translation of a sentence.

    These are the most probable translations of each of its tokens, the most frequent tokens, and
    the special tokens. They do not depend on the other sentences of a batch. `translations` are
    `[source vocabulary, M]` int32; `always` `[V]` bool marks the target tokens of every sentence.
    """

    def __init__(self, translations: np.ndarray, always: np.ndarray) -> None:
        self.translations = tf.constant(translations, tf.int32)
        self.always = tf.constant(always, tf.bool)

    def of(self, source_ids: tf.Tensor) -> tf.Tensor:
        """Returns the shortlists of sentences: `[B, S]` int32 -> `[B, V]` bool."""
        tokens = tf.gather(self.translations, source_ids)  # [B, S, M]
        tokens = tf.where((source_ids == PAD_ID)[:, :, None], EOS_ID, tokens)
        rows = tf.range(tf.shape(source_ids)[0])
        places = tf.stack([tf.broadcast_to(rows[:, None, None], tf.shape(tokens)), tokens], axis=3)
        places = tf.reshape(places, [-1, 2])
        everywhere = tf.repeat(self.always[None], tf.shape(rows)[0], axis=0)
        marks = tf.ones(tf.shape(places)[:1], tf.bool)
        return tf.tensor_scatter_nd_update(everywhere, places, marks)


def make_shortlist(
    lexical: TranslationModel, is_shared: bool, translations: int = 20, frequent: int = 100
) -> Shortlist:
    """Makes a `Shortlist` of M translations of each source token from a table of word translations.

    A token counts as frequent if the table has it as a translation of many source tokens. The model
    `lexical` has `translations`, such as an IBM model. If both sides share a vocabulary, source
    tokens, such as the pieces of names, belong to the shortlist, too.
    """
    source_size, vocab_size = lexical.source_vocab_size, lexical.target_vocab_size
    rows_at_once = max(_CELLS // vocab_size, 1)
    best, mass = [], tf.zeros([vocab_size])
    for start in range(0, source_size, rows_at_once):
        ids = np.arange(start, min(start + rows_at_once, source_size), dtype=np.int32)
        table = lexical.translations(ids[None])[0]  # [rows, V]
        values, tokens = tf.math.top_k(table, min(translations, vocab_size))
        # The least probability is the share of tokens that never occur with the source token.
        unseen = tf.reduce_min(table, axis=1, keepdims=True)
        best.append(tf.where(values > unseen, tokens, EOS_ID))
        if is_shared:
            best[-1] = tf.concat([best[-1], ids[:, None]], axis=1)
        mass += tf.reduce_sum(table, axis=0)
    always = np.arange(vocab_size) < len(SPECIALS)
    always[tf.math.top_k(mass, min(frequent, vocab_size)).indices.numpy()] = True
    return Shortlist(np.concatenate(best), always)


class Shortlisted:
    """Scores the tokens of shortlists as a model does; all others are impossible.

    It has the methods of `models.base.Searchable`. The columns of its logits are C tokens: those of
    all shortlists of the batch, given by `tokens` `[C]` int32, padded as `largest` needs.
    Probabilities of a sentence are relative to its shortlist, so they are a little larger than
    without one. The model has an output layer; `source_ids` are `[B, S]` int32; `most_wanted` is
    the most tokens that the search looks for in a row of logits.
    """

    def __init__(
        self, model: Searchable, shortlist: Shortlist, source_ids: tf.Tensor, most_wanted: int
    ) -> None:
        self.model = model
        self.target_vocab_size = model.target_vocab_size
        self.scores_only_fall = model.scores_only_fall
        self.log_normaliser, self.reordered = model.log_normaliser, model.reordered
        is_listed = shortlist.of(source_ids)  # [B, V]
        tokens = tf.cast(tf.where(tf.reduce_any(is_listed, axis=0))[:, 0], tf.int32)
        count = tf.size(tokens)
        padding = tf.maximum(-count % PART, PART * most_wanted - count)
        self.tokens = tf.pad(tokens, [[0, padding]], constant_values=PAD_ID)
        barred = tf.where(tf.gather(is_listed, tokens, axis=1), 0.0, IMPOSSIBLE)
        self._barred = tf.pad(barred, [[0, 0], [0, padding]], constant_values=IMPOSSIBLE)
        kernel, bias = model.output_weights()
        self._weights = (
            tf.gather(kernel, self.tokens, axis=1),
            None if bias is None else tf.gather(bias, self.tokens),
        )

    def encode(self, source_ids: tf.Tensor) -> dict[str, Any]:
        """Context: the model's, and `barred [B, C]`, `IMPOSSIBLE` for tokens not in the list."""
        return {"model": self.model.encode(source_ids), "barred": self._barred}

    def initial_state(self, context: dict[str, Any]) -> dict[str, Any]:
        return self.model.initial_state(context["model"])

    def decode_step(
        self, token_ids: tf.Tensor, step: tf.Tensor, state: dict[str, Any], context: dict[str, Any]
    ) -> StepOutput:
        """As `Searchable`, with logits `[N, C]`."""
        features, state, attention = self.model.step_features(
            token_ids, step, state, context["model"]
        )
        barred = context["barred"]
        num_beams = tf.shape(token_ids)[0] // tf.shape(barred)[0]
        logits = self.model.logits(features, self._weights)
        return StepOutput(logits + tf.repeat(barred, num_beams, axis=0), state, attention)


def check_shortlist(model: Searchable, options: SearchOptions) -> str:
    """Raises `UserError` unless a search can be restricted to shortlists.

    Returns why no prefixes and phrases can be required.
    """
    if model.predicts != "features":
        raise UserError(
            f"--shortlist: {type(model).__name__} has no output layer, of which a shortlist would "
            "compute a part; leave the flag out"
        )
    defaults = SearchOptions()
    others = [name for name in _EXCLUDED if getattr(options, name) != getattr(defaults, name)]
    if options.first is not None:
        others.append("target_language")
    refusal = "--shortlist cannot be combined with --{}; leave one of them out"
    if others:
        raise UserError(refusal.format(others[0]))
    return refusal.format("prefix, --required or --glossary")
