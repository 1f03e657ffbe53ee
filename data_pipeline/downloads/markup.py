"""Reads test sets in markup: SGML of NIST and WMT, XML of WMT and IWSLT.

A file is known by its content. Its texts are sources, references and translations of systems; each
is a dict (document, segment) -> text, in the order of the file.
"""

import collections
import html
import os
import re
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import FilePath, open_source, read_lines
from nmt_zoo.data_pipeline.downloads.cleaning import KEEP_ALL, Cleaner

Texts: TypeAlias = dict[tuple[str, str], str]  # {(document, segment): text}
SOURCE, REFERENCE, TRANSLATION = "source", "reference", "translation"
_KINDS = {
    **dict.fromkeys(("src", "srcset"), SOURCE),
    **dict.fromkeys(("ref", "refset"), REFERENCE),
    **dict.fromkeys(("hyp", "tstset"), TRANSLATION),
}
_MAKERS = ("translator", "system", "sysid", "refid")  # Attributes that tell texts of a kind apart.
_HEAD, _TAIL = 1 << 20, 1 << 10  # Bytes that are read to know a form.
_SEG, _SEG_END = re.compile(r"<seg\b", re.IGNORECASE), re.compile(r"</seg\s*>", re.IGNORECASE)
# A tag holds no "<": without this, hostile text would take quadratic time.
_TAG = re.compile(rf"<(/?)(doc|{'|'.join(_KINDS)})\b([^<>]*)>", re.IGNORECASE)
_DOC = re.compile(r"</?doc\b", re.IGNORECASE)
_SEGMENT = re.compile(r"<seg\b[^<>]*\bid\s*=", re.IGNORECASE)
_DECLARED = re.compile(r"<(?:\?xml|!doctype)\s", re.IGNORECASE)
_PROLOG = re.compile(r"(?:<[?!][^<>\[]*(?:\[[^\]]*\][^<>]*)?>\s*)*")
_ROOT = re.compile(r"<(\w[\w:.-]*)(?:\s[^<>]*)?>")
_ONLY_TAGS = re.compile(r"(?:<[^<>]*>\s*)+")
_VALUE = r"""\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>"']+))"""


def is_test_set(path: FilePath) -> bool:
    """Returns whether a file is a test set in markup, rather than one sentence a line.

    Raises UserError: the file cannot be read, or is markup of another form.
    """
    if os.fspath(path).lower().endswith((".sgm", ".sgml")):
        return True
    with open_source(path) as file:
        data = file.read(_HEAD)
        file.seek(-min(_TAIL, file.seek(0, os.SEEK_END)), os.SEEK_END)
        tail = file.read()
    return is_markup(*(part.decode("utf-8", "replace") for part in (data, tail)), path)


def is_markup(head: str, tail: str, name: FilePath) -> bool:
    """Returns whether a text that begins and ends so is a test set in markup; as `is_test_set`."""
    head = head.lstrip("\ufeff \t\r\n")
    if not head.startswith("<"):
        return False
    head = _without_sections(head).lstrip()
    begins = head[_PROLOG.match(head).end() :]
    root = _ROOT.match(begins)
    if not root:
        return False
    is_alone = bool(_ONLY_TAGS.fullmatch(begins.partition("\n")[0]))
    is_closed = tail.rstrip().lower().endswith(f"</{root[1].lower()}>")
    has_segments = bool(_SEGMENT.search(head))
    if has_segments and (_DECLARED.match(head) or is_alone or is_closed):
        return True
    if _DECLARED.match(head) or (is_alone and is_closed):
        raise UserError(
            f"{name}: markup ({root[0][:60]!r}), but no test set with <seg id=...> ... </seg>; "
            "extract the text first, one sentence a line"
        )
    return False


def read_texts(path: FilePath, kind: str) -> list[Texts]:
    """Reads the texts of one kind from a test set, mended as those of published corpora are.

    If all texts of the file are of one other kind, they are returned: the reference of one
    direction is the source of the other.
    Raises UserError: as `parse_texts`, or the file has several kinds of texts but not this one.
    """
    found = parse_texts("\n".join(read_lines(path)), path)
    if kind not in found and len(found) > 1:
        raise UserError(f"{path}: holds {' and '.join(filter(None, found))}; expected a {kind}")
    texts = found[kind] if kind in found else next(iter(found.values()))
    mend = Cleaner(KEEP_ALL).mend
    return [dict(zip(text, mend(list(text.values())), strict=True)) for text in texts]


def has_both_sides(path: FilePath) -> bool:
    """Returns whether a file is a test set with a source and a reference."""
    if not is_test_set(path):
        return False
    return {SOURCE, REFERENCE} <= {*parse_texts("\n".join(read_lines(path)), path)}


def read_text(path: FilePath, kind: str) -> Texts:
    """Reads the only text of a kind; raises `UserError` as `read_texts`, or at several."""
    texts = read_texts(path, kind)
    if len(texts) > 1:
        raise UserError(
            f"{path}: holds {len(texts)} texts; expected one {kind}; keep one of them in a file of "
            "its own"
        )
    return texts[0]


