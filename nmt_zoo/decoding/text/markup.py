"""Lifts tags off a document, and puts them back into its translation by the links of words.

A unit is text between tags of blocks, such as paragraphs or cells, with the inline tags in it, such
as links, bold words or images. A translated unit is a list of cells, each a text and the place of
the character in the source from which it came: a tag stands around the cells from inside of it.
"""

import collections
import functools
import html
import itertools
import os
import re
from collections.abc import Callable, Iterable, Sequence
from html.parser import HTMLParser
from typing import TypeAlias

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.text_form import INVISIBLE, is_blank, normalised, split_words
from nmt_zoo.decoding.text.splitting import sentences

FORMS = HTML, XML, SRT = "html", "xml", "srt"
_TEXT, _START, _END, _POINT, _COMMENT = "text", "start", "end", "point", "comment"
_HANDLERS = {"handle_starttag": _START, "handle_startendtag": _POINT, "handle_endtag": _END}
_HANDLERS |= {"handle_data": _TEXT, "handle_comment": _COMMENT, "handle_decl": _COMMENT}
_HANDLERS |= {"handle_pi": _COMMENT, "unknown_decl": _COMMENT}
# Names of HTML's elements: inside sentences, without an end tag, and not translated.
_INLINE = re.compile(
    "a|abbr|acronym|b|bdi|bdo|big|br|cite|code|data|del|dfn|em|font|i|img|input|ins|kbd|label|mark|"
    "math|nobr|q|s|samp|small|span|strike|strong|sub|sup|svg|time|tt|u|var|wbr"
)
_VOID = re.compile("area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr")
_KEPT = re.compile("code|iframe|kbd|math|pre|samp|script|style|svg|textarea|var|xmp")
# What stands for one character; in subtitles, settings such as {\an8}.
_ENTITIES, _SETTINGS = re.compile(r"(\r\n|&#?\w+;)"), re.compile(r"(\r\n|\{\\[^{}]*\})")

# Private characters stand for inline elements with text that is not translated.
_FIRST_SIGN = 0xF0000

# A translation; its links (word of the source, word of the translation), or None: by their order.
Translated: TypeAlias = tuple[str, Sequence[tuple[int, int]] | None]


class Document:
    """A document in one of `FORMS`. `lines` are its sentences; `remark` says what is odd, or is "".

    Scripts, code, comments, attributes, time codes, and elements with `translate="no"` or of the
    class `notranslate` are never changed. In XML, elements beside text are inline. Lines of a
    subtitle are one unit. `divide` splits a text into sentences; `name` is for errors. By `signs`,
    a character of its own stands in a line for inline code and the like, for a translator that
    copies what its model does not know; otherwise the line lacks them.
    Raises UserError: there is no text.

    Example:
        >>> document = Document("<p>a <b>dog</b></p>", HTML, "page.html")
        >>> document.lines
        ['a dog']
        >>> document.written([("ein Hund", [(0, 0), (1, 1)])])
        '<p>ein <b>Hund</b></p>'
    """

    def __init__(
        self,
        text: str,
        form: str,
        name: str,
        divide: Callable[[str], list[str]] = sentences,
        signs: bool = False,
    ) -> None:
        self._parts, balance = [], collections.Counter()  # Parts: units, and texts that stay.
        for is_text, block in _subtitles(text) if form == SRT else [(True, text)]:
            for part in _parts(_Parser(block, form).events, form, balance) if is_text else [block]:
                unit = part if isinstance(part, str) else _Unit(part, form, divide, signs)
                self._parts.append(unit)
        units = [part for part in self._parts if isinstance(part, _Unit)]
        self.lines = [line for unit in units for line in unit.lines]
        self.has_tags = any(unit.lines and unit.root.children for unit in units)
        if not self.lines:
            raise UserError(f"{name}: no text to translate; expected {form} with words in it")
        lone = [f"<{tag}>" for tag, count in balance.items() for _ in range(abs(count))]
        more = "; they stay where they are, and divide the text"
        lacking = f"{name}: tags without their start or end tag: {len(lone):,}, such as "
        self.remark = f"{lacking}{lone[0]}{more}" if lone else ""

    def written(self, translations: Iterable[Translated]) -> str:
        """Returns the document with a translation in place of each of its lines."""
        ready = iter(translations)
        return "".join(x if isinstance(x, str) else x.written(ready) for x in self._parts)


