"""One step of the search: its hypotheses, and how all of them are extended by a token.

`beam_search` says when a search ends; it runs steps in a graph of any size, and `compiled` runs the
same steps in programs of fixed sizes.
"""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import tensorflow as tf

from nmt_zoo.data_pipeline.tokenization.vocabularies import BOS_ID, EOS_ID, PAD_ID
from nmt_zoo.decoding.search.largest import TopK, largest
from nmt_zoo.decoding.search.processors import Follower, Partial, Processor, bar
from nmt_zoo.decoding.search.types import (
    IMPOSSIBLE,
    Hypotheses,
    SearchOptions,
    SentenceOptions,
    length_normaliser,
)
from nmt_zoo.models.base import Searchable

# How much longer live hypotheses are expected to become when they are compared with finished ones:
# with 1, better ones of the beam are lost; without a bound, a search takes up to twice as long.
_AHEAD = 1.5


class Setup(NamedTuple):
    """What is the same in all steps of a search."""

    model: Searchable
    options: SearchOptions
    top_k: TopK = tf.math.top_k  # Finds the largest numbers.
    processors: Sequence[Processor] = ()  # Change the scores of tokens, one after the other.
    # What they read, by name. Hypotheses that begin "required" phrases have K places of their own;
    # the K of the plain beam are chosen as if there were no others.
    followers: Mapping[str, Follower] = MappingProxyType({})
    # [C] int32, the token that each column of the logits scores; None: its number.
    columns: tf.Tensor | None = None

    @property
    def num_live(self) -> int:
        """L, the number of hypotheses of a sentence that are extended at a time."""
        return self.options.beam_size * (2 if "required" in self.followers else 1)

    def is_never(self, tokens: tf.Tensor) -> tf.Tensor:
        """Returns whether tokens are never emitted, bool, of the same shape."""
        return tf.reduce_any(tokens[..., None] == tf.constant(self.options.never), axis=-1)


class Beam(NamedTuple):
    """The search results so far: L live and at most K finished hypotheses of A sentences."""

    live_ids: tf.Tensor  # [A, L, T] int32; L is K, or 2K if phrases are required.
    live_log_probs: tf.Tensor  # [A, L] float32.
    last_ids: tf.Tensor  # [A, L] int32, last token of each live hypothesis.
    done_ids: tf.Tensor  # [A, K, T] int32.
    done_scores: tf.Tensor  # [A, K] float32, the best first; `IMPOSSIBLE` in unused places.
    done_log_probs: tf.Tensor  # [A, K] float32.
    live_sums: tf.Tensor  # [A, L, T] float32, log-probabilities up to each token.
    done_sums: tf.Tensor  # [A, K, T] float32.


class Unfinished(NamedTuple):
    """The A sentences that are not done, with their hypotheses and the model's context."""

    row: tf.Tensor  # [A] int32, the row of each sentence in the batch.
    limit: tf.Tensor  # [A] int32, most tokens of a hypothesis.
    wanted: SentenceOptions
    hypotheses: Beam
    context: Any  # The model's context of these sentences, leaves [A, ...].

    def normaliser(self, length: tf.Tensor, options: SearchOptions) -> tf.Tensor:
        """Returns what log-probabilities of that many tokens, `[A]` or [], are divided by."""
        penalty = self.wanted.length_penalty
        if isinstance(penalty, tuple):  # One number: those of a vector may differ in the last bit.
            penalty = options.length_penalty
        return length_normaliser(length, penalty)


def start(
    setup: Setup,
    context: Any,
    limits: tf.Tensor,
    length: int | tf.Tensor,
    wanted: SentenceOptions,
) -> tuple[Unfinished, Any]:
    """Returns all B sentences with an empty hypothesis each, and the state of the hypotheses.

    `context` is the model's, `limits` `[B]` int32 are the most tokens of each sentence, `length` is
    the largest of them, T. A state is `(the model's, those of the followers)`, leaves `[N, ...]`.
    """
    batch_size, live = tf.shape(limits)[0], setup.num_live
    beam_size = setup.options.beam_size
    live_ids, done_ids = (
        tf.fill([batch_size, count, length], tf.constant(PAD_ID, tf.int32))
        for count in (live, beam_size)
    )
    first_only = tf.where(tf.range(live) == 0, 0.0, IMPOSSIBLE)
    nowhere = tf.fill([batch_size, beam_size], IMPOSSIBLE)
    beam = Beam(
        live_ids=live_ids,
        live_log_probs=tf.broadcast_to(first_only, [batch_size, live]),
        last_ids=tf.fill([batch_size, live], tf.constant(BOS_ID, tf.int32)),
        done_ids=done_ids,
        done_scores=nowhere,
        done_log_probs=nowhere,
        live_sums=tf.zeros_like(live_ids, tf.float32),
        done_sums=tf.zeros_like(done_ids, tf.float32),
    )
    model_state = tf.nest.map_structure(
        lambda leaf: tf.repeat(leaf, live, axis=0), setup.model.initial_state(context)
    )
    rows = tf.range(batch_size)
    own = {name: rule.start(tf.repeat(rows, live)) for name, rule in setup.followers.items()}
    return Unfinished(rows, limits, wanted, beam, context), (model_state, own)


