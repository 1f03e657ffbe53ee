"""Tables of texts with odd links, empty sentences and huge vocabularies."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt_zoo.models.phrases import rule_matches, sentence_options
from nmt_zoo.models.phrases.language_states import LanguageStates
from nmt_zoo.models.phrases.phrase_decoder import PhraseDecoder
from nmt_zoo.models.phrases.rule_decoder import RuleDecoder
from nmt_zoo.training.ways.counting import counting
from nmt_zoo.training.ways.phrases import phrase_table, rules
from tests.unit.data_pipeline.small import rows_of
from tests.unit.training.expectation_maximisation.textbook import corpus_of
from tests.unit.training.phrases.extraction_test import linked

_EOS = 3


@st.composite
def linked_texts(draw):
    """Draws (text, links of each pair as sets, size of the vocabularies)."""
    size = draw(st.sampled_from([6, 40, 1_000_000]))
    words = st.lists(st.integers(4, size - 1), max_size=6)
    sides, links = ([], []), []
    for _ in range(draw(st.integers(1, 6))):
        both = [draw(words) for _ in sides]
        for side, ids in zip(sides, both, strict=True):
            side.append(ids)
        cells = [(i, j) for i in range(len(both[0])) for j in range(len(both[1]))]
        links.append(draw(st.sets(st.sampled_from(cells))) if cells else set())
    return corpus_of(zip(*sides, strict=True)), links, size


@settings(max_examples=12, deadline=None, derandomize=True, database=None)
@given(linked_texts())
@pytest.mark.parametrize("gaps", [0, 1])
def test_any_linked_text_gives_a_table_that_translates(gaps, text):
    corpus, links, size = text
    estimate, kind, decoder = (
        (rules.estimate, rule_matches, RuleDecoder)
        if gaps
        else (phrase_table.estimate, sentence_options, PhraseDecoder)
    )
    table, _ = estimate(corpus, linked(corpus, links), (size, size), max_length=5, most=4)
    assert np.isfinite(table.pair_scores).all() and (table.pair_scores <= 0).all()
    assert (np.diff(table.source_keys) > 0).all() and (np.diff(table.target_starts) > 0).all()
    ngrams = counting.estimate(corpus.target, size, 3)
    language = LanguageStates(size, 3, *ngrams[:4], 2)
    decoder = decoder(
        table,
        language,
        np.array(kind.FIRST_WEIGHTS),
        max_phrase_length=5,
        eos_id=_EOS,
        unknown_id=1,
        **({} if gaps else {"distortion_limit": 6}),
    )
    sources = rows_of(corpus.source)
    for source, hypotheses in zip(sources, decoder.search(sources, n_best=2), strict=True):
        assert len(hypotheses) > 0 or source == [_EOS]
        for hypothesis in hypotheses:
            assert np.isfinite(hypothesis.score) and hypothesis.ids[-1] == _EOS
            assert decoder.explain(source, hypothesis.ids).score >= hypothesis.score - 1e-6
