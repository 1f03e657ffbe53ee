"""Looks for what users do wrong most with text files, before a run is trained on them.

Finds sides that are shifted or swapped, text in another script, and sentences that are repeated or
also held out. `encoded.PairFilter` drops empty and long lines. Nothing here stops a
run: what is unlikely may be meant, such as a task to copy lines.
"""

import collections
import itertools
import re
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np

from nmt_zoo.common.progress import Progress
from nmt_zoo.data_pipeline.lines import Lines
from nmt_zoo.data_pipeline.text_form import core, normalised, script_of

Sides: TypeAlias = tuple[Lines, ...]  # Source and target; of a language model, the target.
_BLOCK = 100  # Lines of a sample.
_MAX_BLOCKS = 50
_FARTHEST = 3  # Lines that a side may be shifted by, in either direction.
_OFFSETS = range(-_FARTHEST, _FARTHEST + 1)
_MAX_UNITS = 500  # Of a side, for shifts.
_MAX_PAIRS = 1_000_000  # That are looked at for repetitions; of a longer text, every k-th part.
_PART = 1000  # Pairs.
# A character of a script without spaces, a word, or a mark that most languages share.
_UNITS = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]|[^\W_]+|[?!]"
)

_ENTITY = re.compile(r"&(?:amp|quot|apos|lt|gt|nbsp|#\d{2,5}|#x[0-9a-fA-F]{2,4});")


def text_warnings(
    train: Sides, held_out: dict[str, Sides], *, own: bool, in_documents: bool = False
) -> Iterator[str]:
    """Yields a line of text about each kind of fault in a training text and its held-out texts.

    `train` is (source, target), or (target,) for a language model; `held_out` is {"validation":
    sides, ...}. Of a published corpus, which is not the user's `own`, only the pairing of its
    lines, and what its parts have in common, are looked at. Lines that are read after those before
    them, `in_documents`, may be equal.
    """
    texts = {"training": train, **held_out}
    pairs = {
        name: [tuple(map(normalised, pair)) for pair in zip(*sides, strict=True)]
        for name, sides in held_out.items()
    }
    if len(train) == 2:
        blocks = {name: _samples(sides) for name, sides in texts.items()}
        if own and blocks["training"]:
            yield from _scripts(train, blocks["training"])
            yield from _entities(train, blocks["training"])
            for name, swapped in _swapped(texts, blocks["training"], pairs):
                blocks[name] = []
                yield swapped
        yield from _shifts(texts, blocks)
    if not in_documents:
        yield from _repetitions(texts, pairs, own)


