"""Aligns a text by models that are trained on that text, with NumPy only, without TensorFlow."""

import contextlib
import math
import time
from array import array
from collections.abc import Iterable, Sequence

import numpy as np

from nmt_zoo.common.progress import Progress
from nmt_zoo.data_pipeline.encoded import EncodedCorpus, EncodedSide
from nmt_zoo.data_pipeline.text_form import FIRST, JOINER, looks_tokenised, split_parts
from nmt_zoo.training.ways.expectation_maximisation.chunks import ChunkedText
from nmt_zoo.training.ways.expectation_maximisation.corpus_links import (
    CorpusLinks,
    best_links,
    links_of_both,
)
from nmt_zoo.training.ways.expectation_maximisation.engine import (
    FERTILITIES,
    HMM,
    HMM_BEFORE_FERTILITIES,
    MODEL_1,
    MODEL_2,
    EMEngine,
    Engine,
    LeaveOneOutEngine,
)

Sides = Sequence[EncodedSide]  # (source, target)

# Model of align.py -> its chain.
CHAINS = {
    "ibm1": (MODEL_1,),
    "ibm2": (MODEL_1, MODEL_2),
    "hmm": (MODEL_1, HMM),
    "fertility": (MODEL_1, HMM_BEFORE_FERTILITIES, FERTILITIES),
}

# Iterations of each stage. With fertilities, rows of links sharpen quickly, right or wrong.
ITERATIONS = {**dict.fromkeys(CHAINS, 5), "fertility": 2}
# Dirichlet prior of every source word's translations: rare words translate sparsely.
_PRIOR = 0.1
_SMOOTHING = 0.02  # Share of every row that all target words get, as in `models.ibm`.
COLLAPSED_PRIOR = 0.001  # Smaller, as a link is no evidence for itself.
LIKELY = 0.5  # Default of the mean posterior of a link in both directions.
NULL = 0  # The number of the word NULL at the end of every sentence.


def number_words(lines: Iterable[list[str]]) -> EncodedSide:
    """Encodes the words of each line as numbers, with NULL at the end of every line.

    In text that does not look tokenised, words count without the marks beside them.
    """
    ids, lengths, numbers, first, bare = array("i"), array("i"), {}, [], {}
    for words in lines:
        if len(first) < FIRST:
            first.append(" ".join(words))
        ids.extend([numbers.setdefault(word, len(numbers) + NULL + 1) for word in words])
        ids.append(NULL)
        lengths.append(len(words) + 1)
    ids = np.frombuffer(ids, np.int32)
    if not looks_tokenised(first):
        plain = (next(p for p in split_parts(word) if JOINER not in p) for word in numbers)
        merged = [NULL, *(bare.setdefault(part, len(bare) + NULL + 1) for part in plain)]
        ids = np.array(merged, np.int32)[ids]
    return EncodedSide(ids, np.frombuffer(lengths, np.int32))


def align_text(
    sides: Sides,
    model: str = "fertility",
    iterations: int | None = None,
    *,
    threshold: float | None = None,
    both: bool = True,
    shows: bool = True,
) -> list[CorpusLinks]:
    """Trains one direction, or both so that they agree, on a text; aligns the text.

    `sides` (source, target) come from `number_words`; `model` is a key of `CHAINS`, and every model
    of that chain gets `iterations`, at least 1 (None: as `ITERATIONS`). `shows`: with progress.

    Returns:
        With a `threshold`, one `CorpusLinks`: links whose mean of the two posteriors is above it,
        the geometric mean without fertilities. Otherwise, for each direction, the best source word
        of each target word, unless it is NULL; those of the reverse direction reversed.
    """
    iterations = iterations or ITERATIONS[model]
    # Each iteration reads the text once, those with fertilities twice, and so do the first and
    # the last step: uniform posteriors, and the links.
    passes = 2 + iterations * 4 if model == "fertility" else 1 + iterations * len(CHAINS[model])
    corpus = EncodedCorpus(*sides)
    bar = ("aligning", corpus.num_pairs * passes, "sentence pairs")
    with Progress(*bar) if shows else contextlib.nullcontext() as progress:
        began = time.monotonic()
        text = ChunkedText(corpus, progress, both=both)
        _report(text, f"{text.directions[0].rows.num_pairs:,} word pairs numbered", began)
        engine = train(text, model, iterations)

        def is_link(forward, reverse):
            if model == "fertility":
                return forward + reverse > 2 * threshold
            return forward * reverse > threshold**2

        def find(number, parts):
            posteriors = engine.posteriors(number, parts)
            if threshold is not None:
                posteriors = [p.astype(np.float32, copy=False) for p in posteriors]
                return [links_of_both(parts, posteriors, is_link)]
            best = map(best_links, parts, posteriors)
            return [links if not i else links.reversed() for i, links in enumerate(best)]

        return [CorpusLinks.joined(chunks) for chunks in zip(*text.each(find), strict=True)]


def usual_links(words: Sequence[Iterable[Sequence[str]]], shows: bool = True) -> CorpusLinks:
    """Returns the links that align.py finds by default; `words` of each line, (source, target)."""
    (links,) = align_text([number_words(side) for side in words], threshold=LIKELY, shows=shows)
    return links


def train(text: ChunkedText, model: str, iterations: int) -> Engine:
    """Trains the models of a chain (a key of `CHAINS`) in turn; two directions learn to agree."""
    if model == "fertility":
        engine = LeaveOneOutEngine(text, COLLAPSED_PRIOR)
    else:
        engine = EMEngine(text, _PRIOR, _SMOOTHING)
    for stage in CHAINS[model]:
        engine.begin(stage)
        for number in range(1, iterations + 1):
            began = time.monotonic()
            line = f"{stage.name}, iteration {number}"
            log_likelihoods = engine.step()
            if not stage.fertile:
                sides = zip(text.directions, log_likelihoods, strict=True)
                rates = (math.exp(-total / max(side.num_tokens, 1)) for side, total in sides)
                line += f": perplexity {' and '.join(f'{rate:,.2f}' for rate in rates)}"
            _report(text, line, began)
    return engine


def _report(text, line, began):
    """Prints a line with the rate of work since a time, in pairs a second of one direction."""
    if text.progress:
        rate = text.num_sentences * len(text.directions) / max(time.monotonic() - began, 1e-9)
        text.progress.say(f"{line} ({rate:,.0f} pairs/s)")
