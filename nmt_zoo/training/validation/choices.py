"""What suits a trained model best on validation text: length penalty, and head that aligns."""

import functools
from collections.abc import Callable
from itertools import islice, pairwise
from typing import Any

import tensorflow as tf

from nmt_zoo.common.errors import UserError
from nmt_zoo.configuration.options import LENGTH_PENALTY, MAX_INPUT_TOKENS
from nmt_zoo.data_pipeline.text_form import is_blank, split_words
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.decoding.alignment.head_summaries import Head, summarise_heads
from nmt_zoo.decoding.alignment.links import GoldAlignment
from nmt_zoo.decoding.alignment.parallel_text import ParallelText
from nmt_zoo.decoding.scores import USUAL, ZERO, corpus_scores, p_values
from nmt_zoo.decoding.search.beam_search import make_search
from nmt_zoo.decoding.search.types import SearchOptions, SentenceOptions, padded
from nmt_zoo.models.base import Searchable
from nmt_zoo.training.ways.expectation_maximisation.text_alignment import usual_links

PENALTIES = (0.0, 0.4, 0.7, LENGTH_PENALTY, 1.2, 1.5, 2.0, 2.5)
LEAST_LINES = 100  # With fewer, differences of BLEU are chance.
MOST_LINES = 1000
SIGNIFICANT = 0.05
_LINES_AT_ONCE = 16


def penalty_choice(
    model: Searchable, tokenizer: Tokenizer, lines: Any, tokenize: str = USUAL
) -> Callable[..., Any] | None:
    """Returns a function that chooses the length penalty of best BLEU.

    Of the first `MOST_LINES` validation `lines` (source, target), those count whose source is
    neither empty nor too long, and whose target is not blank. `tokenize` is the tokenisation of
    BLEU. None if fewer than `LEAST_LINES` count, or the model has no steps.

    The function takes `is_late`, which it asks after every few lines; if that returns True, the
    lines before count. It returns a line to print and entries of search.json: `length_penalty`,
    pairs of penalty and `bleu`, and what these depend on; none if BLEU is 0 with each penalty.
    Or it returns None, if fewer than `LEAST_LINES` lines were translated.
    """
    sources, references = (side[:MOST_LINES] for side in lines)
    both = zip(tokenizer.source.encode(sources), tokenizer.target_words(references), strict=True)
    pairs = [(x, y) for x, y in both if 1 < len(x) <= MAX_INPUT_TOKENS and not is_blank(y)]
    if model.decoder_class or len(pairs) < LEAST_LINES:
        return None
    return functools.partial(_choose, model, tokenizer, pairs, tokenize)


def _choose(model, tokenizer, pairs, tokenize, is_late):
    options = SearchOptions(first=tokenizer.target.language_token)
    search = make_search(model, options, each_sentence=True)
    outputs, count = {penalty: [] for penalty in PENALTIES}, 0
    while count < len(pairs) and not is_late():
        group = pairs[count : count + _LINES_AT_ONCE]
        count += len(group)
        rows = [(penalty, ids) for penalty in PENALTIES for ids, _ in group]
        row_options = SentenceOptions(
            beam_size=tf.fill([len(rows)], options.beam_size),
            length_penalty=tf.constant([penalty for penalty, _ in rows], tf.float32),
            n_best=tf.ones([len(rows)], tf.int32),
        )
        best = search(padded([ids for _, ids in rows]), row_options).ids[:, 0].numpy()
        for (penalty, _), ids in zip(rows, best.tolist(), strict=True):
            outputs[penalty].append(tokenizer.target.decode(ids))
    if count < LEAST_LINES:
        return None
    penalty, bleu = choice(outputs, [reference for _, reference in pairs[:count]], tokenize)
    if penalty is None:
        return f"length penalty stays {LENGTH_PENALTY:g}, because valid BLEU is 0 with each", {}
    shown = ", ".join(f"{score:.2f} with {p:g}" for p, score in bleu.items())
    line = f"length penalty {penalty:g} from now on; valid BLEU of {count} lines, beam "
    facts = {"tokenize": tokenize, "lines": count, "beam_size": options.beam_size}
    entries = {"length_penalty": penalty, "bleu": list(bleu.items()), **facts}
    return f"{line}{options.beam_size}: {shown}", entries


