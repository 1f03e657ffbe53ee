"""Documents keep their form: tags, entities and white space, whatever their translations are."""

import collections
import itertools
import random
from html.parser import HTMLParser

import pytest

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.text_form import split_words
from nmt_zoo.decoding.text.markup import HTML, SRT, XML, Document

WORDS = ["dog", "runs,", "Ärger", "a&amp;b", "100", "(red)", "x&#233;", "&quot;no&quot;", "don't"]
WORDS += ["co\u00adop", "e\u0301t\u00e9", "&copy;", "1 < 2", "AT&T", "&own;", "it is. So", "été!"]
SPACES = [" ", " ", "  ", "\n   ", "&nbsp;", "\r\n"]
INSIDE = ['<b class="x">', "<i>", "<em id='e'>", '<a href="?a=1&amp;b=2">', "<SPAN>"]
AROUND = ["<p>", "<div class=c>", "<td>", "<li>", "<h1>"]
ALONE = ["<br>", '<img alt="a b">', "<br/>", "<!-- a <b> -->", "<code>if a < b: <i>x</i></code>"]
ALONE += ['<span translate="no">as it is <b>now</b></span>', "<wbr>"]
BLOCKS = [
    "<hr>",
    "<script>if (a < b) '<p>x</p>'</script>",
    "<pre>\n a  b </pre>",
    "<style>b {}</style>",
]
BLOCKS += ['<p class="a notranslate">no <b>never</b></p>', "<textarea> x </textarea>", "<?php x ?>"]


def end_of(tag):
    return f"</{tag.strip('<>').split()[0]}>"


def inline(draw, depth=0):
    """Returns random inline markup."""
    pieces = []
    for _ in range(draw.randint(1, 5)):
        kind = draw.random()
        if kind < 0.6 or depth > 3:
            pieces.append(draw.choice(WORDS))
        elif kind < 0.85:
            tag = draw.choice(INSIDE)
            pieces.append(tag + inline(draw, depth + 1) + end_of(tag))
        else:
            pieces.append(draw.choice(ALONE))
        pieces.append(draw.choice([*SPACES, ""]))
    return "".join(pieces)


def document(draw, depth=0):
    """Returns a random document."""
    pieces = ["<!DOCTYPE html>\n<html>"] if depth == 0 else []
    for _ in range(draw.randint(1, 4)):
        tag = draw.choice(AROUND)
        content = inline(draw) if depth > 2 or draw.random() < 0.6 else document(draw, depth + 1)
        pieces += [tag, content, end_of(tag), draw.choice(["\n", "", draw.choice(BLOCKS)])]
    return "".join(pieces) + ("<p>end</p></html>\n" if depth == 0 else "")


