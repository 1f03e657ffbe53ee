"""Reads test sets in markup: SGML of NIST and WMT, XML of WMT and IWSLT.

A file is known by its content. Its texts are sources, references and translations of systems; each
is a dict (document, segment) -> text, in the order of the file.
"""

import collections
import csv
import html
import json
import os
import re
from collections.abc import Sequence
from typing import TypeAlias

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import FilePath, open_source, read_lines
from nmt_zoo.data_pipeline.downloads.cleaning import Cleaner

Texts: TypeAlias = dict[tuple[str, str], str]  # {(document, segment): text}
SOURCE, REFERENCE, TRANSLATION = "source", "reference", "translation"
_KINDS = {
    **dict.fromkeys(("src", "srcset"), SOURCE),
    **dict.fromkeys(("ref", "refset"), REFERENCE),
    **dict.fromkeys(("hyp", "tstset"), TRANSLATION),
}
_MAKERS = ("translator", "system", "sysid", "refid")  # Attributes that tell texts of a kind apart.
_HEAD, _TAIL = 1 << 20, 1 << 10  # Bytes that are read to know a form.
# A tag holds no "<": without this, hostile text would take quadratic time.
_TAG = re.compile(rf"<(/?)(doc|seg|{'|'.join(_KINDS)})\b([^<>]*)(>?)", re.IGNORECASE)
_SEGMENT_END = re.compile(r"</seg\s*>|<seg\b", re.IGNORECASE)
_SEGMENT = re.compile(r"<seg\b[^<>]*\bid\s*=", re.IGNORECASE)
_DECLARED = re.compile(r"<(?:\?xml|!doctype)\s", re.IGNORECASE)
_PROLOG = re.compile(r"(?:<[?!][^<>\[]*(?:\[[^\]]*\][^<>]*)?>\s*)*")
_ROOT = re.compile(r"<(\w[\w:.-]*)(?:\s[^<>]*)?>")
_ONLY_TAGS = re.compile(r"(?:<[^<>]*>\s*)+")
_LOOKED_AT, _LINES = 1 << 16, 100  # Characters, and lines among them, that tell other forms.
_SUBTITLES = re.compile(r"WEBVTT\b|\[Script Info\]|\{\d+\}\{\d+\}")
_TIMES = re.compile(r"(?:\d+:)?\d\d:\d\d[,.]\d+\s*(?:-->|,\d)")
_JSON = re.compile(r'\[?\s*\{\s*"[^"\n]*"\s*:')
_QUOTED_FIELDS = re.compile(r'"(?:[^"]|"")*"(?:[,;\t]"(?:[^"]|"")*")+')
_EXPECTED = "expected <seg id=...> ... </seg>"
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
    check_form(head, name)
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
            "extract the text first, one sentence a line, or use translate.py --markup=html"
        )
    return False


def check_form(head: str, name: FilePath) -> None:
    """Raises `UserError` if a text begins as a file of another form than one sentence a line.

    These are subtitles, JSON, catalogues of gettext, and quoted or comma-separated fields.
    """
    lines = [line.strip() for line in head[:_LOOKED_AT].splitlines() if line.strip()][:_LINES]
    if lines and (_SUBTITLES.match(lines[0]) or any(map(_TIMES.match, lines[:10]))):
        form, advice = "subtitles", "remove numbers and times, or use translate.py --markup=srt"
    elif sum(map(_is_json, lines)) > len(lines) / 2 or _JSON.match(head):
        form, advice = "JSON", "extract the text, for example with `jq -r .text`"
    elif all(any(line.startswith(key) for line in lines) for key in ('msgid "', 'msgstr "')):
        form, advice = "a catalogue of gettext", "extract the text, for example with po2txt"
    elif _has_fields(lines, name):
        form, advice = "fields with commas or quotes", "write its columns to a .tsv without quotes"
    else:
        return
    raise UserError(f"{name}: {form}, not one sentence a line; {advice}")


def _is_json(line):
    try:
        return isinstance(json.loads(line), dict | list)
    except (ValueError, RecursionError):
        return False


