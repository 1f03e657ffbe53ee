"""The ways in which users ask for translations: their flags, checks and files."""

from collections.abc import Sequence
from typing import Any

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import read_lines
from nmt_zoo.configuration.options import Option
from nmt_zoo.data_pipeline.noise import COPIES, NONE, shares_of
from nmt_zoo.data_pipeline.text_form import normalised
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import (
    UNK_ID,
    PieceVocabulary,
    Vocabulary,
    join_pieces,
)
from nmt_zoo.decoding.search.phrases import has_phrase
from nmt_zoo.decoding.search.rules import rules_of
from nmt_zoo.decoding.search.types import SearchOptions
from nmt_zoo.decoding.text.glossary import Glossary
from nmt_zoo.decoding.text.kept_parts import KeptParts, can_keep
from nmt_zoo.decoding.text.training_text import TrainingText
from nmt_zoo.decoding.text.usual_form import UsualForm

_SHAPE, _WORDS = "Length and repetition", "Words of translations"
_DRAWS, _SHORTLIST = "Random translations, minimum Bayes risk", "Shortlist"

MAX_DRAWS = 1000  # Of a line.
_UNASKED = SearchOptions()

OPTIONS = (
    Option(
        "min_length_factor",
        _UNASKED.min_length_factor,
        "Fewest tokens of a translation, with </s>, for each token of its source.",
        _SHAPE,
        0,
        1000,
    ),
    Option(
        "max_length_factor",
        _UNASKED.max_length_factor,
        f"Most tokens of a translation, with </s>, for each token of its source, besides "
        f"{_UNASKED.max_length_extra}.",
        _SHAPE,
        0,
        1000,
    ),
    Option(
        "no_repeat_ngram",
        _UNASKED.no_repeat_ngram,
        "Length of the n-grams, in tokens, that a translation contains at most once (0: any number "
        "of times).",
        _SHAPE,
        0,
        100,
    ),
    Option("prefix", "", "File of the text with which each line's translation begins.", _WORDS),
    Option(
        "required",
        "",
        "File of the words or phrases that the translation of each line must contain, separated by "
        "tabs.",
        _WORDS,
    ),
    Option(
        "glossary",
        "",
        "File of terms and their translations, a pair with a tab between them on each line: the "
        "translation of a line that has a term must contain the term's, in the form given.",
        _WORDS,
    ),
    Option(
        "keep",
        "",
        "Regular expression of parts of lines that are copied, not translated; technical: e-mail "
        "and web addresses, placeholders, tags and entities. Parts with characters that the "
        "vocabulary lacks are copied, too, without the flag only by models of --noise=copies; "
        "none: nothing is copied.",
        _WORDS,
    ),
    Option(
        "banned", "", "File of words or phrases, one a line, that no translation contains.", _WORDS
    ),
    Option(
        "rules",
        "",
        "Rules of your own for translations, my_rules.py:Name, separated by commas; see "
        "docs/extending.md.",
        _WORDS,
    ),
    Option(
        "sample",
        _UNASKED.sample,
        "Draws --n_best translations of each line at random, by their probability, instead of "
        "searching for the most probable ones.",
        _DRAWS,
        excludes=dict.fromkeys(("beam_size", "required", "glossary"), "it is for beam search"),
    ),
    Option(
        "temperature",
        _UNASKED.temperature,
        "Divides log-probabilities before a token is drawn (0: takes the most probable token).",
        _DRAWS,
        0,
        100,
        needs=("sample",),
    ),
    Option(
        "top_k",
        _UNASKED.top_k,
        "Draws among this many most probable tokens only (0: all).",
        _DRAWS,
        0,
        needs=("sample",),
    ),
    Option(
        "top_p",
        _UNASKED.top_p,
        "Draws among the most probable tokens only that have this probability together (1: all).",
        _DRAWS,
        0,
        1,
        needs=("sample",),
    ),
    Option(
        "seed",
        0,
        "Seed of the draws. They depend on it and on the line's number.",
        _DRAWS,
        0,
        needs=("sample",),
    ),
    Option(
        "mbr",
        0,
        "Number of translations of each line, found or drawn, among which the one most similar to "
        "all of them in chrF is chosen (minimum Bayes risk). Its score is that similarity. 0: the "
        "most probable one is chosen.",
        _DRAWS,
        0,
        MAX_DRAWS,
    ),
    Option(
        "shortlist",
        "",
        "Directory of an IBM model (ibm1) with the same vocabularies. Only likely translations of "
        "the tokens of a line are considered for it, which is faster.",
        _SHORTLIST,
    ),
)
FILES = ("prefix", "required", "glossary", "banned")  # Options that name a file of text.
# Texts of the user are looked for in lines or translations, or put there, as they are.
_NOT_IN_USUAL_FORM = ("prefix", "required", "banned")
_NOT_WITH_COPIES = ("keep", *_NOT_IN_USUAL_FORM)


