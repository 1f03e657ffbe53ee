"""Word alignments as text: reading, writing, symmetrising, scoring.

An alignment of a sentence pair is a list of links `(source position, target position)`, both
counted from 0, in rising order. A line of a file in the Pharaoh format holds the links of one pair:
`0-0 1-2 2-1`.
"""

import re
import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import read_lines, write_lines

Link = tuple[int, int]

SYMMETRISATIONS = ("intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and")

AGREED = 0.4  # Default threshold for the geometric mean of two directions.

_FOUND, _GOLD = "-", "-p?"  # Characters between the two positions of a link.
_FORMS = {_FOUND: "i-j", _GOLD: "i-j (sure), ipj or i?j (possible)"}
_LINK = re.compile(r"([0-9]{1,9})([-p?])([0-9]{1,9})")
# Of Mihalcea and Pedersen 2003 (NAACL): sentence, source word, target word, S or P, confidence.
_NUMBERED = re.compile(
    r"([0-9]{1,9})\s+([0-9]{1,9})\s+([0-9]{1,9})(?:\s+([SPsp]))?(?:\s+[0-9.]{1,20})?"
)
_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


class GoldAlignment(NamedTuple):
    """The alignment that people have given a sentence pair."""

    sure: frozenset[Link]  # Links that an alignment should have.
    possible: frozenset[Link]  # Links that an alignment may have, including the sure links.


class AlignmentScore(NamedTuple):
    """Agreement of alignments with gold alignments; all scores from 0 to 1."""

    aer: float  # Alignment error rate; 0 is perfect.
    precision: float  # Share of the found links that are possible links.
    recall: float  # Share of the sure links that were found.


def read_alignments(
    path: str, *, pairs: Sequence[tuple[int, int]] | None = None
) -> list[list[Link]]:
    """Returns the links of every line of a file in the Pharaoh format, sorted, each once.

    A line may be empty. `pairs` are (source words, target words) of every sentence pair, to check
    the file against.
    Raises UserError: the file is unreadable, a token is not a link, the number of lines differs
    from the number of pairs, or a link lies outside its sentence.

    Example:
        A file with the line `0-0 2-1 1-2` gives `[[(0, 0), (1, 2), (2, 1)]]`.
    """
    lines = _counted_from(0, _parse_lines(read_lines(path), path, _FOUND), path, pairs)
    return [sorted({link for link, _ in links}) for links in lines]


def read_gold(path: str, *, pairs: Sequence[tuple[int, int]] | None = None) -> list[GoldAlignment]:
    """Reads alignments made by people, in either of two forms.

    A line holds the links of a sentence pair: `i-j` is a sure link, `ipj` or `i?j` a possible one.
    Or a line holds one link, as in the shared task of NAACL 2003: number of the sentence pair,
    position of the source word, position of the target word, and optionally `S` (sure, the default)
    or `P` (possible) and a confidence, which is not used. There, sentences are numbered from 1, or
    from 0 if one has that number; words are counted from 1, and links to word 0, which stands for
    no word (NULL), are left out and counted on standard error.

    Arguments and errors are as of `read_alignments`. Words of the first form are counted from 1 if
    no link names word 0; a line on standard error reports this. Without `pairs`, the alignments end
    with the last pair that has a link. A link both sure and possible is sure.
    """
    lines = read_lines(path)
    if any(_NUMBERED.fullmatch(line.strip()) for line in lines):
        return [_gold(links) for links in _numbered_links(lines, path, pairs)]
    links = _parse_lines(lines, path, _GOLD, "; or a link a line: sentence source target S|P")
    lines = _counted_from(_first_number(links, path), links, path, pairs)
    return [_gold(links) for links in lines]


def _first_number(links, name):
    """Returns the first word's number: 1 if there are links but no link names word 0, else 0."""
    numbers = {number for line in links for link, _ in line for number in link}
    if not numbers or 0 in numbers:
        return 0
    print(
        f"{name}: no link names word 0, so words are counted from 1; if they are counted from 0, "
        "add 1 to every number",
        file=sys.stderr,
    )
    return 1


def _numbered_links(lines, path, pairs):
    """Returns the (link, kind) of every sentence pair of a file with a link on each line."""
    numbered = []
    for number, line in enumerate(lines, 1):
        match = _NUMBERED.fullmatch(line.strip())
        if match:
            kind = "p" if (match[4] or "S") in "Pp" else "-"
            link = int(match[2]), int(match[3])
            numbered.append((f"{path}, line {number}", int(match[1]), link, kind))
        elif line.strip():
            raise UserError(
                f"{path}, line {number}: {line[:40]!r}; expected `sentence source target`, with S "
                "or P after it, as on other lines of the file"
            )
    first = min(1, *(sentence for _, sentence, *_ in numbered))
    last = max(sentence for _, sentence, *_ in numbered)
    count = last + 1 - first if pairs is None else len(pairs)
    links = [[] for _ in range(count)]
    for name, sentence, link, kind in numbered:
        if not sentence - first < count:
            raise UserError(
                f"{name}: sentence {sentence}; expected {first} to {count - 1 + first}, one for "
                f"each of {count} sentence pairs, counted from {first}"
            )
        if 0 not in link:
            pair = pairs and pairs[sentence - first]
            links[sentence - first] += _inside([(link, kind)], name, pair, 1)
    num_null = len(numbered) - sum(map(len, links))
    if num_null:
        print(
            f"{path}: {num_null:,} of {len(numbered):,} links are to word 0 (NULL) and do not "
            "count; if words are counted from 0, add 1 to every number",
            file=sys.stderr,
        )
    return links


