"""Models of phrases and of rules by the scripts: they have a search of their own."""

import json

import numpy as np
import pytest

from nmt_zoo.command_line import serve
from nmt_zoo.common.files import read_lines
from nmt_zoo.decoding.alignment.links import read_alignments
from nmt_zoo.decoding.translator import Translator
from nmt_zoo.decoding.unknowns import read_lexicon
from nmt_zoo.model_directory.directory import ModelDirectory
from tests.integration.serving.server.example import running
from tests.running import assert_same_arrays, run_script, train
from tests.tiny import WORDS, corpus_flags, pairs

LINES = ["one dog sees two cats", "", "zebra runs", "house big small"]


@pytest.fixture(scope="module", params=["phrase_based", "hiero"])
def preset(request):
    return request.param


@pytest.fixture(scope="module")
def folder(tmp_path_factory, preset):
    return tmp_path_factory.mktemp(preset)


@pytest.fixture(scope="module")
def flags(folder, preset):
    (folder / "lines").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return [*corpus_flags(folder, train=200, valid=20), f"--model={preset}", "--max_steps=3"]


@pytest.fixture(scope="module")
def trained(folder, flags):
    train(folder, "model", *flags)
    return folder / "model"


def translate(trained, folder, *flags):
    out = folder / "out"
    arguments = [f"--model_dir={trained}", f"--input={folder / 'lines'}", f"--output={out}"]
    run_script("translate", [*arguments, *flags])
    return read_lines(out)


def test_translates_phrases_and_copies_unknown_words(trained, folder):
    expected = [" ".join(WORDS.get(word, word) for word in line.split()) for line in LINES]
    assert translate(trained, folder) == expected


def test_tuned_weights_are_never_worse_than_the_first(trained):
    records = [json.loads(line) for line in (trained / "metrics.jsonl").read_text().splitlines()]
    found = [record["bleu"] for record in records if record["kind"] == "valid"]
    assert len(found) == 3
    assert ModelDirectory(trained).read_best()[1]["bleu"] == max(found) >= found[0]


def test_a_stopped_run_that_is_resumed_equals_one_that_was_not(trained, folder, flags):
    train(folder, "parts", *flags, "--max_steps=2")
    done = train(folder, "parts", *flags, "--max_steps=3")
    assert "resumed at step 2" in done.out
    assert "word pairs numbered" not in done.out + done.err  # The tables are in the checkpoint.
    assert_same_arrays(trained / "best.npz", folder / "parts/best.npz")


def test_the_score_of_a_translation_is_that_of_the_search(trained, folder):
    found = [line.split("\t") for line in translate(trained, folder, "--format=scores")]
    texts, scores = folder / "texts", folder / "scores"
    texts.write_text("".join(f"{text}\n" for _, text in found))
    arguments = [f"--model_dir={trained}", f"--input={folder / 'lines'}", f"--score={texts}"]
    run_script("translate", [*arguments, f"--output={scores}"])
    for (score, _), other, line in zip(found, read_lines(scores), LINES, strict=True):
        if "zebra" not in line:  # Its copy is another word than the unknown one of the search.
            assert float(other) == pytest.approx(float(score), abs=2e-3), line


def test_finds_several_different_translations_best_first(trained, folder, preset):
    found = [line.split(" ||| ") for line in translate(trained, folder, "--n_best=4")]
    of_first = [(text, float(score)) for number, text, score in found if number == "0"]
    # Without jumps, rules translate words of one meaning in one way.
    assert len({text for text, _ in of_first}) == len(of_first) >= (4 if preset != "hiero" else 1)
    assert of_first == sorted(of_first, key=lambda pair: -pair[1])


def test_neighbours_change_nothing(trained):
    model, tokenizer, _ = ModelDirectory(trained).load()
    together = Translator.of(model, tokenizer).translate(LINES)
    alone = [Translator.of(model, tokenizer).translate([line])[0] for line in LINES]
    assert together == alone