def check_requests(given: dict[str, Any], *, beam_size: int, n_best: int) -> None:
    """Raises `UserError` if the numbers of requests do not fit together.

    `given` is name -> value of the `OPTIONS` that were given; they break no rule of translate.py.
    """
    values = {**{option.name: option.default for option in OPTIONS}, **given}
    mbr = values["mbr"]
    for name, count in (("n_best", n_best), ("mbr", mbr)):
        if not values["sample"] and count > beam_size:
            raise UserError(f"--{name}={count} must be from 1 to --beam_size={beam_size}")
    if n_best > MAX_DRAWS:
        raise UserError(f"--n_best={n_best}: expected at most {MAX_DRAWS} draws of a line")
    if mbr and not max(2, n_best) <= mbr:
        raise UserError(
            f"--mbr={mbr}: expected the number of translations to choose from, at least 2 and at "
            f"least --n_best={n_best}"
        )
    if values["min_length_factor"] > values["max_length_factor"]:
        raise UserError(
            f"--min_length_factor={values['min_length_factor']} is more than "
            f"--max_length_factor={values['max_length_factor']}"
        )


def name_of(directories: Sequence[Any]) -> str:
    """Returns the name, in errors, of the model of one or more directories."""
    return f"the model in {', '.join(str(directory.path) for directory in directories)}"


def copies_unknown(given: dict[str, Any], directories: Sequence[Any]) -> bool:
    """Returns whether models copy parts of a line that they do not know, without being asked to.

    Arguments are as of `translator_options`.
    """
    trained = (directory.config()["options"].get("noise", NONE) for directory in directories)
    return not any(map(given.get, _NOT_WITH_COPIES)) and all(
        COPIES in shares_of(noise) for noise in trained
    )


def translator_options(
    given: dict[str, Any],
    tokenizer: Tokenizer,
    directories: Sequence[Any],
    training_text: TrainingText | None = None,
    split_sentences: str = "auto",
) -> dict[str, Any]:
    """Reads the files of requests; returns options of `Translator.of`.

    `given` is name -> value of the `OPTIONS` that were given; `split_sentences` is as the flag.
    `directories` are those of the models that translate, whose options of training tell whether
    unknown characters are copied, and how many sentences stand before a line.
    Raises UserError: a file cannot be read or does not fit the model.
    """
    most_sentences = training_text.most_sentences if training_text else 0
    others = (*FILES, "keep", "shortlist")
    options = {name: value for name, value in given.items() if name not in others}
    trained = [directory.config()["options"] for directory in directories]
    options |= {
        "name": name_of(directories),
        "context_sentences": trained[0]["context_sentences"],
        "tags": training_text.tags if training_text else (),
        "split_sentences": {"always": 1, "never": 0}.get(split_sentences, most_sentences),
    }
    if options.get("sample"):
        options["beam_size"] = 1
    if given.get("keep") not in (None, "none"):
        options["keep"] = KeptParts(given["keep"], tokenizer)
    elif copies_unknown(given, directories) and can_keep(tokenizer):
        options["keep"] = KeptParts("", tokenizer)
    if not any(map(given.get, _NOT_IN_USUAL_FORM)):
        options["usual_form"] = UsualForm(
            tokenizer.source, training_text.stop if training_text else ""
        )
    vocabulary, banned = tokenizer.target, []
    if given.get("rules"):
        options["rules"] = rules_of(given["rules"], vocabulary)
    if given.get("banned"):
        from nmt_zoo.decoding.search.banned import banned_phrases

        phrases = read_phrases(given["banned"], vocabulary.form)
        banned = [_as_words(phrase, vocabulary) for phrase in phrases]
        options["banned"] = banned_phrases(banned, vocabulary)
    if given.get("prefix") or given.get("required"):
        paths = given.get("prefix"), given.get("required")
        options["constraints"] = read_constraints(*paths, vocabulary, banned)
    if given.get("glossary"):
        options["glossary"] = glossary = Glossary(given["glossary"], vocabulary.form)
        _check_words(glossary.path, glossary.wanted, vocabulary, banned)
    return options


