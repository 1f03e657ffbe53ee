"""Puts the constraints of a search around a model: changes the scores of its tokens and ends."""

from collections.abc import Collection
from typing import Any

import tensorflow as tf

from nmt_zoo.decoding.search import constraints
from nmt_zoo.decoding.search.required import Banks, PhraseProgress
from nmt_zoo.decoding.search.terms import Guests, SearchOptions, SpecialIds
from nmt_zoo.models import StepOutput
from nmt_zoo.models.base import Searchable

# Inputs of a search that belong to its sentences, besides their ids.
GIVEN = {
    "prefix": tf.TensorSpec([None, None], tf.int32),  # [B, P], how a translation begins; padded.
    "required": tf.TensorSpec([None, None, None], tf.int32),  # [B, R, L], phrases; padded.
    "noise": tf.TensorSpec([None, None], tf.int32),  # [B, T], random 32 bits for each draw.
}


def is_constrained(options: SearchOptions, given: Collection[str]) -> bool:
    """Returns whether `Constrained` is needed, by the options and the names of inputs."""
    names = ("min_length_factor", "no_repeat_ngram", "coverage_penalty", "sample", "rules")
    names += ("word_reward",)
    return bool(given) or options.banned is not None or any(getattr(options, n) for n in names)


class Constrained:
    """Scores tokens as a model does, but finds those impossible that break a constraint.

    It has the methods of `models.base.Searchable`, so the search is not concerned. The state also
    holds the tokens of each hypothesis and what the constraints need to know of them. `limits` are
    `[B]` int32, most tokens of each sentence's translations; `given` are some of `GIVEN`, by name;
    `joints` are `phrases.word_joints`, needed if phrases are required.
    """

    def __init__(
        self,
        model: Searchable,
        options: SearchOptions,
        special_ids: SpecialIds,
        limits: tf.Tensor,
        given: dict[str, tf.Tensor],
        joints: tuple[Any, Any] | None = None,
    ) -> None:
        self.model = model
        self.options = options
        self.special_ids = special_ids
        self.limits = limits
        self.given = given
        self.joints = joints
        self.target_vocab_size = model.target_vocab_size
        self.scores_only_fall = model.scores_only_fall and options.word_reward <= 0

    def guests(self) -> Guests:
        beta = self.options.coverage_penalty

        def progress(output):
            return PhraseProgress(*output.state["required"])

        def ending(output):
            return beta * constraints.coverage_penalty(output.state["attended"])

        return Guests(
            banks=Banks(progress, self.joints) if "required" in self.given else None,
            ending=ending if beta else None,
        )

    def log_normaliser(self, logits: tf.Tensor) -> tf.Tensor:
        """Returns 0: the logits are log-probabilities already."""
        return tf.zeros_like(logits[:, :1])

    def encode(self, source_ids: tf.Tensor) -> dict[str, Any]:
        """Context: the model's, the limits and what is given for each sentence."""
        is_token = source_ids != self.special_ids.pad
        length = tf.reduce_sum(tf.cast(is_token, tf.int32), axis=1)
        least = tf.cast(self.options.min_length_factor * tf.cast(length, tf.float32), tf.int32)
        # A model that considers only some tokens has to consider those that are asked for.
        asked = [self.given[name] for name in ("prefix", "required") if name in self.given]
        if asked:
            asked = [tf.reshape(tokens, [tf.shape(length)[0], -1]) for tokens in asked]
            context = self.model.encode_to_score(source_ids, tf.concat(asked, axis=1))
        else:
            context = self.model.encode(source_ids)
        return {
            "model": context,
            "given": self.given,
            "limit": self.limits,
            "least": tf.minimum(least, self.limits),
            "is_word": is_token & (source_ids != self.special_ids.eos),
        }

    def initial_state(self, context: dict[str, Any]) -> dict[str, Any]:
        """State: the model's, `ids` `[B, t]` with `<s>`, and what single constraints follow."""
        num_rows = tf.shape(context["limit"])[0]
        state = {
            "model": self.model.initial_state(context["model"]),
            "ids": tf.zeros([num_rows, 0], tf.int32),
        }
        if self.options.banned is not None:
            state["banned"] = self.options.banned.start(num_rows)
        if self.options.coverage_penalty:
            # What is no word needs no attention.
            state["attended"] = tf.cast(~context["is_word"], tf.float32)
        if "required" in self.given:
            state["required"] = tuple(PhraseProgress.start(context["given"]["required"]))
        return state

    def decode_step(
        self, token_ids: tf.Tensor, step: tf.Tensor, state: dict[str, Any], context: dict[str, Any]
    ) -> StepOutput:
        """As `Searchable`; the logits are log-probabilities, or impossible."""
        output = self.model.decode_step(token_ids, step, state["model"], context["model"])
        log_probs = output.logits - self.model.log_normaliser(output.logits)
        num_beams = tf.shape(token_ids)[0] // tf.shape(context["limit"])[0]
        context = {name: value for name, value in context.items() if name != "model"}
        context = tf.nest.map_structure(lambda leaf: tf.repeat(leaf, num_beams, axis=0), context)
        state = self._followed(state, token_ids, output)
        scores = self._constrained(log_probs, step, state, context)
        return StepOutput(scores, state, output.attention)

    def _followed(self, state, token_ids, output):
        state = {
            **state,
            "model": output.state,
            "ids": tf.concat([state["ids"], token_ids[:, None]], axis=1),
        }
        if "banned" in state:
            state["banned"] = self.options.banned.follow(state["banned"], token_ids)
        if "attended" in state:
            state["attended"] += output.attention
        if "required" in state:
            progress = PhraseProgress(*state["required"])
            state["required"] = tuple(progress.follow(token_ids, self.joints))
        return state

    def _constrained(self, log_probs, step, state, context):
        """Applies the constraints, the strictest last: no other may undo a prefix."""
        options, special_ids, given = self.options, self.special_ids, context["given"]
        eos = special_ids.eos
        scores = constraints.bar(log_probs, special_ids.are_never(self.target_vocab_size))
        if options.min_length_factor:
            scores = constraints.bar_token(scores, eos, step + 1 < context["least"])
        if options.no_repeat_ngram:
            scores = constraints.bar_repeated_ngrams(scores, state["ids"], options.no_repeat_ngram)
        if "required" in state:
            scores = self._requiring(scores, log_probs, step, state, context)
        if options.banned is not None:
            scores = options.banned.bar(scores, state["banned"])
        if options.word_reward:
            is_end = tf.range(self.target_vocab_size) == eos
            scores += tf.where(is_end, 0.0, options.word_reward)
            log_probs += tf.where(is_end, 0.0, options.word_reward)
        for rule in options.rules:
            scores = tf.ensure_shape(rule.change(scores, state["ids"]), scores.shape)
        if "prefix" in given:
            # A column of padding, so that there is one to read after the longest prefix.
            prefix = tf.pad(given["prefix"], [[0, 0], [0, 1]], constant_values=special_ids.pad)
            token = prefix[:, tf.minimum(step, tf.shape(prefix)[1] - 1)]
            is_given = token != special_ids.pad
            forced = constraints.only(log_probs, token)
            scores = tf.where(is_given[:, None], forced, scores)
        if options.sample:
            noise = given["noise"][:, tf.minimum(step, tf.shape(given["noise"])[1] - 1)]
            token = constraints.draw(
                scores,
                noise,
                temperature=options.temperature,
                top_k=options.top_k,
                top_p=options.top_p,
            )
            scores = constraints.only(scores, token)
        return scores

    def _requiring(self, scores, log_probs, step, state, context):
        """Keeps hypotheses from ending too early, and from having too little room for a phrase."""
        progress = PhraseProgress(*state["required"])
        left = progress.num_left
        scores = constraints.bar_token(scores, self.special_ids.eos, left > 0)
        room = context["limit"] - step - 2
        fits = progress.leaves_room(room, self.joints)
        scores = constraints.bar(scores, ~fits)
        # Where only phrases fit, they may repeat n-grams.
        is_urgent = (left > 0) & (progress.num_unmet > room)
        return tf.where(is_urgent[:, None], constraints.bar(log_probs, ~fits), scores)
