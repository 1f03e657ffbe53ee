"""Tags before lines: languages, and words of the user's own."""

import numpy as np
import pytest

from nmt_zoo.data_pipeline.tokenization.languages import Languages, of_languages
from nmt_zoo.data_pipeline.tokenization.tokenizers import train_tokenizer
from nmt_zoo.decoding.search.phrases import phrase_ids
from nmt_zoo.decoding.search.types import Hypotheses, SearchOptions
from nmt_zoo.decoding.text.kept_parts import KeptParts
from nmt_zoo.decoding.text.training_text import TrainingText
from nmt_zoo.decoding.translator import LineOptions, Translator
from tests.tiny import pairs

TAGS = [">>a<<", ">>b<<"]


class Echo:
    """An `Engine` whose translations have the ids of their sources."""

    refusal, options = "", SearchOptions()

    def search(self, sentences, n_best):
        one = np.zeros(1, np.float32)
        return [Hypotheses(np.array([s.source_ids]), one, one, one == 0) for s in sentences]


@pytest.fixture(scope="module")
def tokenizer():
    text = [
        [f"<formal> {line.capitalize()}." for line in side] for side in zip(*pairs(99), strict=True)
    ]
    tokenizer = train_tokenizer("bpe", *text, vocab_size=320)
    both = tokenizer.source.with_tags([*TAGS, ">>context<<"])
    tokenizer = tokenizer._replace(source=both, target=both)
    return of_languages(tokenizer, Languages.of_tags(TAGS), "", "a", "the model")


def texts(tokenizer, line, **options):
    """Returns what a model would read for each sentence of a line."""
    keep = KeptParts("technical", tokenizer)
    options = LineOptions(split_sentences=1, keep=keep, tags=("<formal>",), **options)
    pieces = Translator(Echo(), tokenizer, options)._pieces([line], [1])
    source = tokenizer.source
    return ["".join(source.pieces(piece.ids[:-1])).replace("▁", " ").strip() for piece in pieces]


@pytest.mark.parametrize("line", ["One dog. Two cats.", "One dog"])
@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("", ">>a<< "),  # The language of the flag.
        (">>b<< ", ">>b<< "),
        (">>b<<", ">>b<< "),
        ("<formal> ", ">>a<< <formal> "),
        (">>b<< <formal> ", ">>b<< <formal> "),
        ("<formal> >>b<< ", ">>b<< <formal> "),
    ],
)
def test_a_tag_holds_for_every_sentence_and_wins_over_flags(tokenizer, line, tag, expected):
    found = texts(tokenizer, tag + line)
    assert found == [expected + sentence for sentence in line.replace(". ", ".|").split("|")]


def test_the_language_stands_before_the_context_and_other_tags_before_the_sentence(tokenizer):
    line = "Two cats. >>context<< >>b<< <formal> One dog. Two dogs."
    assert texts(tokenizer, line, context_sentences=1) == [
        ">>b<< Two cats. >>context<< <formal> One dog.",
        ">>b<< <formal> One dog. >>context<< <formal> Two dogs.",
    ]


def test_words_in_brackets_that_begin_many_lines_are_tags():
    lines = [f"{tag} one dog ." for tag in ("<formal>", "[x]", "__y__", "«z»", "The", "l'un", "-")]
    text = TrainingText.of([*lines * 10, "<once> two cats ."] + ["one cat ."] * 200)
    assert text.tags == ("<formal>", "[x]", "__y__", "«z»")
    assert text.joined(TrainingText.of(["(b) a"])).tags == ("(b)", *text.tags)


def test_phrases_and_placeholders_have_no_language():
    tokenizer = train_tokenizer("bpe", *zip(*pairs(50), strict=True), vocab_size=300)
    both = tokenizer.target.with_tags([">>a<<", ">>b<<"])
    tags = Languages({"a": "▁>>a<<", "b": "▁>>b<<"}, on_source=False, source="a")
    spoken = of_languages(tokenizer._replace(source=both, target=both), tags, "", "b", "m").target
    assert spoken.language_token in spoken.encode(["Hund"])[0]
    keeps = [KeptParts("", tokenizer._replace(target=target)) for target in (spoken, both)]
    assert keeps[0].placeholder_ids("\ue000") == keeps[1].placeholder_ids("\ue000")
    for phrase in ("Hund", "großer Hund", "雨"):
        assert phrase_ids(phrase, spoken) == phrase_ids(phrase, both)
        assert not np.isin(phrase_ids(phrase, spoken), [*spoken.language_tokens]).any()