def _samples(sides):
    """Returns (number of pairs before it, pairs in the one form) of blocks all over a text."""
    lines, position, size = zip(*sides, strict=True), 0, len(sides[0])
    blocks, count = [], min(size // _BLOCK, _MAX_BLOCKS)
    for start in np.linspace(0, size - _BLOCK, count, dtype=int).tolist():
        pairs = itertools.islice(lines, start - position, start - position + _BLOCK)
        blocks.append((start, [tuple(map(normalised, pair)) for pair in pairs]))
        position = start + _BLOCK
    return blocks


def _units(line):
    """Returns the set of the beginnings of the words of a line; endings tell little of a word."""
    return {unit[:5] for unit in _UNITS.findall(line.casefold())}


def _scripts(train, blocks):
    """Yields a line about each side of which over 1% is in a script that under 10% have."""
    for side, name in enumerate(("source", "target")):
        lines = {n: pair[side] for start, pairs in blocks for n, pair in enumerate(pairs, start)}
        scripts = {number: _main_script(line) for number, line in lines.items()}
        counts = collections.Counter(scripts.values())
        strange = [n for n, s in scripts.items() if s and counts[s] < len(lines) / 10]
        if len(strange) > len(lines) / 100:
            yield (
                f"in {len(strange):,} of {len(lines):,} training pairs that were looked at, the "
                f"{name} is in another script than elsewhere ({train[side].line_name(strange[0])}: "
                f"{_quoted(lines[strange[0]])}); correct or remove such pairs"
            )


def _entities(train, blocks):
    """Yields a line if over 1% of the pairs have entities of HTML, as Moses writes them."""
    pairs = {n: pair for start, pairs in blocks for n, pair in enumerate(pairs, start)}
    escaped = [(n, i) for n, pair in pairs.items() for i in (0, 1) if _ENTITY.search(pair[i])]
    count = len({n for n, _ in escaped})
    if count > len(pairs) / 100:
        number, side = escaped[0]
        line, place = pairs[number][side], train[side].line_name(number)
        yield (
            f"{count:,} of {len(pairs):,} training pairs that were looked at have entities, "
            f"{_ENTITY.search(line)[0]} ({place}: {_quoted(line)}); text to "
            "translate has characters in their place: decode them, for example with Python's "
            "html.unescape"
        )


def _main_script(line):
    """Returns the script of most letters of a line, such as "LATIN"; None without letters."""
    counts = collections.Counter(script_of(c) for c in line[:100] if c.isalpha())
    script = counts.most_common(1)[0][0] if counts else None
    return "CJK" if script in ("HIRAGANA", "KATAKANA") else script


def _swapped(texts, blocks, held_out):
    """Yields (name, line) about each held-out text with swapped sides."""
    samples = zip(*(pair for _, pairs in blocks for pair in pairs), strict=True)
    vocabularies = [set(itertools.chain.from_iterable(map(_units, side))) for side in samples]
    for name, pairs in held_out.items():
        units = [[u for line in side for u in _units(line)] for side in zip(*pairs, strict=True)]
        # [side of the text, side of the training text]: share of the units that occur there.
        shares = [[np.mean([u in v for u in s] or 1) for v in vocabularies] for s in units]
        if all(shares[side][1 - side] > shares[side][side] + 0.2 for side in (0, 1)):
            yield (
                name,
                f"{texts[name][0].line_name(0)}: {_quoted(pairs[0][0])}: source and target of the "
                f"{name} text are swapped, compared with the training text; name its files the "
                "other way round",
            )


def _shifts(texts, blocks):
    """Yields a line about each text with sides that are shifted."""
    everything = [block for name in texts for block in blocks[name]]
    fits = iter(_fits(everything) if len(everything) > 1 else ())
    for name, (source, target) in texts.items():
        offsets = [(*block, *_offset(fit)) for block, fit in zip(blocks[name], fits, strict=False)]
        shifted = [sample for sample in offsets if sample[2]]
        if shifted:
            start, pairs, offset, line = shifted[0]
            yield (
                f"the {name} text is shifted in {len(shifted)} of {len(offsets)} samples: from "
                f"about {source.line_name(start)} on, line n belongs to line n{offset:+} of "
                f"{target.paths[0]} ({_quoted(pairs[line][0])} to "
                f"{_quoted(pairs[line + offset][1])}); nothing can be learnt from such pairs: find "
                "the line that is missing or too many before there"
            )


def _fits(blocks):
    """Returns `[blocks, lines, offsets]`, how well each line fits the target line at an offset.

    Which units of both sides go together is counted between each line and the lines at all small
    offsets alike, so that no offset is preferred. If the sides are translations, units of one
    offset fit together far better than those of the others, and the offset is 0 in a sound text.
    The first and the last `_FARTHEST` lines of a block are left out.
    """
    source, target = (_features([p[side] for _, pairs in blocks for p in pairs]) for side in (0, 1))
    inner = source[:, _FARTHEST:-_FARTHEST]
    shifted = [target[:, _FARTHEST + d : _BLOCK - _FARTHEST + d] for d in _OFFSETS]
    count = inner.shape[0] * inner.shape[1]
    together = np.einsum("bnv,bnw->vw", inner, sum(shifted), optimize=True) / count
    noise = 2 * np.sqrt(len(_OFFSETS) / count)
    together = np.sign(together) * np.maximum(np.abs(together) - noise, 0)
    expected = inner @ together
    fits = np.stack([np.einsum("bnw,bnw->bn", expected, t) for t in shifted], -1)
    return np.clip(fits, *np.quantile(fits, (0.01, 0.99)))


def _features(lines):
    """Returns `[blocks, _BLOCK, features]`: standardised frequent units and length of each line."""
    units = [*map(_units, lines)]
    counts = collections.Counter(itertools.chain.from_iterable(units))
    frequent = [unit for unit, count in counts.most_common(_MAX_UNITS) if count >= 3]
    features = [[*(unit in line for unit in frequent)] for line in units]
    lengths = np.log1p([[len(line)] for line in lines])
    features = np.hstack([np.array(features, np.float32), lengths.astype(np.float32)])
    features -= features.mean(0)
    features /= features.std(0) + 1e-6
    return features.reshape(-1, _BLOCK, features.shape[-1])


def _offset(fit):
    """Returns (offset of a block, a line that shows it); offset 0 if it is not clear."""
    second, best = np.argsort(fit.mean(0))[-2:]
    lead = fit[:, best] - fit[:, second]
    is_clear = lead.mean() > 4 * (lead.std() / np.sqrt(lead.size) + 1e-9)  # Standard errors.
    return _OFFSETS[best] if is_clear else 0, _FARTHEST + lead.argmax()


def _repetitions(texts, held_out, own):
    """Yields lines about training pairs that repeat others, and held-out sentences among them."""
    train = texts["training"]
    keys = {n: [core(p[0], digits=False) for p in pairs] for n, pairs in held_out.items()}
    wanted, seen = {*itertools.chain.from_iterable(keys.values())}, {}
    # Hashes take less memory: of each source, how often it occurs; of each pair, its first number.
    sources, firsts, repeats = collections.Counter(), {}, []
    every = -(-len(train[0]) // _MAX_PAIRS)
    with Progress("checking the text", len(train[0]), "lines") as progress:
        for number, pair in enumerate(zip(*train, strict=True)):
            progress.update(1)
            if (number // _PART) % every or not (pair := tuple(map(normalised, pair)))[0]:
                continue
            if (key := core(pair[0], digits=False)) in wanted:
                seen.setdefault(key, number)
            sources[hash(pair[0])] += 1
            if (first := firsts.setdefault(hash(pair), number)) != number:
                repeats.append((number, first))
    count = sources.total()
    sample = f"{'a sample of ' * (every > 1)}{count:,} training "
    sample += "pairs" if len(train) == 2 else "sentences"
    if own and len(repeats) > 0.05 * count:
        again, earlier = map(train[0].line_name, repeats[0])
        yield (
            f"{len(repeats):,} of {sample} repeat an earlier one (the first: {again}, repeats "
            f"{earlier}); they weigh more than others: keep one of each, unless this is meant"
        )
    # Some sentences are common: they repeat within the training text, too.
    common_share = sum(n for n in sources.values() if n > 1) / max(count, 1)
    usual = 0.005 + min(2 * common_share, 0.05)
    for name, sentences in keys.items():
        common = [i for i, key in enumerate(sentences) if key in seen]
        if len(common) > usual * len(sentences):
            where, twin = texts[name][0].line_name(common[0]), seen[sentences[common[0]]]
            yield (
                f"{len(common):,} of {len(sentences):,} {name} "
                f"{'sources' if len(train) == 2 else 'sentences'} are in the training text, too, "
                "perhaps with other case, punctuation or digits"
                f"{f', of which {sample} were read' * (every > 1)} ({where} is like "
                f"{train[0].line_name(twin)}: {_quoted(held_out[name][common[0]][0])}); scores of "
                "it will be too good: remove these lines from one of the two"
            )


def _quoted(line):
    """Returns a line in quotation marks, at most 60 characters of it."""
    return repr(line if len(line) <= 60 else line[:59] + "…")
