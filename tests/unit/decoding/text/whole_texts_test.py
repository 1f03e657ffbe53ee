"""Texts of any length are translated in windows, in order, as soon as they are there."""

import itertools
import json

import pytest
import tensorflow as tf

from nmt_zoo import models
from nmt_zoo.common.errors import UserError
from nmt_zoo.common.progress import Progress
from nmt_zoo.data_pipeline.input_text import InputText, LiveLines, reader, windows
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer, train_tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import SPECIALS, PieceVocabulary
from nmt_zoo.decoding.alignment.aligner import Aligner
from nmt_zoo.decoding.alignment.subword_merging import word_weights
from nmt_zoo.decoding.text import formats
from nmt_zoo.decoding.text.finished import FinishedLines
from nmt_zoo.decoding.text.line_warnings import LineWarnings
from nmt_zoo.decoding.text.whole_texts import Output, translate_text, translations
from nmt_zoo.decoding.translator import TOO_LONG, Translation, Translator
from tests.integration.decoding.scoring_test import Diverged
from tests.integration.models.contract_test import randomised
from tests.odd_text import ODDITIES
from tests.tiny import SMALL, Echo, pairs

PLAIN = formats.best_lines(lambda best: best.text)


@pytest.fixture(scope="module")
def translator():
    text = [list(side) for side in zip(*pairs(100), strict=True)]
    tokenizer = train_tokenizer("bpe", *text, vocab_size=300)
    model = Echo(len(tokenizer.source))
    made = Translator.of(model, tokenizer, beam_size=1, batch_size=4, max_input_tokens=60)
    made.model = model
    return made


def lines_of(count):
    texts = [source for source, _ in pairs(count, seed=3)]
    texts[3::10] = [""] * len(texts[3::10])
    return texts


def test_an_endless_text_is_read_only_as_far_as_it_is_translated(translator, monkeypatch):
    monkeypatch.setattr("nmt_zoo.data_pipeline.input_text._MOST_BATCHES", 4)
    numbers = itertools.count()
    read = reader(f"dog {next(numbers)}" for _ in itertools.count())
    found = []
    for window in itertools.islice(windows(read, 4), 5):
        found += translations(translator, window)
        if len(found) == 4:
            assert next(numbers) == 4  # One batch was read.
    assert len(found) == 4 + 8 + 16 + 16 + 16
    assert found[30][0].text == "dog 31"  # `next` above took a number.


def test_windows_change_neither_translations_nor_their_order(translator):
    lines = lines_of(50)
    expected = [best[0].text for best in translator.translate(lines)]
    assert expected == [" ".join(line.split()) for line in lines]
    found = []
    with Progress("translating", 50, "lines") as progress:
        for window in windows(reader(lines), 4):
            found += translations(translator, window, advance=progress.update)
        assert progress.done == 50
    assert [best[0].text for best in found] == expected


def test_translations_that_are_kept_are_not_made_again(translator, tmp_path):
    lines, path = lines_of(30), tmp_path / "unfinished"
    with pytest.raises(KeyboardInterrupt), FinishedLines(path, {}) as finished:
        for window in windows(reader(lines), 4):
            expected = translations(translator, window, finished=finished)
            if window[0] >= 12:
                raise KeyboardInterrupt
    before = int(translator.model.hypotheses)
    with FinishedLines(path, {}) as finished:
        found = [
            best
            for window in windows(reader(lines), 4)
            for best in translations(translator, window, finished=finished)
        ]
    assert found[12:28] == expected
    steps = [len(ids) for ids in translator.tokenizer.source.encode(lines[28:])]
    assert int(translator.model.hypotheses) - before == sum(steps)  # Of the last two lines alone.


def test_a_line_in_parts_is_kept_with_the_batch_of_its_last_part(translator, tmp_path):
    lines, path = ["Dog. Cat.", "Two cats see dogs. One dog sees cats."], tmp_path / "unfinished"
    options = {"beam_size": 1, "batch_size": 2, "split_sentences": True}
    in_parts = Translator.of(translator.model, translator.tokenizer, **options)

    def stop(count):
        if count:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), FinishedLines(path, {}) as finished:
        translations(in_parts, (0, lines), finished=finished, advance=stop)
    with FinishedLines(path, {}) as finished:
        ((place, (best,)),) = finished.take(0, lines).items()
    assert place == 1 and best.text == lines[1]


def test_a_fault_names_the_line_of_the_whole_text(translator):
    tokenizer = translator.tokenizer
    broken = Translator.of(Diverged(len(tokenizer.source)), tokenizer, beam_size=1)
    text = windows(reader([*[""] * 10, "dog"]), 4)
    with pytest.raises(UserError, match="not numbers, for line 11:"):
        for window in text:
            translations(broken, window)


def test_only_a_text_that_begins_with_many_unknown_lines_is_refused():
    words = train_tokenizer("word", ["one dog"] * 2, ["one dog"] * 2)
    translator = Translator.of(Echo(len(words.source)), words, beam_size=1)

    def translated(lines, size=None):
        warnings, written = LineWarnings(max_input_tokens=60, max_length=60), []
        text = InputText(reader(lines), "in.en", size)
        how = {"n_best": 1, "formatted": PLAIN, "warnings": warnings}
        translate_text(text, translator, Output("", written.extend, 1, {}, False), **how)
        assert len(written) == len(lines) and "one dog" in written
        (warning,) = (r for r in warnings if "without a word that the model knows" in r)
        return warning.partition(": ")[2]

    assert translated(["foo", "one dog"], 2) == "1 of 2 (line 1)"
    assert translated(["", "foo", "one dog"]) == "1 of 3 (line 2)"
    assert translated(["", *["foo"] * 98, "one dog", *["foo"] * 200]).startswith("298 of 300 ")
    unknown = ["foo", "", "bar"]
    for lines, size in ((unknown, 3), (unknown, None), (["foo", ""] * 200, None)):
        with pytest.raises(UserError, match=r"in\.en: .* none of its tokens, as in line 1: 'foo'"):
            translated(lines, size)


