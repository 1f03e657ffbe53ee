"""A trained model as a SavedModel: strings in, strings out; it runs without this project's code.

docs/serving.md has its signatures. Options are inputs with a value for each row: TensorFlow Serving
joins the requests that it batches along the first axis, and refuses to batch scalars. It knows no
defaults either, so that `serving_default` asks for text only.

An empty batch has an empty answer. A batch that cannot be answered correctly is refused as a whole
with an `InvalidArgumentError` that names the row; TensorFlow Serving then answers status 400.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

from nmt_zoo.configuration.options import MAX_INPUT_TOKENS, MAX_LENGTH_PENALTY
from nmt_zoo.data_pipeline.tokenization.graph_tokenizers import graph_vocabulary
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import EOS_ID, PAD_ID
from nmt_zoo.decoding.scoring import make_scorer
from nmt_zoo.decoding.search.beam_search import make_search
from nmt_zoo.decoding.search.types import SearchOptions, SentenceOptions, length_normaliser
from nmt_zoo.models.base import TranslationModel
from nmt_zoo.serving.export.requests_in_graph import (
    DEFAULT,
    are_empty,
    are_new,
    checked,
    joined,
    lengths_of,
    lines_of,
    not_empty,
    not_without_rows,
    option,
    refuse,
    refuse_nan,
    same_rows,
    valid,
)

_STRINGS = tf.TensorSpec([None], tf.string)
_INTEGERS = tf.TensorSpec([None], tf.int32)
_FLOATS = tf.TensorSpec([None], tf.float32)
# Most weights of attention in an answer, 16 MB. Without a limit, the maps of one pair of long lines
# would fill a server's memory. Scores need the weights of one layer at a time.
MAX_WEIGHTS = 1 << 22


def _refuse_weights(source_ids, target_ids, num_heads):
    """Ends the request if the attention of so many heads has more weights than are allowed."""
    rows, *lengths = tf.shape(source_ids)[0], tf.shape(source_ids)[1], tf.shape(target_ids)[1]
    length = tf.reduce_max(lengths)
    weights = num_heads * tf.cast(rows, tf.int64) * tf.cast(length, tf.int64) ** 2
    message = (
        "rows: {}, their tokens: up to {}; their attention has {} weights and at most "
        f"{MAX_WEIGHTS} are allowed; send fewer or shorter pairs"
    )
    shown = tf.strings.format(message, (rows, length, weights))
    return tf.debugging.Assert(weights <= MAX_WEIGHTS, [shown])


class SearchModule(tf.Module):
    """The endpoints of a SavedModel that translate; tracks what they use when it is saved.

    Args:
        max_input_tokens: longest line that is accepted, in tokens including `</s>`.
        max_beam_size: largest beam that a request may ask for; None: `beam_size`.
        context_sentences: sentences before each line of a text with which it is translated.
        **search: fields of `SearchOptions`, such as `beam_size`; the defaults of requests.
    """

    def __init__(
        self,
        model: TranslationModel,
        tokenizer: Tokenizer,
        *,
        max_input_tokens: int = MAX_INPUT_TOKENS,
        max_beam_size: int | None = None,
        context_sentences: int = 0,
        **search: Any,
    ) -> None:
        super().__init__()
        self.source = graph_vocabulary(tokenizer.source)
        is_same = tokenizer.source is tokenizer.target
        self.target = self.source if is_same else graph_vocabulary(tokenizer.target)
        self.max_input_tokens = max_input_tokens
        self.context_sentences = context_sentences
        # The target language is how every translation begins.
        self.options = SearchOptions(**search, first=self.target.language_token)
        self.max_beam_size = max_beam_size or self.options.beam_size
        widest = self.options._replace(beam_size=self.max_beam_size)
        self._search_each = make_search(model, widest, each_sentence=True)
        # The programs of `translate` are compiled once, also for those who only give a text.
        is_shared = model.is_quantised and widest == self.options
        self._search = self._search_plainly if is_shared else make_search(model, self.options)

    def _encoded(self, vocabulary, texts, name):
        """Encodes `[B]` strings, or the lines of ragged `[B, lines]`; refuses long texts.

        A text may have `max_input_tokens` in all its lines.
        """
        is_ragged, limit = isinstance(texts, tf.RaggedTensor), self.max_input_tokens
        ids = vocabulary.encode(texts.values if is_ragged else texts)
        lengths = lengths_of(ids)
        if is_ragged:
            lengths = tf.reduce_sum(texts.with_values(lengths), axis=1)
        message = f"{name}[{{}}] has {{}} tokens and at most {limit} are allowed; split it"
        return checked(ids, refuse(lengths > limit, lengths, message))

    def _search_plainly(self, source_ids, n_best):
        """As `_search_each`, with the usual options."""
        values = self.options.beam_size, self.options.length_penalty, n_best
        rows = [tf.shape(source_ids)[0]]
        return self._search_each(source_ids, SentenceOptions(*(tf.fill(rows, v) for v in values)))

    def _hypotheses(self, source_ids, search, n_best):
        """Searches as `make_search`; returns the `Hypotheses`, of which empty ones stay empty."""
        rows = tf.shape(source_ids)[0]
        hypotheses = search(not_empty(source_ids), n_best)
        hypotheses = tf.nest.map_structure(lambda values: values[:rows], hypotheses)
        is_empty = are_empty(source_ids)[:, None]
        nothing = tf.where(tf.range(tf.shape(hypotheses.ids)[2]) == 0, EOS_ID, PAD_ID)
        return hypotheses._replace(
            ids=tf.where(is_empty[:, None], nothing, hypotheses.ids),
            log_probs=tf.where(is_empty, 0.0, hypotheses.log_probs),
            scores=tf.where(is_empty, 0.0, hypotheses.scores),
            token_log_probs=tf.where(is_empty[:, None], 0.0, hypotheses.token_log_probs),
        )

    @tf.function(input_signature=[_STRINGS], autograph=False)
    def serving_default(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        lines = lines_of(text, self.context_sentences)
        best = self._hypotheses(self._encoded(self.source, lines, "text"), self._search, 1)
        texts, penalty = self.target.decode(best.ids[:, 0]), self.options.length_penalty
        texts, scores = joined(lines, texts, best.scores[:, 0], best, penalty)
        return {"translation": checked(texts, refuse_nan(scores, "text")), "score": scores}

    @tf.function(input_signature=[_STRINGS, _INTEGERS, _FLOATS, _INTEGERS], autograph=False)
    def translate(
        self, text: tf.Tensor, beam_size: tf.Tensor, length_penalty: tf.Tensor, n_best: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        lines = lines_of(text, self.context_sentences)
        of_text = self._options(text, beam_size, length_penalty, n_best)
        of_line = SentenceOptions(*(tf.gather(values, lines.value_rowids()) for values in of_text))
        # As `Translator`: if several are asked for, all are found, as some may have the same text.
        options = of_line._replace(n_best=tf.where(of_line.n_best > 1, of_line.beam_size, 1))
        options = SentenceOptions(*map(not_without_rows, options))
        source_ids = self._encoded(self.source, lines, "text")
        hypotheses = self._hypotheses(source_ids, self._search_each, options)
        size, scores = tf.shape(hypotheses.ids), hypotheses.scores
        texts = self.target.decode(tf.reshape(hypotheses.ids, [-1, size[2]]))
        texts = tf.reshape(texts, size[:2])
        is_new = are_new(texts, hypotheses.log_probs > -1e8)
        order = tf.argsort(tf.where(is_new, 0, 1), axis=1, stable=True)
        order = order[:, : tf.maximum(tf.reduce_max(of_line.n_best), 1)]
        count = tf.minimum(tf.reduce_sum(tf.cast(is_new, tf.int32), axis=1), of_line.n_best)
        texts, scores = (tf.gather(values, order, batch_dims=1) for values in (texts, scores))
        best = joined(lines, texts[:, 0], scores[:, 0], hypotheses, of_text.length_penalty)
        ids = hypotheses.ids[:, 0]
        are_real = (ids != PAD_ID) & (hypotheses.log_probs[:, :1] > -1e8)
        tokens, log_probs = (  # Of the lines of a text, one after the other.
            lines.with_values(tf.ragged.boolean_mask(values, are_real)).merge_dims(1, 2).to_tensor()
            for values in (tf.gather(self.target.words, ids), hypotheses.token_log_probs[:, 0])
        )
        first = lines.row_starts()
        texts, scores = (
            tf.concat([first_column[:, None], tf.gather(values, first)[:, 1:]], axis=1)
            for first_column, values in zip(best, (texts, scores), strict=True)
        )
        most = tf.where(lines.row_lengths() == 1, of_text.n_best, 1)
        count = tf.minimum(tf.reduce_min(lines.with_values(count), axis=1), most)
        is_there = tf.sequence_mask(count, tf.shape(order)[1])
        return {
            "translation": tf.where(is_there, checked(texts, refuse_nan(best[1], "text")), ""),
            "score": tf.where(is_there, scores, 0.0),
            "count": count,
            "target_tokens": tokens,
            "token_log_probs": log_probs,
        }

    def _options(self, text, beam_size, length_penalty, n_best):
        """Returns the `SentenceOptions` of a request; refuses options out of range."""
        beam_size = option("beam_size", beam_size, text, self.options.beam_size)
        length_penalty = option("length_penalty", length_penalty, text, self.options.length_penalty)
        n_best = option("n_best", n_best, text, 1)
        most = self.max_beam_size
        message = f"beam_size[{{}}] is {{}}, not from 1 to {most}, or {DEFAULT} for the default"
        beam_size = valid(beam_size, (beam_size < 1) | (beam_size > most), message)
        message = f"length_penalty[{{}}] is {{}}, not from 0 to {MAX_LENGTH_PENALTY:g}"
        is_good = (length_penalty >= 0) & (length_penalty <= MAX_LENGTH_PENALTY)
        length_penalty = valid(length_penalty, ~is_good, message)
        message = "n_best[{}] is {}, not from 1 to the beam_size of the row"
        n_best = valid(n_best, (n_best < 1) | (n_best > beam_size), message)
        return SentenceOptions(beam_size, length_penalty, n_best)

    def signatures(self) -> dict[str, Callable]:
        return {name: getattr(self, name) for name in ("serving_default", "translate")}

    def save(self, folder: Path) -> None:
        """Writes the SavedModel into a folder; raises `OSError` if it cannot be written."""
        signatures = self.signatures()
        # Neither the Keras model, whose weights would be exported twice, of which a session would
        # restore the copies that no endpoint reads; nor weights that only training reads.
        graphs = [function.get_concrete_function().graph for function in signatures.values()]
        read = {variable.ref(): variable for graph in graphs for variable in graph.variables}
        self.weights = [*read.values()]
        # Nobody trains what is served: graphs of gradients took a third of the time to write.
        options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
        try:
            tf.saved_model.save(self, str(folder), signatures=signatures, options=options)
        except tf.errors.OpError as error:  # "{{node}} path; reason [Op:name]"
            raise OSError(error.message.rpartition("; ")[2].partition(" [")[0]) from None


class ServingModule(SearchModule):
    """All endpoints; `exact` is the model in float32 that scores and attends, usually the same."""

    def __init__(
        self,
        model: TranslationModel,
        tokenizer: Tokenizer,
        exact: TranslationModel | None = None,
        **more: Any,
    ) -> None:
        super().__init__(model, tokenizer, **more)
        exact = exact or model
        self._score = make_scorer(exact)
        self._attention_maps = exact.attention_maps

    @functools.cached_property
    def _num_heads(self):
        with tf.init_scope():
            nothing = tf.constant([[EOS_ID]])
            maps = self._attention_maps(nothing, nothing)
        return sum(weights.shape[1] for weights in maps.values())

    def _pairs(self, source, target):
        """Encodes two texts with as many lines; returns the ids of both, and their tokens."""
        target = same_rows(target, source, "target", "source")
        source_ids = self._encoded(self.source, source, "source")
        target_ids = self._encoded(self.target, target, "target")
        pieces = tf.gather(self.source.words, source_ids), tf.gather(self.target.words, target_ids)
        tokens = {
            "source_tokens": tf.where(source_ids == PAD_ID, "", pieces[0]),
            "target_tokens": tf.where(target_ids == PAD_ID, "", pieces[1]),
        }
        return source_ids, target_ids, tokens

    @tf.function(input_signature=[_STRINGS, _STRINGS], autograph=False)
    def attention_maps(self, source: tf.Tensor, target: tf.Tensor) -> dict[str, tf.Tensor]:
        """Padding has the token "" and the weight 0."""
        source_ids, target_ids, tokens = self._pairs(source, target)
        source_ids = checked(source_ids, _refuse_weights(source_ids, target_ids, self._num_heads))
        maps = self._attention_maps(not_empty(source_ids), not_empty(target_ids))
        real = {
            "source": tf.cast(source_ids != PAD_ID, tf.float32),
            "target": tf.cast(target_ids != PAD_ID, tf.float32),
        }
        maps = {
            name: weights[: tf.shape(source)[0]] * real[queries_of(name)][:, None, :, None]
            for name, weights in maps.items()
        }
        return {**tokens, **maps}

    @tf.function(input_signature=[_STRINGS, _STRINGS], autograph=False)
    def score(self, source: tf.Tensor, target: tf.Tensor) -> dict[str, tf.Tensor]:
        source_ids, target_ids, tokens = self._pairs(source, target)
        source_ids = checked(source_ids, _refuse_weights(source_ids, target_ids, 1))
        log_probs = self._score(not_empty(source_ids), not_empty(target_ids)).log_probs
        # As the search, which does not translate empty lines: nothing for nothing is certain.
        is_empty = are_empty(source_ids) & are_empty(target_ids)
        real = (target_ids != PAD_ID) & ~is_empty[:, None]
        log_probs = tf.where(real, log_probs[: tf.shape(source)[0]], 0.0)
        log_prob = tf.reduce_sum(log_probs, axis=1)
        log_prob = checked(log_prob, refuse_nan(log_prob, "source"))
        normaliser = length_normaliser(lengths_of(target_ids), self.options.length_penalty)
        return {
            "log_prob": log_prob,
            "score": log_prob / normaliser,
            "target_tokens": tokens["target_tokens"],
            "token_log_probs": log_probs,
        }

    def signatures(self) -> dict[str, Callable]:
        names = ["score"] + ["attention_maps"] * bool(self._num_heads)
        return {**super().signatures(), **{name: getattr(self, name) for name in names}}


def queries_of(name: str) -> str:
    """Returns the side whose tokens are the rows of an attention map: "source" or "target"."""
    return "source" if "encoder" in name.split("/") else "target"
