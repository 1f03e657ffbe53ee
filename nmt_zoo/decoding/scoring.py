"""Scores given translations as the search scores its own."""

import collections
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from nmt_zoo.configuration.options import LENGTH_PENALTY
from nmt_zoo.data_pipeline.text_form import split_words
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import BOS_ID, UNK_ID
from nmt_zoo.decoding.search.groups import MAX_SOURCE_WEIGHTS, in_halves
from nmt_zoo.decoding.search.types import in_graph, length_normaliser, padded
from nmt_zoo.decoding.translator import (
    EMPTY,
    IMPOSSIBLE,
    IMPOSSIBLE_SCORE,
    NO_MEMORY,
    TOO_LONG,
    Translation,
    not_numbers,
    untranslated,
)
from nmt_zoo.models.base import Searchable


class TokenScores(NamedTuple):
    """Log-probabilities of the tokens of given translations. Entries at padding have no meaning."""

    log_probs: Any  # [B, T] float32.
    best_ids: Any  # [B, T, A] int32, the A most probable tokens at each place, the best first.
    best_log_probs: Any  # [B, T, A] float32.
    confidence: Any  # [B, T] float32, probabilities of the tokens at the scorer's temperature.


def make_scorer(
    model: Searchable, num_best: int = 0, temperature: float = 1.0
) -> Callable[[tf.Tensor, tf.Tensor], TokenScores]:
    """Returns a graph: `([B, S]` source ids, `[B, T]` target ids`) -> TokenScores`.

    It takes the steps that a search would take, so the sum over a search's output is the search's
    `log_probs`, for every `models.base.Searchable`. `num_best` is A of `TokenScores`; 0 for a model
    with a decoder of its own, for which it returns no graph, but a plain function. `temperature`,
    above 0, divides the logits of `TokenScores.confidence` (Guo et al. 2017, equation 9).
    """
    if model.decoder_class:  # It has no scores of single tokens, and no graph.

        def score_all(source_ids, target_ids):
            log_probs = model.score(source_ids, target_ids)
            nothing = tf.zeros([*log_probs.shape, 0])
            return TokenScores(log_probs, tf.cast(nothing, tf.int32), nothing, tf.exp(log_probs))

        return score_all
    num_best = min(num_best, model.target_vocab_size)

    def score(source_ids, target_ids):
        context = model.encode_to_score(source_ids, target_ids)
        batch_size, length = tf.unstack(tf.shape(target_ids))

        def extend(step, last_ids, state, scores):
            output = model.decode_step(last_ids, step, state, context)
            log_probs = output.logits - model.log_normaliser(output.logits)
            ids = target_ids[:, step]
            best_log_probs, best_ids = tf.math.top_k(log_probs, num_best)
            sure = tf.nn.softmax(log_probs / temperature)
            values = (tf.gather(x, ids, batch_dims=1) for x in (log_probs, sure))
            new = TokenScores(next(values), best_ids, best_log_probs, next(values))
            pairs = zip(scores, new, strict=True)
            joined = (tf.concat([before, last[:, None]], axis=1) for before, last in pairs)
            return step + 1, ids, output.state, TokenScores(*joined)

        variables = (
            tf.constant(0),
            tf.fill([batch_size], tf.constant(BOS_ID, tf.int32)),
            model.initial_state(context),
            TokenScores(
                tf.zeros([batch_size, 0]),
                tf.zeros([batch_size, 0, num_best], tf.int32),
                tf.zeros([batch_size, 0, num_best]),
                tf.zeros([batch_size, 0]),
            ),
        )
        shapes = tf.nest.map_structure(lambda x: tf.TensorShape([None] * x.shape.rank), variables)
        *_, scores = tf.while_loop(
            lambda step, *_: step < length, extend, variables, shape_invariants=shapes
        )
        return scores

    return in_graph(model, score)


