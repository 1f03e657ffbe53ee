"""Texts and references as plain files, columns and SGML."""

import re

import pytest

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.input_text import other_translation, reference_texts, source_text
from nmt_zoo.data_pipeline.lines import open_split

SGML = """<srcset setid="x" srclang="any">
<doc docid="a"><p>
<seg id="1">one dog</seg>
<seg id="2">two
cats</seg></p></doc>
<DOC docid="b"><seg id="1"> </seg></DOC>
</srcset>"""
LINES = ["one dog", "two cats", ""]


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(tmp_path / name)

    return write


def test_segments_keep_their_order_and_references_follow_it(write, capsys):
    source = write("src.sgm", SGML)
    assert list(source_text(source)) == LINES and not capsys.readouterr().err
    # A name that does not say what the file is.
    assert list(source_text(write("src.en", SGML))) == LINES
    assert "src.en: read as a test set of 3 segments\n" in capsys.readouterr().err
    head, first, last = re.split("(?=<doc|<DOC)", SGML.replace("one", "eins"))
    swapped = write("ref.SGM", head + last.replace("</srcset>", "") + first + "</srcset>")
    plain = write("ref.de", "eins\nzwei\ndrei\n")
    found = reference_texts(f"{swapped},{plain}", source, LINES)
    assert found == [["eins dog", "two cats", ""], ["eins", "zwei", "drei"]]
    assert reference_texts(swapped, "standard input", LINES) == [["", "eins dog", "two cats"]]
    # Entities are undone once, as in training text of a published corpus, but not in plain text.
    source = write("src.sgm", SGML.replace("one dog", "R&amp;D &lt;b&gt; &quot;x&quot; &amp;amp;"))
    found = ['R&D <b> "x" &amp;', *LINES[1:]]
    assert list(source_text(source)) == found
    assert reference_texts(source, "standard input", LINES) == [found]
    plain = write("x.en", "\n R&amp;D\n\n\u2028two\r\n\n")
    assert list(source_text(plain)) == ["", " R&amp;D", "", "\u2028two", ""]


XML = """<?xml version='1.0' encoding='utf-8'?>
<!DOCTYPE dataset>
<!-- <seg id="9">no text</seg> -->
<dataset id="x">
  <doc id="a" origlang="en"><src lang="en"><p>
    <seg id="1">R&amp;D &lt;b></seg>
    <seg id="2"/></p></src>
    <ref lang="de" translator="A"><p><seg id="2"> zwei </seg><seg id="1">F&amp;E</seg></p></ref>
    <ref lang="de" translator="B"><seg id="1"><![CDATA[F & E <ref>]]></seg><seg id="2">2</seg></ref>
    <hyp system="S" language="de"><seg id="1">h1</seg><seg id="2">h2</seg></hyp>
  </doc>
  <doc id="b" origlang="de"><src lang="en"><seg id="1">three</seg></src>
    <ref translator="A" lang="de"><seg id="1">drei</seg></ref>
    <hyp system="S"><seg id="1">h3</seg></hyp>
  </doc>
</dataset>
"""
XML_SOURCE = ["R&D <b>", "", "three"]
XML_REFERENCES = [["F&E", "zwei", "drei"], ["F & E <ref>", "2", ""]]


def test_all_texts_of_an_xml_test_set_are_found_by_its_content(write):
    path = write("all.txt", "\ufeff" + XML)
    assert list(source_text(path)) == XML_SOURCE
    assert reference_texts(path, path, XML_SOURCE) == XML_REFERENCES
    assert other_translation(path, path, XML_SOURCE) == ["h1", "h2", "h3"]
    one = write("one.xml", re.sub('(?s)<ref lang="de" translator="B">.*?</ref>', "", XML))
    assert [*map(list, open_split((one, one)))] == [XML_SOURCE, XML_REFERENCES[0]]
    plain = write("plain.en", "one\ntwo\nthree\n")
    assert [*open_split((plain, one))[1]] == ["zwei", "F&E", "drei"]  # In the order of the file.
    with pytest.raises(UserError, match="holds 2 texts; expected one reference"):
        open_split((plain, path))
    other = '</hyp><hyp system="T"><seg id="1">t</seg><seg id="2">t</seg></hyp>'
    path = write("x.xml", XML.replace("</hyp>", other, 1))
    with pytest.raises(UserError, match="holds 2 translations"):
        other_translation(path, "standard input", XML_SOURCE)
    path = write("y.xml", XML.replace('<seg id="2">2</seg>', ""))
    with pytest.raises(UserError, match=r"document 'a': 'B' has 1 of its 2 segments"):
        reference_texts(path, path, XML_SOURCE)


TALKS = """<?xml version="1.0" encoding="UTF-8"?>
<mteval>
<refset setid="x" srclang="en" trglang="de" refid="ref">
<doc docid="1" genre="lectures">
<url>http://x</url><title>No segment</title>
<seg id="1"> ein Hund </seg>
</doc></refset></mteval>
"""


