"""The length penalty that suits a trained model best, chosen on validation text."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from nmt_zoo.configuration.options import LENGTH_PENALTY, MAX_INPUT_TOKENS
from nmt_zoo.data_pipeline.text_form import is_blank
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.decoding.scores import USUAL, ZERO, corpus_scores, p_values
from nmt_zoo.decoding.search.beam_search import make_search
from nmt_zoo.decoding.search.types import SearchOptions, SentenceOptions, padded
from nmt_zoo.models.base import Searchable

PENALTIES = (0.0, 0.3, LENGTH_PENALTY, 1.0, 1.5, 2.0, 2.5, 3.0)
LEAST_LINES = 100  # With fewer, differences of BLEU are chance.
MOST_LINES = 1000
SIGNIFICANT = 0.05
_LINES_AT_ONCE = 16


class PenaltyChoice:
    """Chooses the length penalty of Wu et al. 2016 by the BLEU of a beam search.

    The first `MOST_LINES` sources count, if they are neither empty nor too long, and their
    reference is not blank. `tokenize` is the tokenisation of BLEU.
    """

    def __init__(
        self,
        model: Searchable,
        tokenizer: Tokenizer,
        sources: list[str],
        references: list[str],
        tokenize: str = USUAL,
    ):
        self.model = model
        self.tokenizer = tokenizer
        self.tokenize = tokenize
        ids = tokenizer.source.encode(sources[:MOST_LINES])
        self.pairs = [
            pair
            for pair in zip(ids, tokenizer.target_words(references[:MOST_LINES]), strict=True)
            if 1 < len(pair[0]) <= MAX_INPUT_TOKENS and not is_blank(pair[1])
        ]

    @property
    def is_possible(self) -> bool:
        """True if there are enough lines, and the model has steps to which a penalty applies."""
        return not self.model.decoder_class and len(self.pairs) >= LEAST_LINES

    def __call__(self, is_late: Callable[[], bool] = lambda: False) -> dict[str, Any] | None:
        """Translates with every penalty.

        `is_late` is asked after every few lines; the lines before count if it returns True.

        Returns:
            A dict: the `length_penalty` by `choice`, `bleu`, a list of pairs of penalty and BLEU,
            its `tokenize`, and the number of `lines` and `beam_size` behind it. None if fewer than
            `LEAST_LINES` lines were translated.
        """
        options = SearchOptions(first=self.tokenizer.target.language_token)
        search = make_search(self.model, options, each_sentence=True)
        outputs, count = {penalty: [] for penalty in PENALTIES}, 0
        while count < len(self.pairs) and not is_late():
            pairs = self.pairs[count : count + _LINES_AT_ONCE]
            count += len(pairs)
            rows = [(penalty, ids) for penalty in PENALTIES for ids, _ in pairs]
            row_options = SentenceOptions(
                beam_size=tf.fill([len(rows)], options.beam_size),
                length_penalty=tf.constant([penalty for penalty, _ in rows], tf.float32),
                n_best=tf.ones([len(rows)], tf.int32),
            )
            best = search(padded([ids for _, ids in rows]), row_options).ids[:, 0].numpy()
            for (penalty, _), ids in zip(rows, best.tolist(), strict=True):
                outputs[penalty].append(self.tokenizer.target.decode(ids))
        if count < LEAST_LINES:
            return None
        references = [reference for _, reference in self.pairs[:count]]
        penalty, bleu = choice(outputs, references, self.tokenize)
        return {
            "length_penalty": penalty,
            "bleu": list(bleu.items()),
            "tokenize": self.tokenize,
            "lines": count,
            "beam_size": options.beam_size,
        }


def choice(
    outputs: dict[float, list[str]], references: list[str], tokenize: str = USUAL
) -> tuple[float | None, dict[float, float]]:
    """Chooses the penalty nearest to the usual one of those not significantly worse than the best.

    References of one text are longer than those of another, so that the best penalty for validation
    text is often too far from the usual one for the next text.

    `outputs` has translations by penalty. Returns the penalty, or None if BLEU is 0 with each; and
    BLEU by penalty.
    """
    options = {"references": [references], "tokenize": tokenize}
    bleu = {p: corpus_scores(texts, **options)["bleu"].score for p, texts in outputs.items()}
    best = max(bleu, key=bleu.get)
    if bleu[best] < ZERO:
        return None, bleu
    chance = p_values(outputs[best], outputs.values(), **options)
    good = [
        penalty
        for penalty, p in zip(outputs, chance, strict=True)
        if p >= SIGNIFICANT or bleu[penalty] == bleu[best]
    ]
    return min(good, key=lambda penalty: abs(penalty - LENGTH_PENALTY)), bleu
