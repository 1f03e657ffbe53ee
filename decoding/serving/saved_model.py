"""A trained model as a SavedModel: strings in, strings out; it runs without this project's code.

Signatures:

* `serving_default`: `text [B]` string -> `translation [B]` string, `score [B]` float32
* `translate_ids`: `source_ids [B, S]` int32, `source_lengths [B]` int32 -> `target_ids [B, T]`
  int32, `target_lengths [B]` int32, `score [B]` float32
* `attention`: `source [B]`, `target [B]` strings -> `source_tokens [B, S]`, `target_tokens [B, T]`
  strings, `attention [B, T, S]` float32, the model's soft alignment
* `attention_maps`: `source [B]`, `target [B]` strings -> tokens as `attention`, and each of the
  model's attention maps by its name, such as `decoder/0/cross` `[B, H, T, S]` float32; only if the
  model has such maps

An empty batch has an empty answer. A batch that cannot be answered correctly is refused as a whole
with an `InvalidArgumentError` that names the row; TensorFlow Serving then answers status 400. This
happens if a line has too many tokens, an id is not in the vocabulary, a length does not fit its
row, the inputs have different numbers of rows, or the model's scores for a line are not numbers.
"""

import tensorflow as tf

from data_pipeline.tokenization.graph_tokenizers import graph_vocabulary
from data_pipeline.tokenization.vocabularies import EOS_ID, PAD_ID
from decoding.search.searcher import make_search
from decoding.search.terms import SearchOptions
from decoding.translator import MAX_INPUT_TOKENS

_STRINGS = tf.TensorSpec([None], tf.string)
_IDS = tf.TensorSpec([None, None], tf.int32)
_LENGTHS = tf.TensorSpec([None], tf.int32)


class ServingModule(tf.Module):
    """The endpoints of the SavedModel; tracks the weights, tables and tokenizers that they use.

    The Keras model itself must not be tracked: Keras would export each weight twice, and a session
    would restore only the copies that no endpoint reads.

    Args:
        model: `TranslationModel`.
        tokenizer: its `Tokenizer`.
        max_input_tokens: longest line that is accepted, in tokens including `</s>`.
        **search: fields of `SearchOptions`, such as `beam_size`.
    """

    def __init__(
        self,
        model,
        tokenizer,
        *,
        max_input_tokens=MAX_INPUT_TOKENS,
        **search,
    ):
        super().__init__()
        frozen = [variable for each in model.frozen() for variable in each.variables]
        self.weights = [weight.value for weight in (*model.weights, *frozen)]
        self.source = graph_vocabulary(tokenizer.source)
        self.target = self.source if tokenizer.shared else graph_vocabulary(tokenizer.target)
        self.source_vocab_size = model.source_vocab_size
        self.max_input_tokens = max_input_tokens
        self._search = make_search(model, SearchOptions(**search))
        self._align = model.align
        self._attention_maps = model.attention_maps

    def _encoded(self, vocabulary, lines, name):
        """Encodes `[B]` strings to `[B, S]` int32; refuses long lines."""
        return self._not_too_long(vocabulary.encode(lines), name)

    def _not_too_long(self, ids, name):
        """Returns the ids; refuses rows of more than `max_input_tokens`."""
        lengths, limit = _lengths(ids), self.max_input_tokens
        message = f"{name}[{{}}] has {{}} tokens and at most {limit} are allowed; split it"
        return _checked(ids, _refuse(lengths > limit, lengths, message))

    def _best(self, source_ids, name):
        """Returns each sentence's best hypothesis `[B, T]` and score `[B]`; empty stays empty."""
        batch_size = tf.shape(source_ids)[0]
        found = self._search(_not_empty(source_ids), 1)
        ids, scores = found.ids[:batch_size, 0], found.scores[:batch_size, 0]
        is_empty = tf.reduce_all((source_ids == PAD_ID) | (source_ids == EOS_ID), axis=1)
        nothing = tf.where(tf.range(tf.shape(ids)[1]) == 0, EOS_ID, PAD_ID)
        message = f"for {name}[{{}}] the model's score is {{}}: its training diverged"
        ids = _checked(ids, _refuse(tf.math.is_nan(scores) & ~is_empty, scores, message))
        return tf.where(is_empty[:, None], nothing, ids), tf.where(is_empty, 0.0, scores)

    @tf.function(input_signature=[_STRINGS], autograph=False)
    def translate(self, text):
        """The endpoint `serving_default`."""
        target_ids, score = self._best(self._encoded(self.source, text, "text"), "text")
        return {"translation": self.target.decode(target_ids), "score": score}

    @tf.function(input_signature=[_IDS, _LENGTHS], autograph=False)
    def translate_ids(self, source_ids, source_lengths):
        """The endpoint `translate_ids`. Ignores the ids of a row from its length on."""
        size, last_id = tf.shape(source_ids)[1], self.source_vocab_size - 1
        lengths = _same_rows(source_lengths, source_ids, "source_lengths", "source_ids")
        message = "source_lengths[{}] is {}, not between 0 and the width of source_ids"
        refusal = _refuse((lengths < 0) | (lengths > size), lengths, message)
        real = tf.sequence_mask(_checked(lengths, refusal), size)
        message = f"source_ids[{{}}] is {{}}, and ids are 0 to {last_id}"
        strange = real & ((source_ids < 0) | (source_ids > last_id))
        refusal = _refuse(strange, source_ids, message)
        ids = tf.where(real, _checked(source_ids, refusal), PAD_ID)
        target_ids, score = self._best(self._not_too_long(ids, "source_ids"), "source_ids")
        return {"target_ids": target_ids, "target_lengths": _lengths(target_ids), "score": score}

    def _pairs(self, source, target):
        """Encodes two texts with as many lines; returns the ids of both, and their tokens."""
        target = _same_rows(target, source, "target", "source")
        source_ids = self._encoded(self.source, source, "source")
        target_ids = self._encoded(self.target, target, "target")
        tokens = {
            "source_tokens": tf.where(source_ids == PAD_ID, "", self.source.pieces(source_ids)),
            "target_tokens": tf.where(target_ids == PAD_ID, "", self.target.pieces(target_ids)),
        }
        return source_ids, target_ids, tokens

    @tf.function(input_signature=[_STRINGS, _STRINGS], autograph=False)
    def attention(self, source, target):
        """The endpoint `attention`. Padding has the token "" and the weight 0."""
        source_ids, target_ids, tokens = self._pairs(source, target)
        weights = self._align(_not_empty(source_ids), _not_empty(target_ids))
        weights = weights[: tf.shape(source)[0]]
        real = tf.cast(target_ids != PAD_ID, tf.float32)
        return {**tokens, "attention": weights * real[:, :, None]}

    @tf.function(input_signature=[_STRINGS, _STRINGS], autograph=False)
    def attention_maps(self, source, target):
        """The endpoint `attention_maps`. Padding has the token "" and the weight 0."""
        source_ids, target_ids, tokens = self._pairs(source, target)
        maps = self._attention_maps(_not_empty(source_ids), _not_empty(target_ids))
        real = {
            "source": tf.cast(source_ids != PAD_ID, tf.float32),
            "target": tf.cast(target_ids != PAD_ID, tf.float32),
        }
        maps = {
            name: weights[: tf.shape(source)[0]] * real[queries_of(name)][:, None, :, None]
            for name, weights in maps.items()
        }
        return {**tokens, **maps}

    def signatures(self):
        """Returns the endpoints by name."""
        endpoints = {
            "serving_default": self.translate,
            "translate_ids": self.translate_ids,
            "attention": self.attention,
        }
        nothing = tf.constant([[EOS_ID]])
        if self._attention_maps(nothing, nothing):
            endpoints["attention_maps"] = self.attention_maps
        return endpoints

    def save(self, folder):
        """Writes the SavedModel into a folder.

        Raises:
            OSError: it cannot be written.
        """
        try:
            tf.saved_model.save(self, str(folder), signatures=self.signatures())
        except tf.errors.OpError as error:  # "{{node}} path; reason [Op:name]"
            raise OSError(error.message.rpartition("; ")[2].partition(" [")[0]) from None


