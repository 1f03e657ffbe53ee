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


def tags_of(text: str, count: int, name: str) -> list[str]:
    """Returns the tag of each language of a list such as `de,fr`, for `count` corpora.

    Errors name the option `name`. Raises UserError: another number of languages, or a language that
    is no name of letters, digits and hyphens.
    """
    languages = text.split(",")
    if len(languages) != count:
        raise UserError(
            f"--{name}={text}: {len(languages)} languages for {count} corpora; expected one for "
            "each file of the source, in the same order"
        )
    for language in languages:
        if not _NAME.fullmatch(language):
            raise UserError(f"--{name}={text}: {language!r} is no name of a language, such as de")
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
        token = _token(languages, meant[spoken], spoken, name)
        vocabulary = copy.copy(getattr(tokenizer, side))
        (vocabulary.language_token,) = vocabulary.ids([token])
        vocabulary.language_tokens = frozenset(vocabulary.ids(languages.signs.values()))
        if UNK_ID in vocabulary.language_tokens:
            raise UserError(f"{name}: the {side} vocabulary lacks the token of a language")
        tokenizer = tokenizer._replace(**{side: vocabulary})
    return tokenizer


def _token(languages, language, side, name):
    if language in languages.signs:
        return languages.signs[language]
    fault = f"{language!r} is none of them" if language else "none is given, here or when importing"
    raise UserError(
        f"--{side}_language: {fault}; the languages of {name}: {', '.join(sorted(languages.signs))}"
    )