def _has_fields(lines, name):
    """Returns whether all lines have as many fields; in quotes, unless the file is a .csv."""
    if len(lines) > 1 and os.fspath(name).lower().endswith(".csv"):
        counts = ({len(row) for row in csv.reader(lines, delimiter=mark)} for mark in ",;\t")
        if any(len(count) == 1 and max(count) > 1 for count in counts):
            return True
    return len(lines) > 2 and all(map(_QUOTED_FIELDS.fullmatch, lines[:-1]))


def read_texts(path: FilePath, kind: str) -> list[Texts]:
    """Reads the texts of one kind from a test set, mended as those of published corpora are.

    If all texts of the file are of one other kind, they are returned: the reference of one
    direction is the source of the other.
    Raises UserError: as `parse_texts`, or the file has several kinds of texts but not this one.
    """
    kinds = parse_texts("\n".join(read_lines(path)), path)
    if kind not in kinds and len(kinds) > 1:
        raise UserError(f"{path}: holds {' and '.join(filter(None, kinds))}; expected a {kind}")
    texts = kinds[kind] if kind in kinds else next(iter(kinds.values()))
    mend = Cleaner().mend
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


def parse_texts(text: str, name: FilePath) -> dict[str, list[Texts]]:
    """Parses a test set in SGML or XML; returns {kind, or "": texts}, in order.

    The text is `<doc docid="..."> <seg id="..."> ... </seg> ... </doc>`, where `<srcset>`,
    `<refset>` and `<tstset>` around documents, or `<src>`, `<ref>` and `<hyp>` in them, tell the
    kind of the text; tags in any case. Outer white space is removed, a line break becomes a space,
    and entities are left as they are. Several texts of a kind are those of different translators or
    systems; documents that one of them lacks are "" there.

    Raises UserError: there is no segment, or a segment has no end or no id or occurs twice.
    """
    text = _without_sections(text)
    by_kind = collections.defaultdict(dict)  # kind -> {(version, (document, segment)): text}
    kind = version = document = number = ""
    position = 0
    while tag := _TAG.search(text, position):
        is_end, what, attributes, position = tag[1], tag[2].lower(), tag[3], tag.end()
        maker = next(filter(None, (_attribute(attributes, name) for name in _MAKERS)), "")
        fault = "" if tag[4] else _EXPECTED
        if what in _KINDS:
            kind, version = "" if is_end else _KINDS[what], maker
        elif what == "doc" and not is_end:
            document = _attribute(attributes, "docid") or _attribute(attributes, "id")
            version = maker or version
        elif what == "seg" and not is_end:
            number, (content, position) = _attribute(attributes, "id"), _segment(text, tag)
            key = version, (document, number)
            if content is None or not number:
                fault = _EXPECTED
            elif key in by_kind[kind]:
                fault = "appears twice; expected one text for each segment"
            by_kind[kind][key] = content
        if fault:
            line = 1 + text.count("\n", 0, tag.start())
            where = f"line {line}, document {document!r}, segment {number!r}"
            raise UserError(f"{name}, {where}: {fault}; the file may be damaged")
    if not by_kind:
        raise UserError(f"{name}: {_EXPECTED}; the file may be damaged")
    return {kind: _versions(texts, name) for kind, texts in by_kind.items()}


def _segment(text, tag):
    """Returns (content, end) of the segment that a tag begins; None for one without an end."""
    if tag[3].endswith("/"):
        return "", tag.end()
    end = _SEGMENT_END.search(text, tag.end())
    if not (tag[4] and end and end[0][1] == "/"):
        return None, tag.end()
    return " ".join(text[tag.end() : end.start()].split("\n")).strip(), end.end()


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
            replaced(inside) + rest if closed else begin + inside for inside, closed, rest in parts
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
    match = re.search(rf"(?<![\w:-]){name}{_VALUE}", tag, re.IGNORECASE)
    return next((value for value in match.groups() if value is not None), "") if match else ""
