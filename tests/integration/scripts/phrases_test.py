"""Models of phrases and of rules by the scripts: they have a search of their own."""

import re

import numpy as np
import pytest

from nmt_zoo.command_line import serve
from nmt_zoo.common.files import read_lines, write_lines
from nmt_zoo.decoding.alignment.links import read_alignments
from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.model_directory.metrics import read_records
from tests.integration.serving.server.example import running
from tests.running import EAGERLY, assert_same_arrays, refusals, run_script, train
from tests.tiny import WORDS

pytestmark = EAGERLY
LINES = ["one dog sees two cats", "", "zebra runs", "house big small"]


@pytest.fixture(scope="module", params=["phrase_based", "hiero"])
def preset(request):
    return request.param


@pytest.fixture(scope="module")
def flags(corpus, preset):
    return [*corpus, f"--model={preset}", "--max_steps=3"]


@pytest.fixture(scope="module")
def trained(folder, preset, flags):
    write_lines(folder / "lines", LINES)
    train(folder, preset, *flags)
    return folder / preset


def translate(trained, *flags):
    arguments = [f"--model_dir={trained}", f"--input={trained.parent / 'lines'}", *flags]
    return run_script("translate", arguments).out.split("\n")[:-1]


def test_translates_phrases_and_copies_unknown_words(trained):
    expected = [" ".join(WORDS.get(word, word) for word in line.split()) for line in LINES]
    assert translate(trained) == expected


def test_tuned_weights_are_never_worse_than_the_first(trained):
    records = read_records(trained / "metrics.jsonl")
    bleu = [record["bleu"] for record in records if record["kind"] == "valid"]
    assert len(bleu) == 3
    assert ModelDirectory(trained).read_best()[1]["bleu"] == max(bleu) >= bleu[0]


def test_a_stopped_run_that_is_resumed_equals_one_that_was_not(trained, folder, flags):
    parts = f"{trained.name}.parts"
    train(folder, parts, *flags, "--max_steps=2")
    done = train(folder, parts, *flags, "--max_steps=3")
    assert "resumed at step 2" in done.out
    assert "word pairs numbered" not in done.out + done.err  # The tables are in the checkpoint.
    assert re.search("^length penalty +-$", done.out, re.M)
    assert_same_arrays(trained / "best.npz", folder / parts / "best.npz")


def test_the_score_of_a_translation_is_that_of_the_search(trained, tmp_path):
    best = [line.split("\t") for line in translate(trained, "--format=scores")]
    write_lines(tmp_path / "texts", [text for _, text in best])
    scores = translate(trained, f"--score={tmp_path / 'texts'}")
    for (score, _), other, line in zip(best, scores, LINES, strict=True):
        if "zebra" not in line:  # Its copy is another word than the unknown one of the search.
            assert float(other) == pytest.approx(float(score), abs=2e-3), line


def test_finds_several_different_translations_best_first(trained, preset):
    rows = [line.split(" ||| ") for line in translate(trained, "--n_best=4")]
    of_first = [(text, float(score)) for number, text, score in rows if number == "0"]
    # Without jumps, rules translate words of one meaning in one way.
    assert len({text for text, _ in of_first}) == len(of_first) >= (4 if preset != "hiero" else 1)
    assert of_first == sorted(of_first, key=lambda pair: -pair[1])


BAD = """
--sample -> --sample: this model does not translate token by token
--length_penalty=2 -> --length_penalty: this model does not
--no_repeat_ngram=2 -> --no_repeat_ngram: this model does not
--banned={words} -> --banned: this model does not
--prefix={words} -> --prefix, --required and --glossary: this model does not
--required={words} -> --prefix, --required and --glossary: this model does not
--engine=ctranslate2 -> which CTranslate2 does not have; presets that it can run: transformer
"""


def test_what_needs_decoding_steps_is_refused_in_one_line(trained, tmp_path):
    write_lines(tmp_path / "words", ["Hund"] * len(LINES))
    arguments = [f"--model_dir={trained}", f"--input={trained.parent / 'lines'}"]
    for flags, refusal in refusals(BAD.format(words=tmp_path / "words")):
        run_script("translate", [*arguments, *flags], refusal)
    export = [arguments[0], f"--export_dir={tmp_path / 'serving'}"]
    run_script("export", export, "cannot be exported: this model does not")


def test_aligns_words_by_the_links_inside_of_phrases(trained, text, tmp_path):
    sides = [f"--{side}={text / f'valid.{side}'}" for side in ("source", "target")]
    out = tmp_path / "links"
    run_script("align", [f"--model_dir={trained}", *sides, f"--alignments={out}"])
    for links, source in zip(read_alignments(out), read_lines(text / "valid.source"), strict=True):
        assert links == [(position, position) for position in range(len(source.split()))]


def test_answers_a_server(trained):
    model = serve.load(serve.Arguments(model_dir=str(trained)), "tables")
    with running(model) as client:
        answer = client.predict({"instances": ["one dog", ""]}, "/v1/models/tables:predict")
        assert client.predict({"text": "one dog", "line": 0}, "/page").status == 200
    rows = answer.json()["predictions"]
    assert [row["translation"] for row in rows] == ["eins Hund", ""]


def test_draws_links_and_phrases(trained, text, tmp_path):
    model, tokenizer, _ = ModelDirectory(trained).load()
    (ids,) = tokenizer.source.encode(["one dog sees two cats"])
    maps = model.attention_maps(np.array([ids]), np.array([ids]))["decoder/0/cross"]
    assert maps.shape == (1, 2, len(ids), len(ids))
    np.testing.assert_allclose(np.sum(maps, axis=-1), 1, rtol=1e-6)
    tree = ["--source=one dog runs", "--attention=tree"]
    for name, word, flags in (
        ("tree.svg", "Hund", tree),
        ("tree.svg", "Hund", [*tree, "--target=Hund Hund Hund"]),
        ("a.svg", "sieht", ["--source=one zebra sees two dog"]),
        ("a.html", "sieht", ["--source=one zebra sees two dog"]),
    ):
        arguments = [f"--model_dir={trained}", *flags, f"--output={tmp_path / name}"]
        run_script("visualize_attention", arguments)
        assert word in (tmp_path / name).read_text(encoding="utf-8")
    sides = [f"--input={text / 'valid.source'}", f"--target_input={text / 'valid.target'}"]
    done = run_script("visualize_attention", [f"--model_dir={trained}", *sides, "--heads"])
    assert "entropy" in done.out


def test_pieces_without_a_translation_are_copied(folder, corpus, preset):
    train(folder, f"{preset}.bpe", *corpus, f"--model={preset}", "--tokenizer=bpe", "--max_steps=1")
    lines = translate(folder / f"{preset}.bpe")
    assert "⁇" not in "".join(lines) and "z" in lines[2]  # Of "zebra".


def test_pairs_that_the_model_cannot_explain_are_counted(trained, tmp_path):
    write_lines(tmp_path / "a", ["one dog", "one dog"])
    write_lines(tmp_path / "b", ["eins Hund", " ".join(["Hund"] * 30)])
    flags = [f"--model_dir={trained}", f"--input={tmp_path / 'a'}", f"--score={tmp_path / 'b'}"]
    done = run_script("translate", flags)
    good, impossible = done.out.splitlines()
    assert float(good) > -1e8 and impossible == "-inf"
    assert "1 pairs not scored (the model finds no translation)" in done.err
