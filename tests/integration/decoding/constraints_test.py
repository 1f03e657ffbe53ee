"""Translations of lines that ask for something: in text, as users give it and see it."""

from types import SimpleNamespace

import keras
import numpy as np
import pytest

from nmt_zoo import models
from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import SPECIALS, PieceVocabulary
from nmt_zoo.decoding.minimum_bayes_risk import expected_utilities
from nmt_zoo.decoding.search.banned import banned_phrases
from nmt_zoo.decoding.search.requests import (
    read_constraints,
    read_phrases,
    translator_options,
)
from nmt_zoo.decoding.translator import Translator
from tests.tiny import SMALL

pytestmark = pytest.mark.usefixtures("eagerly")
TRAINED = {"noise": "none", "context_sentences": 0}
DIRECTORY = SimpleNamespace(path="", config=lambda: {"options": TRAINED})
LINES = ["one dog", "", "cat sees big house two three", "three cats"]


@pytest.fixture(scope="module")
def parts(request):
    kind = getattr(request, "param", "words")
    tokenizer = request.getfixturevalue(kind)
    keras.utils.set_random_seed(4)
    sizes = len(tokenizer.source), len(tokenizer.target)
    settings = {} if kind == "pieces" else {"tie_embeddings": "target"}
    return models.create("transformer_tiny", *sizes, **SMALL, **settings), tokenizer


@pytest.mark.parametrize("parts", ["pieces"], indirect=True)
def test_terms_of_a_glossary_are_in_the_translations_of_their_lines_alone(parts, tmp_path):
    (tmp_path / "terms").write_text("dog\tHaus\nthree cats\teins zwei\ncat\tklein\n")
    given = {"glossary": str(tmp_path / "terms")}
    options = translator_options(given, parts[1], [DIRECTORY])
    search = {"beam_size": 6, "max_length_factor": 1.0, "max_length_extra": 5}
    found = Translator.of(*parts, **options, **search).translate(LINES)
    plain = Translator.of(*parts, **search).translate(LINES)
    for line, wanted in ((0, "Haus"), (2, "klein"), (3, "eins zwei")):
        assert wanted.lower() in found[line][0].text.lower()
        assert wanted not in plain[line][0].text
    assert "3 asked for, 3 met" in options["glossary"].summary()
    (tmp_path / "banned").write_text("Haus\n")
    with pytest.raises(UserError, match="terms, line 1: 'Haus' is banned"):
        translator_options({**given, "banned": tmp_path / "banned"}, parts[1], [DIRECTORY])


def test_minimum_bayes_risk_takes_the_candidate_most_similar_to_all(parts):
    options = {"beam_size": 5, "max_length_factor": 1.0, "max_length_extra": 4}
    candidates = Translator.of(*parts, **options).translate(LINES, n_best=5)
    chosen = Translator.of(*parts, mbr=5, **options).translate(LINES, n_best=2)
    for among, found in zip(candidates, chosen, strict=True):
        if not among[0].text:
            continue
        texts = [t.text for t in among]
        weights = np.exp([t.log_prob for t in among])
        utilities = dict(zip(texts, expected_utilities(texts, weights), strict=True))
        best = sorted(utilities.values(), reverse=True)[:2]
        assert [t.score for t in found] == pytest.approx(best)
        assert utilities[found[0].text] == pytest.approx(best[0])
    options = {**options, "beam_size": 1, "sample": True}
    draws = Translator.of(*parts, **options).translate(LINES[:1], n_best=6)[0]
    ((found,),) = Translator.of(*parts, mbr=6, **options).translate(LINES[:1])
    utilities = expected_utilities([t.text for t in draws], np.ones(6))
    assert found.score == pytest.approx(utilities.max())
    assert found.text == draws[int(utilities.argmax())].text


def test_draws_that_minimum_bayes_risk_ranks_have_different_texts(parts):
    # At this temperature, some of the draws are equal, and not all.
    options = {"beam_size": 1, "sample": True, "temperature": 0.6}
    options |= {"max_length_factor": 1.0, "max_length_extra": 3}
    draws = Translator.of(*parts, **options).translate(LINES[:1], n_best=20)[0]
    texts = {draw.text for draw in draws}
    assert 1 < len(texts) < 20
    found = Translator.of(*parts, mbr=20, **options).translate(LINES[:1], n_best=20)[0]
    assert len(found) == len(texts) and {each.text for each in found} == texts
    scores = [each.score for each in found]
    assert scores == sorted(scores, reverse=True)


def test_the_score_of_a_line_in_parts_is_a_similarity_if_candidates_are_compared(parts):
    translator = Translator.of(
        *parts, beam_size=3, mbr=3, max_length_factor=1.0, max_length_extra=4, split_sentences=True
    )
    sentences = ["one dog.", "Big cat."]
    ((together,),) = translator.translate([" ".join(sentences)])
    apart = [best.score for (best,) in translator.translate(sentences)]
    assert min(apart) > 0 and together.score == pytest.approx(np.mean(apart))