@pytest.mark.parametrize(
    ("script", "arguments", "expected"),
    [
        ("translate", ["--sample"], "--sample: this model does not translate token by token"),
        ("translate", ["--coverage_penalty=0.1"], "--coverage_penalty: this model does not"),
        ("translate", ["--length_penalty=2"], "--length_penalty: this model does not"),
        ("translate", ["--no_repeat_ngram=2"], "--no_repeat_ngram: this model does not"),
        ("translate", ["--banned={folder}/words"], "--banned: this model does not"),
        ("translate", ["--prefix={folder}/words"], "--prefix and --required: this model does not"),
        (
            "translate",
            ["--required={folder}/words"],
            "--prefix and --required: this model does not",
        ),
        ("export", ["--export_dir={folder}/serving"], "cannot be exported: this model does not"),
    ],
)
def test_what_needs_decoding_steps_is_refused_in_one_line(
    trained, folder, script, arguments, expected
):
    (folder / "words").write_text("Hund\n" * len(LINES), encoding="utf-8")
    arguments = [argument.format(folder=folder) for argument in arguments]
    if script == "translate":
        arguments.append(f"--input={folder / 'lines'}")
    run_script(script, [f"--model_dir={trained}", *arguments], refusal=expected)


def test_aligns_words_by_the_links_inside_of_phrases(trained, folder, tmp_path):
    sources, targets = zip(*pairs(6, seed=2), strict=True)
    for name, lines in (("a.source", sources), ("a.target", targets)):
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    text = [f"--{side}={folder / f'a.{side}'}" for side in ("source", "target")]
    out = tmp_path / "links"
    run_script("align", [f"--model_dir={trained}", *text, f"--alignments={out}"])
    for links, source in zip(read_alignments(out), sources, strict=True):
        assert links == [(place, place) for place in range(len(source.split()))]


def test_answers_a_server(trained):
    model = serve.load(serve.Arguments(model_dir=str(trained)), "tables")
    with running(model) as client:
        answer = client.predict({"instances": ["one dog", ""]}, "/v1/models/tables:predict")
    rows = answer.json()["predictions"]
    assert [row["translation"] for row in rows] == ["eins Hund", ""]


def test_draws_links_and_phrases(trained, folder):
    model, tokenizer, _ = ModelDirectory(trained).load()
    (found,) = tokenizer.source.encode(["one dog sees two cats"])
    for options in (["--output={0}"], ["--output={0}", "--target=Hund Hund Hund"]):
        options = [option.format(folder / "tree.svg") for option in options]
        arguments = [f"--model_dir={trained}", "--source=one dog runs", "--attention=tree"]
        run_script("visualize_attention", [*arguments, *options])
        assert "Hund" in (folder / "tree.svg").read_text(encoding="utf-8")
    maps = model.attention_maps(np.array([found]), np.array([found]))["decoder/0/cross"]
    assert maps.shape == (1, 2, len(found), len(found))
    np.testing.assert_allclose(np.sum(maps, axis=-1), 1, rtol=1e-6)
    for name in ("a.svg", "a.html"):
        arguments = [f"--model_dir={trained}", "--source=one zebra sees two dog"]
        arguments.append(f"--output={folder / name}")
        run_script("visualize_attention", arguments)
        assert "sieht" in (folder / name).read_text(encoding="utf-8")
    text = [f"--input={folder / 'valid.source'}", f"--target_input={folder / 'valid.target'}"]
    arguments = [f"--model_dir={trained}", *text, f"--heads={folder / 'heads.svg'}"]
    run_script("visualize_attention", arguments)


def test_its_phrases_serve_as_lexicon_and_shortlist_and_for_ranking(trained, folder, flags):
    lexicon = folder / "lexicon"
    done = run_script("align", [f"--model_dir={trained}", f"--lexicon={lexicon}"])
    best = read_lexicon(str(lexicon))
    assert {word: best[word] for word in WORDS} == WORDS
    network = [*(flag for flag in flags if "model" not in flag and "max_steps" not in flag)]
    network += ["--model=rnn_attention", "--tokenizer=word", "--min_word_count=1", "--max_words=0"]
    network += ["--set=embedding_width=8", "--set=encoder_units=8", "--set=decoder_units=8"]
    train(folder, "network", *network, "--set=rank=8", "--max_steps=2")
    found = translate(folder / "network", folder, f"--shortlist={trained}")
    assert len(found) == len(LINES)
    (folder / "nbest").write_text("0 ||| zwei Hund ||| 1\n0 ||| eins Hund sieht zwei Katze ||| 0\n")
    (folder / "one").write_text("one dog sees two cat\n")
    arguments = [
        f"--model_dir={trained}",
        f"--input={folder / 'one'}",
        f"--rank={folder / 'nbest'}",
    ]
    done = run_script("translate", arguments)
    assert done.out.splitlines()[0].startswith("0 ||| eins Hund sieht zwei Katze |||")
