"""Counts of the words of a text."""

from nmt_zoo.data_pipeline.checks.word_counts import word_counts


def test_words_are_counted_on_each_side_and_on_both():
    source = ["a dog in Berlin", "a dog  a cat", ""]
    target = ["ein Hund in Berlin", "in Berlin in Berlin", "Hund"]
    assert list(word_counts((source, target))) == [
        "source words: 8, 5 different, 3 of them once (37.50% of the text)",
        "target words: 9, 4 different, 1 of them once (11.11% of the text)",
        "different words on both sides: 2, 0 of them twice or more on each",
    ]
    twice = source + source
    assert list(word_counts((twice, target)))[2].endswith("2, 2 of them twice or more on each")


def test_a_text_of_one_side_or_without_words_is_counted():
    assert list(word_counts((["a a"],))) == [
        "target words: 2, 1 different, 0 of them once (0.00% of the text)"
    ]
    assert "0, 0 different" in next(word_counts(([""],)))
