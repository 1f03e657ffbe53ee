"""Decoding rules of the user's own: they change the scores of tokens during a search."""

from typing import Any

from nmt_zoo.common.errors import UserError

RULES: dict[str, type["DecodingRule"]] = {}  # By name; `nmt_zoo.register` adds to it.


class DecodingRule:
    """A rule for translations. A subclass defines `change`; `vocabulary` is of the target.

    Example:
        class NoComma(DecodingRule):
            def change(self, scores, ids):
                return tf.where(tf.range(scores.shape[1]) == self.comma, IMPOSSIBLE, scores)
    """

    def __init__(self, vocabulary: Any):
        self.vocabulary = vocabulary

    def change(self, scores: Any, ids: Any) -> Any:
        """Returns changed scores, `[N, V]` float32, of the next token of N hypotheses.

        `scores` are log-probabilities; `ids` `[N, t]` int32 the tokens so far, of which the first
        is `<s>`. `decoding.search.types.IMPOSSIBLE` rules a token out.
        """
        raise NotImplementedError

    def process(self, scores: Any, partial: Any) -> Any:
        """As `processors.Processor`."""
        import tensorflow as tf

        return tf.ensure_shape(self.change(scores, partial.ids), scores.shape)


def rules_of(names: str, vocabulary: Any) -> tuple[DecodingRule, ...]:
    """Makes the rules with comma-separated names; raises UserError if one is not registered."""
    for name in names.split(","):
        if name not in RULES:
            raise UserError(
                f"--rules={name}: no such rule is registered; give it with its file, as "
                f"--rules=my_rules.py:{name}"
            )
    return tuple(RULES[name](vocabulary) for name in names.split(","))
