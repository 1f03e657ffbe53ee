"""Word alignments as text: reading, writing, symmetrising, scoring; and lexicon files.

An alignment of a sentence pair is a list of links `(source position, target position)`, both
counted from 0, in rising order. A line of a file in the Pharaoh format holds those of one pair:
`0-0 1-2 2-1`.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from data_pipeline.files import UserError, read_lines, write_lines

Link = tuple[int, int]

SYMMETRISATIONS = (
    "intersection",
    "union",
    "grow-diag",
    "grow-diag-final",
    "grow-diag-final-and",
)

_LINK = re.compile(r"([0-9]{1,9})([-p?])([0-9]{1,9})")
_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


class GoldAlignment(NamedTuple):
    """What people say of a sentence pair.

    Attributes:
        sure: links that an alignment should have.
        possible: links that it may have; the sure ones are among them.
    """

    sure: frozenset[Link]
    possible: frozenset[Link]


class AlignmentScore(NamedTuple):
    """How well alignments agree with gold; all from 0 to 1.

    Attributes:
        aer: alignment error rate; 0 is perfect.
        precision: share of the links that are possible.
        recall: share of the sure links that were found.
    """

    aer: float
    precision: float
    recall: float


def read_alignments(
    path: str, *, pairs: Sequence[tuple[int, int]] | None = None, base: int = 0
) -> list[list[Link]]:
    """Reads a file in the Pharaoh format.

    Args:
        path: UTF-8 text; a line holds the links of a sentence pair, and may be empty.
        pairs: (source words, target words) of every sentence pair, to check the file against.
        base: the number of the first word, 0 or 1.

    Returns:
        The links of every line, sorted, each once.

    Raises:
        UserError: unreadable; a token that is no link; as many lines as there are not pairs; a
            link outside its sentence.

    Example:
        A file with the line `0-0 2-1 1-2` gives `[[(0, 0), (1, 2), (2, 1)]]`.
    """
    lines = _read(path, pairs, base, kinds="-", form="i-j")
    return [sorted({link for link, _ in line}) for line in lines]


def read_gold(
    path: str, *, pairs: Sequence[tuple[int, int]] | None = None, base: int = 0
) -> list[GoldAlignment]:
    """Reads alignments made by people: `i-j` is a sure link, `ipj` or `i?j` a possible one.

    Args and Raises as `read_alignments`.

    Returns:
        `GoldAlignment` of every line. A link that is both sure and possible is sure.
    """
    lines = _read(path, pairs, base, kinds="-p?", form="i-j (sure), ipj or i?j (possible)")
    return [
        GoldAlignment(
            frozenset(link for link, kind in line if kind == "-"),
            frozenset(link for link, _ in line),
        )
        for line in lines
    ]


def _read(path, pairs, base, kinds, form):
    """The (link, kind) of every token of every line."""
    lines = read_lines(path)
    if pairs is not None and len(lines) != len(pairs):
        raise UserError(
            f"{path}: {len(lines)} lines; expected {len(pairs)}, one for each sentence pair"
        )
    parsed = []
    for number, line in enumerate(lines, start=1):
        links = []
        for token in line.split():
            match = _LINK.fullmatch(token)
            if not match or match[2] not in kinds:
                raise UserError(
                    f"{path}, line {number}: {token[:40]!r}; expected {form}, the positions of a "
                    f"source and a target word, counted from {base}"
                )
            links.append(((int(match[1]) - base, int(match[3]) - base), match[2]))
            _check_inside(path, number, token, links[-1][0], pairs, base)
        parsed.append(links)
    return parsed


def _check_inside(path, number, token, link, pairs, base):
    sizes = (None, None) if pairs is None else pairs[number - 1]
    for side, position, size in zip(("source", "target"), link, sizes, strict=True):
        if position < 0 or (size is not None and position >= size):
            last = "" if size is None else f" to {size - 1 + base}"
            words = "" if size is None else f", of which the sentence has {size}"
            raise UserError(
                f"{path}, line {number}: {token!r}; expected {side} positions from {base}{last}, "
                f"counting words from {base}{words}"
            )


def format_links(links: Iterable[Link]) -> str:
    """A line of the Pharaoh format, links in rising order."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


