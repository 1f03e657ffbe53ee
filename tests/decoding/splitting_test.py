"""Splitting long lines into parts."""

from decoding.splitting import split_line


def test_lines_are_split_at_sentences_then_at_spaces_then_anywhere():
    def split(line, size):
        return split_line(line, lambda text: len(text) <= size)

    assert split('It cost 3.5 dollars. "Why?" (he asked.) So!', 99) == [
        "It cost 3.5 dollars.",
        '"Why?"',
        "(he asked.)",
        "So!",
    ]
    assert split("雨。「晴れ。」雪！", 99) == ["雨。", "「晴れ。」", "雪！"]
    assert split(" a bb  ccc dddd ", 7) == ["a bb", "ccc", "dddd"]
    assert split("x" * 10, 3) == ["xx", "xxx", "xx", "xxx"]
    assert split("abc", 0) == ["a", "b", "c"]
    assert split("... ... ...", 99) == ["...", "...", "..."]
