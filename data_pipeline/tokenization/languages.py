"""Models of several languages: tokens of languages at the beginning of a text.

A language token is a piece of the vocabulary. In a model with `on_source`, the source begins with
the token of the language into which it is to be translated (Johnson et al. 2017); in others, each
side begins with the token of its own language (Liu et al. 2020, Fan et al. 2021).
"""

import copy
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.tokenization.tokenizers import SIDES, Tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import UNK_ID

_NAME = re.compile("[A-Za-z][A-Za-z0-9_-]*")


def tags_of(text: str, count: int) -> list[str]:
    """Returns the tag of each language of --target_languages, `de,fr`, for `count` corpora.

    Raises UserError: another number of languages, or one that is no name of letters, digits and
    hyphens.
    """
    languages = text.split(",")
    if len(languages) != count:
        raise UserError(
            f"--target_languages={text}: {len(languages)} languages for {count} corpora; expected "
            "one for each file of the source, in the same order"
        )
    for language in languages:
        if not _NAME.fullmatch(language):
            raise UserError(
                f"--target_languages={text}: {language!r} is no name of a language, such as de"
            )
    return [f">>{language}<<" for language in languages]


class Languages(NamedTuple):
    """The languages of a model; also the entry `languages` of its config.json."""

    signs: dict[str, str]  # By language: its piece.
    on_source: bool
    source: str = ""  # The languages that are meant if no others are asked for; "": none.
    target: str = ""

    @classmethod
    def of_tags(cls, tags: Iterable[str]) -> "Languages":
        """Returns the languages of tags such as `>>de<<`, which stand before the source."""
        return cls({tag[2:-2]: f"▁{tag}" for tag in tags}, on_source=True)

    @classmethod
    def of(cls, config: dict[str, Any]) -> "Languages | None":
        """Returns the languages of a configuration; None for a model of one pair of languages."""
        return cls(**config["languages"]) if config.get("languages") else None


def of_languages(
    tokenizer: Tokenizer, languages: Languages | None, source: str, target: str, name: str
) -> Tokenizer:
    """Returns a tokenizer whose texts begin with the tokens of two languages.

    "" stands for the language of the model. `name` is that of the model in errors.
    Raises UserError: a language is unknown, or missing; or the model has one pair of languages.
    """
    if languages is None:
        if source or target:
            raise UserError(
                f"{name} has one pair of languages; leave out --source_language and "
                "--target_language"
            )
        return tokenizer
    meant = {"source": source or languages.source, "target": target or languages.target}
    for side in SIDES[:1] if languages.on_source else SIDES:
        spoken = "target" if languages.on_source else side
        language = meant[spoken]
        if language not in languages.signs:
            fault = f"{language!r} is none of them"
            fault = fault if language else "none is given, here or when importing"
            names = ", ".join(sorted(languages.signs))
            raise UserError(f"--{spoken}_language: {fault}; the languages of {name}: {names}")
        vocabulary = copy.copy(getattr(tokenizer, side))
        (vocabulary.language_token,) = vocabulary.ids([languages.signs[language]])
        vocabulary.language_tokens = frozenset(vocabulary.ids(languages.signs.values()))
        if UNK_ID in vocabulary.language_tokens:
            raise UserError(f"{name}: the {side} vocabulary lacks the token of a language")
        tokenizer = tokenizer._replace(**{side: vocabulary})
    return tokenizer