def extend(
    setup: Setup, unfinished: Unfinished, step: tf.Tensor, hypotheses: Beam, state: Any, *_: Any
) -> tuple[tf.Tensor, Beam, Any, tf.Tensor, tf.Tensor]:
    """Extends the live ones of the hypotheses of all unfinished sentences by a token.

    `step` is their length. Returns `(step + 1, hypotheses, state, must_leave, certain)`: two `[A]`
    bool for sentences that are done, because nothing can be added to them, or because nothing
    better can be found. The latter may stay for some steps, which change nothing.
    """
    unfinished = unfinished._replace(hypotheses=hypotheses)
    last_ids = tf.reshape(hypotheses.last_ids, [-1])
    output = setup.model.decode_step(last_ids, step, state[0], unfinished.context)
    logits, normaliser = output.logits, setup.model.log_normaliser(output.logits)
    if setup.options.first is not None:  # The first step has no other choice, also for draws.
        others = tf.range(setup.model.target_vocab_size) != setup.options.first
        logits = tf.where(others & (step == 0), IMPOSSIBLE, logits)
    states = {name: rule.follow(state[1][name], last_ids) for name, rule in setup.followers.items()}
    if setup.processors:
        logits = _processed(setup, unfinished, step, logits - normaliser, states)
        normaliser = tf.zeros_like(normaliser)
    best = _best_extensions(setup, unfinished, logits, normaliser, states)
    hypotheses, parents = _extended(setup, unfinished, step, best)
    must_leave = best.is_nan | (step + 1 >= unfinished.limit)
    certain = is_certain(setup, unfinished._replace(hypotheses=hypotheses), step + 1)
    nan = tf.where(best.is_nan, math.nan, 0.0)[:, None]
    hypotheses = hypotheses._replace(
        live_log_probs=tf.where(certain[:, None], IMPOSSIBLE, hypotheses.live_log_probs + nan),
        done_scores=hypotheses.done_scores + nan,
        done_log_probs=hypotheses.done_log_probs + nan,
    )
    # Each new hypothesis continues from the state of its parent.
    state = output.state, states
    if hypotheses.last_ids.shape[1] > 1:
        states = tf.nest.map_structure(lambda leaf: tf.gather(leaf, parents), states)
        state = setup.model.reordered(output.state, parents), states
    return step + 1, hypotheses, state, must_leave, certain


def _processed(setup, unfinished, step, log_probs, states):
    """Returns scores `[A * L, V]` of the next tokens, changed by all processors."""
    beam = unfinished.hypotheses
    ids = tf.reshape(beam.live_ids, [-1, tf.shape(beam.live_ids)[2]])[:, :step]
    ids = tf.pad(ids, [[0, 0], [1, 0]], constant_values=BOS_ID)
    rows = tf.repeat(unfinished.row, beam.last_ids.shape[1])
    partial = Partial(ids, step, rows, log_probs, states)
    scores = bar(log_probs, setup.is_never(tf.range(setup.model.target_vocab_size)))
    for processor in setup.processors:
        scores = processor(scores, partial)
    return scores


class _Extensions(NamedTuple):
    """Extensions of the live hypotheses of A sentences by a token, the best E first.

    If phrases are required, each sentence has two rows, so X = 2A: the most probable ones, and
    those of the hypotheses with places of their own. Otherwise X = A.
    """

    tokens: tf.Tensor  # [X, E] int32.
    parents: tf.Tensor  # [X, E] int32, the row of the hypothesis that each one extends.
    log_probs: tf.Tensor  # [X, E] float32.
    ranks: tf.Tensor  # [X, E] float32, larger for what is followed first; often `log_probs`.
    is_nan: tf.Tensor  # [A] bool, whether a score of the sentence is not a number.


