"""Searches of models whose translations begin with a language."""

import numpy as np

from nmt_zoo import models
from nmt_zoo.data_pipeline.tokenization.languages import Languages, of_languages
from nmt_zoo.data_pipeline.tokenization.tokenizers import train_tokenizer
from nmt_zoo.decoding.search.engine import GraphEngine
from nmt_zoo.decoding.search.phrases import phrase_ids
from nmt_zoo.decoding.search.types import SearchOptions, Sentence
from nmt_zoo.decoding.text.kept_parts import KeptParts
from tests.tiny import SMALL, pairs


def test_draws_begin_with_the_language():
    model = models.create("transformer_tiny", 60, 60, **SMALL)
    options = SearchOptions(beam_size=1, sample=True, first=7)
    sentences = [Sentence([9, 8, 3], number) for number in range(3)]
    for found in GraphEngine(model, options, None).search(sentences, 2):
        assert (found.ids[:, 0] == 7).all() and (found.log_probs > -1e8).all()


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