def parse_sgml(text: str, name: FilePath) -> Texts:
    """Parses a test set that holds one text, as `parse_texts`."""
    found = [each for texts in parse_texts(text, name).values() for each in texts]
    if len(found) > 1:
        raise UserError(f"{name}: holds {len(found)} texts; expected one")
    return found[0]


class _Place(NamedTuple):
    """Where a segment stands: the kind of its text, who made it, and the document."""

    kind: str = ""
    version: str = ""
    document: str = ""

    def after(self, tags: str) -> "_Place | None":
        """Returns the place after tags outside of segments; None if a tag of them is broken."""
        place, num_docs = self, 0
        for tag in _TAG.finditer(tags):
            is_end, what, attributes = tag[1] == "/", tag[2].lower(), tag[3]
            num_docs += what == "doc"
            by = next(filter(None, (_attribute(attributes, name) for name in _MAKERS)), "")
            if what != "doc":
                place = place._replace(kind="" if is_end else _KINDS[what], version=by)
            elif not is_end:
                document = _attribute(attributes, "docid") or _attribute(attributes, "id")
                place = place._replace(document=document, version=by or place.version)
        return place if num_docs == len(_DOC.findall(tags)) else None


def parse_texts(text: str, name: FilePath) -> dict[str, list[Texts]]:
    """Parses a test set in SGML or XML; returns {kind, or "": texts}, in order.

    The text is `<doc docid="..."> <seg id="..."> ... </seg> ... </doc>`, where `<srcset>`,
    `<refset>` and `<tstset>` around documents, or `<src>`, `<ref>` and `<hyp>` in them, tell the
    kind of the text; tags in any case. Outer white space is removed, a line break becomes a space,
    and entities are left as they are. Several texts of a kind are those of different translators or
    systems; documents that one of them lacks are "" there.

    Raises UserError: there is no segment, or a segment has no end or no id or occurs twice.
    """
    before, *pieces = _SEG.split(_without_sections(text))
    found = collections.defaultdict(dict)  # kind -> {(version, (document, segment)): text}
    place, line = _Place().after(before), 1 + before.count("\n")
    for piece in pieces if place else []:
        attributes, closed, rest = piece.partition(">")
        number, end = _attribute(attributes, "id"), _SEG_END.search(rest)
        if attributes.endswith("/"):
            content, tags = "", rest
        else:
            content, tags = (rest[: end.start()], rest[end.end() :]) if end else ("", "<doc")
        key, texts = (place.version, (place.document, number)), found[place.kind]
        after, fault = place.after(tags), ""
        if not (number and closed and after) or "<" in attributes:
            fault = "expected <seg id=...> ... </seg>; the file may be damaged"
        elif key in texts:
            fault = "appears twice; expected one text for each segment"
        if fault:
            where = f"line {line}, document {place.document!r}, segment {number!r}"
            raise UserError(f"{name}, {where}: {fault}")
        texts[key] = " ".join(content.split("\n")).strip()
        place, line = after, line + piece.count("\n")
    if not found:
        raise UserError(f"{name}: expected <seg id=...> ... </seg> segments; it may be damaged")
    return {kind: _versions(texts, name) for kind, texts in found.items()}


def _versions(texts, name):
    """Returns the texts of one kind: one if each segment has one version, else equally long."""
    everything = dict.fromkeys(key for _, key in texts)
    if len(everything) == len(texts):
        return [{key: text for (_, key), text in texts.items()}]
    expected = collections.Counter(document for document, _ in everything)
    counts = collections.Counter((version, document) for version, (document, _) in texts)
    for (version, document), count in counts.items():
        if count != expected[document]:
            raise UserError(
                f"{name}, document {document!r}: {version!r} has {count} of its "
                f"{expected[document]} segments; the file may be damaged"
            )
    versions = dict.fromkeys(version for version, _ in texts)
    return [{key: texts.get((version, key), "") for key in everything} for version in versions]


def _without_sections(text):
    """Returns XML without comments, and with CDATA sections as plain text with entities."""
    for begin, end, replaced in (
        ("<!--", "-->", lambda inside: "\n" * inside.count("\n")),
        ("<![CDATA[", "]]>", lambda inside: html.escape(inside, quote=False)),
    ):
        first, *others = text.split(begin)
        parts = [other.partition(end) for other in others]
        text = first + "".join(
            replaced(inside) + rest if found else begin + inside for inside, found, rest in parts
        )
    return text


def matched_segments(
    source: Texts, target: Texts, names: Sequence[FilePath]
) -> tuple[list[str], list[str]]:
    """Matches the segments of both sides, in the order of the source.

    Raises UserError: only one side has a segment; `names` are those of both texts.
    """
    lonely = {key: names[0] for key in source if key not in target}
    lonely |= {key: names[1] for key in target if key not in source}
    if lonely:
        (document, segment), name = next(iter(lonely.items()))
        raise UserError(
            f"{names[0]} has {len(source)} segments and {names[1]} has {len(target)}; "
            f"{len(lonely)} are in only one of the two, the first of them document {document!r}, "
            f"segment {segment!r} of {name}; do the two belong together?"
        )
    return list(source.values()), [target[key] for key in source]


def _attribute(tag, name):
    found = re.search(rf"(?<![\w:-]){name}{_VALUE}", tag, re.IGNORECASE)
    return next((value for value in found.groups() if value is not None), "") if found else ""
