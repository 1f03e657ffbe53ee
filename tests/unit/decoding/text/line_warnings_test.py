"""Warnings that are printed about translations."""

from nmt_zoo.data_pipeline.tokenization.vocabularies import UNK_ID
from nmt_zoo.decoding.text.line_warnings import LineWarnings
from nmt_zoo.decoding.translator import EMPTY, NO_MEMORY, TOO_LONG, Translation

FINE = Translation("gut", -1.0, -2.0, True, [5, 3])
LEFT = {problem: Translation("", 0.0, 0.0, True, [], problem) for problem in (TOO_LONG, NO_MEMORY)}

WORDS = ["word"] * 3_000


def said(best, lengths):
    warnings = LineWarnings(max_input_tokens=1000, max_length=20)
    for half in (slice(0, 3), slice(3, None)):  # Lines come in windows.
        ids = [[5] * n for n in lengths[half]]
        warnings.add(WORDS[: len(ids)], ids, [[one] for one in best[half]])
    return sorted(warnings)


def test_nothing_is_said_of_what_all_expect():
    assert said([FINE, FINE], [2, 20]) == []


def test_lines_are_counted_of_all_and_numbered_from_1():
    best = [FINE, EMPTY, LEFT[TOO_LONG], FINE, LEFT[NO_MEMORY], FINE, LEFT[TOO_LONG]]
    assert said(best, [2, 1, 1001, 1001, 30, 21, 5000]) == [
        "empty lines, left empty: 1 of 7 (line 2)",
        "lines left untranslated (longer than the limit of 1,000 tokens; see --long_lines): 2 of 7 "
        "(lines 3, 7)",
        "lines left untranslated (not enough memory): 1 of 7 (line 5)",
        "lines longer than any in training (20 tokens), translated in full but perhaps badly: 1 of "
        "7 (line 6)",
        "lines of more than 1,000 tokens, translated in parts: 1 of 7 (line 4)",
    ]


def test_translations_that_are_cut_or_empty_are_counted():
    cut, empty = FINE._replace(finished=False), FINE._replace(text="")
    assert said([cut, empty, *[FINE] * 2_000], [5] * 2_002) == [
        "empty translations of lines that are not empty: 1 of 2,002 (line 2)",
        "translations cut at their length limit (see --max_length_factor): 1 of 2,002 (line 1)",
    ]


def test_of_many_lines_the_first_are_numbered():
    (warning,) = said([LEFT[NO_MEMORY]] * 11, [5] * 11)
    assert warning.endswith(": 11 of 11 (lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ...)")


def test_lines_with_fewer_translations_than_asked_for_are_numbered():
    warnings = LineWarnings(max_input_tokens=1000, max_length=20, n_best=2)
    warnings.add(WORDS[:3], [[5, 3], [5, 6, 3], [3]], [[FINE, FINE], [FINE], [EMPTY]])
    assert next(iter(warnings)) == (
        "lines with fewer than 2 different translations (see --beam_size; equal draws of --sample "
        "count once): 1 of 3 (line 2)"
    )


def test_lines_in_parts_are_not_numbered_as_lines_for_which_the_beam_is_too_small():
    warnings = LineWarnings(max_input_tokens=4, max_length=20, n_best=2)
    warnings.add(WORDS[:2], [[5, 3], [5] * 5], [[FINE, FINE], [FINE]])
    assert [*warnings] == [
        "lines of more than 4 tokens, translated in parts, with one translation each: 1 of 2 "
        "(line 2)"
    ]


def test_lines_without_a_known_word_are_numbered_unless_unknown_words_are_replaced():
    sources = [[UNK_ID, 5, 3], [UNK_ID, UNK_ID, 3], [3]]
    for replaces in (False, True):
        warnings = LineWarnings(max_input_tokens=1000, max_length=20, replaces_unknowns=replaces)
        warnings.add(WORDS[:3], sources, [[FINE], [FINE], [EMPTY]])
        expected = (
            "lines without a word that the model knows; their translations mean nothing: 1 of 3 "
            "(line 2)"
        )
        assert [expected] * (not replaces) == [*warnings][:-1]