def _best_extensions(setup, unfinished, logits, normaliser, states):
    """Returns the best 2K `_Extensions` of each sentence; 1 if the beam is 1."""
    beam_size, required = setup.options.beam_size, setup.followers.get("required")
    hypotheses, vocab_size = unfinished.hypotheses, setup.model.target_vocab_size
    live = hypotheses.last_ids.shape[1]
    # The best extensions of each hypothesis, among them those that are barred.
    most = 2 * beam_size if beam_size > 1 else 1
    width = min(most + len(setup.options.never), vocab_size)
    log_probs, tokens = largest(logits, width, setup.top_k)
    if required:
        log_probs, tokens = required.with_next(logits, log_probs, tokens, states["required"])
        width = tf.shape(tokens)[1]
    if setup.columns is not None:
        tokens = tf.gather(setup.columns, tokens)
    log_probs = log_probs - normaliser + tf.where(setup.is_never(tokens), IMPOSSIBLE, 0.0)
    log_probs += tf.reshape(hypotheses.live_log_probs, [-1, 1])
    # A logit that is NaN or infinite makes its normaliser, or the difference, NaN or infinite.
    is_nan = tf.reduce_any(tf.math.is_nan(log_probs) | ~tf.math.is_finite(normaliser), axis=1)
    is_nan = tf.reduce_any(tf.reshape(is_nan, [-1, live]), axis=1)
    # The best extensions of each sentence, [A, 2K], of its first K hypotheses.
    log_probs = tf.reshape(log_probs, [-1, live * width])
    most = min(most, beam_size * vocab_size)
    best, places = setup.top_k(log_probs[:, : beam_size * width], most)
    narrow = unfinished.wanted.beam_size  # A narrower beam looks at fewer extensions.
    best = _only_first(best, tf.where(narrow > 1, 2 * narrow, 1))
    places += tf.range(tf.shape(places)[0])[:, None] * (live * width)
    ranks = best
    if required:
        both = log_probs, tokens, states["required"]
        best, ranks, places = required.allocate(setup, best, places, *both)
    tokens = tf.gather(tf.reshape(tokens, [-1]), places)
    return _Extensions(tokens, places // width, best, ranks, is_nan)


def _extended(setup, unfinished, step, best):
    """Extends every live hypothesis by one of the best `_Extensions`.

    Returns `(Beam, parents)`: parents `[A * L]`, the row of the hypothesis that each live one
    extends.
    """
    beam_size = setup.options.beam_size
    beam, narrow = unfinished.hypotheses, unfinished.wanted.beam_size
    live, length = beam.last_ids.shape[1], tf.shape(beam.live_ids)[2]
    ends, at_step = best.tokens == EOS_ID, tf.range(length) == step
    ids, sums = (tf.reshape(x, [-1, length]) for x in (beam.live_ids, beam.live_sums))

    # Finished hypotheses. Only the first K extensions may end: a beam of 1 is then greedy.
    may_end, possible, ending = (  # [A, L]
        tf.reshape(values[:, :beam_size], [-1, live])
        for values in (ends, best.log_probs, best.parents)
    )
    is_followed = tf.range(live) % beam_size < narrow[:, None]
    may_end &= (possible > IMPOSSIBLE / 2) & is_followed
    divisor = unfinished.normaliser(step + 1, setup.options)  # [A] or [].
    scores = possible / tf.reshape(divisor, [-1, 1])
    scores = tf.concat([beam.done_scores, tf.where(may_end, scores, IMPOSSIBLE)], axis=1)
    new_ids = tf.where(at_step, EOS_ID, tf.gather(ids, ending))  # [A, L, T]
    new_sums = tf.where(at_step, possible[:, :, None], tf.gather(sums, ending))
    done_scores, chosen = setup.top_k(scores, beam_size)
    done_ids = _picked(tf.concat([beam.done_ids, new_ids], axis=1), chosen)
    done_log_probs = _picked(tf.concat([beam.done_log_probs, possible], axis=1), chosen)
    done_sums = _picked(tf.concat([beam.done_sums, new_sums], axis=1), chosen)

    # Live hypotheses.
    live_log_probs, chosen = setup.top_k(tf.where(ends, IMPOSSIBLE, best.ranks), beam_size)
    tokens, parents = _picked(best.tokens, chosen), _picked(best.parents, chosen)
    if "required" in setup.followers:
        live_log_probs = _picked(tf.where(ends, IMPOSSIBLE, best.log_probs), chosen)
    tokens, parents, live_log_probs = (
        tf.reshape(values, [-1, live]) for values in (tokens, parents, live_log_probs)
    )
    live_ids = tf.where(at_step, tokens[:, :, None], tf.gather(ids, parents))
    live_log_probs = tf.where(is_followed, live_log_probs, IMPOSSIBLE)
    live_sums = tf.where(at_step, live_log_probs[:, :, None], tf.gather(sums, parents))
    done = done_ids, _only_first(done_scores, narrow), done_log_probs, live_sums, done_sums
    return Beam(live_ids, live_log_probs, tokens, *done), tf.reshape(parents, [-1])


def _picked(values, index):
    """Gathers along axis 1: `values [A, n, ...]`, `index [A, m]` -> `[A, m, ...]`; n is static.

    With fewer operations than `tf.gather(..., batch_dims=1)`.
    """
    more = [tf.shape(values)[2]] if values.shape.rank > 2 else []
    rows = tf.range(tf.shape(index)[0])[:, None] * values.shape[1]
    return tf.gather(tf.reshape(values, [-1, *more]), index + rows)


def _only_first(log_probs, counts):
    """Makes all but the first `counts` `[A]` places of each row impossible; `[A, n]`."""
    is_first = tf.range(tf.shape(log_probs)[1]) < counts[:, None]
    return tf.where(is_first, log_probs, IMPOSSIBLE)


def is_certain(setup: Setup, unfinished: Unfinished, length: tf.Tensor) -> tf.Tensor:
    """Returns `[A]` bool: whether the sentence is done before its limit, see `beam_search`."""
    options, wanted, beam = setup.options, unfinished.wanted, unfinished.hypotheses
    scores, limit = beam.done_scores, tf.cast(unfinished.limit, tf.float32)
    most_probable = tf.reduce_max(beam.live_log_probs, axis=1)
    ahead = tf.minimum(_AHEAD * tf.cast(length, tf.float32), limit)
    likely = most_probable / unfinished.normaliser(ahead, options)
    worst, worst_wanted = (  # Scores are sorted.
        tf.gather(scores, count - 1, axis=1, batch_dims=1)
        for count in (wanted.beam_size, wanted.n_best)
    )
    certain = (worst > IMPOSSIBLE / 2) & (tf.reduce_max(scores, axis=1) >= likely)
    if setup.model.scores_only_fall:
        # Log-probabilities are negative, so no extension of a live hypothesis scores better than
        # its log-probability now, divided by the largest length normaliser.
        certain |= worst_wanted >= most_probable / unfinished.normaliser(limit, options)
    return certain


def ranked(setup: Setup, unfinished: Unfinished, beam: Beam) -> Hypotheses:
    """Returns `Hypotheses`: the finished by score, then unfinished ones by score, K in all.

    `unfinished` is what `start` returned, `beam` has the results of its sentences.
    """
    divisor = unfinished.normaliser(unfinished.limit, setup.options)
    live_scores = beam.live_log_probs / divisor[:, None]
    finished = beam.done_scores > IMPOSSIBLE / 2
    is_live = tf.ones_like(live_scores, tf.bool)
    is_finished = tf.concat([finished, ~is_live], axis=1)
    scores = tf.concat([beam.done_scores, live_scores], axis=1)
    # Sort by rank instead of score: every finished hypothesis precedes every unfinished one.
    rank = tf.where(is_finished, 0.0, 2 * IMPOSSIBLE) + tf.maximum(scores, IMPOSSIBLE)
    rank = tf.where(tf.concat([finished, is_live], 1), rank, 4 * IMPOSSIBLE)
    _, best = tf.math.top_k(rank, setup.options.beam_size)
    ids = tf.concat([beam.done_ids, beam.live_ids], axis=1)
    log_probs = tf.concat([beam.done_log_probs, beam.live_log_probs], axis=1)
    sums = tf.concat([beam.done_sums, beam.live_sums], axis=1)
    ids, log_probs, scores, is_finished, sums = (
        _picked(values, best) for values in (ids, log_probs, scores, is_finished, sums)
    )
    log_probs, scores = (
        _only_first(values, unfinished.wanted.beam_size) for values in (log_probs, scores)
    )
    of_tokens = sums - tf.pad(sums, [[0, 0], [0, 0], [1, 0]])[:, :, :-1]
    of_tokens = tf.where(ids == PAD_ID, 0.0, of_tokens)
    return Hypotheses(ids, log_probs, scores, is_finished, of_tokens)
