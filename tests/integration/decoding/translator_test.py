"""Translation of strings, by the translator and inside a SavedModel."""

import itertools
import re
from contextlib import nullcontext
from functools import partial

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework.types_pb2 import DataType

from nmt_zoo.common.errors import UserError
from nmt_zoo.configuration.options import LENGTH_PENALTY
from nmt_zoo.data_pipeline.tokenization.vocabularies import EOS_ID
from nmt_zoo.decoding.scoring import make_scorer
from nmt_zoo.decoding.search.types import length_normaliser
from nmt_zoo.decoding.translator import NO_MEMORY, TOO_LONG, Translator
from nmt_zoo.serving.export import saved_model, saved_model_check, saved_model_client
from nmt_zoo.serving.export.saved_model import ServingModule
from nmt_zoo.serving.export.saved_model_check import check
from nmt_zoo.serving.export.server_files import read_meta_graph
from nmt_zoo.serving.server.served_model import ServedModel
from tests.integration.decoding.conftest import LINES, LONGEST, SEARCH
from tests.integration.decoding.scoring_test import Diverged
from tests.running import client_in_this_process
from tests.tiny import Echo, Greedy

# Graphs are made by the fixtures of the module alone.
pytestmark = pytest.mark.usefixtures("eagerly")


@pytest.fixture(scope="module")
def singly(parts):
    """Returns the same by graphs for one sentence in reverse order, and the longest line again.

    The longest line is the first one that is translated, which needs no graph.
    """
    translator = Translator.of(*parts, **SEARCH, batch_size=1)
    return translator.translate(LINES[::-1], 3)[::-1] + translator.translate([LONGEST], 3)


def test_order_batches_threads_and_graphs_change_nothing(at_once, singly):
    for some, others in zip([*at_once, at_once[2]], singly, strict=True):
        assert [t.ids for t in some] == [t.ids for t in others]
        np.testing.assert_allclose([t.score for t in some], [t.score for t in others], atol=1e-4)


def test_a_line_has_distinct_translations_the_best_first_and_an_empty_one_an_empty_one(at_once):
    for line, best in zip(LINES, at_once, strict=True):
        if not line.strip():
            assert [(t.text, t.score, t.finished) for t in best] == [("", 0.0, True)]
            continue
        assert 1 < len({t.text for t in best}) == len(best) <= 3
        scores = [t.score for t in best if t.finished]
        assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(("num_heads", "count"), [(1, 3), (2, 2), (6, 1), (20, 0)])
def test_requests_of_a_check_are_small_enough(monkeypatch, num_heads, count):
    monkeypatch.setattr(saved_model_check, "MAX_WEIGHTS", 108)
    pairs = [
        ("", [4] * source, "", [4] * target) for source, target in ((3, 6), (7, 2), (4, 2), (1, 5))
    ]
    fitting = saved_model_check._fitting(pairs, num_heads)
    assert fitting == [pairs[i] for i in (2, 3, 0)][:count]


@pytest.fixture(scope="module")
def serving(parts):
    return ServingModule(*parts, **SEARCH, max_beam_size=5)