def score_in_groups(
    score: Callable[..., list], pairs: Sequence[tuple[list[int], list[int]]], batch_size: int = 32
) -> list[Any]:
    """Returns what `score` finds for each pair, in groups of which the attention fits into memory.

    `score` takes the source ids and the target ids of at most `batch_size` pairs, and returns a
    list as long. None for pairs that do not fit into memory even alone.
    """
    longest = [max(map(len, pair)) for pair in pairs]
    rows, results = sorted(range(len(pairs)), key=lambda row: -longest[row]), [None] * len(pairs)
    while rows:
        size = min(max(MAX_SOURCE_WEIGHTS // longest[rows[0]] ** 2, 1), batch_size)
        group, rows = rows[:size], rows[size:]
        found = in_halves(score, *zip(*(pairs[row] for row in group), strict=True))
        for row, result in zip(group, found, strict=True):
            results[row] = result
    return results


class Scorer:
    """Scores translations of lines with a model and its tokenizer.

    `length_penalty` is that of `length_normaliser`, for `Translation.score`; `max_input_tokens` is
    the longest line of either side, in tokens with `</s>`. `log_prob` is the sum over all pairs
    that were scored. For the same pairs, `num_tokens` and `num_words` (between white space) count
    the target with `</s>`, `num_unknown` the target tokens outside the vocabulary. `problems`
    counts the pairs that could not be scored, by reason.

    Example:
        (scored,) = Scorer(model, tokenizer).score(["A dog runs."], ["Ein Hund rennt."])
        scored.log_prob
    """

    def __init__(
        self,
        model: Searchable,
        tokenizer: Tokenizer,
        *,
        length_penalty: float = LENGTH_PENALTY,
        batch_size: int = 32,
        max_input_tokens: int = 1024,
        name: str = "the model",
    ) -> None:
        self.tokenizer = tokenizer
        self.length_penalty = length_penalty
        self.batch_size = batch_size
        self.max_input_tokens = max_input_tokens
        self.name = name
        self.log_prob, self.num_tokens, self.num_words, self.num_unknown = 0.0, 0, 0, 0
        self.problems = collections.Counter()
        self._score = make_scorer(model)

    def score(
        self, sources: Sequence[str], targets: Sequence[str], numbers: Sequence[int] | None = None
    ) -> list[Translation]:
        """Returns a `Translation` for each pair of lines; `EMPTY` if both sides are empty.

        Its `problem` is the reason why a pair could not be scored. `numbers` are those of the
        pairs' lines in errors; None: they are counted from 1.
        Raises UserError: the model's scores are not numbers.
        """
        numbers = numbers or range(1, len(sources) + 1)
        sides = zip(self.tokenizer[1:], (sources, targets), strict=True)
        pairs = [*zip(*(side.encode(x) for side, x in sides), strict=True)]
        longest = [max(map(len, pair)) for pair in pairs]
        rows = [row for row, size in enumerate(longest) if 1 < size <= self.max_input_tokens]
        log_probs = score_in_groups(self._log_probs, [pairs[row] for row in rows], self.batch_size)
        results = [
            EMPTY if size == 1 else untranslated(TOO_LONG)._replace(text=text)
            for text, size in zip(targets, longest, strict=True)
        ]
        for row, log_prob in zip(rows, log_probs, strict=True):
            results[row] = self._result(targets[row], pairs[row][1], log_prob, numbers[row])
        self.problems.update(result.problem for result in results if result.problem)
        return results

    def _log_probs(self, sources, targets):
        rows = self._score(padded(sources), padded(targets)).log_probs.numpy()
        return [float(row[: len(ids)].sum()) for row, ids in zip(rows, targets, strict=True)]

    def _result(self, text, ids, log_prob, number):
        if log_prob is None:
            return untranslated(NO_MEMORY)._replace(text=text)
        if math.isnan(log_prob):
            raise not_numbers(self.name, number)
        if log_prob < IMPOSSIBLE_SCORE:
            return untranslated(IMPOSSIBLE)._replace(text=text)
        self.log_prob += log_prob
        self.num_tokens += len(ids)
        self.num_words += len(split_words(text)) + 1
        self.num_unknown += ids.count(UNK_ID)
        score = log_prob / float(length_normaliser(len(ids), self.length_penalty))
        return Translation(text, score, log_prob, True, ids)

    def summary(self) -> str:
        """Returns the log-probability and the perplexities of all pairs as a line of text."""
        left = "".join(
            f"; {count:,} pairs not scored ({reason})" for reason, count in self.problems.items()
        )
        if not self.num_tokens:
            return f"nothing was scored{left}"
        per_token, per_word = (
            math.exp(min(-self.log_prob / count, 700))
            for count in (self.num_tokens, self.num_words)
        )
        if self.num_unknown:
            in_pieces = self.tokenizer.kind == "pretokenized"
            left += (
                f"; {self.num_unknown:,} of {self.num_tokens:,} tokens are not in the vocabulary"
                + "; give the translations in pieces, as text for training" * in_pieces
            )
        return (
            f"log-probability {self.log_prob:.2f}, perplexity {per_token:.4g} per token "
            f"({self.num_tokens:,}) and {per_word:.4g} per word ({self.num_words:,}), each with "
            f"</s>{left}"
        )
