"""The page of a comparison holds every text as text, whatever it is."""

import html.parser

import pytest

from nmt_zoo.decoding.comparison.page import comparison_page, sentence_html
from nmt_zoo.decoding.comparison.report import compare, tables
from nmt_zoo.decoding.comparison.words import Links, Texts
from nmt_zoo.decoding.scores import sentence_chrf, word_splitter

HOSTILE = [
    "<script>alert('x')</script> </article> & \"quotes\" &quot; ]]> -->",
    "\u202eright to left\u2066 שלום <b>",
    "word " * 10_000 + "end",
    "$title ${body} \\u0041 {0} %s\u2028",
    "",
]


class Page(html.parser.HTMLParser):
    """Collects tags, and the text of each element such as `dd`, `mark` and `script`."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.open, self.texts = [], [], {}
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag in ("dd", "mark", "u", "p", "option", "script", "h1"):
            self.open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag):
        if tag in self.open:
            self.open.remove(tag)

    def handle_data(self, text):
        for tag in self.open:
            self.texts[tag][-1] += text


def make_page(lines, title="Translations"):
    """Returns the page of some `Texts`, in which no word is linked."""
    split = word_splitter("13a")
    words = Texts(
        *([*map(split, text)] for text in (lines.source, lines.reference)),
        {name: [*map(split, text)] for name, text in lines.outputs.items()},
    )
    none = [set()] * len(lines.source)
    links = Links(none, dict.fromkeys(lines.outputs, none))
    report = compare(lines, words, links, {}, metrics=["bleu", "chrf"])
    chrf = {name: sentence_chrf(text, lines.reference) for name, text in lines.outputs.items()}
    sentences = [sentence_html(n + 1, lines, words, chrf, n, str) for n in range(len(none))]
    return comparison_page(title, ["<p>"], [*lines.outputs], tables(report, "<x>"), sentences)


@pytest.fixture(scope="module")
def page():
    """A page of hostile lines, as (its `Texts`, `Page`)."""
    outputs = {"<i>one</i>": HOSTILE[::-1], "\u202eother": HOSTILE}
    lines = Texts(HOSTILE, ["a word, and more"] * len(HOSTILE), outputs)
    return lines, Page(make_page(lines, "Translations of <h1>"))


def test_every_line_is_found_again(page):
    lines, found = page
    rows = zip(lines.source, lines.reference, *lines.outputs.values(), strict=True)
    shown = [text.partition("missing: ")[0] for text in found.texts["dd"]]
    assert shown == [text for row in rows for text in row]


def test_nothing_of_the_texts_is_markup(page):
    _, found = page
    assert [attributes for tag, attributes in found.tags if tag == "script"] == [{}]
    assert not {"b", "i", "h1"} & {t for t, a in found.tags if a} and len(found.texts["h1"]) == 1
    assert found.texts["h1"] == ["Translations of <h1>"]
    assert sum(tag == "article" for tag, _ in found.tags) == len(HOSTILE)
    assert "<i>one</i>" in found.texts["option"]


def test_words_unlike_the_reference_are_marked():
    lines = Texts(["s"], ["a man, in Ulm"], {"x": ["Man in a bin, a Man"], "y": ["a man"]})
    split = word_splitter("13a")
    words = Texts(
        [["s"]], [split(lines.reference[0])], {n: [split(*t)] for n, t in lines.outputs.items()}
    )
    chrf = {"x": [1.0], "y": [2.0]}
    found = Page(sentence_html(1, lines, words, chrf, 0, str)).texts
    # Once in its order, then elsewhere, then too often.
    assert (found["mark"], found["u"]) == (["Man", "bin", "a", "Man"], ["in"])
    assert found["p"] == ["missing: man Ulm", "missing: , in Ulm"]
    folded = Page(sentence_html(1, lines, words, chrf, 0, str.lower)).texts
    assert folded["p"][0] == "missing: ulm" and folded["mark"].count("bin") == 1
    lines, words = (
        lines._replace(outputs={"z": ["ma\u0308n"]}),
        words._replace(outputs={"z": [["m\xe4n"]]}),
    )
    assert Page(sentence_html(1, lines, words, {"z": [1.0]}, 0, str)).texts["mark"] == ["m\xe4n"]
    assert found["dd"][2:] == ["Man in a bin, a Manmissing: man Ulm", "a manmissing: , in Ulm"]