@pytest.fixture(scope="module")
def saved(serving, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "model"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(saved_model, "MAX_WEIGHTS", 10_000)
        serving.save(folder)
    return folder


def echoing(pieces, model=Echo, **options):
    return Translator.of(model(len(pieces.source)), pieces, beam_size=1, **options)


def test_a_line_above_the_limit_is_left_untranslated_or_translated_in_parts(pieces):
    text = "one dog sees two cats. big cat runs! \u2026three"
    lines = ["one dog", text, "", "x" * 50]
    sizes = [len(ids) for ids in pieces.source.encode(lines)]
    whole = echoing(pieces, max_input_tokens=max(sizes)).translate(lines)
    assert [best[0].text for best in whole] == lines
    limit = {"max_input_tokens": 25}
    assert sizes[1] > 25 and sizes[3] > 25
    left = echoing(pieces, **limit).translate(lines)
    assert [best[0].text for best in left] == ["one dog", "", "", ""]
    assert [best[0].problem for best in left] == ["", TOO_LONG, "", TOO_LONG]
    parts = echoing(pieces, **limit, split_long_lines=True).translate(lines)
    assert parts[1][0].text == text and parts[3][0].text.replace(" ", "") == lines[3]
    for i in (1, 3):  # The score of the parts equals the score of one whole translation.
        assert len(parts[i]) == 1 and parts[i][0].finished
        assert parts[i][0].log_prob == pytest.approx(whole[i][0].log_prob, abs=1e-3)
        assert parts[i][0].ids.count(EOS_ID) == 1


class Hesitant(Echo):
    """An `Echo` that gives the repeated word only about a third of the probability."""

    def decode_step(self, *arguments):
        output = super().decode_step(*arguments)
        return output._replace(logits=output.logits / 10)


def test_the_score_of_a_line_in_parts_is_normalised_by_its_whole_length(pieces):
    lines = ["one dog sees two cats. big cat runs!"]
    options = {"max_input_tokens": 15, "split_long_lines": True, "length_penalty": 1.0}
    ((found,),) = echoing(pieces, Hesitant, **options).translate(lines)
    assert found.text == lines[0]
    normaliser = float(length_normaliser(len(found.ids), 1.0))
    assert found.score == pytest.approx(found.log_prob / normaliser)
    assert found.log_prob < found.score < 0


def test_a_line_for_which_memory_does_not_suffice_costs_no_other(pieces, graphs):
    lines = ["one dog", "big cat", "two cats", "three dogs", "one"]
    first = [ids[0] for ids in pieces.source.encode(lines)]
    assert first.count(first[1]) == 1
    results = echoing(pieces, partial(Greedy, token=first[1])).translate(lines)
    assert [best[0].text for best in results] == ["one dog", "", "two cats", "three dogs", "one"]
    assert [best[0].problem for best in results] == ["", NO_MEMORY, "", "", ""]


def test_a_model_whose_scores_are_not_numbers_is_refused_by_name(pieces):
    translator = echoing(pieces, Diverged, name="the model in runs/x")
    message = r"^the model in runs/x gives scores that are not numbers, for line 2: .* diverged"
    with pytest.raises(UserError, match=message):
        translator.translate(["", "one dog"])
    served = ServingModule(Diverged(len(pieces.source)), pieces, beam_size=1)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"for text.1. the model.*score is -?nan"
    ):
        served.serving_default(tf.constant(["", "one dog"]))


@pytest.fixture(scope="module")
def served(saved):
    """The SavedModel, loaded in a session."""
    with saved_model_client.loaded(saved) as answer:
        yield answer


DEFAULTS = (-1, -1.0, -1)


def asked(text, *rows):
    """Returns the inputs of `translate` with `(beam_size, length_penalty, n_best)` of each row."""
    names = "beam_size", "length_penalty", "n_best"
    columns = [list(values) for values in zip(*rows, strict=True)]
    return {"text": text, **dict(zip(names, columns, strict=True))}


@pytest.mark.slow
def test_saved_model_translates_each_row_with_its_own_options(parts, served):
    options = [DEFAULTS, (1, 0.6, 1), (5, 0.0, 5), (4, -1.0, 3), (-1, 2.0, 2)]
    rows = [(line, *each) for line in LINES for each in options]
    lines, *columns = zip(*rows, strict=True)
    found = served("translate", asked(list(lines), *zip(*columns, strict=True)))
    assert found["translation"].shape == found["score"].shape == (len(rows), 5)
    for place, (beam_size, length_penalty, n_best) in enumerate(options):
        penalty = LENGTH_PENALTY if length_penalty < 0 else length_penalty
        search = {**SEARCH, "length_penalty": penalty}
        if beam_size > 0:
            search["beam_size"] = beam_size
        expected = Translator.of(*parts, **search).translate(LINES, n_best=max(n_best, 1))
        for row, best in zip(range(place, len(rows), len(options)), expected, strict=True):
            count, texts = found["count"][row], found["translation"][row]
            assert [text.decode() for text in texts[:count]] == [t.text for t in best]
            scores = [t.score for t in best]
            np.testing.assert_allclose(found["score"][row, :count], scores, atol=1e-4)
            assert not any(texts[count:]) and not found["score"][row, count:].any()