def write_alignments(path: str, alignments: Iterable[Iterable[Link]]) -> None:
    """Writes a file in the Pharaoh format, atomically.

    Raises:
        UserError: cannot be written.
    """
    write_lines(path, map(format_links, alignments))


def symmetrise(forward: Iterable[Link], reverse: Iterable[Link], method: str) -> list[Link]:
    """Makes one alignment out of those of both directions.

    Koehn, Och and Marcu 2003, "Statistical Phrase-Based Translation", section 4.3; Koehn et al.
    2005, "Edinburgh System Description for the 2005 IWSLT Speech Translation Evaluation".

    * grow-diag: the intersection, and then again and again the links of the union that are next
      to a link, straight or diagonally, and align a word that has no link yet. Links are visited
      by source position, then target position.
    * final: then each link of the forward, and after that of the reverse alignment that aligns a
      word that has no link yet; final-and: two such words.

    Args:
        forward: links of a source-to-target alignment.
        reverse: those of the other direction, also as (source position, target position).
        method: one of `SYMMETRISATIONS`.

    Returns:
        Links in rising order.

    Raises:
        ValueError: unknown method.

    Example:
        >>> symmetrise([(0, 0), (1, 0)], [(0, 0), (1, 1)], "intersection")
        [(0, 0)]
    """
    forward, reverse = set(forward), set(reverse)
    if method == "intersection":
        return sorted(forward & reverse)
    if method == "union":
        return sorted(forward | reverse)
    if method not in SYMMETRISATIONS:
        raise ValueError(f"unknown method {method!r}; there are {', '.join(SYMMETRISATIONS)}")
    links = forward & reverse
    if forward == reverse:
        return sorted(links)
    aligned = ({source for source, _ in links}, {target for _, target in links})
    _grow(links, aligned, sorted(forward | reverse))
    if method != "grow-diag":
        most_aligned = 0 if method == "grow-diag-final-and" else 1
        for direction in (forward, reverse):
            for link in sorted(direction):
                if (link[0] in aligned[0]) + (link[1] in aligned[1]) <= most_aligned:
                    _add(link, links, aligned)
    return sorted(links)


def _grow(links, aligned, union):
    """Adds neighbours of links, until there is none that aligns a new word."""
    allowed, before = set(union), -1
    while before < len(links) < len(allowed):
        before = len(links)
        for source, target in union:
            if (source, target) not in links:
                continue
            for down, right in _NEIGHBOURS:
                link = (source + down, target + right)
                if link in allowed and not (link[0] in aligned[0] and link[1] in aligned[1]):
                    _add(link, links, aligned)


def _add(link, links, aligned):
    links.add(link)
    aligned[0].add(link[0])
    aligned[1].add(link[1])


def score_alignments(
    alignments: Sequence[Iterable[Link]], gold: Sequence[GoldAlignment]
) -> AlignmentScore:
    """Alignment error rate, precision and recall of a corpus; Och and Ney 2003, section 5.1.

    Args:
        alignments: links of every sentence pair.
        gold: of as many sentence pairs.

    Returns:
        `AlignmentScore`. Precision is 1 where there are no links at all, and recall where there
        are no sure ones.

    Raises:
        ValueError: different numbers of sentence pairs.
    """
    found = num_links = num_sure = num_possible = 0
    for links, (sure, possible) in zip(alignments, gold, strict=True):
        links = set(links)
        num_links += len(links)
        num_sure += len(sure)
        found += len(links & sure)
        num_possible += len(links & possible)
    both = num_links + num_sure
    return AlignmentScore(
        aer=1 - (found + num_possible) / both if both else 0.0,
        precision=num_possible / num_links if num_links else 1.0,
        recall=found / num_sure if num_sure else 1.0,
    )


def write_lexicon(path: str, entries: Iterable[tuple[str, str, float]]) -> int:
    """Writes a lexicon file of lines `source_word target_word probability`, atomically.

    White space separates the three, so a word that has some inside, such as a number with no-break
    spaces, cannot be written and is left out.

    Args:
        path: the file.
        entries: (source word, target word, probability from 0 to 1), in the order to write.

    Returns:
        How many entries were written.

    Raises:
        UserError: cannot be written.
    """
    lines = [
        f"{source} {target} {probability:.6g}"
        for source, target, probability in entries
        if source.split() == [source] and target.split() == [target]
    ]
    write_lines(path, lines)
    return len(lines)
