"""The noisy channel: finds the translation e of f that maximises P(f | e) P(e)."""

from typing import Any

import numpy as np
from keras import ops

from nmt_zoo.models.base import (
    Searchable,
    StepOutput,
    Tensor,
    add_array,
    by_hypothesis,
    by_sentence,
    require,
)
from nmt_zoo.models.ibm import AlignmentModel
from nmt_zoo.models.layers.masks import TINY, padding_mask
from nmt_zoo.models.ngram import IMPOSSIBLE, NgramLanguageModel


class NoisyChannel(Searchable):
    """Searches for the e with the highest log P(f | e) + weight * log P(e), Brown et al. 1993.

    The channel is IBM Model 1 of the reverse direction: with t(f_j | e_i) its table of word
    translations, e_0 the empty word and l words in e,

        P(f | e) = prod_j 1 / (l + 1) sum_{i = 0..l} t(f_j | e_i)

    P(f | e) is not a product over the words of e. But each hypothesis stores the *mass* sum_i t(f_j
    | e_i) of every source word, which gives P(f | e) exactly when the hypothesis ends. So the score
    of a finished translation is exactly log P(f | e) + weight * log P(e). Before the end, a source
    word counts with its mass or, if that is larger, with the best word that may still be added for
    it, max_e t(f_j | e) P(e)^weight, like the future costs of phrase-based decoders. Each step adds
    the change of this estimate to the score.

    A hypothesis is extended only with the words e that most likely generate a source word of the
    sentence, by t(f_j | e) P(e), and with the most frequent words, which may generate no source
    word. With enough such words and a beam that is wide enough, the result is the arg max.

    The noisy channel translates poorly, because Model 1 describes neither word order nor the number
    of words that a word generates. It also prefers short sentences, because the empty word explains
    source words that are left out, while each word of e costs its probability. A `weight` below 1,
    such as 0.5, gives sentences of the right length. The attention of its steps is uniform.
    Args:
        channel: `AlignmentModel` of the reverse direction; only its translation table is used.
        language_model: over the channel's source vocabulary.
        weight: weight of the language model, above 0; 1 is Bayes' rule.
        num_translations: number of words e considered for each source word.
        max_words: most such words in a sentence; in long sentences, fewer words are considered for
            each source word.
        num_frequent: number of frequent words e considered in every sentence.

    Raises `SettingError` if the vocabulary sizes do not match, or a number is out of its range.
    Example:
        noisy = NoisyChannel(english_from_german, german_words)
        Translator.of(noisy, tokenizer).translate(["A dog runs."])
    """

    predicts = "scores"
    has_alignment = True
    logits_add_up = True
    scores_only_fall = False  # The estimate of P(f | e) may rise with a word.

    def __init__(
        self,
        channel: AlignmentModel,
        language_model: NgramLanguageModel,
        *,
        weight: float = 1.0,
        num_translations: int = 10,
        max_words: int = 500,
        num_frequent: int = 50,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            channel.target_vocab_size,
            channel.source_vocab_size,
            pad_id=channel.pad_id,
            bos_id=channel.bos_id,
            **kwargs,
        )
        sizes = channel.source_vocab_size, language_model.target_vocab_size
        require(
            sizes[0] == sizes[1],
            f"the channel model has {sizes[0]} source ids and the language model {sizes[1]}",
        )
        require(weight > 0, f"the weight of a language model must be above 0, found {weight}")
        self.channel = channel
        self.language_model = language_model
        self.weight = weight
        self.max_words = max_words
        likely, unigrams = self._likely_words(num_translations), self._probabilities()
        frequent = np.argsort(-unigrams, kind="stable")[:num_frequent]
        frequent = frequent[unigrams[frequent] > 0]
        self.candidates = add_array(self, "candidates", likely.shape, likely, "int32")
        self.frequent = add_array(self, "frequent", frequent.shape, frequent, "int32")
        self.built = True

    def _probabilities(self):
        """Returns P(e) without context, `[V]` NumPy; 0 for padding, `<s>` and `</s>`."""
        unigrams = ops.convert_to_numpy(self.language_model.unigrams).copy()  # pyright: ignore[reportAttributeAccessIssue]
        unigrams[[self.pad_id, self.bos_id, self.channel.eos_id]] = 0
        return unigrams

    def _likely_words(self, count):
        """Finds the words e that most likely generate each f: `[source ids, count]`, padded."""
        table = self.channel.table
        words, sources = (ops.convert_to_numpy(w) for w in (table.source_words, table.target_words))
        probabilities = table.look_up(words[:, None], sources[:, None])[:, 0, 0]
        values = ops.convert_to_numpy(probabilities) * self._probabilities()[words]
        order = np.lexsort((-values, sources))
        order = order[values[order] > 0]
        sources = sources[order]
        places = np.arange(sources.size) - np.searchsorted(sources, sources)  # pyright: ignore[reportAttributeAccessIssue]
        near = places < count
        likely = np.full((self.source_vocab_size, count), self.pad_id, np.int32)
        likely[sources[near], places[near]] = words[order[near]]
        return likely

    def encode(self, source_ids: Tensor, training: bool = False) -> dict[str, Any]:
        """Context, for C words e that are considered for each sentence: `words [B, C]`.

        Also `source_mask [B, S]`; `translation [B, C, S]`, t(f_j | e) of these words;
        `empty [B, S]`, t(f_j | the empty word); `future [B, S]`, the estimate for the best word
        that may be added for each source word; `language_model`, the language model's context.
        """
        words = self._considered(source_ids)
        translation = ops.swapaxes(self.channel.table.look_up(words, source_ids), 1, 2)
        ends = ops.full_like(source_ids[:, :1], self.channel.eos_id)
        worth = ops.power(ops.take(self.language_model.unigrams, words), self.weight)
        worth = ops.where(words == self.pad_id, 0.0, worth)
        return {
            "source_mask": padding_mask(source_ids, self.pad_id),
            "words": words,
            "translation": translation,
            "empty": self.channel.table.look_up(ends, source_ids)[:, :, 0],
            "future": ops.max(translation * worth[:, :, None], axis=1),
            "language_model": self.language_model.encode(source_ids),
        }

    def encode_to_score(self, source_ids: Tensor, target_ids: Tensor) -> dict[str, Any]:
        """As `Searchable`: the words of the translations are considered, too, with equal scores."""
        context = self.encode(source_ids)
        words = ops.where(target_ids == self.channel.eos_id, self.pad_id, target_ids)
        translation = ops.swapaxes(self.channel.table.look_up(words, source_ids), 1, 2)
        more = {"words": words, "translation": translation}
        joined = {name: ops.concatenate([context[name], more[name]], axis=1) for name in more}
        return {**context, **joined}

    def _considered(self, source_ids):
        """Selects the words e that are considered for each sentence: `[B, C]`, padded."""
        lengths = ops.sum(padding_mask(source_ids, self.pad_id), axis=1)
        counts = ops.clip(self.max_words // lengths, 1, self.candidates.shape[1])
        likely = ops.take(self.candidates, source_ids, axis=0)[:, :, : ops.max(counts)]
        places = ops.arange(ops.shape(likely)[2])
        likely = ops.where(places < counts[:, None, None], likely, self.pad_id)
        batch_size, length, count = ops.shape(likely)
        frequent = ops.broadcast_to(self.frequent, (batch_size, self.frequent.shape[0]))
        return ops.concatenate(
            [ops.reshape(likely, (batch_size, length * count)), frequent], axis=1
        )

    def initial_state(self, context: dict[str, Any]) -> dict[str, Any]:
        """State: `mass [B, S]`, initially t(f_j | the empty word), and `language_model`."""
        return {
            "mass": context["empty"],
            "language_model": self.language_model.initial_state(context["language_model"]),
        }

    def decode_step(
        self, token_ids: Tensor, step: Tensor, state: dict[str, Any], context: dict[str, Any]
    ) -> StepOutput:
        words, translation = context["words"], context["translation"]
        mask = ops.cast(context["source_mask"], "float32")
        batch_size = ops.shape(mask)[0]
        tokens = ops.reshape(token_ids, (batch_size, -1, 1))
        # `<s>`, at step 0, is not among the words. A word that occurs twice in `words` counts once.
        chosen = ops.cast(words[:, None, :] == tokens, "float32")  # [B, K, C]
        chosen = chosen / ops.maximum(ops.sum(chosen, axis=-1, keepdims=True), 1.0)
        mass = by_sentence(state["mass"], batch_size)
        mass = mass + ops.matmul(chosen, translation)

        def channel(mass):  # log P(f | e) of the `step` words so far, [B, K, S] -> [B, K, 1]
            return ops.sum(_log_shares(mass, step) * mask[:, None], axis=-1, keepdims=True)

        before = channel(ops.maximum(mass, context["future"][:, None]))
        before = ops.where(step > 0, before, 0.0)
        end = channel(mass) - before
        scores = self._extended(mass, context, step + 1) - before  # [B, K, C]

        language = self.language_model.decode_step(
            token_ids, step, state["language_model"], context["language_model"]
        )
        scores = self._by_token(scores, end, words)
        scores = scores + self.weight * (
            language.logits - self.language_model.log_normaliser(language.logits)
        )
        return StepOutput(
            logits=scores,
            state={"mass": by_hypothesis(mass), "language_model": language.state},
            attention=language.attention,
        )

    def _extended(self, mass, context, num_words):
        """Estimates log P(f | e) after adding each of the words: `[B, K, C]`."""
        # One source word at a time: [B, K, C, S] is too large for long sentences.
        masses, translations = (ops.moveaxis(x, 2, 0) for x in (mass, context["translation"]))

        def add(j, total):
            future, is_word = (
                ops.cast(ops.take(context[name], j, axis=1), "float32")[:, None, None]
                for name in ("future", "source_mask")
            )
            extended = ops.maximum(masses[j][:, :, None] + translations[j][:, None], future)
            return total + _log_shares(extended, num_words) * is_word

        nothing = ops.zeros_like(masses[0][:, :, None] + translations[0][:, None])
        return ops.fori_loop(0, ops.shape(mass)[2], add, nothing)

    def _by_token(self, scores, end, words):
        """Scores of words `[B, K, C]` and of the end `[B, K, 1]` -> `[N, V]`, else impossible."""
        ends = ops.full_like(words[:, :1], self.channel.eos_id)
        words = ops.concatenate([words, ends], axis=1)[:, None, :]
        scores = ops.concatenate([scores, end], axis=2)
        scores = ops.where(words == self.pad_id, IMPOSSIBLE, scores)
        batch_size, num_beams, _ = ops.shape(scores)
        rows = ops.arange(batch_size * num_beams) * self.target_vocab_size
        cells = ops.reshape(rows, (batch_size, num_beams, 1)) + words
        # A word that occurs twice in `words` has the same score twice.
        table = ops.scatter_update(
            ops.full((batch_size * num_beams * self.target_vocab_size,), IMPOSSIBLE),
            ops.reshape(cells, (-1, 1)),
            ops.reshape(scores, (-1,)),
        )
        return ops.reshape(table, (-1, self.target_vocab_size))

    def align(self, source_ids: Tensor, target_ids: Tensor) -> Tensor:
        """Returns the channel's posterior, normalised over the source words for each word e."""
        posterior = self.channel.align(target_ids, source_ids)  # [B, S, T]
        mask = ops.cast(padding_mask(source_ids, self.pad_id), "float32")
        weights = (ops.swapaxes(posterior, 1, 2) + TINY) * mask[:, None, :]
        return weights / ops.sum(weights, axis=-1, keepdims=True)


def _log_shares(mass, num_words):
    """Computes log P(f_j | e) from `mass`, the sum of t(f_j | e_i) over the words and NULL."""
    return ops.log(ops.maximum(mass, TINY)) - ops.log(ops.cast(num_words + 1, "float32"))