def test_saved_model_gives_the_log_probability_of_each_token(parts, served):
    model, tokenizer = parts
    texts, score = [*LINES, "one dog\n\ncat sees"], make_scorer(model)
    found = served("translate", asked(texts, *[DEFAULTS] * len(texts)))
    for text, *of_tokens in zip(
        texts, found["target_tokens"], found["token_log_probs"], strict=True
    ):
        lines, ids, expected = text.strip().split("\n"), [], []
        for line, (best,) in zip(
            lines, Translator.of(*parts, **SEARCH).translate(lines), strict=True
        ):
            source = tokenizer.source.encode([line])
            log_probs = score(tf.constant(source), tf.constant([best.ids])).log_probs[0]
            ids += best.ids
            expected += log_probs.numpy().tolist() if line.strip() else [0.0]
        tokens, log_probs = of_tokens
        assert [token.decode() for token in tokens if token] == tokenizer.target.pieces(ids)
        np.testing.assert_allclose(log_probs[: len(ids)], expected, atol=1e-4)
        assert not log_probs[len(ids) :].any()


def test_saved_model_has_an_empty_answer_for_an_empty_batch(saved, served):
    nothing, signatures = np.zeros([0], object), read_meta_graph(saved).signature_def
    options = {key: [] for key in ("beam_size", "length_penalty", "n_best")}
    pair = {"source": nothing, "target": nothing}
    for name, inputs in {
        **{"serving_default": {"text": nothing}, "translate": {"text": nothing, **options}},
        **{"score": pair, "attention_maps": pair},
    }.items():
        types = {key: info.dtype for key, info in signatures[name].outputs.items()}
        found = served(name, inputs)
        assert {key: tf.as_dtype(x.dtype).as_datatype_enum for key, x in found.items()} == types
        assert {len(values) for values in found.values()} == {0}


def test_a_server_of_the_model_directory_has_the_same_signatures(parts, saved):
    options = {**SEARCH, "length_penalty": LENGTH_PENALTY, "max_input_tokens": 64}
    exported = read_meta_graph(saved).signature_def
    signatures = ServedModel("x", *parts, options, training_text=None).signatures
    assert signatures.pop("confidence").inputs == signatures["serving_default"].inputs
    for name, signature in signatures.items():
        for side in ("inputs", "outputs"):
            infos = getattr(exported[name], side).items()
            types = {key: DataType.Name(info.dtype) for key, info in infos}
            if (name, side) == ("translate", "outputs"):  # There, `confidence` has them.
                del types["target_tokens"], types["token_log_probs"]
            assert getattr(signature, side) == types


TEXTS = ["one dog\n\ncat sees big house\r\n", "zebra", " \n\n", "\n dog dog\n", "dog\ncat\ndog"]


def test_every_line_of_a_text_is_translated_and_line_feeds_at_its_ends_are_not_lines(parts, served):
    translator = Translator.of(*parts, **SEARCH)
    found = translator.translate(TEXTS, n_best=3)
    for text, best in zip(TEXTS, found, strict=True):
        lines = text.strip().split("\n")
        alone = translator.translate(lines, n_best=3)
        assert best[0].text == "\n".join(one[0].text for one in alone)
        assert best[0].log_prob == pytest.approx(sum(one[0].log_prob for one in alone), abs=1e-4)
        assert len(best) == (len(alone[0]) if len(lines) == 1 else 1)
    for n_best, expected in ((3, found), (1, translator.translate(TEXTS))):
        best = [(one.text.encode(), one.score) for one, *_ in expected]
        answer = served("translate", asked(TEXTS, *[(3, LENGTH_PENALTY, n_best)] * len(TEXTS)))
        assert answer["count"].tolist() == [len(some) for some in expected]
        answers = [(answer["translation"][:, 0], answer["score"][:, 0])]
        if n_best == 1:
            answer = served("serving_default", {"text": TEXTS})
            answers.append((answer["translation"], answer["score"]))
        for texts, scores in answers:
            assert texts.tolist() == [text for text, _ in best]
            np.testing.assert_allclose(scores, [score for _, score in best], atol=1e-4)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"text\[1\] has \d+ tokens"):
        served("serving_default", {"text": ["dog", "dog dog dog\n" * 300]})
    # "one dog" has 3.
    translator.options = translator.options._replace(max_input_tokens=2)
    assert translator.translate(["dog\none dog"])[0][0].problem == TOO_LONG