@pytest.mark.parametrize("ending", ["xml", "sgm", "de"])
def test_talks_are_known_with_any_ending(write, ending):
    path = write(f"x.{ending}", TALKS)
    assert list(source_text(path)) == ["ein Hund"]
    assert list(source_text(write("one_line", TALKS.replace("\n", " ")))) == ["ein Hund"]
    assert list(source_text(write("bare", TALKS.partition("\n")[2]))) == ["ein Hund"]
    with pytest.raises(UserError, match="same file for source and target"):
        reference_texts(path, path, ["ein Hund"])


@pytest.mark.parametrize(
    "text",
    [
        "<?xml version='1.0'?>\n<tmx version='1.4'><body></body></tmx>\n",
        "<!DOCTYPE html [ <!ENTITY x 'y'> ]>\n<html><p>one</p></html>\n",
        "<html>\n<p>one</p>\n</html>",
    ],
)
def test_other_markup_is_refused(write, text):
    path = write("x.en", text)
    for read in (source_text, lambda path: reference_texts(path, "standard input", ["one"])):
        with pytest.raises(UserError, match=r"x\.en: markup \(.<.*extract the text first"):
            read(path)
    with pytest.raises(UserError, match="markup"):
        open_split((path, write("y", "one\n")))


@pytest.mark.parametrize(
    "line",
    ["<3 you", "<b>bold</b> words", "<doc> is a tag", "<?xml is no text", "<s> one </s>", "<"],
)
def test_a_plain_text_may_begin_with_a_bracket(write, line):
    for lines in ([line], [line, "two", line]):
        assert list(source_text(write("x", "\n".join(lines)))) == lines


FORMS = {
    "subtitles": ["1\n00:00:01,000 --> 00:00:02,000\nA dog.\n", "WEBVTT\n\n00:01.0 --> 00:02.0\nA"],
    "JSON": [
        '{"text": "a"}\n{"text": "b"}\n',
        '{\n  "text": "a"\n}\n',
        '[\n {"a": 1}]',
        '["a"]\n["b"]\n',
    ],
    "a catalogue of gettext": ['# x\nmsgid ""\nmsgstr ""\n\nmsgid "a"\nmsgstr "b"\n'],
    "fields": ['"a","b"\n"c, d","e"\n"f","""g"""\n', '"a"\t"b"\n' * 3],
    "an office document": ["PK\x03\x04..."],
    "PDF": ["%PDF-1.4\n"],
    "RTF": ["{\\rtf1 a}"],
}


@pytest.mark.parametrize("form", FORMS)
def test_files_of_another_form_are_refused(write, form):
    for text in FORMS[form]:
        with pytest.raises(UserError, match=f"x: {form}"):
            source_text(write("x", text))
    with pytest.raises(UserError, match="fields with commas"):
        source_text(write("x.csv", "one, two\nthree,four\n"))
    with pytest.raises(UserError, match="fields with commas or quotes"):
        source_text(write("x.tsv", '"a"\t"b"\n"c"\t"d"\n"e"\t"f"\n'), 1)
    for text in ("one, two\nthree, four\n", '"a", he said, "b"\n"c"\n', "{a} b\n[[c]] d\n"):
        assert len(source_text(write("plain", text))) == 2


def test_the_other_column_of_a_tsv_is_the_reference(write, capsys):
    source, target = ["a dog", "two cats", "the man"], ["ein Hund", "zwei Katzen", "der Mann"]
    for columns, place in (((source, target), 1), ((target, source), 2)):
        path = write("x.TSV", "\n".join(map("\t".join, zip(*columns, strict=True))))
        assert list(source_text(path, place)) == source
        assert reference_texts(path, path, source, place) == [target]
    other = write("y.de", "\n".join(source))
    assert capsys.readouterr().err == ""
    assert reference_texts(f"{other},{path}", path, source, 2) == [source, target]
    assert "3 of 3 lines of the reference are those of the source" in capsys.readouterr().err
    more = write("z.tsv", "\n".join(map("\t".join, zip(source, target, "123", strict=True))))
    assert list(source_text(more, 2)) == target
    with pytest.raises(UserError, match=r"has 3 columns.*`cut -f3`"):
        reference_texts(more, more, source)
    for reference, source_path in ((other, path), (path, other)):
        with pytest.raises(UserError, match="TSV: given for one side only"):
            reference_texts(reference, source_path, ["a", "b", "c"])


def test_references_that_do_not_fit_are_refused(write):
    source = write("src.sgm", SGML)
    for text, expected in (
        (
            SGML.replace('docid="b"', 'docid="c"'),
            r"src.sgm has 3 segments and .*ref.sgm has 3; 2 are in .*'b', segment '1' of .*src",
        ),
        ("<doc>", "ref.sgm: expected <seg id"),
    ):
        with pytest.raises(UserError, match=expected):
            reference_texts(write("ref.sgm", text), source, LINES)
    plain = write("ref.de", "eins\n")
    with pytest.raises(UserError, match=r"src\.sgm has 3 lines and .*ref\.de has 1"):
        reference_texts(plain, source, LINES)
    with pytest.raises(UserError, match="empty or blank"):
        reference_texts(write("blank", "\n\u00a0\n\n"), source, LINES)
    with pytest.raises(UserError, match="comma without a file name"):
        reference_texts(f"{plain},", source, LINES)
    with pytest.raises(UserError, match="same file for source and target"):
        reference_texts(source, source, LINES)
