"""Texts and references as plain files, columns and SGML."""

import pytest

from data_pipeline.files import UserError
from data_pipeline.test_sets import reference_texts, source_text

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


def test_plain_files_keep_every_line(write):
    path = write("x.en", "\n one\n\n\u2028two\r\n\n")
    assert list(source_text(path)) == ["", " one", "", "\u2028two", ""]


def test_segments_keep_their_order_and_references_follow_it(write):
    source = write("src.sgm", SGML)
    assert list(source_text(source)) == LINES
    documents = SGML.replace("one", "eins").partition("<DOC")
    swapped = write("ref.SGM", "<DOC" + documents[2] + documents[0])
    plain = write("ref.de", "eins\nzwei\ndrei\n")
    found = reference_texts(f"{swapped},{plain}", source, LINES)
    assert found == [["eins dog", "two cats", ""], ["eins", "zwei", "drei"]]
    assert reference_texts(swapped, "standard input", LINES) == [["", "eins dog", "two cats"]]


def test_entities_of_sgml_are_the_characters_that_they_stand_for(write):
    """In training text of a published corpus, too, they are undone once."""
    source = write("src.sgm", SGML.replace("one dog", "R&amp;D &lt;b&gt; &quot;x&quot; &amp;amp;"))
    plain = write("x.en", "R&amp;D\n")
    assert list(source_text(source)) == ['R&D <b> "x" &amp;', *LINES[1:]]
    assert reference_texts(source, "standard input", LINES) == [['R&D <b> "x" &amp;', *LINES[1:]]]
    assert list(source_text(plain)) == ["R&amp;D"]


def test_all_other_columns_of_a_tsv_are_references(write):
    path = write("x.TSV", "a\tb\tc\nd\te\t\n")
    assert list(source_text(path, 1)) == ["a", "d"]
    assert list(source_text(path, 3)) == ["c", ""]
    assert reference_texts(path, path, ["a", "d"]) == [["b", "e"], ["c", ""]]
    assert reference_texts(path, path, ["b", "e"], 2) == [["a", "d"], ["c", ""]]
    other = write("y.de", "x\ny\n")
    assert reference_texts(f"{other},{path}", path, ["a", "d"], 1)[::2] == [["x", "y"], ["c", ""]]
    for reference, source in ((other, path), (path, other)):
        with pytest.raises(UserError, match="TSV: given for one side only"):
            reference_texts(reference, source, ["a", "d"])


FAULTS = {
    "columns that differ": ("x.tsv", "a\tb\tc\nd\te\n", "line 2: expected 3 columns"),
    "one column": ("x.tsv", "a\n", "line 1: expected source and target with one tab"),
    "no such column": ("x.tsv", "a\tb\n", "line 1: has 2 columns; there is no column 9"),
    "not UTF-8": ("x.en", b"a\nb\xff\n", "x.en, line 2: not UTF-8"),
    "empty": ("x.en", "", "x.en: empty"),
    "tabs": ("x.tsv", "a\tb\n", "--input_column=1"),
    "no segment": ("x.sgm", "<doc></doc>", "x.sgm: expected <seg id="),
    "a segment without an end": (
        "x.sgm",
        SGML.replace("dog</seg>", "dog"),
        "x.sgm, line 3, document 'a', segment '1'",
    ),
    "a segment that occurs twice": (
        "x.sgm",
        SGML.replace('id="2"', 'id="1"'),
        "x.sgm, line 4, document 'a', segment '1': appears twice",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_cannot_be_read_is_one_line_with_its_number(write, name):
    file, text, expected = FAULTS[name]
    path = write(file, text)
    column = {"columns that differ": 1, "one column": 2, "no such column": 9}.get(name)
    with pytest.raises(UserError) as caught:
        list(source_text(path, column))
    assert expected in str(caught.value) and "\n" not in str(caught.value)


def test_references_that_do_not_fit_are_refused(write):
    source = write("src.sgm", SGML)
    for text, expected in (
        (SGML.replace('docid="b"', 'docid="c"'), "2 segments are in only one of the two"),
        ("<doc>", "ref.sgm: expected <seg id"),
    ):
        with pytest.raises(UserError, match=expected):
            reference_texts(write("ref.sgm", text), source, LINES)
    plain = write("ref.de", "eins\n")
    with pytest.raises(UserError, match=r"src\.sgm has 3 lines and .*ref\.de has 1"):
        reference_texts(plain, source, LINES)
    with pytest.raises(UserError, match="empty or blank"):
        reference_texts(write("blank", "\n\n\n"), source, LINES)
    with pytest.raises(UserError, match="comma without a file name"):
        reference_texts(f"{plain},", source, LINES)
    with pytest.raises(UserError, match="same file for source and target"):
        reference_texts(source, source, LINES)
