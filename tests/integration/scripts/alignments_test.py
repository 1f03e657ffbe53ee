"""Tests of align.py, and of visualize_attention.py with gold links, embeddings, learning curves.

The models that are loaded are not trained: the weights of an `ibm1_factored` encode a dictionary,
so all links are known.
"""

import json
import random
import re
from pathlib import Path

import numpy as np
import pytest

from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer, train_tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import SPECIALS, WordVocabulary
from nmt_zoo.decoding.alignment.links import SYMMETRISATIONS, read_alignments, symmetrise
from nmt_zoo.decoding.unknowns import read_lexicon
from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.training.ways.expectation_maximisation.text_alignment import CHAINS, ITERATIONS
from tests.running import EAGERLY, refusals, run_elsewhere, run_script
from tests.tiny import SMALL, WORDS, save_model
from tests.unit.decoding.pictures.attention_pictures_test import svg_texts

pytestmark = EAGERLY


def translate_words(model):
    """Sets weights by which source word n translates only to target word n."""
    vectors = np.eye(len(WORDS) + len(SPECIALS))[:, len(SPECIALS) :]
    model.source_embedding.embeddings.assign(10 * vectors)
    model.output_layer.kernel.assign(vectors.T)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Model directories and texts."""
    folder = tmp_path_factory.mktemp("alignments")
    english, german = (WordVocabulary([*SPECIALS, *words]) for words in (WORDS, WORDS.values()))
    forward, reverse = Tokenizer("word", english, german), Tokenizer("word", german, english)
    settings = {"width": len(WORDS)}
    save_model(folder / "ibm", "ibm1_factored", settings, forward, translate_words)
    save_model(folder / "reverse", "ibm1_factored", settings, reverse, translate_words)
    save_model(folder / "uniform", "attention_ibm1", {}, forward)
    bpe = train_tokenizer("bpe", list(WORDS), list(WORDS.values()), vocab_size=290)
    save_model(folder / "deep", "transformer_tiny", {**SMALL, "num_decoder_layers": 2}, bpe)

    rng = random.Random(1)
    lines = {"en": [], "de": [], "gold": [], "both": []}
    for length in (1, 4, 7, 2, 0, 9):
        words = rng.sample(list(WORDS), length)
        order = rng.sample(range(length), length)
        lines["en"].append(" ".join(words))
        lines["de"].append("  ".join(WORDS[words[place]] for place in order))
        lines["gold"].append(" ".join(f"{place}-{i}" for i, place in enumerate(order)))
    # Two words with one translation: each direction alone finds only one of the two links.
    lines["en"].append("dog dog cat")
    lines["de"].append("Hund Katze Katze")
    lines["gold"].append("0-0 1?0 2-1 2p2")
    lines["both"] = [f"{s} ||| {t}" for s, t in zip(lines["en"], lines["de"], strict=True)]
    for name, text in lines.items():
        (folder / name).write_text("".join(f"{line}\n" for line in text), encoding="utf-8")
    return folder


@pytest.fixture
def here(folder, tmp_path, monkeypatch):
    """Makes the working directory a new folder with links to the files of `folder`."""
    for path in folder.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run(here):
    """Runs align.py."""
    return lambda *flags, **more: run_script("align", flags, **more)


@pytest.fixture
def draw(here):
    """Runs visualize_attention.py."""
    return lambda *flags, **more: run_script("visualize_attention", flags, **more)


TEXT = ("--source=en", "--target=de")
FORWARD = ("--model_dir=ibm", *TEXT)


def test_a_text_is_aligned_line_by_line(run, tmp_path):
    done = run(*FORWARD, "--alignments=out")
    assert "1 of 7 pairs have an empty side" in done.err
    gold = (tmp_path / "gold").read_text().splitlines()
    found = (tmp_path / "out").read_text().splitlines()
    assert [set(line.split()) for line in found[:-1]] == [set(line.split()) for line in gold[:-1]]
    assert found[4] == "" and found[-1] == "0-0 2-1 2-2"
    assert f"wrote out: {sum(len(line.split()) for line in found)} links" in done.out
    run("--model_dir=ibm", "--source=both", "--alignments=b")  # Both sides in one file.
    assert (tmp_path / "b").read_text().splitlines() == found
    run(*FORWARD, "--alignments=out", "--threshold=0.4")  # A word may have several links.
    assert (tmp_path / "out").read_text().splitlines()[-1] == "0-0 1-0 2-1 2-2"


def test_both_directions_are_joined_with_models_as_from_files(run, tmp_path):
    reverse = "--reverse_model_dir=reverse"
    run(*FORWARD, "--alignments=f")
    run(*TEXT, reverse, "--alignments=r")
    both = [read_alignments(tmp_path / name) for name in "fr"]
    # Each model gives a target word at most one link.
    last = {"union": "0-0 1-0 2-1 2-2", "intersection": "0-0 2-1"}
    for method in SYMMETRISATIONS:
        join = f"--symmetrise={method}"
        run(*FORWARD, reverse, join, "--alignments=models")
        run("--from_alignments=f,r", join, "--alignments=files")
        assert (tmp_path / "files").read_bytes() == (tmp_path / "models").read_bytes()
        expected = [symmetrise(*pair, method) for pair in zip(*both, strict=True)]
        assert read_alignments(tmp_path / "files") == expected
        if method in last:
            assert (tmp_path / "files").read_text().splitlines()[-1] == last[method]


def test_directions_agree_by_the_product_of_their_weights(run, tmp_path):
    both = (*FORWARD, "--reverse_model_dir=reverse", "--symmetrise=agree", "--alignments=out")
    # Two words with one translation: each has half of the weight in one direction, and all of it in
    # the other direction.
    for flags, last in (([], "0-0 1-0 2-1 2-2"), (["--threshold=0.8"], "")):
        run(*both, *flags, "--gold=gold", "--save_scores=scores")
        assert (tmp_path / "out").read_text().splitlines()[-1] == last
        assert json.loads((tmp_path / "scores").read_text())["threshold"] == (0.8 if flags else 0.4)


def test_scores_against_gold_are_printed_and_kept(run, tmp_path):
    done = run(*FORWARD, "--gold=gold", "--save_scores=scores.json")
    assert done.out == "AER 0.0000, precision 1.0000, recall 1.0000 (7 sentence pairs, 26 links)\n"
    record = json.loads((tmp_path / "scores.json").read_text())
    assert (record["aer"], record["precision"], record["recall"]) == (0, 1, 1)
    assert record["forward"]["model"] == "ibm1_factored" and "reverse" not in record
    assert record["forward"]["parameters"] > 0 and record["links"] == 26


def test_a_lexicon_is_one_that_translate_reads(run, tmp_path):
    done = run("--model_dir=ibm", *TEXT, "--threshold=0.4", "--lexicon=lexicon")
    assert f"wrote lexicon: {len(WORDS)} word pairs" in done.out
    assert read_lexicon("lexicon") == WORDS
    text = tmp_path / "text"
    text.write_text("dog cat\n")
    flags = ["--model_dir=ibm", "--replace_unknowns", "--lexicon=lexicon", f"--input={text}"]
    run_script("translate", flags)


def test_links_from_a_file_are_counted_and_scored_with_the_text(run, tmp_path):
    run(*FORWARD, "--alignments=f", "--lexicon=a")
    done = run(*TEXT, "--from_alignments=f", "--lexicon=b", "--gold=gold")
    assert "AER 0.0000" in done.out
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_phrases_are_all_parts_of_pairs_with_links_at_their_edges(run):
    words = ["the", "old", "dog", "runs"], ["der", "alte", "Hund", "läuft"]
    Path("a").write_text("the old dog runs fast\n\na b\nthe old dog\n")
    Path("b").write_text("der alte Hund läuft\n\ny x\nder alte Hund\n")
    Path("links").write_text("0-0 1-1 2-2 3-3\n\n0-1 1-0\n0-0 1-1 2-2\n")
    done = run("--source=a", "--target=b", "--from_alignments=links", "--phrases=p,q")
    assert "wrote p and q: 13 phrase pairs" in done.out
    spans = [slice(i, j) for i in range(4) for j in range(i + 1, 5)]
    expected = {tuple(" ".join(side[span]) for side in words) for span in spans}
    found = (Path(name).read_text().splitlines() for name in "pq")
    assert {*zip(*found, strict=True)} == {*expected, ("a", "x"), ("b", "y"), ("a b", "y x")}


@pytest.mark.parametrize("flags", [[], ["--layer=2", "--head=1"], ["--head=auto"]])
def test_words_are_linked_whatever_the_pieces_layer_and_head(run, tmp_path, flags):
    done = run("--model_dir=deep", *TEXT, "--alignments=out", *flags)
    assert ("differs least from links" in done.err) == ("--head=auto" in flags)
    sides = [(tmp_path / name).read_text().splitlines() for name in ("en", "de")]
    sizes = [(len(s.split()), len(t.split())) for s, t in zip(*sides, strict=True)]
    assert len(read_alignments("out", pairs=sizes)) == len(sizes)


def write_dictionary_text():
    """Writes sentences of 0 to 6 words to the files `a` and `b`, and their true links to `true`."""
    rng = random.Random(2)
    lines = {"a": [], "b": [], "true": []}
    for _ in range(60):
        words = rng.sample(list(WORDS), rng.randrange(7))
        order = list(range(len(words)))
        order[1:4] = [*order[2:4], *order[1:2]]  # Differs from its inverse.
        lines["a"].append(" ".join(words))
        lines["b"].append(" ".join(WORDS[words[place]] for place in order))
        lines["true"].append(" ".join(f"{i}-{j}" for j, i in enumerate(order)))
    for name, text in lines.items():
        Path(name).write_text("".join(f"{line}\n" for line in text), encoding="utf-8")


@pytest.mark.parametrize(
    ("model", "method"),
    [
        *(("ibm1", "forward"), ("ibm2", "reverse"), ("hmm", "intersection"), ("hmm", "agree")),
        *(("fertility", "intersection"), ("fertility", "agree")),
    ],
)
def test_models_trained_on_the_text_find_its_true_links(run, model, method):
    write_dictionary_text()
    flags = ("--source=a", "--target=b", f"--model={model}", f"--symmetrise={method}")
    done = run(*flags, "--alignments=out", "--gold=true", "--lexicon=lex")
    assert float(re.search("AER ([0-9.]+)", done.out)[1]) < 0.05
    assert Path("out").read_text().count("\n") == 60
    assert read_lexicon("lex") == WORDS
    lines = [line for line in done.err.splitlines() if ", iteration " in line]
    # Directions with fertilities are trained together, whatever joins them.
    directions = 2 if method == "intersection" and model != "fertility" else 1
    assert len(lines) == directions * ITERATIONS[model] * len(CHAINS[model])
    assert all("pairs/s" in line for line in lines)
    stages = "Model 1|HMM" if model == "fertility" else "Model 1"
    found = re.findall(f"(?:{stages}), .*?perplexity ([0-9.,]+)", done.err)
    values = [float(x) for x in found[:5]]
    assert values[-1] < 0.7 * values[0]


def test_every_pair_has_its_line_also_where_a_side_is_empty(run):
    Path("a").write_text("dog\n\ncat dog dog dog dog dog dog dog dog dog dog dog\ncat\n")
    Path("b").write_text("Hund\nKatze\nKatze\n\n")
    done = run("--source=a", "--target=b", "--symmetrise=forward", "--alignments=out")
    assert "2 of 4 pairs have an empty side; their line of links is empty" in done.err
    assert Path("out").read_text().split("\n")[:4] == ["0-0", "", "0-0", ""]
    Path("a").write_text("dog\n" + "dog " * 501 + "\n")
    Path("b").write_text("Hund\nHund\n")
    done = run("--source=a", "--target=b", "--model=ibm1", "--alignments=out")
    assert "1 of 2 pairs have more than 500 words on a side, the first in line 2" in done.err


def test_training_on_a_text_does_not_import_tensorflow(here):
    write_dictionary_text()
    flags = ["--source=a", "--target=b", "--alignments=out"]
    _, packages = run_elsewhere("align", *flags)
    assert not {"keras", "tensorflow"} & {*packages}
    assert Path("out").read_text().count("\n") == 60


def test_gold_that_never_names_word_0_is_counted_from_1_and_says_so(run, tmp_path):
    """Possible links count for precision, sure links for recall."""
    (tmp_path / "ones").write_text("1-1 2p1 1p2\n1-1 2-2\n")
    (tmp_path / "links").write_text("0-0 1-0\n0-0 0-1\n")
    done = run("--from_alignments=links", "--gold=ones", "--save_scores=s.json")
    assert done.out.startswith("AER 0.2857, precision 0.7500, recall 0.6667 (2 sentence pairs, ")
    assert json.loads((tmp_path / "s.json").read_text())["from_alignments"] == ["links"]
    assert done.err.count("\n") == 1 and "ones: no link names word 0, so words are" in done.err


def test_the_architecture_of_a_preset_or_directory_is_drawn(draw, tmp_path):
    done = draw("--architecture=ibm1", "--set=positions=diagonal", "--output=a.svg")
    assert done.out == "wrote a.svg\n"
    assert {"ibm1", "with positions=diagonal"} < {*svg_texts(tmp_path / "a.svg")}
    draw("--architecture=deep", "--output=b.svg")
    model = ModelDirectory(tmp_path / "deep").new_model()
    expected = {"transformer_tiny of deep", f"{model.count_params():,} parameters"}
    assert expected < {*svg_texts(tmp_path / "b.svg")}


NO_ARCHITECTURE = """
--architecture=ibm3 -> --architecture=ibm3: there is no such directory or model
--architecture=. --output=a.svg -> no config.json
--architecture=deep --set=norm=pre -> --set needs a preset, found --architecture=deep
--architecture=ibm1 --set=norm=pre -> --set norm=pre: ibm1 has no such setting; valid:
--architecture=ibm1 --set=max_jump=9 -> --set max_jump=9: it needs positions=jumps
--architecture=ibm1 --output=a.html -> a picture's name must end in .png, .svg, .pdf
--architecture=ibm1 --model_dir=deep -> cannot be combined with --model_dir: it takes
--architecture=ibm1 --source=cat -> cannot be combined with --source: it draws no text
--set=norm=pre --source=cat --model_dir=deep -> --set needs --architecture
"""


@pytest.mark.parametrize(("flags", "refusal"), refusals(NO_ARCHITECTURE))
def test_what_cannot_be_drawn_as_an_architecture_is_one_line(draw, flags, refusal):
    draw(*flags, refusal=refusal)
