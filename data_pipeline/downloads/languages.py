"""Guesses cheaply whether a line is in the expected script and language."""

import re

from data_pipeline.files import UserError

# Ranges of letters.
_SCRIPTS = {
    "Latin": "A-Za-zªºÀ-ÖØ-öø-ʯḀ-ỿꜢ-ꟿＡ-Ｚａ-ｚﬀ-ﬆ",
    "Cyrillic": "\u0400-\u052f\u1c80-\u1c8f\u2de0-\u2dff\ua640-\ua69f",
    "Greek": "\u0370-\u03ff\u1f00-\u1fff",
    "Arabic": "\u0600-\u06ff\u0750-\u077f\u08a0-\u08ff\ufb50-\ufdff\ufe70-\ufefc",
    "Hebrew": "\u0590-\u05ff\ufb1d-\ufb4f",
    "Devanagari": "\u0900-\u097f",
    "Han": "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff",
    "Kana and Han": "\u3005-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff",
    "Hangul": "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af",
}
_OTHER_THAN_LATIN = {
    "Cyrillic": "be bg kk mk ru sr uk",
    "Greek": "el",
    "Arabic": "ar fa ur",
    "Hebrew": "he",
    "Devanagari": "hi mr ne",
    "Han": "zh",
    "Kana and Han": "ja",
    "Hangul": "ko",
}
_SCRIPT_OF = {code: s for s, codes in _OTHER_THAN_LATIN.items() for code in codes.split()}

# Frequent short words; most sentences contain several of them.
_FREQUENT = {
    "en": "the of and to is that for it with as are this be by not have from which you we they "
    "has been were their would can or but our your",
    "de": "der die das und den von zu ist mit sich des auf für nicht dem ein eine als auch werden "
    "wird sind einer wir sie haben oder bei nach über durch ich zum zur",
    "fr": "le la les des et du que qui dans pour une est pas au plus par sur avec ce il nous vous "
    "sont cette aux leur ou être ont mais",
    "cs": "je se že na ve jsou která které který pro při jako nebo jsme byl byla bylo také ale tak "
    "aby podle mezi když není jsem jeho",
    "pt": "o os uma um que não em para com por mais dos das ao são foi mas como ele eu nós isso "
    "muito você ser tem também",
    "es": "el los las una que en por con para del su más como pero está fue son esta este lo sus "
    "muy también hay nos",
    "it": "il gli che di per una con non sono della è dei le nel più alla questo anche come ma ha "
    "si delle dal abbiamo",
}


def _own_words():
    """Returns {language: frequent words that no other language of the table has}."""
    lists = {code: set(words.split()) for code, words in _FREQUENT.items()}
    return {
        code: words - set().union(*(w for other, w in lists.items() if other != code))
        for code, words in lists.items()
    }


_WORDS = _own_words()


class Guess:
    """Finds lines that are surely not in a language; doubtful lines pass.

    Args:
        code: language code of two letters. Languages without an entry in the table of scripts are
            taken to have Latin letters. Words are known for cs, de, en, es, fr, it and pt.

    Raises:
        UserError: the code is not two letters.
    """

    def __init__(self, code):
        if not re.fullmatch("[a-z]{2}", code):
            raise UserError(f"language {code!r}: expected two letters such as en, de or ru")
        self.own = _WORDS.get(code)
        self.others = [words for other, words in _WORDS.items() if other != code]
        self.foreign = frozenset().union(*self.others)
        self.known = self.foreign.union(self.own or ())
        script = _SCRIPTS[_SCRIPT_OF.get(code, "Latin")]
        self.other_letters = re.compile(rf"[^\W\d_{script}]")

    def fault(self, line):
        """Returns "wrong script", "wrong language" or None."""
        strange = len(self.other_letters.findall(line))
        if strange and 2 * strange > sum(map(str.isalpha, line)):
            return "wrong script"
        if self.own is None:
            return None
        words = self.known.intersection(line.lower().split())
        if len(words & self.foreign) < 3:
            return None
        other = max(len(words & known) for known in self.others)
        return "wrong language" if other >= 3 and other > 2 * len(words & self.own) else None
