"""Documents: each line after the sentences before it in its document."""

import random

import pytest

from nmt_zoo.data_pipeline.documents import Context, divided, joined, with_contexts
from nmt_zoo.data_pipeline.lines import Lines, open_split, tagged
from nmt_zoo.data_pipeline.text_form import is_blank


def by_hand(lines, most):
    """Returns what `Context` should return, line by line."""
    found = []
    for place, line in enumerate(lines):
        before = []
        while len(before) < most and place - len(before) > 0:
            other = lines[place - len(before) - 1]
            if is_blank(other):
                break
            before.insert(0, other)
        found.append(line if is_blank(line) else " >>context<< ".join([*before, line]))
    return found


@pytest.mark.parametrize("most", [1, 2, 3])
def test_contexts_are_the_sentences_before_whatever_the_windows(most):
    draw = random.Random(most)
    for _ in range(50):
        lines = draw.choices(["", " ", "a", "b b", "c"], k=draw.randrange(12))
        expected = by_hand(lines, most)
        assert Context(most).of(lines) == expected
        context, left = Context(most), list(lines)
        found = []
        while left:
            size = draw.randint(1, 4)
            found += context.of(left[:size])
            left = left[size:]
        assert found == expected
        assert [divided(line)[1] for line in expected] == lines
        assert [joined(*divided(line)) for line in expected] == expected


def test_files_and_blank_lines_end_documents_and_a_text_without_any_is_reported(tmp_path):
    (tmp_path / "a").write_text("x\n\ny\nz\n")
    (tmp_path / "b").write_text("v\nw\n")
    plain = Lines(tmp_path / "a", tmp_path / "b")
    found, summary = with_contexts(plain, 1)
    expected = ["x", "", "y", "y >>context<< z", "v", "v >>context<< w"]
    assert list(found) == list(found) == expected and len(found) == 6
    assert found.plain is plain and summary == "documents: 3, the longest of 2 sentences"
    assert len({plain.digest, found.digest, with_contexts(plain, 2)[0].digest}) == 3
    with_tags = tagged(found, [">>de<<", ">>fr<<"])
    assert with_tags.plain is plain
    expected = [">>de<< x", "", ">>de<< y", ">>de<< y >>context<< z"]
    assert list(with_tags) == [*expected, ">>fr<< v", ">>fr<< v >>context<< w"]
    assert with_tags.digest not in (found.digest, tagged(found, [">>a<<", ">>b<<"]).digest)
    (tmp_path / "a").write_text("x\n" * 1001)
    summary = with_contexts(Lines(tmp_path / "a"), 1)[1]
    assert summary.startswith("documents: 1, the longest of 1,001 sentences; a blank line in both")


def test_a_test_set_in_markup_has_its_documents(tmp_path):
    for kind in ("src", "ref"):
        one, two, three = (f'<seg id="{i}">{kind} {i}</seg>\n' for i in (1, 2, 3))
        docs = f'<doc docid="a">{one}{two}</doc>\n<doc docid="b">{three}</doc>\n'
        (tmp_path / f"{kind}.sgm").write_text(f"<{kind}set>\n{docs}</{kind}set>\n")
    source, target = open_split((tmp_path / "src.sgm", tmp_path / "ref.sgm"))
    assert list(with_contexts(source, 1)[0]) == ["src 1", "src 1 >>context<< src 2", "src 3"]
    assert list(target) == ["ref 1", "ref 2", "ref 3"]