def test_json_lines_of_lines_that_have_no_translation_are_valid(translator):
    window = 7, ["one dog", "", "x" * 100]
    found = translations(translator, window)
    for n_best in (False, True):
        write = formats.JsonLines(translator.tokenizer, n_best)
        records = [json.loads(line) for line in write(window, found)]
        assert [record["source"] for record in records] == window[1]
        assert [record["translation"] for record in records] == ["one dog", "", ""]
        assert records[2]["problem"] == TOO_LONG and "problem" not in records[0]
        assert records[2]["score"] is None and records[1]["tokens"] == ["</s>"]
        assert all(("n_best" in record) == n_best for record in records)
        assert all("alignment" not in record for record in records)


def test_json_lines_link_no_words_of_lines_in_parts_or_without_a_score(translator):
    tokenizer = translator.tokenizer
    model = models.create("transformer_tiny", *[len(tokenizer.source)] * 2, **SMALL)
    lines = ["one dog", "big cat. " * 20, "two cats"]
    parts = Translator.of(translator.model, tokenizer, beam_size=1, split_long_lines=True)
    parts.max_input_tokens = 20
    results = parts.translate(lines)
    results[2] = [results[2][0]._replace(problem=TOO_LONG)]  # As a pair that is not scored.
    write = formats.JsonLines(tokenizer, aligner=Aligner(model, tokenizer), max_input_tokens=20)
    records = [json.loads(line) for line in write((0, lines), results)]
    assert "alignment" in records[0] and records[1]["translation"] == " ".join(lines[1].split())
    assert "alignment" not in records[1] and records[2]["alignment"] == []


@pytest.mark.parametrize("pieces", ["Haus@@ tür läuft", "▁Haus tür ▁läuft"])
@pytest.mark.usefixtures("eagerly")
def test_json_lines_link_the_words_of_a_text_that_was_joined_from_pieces(pieces):
    """As its pieces align: its words themselves are not in the vocabulary. Both sides are words."""
    vocabulary = PieceVocabulary([*SPECIALS, *pieces.split()])
    tokenizer = Tokenizer("pretokenized", vocabulary, vocabulary)
    model = randomised(models.create("transformer_tiny", 7, 7, **SMALL))
    aligner, (ids,) = Aligner(model, tokenizer), vocabulary.encode([pieces])
    write = formats.JsonLines(tokenizer, aligner=aligner)
    sources = [" ".join(some) for some in itertools.permutations(pieces.split())]

    def links(text):
        results = [[Translation(text, -1.0, -1.0, True, ids)]] * len(sources)
        records = map(json.loads, write((0, sources), results))
        return [[tuple(link) for link in record["alignment"]] for record in records]

    expected = []
    for line, source in zip(sources, vocabulary.encode(sources), strict=True):
        weights = model.align(tf.constant([source]), tf.constant([ids])).numpy()[0]
        words = vocabulary.decode(source).split()
        numbers = {
            piece: n
            for n, word in enumerate(words)
            for piece in line.split()
            if piece.strip("@▁") in word
        }
        numbers = [*(numbers[piece] for piece in line.split()), len(words)]
        best = word_weights(weights, numbers, [0, 0, 1, 2]).argmax(axis=1)[:2].tolist()
        expected.append(sorted((s, t) for t, s in enumerate(best) if s < len(words)))
    assert links("Haustür läuft") == expected
    assert links(pieces) == aligner.links(sources, [pieces] * len(sources))  # As it was given.


def test_every_odd_line_has_one_line_of_output_in_every_format(translator, tmp_path):
    longest = [character * 10_000 for character in "x語."]
    lines = [line.rstrip("\r") for line in (*ODDITIES.values(), *longest)]
    path = tmp_path / "text"
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    writers = [PLAIN, formats.JsonLines(translator.tokenizer)]
    written = [[] for _ in writers]
    with open(path, "rb") as source:
        for window in windows(LiveLines(source, "text").read, 4):
            results = translations(translator, window)
            for found, write in zip(written, writers, strict=True):
                found += write(window, results)
    assert [json.loads(line)["source"] for line in written[1]] == lines
    for found in written:
        assert len(found) == len(lines) and not any("\n" in line for line in found)
    # The model repeats its source, as far as its tokenizer does.
    for line, output in zip(lines, written[0], strict=True):
        if line.isascii() and line.isprintable() and len(line) < 14:
            assert output == " ".join(line.split())


def test_numbers_of_an_n_best_list_go_on_from_window_to_window(translator):
    found = [translations(translator, window)[0] for window in ((0, ["dog"]), (1, ["cat"]))]
    lines = [formats.n_best_lines((n, None), [best]) for n, best in enumerate(found)]
    assert [line[0].split(" ||| ")[:2] for line in lines] == [["0", "dog"], ["1", "cat"]]
