"""Figures of words, against plain counting; and the classes, examples and tables of a report."""

import collections
import random

import pytest

from nmt_zoo.decoding.comparison.report import compare, examples, tables
from nmt_zoo.decoding.comparison.words import FREQUENCIES, Links, Texts, faults, word_matches
from nmt_zoo.decoding.scores import word_splitter


def random_texts(seed, count=30, systems=("one", "other")):
    """Returns the `Texts` of random words, some of whose lines are empty."""
    rng = random.Random(seed)

    def text():
        return [rng.choices("abcdefgh", k=rng.randrange(9)) for _ in range(count)]

    return Texts(text(), text(), {name: text() for name in systems})


def no_links(words):
    none = [set() for _ in words.source]
    return Links(none, dict.fromkeys(words.outputs, none))


def class_of(count):
    limits = {"0": 0, "1": 1, "2-5": 5, "6-20": 20, "21-100": 100}
    return next((name for name, most in limits.items() if count <= most), "more than 100")


@pytest.mark.parametrize("seed", range(2))
def test_word_matches_are_those_of_plain_counting(seed):
    words = random_texts(seed)
    counts = dict(zip("abcdefg", (1, 2, 5, 6, 20, 100, 101), strict=True))
    found = word_matches(words, counts)
    assert [record["frequency"] for record in found] == [*FREQUENCIES]
    for system, lines in words.outputs.items():
        matches, sizes, expected = (collections.Counter() for _ in range(3))
        for line, reference in zip(lines, words.reference, strict=True):
            left = list(reference)
            for word in line:
                sizes[class_of(counts.get(word, 0))] += 1
                if word in left:
                    left.remove(word)
                    matches[class_of(counts.get(word, 0))] += 1
            expected.update(class_of(counts.get(word, 0)) for word in reference)
        for record in found:
            name, figures = record["frequency"], record["systems"][system]
            assert record["reference_words"] == expected[name]
            assert (figures["matches"], figures["words"]) == (matches[name], sizes[name])
            precision, recall = figures["precision"], figures["recall"]
            assert precision == pytest.approx(matches[name] / sizes[name])
            assert recall == pytest.approx(matches[name] / expected[name])
            f1 = 2 * precision * recall / (precision + recall) if matches[name] else 0
            assert figures["f1"] == pytest.approx(f1)


def test_frequencies_and_lengths_share_out_all_words_and_sentences():
    words = random_texts(7)
    lines = Texts(
        *([" ".join(line) for line in text] for text in (words.source, words.reference)),
        {name: [" ".join(line) for line in text] for name, text in words.outputs.items()},
    )
    scored = [n for n, line in enumerate(lines.reference) if line]
    lines, words = lines.of(scored), words.of(scored)
    report = compare(lines, words, no_links(words), {"a": 1}, metrics=["ter"])
    expected = sum(map(len, words.reference))
    assert sum(record["reference_words"] for record in report["by_frequency"]) == expected
    assert sum(record["sentences"] for record in report["by_length"]) == len(scored)
    for system, text in words.outputs.items():
        found = sum(record["systems"][system]["words"] for record in report["by_frequency"])
        assert found == sum(map(len, text))
    shown = [*tables(report, "a text")]
    assert all(len(row) == len(table.head) for table in shown for row in table.rows)
    assert report["best"] == min(
        report["systems"], key=lambda name: report["scores"]["ter"]["systems"][name]["score"]
    )


@pytest.mark.parametrize(
    ("line", "reference", "doubled", "repeated"),
    [
        ("a b c", "a b c", 0, 0),
        ("a a b", "a b", 1, 0),
        ("a a b", "a a b", 0, 0),
        ("a a a a", "a b", 3, 1),
        ("a b c d a b c", "a b c d", 0, 1),
        ("a b c d a b c", "a b c x a b c", 0, 0),
        ("x y z x y z x y z", "x", 0, 4),
        (". . .", "a", 0, 0),
        ("", "a", 0, 0),
    ],
)
def test_repetitions_count_unless_the_reference_has_them(line, reference, doubled, repeated):
    words = Texts([["q"]], [reference.split()], {"x": [line.split()]})
    found = faults(words, no_links(words))["x"]
    assert (found["doubled"], found["repeated"]) == (doubled, repeated)


def test_dropped_words_have_a_link_to_the_reference_only():
    words = Texts([["a", "b", "c"]] * 3, [["A", "B"]] * 3, {"x": [["A"], ["B"], []]})
    links = Links([{0, 1}, {0, 1}, None], {"x": [{0}, {0, 1, 2}, set()]})
    found = faults(words, links)["x"]
    assert (found["dropped"], found["dropped_share"], found["unaligned"]) == (1, 0.25, 1)
    assert (found["empty"], found["length_ratio"]) == (1, pytest.approx(1 / 3))


def test_copied_words_are_new_to_the_reference_text():
    source = [["dog", "in", "1999", "."], ["in", "Berlin"]]
    words = Texts(source, [["Hund"], ["in", "Berlin"]], {"x": [["dog", "in", "1999", "."]] * 2})
    links = Links([set()] * 2, {"x": [set()] * 2})
    assert faults(words, links)["x"]["copied"] == 1


def test_examples_are_where_systems_differ_and_shared_among_the_kinds():
    chrf = {"a": [90.0, 10.0, 50.0, 20.0], "b": [10.0, 80.0, 40.0, 20.0]}
    chrf["c"] = [20.0, 10.0, 45.0, 20.0]  # Never the best.
    found = examples(chrf, 8)
    assert [places for _, places in found] == [[0, 2], [1], [], [3, 2]]
    assert [places for _, places in examples(chrf, 1)] == [[0], [], [], []]
    assert not any(places for _, places in examples(chrf, 0))


def test_words_are_those_that_bleu_counts():
    words = word_splitter("13a")(" Ein Hund,\u00a0 er läuft.")
    assert "|".join(words) == "Ein|Hund|,|er|läuft|."
    assert word_splitter("none")("Ein Hund.") == ["Ein", "Hund."]
    assert word_splitter("zh")("那孩") == ["那", "孩"]
