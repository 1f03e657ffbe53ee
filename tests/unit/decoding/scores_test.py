"""Scores of corpora, against one or several references and of several systems."""

import random
import unicodedata

import pytest

from nmt_zoo.common.errors import UserError
from nmt_zoo.decoding import scores
from nmt_zoo.decoding.scores import (
    METRICS,
    bleu_tokenizer,
    corpus_scores,
    leading,
    p_values,
    remarks,
    score_lines,
    sentence_chrf,
    system_scores,
)

LINES = [" ".join(random.Random(i).choices("abcdefghij", k=12)) for i in range(40)]


def test_one_of_several_references_is_enough():
    halves = [LINES[:20] + ["x"] * 20, ["y"] * 20 + LINES[20:]]
    found = corpus_scores(LINES, halves, METRICS)
    assert found["bleu"].score == pytest.approx(100)
    assert found["ter"].score == 0
    assert "nrefs:2" in found["bleu_signature"] and "nrefs:2" in found["ter_signature"]
    assert corpus_scores(LINES, halves[:1])["bleu"].score < 60


def test_a_paired_bootstrap_tells_a_difference_from_chance():
    worse = [line[:-8] + " z z z z" for line in LINES]
    _, found = system_scores([LINES, worse], [LINES], ["chrf"])
    signature, (_, of_worse) = found["chrf"]
    assert signature.startswith("chrF2|nrefs:1|bs:1000|") and of_worse.p_value < 0.01
    other = [" ".join(reversed(line.split())) for line in LINES]
    swapped = [b if i % 2 else a for i, (a, b) in enumerate(zip(LINES, other, strict=True))]
    again = [a if i % 2 else b for i, (a, b) in enumerate(zip(LINES, other, strict=True))]
    assert p_values(swapped, [again], [LINES])[0] > 0.3
    of_worse = p_values(LINES, [again, worse], [LINES])[1]
    assert of_worse == p_values(worse, [LINES], [LINES])[0] < 0.01


@pytest.mark.parametrize("metric", METRICS)
def test_systems_are_tested_against_the_best_in_any_order(metric):
    systems = {
        "worst": [line[: -2 * (n % 5)] + " z" for n, line in enumerate(LINES)],
        "best": LINES,
        "middle": [line[:-2] + " z" * (n % 2) for n, line in enumerate(LINES)],
    }
    figures = []
    for names in (["worst", "best", "middle"], ["middle", "worst", "best"]):
        best, found = system_scores([systems[name] for name in names], [LINES], [metric])
        assert names[best] == "best"
        figures.append(dict(zip(names, found[metric][1], strict=True)))
    assert figures[0] == figures[1]
    assert figures[0]["best"].p_value is None and figures[0]["worst"].interval > 0


def test_sentence_chrf_is_the_corpus_score_of_one_line():
    other = [line[:-4] + " z z" for line in LINES[:3]] + ["", "\u200bgr\u0075\u0308n"]
    reference = [*LINES[:3], "a", "grün"]
    expected = [
        corpus_scores([line], [[good]], ["chrf"])["chrf"].score
        for line, good in zip(other, reference, strict=True)
    ]
    assert sentence_chrf(other, reference) == pytest.approx(expected)


SCRIPTS = {
    "那孩丢失那树并喜欢那男。": "zh",
    "苹果公司发布了新的手机 iPhone 15 Pro Max": "zh",
    "喫茶店「カフェの」在台北的中山北路二段開幕了，歡迎大家前來": "zh",
    "これは新しい本です。": "char",
    "한국어 문장입니다.": "13a",
    "นี่คือหนังสือ": "char",
    "នេះជាសៀវភៅ": "char",
    "ນີ້ແມ່ນປຶ້ມ": "char",
    "ဒါကစာအုပ်ပါ": "char",
    "དེབ་འདི་": "char",
    "The dog runs through 北京 .": "13a",
    "Это книга.": "13a",
    "यह एक किताब है।": "13a",
    "1 2 3 !": "13a",
}


@pytest.mark.parametrize("line", SCRIPTS)
def test_the_script_of_the_references_chooses_the_tokenisation(line, monkeypatch):
    monkeypatch.setattr(scores, "_why_missing", lambda name: "no package")
    name, reason = bleu_tokenizer([[line], [line, ""]])
    assert name == SCRIPTS[line]
    has_package = "한" in line or "こ" in line
    assert bool(reason) == (name != "13a" or has_package)
    assert ("needs `pip install 'sacrebleu[" in reason) == has_package
    monkeypatch.setattr(scores, "_why_missing", lambda name: "")
    assert bleu_tokenizer([[line]])[0].endswith("-mecab") == has_package


