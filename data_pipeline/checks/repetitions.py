"""Finds sentences that a training text repeats, or has in common with a held-out text."""

import array
from collections.abc import Iterator

import numpy as np

from nmt_zoo.common.progress import Progress
from nmt_zoo.data_pipeline.checks import samples
from nmt_zoo.data_pipeline.checks.samples import Side
from nmt_zoo.data_pipeline.text_form import core

_MOST = 1_000_000  # Pairs that are read; of a longer text, every k-th part.
_PART = 1000  # Pairs.
_MANY = 0.05  # Share of pairs that repeat others which is worth a line.
_UNTRANSLATED = 0.01  # The same for pairs with one text on both sides.


class Repetitions:
    """What one pass over a training text finds.

    A text is (source, target), or (target,) for a language model. The pairs `wanted` of held-out
    texts are in the one form.
    """

    def __init__(self, train: Side, wanted: list[tuple[str, ...]]):
        self._train = train
        self._wanted = [set(keys) for keys in zip(*map(_keys, wanted), strict=True)]
        # {key: number of the first line}, for each of the keys of a pair.
        self._seen = [{} for _ in self._wanted]
        self._same = []  # Numbers of the pairs with one text on both sides.
        # For memory, hashes stand for the texts.
        self._numbers, self._firsts, self._pairs = (array.array("q") for _ in range(3))
        size = len(train[0])
        step = _PART * -(-size // _MOST)
        parts = [(start, min(start + _PART, size)) for start in range(0, size, step)]
        with Progress("checking the text", size, "lines") as progress:
            for part in samples.read(train, parts):
                for number, pair in enumerate(part.pairs, start=part.start):
                    self._add(number, pair)
                progress.update(min(step, size - part.start))
        counted = f"{len(self._numbers):,} training {'pairs' if len(train) == 2 else 'sentences'}"
        self._is_sample = step > _PART
        self._of_all = "a sample of " * self._is_sample + counted

    def _add(self, number, pair):
        if not pair[0]:
            return
        for key, wanted, seen in zip(_keys(pair), self._wanted, self._seen, strict=False):
            if key in wanted:
                seen.setdefault(key, number)
        self._numbers.append(number)
        self._firsts.append(hash(pair[0]))
        self._pairs.append(hash(pair))
        # A short line may be a name, or an exclamation of both languages.
        if pair[1:] == pair[:1] and len(samples.units_of(pair[0])) > 2:
            self._same.append(number)

    def within(self) -> Iterator[str]:
        """Yields lines about repeated pairs, and about pairs that are not translated."""
        _, first, which = np.unique(self._pairs, return_index=True, return_inverse=True)
        later = np.delete(np.arange(which.size), first)
        if later.size > _MANY * which.size:
            again, earlier = self._numbers[later[0]], self._numbers[first[which[later[0]]]]
            yield (
                f"{later.size:,} of {self._of_all} repeat an earlier one (the first: "
                f"{samples.place(self._train[0], again)}, repeats "
                f"{samples.place(self._train[0], earlier)}); they weigh more than others: keep "
                "one of each, unless this is meant"
            )
        if len(self._same) > _UNTRANSLATED * which.size:
            yield (
                f"{len(self._same):,} of {self._of_all} have the same text on both sides (the "
                f"first: {samples.place(self._train[0], self._same[0])}); the model learns to copy "
                "such text: remove pairs that are not translated"
            )

    def _share_repeated(self):
        """Returns the share of the training pairs whose first side occurs more than once."""
        _, which, counts = np.unique(self._firsts, return_inverse=True, return_counts=True)
        return (counts[which] > 1).mean() if which.size else 0.0

    def overlap(self, name: str, sides: Side, pairs: list[tuple[str, ...]]) -> Iterator[str]:
        """Yields a line about a held-out text with many sentences of the training text.

        `name` is what the text is for, such as "validation"; `pairs` are in the one form.
        """
        exact, near, whole = np.array(
            [[k in seen for k, seen in zip(_keys(p), self._seen, strict=True)] for p in pairs]
        ).T
        # Some sentences are common: they repeat within the training text, too.
        if (exact | near).mean() <= 0.005 + min(2 * self._share_repeated(), 0.05):
            return
        shown = int((exact if exact.any() else near).argmax())
        seen = [s[k] for k, s in zip(_keys(pairs[shown]), self._seen, strict=True) if k in s]
        facts = [
            f"{number:,} {how}"
            for number, how in (
                ((near & ~exact).sum(), "of them but for case, punctuation and digits"),
                (whole.sum() * (len(sides) == 2), "of them with the same target"),
            )
            if number
        ]
        in_sample = f", of which {self._of_all} were read" if self._is_sample else ""
        yield (
            f"{(exact | near).sum():,} of {len(pairs):,} {name} "
            f"{'sources' if len(sides) == 2 else 'sentences'} are in the training text, too"
            f"{in_sample} ({samples.place(sides[0], shown)} is like "
            f"{samples.place(self._train[0], seen[0])}: {samples.quoted(pairs[shown][0])})"
            f"{''.join(f', {fact}' for fact in facts)}; scores of it will be too good: remove "
            "these lines from one of the two"
        )


def _keys(pair):
    return pair[0], core(pair[0], digits=False), pair