class _Parser(HTMLParser):
    """Divides a text into `events`: (kind, its text, name of the tag)."""

    def __init__(self, text, form):
        super().__init__(convert_charrefs=False)
        self._is_xml, self._found = form == XML, [((1, 0), _POINT, "", False)]
        for handler, kind in _HANDLERS.items():
            setattr(self, handler, functools.partial(self._note, kind))
        # Some of Python's parsers stop at a damaged entity. Only the places of tags are used.
        self.feed(text.replace("&", "+"))
        self.close()
        starts = [0, *itertools.accumulate(len(line) + 1 for line in text.split("\n"))]
        places = [starts[line - 1] + column for (line, column), *_ in self._found]
        raws = (text[a:b] for a, b in itertools.pairwise([*places, len(text)]))
        found, self.events = zip(raws, self._found, strict=True), []
        for raw, (_, kind, name, is_kept) in found:
            depth = int(is_kept)
            while depth and (other := next(found, None)):
                raw += other[0]
                depth += {_START: 1, _END: -1}.get(other[1][1], 0) * (other[1][2] == name)
            if raw:
                self.events.append((_POINT if is_kept else kind, raw, name))

    def _note(self, kind, name, attributes=()):
        values = {key.rpartition(":")[2]: (value or "").lower() for key, value in attributes}
        is_kept = (
            values.get("translate") == "no" or "notranslate" in values.get("class", "").split()
        )
        is_kept = kind == _START and (is_kept or bool(_KEPT.fullmatch(name)))
        if kind == _START and not self._is_xml and _VOID.fullmatch(name):
            kind, is_kept = _POINT, False
        name = "" if kind in (_TEXT, _COMMENT) else name
        self._found.append((self.getpos(), kind, name, is_kept))

    def parse_marked_section(self, i, report=1):
        """Finds the end of a section such as `<![CDATA[`; Python's parser knows only some."""
        end = "]]>" if self.rawdata.startswith("<![CDATA[", i) else ">"
        place = self.rawdata.find(end, i)
        self.handle_comment("")
        return place + len(end) if place > 0 else len(self.rawdata)


def _subtitles(text):
    """Returns [whether it is text, block] for each block of subtitles; a dash begins one."""
    blocks, is_below_times = [], False
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):
        is_text = is_below_times and not is_blank(line)
        if is_text and blocks[-1][0] and not line.lstrip().startswith(("-", "–")):
            blocks[-1][1] += line
        else:
            blocks.append([is_text, line])
        is_below_times = is_text or "-->" in line
    return blocks


def _parts(events, form, balance):
    """Yields texts that stay as they are, and the lists of events of units.

    Counts in `balance`, for each name of an inline tag, the start tags above the end tags.
    """
    # Walls divide units: tags of blocks, lone tags, and tags around walls.
    walls, stack = set(), []
    for k, (is_inline, (kind, _, name)) in enumerate(
        zip(_inline(events, form), events, strict=True)
    ):
        balance[name] += is_inline * ((kind == _START) - (kind == _END))
        if not is_inline or (kind == _END and (not stack or events[stack[-1]][2] != name)):
            walls |= {k, *stack}
            stack = []
        elif kind == _END:
            stack.pop()
        elif kind == _START:
            stack.append(k)
    walls.update(stack)
    for is_wall, group in itertools.groupby(enumerate(events), lambda pair: pair[0] in walls):
        group = [event for _, event in group]
        yield "".join(raw for _, raw, _ in group) if is_wall else group