def test_a_blank_reference_is_none():
    outputs = [*LINES, "and more words", "without a reference"]
    blank = [*LINES, "", " \u00a0"]
    found = corpus_scores(outputs, [blank], METRICS)
    assert score_lines(found, METRICS) == score_lines(
        corpus_scores(LINES, [LINES], METRICS), METRICS
    )
    both = [[*LINES, "", ""], [*[""] * len(LINES), "and more words", ""]]
    found = corpus_scores(outputs, both, METRICS)
    assert found["bleu"].score == pytest.approx(100) and found["bleu"].bp == 1
    assert found["bleu"].sys_len == sum(len(line.split()) for line in LINES) + 3
    assert corpus_scores([line[:9] for line in outputs], both)["bleu"].bp < 1
    worse = [line[:-8] + " z z z z" for line in outputs]
    found = system_scores([outputs, worse], [blank], METRICS)
    assert found == system_scores([LINES, worse[:-2]], [LINES], METRICS)
    assert remarks(both) == ["43 of 84 reference lines are blank and are not scored"]
    with pytest.raises(UserError, match="all reference lines are blank"):
        corpus_scores(["a"], [[""], ["\u200b"]])


def test_texts_are_compared_in_one_normal_form():
    composed = [f"{line} schöne Grüße é" for line in LINES]
    apart = [unicodedata.normalize("NFD", line) for line in composed]
    for outputs, references in ((composed, [apart]), (apart, [composed])):
        assert corpus_scores(outputs, references, METRICS)["chrf"].score == 100
        (line,) = remarks(references, outputs)
        assert line.startswith("40 of 40 ") and "(NFC)" in line
    others = [line.replace("a", "z") for line in apart]
    found = p_values(composed, [others], [apart])
    assert found == p_values(composed, [[line.replace("a", "z") for line in composed]], [composed])
    assert remarks([composed], composed) == []


def test_a_text_that_looks_tokenised_is_named_once():
    tokens, plain = [f"{line} ." for line in LINES], [f"{line}." for line in LINES]
    (line,) = remarks([tokens], tokens)
    assert "the references and translations look tokenised" in line and "--tokenize=none" in line
    assert "the translations look tokenised" in remarks([plain], tokens)[0]
    for references in ([plain], [plain, LINES], [tokens[:9]], [[*tokens[:11], *plain]]):
        assert remarks(references, plain) == []
    assert remarks([tokens], tokens, is_usual=False) == []


@pytest.mark.parametrize("metric", METRICS)
def test_equal_translations_do_not_differ(metric):
    text = [f"{line[:-2]} é" for line in LINES]
    for other in (text, [unicodedata.normalize("NFD", line) for line in text]):
        _, found = system_scores([text, other, LINES], [LINES], [metric])
        first, second, _ = found[metric][1]
        assert first == second and first.p_value < 0.05
    assert p_values(text, [text, LINES], [LINES])[0] == 1


def test_ter_counts_characters_where_no_spaces_divide_words():
    reference = ["我们明天去北京看长城", "他喜欢喝茶"]
    good = [reference[0].replace("明", "今"), reference[1]]
    found = corpus_scores(good, [reference], ["ter"])
    assert found["ter"].score == pytest.approx(100 / 15) and "asian:yes" in found["ter_signature"]
    assert "TER of characters" in remarks([reference], metrics=["ter"])[0]
    assert "TER counts words between spaces" in remarks([["ก ก"]], metrics=["ter"])[0]
    assert "asian:no" in corpus_scores(LINES, [LINES], ["ter"])["ter_signature"]


def test_of_a_list_of_terms_chrf_leads():
    terms = ["Hund", "rote Katze", "das kleine Haus"]
    assert "four words" in remarks([terms])[0] and remarks([terms], metrics=["chrf"]) == []
    assert leading(["bleu", "chrf"], [terms]) == ["chrf", "bleu"]
    assert leading(["bleu", "ter"], [terms]) == ["bleu", "ter"]
    assert leading(["bleu", "chrf"], [LINES]) == ["bleu", "chrf"]
