"""The fast guess of a line's script and language."""

import pytest

from data_pipeline.downloads.languages import Guess
from data_pipeline.files import UserError

SENTENCES = {
    "en": "They have been asked for the reasons by which it was not possible to do this.",
    "de": "Wir haben nicht gewusst, dass sich das auf die Preise für den Winter auswirken wird.",
    "fr": "Nous ne savons pas ce qui est arrivé, mais ils sont partis avec leur fille.",
    "cs": "Nevím, jestli je to pravda, ale také se říká, že na tom není nic špatného.",
    "pt": "Eu não sei o que ele quer, mas são muito felizes com isso e também com as crianças.",
    "es": "No sé lo que quiere el hombre, pero los niños están muy felices con sus amigos.",
    "it": "Non so che cosa vuole il ragazzo, ma gli altri sono felici della scuola.",
    "ru": "Мы не знаем, почему это случилось.",
    "el": "Δεν ξέρουμε γιατί συνέβη αυτό.",
    "zh": "我们不知道为什么会这样。",
    "ja": "なぜそうなったのか分かりません。",
    "ko": "왜 그런 일이 일어났는지 모릅니다.",
    "ar": "لا نعرف لماذا حدث ذلك.",
    "he": "אנחנו לא יודעים למה זה קרה.",
    "hi": "हम नहीं जानते कि ऐसा क्यों हुआ।",
}
WITH_WORDS = ("en", "de", "fr", "cs", "pt", "es", "it")


@pytest.mark.parametrize("code", SENTENCES)
def test_a_sentence_is_told_from_those_in_other_languages(code):
    guess = Guess(code)
    assert guess.fault(SENTENCES[code]) is None
    for other, sentence in SENTENCES.items():
        both_have_words = code in WITH_WORDS and other in WITH_WORDS
        same_letters = {code, other} in ({"zh", "ja"}, {code})
        if both_have_words and other != code:
            assert guess.fault(sentence) == "wrong language", other
        elif not both_have_words and not same_letters:
            assert guess.fault(sentence) == "wrong script", other


@pytest.mark.parametrize("code", SENTENCES)
@pytest.mark.parametrize("line", ["", "1 234,56 €", "(2)", "…", "😀"])
def test_what_has_no_letters_is_in_every_language(code, line):
    assert Guess(code).fault(line) is None


@pytest.mark.parametrize("line", ["Herr Präsident!", "Los Angeles", "Die Hard", "Windows XP"])
def test_in_doubt_a_line_passes(line):
    assert Guess("en").fault(line) is None
    assert Guess("de").fault(line) is None


def test_names_in_another_script_do_no_harm():
    assert Guess("de").fault("Dostojewski (Достоевский) schrieb dieses Buch in Petersburg.") is None


@pytest.mark.parametrize("code", ["", "english", "EN", "e1"])
def test_what_is_no_code_is_refused(code):
    with pytest.raises(UserError, match="expected two letters"):
        Guess(code)