class Tree(HTMLParser):
    """Counts the tags of a well-formed document, each with those around it."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.stack = collections.Counter(), []
        self.feed(text)
        self.close()
        assert not self.stack

    def handle_starttag(self, tag, attrs):
        self.tags[(tag, *attrs, *self.stack)] += 1
        if tag not in ("br", "img", "wbr", "hr"):
            self.stack.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags[(tag, *attrs, *self.stack)] += 1

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_comment(self, data):
        self.tags[data] += 1


def words_of(lines):
    return [word for line in lines for word in split_words(line)]


def same(lines):
    return [(line, [(i, i) for i in range(len(line.split()))]) for line in lines]


def test_an_identity_gives_the_document_back_and_other_links_keep_text_and_tree():
    draw = random.Random(1)
    num_moved = num_words = num_parted = 0
    for _ in range(500):
        text = document(draw)
        page = Document(text, HTML, "page")
        assert page.remark == "" and page.written(same(page.lines)) == text
        translations, plain = [], []
        for line in page.lines:
            order = [*range(len(line.split()))]
            draw.shuffle(order)
            words = [draw.choice([line.split()[s], f"w{s}", f"x{s}."]) for s in order]
            links = [(s, t) for t, s in enumerate(order) if draw.random() < 0.8]
            translations.append((" ".join(words), links))
            plain.append(" ".join(words))
        written = page.written(translations)
        assert Tree(written).tags == Tree(text).tags
        num_moved += written != text
        found, expected = words_of(Document(written, HTML, "page").lines), words_of(plain)
        assert "".join(found) == "".join(expected)
        # No words are joined; a break at the end of a tag may part a mark from its word.
        ends = [{*itertools.accumulate(map(len, words))} for words in (expected, found)]
        assert ends[0] <= ends[1]
        num_words, num_parted = num_words + len(ends[0]), num_parted + len(ends[1] - ends[0])
    assert num_moved > 400 and num_parted < num_words / 200


@pytest.mark.parametrize(
    ("text", "line", "translation", "links", "expected"),
    [
        # Verbs at the end take their tag along, and leave the stop outside.
        (
            "<p>I have <b>seen</b> him.</p>",
            "I have seen him.",
            "Ich habe ihn gesehen.",
            "0-0 1-1 3-2 2-3",
            "<p>Ich habe ihn <b>gesehen</b>.</p>",
        ),
        ("<b>I see.</b>", "I see.", "Ich sehe!", "0-0 1-1", "<b>Ich sehe!</b>"),
        ("(<a>a dog</a>), x", "(a dog), x", "(ein Hund), y", "0-0 1-1 2-2", "(<a>ein Hund</a>), y"),
        ("help <b>me</b>.", "help me.", "mir helfen", "0-1 1-0", "<b>mir</b> helfen"),
        # The longest run of the words of a tag; unlinked words among them are inside.
        ("<i>a b</i> c", "a b c", "A u B C A", "0-0 1-2 2-3 0-4", "<i>A u B</i> C A"),
        # A tag inside a tag stays there, and an empty one between the same words.
        ("a <i>b <b>c</b></i>", "a b c", "C B A", "2-0 1-1 0-2", "<i><b>C</b> B</i> A"),
        ("one<br>two <img> six", "one two six", "1 2 6", "0-0 1-1 2-2", "1<br>2 <img> 6"),
        ("One.<br>Two <i></i>x", "One.", "Ja.", "0-0", "Ja.<br>Ja.<i></i>"),
        # Footnotes stay at their words.
        ("dog.<sup>[1]</sup>", "dog.[1]", "Hund.[1]", "0-0", "Hund.<sup>[1]</sup>"),
        ("a &lt; b&nbsp;c", "a < b c", "d < & e", None, "d &lt; &amp;&nbsp;e"),
        ("你好。再见。", "你好。", "Hi.", "0-0", "Hi. Hi."),
    ],
)
def test_tags_follow_their_words(text, line, translation, links, expected):
    page = Document(text, HTML, "page")
    assert page.lines[0] == line
    pairs = links and [tuple(map(int, link.split("-"))) for link in links.split()]
    assert page.written([(translation, pairs)] * len(page.lines)) == expected


def test_code_is_a_word_of_its_line_for_a_model_that_copies_and_is_never_lost():
    text = "<p>Call <code>a()</code>, then <b><kbd>x</kbd> &amp; y</b>.</p><p><code>b</code></p>"
    page = Document(text, HTML, "page", signs=True)
    (line,) = page.lines
    one, two = (c for c in line if ord(c) > 0xFFFF)
    assert line == f"Call {one}, then {two} & y."
    assert page.written(same(page.lines)) == text
    links = [(3, 0), (4, 1), (5, 2), (1, 4)]
    found = page.written([(f"{two} & y nach {one}.", links)])
    assert found.startswith("<p><b><kbd>x</kbd> &amp; y</b> nach <code>a()</code>.")
    lost = page.written([("ohne y", [(5, 1)])])
    assert lost.count("<code>a()</code>") == lost.count("<kbd>x</kbd>") == 1
    assert Document(text, HTML, "page").lines == ["Call , then & y."]


def test_an_untranslated_line_is_given_as_it_was_and_an_empty_one_keeps_its_tags():
    page = Document("<p>a <b>b</b>. C <i>d</i>", HTML, "page", lambda line: ["a b.", "C d"])
    assert page.written([("a b.", None), ("", [])]) == "<p>a <b>b</b>.<i></i>"


@pytest.mark.parametrize(
    ("text", "lines", "tag"),
    [
        ("<p>a <b>c d</p><p>e", ["a", "c d", "e"], "b"),
        ("a <b><i>c</b> d</i> e", ["a", "c", "d", "e"], ""),
        ("a <i>b</b>c</i> d", ["a", "b", "c", "d"], "b"),
        ("<a><div>a</div><hr></a> b", ["a", "b"], ""),
        ("<ul><li>a<li>b</ul><p>c", ["a", "b", "c"], ""),
        ("a <pre>b", ["a"], ""),
        ("a &# b &#; c &bad; <i>d</i>", ["a &# b &#; c d"], ""),
        ("a <![x b]> c <![CDATA[ <i> ]]> d </> e <", ["a c d </> e <"], ""),
        ("a <b", ["a <b"], ""),
        ("<script>a", None, ""),
        ("<!-- a", ["<!-- a"], ""),
        ("", None, ""),
        ("<p>&nbsp; - </p>", None, ""),
    ],
)
def test_damaged_documents_are_kept_as_they_are(text, lines, tag):
    if lines is None:
        with pytest.raises(UserError, match="page: no text to translate"):
            Document(text, HTML, "page")
        return
    page = Document(text, HTML, "page")
    assert page.lines == lines and page.written(same(lines)) == text
    assert (f"without their start or end tag: 1, such as <{tag}>" in page.remark) == bool(tag)


def test_elements_of_xml_are_inline_where_there_is_text_beside_them():
    text = '\ufeff<?xml version="1.0"?>\n<r>\n<title>A <x>b</x> c</title><link>d</link><li>e</li>'
    text += '<p its:translate="no">f</p><q>g <y><z>h</z></y><v/></q></r>\n'
    page = Document(text, XML, "data")
    assert page.lines == ["A b c", "d", "e", "g h"] and page.written(same(page.lines)) == text
    moved = page.written([("B A c", [(1, 0), (0, 1)]), *same(["d", "e", "g h"])])
    assert "<title><x>B</x> A c</title>" in moved


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_subtitles_keep_numbers_times_and_lines(end):
    lines = ["1", "00:00:01,000 --> 00:00:02,000", "{\\an8}<i>A dog and a", "cat run.</i> R&D", ""]
    lines += ["2", "00:00:03,000 --> 00:00:04,000", "- Yes.", "- No, 1 < 2 and", "so on. ", "", ""]
    text = end.join(lines)
    titles = Document(text, SRT, "film")
    assert titles.lines == ["A dog and a cat run.", "R&D", "- Yes.", "- No, 1 < 2 and so on."]
    assert titles.written(same(titles.lines)) == text
    longer = [
        ("Ein Hund und eine Katze rennen.", None),
        ("R & D", None),
        ("Ja", None),
        ("Nein", None),
    ]
    lines[2:4] = ["{\\an8}<i>Ein Hund und eine", "Katze rennen.</i> R & D"]
    lines[7:10] = ["Ja", "Nein "]
    assert titles.written(longer) == end.join(lines)


def test_many_random_tags_never_fail():
    draw = random.Random(2)
    pieces = [
        *WORDS,
        *SPACES,
        *INSIDE,
        *AROUND,
        *ALONE,
        *BLOCKS,
        "</b>",
        "</i>",
        "</p>",
        "<",
        "&",
        "]]>",
    ]
    pieces += ["<!", "<![", "</", "<a b='", "<!--", "--", ">", "\0", "-->", "</span>", "</code>"]
    for form in (HTML, XML, SRT):
        for _ in range(300):
            text = "x --> " * (form == SRT) + "\nword " + "".join(draw.choices(pieces, k=20))
            page = Document(text, form, "page")
            assert page.written(same(page.lines)) == text
            shifted = [(f"new {line}", [(0, 1)]) for line in page.lines]
            assert page.written(shifted) != text