def test_parts_of_a_line_have_draws_of_their_own(parts):
    options = {"max_length_factor": 1.0, "max_length_extra": 6, "sample": True}
    translator = Translator.of(*parts, split_sentences=True, **options)
    ((joined,),) = translator.translate(["One dog. One dog. One dog."])
    (alone,) = translator.translate(["One dog."])
    first = alone[0].ids[:-1]  # Without </s>.
    assert first and joined.ids[: len(first)] == first
    assert joined.ids[:-1] != first * 3


def test_lines_of_which_something_is_asked_are_not_split(parts):
    asked = [("", []), ("Hund", []), ("", ["Hund"])]
    translator = Translator.of(*parts, constraints=asked, split_sentences=2)
    two, three = "One dog. Big cat.", "One dog. Big cat. One dog."
    assert [len(translator.in_sentences(three, n)) for n in (1, 2, 3)] == [3, 1, 1]
    assert translator.in_sentences(two, 1) == [two]  # No more than two sentences.


def test_a_line_without_its_request_is_named(parts):
    translator = Translator.of(*parts, constraints=[("Hund", [])])
    with pytest.raises(UserError, match="has 1 lines, and the text has 2 or more"):
        translator.translate(["one", "two"])
    translator.check_constraints(1)


@pytest.mark.parametrize("parts", ["pieces", "words"], indirect=True)
def test_files_of_requests_are_read_and_checked(parts, tmp_path):
    target = parts[1].target
    files = {
        "prefix": " Hund  Katze\n\n",
        "required": "Haus\teins  zwei\tHaus\n\n",
        "banned": "läuft\n",
        "gap": "Hund\n\n",
        "one": "Hund\n",
        "bad": "Haus\nläuft Hund\n",
        "empty": "",
        "another form": " 10\u00a0000  e\u0301\ufeff \n",
    }
    path = {name: tmp_path / name for name in files}
    for name, text in files.items():
        path[name].write_text(text, encoding="utf-8")
    found = read_constraints(path["prefix"], path["required"], target, ["läuft"])
    assert found == [("Hund Katze", ["Haus", "eins zwei"]), ("", [])]
    assert read_constraints(path["one"], None, target) == [("Hund", [])]
    for asked in ([path["empty"], None], [None, path["empty"]]):
        with pytest.raises(UserError, match="has 0 lines, and the text has 1"):
            Translator.of(*parts, constraints=read_constraints(*asked, target)).check_constraints(1)
    assert read_phrases(path["banned"]) == ["läuft"]
    assert read_phrases(path["another form"]) == ["10 000 é"]
    assert read_phrases(path["another form"], "none") == ["10 000 e\u0301"]
    with pytest.raises(UserError, match="gap, line 2: empty"):
        read_phrases(path["gap"])
    with pytest.raises(UserError, match="empty: empty; expected a word or phrase"):
        read_phrases(path["empty"])
    with pytest.raises(UserError, match=r"has 1 lines and .* has 2"):
        read_constraints(path["one"], path["required"], target)
    with pytest.raises(UserError, match=r"has 0 lines and .* has 2"):
        read_constraints(path["empty"], path["required"], target)
    with pytest.raises(UserError, match="bad, line 2: 'läuft Hund' is banned"):
        read_constraints(None, path["bad"], target, ["läuft"])
    if parts[1].kind == "word":
        (tmp_path / "strange").write_text("zebra\n")
        with pytest.raises(UserError, match="strange, line 1: the model does not know all words"):
            read_constraints(tmp_path / "strange", None, target)
    if parts[1].kind == "bpe":
        (tmp_path / "nothing").write_text("▁\n", encoding="utf-8")
        with pytest.raises(UserError, match="nothing, line 1: '▁' has no token of the model's"):
            read_constraints(None, tmp_path / "nothing", target)


@pytest.mark.parametrize("pieces", ["Kat@@ ze läuft", "▁Kat ze ▁läuft"])
def test_phrases_may_be_in_the_pieces_that_the_model_reads(pieces, tmp_path):
    vocabulary = PieceVocabulary([*SPECIALS, *pieces.split(), "Haus"])
    (tmp_path / "pieces").write_text(f"{pieces}\n", encoding="utf-8")
    (tmp_path / "words").write_text("Katze läuft\n", encoding="utf-8")
    assert read_constraints(None, tmp_path / "pieces", vocabulary) == [("", [pieces])]
    with pytest.raises(UserError, match=r"words, line 1: .*write it in pieces, as the input"):
        read_constraints(None, tmp_path / "words", vocabulary)
    with pytest.raises(UserError, match=r"pieces, line 1: .* is banned"):
        read_constraints(None, tmp_path / "pieces", vocabulary, ["Katze"])
    tokenizer, wanted = Tokenizer("pretokenized", vocabulary, vocabulary), ["Katze läuft"]
    for name in ("pieces", "words"):
        given = {"banned": tmp_path / name}
        found = translator_options(given, tokenizer, [DIRECTORY])["banned"]
        for one, other in zip(found, banned_phrases(wanted, vocabulary), strict=True):
            np.testing.assert_array_equal(one, other)