def _gold(links):
    sure = frozenset(link for link, kind in links if kind == "-")
    return GoldAlignment(sure, frozenset(link for link, _ in links))


def _parse_lines(lines, path, kinds, other_form=""):
    """Returns the (link, kind) of every token of every line, numbered as in the file."""
    return [_parse(line, f"{path}, line {n}", kinds, other_form) for n, line in enumerate(lines, 1)]


def _parse(line, name, kinds, other_form=""):
    """Returns the (link, kind) of every token of a line; `kinds` is `_FOUND` or `_GOLD`."""
    links = []
    for token in line.split():
        match = _LINK.fullmatch(token)
        if not match or match[2] not in kinds:
            raise UserError(
                f"{name}: {token[:40]!r}; expected {_FORMS[kinds]}, the positions of a source and "
                f"a target word{other_form}"
            )
        links.append(((int(match[1]), int(match[3])), match[2]))
    return links


def _counted_from(base, links, path, pairs):
    """Returns the links of every line, words counted from 0; checks them against the pairs."""
    if pairs is not None and len(links) != len(pairs):
        raise UserError(
            f"{path}: {len(links)} lines; expected {len(pairs)}, one for each sentence pair"
        )
    return [
        _inside(line, f"{path}, line {n + 1}", pairs and pairs[n], base)
        for n, line in enumerate(links)
    ]


def _inside(links, name, pair, base):
    """Returns the links of a pair, words counted from 0; `UserError` if one is outside of it."""
    for link, kind in links:
        token = f"{link[0]}{kind}{link[1]}"
        sides = zip(("source", "target"), link, pair or (None, None), strict=True)
        for side, number, size in sides:
            if size == 0:
                raise UserError(
                    f"{name}: {token!r}; expected no link, because the {side} has no words"
                )
            if number < base or (size is not None and number >= size + base):
                last = "" if size is None else f" to {size - 1 + base}"
                words = "" if size is None else f"; the sentence has {size} words"
                raise UserError(
                    f"{name}: {token!r}; expected {side} positions from {base}{last}, words "
                    f"counted from {base}{words}"
                )
    return [((source - base, target - base), kind) for (source, target), kind in links]


def write_alignments(path: str, alignments: Iterable[Iterable[Link]]) -> None:
    """Writes a file in the Pharaoh format, atomically; raises UserError if that fails."""
    lines = (" ".join(f"{source}-{target}" for source, target in sorted(x)) for x in alignments)
    write_lines(path, lines)


def symmetrise(forward: Iterable[Link], reverse: Iterable[Link], method: str) -> list[Link]:
    """Combines the alignments of both directions into one, by one of `SYMMETRISATIONS`.

    Koehn, Och and Marcu 2003, "Statistical Phrase-Based Translation", section 4.3; Koehn et al.
    2005, "Edinburgh System Description for the 2005 IWSLT Speech Translation Evaluation".

    * grow-diag: starts with the intersection. Repeatedly adds links of the union that are next to
      a link, straight or diagonally, and align a word that has no link yet. Links are visited by
      source position, then target position.
    * final: then adds each link of the forward alignment, and after that of the reverse alignment,
      that aligns a word that has no link yet; final-and: only links between two such words.

    All links are (source position, target position), those of `reverse` too; the result is sorted.
    Raises ValueError if the method is unknown.

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
        raise ValueError(f"unknown method {method!r}; expected one of {', '.join(SYMMETRISATIONS)}")
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
    """Adds neighbours of links until no neighbour aligns a new word."""
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


def count_links(links: Iterable[Link], gold: GoldAlignment) -> np.ndarray:
    """Counts links, sure links, found sure links and found possible links; see `score_of`."""
    links = set(links)
    correct = len(links & gold.sure), len(links & gold.possible)
    return np.array([len(links), len(gold.sure), *correct])


def score_of(counts: Sequence[int]) -> AlignmentScore:
    """Computes the score of a corpus, as `score_alignments`, from the sum of its `count_links`."""
    num_links, num_sure, sure, num_possible = map(int, counts)
    both = num_links + num_sure
    return AlignmentScore(
        aer=1 - (sure + num_possible) / both if both else 0.0,
        precision=num_possible / num_links if num_links else 1.0,
        recall=sure / num_sure if num_sure else 1.0,
    )


def score_alignments(
    alignments: Sequence[Iterable[Link]], gold: Sequence[GoldAlignment]
) -> AlignmentScore:
    """Computes error rate, precision and recall of a corpus; Och and Ney 2003, section 5.1.

    Precision is 1 if there are no links, recall is 1 if there are no sure links. Raises ValueError
    if the numbers of sentence pairs differ.
    """
    pairs = zip(alignments, gold, strict=True)
    return score_of(sum((count_links(*pair) for pair in pairs), np.zeros(4, int)))
