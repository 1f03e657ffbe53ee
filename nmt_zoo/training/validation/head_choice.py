"""The attention layer and head that align best, measured by links that are trained on a text."""

from collections.abc import Callable
from itertools import islice
from typing import Any

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.text_form import split_words
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.decoding.alignment.head_summaries import Head, summarise_heads
from nmt_zoo.decoding.alignment.links import GoldAlignment
from nmt_zoo.decoding.alignment.parallel_text import ParallelText
from nmt_zoo.training.validation.length_penalty import LEAST_LINES, MOST_LINES
from nmt_zoo.training.ways.expectation_maximisation.text_alignment import usual_links

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