def queries_of(name):
    """Returns the side whose tokens are the rows of an attention map: "source" or "target"."""
    return "source" if "encoder" in name.split("/") else "target"


def _lengths(ids):
    """Counts the tokens of each row: `[B, S]` ids -> `[B]` int32."""
    return tf.reduce_sum(tf.cast(ids != PAD_ID, tf.int32), axis=1)


def _not_empty(ids):
    """Adds an EOS if B or S of `[B, S]` ids is 0, because some models cannot read empty batches."""
    missing = tf.maximum(1 - tf.shape(ids), 0)
    return tf.pad(ids, tf.stack([tf.zeros_like(missing), missing], axis=1), constant_values=EOS_ID)


def _checked(values, refusal):
    """Returns the values; operations that use them run after the check."""
    with tf.control_dependencies([refusal]):
        return tf.identity(values)


def _refuse(is_bad, values, message):
    """Ends the request if a value is bad; the error names the first one.

    Args:
        is_bad: bool tensor.
        values: tensor of the same shape.
        message: has `{}` twice: for the value's index, counted from 0, and for the value.

    Returns:
        The checking operation.
    """
    place = tf.where(is_bad)[:1]
    index = tf.strings.reduce_join(tf.strings.as_string(place), axis=1, separator=", ")
    value = tf.strings.as_string(tf.gather_nd(values, place))
    before, between, after = message.split("{}")
    message = tf.strings.join([before, index, between, value, after])
    return tf.debugging.Assert(~tf.reduce_any(is_bad), [message])


def _same_rows(values, others, name, other_name):
    """Returns the values; refuses the request unless `others` has the same number of rows."""
    rows = tf.shape(values)[0], tf.shape(others)[0]
    message = f"{name} has {{}} rows and {other_name} has {{}}; give the same number of both"
    equal = tf.debugging.Assert(rows[0] == rows[1], [tf.strings.format(message, rows)])
    return _checked(values, equal)