def _inline(events, form):
    """Returns for each event whether it stands inside a sentence: in XML, if beside or in text."""
    if form != XML:
        return [not name or bool(_INLINE.fullmatch(name)) for *_, name in events]
    around, stack, mixed, inline = [], [None], set(), {None: False}
    for k, (kind, raw, _) in enumerate(events):
        start = stack.pop() if kind == _END and len(stack) > 1 else None
        around.append(stack[-1] if start is None else around[start])
        if kind == _TEXT and not is_blank(raw):
            mixed.add(around[-1])
        if kind == _START:
            stack.append(k)
    for k, start in enumerate(around):
        inline[k] = start in mixed or inline[start] or not events[k][2]
    return [inline[k] for k in range(len(events))]


class _Node:
    """An element in a unit, or a `_POINT`, by its place between characters."""

    def __init__(self, raw, place):
        self.open, self.close, self.first, self.last, self.children = raw, "", place, place, []
        self.span = (0, 0)  # The cells from inside of it.


class _Unit:
    """A stretch of text with inline tags; `lines` are its sentences, none if it has no word."""

    def __init__(self, events, form, divide, signs):
        self._is_plain, self._raws, self._signs, text = form == SRT, {}, {}, []
        self.root = _Node("", 0)
        stack = [self.root]
        for kind, raw, name in events:
            parts = [] if name != "br" else ["", "", ""]  # It divides words, as a space.
            if kind == _TEXT:
                parts = (_SETTINGS if self._is_plain else _ENTITIES).split(raw)
            elif kind == _END:
                stack[-1].close, stack.pop().last = raw, len(text)
            elif signs and kind == _POINT and any(map(str.isalnum, re.sub("<[^>]*>", "", raw))):
                sign = chr(_FIRST_SIGN + len(self._signs))
                self._signs[sign] = self._raws[len(text)] = raw
                text += sign
            else:
                stack[-1].children.append(_Node(raw, len(text)))
                stack += stack[-1].children[-1:] * (kind == _START)
            for k, part in enumerate(parts):
                character = {"\r\n": "\n", "": " "}.get(part) or html.unescape(part)
                if k % 2 == 0:
                    text += part
                elif len(character) == 1:
                    self._raws[len(text)] = part
                    text += character
                else:  # An entity of the document's own.
                    stack[-1].children.append(_Node(part, len(text)))
        self._text, self.root.last = "".join(text), len(text)
        self._raw = "".join(raw for _, raw, _ in events)
        shown = "".join(c for c in self._text if c not in INVISIBLE)
        self.lines = divide(" ".join(shown.split())) if any(map(str.isalnum, shown)) else []

    def written(self, translations):
        """Returns the unit with a translation in place of each of its lines."""
        if not self.lines:
            return self._raw
        places = enumerate(self._text)
        places = iter([i for i, c in places if not c.isspace() and c not in INVISIBLE])
        lines = [[[*itertools.islice(places, len(w))] for w in line.split()] for line in self.lines]
        begin, end = lines[0][0][0], lines[-1][-1][-1] + 1
        cells, before = [], begin  # Cells are (text, place in the source or None).
        for words in lines:
            text, links = next(translations)
            lost = [c for word in words for c in (self._text[i] for i in word) if c in self._signs]
            target = split_words(" ".join([text, *(c for c in lost if c not in text)]))
            if links is None:
                links = [(t * len(words) // len(target), t) for t in range(len(target))]
            sources = {t: s for s, t in sorted(links, reverse=True) if s < len(words)}
            for t, word in enumerate(target):
                s, gap = sources.get(t), [(" ", None)]
                if t == 0:
                    # Sentences without a space between them need none if the stop stays.
                    is_joined = not cells or cells[-1][0] == self._text[before - 1]
                    gap = self._copied(range(before, words[0][0])) or gap * (not is_joined)
                elif s and sources.get(t - 1) == s - 1:  # Words that still follow each other.
                    gap = self._copied(range(words[s - 1][-1] + 1, words[s][0]))
                cells += gap + self._word(word, [] if s is None else words[s])
            before = words[-1][-1] + 1
        if self._is_plain:
            self._break_lines(cells, begin, end)
        front, back = range(begin), range(end, len(self._text))
        return self._with_tags([*self._copied(front), *cells, *self._copied(back)])

    def _copied(self, places):
        return [(self._raws.get(i, self._text[i]), i) for i in places]

    def _word(self, word, places):
        """Returns the cells of a word, given the places of the source's word that it came from.

        What both words have at their ends keeps its places, the rest has that of the middle.
        """
        source = "".join(self._text[i] for i in places)
        if source and normalised(source) == word:
            return self._copied(range(places[0], places[-1] + 1))
        start = len(os.path.commonprefix([source, word]))  # noqa: RUF071
        end = len(os.path.commonprefix([source[start:][::-1], word[start:][::-1]]))  # noqa: RUF071
        middle, between = word[start : len(word) - end], places[start : len(places) - end]
        near = between or places
        near = [i for i in near if self._text[i].isalnum()] or near
        labels = (near[len(near) // 2 :][:1] or [None]) * len(middle)
        for step in (1, -1):  # A mark that the source lacks belongs to what is on both sides.
            outer = [i for i in between[::step][:1] if not self._text[i].isalnum()] or [None]
            marks = [c.isalnum() for c in [*middle[::step], "a"]].index(True)
            labels = (outer * marks + labels[::step][marks:])[::step]
        written = middle
        if not self._is_plain:
            written = [self._signs.get(c) or html.escape(c, quote=False) for c in middle]
        copied = self._copied(places)
        return [*copied[:start], *zip(written, labels, strict=True), *copied[len(copied) - end :]]

    def _break_lines(self, cells, begin, end):
        """Breaks a subtitle into as many lines as it had, where a space is nearest to the place."""
        old = [i for i in range(begin, end) if self._text[i] == "\n"]
        cells[:] = [(" " if text in ("\n", "\r\n") else text, i) for text, i in cells]
        first = 0
        for i in old:
            aim = (i - begin) * len(cells) / (end - begin)
            spaces = [k for k in range(first, len(cells)) if cells[k][0] == " "]
            for k in sorted(spaces, key=lambda k: abs(k - aim))[:1]:
                cells[k], first = (self._raws.get(i, "\n"), cells[k][1]), k + 1

    def _with_tags(self, cells):
        """Returns the text of cells, with each tag around the longest run of cells from inside."""
        left, right = self._beside(cells), self._beside(cells[::-1], len(self._text) - 1)[::-1]
        spans = [sorted(pair) for pair in zip(left, right, strict=True)]
        spaces = {i: k for k, (text, i) in enumerate(cells) if not text.strip()}

        def place(node, low, high):
            def is_inside(k):
                return node.first <= spans[k][0] and spans[k][1] < node.last

            runs = itertools.groupby(range(low, high), is_inside)
            if runs := [[*run] for inside, run in runs if inside]:
                longest = max(runs, key=len)
                low, high = longest[0], longest[-1] + 1
            elif node is not self.root:
                k = spaces.get(node.first)
                if k is None:  # Where the fewest cells have changed to the other side of it.
                    steps = (1 if left[k] >= node.first else -1 for k in range(low, high))
                    costs = [*itertools.accumulate(steps, initial=0)]
                    k = low + costs.index(min(costs))
                elif not low <= k <= high:  # A break that divided words is gone from there.
                    cells[k] = cells[k][0] or " ", None
                low = high = min(max(k, low), high)
            node.span = low, high
            for child in node.children:
                place(child, low, high)

        def write(node):
            pieces, (at, high) = [node.open], node.span
            for child in sorted(node.children, key=lambda child: child.span[0]):
                pieces += [*(text for text, _ in cells[at : child.span[0]]), write(child)]
                at = max(at, child.span[1])
            return "".join([*pieces, *(text for text, _ in cells[at:high]), node.close])

        place(self.root, 0, len(cells))
        return write(self.root)

    @staticmethod
    def _beside(cells, last=0):
        """Returns the place of each cell, or that of the one before for what came from nowhere.

        This is inside of all tags that its neighbours on both sides are inside of.
        """
        places = []
        for _, i in cells:
            last = last if i is None else i
            places.append(last)
        return places
