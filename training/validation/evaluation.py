"""Validation perplexity and BLEU."""

import math
from typing import NamedTuple

import tensorflow as tf

from data_pipeline.batching import Batching
from data_pipeline.pipeline import batches
from decoding.scores import corpus_scores

# Scores by which the best weights are chosen.
CRITERIA = ("perplexity", "bleu")
# Most pieces of a sentence whose attention is worth a picture. A larger one could not be read, nor,
# with hundreds of pieces, be drawn.
_MOST_PIECES = 100


class Evaluation(NamedTuple):
    """Scores on held-out text.

    Attributes:
        perplexity: exp of the negative log-likelihood a token, without label smoothing. If it is
            not finite, the model has diverged, and nothing was translated.
        bleu: sacreBLEU of greedy translations, 0 to 100; None if no line was translated.
        samples: list of (source, reference, translation).
        attention: of the first sample: (`[T, S]` weights, source pieces, target pieces); None if
            there is no sample, it is too long for a picture, or the model does not align words.
    """

    perplexity: float
    bleu: float | None
    samples: list
    attention: tuple | None = None

    @property
    def is_finite(self):
        """True if the perplexity is finite; otherwise the model has diverged."""
        return math.isfinite(self.perplexity)

    def figures(self):
        """Returns name -> score, without scores that were not measured."""
        return {"perplexity": self.perplexity, **({} if self.bleu is None else {"bleu": self.bleu})}

    def __str__(self):
        if not self.is_finite:
            return "valid perplexity is not finite"
        bleu = "" if self.bleu is None else f", BLEU {self.bleu:.2f} (greedy)"
        return f"valid perplexity {self.perplexity:.2f}{bleu}"

    def is_better(self, best, by):
        """Returns whether this evaluation beats an earlier score of the kind `by`.

        Every finite evaluation beats None and a score that is not finite. An evaluation that is
        not finite beats nothing.
        """
        if not self.is_finite:
            return False
        score = getattr(self, by)
        if best is None or not math.isfinite(best):
            return True
        return score < best if by == "perplexity" else score > best


def perplexity(nll):
    """Returns exp of a mean negative log-likelihood, or inf beyond the range of a float."""
    try:
        return math.exp(nll)
    except OverflowError:
        return math.inf


class Evaluator:
    """Scores a model with its current weights.

    Args:
        update: `Update` of the model, for its `evaluate`.
        translator: `Translator` of the same model, usually greedy.
        corpus: `EncodedCorpus` for perplexity.
        source_lines: list of str for BLEU; may be the head of the corpus, or empty.
        target_lines: list of str, their references.
        max_tokens: budget of a batch.
        num_samples: how many translations to show.
    """

    def __init__(
        self, update, translator, corpus, source_lines, target_lines, max_tokens, num_samples=3
    ):
        self.update = update
        self.translator = translator
        self.source_lines = source_lines
        self.target_lines = target_lines
        self.num_samples = num_samples
        longest = int(max(side.lengths.max() for side in corpus))
        self.batches = batches(corpus, Batching(max(max_tokens, longest)))

    def __call__(self):
        """Returns an `Evaluation`."""
        nll = tokens = 0.0
        for batch in self.batches:
            batch_nll, batch_tokens = self.update.evaluate(batch)["nll"]
            nll += float(batch_nll)
            tokens += float(batch_tokens)
        found = Evaluation(perplexity(nll / tokens), None, [])
        if not (self.source_lines and found.is_finite):
            return found
        best = [hypotheses[0] for hypotheses in self.translator.translate(self.source_lines)]
        outputs = [translation.text for translation in best]
        bleu = corpus_scores(outputs, [self.target_lines])["bleu"].score
        samples = list(zip(self.source_lines, self.target_lines, outputs, strict=True))
        attention = self._attention(self.source_lines[0], best[0].ids)
        return Evaluation(found.perplexity, bleu, samples[: self.num_samples], attention)

    def _attention(self, source_line, target_ids):
        model, tokenizer = self.update.model, self.translator.tokenizer
        if not (model.has_alignment and target_ids):
            return None
        (source_ids,) = tokenizer.source.encode([source_line])
        if max(len(source_ids), len(target_ids)) > _MOST_PIECES:
            return None
        weights = model.align(*(tf.constant([ids], tf.int32) for ids in (source_ids, target_ids)))
        pieces = tokenizer.source.pieces(source_ids), tokenizer.target.pieces(target_ids)
        return weights[0].numpy(), *pieces
