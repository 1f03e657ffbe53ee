"""Validation perplexity and BLEU."""

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

import numpy as np

from nmt_zoo.data_pipeline.batching import Batching
from nmt_zoo.data_pipeline.encoded import EncodedCorpus
from nmt_zoo.data_pipeline.pipeline import dataset_of, plan_batches
from nmt_zoo.data_pipeline.text_form import is_blank
from nmt_zoo.decoding.scores import USUAL, ZERO, corpus_scores
from nmt_zoo.decoding.translator import Translator
from nmt_zoo.training.ways.base import WayOfTraining

# Scores by which the best weights are chosen.
CRITERIA = ("perplexity", "bleu")
_SAMPLES = 3  # Translations to print.


class Evaluation(NamedTuple):
    """Scores on held-out text."""

    # Exp of the negative log-likelihood a token, without label smoothing. If it is not finite, the
    # model has diverged, and nothing was translated.
    perplexity: float
    # sacreBLEU of translations with a beam of 1, 0 to 100; None if no line was translated.
    bleu: float | None
    samples: list  # list of (source, reference, translation)
    # The name and the scores of each text, if there are several.
    texts: tuple[tuple[str, "Evaluation"], ...] = ()
    is_judged: bool = True  # by the perplexity; else BLEU alone is printed, if it is known

    @property
    def is_finite(self) -> bool:
        """True if the perplexity is finite; otherwise the model has diverged."""
        return math.isfinite(self.perplexity)

    def figures(self) -> dict[str, float]:
        """Returns name -> score, without scores that were not measured."""
        return {"perplexity": self.perplexity, **({} if self.bleu is None else {"bleu": self.bleu})}

    def __str__(self):
        if not self.is_finite:
            return "valid perplexity is not finite"
        bleu = "" if self.bleu is None else f"BLEU {self.bleu:.2f}"
        if bleu and not self.is_judged:
            return f"valid {bleu}"
        return f"valid perplexity {self.perplexity:.2f}" + (f", {bleu}" if bleu else "")

    def all_figures(self) -> dict[str, float]:
        """Returns the `figures`, and those of each text with its name before them."""
        own = self.figures()
        for text, evaluation in self.texts:
            scores = evaluation.figures()
            own |= {f"{text}: {name}": score for name, score in scores.items()}
        return own

    def is_better(self, best: dict[str, float] | None, by: str) -> bool:
        """Returns whether this evaluation beats the `figures` of an earlier one, `best`.

        `by` is one of `CRITERIA`. By BLEU, perplexity decides among evaluations whose BLEU is 0.
        Every finite evaluation beats None and one that is not finite. An evaluation that is not
        finite beats nothing.
        """
        return self.is_finite and (best is None or _rank(self.figures(), by) > _rank(best, by))


def is_above_zero(bleu: float | None) -> bool:
    """Returns whether BLEU, or None, would not be printed as 0.00."""
    return (bleu or 0.0) >= ZERO


def _rank(figures, by):
    """Returns what orders evaluations, the best last."""
    perplexity, bleu = figures.get("perplexity"), figures.get("bleu")
    if by == "bleu" and is_above_zero(bleu):
        return 1, bleu
    return 0, -perplexity if perplexity and math.isfinite(perplexity) else -math.inf


def perplexity(nll: float) -> float:
    """Returns exp of a mean negative log-likelihood, or inf beyond the range of a float."""
    try:
        return math.exp(nll)
    except OverflowError:
        return math.inf


@dataclass(eq=False)
class Evaluator:
    """Scores a model with its current weights."""

    way: WayOfTraining  # Of the model, for its `evaluate`.
    translator: Translator  # Of the same model, usually greedy.
    corpus: EncodedCorpus  # For perplexity.
    # For BLEU; may be the head of the corpus, or empty. Lines whose reference is blank are not
    # translated.
    source_lines: list[str]
    target_lines: list[str]  # Their references.
    max_tokens: int  # Budget of a batch.
    _: KW_ONLY
    tokenize: str = USUAL  # Tokenisation of BLEU.
    # Of the text of each pair of the corpus, and so of the lines, which are its head; if there are
    # several texts.
    names: Sequence[str] = ()

    def __post_init__(self):
        references = self.translator.tokenizer.target_words(self.target_lines)
        names = self.names[: len(references)] or [""] * len(references)
        rows = list(zip(self.source_lines, references, names, strict=True))
        rows = [row for row in rows if not is_blank(row[1])]
        self.source_lines = [source for source, *_ in rows]
        self.target_lines = [target for _, target, _ in rows]
        self._line_names = [name for *_, name in rows]
        self.batches = {}
        # Blank lines divide documents; as pairs, their probability would mean nothing.
        is_pair = np.maximum(*(side.lengths for side in self.corpus)) > 1
        texts = np.array(self.names or [""] * is_pair.size)
        for name in dict.fromkeys(self.names or [""]):
            rows = np.flatnonzero((texts == name) & (is_pair | ~is_pair[texts == name].any()))
            corpus = EncodedCorpus(*(side.take(rows) for side in self.corpus))
            longest = max(int(side.lengths.max()) for side in corpus)
            plan = plan_batches(corpus, Batching(max(self.max_tokens, longest)))
            self.batches[name] = dataset_of(corpus, plan)

    def __call__(self) -> Evaluation:
        sums = {name: self._nll(batches) for name, batches in self.batches.items()}
        nll, tokens = map(sum, zip(*sums.values(), strict=True))
        whole = Evaluation(perplexity(nll / tokens), None, [])
        translated = self._translate() if whole.is_finite else []
        texts = []
        for name, (nll, tokens) in sums.items() if self.names else ():
            named = zip(translated, self._line_names, strict=False)  # None were, if it diverged.
            bleu = self._bleu([line for line, of in named if of == name])
            texts.append((name, Evaluation(perplexity(nll / tokens), bleu, [])))
        return whole._replace(
            is_judged=self.way.judged_by_perplexity,
            bleu=self._bleu(translated),
            samples=translated[:_SAMPLES],
            texts=tuple(texts),
        )

    def _translate(self):
        """Returns (source, reference, translation) of each line."""
        translations = self.translator.translate(self.source_lines)
        outputs = [best.text for best, *_ in translations]
        return [*zip(self.source_lines, self.target_lines, outputs, strict=True)]

    def _nll(self, batches):
        """Returns the (negative log-likelihood, number of tokens) of batches."""
        nll = tokens = 0.0
        for batch in batches:
            batch_nll, batch_tokens = self.way.evaluate(batch)["nll"]
            nll += float(batch_nll)
            tokens += float(batch_tokens)
        return nll, tokens

    def _bleu(self, samples):
        """Returns BLEU of (source, reference, translation); None without lines."""
        if not samples:
            return None
        _, references, outputs = zip(*samples, strict=True)
        scores = corpus_scores(list(outputs), [list(references)], tokenize=self.tokenize)
        return scores["bleu"].score