def read_phrases(path: str, form: str = "nfc") -> list[str]:
    """Reads phrases, one a line, in a form of `text_form.FORMS`.

    Raises UserError: the file cannot be read or is empty, or a line is empty.
    """
    phrases = [normalised(line, form) for line in read_lines(path)]
    if not phrases:
        raise UserError(f"{path}: empty; expected a word or phrase on each line")
    for number, phrase in enumerate(phrases, start=1):
        if not phrase:
            raise UserError(f"{path}, line {number}: empty; expected a word or phrase")
    return phrases


def read_constraints(
    prefix: str | None, required: str | None, vocabulary: Vocabulary, banned: Sequence[str] = ()
) -> list[tuple[str, list[str]]]:
    """Returns the constraints of each line, `(prefix, list of phrases)`.

    `prefix` is the path of a file of prefixes, `required` the path of a file of phrases, separated
    by tabs. No translation contains a phrase of `banned`.
    Raises UserError: the files differ in length, or a word is unknown to the model or banned.
    """
    form = vocabulary.form
    prefixes = [[normalised(line, form)] for line in read_lines(prefix)] if prefix else None
    phrases = [_phrases(line, form) for line in read_lines(required)] if required else None
    if None not in (prefixes, phrases) and len(prefixes) != len(phrases):
        raise UserError(
            f"{prefix} has {len(prefixes)} lines and {required} has {len(phrases)}; line n of both "
            "is about line n of the input"
        )
    for path, lines in ((prefix, prefixes or ()), (required, phrases or ())):
        _check_words(path, lines, vocabulary, banned)
    size = len(prefixes if phrases is None else phrases)
    prefixes, phrases = prefixes or [[""]] * size, phrases or [[]] * size
    return [(line, required) for (line,), required in zip(prefixes, phrases, strict=True)]


def _as_words(phrase, vocabulary):
    """Returns a phrase as translations show it: one in pieces of a `PieceVocabulary`, joined."""
    if isinstance(vocabulary, PieceVocabulary) and vocabulary.style in phrase:
        return join_pieces(phrase.split(" "), vocabulary.style) or phrase
    return phrase


def _phrases(line, form):
    """Splits a line at tabs; drops repeated phrases, and spaces that do not count."""
    phrases = (normalised(phrase, form) for phrase in line.split("\t"))
    return list(dict.fromkeys(filter(None, phrases)))


def _check_words(path, lines, vocabulary, banned):
    for number, phrases in enumerate(lines, start=1):
        for phrase, ids in zip(phrases, vocabulary.encode(phrases), strict=True):
            if UNK_ID in ids:
                in_pieces = isinstance(vocabulary, PieceVocabulary)
                raise UserError(
                    f"{path}, line {number}: the model does not know all words of {phrase[:60]!r}; "
                    + ("write it in pieces, as the input" if in_pieces else "ask for words")
                    + " of its vocabulary"
                )
            if phrase.strip() and len(ids) < 2:  # </s> alone.
                raise UserError(
                    f"{path}, line {number}: {phrase[:60]!r} has no token of the model's vocabulary"
                )
            text = _as_words(phrase, vocabulary)
            if any(has_phrase(text, phrase) for phrase in banned):
                raise UserError(f"{path}, line {number}: {phrase[:60]!r} is banned; see --banned")
