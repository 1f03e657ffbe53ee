"""Splitting long lines into parts."""

from nmt_zoo.decoding.text.splitting import sentences, split_line


def test_lines_are_split_at_sentences_then_at_spaces_then_anywhere():
    def split(line, size):
        return split_line(line, lambda text: len(text) <= size)

    assert split('It cost 3.5 dollars. "Why?" (he asked.)', 99)[1:] == ['"Why?"', "(he asked.)"]
    assert split(" a bb  ccc dddd ", 7) == ["a bb", "ccc", "dddd"]
    assert split("x" * 10, 3) == ["xx", "xxx", "xx", "xxx"]
    assert split("abc", 0) == ["a", "b", "c"]
    assert split("Dr. Smith ran. ... He fell.", 12) == ["Dr. Smith", "ran. ...", "He fell."]


def test_a_long_run_of_stops_takes_no_longer_than_other_text():
    dots = "." * 200_000  # Tried from each of its stops, it would take ten minutes.
    assert sentences(f"{dots}x Yes. {dots} No.") == [f"{dots}x Yes. {dots}", "No."]


def test_sentences_end_at_punctuation_and_not_at_abbreviations():
    for line, expected in {
        "A dog runs. A cat sleeps!": ["A dog runs.", "A cat sleeps!"],
        'He said: "Why?" (Nobody knew.) So!': ['He said: "Why?"', "(Nobody knew.)", "So!"],
        "the dog runs . the cat sleeps .": ["the dog runs .", "the cat sleeps ."],
        "雨。「晴れ。」雪！": ["雨。", "「晴れ。」", "雪！"],
        "Er kam 1999. Dann ging er.": ["Er kam 1999.", "Dann ging er."],
        "He said no. Then he left.": ["He said no.", "Then he left."],
        "Es hält 20 Min. Danach fährt es.": ["Es hält 20 Min.", "Danach fährt es."],
        "The man ran. 5 dogs slept.": ["The man ran.", "5 dogs slept."],
        "मैं घर जाता हूँ। वह आता है।": ["मैं घर जाता हूँ।", "वह आता है।"],
        "ما اسمك؟ أنا علي.": ["ما اسمك؟", "أنا علي."],
    }.items():
        assert sentences(line) == expected
    for line in (
        "Dr. Smith met J. R. Jones on 3. May, e.g. Mrs. Hall.",
        "z. B. Hunde, z.B. Katzen und ca. 30 Vögel",
        "He met us on Jan. 5 in St. Louis, see vol. 4, pp. 7 and fig. 3, at house no. 5.",
        "5 Mio. Euro in der Goethestr. 7, Tel. 0228, siehe Abb. 4 und Dr.-Ing. Meier",
        "It cost 3.5 dollars. and more",
        "well... maybe",
        "no stop",
        "  ",
        "",
        ". . .",
        "Who runs ? 😀",  # What has no letter is no sentence.
        "... - A dog runs . . .",
    ):
        assert sentences(line) == [line]
