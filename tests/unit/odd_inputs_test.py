"""Everything that reads text, JSON or files takes any input, or refuses it in one line."""

import json
import unicodedata

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from starlette.exceptions import HTTPException

from nmt_zoo.common.errors import UserError, printable
from nmt_zoo.common.files import decode_lines, read_lines, write_lines
from nmt_zoo.data_pipeline.downloads.markup import parse_texts
from nmt_zoo.data_pipeline.text_form import is_blank, normalised, split_words
from nmt_zoo.data_pipeline.tokenization.vocabularies import BpeVocabulary, WordVocabulary
from nmt_zoo.decoding.alignment.links import (
    read_alignments,
    read_gold,
    symmetrise,
    write_alignments,
)
from nmt_zoo.decoding.text.splitting import sentences, split_line
from nmt_zoo.decoding.unknowns import read_lexicon
from nmt_zoo.model_directory.metrics import append_record, read_records
from nmt_zoo.model_directory.weight_files import DamagedError, read_archive
from nmt_zoo.serving.server.json_tensors import parse
from tests.odd_text import ODDITIES

# Fixtures that give a folder or a trained vocabulary do not change between examples.
settings.register_profile(
    "odd",
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
settings.load_profile("odd")
LINES = st.one_of(
    st.sampled_from([*ODDITIES.values()]),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=40),
)
TEXTS = st.lists(LINES.map(lambda line: line.rstrip("\r")), max_size=6)
# Bytes that are nearly what is expected, and bytes that are not.
BYTES = st.one_of(
    st.binary(max_size=60), LINES.map(str.encode), st.text("01 -p?S\n").map(str.encode)
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


def taken_or_refused(read, *arguments):
    """Returns what a function gives; None if it refuses its input in one line."""
    try:
        return read(*arguments)
    except (UserError, HTTPException, DamagedError) as error:
        assert "\n" not in printable(str(error)) and len(str(error)) < 2000
        return None


@pytest.fixture(scope="module")
def vocabularies():
    lines = ["one dog runs", "the cat sees a house"] * 20
    return [
        WordVocabulary.train(lines, vocab_size=100, min_count=1),
        BpeVocabulary.train(lines, vocab_size=280),
    ]


@given(TEXTS)
def test_written_lines_are_read_again(tmp_path, lines):
    write_lines(tmp_path / "x", lines)
    read = read_lines(tmp_path / "x")
    assert read == [line.removeprefix("\ufeff") if n == 0 else line for n, line in enumerate(lines)]


@given(st.binary(max_size=200))
def test_any_bytes_are_lines_or_refused_with_their_line(data):
    lines = taken_or_refused(decode_lines, data, "name")
    if lines is not None:
        assert not any("\n" in line for line in lines)
        assert len(lines) == data.count(b"\n") + (
            data.removeprefix(b"\xef\xbb\xbf")[-1:] not in (b"", b"\n")
        )


@given(LINES)
@example("\u200b\u00ad")
def test_the_form_of_a_line_is_its_own_form(line):
    form = normalised(line)
    assert normalised(form) == form and unicodedata.is_normalized("NFC", form)
    assert split_words(line) == form.split() and is_blank(line) == (form == "")


@given(LINES, st.integers(1, 30))
def test_parts_of_a_line_have_all_its_characters(line, size):
    for parts in (sentences(line), split_line(line, lambda text: len(text) <= size)):
        assert "".join("".join(parts).split()) == "".join(line.split())
    assert all(len(part) <= max(size, 1) for part in split_line(line, lambda t: len(t) <= size))


@given(LINES)
def test_vocabularies_take_every_line(vocabularies, line):
    for vocabulary in vocabularies:
        (ids,) = vocabulary.encode([line])
        assert all(0 <= i < len(vocabulary) for i in ids)
        assert "\n" not in vocabulary.decode(ids)


LINKS = st.sets(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12)


@given(st.one_of(BYTES, JSON.map(json.dumps).map(str.encode)))
@example(b'<dataset id="t"><doc id="d"><src lang="x"><seg id="1">one</seg></src></doc></dataset>')
def test_files_and_requests_are_read_or_refused(tmp_path, data):
    """Records, links, lexicons, markup and archives; no such bytes are an archive."""
    path = tmp_path / "x"
    path.write_bytes(data)
    request = taken_or_refused(parse, data)
    assert request is None or isinstance(request, dict)
    for read in (read_records, read_gold, read_lexicon):
        taken_or_refused(read, path)
    taken_or_refused(parse_texts, data.decode("utf-8", "replace"), "name")
    assert taken_or_refused(read_archive, path) is None


@given(LINKS, LINKS)
def test_links_survive_writing_and_every_combination_is_between_both(tmp_path, forward, reverse):
    write_alignments(tmp_path / "x", [forward, reverse])
    assert [*map(set, read_alignments(tmp_path / "x"))] == [forward, reverse]
    for method in ("intersection", "union", "grow-diag", "grow-diag-final"):
        found = {*symmetrise(forward, reverse, method)}
        assert forward & reverse <= found <= forward | reverse


@given(st.lists(st.floats(width=32), min_size=1, max_size=4))
def test_records_are_read_as_they_were_written(tmp_path, values):
    path = tmp_path / "metrics.jsonl"
    path.unlink(missing_ok=True)
    for step, value in enumerate(values):
        append_record(path, {"step": step, "kind": "train", "seconds": 0.5, "nll": value})
    finite = [value if abs(value) < float("inf") else None for value in values]
    assert [record["nll"] for record in read_records(path)] == finite
