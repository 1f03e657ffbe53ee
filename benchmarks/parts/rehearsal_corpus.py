"""Makes any number of different sentence pairs out of a few thousand real pairs.

Each pair is a real pair in which some words are left out and some are replaced, by words of the
same text or by invented words. So there are as many different words as in a large corpus. Such text
is useless for training, but gives a pipeline as much work as real text.
"""

import numpy as np

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import atomic_path, read_lines
from nmt_zoo.common.progress import Progress

# folder: (English file, German file, share of the pairs made from it)
SOURCES = {
    "wmt_sample": ("train.en", "train.de", 0.7),
    "europarl10k": ("train.en", "train.de", 0.2),
    "multi30k": ("train.en", "train.de", 0.1),
}
REPLACED, DROPPED, DOUBLED, EMPTIED = 0.15, 0.03, 0.01, 0.001
INVENTED = 400_000  # Invented words on each side.
_PAIRS_AT_ONCE = 50_000


class _Side:
    """The text of one language as word ids.

    Attributes:
        words: object array, real words first, then invented words.
        counts: how often each real word occurs.
        ids: ids of all words of all lines, one line after the other.
        lengths: number of words of every line.
    """

    def __init__(self, lines, rng):
        split = [line.split() or ["."] for line in lines]
        self.lengths = np.array([len(words) for words in split])
        flat = np.array([word for words in split for word in words], object)
        real, self.ids, self.counts = np.unique(flat, return_inverse=True, return_counts=True)
        starts, ends = rng.integers(real.size, size=(2, INVENTED))
        invented = [real[i][:6] + real[j][-5:] for i, j in zip(starts, ends, strict=True)]
        self.words = np.array([*real, *invented], object)

    def lines(self, rows, rng):
        """Makes new lines from the real lines `rows`."""
        lengths = self.lengths[rows]
        ends = np.cumsum(lengths)
        starts = np.cumsum(self.lengths) - self.lengths
        ids = self.ids[np.arange(ends[-1]) + np.repeat(starts[rows] - (ends - lengths), lengths)]
        places = np.flatnonzero(rng.random(ids.size) < REPLACED)
        other = rng.choice(self.ids, places.size)
        # As in real text, a few invented words are frequent, and most are very rare.
        rare = rng.random(places.size) < 0.2
        invented = (INVENTED ** rng.random(rare.sum())).astype(np.int64) - 1
        other[rare] = self.counts.size + invented
        ids[places] = other
        kept = rng.random(ids.size) >= DROPPED
        sums = np.cumsum(np.concatenate([[0], kept]))
        lengths = sums[ends] - sums[ends - lengths]
        words = self.words[ids[kept]].tolist()
        bounds = np.cumsum(lengths).tolist()
        return [" ".join(words[i - n : i]) for i, n in zip(bounds, lengths.tolist(), strict=True)]


def make(data, paths, num_pairs, seed=1):
    """Writes the corpus.

    Args:
        data: folder with the folders of `SOURCES`.
        paths: (English path, German path).
        num_pairs: number of pairs to write.
        seed: random seed of all choices.

    Raises:
        UserError: a file of `SOURCES` is missing.
    """
    rng = np.random.default_rng(seed)
    texts = [[read_lines(f"{data}/{f}/{s[i]}") for f, s in SOURCES.items()] for i in (0, 1)]
    sizes = [len(lines) for lines in texts[0]]
    if sizes != [len(lines) for lines in texts[1]]:
        raise UserError(f"{data}: sides of unequal length")
    sides = [_Side([line for lines in text for line in lines], rng) for text in texts]
    shares = np.array([share for _, _, share in SOURCES.values()])
    starts = np.cumsum([0, *sizes[:-1]])
    with (
        atomic_path(paths[0]) as english,
        atomic_path(paths[1]) as german,
        open(english, "wb") as english_file,
        open(german, "wb") as german_file,
        Progress("making the corpus", num_pairs, "pairs") as progress,
    ):
        for start in range(0, num_pairs, _PAIRS_AT_ONCE):
            count = min(_PAIRS_AT_ONCE, num_pairs - start)
            source = rng.choice(len(sizes), count, p=shares)
            rows = starts[source] + (rng.random(count) * np.array(sizes)[source]).astype(np.int64)
            made = [side.lines(rows, rng) for side in sides]
            for i in np.flatnonzero(rng.random(count) < EMPTIED):
                made[i % 2][i] = ""
            for i in np.flatnonzero(rng.random(count) < DOUBLED):
                for lines in made:
                    lines[i] = lines[i - 1]
            for file, lines in zip((english_file, german_file), made, strict=True):
                file.write("".join(f"{line}\n" for line in lines).encode())
            progress.update(count)