LONG = "dog " * 2000
MUCH = "dog " * 44
REFUSED = [  # (source, target, error); (None, text, error); or options of the second row, error.
    (None, ["dog", LONG], "text[1] has "),
    (["dog", LONG], ["dog", "dog"], "source[1] has "),
    (["dog", "dog"], ["dog", LONG], "target[1] has "),
    (["a", "b"], ["a"], "target has 1 rows and source has 2"),
    (["a"], ["a", "b"], "target has 2 rows and source has 1"),
    ((0, 0.6, 1), "beam_size[1] is 0, not from 1 to 5, or -1 for the default"),
    ((6, 0.6, 1), "beam_size[1] is 6"),
    ((-2, 0.6, 1), "beam_size[1] is -2"),
    ((2, -0.5, 1), "length_penalty[1] is -0.5, not from 0 to 10"),
    ((2, float("nan"), 1), "length_penalty[1] is nan"),
    ((2, 0.6, 3), "n_best[1] is 3, not from 1 to the beam_size of the row"),
    ((2, 0.6, 0), "n_best[1] is 0"),
    ((-1, 0.6, 4), "n_best[1] is 4"),
    ((), "beam_size has 1 rows and text has 2"),
    ([MUCH] * 5, [MUCH] * 5, "and at most 10000 are allowed"),
]


def test_saved_model_refuses_what_it_cannot_answer_and_says_what_is_wrong(served):
    for first, *second, expected in REFUSED:
        request = "score", {"source": first, "target": [*itertools.chain(*second)]}
        if first is None:
            request = "serving_default", {"text": second[0]}
        elif not second:
            rows = [DEFAULTS, first] if first else [DEFAULTS]
            request = "translate", asked(["one dog", "one dog"], *rows)
        with pytest.raises(tf.errors.InvalidArgumentError, match=re.escape(expected)):
            served(*request)
    pair = {"source": [MUCH], "target": [MUCH]}  # The maps of all heads have more weights.
    with pytest.raises(tf.errors.InvalidArgumentError, match="and at most 10000 are allowed"):
        served("attention_maps", pair)
    assert served("score", pair)["log_prob"].shape == (1,)


def test_every_way_in_which_a_saved_model_answers_differently_is_named(
    parts, saved, served, at_once, monkeypatch
):
    model, tokenizer = parts
    other = keras.models.clone_model(model)  # Halved weights give another attention.
    for weight, found in zip(other.weights, model.weights, strict=True):
        weight.assign(0.5 * found)
    translations = [best[0] for best in at_once]
    # In this process, where it is loaded: a fresh process takes seconds.
    monkeypatch.setattr(saved_model_client, "loaded", lambda path: nullcontext(served))
    with client_in_this_process():
        assert check(saved, *parts, LINES, translations, max_tokens=1024)[1] == len(LINES)
    translations[0] = translations[0]._replace(text="Hund")
    with client_in_this_process(), pytest.raises(UserError) as caught:
        check(saved, other, tokenizer, LINES, translations, max_tokens=1024)
    (message,) = str(caught.value).splitlines()
    assert "serving_default for 1 of 6 lines, such as 'one dog': " in message
    assert " there, 'Hund' here; translate for 1 of 6 lines, such as 'one dog'" in message
    assert all(f"; {name} for " in message for name in ("score", "attention_maps"))
    with client_in_this_process():  # Rounding in 8 bits may change one translation, but no more.
        *_, alike = check(
            saved, None, tokenizer, LINES, translations, max_tokens=1024, in_8_bits=True
        )
        assert alike == len(LINES) - 1
        translations[2] = translations[2]._replace(text="Katze")
        with pytest.raises(UserError, match="serving_default for 2 of 6 lines"):
            check(saved, None, tokenizer, LINES, translations, max_tokens=1024, in_8_bits=True)


def test_a_full_disk_is_told_as_other_files_tell_it(serving, tmp_path, full_disk):
    with full_disk(1000), pytest.raises(OSError, match=r"^File too large$"):
        serving.save(tmp_path / "model")


@pytest.mark.slow
def test_a_saved_model_that_fails_in_a_fresh_process_is_one_line(parts, at_once, tmp_path):
    with pytest.raises(UserError, match=f"fails in a fresh process, .*{tmp_path}") as caught:
        check(tmp_path, *parts, LINES[:1], [at_once[0][0]], max_tokens=1024)
    assert "\n" not in str(caught.value)
