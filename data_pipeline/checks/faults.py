"""Looks for the usual faults of text files before a run is trained on them.

Nothing here stops a run: what is unlikely may be meant, such as a task to copy lines.
"""

import itertools
import re
from collections.abc import Iterator

import numpy as np

from nmt_zoo.data_pipeline.checks import languages, pairing, samples
from nmt_zoo.data_pipeline.checks.repetitions import Repetitions
from nmt_zoo.data_pipeline.checks.samples import Side, place, quoted
from nmt_zoo.data_pipeline.text_form import normalised

_RARE = 0.01  # Share of pairs with a fault that is worth a line.
_LEAST_KNOWN = 0.3  # Share of the words of a held-out text that its training text knows.
_SIDES = ("source", "target")
# Names of columns: fields, numbers, codes and names of languages.
_NAME = re.compile(
    r"(id|no|nr|idx|index|line|score|\d{1,2}|source|target|src|tgt|trg|input|output|text|sentence|"
    r"translation|reference|original|[a-z]{2,3}([-_][a-z]{2,4})?|english|german|deutsch|french|"
    r"français|spanish|español|italian|italiano|portuguese|dutch|russian|chinese|japanese|korean|"
    r"arabic|turkish|czech|polish|ukrainian|vietnamese|hindi)"
    r"([ _-]?\d|[ _-]([a-z]{2}|id|text|sentence|language|lang))?"
)


def remarks(
    train: Side, held_out: dict[str, Side], *, own: bool, in_documents: bool = False
) -> Iterator[str]:
    """Yields a line of text about each kind of fault in a training text and its held-out texts.

    `train` is (source, target), or (target,) for a language model; `held_out` is {"validation":
    sides, ...}. Of a published corpus, which is not the user's `own`, only the pairing of its
    lines, and what its parts have in common, are looked at. Lines that are read after those before
    them, `in_documents`, may be equal.
    """
    texts = {"training": train, **held_out}
    lines = {
        name: [tuple(map(normalised, pair)) for pair in zip(*sides, strict=True)]
        for name, sides in held_out.items()
    }
    if own:
        yield from itertools.chain.from_iterable(map(_headers, texts.values()))
    if len(train) == 2:
        blocks = {name: samples.blocks_of(sides) for name, sides in texts.items()}
        if own and blocks["training"]:
            yield from _languages(texts, blocks, lines)
        yield from _shifts(texts, blocks)
    if in_documents:
        return
    found = Repetitions(train, [*itertools.chain.from_iterable(lines.values())])
    if own:
        yield from found.within()
    for name, pairs in lines.items():
        yield from found.overlap(name, texts[name], pairs)


def _headers(sides):
    """Yields a line about each file that begins with the names of its columns."""
    for block in samples.heads_of(sides):
        names = [all(_NAME.fullmatch(text.lower()) for text in pair) for pair in block.pairs]
        # Where such lines are common, they are the text, as in a dictionary.
        if names[0] and len(names) > 1 and sum(names[1:]) <= len(names) / 100:
            shown = " and ".join(map(quoted, block.pairs[0]))
            what = "look like names of columns" if len(sides) == 2 else "looks like a column's name"
            yield (
                f"{place(sides[0], block.start)}: {shown} {what}; remove this line from "
                "each file, for example with `tail -n +2`"
            )


def _shifts(texts, blocks):
    """Yields lines about texts with sides that are paired wrongly."""
    found = iter(pairing.pairings([block for name in texts for block in blocks[name]]))
    for name, (source, target) in texts.items():
        judged = list(zip(blocks[name], found, strict=False))
        shifted = [(block, pair) for block, pair in judged if pair.offset]
        apart = [block for block, pair in judged if not (pair.offset or pair.is_related)]
        if shifted:
            block, pair = shifted[0]
            yield (
                f"the {name} text is shifted in {len(shifted)} of {len(judged)} samples: from "
                f"about {place(source, block.start)} on, line n belongs to line n{pair.offset:+} "
                f"of {target.paths[0]} ({quoted(block.pairs[pair.example][0])} to "
                f"{quoted(block.pairs[pair.example + pair.offset][1])}); nothing can be learnt "
                "from such pairs: find the line that is missing or too many before there"
            )
        if len(apart) > len(judged) / 20:
            block = apart[0]
            yield (
                f"the sides of the {name} text do not translate each other in {len(apart)} of "
                f"{len(judged)} samples, from about {place(source, block.start)} on "
                f"({quoted(block.pairs[0][0])} and {quoted(block.pairs[0][1])}); nothing can be "
                "learnt from such pairs: check whether both files have the same order"
            )


def _languages(texts, blocks, held_out):
    """Yields lines about sides in another language; turns blocks of texts with swapped sides."""
    judge = languages.Judge([pair for block in blocks["training"] for pair in block.pairs])
    for name, pairs in held_out.items():
        swapped, foreign = judge.languages(pairs)
        if swapped.mean() > 0.5:
            blocks[name] = [b._replace(pairs=[p[::-1] for p in b.pairs]) for b in blocks[name]]
            yield (
                f"{place(texts[name][0], 0)}: {quoted(pairs[0][0])}: source and target of the "
                f"{name} text are swapped, compared with the training text; name its files the "
                "other way round"
            )
            continue
        for side, what in enumerate(_SIDES):
            known = judge.known([pair[side] for pair in pairs], side)
            if known < _LEAST_KNOWN or foreign[side].mean() > 0.5:
                yield (
                    f"{place(texts[name][side], 0)}: {quoted(pairs[0][side])}: the training text "
                    f"has only {known:.0%} of the words of the {name} text on the {what} side; "
                    "check whether both are in the same language"
                )
    yield from _training_languages(texts["training"], blocks["training"], judge)


def _training_languages(train, blocks, judge):
    """Yields lines about training pairs in other languages than most."""
    pairs = [pair for block in blocks for pair in block.pairs]
    numbers = [block.start + i for block in blocks for i in range(len(block.pairs))]
    swapped, foreign = judge.languages(pairs)
    kinds = [("source and target are swapped", 0, swapped)]
    for side, what in enumerate(_SIDES):
        lines = [pair[side] for pair in pairs]
        strange = languages.strange_scripts(lines) & ~swapped & ~foreign[side]
        only_number = np.array([line.isdecimal() for line in lines])
        kinds += [
            (f"the {what} is in the language of the other side", side, foreign[side]),
            (f"the {what} is in another script than elsewhere", side, strange),
            (f"the {what} is only a number", side, only_number),
        ]
    for how, side, where in kinds:
        if where.mean() > _RARE:
            n = where.argmax()
            yield (
                f"in {where.sum():,} of {len(pairs):,} training pairs that were looked at, {how} "
                f"({place(train[side], numbers[n])}: {quoted(pairs[n][side])}); correct or remove "
                "such pairs"
            )