def choice(
    outputs: dict[float, list[str]], references: list[str], tokenize: str = USUAL
) -> tuple[float | None, dict[float, float]]:
    """Chooses the penalty nearest to 1 of those not significantly worse than the best.

    References of one text are longer than those of another, so that the best penalty for validation
    text is often too large or small for the next text; but with less than 1, most translations are
    too short. And a penalty counts as no better than the next larger one: beyond 1, a search may
    suddenly prefer endless translations.

    `outputs` has translations by penalty, which rise. Returns the penalty, or None if BLEU is 0
    with each; and BLEU by penalty.
    """
    options = {"references": [references], "tokenize": tokenize}
    bleu = {p: corpus_scores(texts, **options)["bleu"].score for p, texts in outputs.items()}
    larger = dict(pairwise((*bleu, max(bleu))))
    counted = {penalty: min(bleu[penalty], bleu[larger[penalty]]) for penalty in bleu}
    best = max(bleu, key=lambda penalty: (counted[penalty], bleu[penalty]))
    if bleu[best] < ZERO:
        return None, bleu
    chance = zip(bleu, p_values(outputs[best], [*outputs.values()], **options), strict=True)
    worse = {penalty for penalty, p in chance if p < SIGNIFICANT and bleu[penalty] < bleu[best]}
    good = {penalty for penalty in bleu if not worse & {penalty, larger[penalty]}} | {best}
    return min(good, key=lambda penalty: abs(penalty - 1)), bleu


TO_LEARN = 20_000  # Pairs of which links are learnt; the first `MOST_LINES` judge the heads.
# Words of a side: a single one may be a sentence of a script without spaces, and many are slow.
_WORDS = range(2, 101)


def ranked_heads(
    model: Any, tokenizer: Tokenizer, text: ParallelText, name: str, shows: bool = True
) -> list[Head]:
    """Ranks heads, and the mean of each layer, by AER against links that align.py trains on a text.

    Of equal ones, `model.alignment` is first. `shows`: whether the training shows its progress.
    Raises UserError: as `summarise_heads`.
    """
    learnt, judged = ([side[:n] for side in text.lines] for n in (TO_LEARN, MOST_LINES))
    links = usual_links([map(split_words, side) for side in learnt], shows)
    gold = [GoldAlignment(*[frozenset(pair)] * 2) for pair in islice(links, MOST_LINES)]
    summary = summarise_heads(model, tokenizer, (text.names, judged), name=name, gold=gold)
    heads = [head for head in summary.heads if head.score]
    return sorted(heads, key=lambda h: (h.score.aer, (h.layer, h.head) != model.alignment))


def head_choice(model: Any, tokenizer: Tokenizer, lines: Any) -> Callable[..., Any] | None:
    """Returns a function that chooses the head that aligns best, as `penalty_choice` a penalty.

    Of the first `MOST_LINES` validation `lines` (source, target), those count whose sides have two
    to 100 words. None if fewer than `LEAST_LINES` count, or the model has no choice, or was guided.
    """
    sides = [side[:MOST_LINES] for side in lines]
    pairs = [p for p in zip(*sides, strict=True) if all(len(split_words(x)) in _WORDS for x in p)]
    if model.settings.get("alignment_head") != "mean" or len(pairs) < LEAST_LINES:
        return None
    text = ParallelText(("validation source", "its target"), [*zip(*pairs, strict=True)])

    def choose(is_late):
        if is_late():
            return None
        try:
            heads = ranked_heads(model, tokenizer, text, "the model", shows=False)
        except UserError as error:
            return f"no attention is chosen to align words: {error}", {}
        best = heads[0]
        usual = next(head for head in heads if (head.layer, head.head) == model.alignment)
        line = (
            f"words are aligned by {best}, from now on; AER against links trained on {len(pairs)} "
            f"validation lines: {best.score.aer:.4f} ({usual}: {usual.score.aer:.4f})"
        )
        return line, {"alignment": {"layer": best.layer, "head": best.head, "aer": best.score.aer}}

    return choose
