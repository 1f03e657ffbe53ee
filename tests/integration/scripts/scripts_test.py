"""Runs the four scripts in turn on a corpus of a few words, and gives them bad input."""

import itertools
import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from nmt_zoo.common.files import read_lines, write_lines
from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.model_directory.weight_files import read_archive, write_archive
from nmt_zoo.serving.export import saved_model_client
from tests.running import ROOT, client_in_this_process, run_script
from tests.tiny import SMALL_FLAGS, WORDS, corpus_flags, small_flags
from tests.unit.decoding.pictures.attention_pictures_test import svg_texts

COMMON = ["--max_tokens_per_batch=256", "--log_every_steps=2"]
QUICK = [*SMALL_FLAGS, "--num_pieces=300", *COMMON]
# Where the model does not matter: TensorFlow traces its updates in a fraction of the time.
CHEAP = [*small_flags("attention_ibm2"), *COMMON, "--bleu_lines=0"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("scripts")


@pytest.fixture(scope="module")
def corpus(folder):
    return corpus_flags(folder)


def train(corpus, folder, *more, model_dir="run", quick=QUICK, refusal=None):
    places = [f"--model_dir={folder / model_dir}", f"--data_dir={folder / 'data'}"]
    quick = [flag for flag in quick if "tokenizer" not in str(more) or "pieces" not in flag]
    return run_script("train", [*corpus, *quick, *places, *more], refusal)


@pytest.fixture(scope="module")
def trained(folder, corpus):
    """A model directory, trained for a few steps by the real command line."""
    command = [sys.executable, "train.py", *corpus, *QUICK, "--max_steps=6"]
    command += [f"--model_dir={folder / 'run'}", f"--data_dir={folder / 'data'}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "training pairs: 200" in done.stdout
    assert "padding" in done.stdout
    assert "options: " not in done.stdout
    assert "until --max_steps=6 or --patience=10\n" in done.stdout
    assert "LOG(" not in done.stderr and "oneDNN" not in done.stderr
    assert "pace: about 6 updates at most (--max_steps=6), " in done.stdout
    assert "--warmup_steps=1 instead of 1000" in done.stdout and "warm-up" not in done.stdout
    return folder / "run"


def _records(run):
    """Returns the records in metrics.jsonl of a model directory."""
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_training_leaves_all_that_the_other_scripts_need(trained):
    assert {p.name for p in trained.iterdir()} == {
        "best.npz",
        "checkpoints",
        "config.json",
        "lock",
        "metrics.jsonl",
        "tensorboard",
        "tokenizer",
        "training_text.json",
    }
    records = _records(trained)
    assert [r["step"] for r in records if r["kind"] == "train"] == [2, 4, 6]
    assert records[-1]["kind"] == "valid"


@pytest.mark.parametrize(
    ("model", "last"),
    [
        ("ibm1", "\npair "),
        ("phrase_based", "counted from the whole text: there are no steps to plan\n"),
    ],
)
def test_dry_run_without_gradients_prints_no_batches(model, last, folder, corpus):
    done = train(corpus, folder, "--dry_run", model_dir="x", quick=[f"--model={model}"])
    assert last in done.out and not re.search("batches|memory:|gradients|Adam ", done.out)
    assert not (folder / "x").exists()


def test_dry_run_prints_the_plan_of_a_mixture_and_makes_no_run(folder, corpus):
    twice = [f"{flag},{flag.split('=')[1]}" if "train_" in flag else flag for flag in corpus]
    done = train(
        twice,
        folder,
        *("--dry_run", "--pad_to_bucket", "--corpus_weights=1,3", "--max_minutes=0.001"),
        model_dir="x",
        quick=CHEAP,
    )
    for line in (
        "training pairs: 400, an epoch has 100 of 200 and 300 of 200",
        "dropped: 0 with an empty side",
        "pace: about 1 updates at most (--max_minutes=0.001 at ",
        "the pipeline alone:",
        "memory of the device:",
        "memory is enough for batches of",
        "    --max_minutes=0.001 is time for about ",
    ):
        assert line in done.out
    assert re.search(
        r"^time: about \S+ s per update on one device, \d+ s per epoch$", done.out, re.M
    )
    assert "times as fast" not in done.out  # Precisions are compared by --precision=auto alone.
    assert not (folder / "x").exists()


def test_summary_shows_directories_side_by_side_and_trains_nothing(trained, folder):
    before = sorted(trained.rglob("*"))
    flags = ["--summary", f"--model_dir={trained}", f"--model_dir={trained}"]
    done = run_script("train", flags)
    rows = {line.split("  ")[0]: line.split() for line in done.out.splitlines()}
    assert rows["steps"] == ["steps", "6", "6"]
    assert rows["skipped steps"] == ["skipped", "steps", "0", "0"]
    assert rows["model"][1:] == ["transformer_tiny"] * 2
    best = np.load(trained / "best.npz")
    count = sum(best[name].size for name in best.files if name != "state")
    assert rows["parameters"][1:] == [f"{count:,}"] * 2
    assert sorted(trained.rglob("*")) == before
    done = run_script(
        "train", ["--summary", f"--model_dir={folder / 'none'}"], refusal="no such model directory"
    )
    run_script("train", flags[1:], refusal="give one --model_dir")


def test_a_second_run_in_a_directory_is_refused(trained, folder, corpus):
    directory = ModelDirectory(trained)
    directory.lock.acquire()
    train(corpus, folder, "--max_steps=8", refusal=f"{trained}: another run is under way")
    directory.lock.release()


def test_a_finished_run_started_again_changes_nothing(trained, folder, corpus):
    before = (trained / "best.npz").read_bytes()
    done = train(corpus, folder, "--max_steps=6")
    assert "resumed at step 6" in done.out
    assert "as when the run began: --bpe_dropout=0.1, --warmup_steps=1, " in done.out
    assert (trained / "best.npz").read_bytes() == before


def test_other_settings_in_the_same_directory_are_refused(trained, folder, corpus):
    done = train(
        corpus, folder, "--learning_rate=0.5", "--seed=9", refusal="learning_rate was 0.003, is 0.5"
    )
    assert "seed was 1, is 9" in done.err


def test_another_text_or_setting_in_the_same_directory_is_refused(
    trained, folder, corpus, tmp_path
):
    other = corpus_flags(tmp_path, train=199)
    done = train([*other[:2], *corpus[2:]], folder, "--max_steps=6", refusal="training_text was")
    other = corpus_flags(tmp_path, valid=19)
    done = train([*corpus[:2], *other[2:]], folder, "--max_steps=6", refusal="validation_text was")
    assert "training_text" not in done.err
    train(corpus, folder, "--set=num_heads=4", refusal="num_heads was 2, is 4")


def test_a_pipe_is_translated_line_by_line_as_soon_as_it_pauses(trained):
    process = subprocess.Popen(
        [sys.executable, "translate.py", f"--model_dir={trained}"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        found = []
        for text in ("one dog\n\nthe zebra\u2028sees\r\n", "   \n"):
            process.stdin.write(text.encode())
            process.stdin.flush()  # The next lines are written when these have been translated.
            found += [process.stdout.readline() for _ in range(text.count("\n"))]
        rest, errors = process.communicate(b"house")
    assert process.returncode == 0, errors
    assert [line.strip() == b"" for line in found] == [False, True, False, True]
    assert rest.count(b"\n") == 1 and found[0].endswith(b"\n")
    assert b"empty lines, left empty: 2 of 5\n" in errors


def test_a_terminal_is_asked_for_lines_until_it_ends_them(trained, monkeypatch):
    keyboard, terminal = pty.openpty()
    os.write(keyboard, "one dog\n\nhouse ✓ dog\n\x04".encode())  # Ctrl-D
    with open(terminal) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        done = run_script("translate", [f"--model_dir={trained}", "--keep=none"])
    os.close(keyboard)
    assert [bool(line) for line in done.out.split("\n")] == [True, False, True, False]
    assert done.err.startswith("> > > > ") and "translating" not in done.err
    (remark,) = (line for line in done.err.splitlines() if "✓" in line)
    assert " such as ✓ (U+2713): 1 of " in remark and remark.endswith("(line 3)")


def test_a_text_that_standard_input_reads_is_not_replaced(trained, tmp_path, monkeypatch):
    text = tmp_path / "x"
    text.write_text("one dog\n")
    for flag in ("output", "save_scores"):
        with open(text) as stdin:
            monkeypatch.setattr(sys, "stdin", stdin)
            flags = [f"--model_dir={trained}", f"--{flag}={text}", f"--reference={text}2"]
            run_script("translate", flags, "is also the standard input")
        assert text.read_text() == "one dog\n"


def test_several_references_and_a_baseline_are_scored(trained, folder, tmp_path):
    source, target = folder / "valid.source", folder / "valid.target"
    output, table = tmp_path / "out.de", tmp_path / "all.tsv"
    flags = [f"--model_dir={trained}", f"--output={output}", "--metrics=ter,bleu"]
    other = tmp_path / "other.de"
    other.write_bytes(source.read_bytes())
    both = [f"--input={source}", f"--reference={target},{other}", f"--baseline={target}"]
    done = run_script("translate", [*flags, *both])
    ter, bleu, *paired = done.out.splitlines()
    assert ter.startswith("TER|nrefs:2|") and bleu.startswith("BLEU|nrefs:2|")
    assert len(paired) == 2 and "|bs:1000|" in paired[0] and "baseline 100.00, p = 0.0" in paired[1]
    columns = zip(*map(read_lines, (target, source, source)), strict=True)
    table.write_text("".join("\t".join(line) + "\n" for line in columns))
    flags += [f"--input={table}", f"--reference={table}", "--input_column=2"]
    assert run_script("translate", flags).out.splitlines() == [ter, bleu]


def test_n_best_lists_scores_and_json_lines_are_of_the_same_translations(trained, folder):
    arguments = [f"--model_dir={trained}", f"--input={folder / 'valid.source'}"]
    best, scored, records = (
        run_script("translate", [*arguments, *flags]).out.splitlines()
        for flags in (["--n_best=2"], ["--format=scores"], ["--n_best=2", "--format=jsonl"])
    )
    assert [line.split(" ||| ")[0] for line in best] == [str(i) for i in range(20) for _ in "ab"]
    for line, first in zip(scored, best[::2], strict=True):
        score, text = line.split("\t")
        assert first.split(" ||| ")[1:] == [text, score]
    records = [json.loads(line) for line in records]
    assert [r["source"] for r in records] == read_lines(folder / "valid.source")
    assert best == [
        f"{n} ||| {translation['translation']} ||| {translation['score']:.4f}"
        for n, record in enumerate(records)
        for translation in record["n_best"]
    ]
    for record in records:
        assert record["translation"] == record["n_best"][0]["translation"]
        assert record["tokens"][-1] == "</s>" or not record["finished"]
        sizes = [len(record[side].split()) for side in ("source", "translation")]
        assert all(i < sizes[0] and j < sizes[1] for i, j in record["alignment"])


def test_given_translations_are_scored_and_ranked(trained, folder, tmp_path):
    def translate(*flags):
        arguments = [f"--model_dir={trained}", f"--input={folder / 'valid.source'}"]
        done = run_script("translate", [*arguments, *flags])
        return done.out.split("\n")[:-1], done.err

    best, many = tmp_path / "best", tmp_path / "many"
    three, _ = translate("--n_best=3")
    write_lines(many, three)
    write_lines(best, [line.split(" ||| ")[1] for line in three[::3]])
    scored = [json.loads(line) for line in translate("--format=jsonl", f"--score={best}")[0]]
    lines, errors = translate(f"--score={best}")
    assert [float(line) for line in lines] == pytest.approx(
        [r["log_prob"] for r in scored], abs=1e-3
    )
    assert "perplexity" in errors
    ranked = [line.rpartition(" ||| ") for line in translate(f"--rank={many}")[0]]
    assert sorted(line for line, *_ in ranked) == sorted(three)
    numbered = [(int(line.split(" ||| ")[0]), -float(score)) for line, _, score in ranked]
    assert numbered == sorted(numbered)
    scores = {tuple(line.split(" ||| ")[:2]): float(score) for line, _, score in ranked}
    for number, record in enumerate(scored):
        best_score = scores[str(number), record["translation"]]
        assert best_score == pytest.approx(record["score"], abs=1e-3)


def test_a_text_and_a_tsv_are_scored_against_a_reference(trained, folder, tmp_path):
    def scores(source, target, output):
        path = tmp_path / "scores.json"
        flags = [f"--input={source}", f"--reference={target}", f"--save_scores={path}"]
        done = run_script("translate", [f"--model_dir={trained}", *flags, f"--output={output}"])
        assert done.out.startswith("BLEU|nrefs:1|case:mixed|") and "chrF2|" in done.out
        assert "TER|" not in done.out
        record = json.loads(path.read_text())
        assert record["sentences"] == len(read_lines(output)) == 20
        assert record["beam_size"] == 4 and record["translation_seconds"] > 0
        return record["bleu"], record["chrf"]

    sides = [folder / "valid.source", folder / "valid.target"]
    both = tmp_path / "valid.TSV"
    both.write_text("".join(f"{s}\t{t}\n" for s, t in zip(*map(read_lines, sides), strict=True)))
    assert scores(both, both, tmp_path / "a") == scores(*sides, tmp_path / "b")
    for flags, expected in (
        ([f"--input={both}"], "give it as --reference, too"),
        ([f"--input={sides[0]}", f"--reference={both}"], "given for one side only"),
        ([f"--input={sides[0]}", f"--reference={sides[0]}"], "same file for source and target"),
    ):
        done = run_script("translate", [f"--model_dir={trained}", *flags], refusal=expected)
        assert done.out == ""


def test_long_lines_are_left_or_split_and_every_output_stays_well_formed(trained, tmp_path):
    text = tmp_path / "text.en"
    text.write_text("one dog\n" + "big cat runs. " * 12 + "\n\n")
    flags = [f"--model_dir={trained}", f"--input={text}", "--max_input_tokens=40", "--beam_size=2"]
    done = run_script("translate", [*flags, "--split_sentences=always", "--format=scores"])
    # A lower-case letter begins no sentence.
    assert "(longer than the limit of 40 tokens; see --long_lines): 1 of 3 (line 2)" in done.err
    scores = [float(line.split("\t")[0]) for line in done.out.splitlines()]
    assert scores[0] < 0 and scores[1:] == [-float("inf"), 0.0]
    done = run_script("translate", [*flags, "--long_lines=split", "--format=scores"])
    assert "lines of more than 40 tokens, translated in parts: 1 of 3 (line 2)" in done.err
    first, long, empty = [float(line.split("\t")[0]) for line in done.out.splitlines()]
    assert first == scores[0] and -float("inf") < long < 0 and empty == 0
    text.write_text("one dog\n" + "Big cat runs. " * 12 + "\n\n")
    done = run_script("translate", [*flags, "--n_best=2"])
    assert "left untranslated" in done.err
    assert "may be missing in the translations (see --split_sentences): 1 of 3" in done.err
    numbers = [line.split(" ||| ")[0] for line in done.out.splitlines()]
    assert numbers == ["0", "0", "1", "2"]
    done = run_script("translate", flags)  # Training text has a sentence a line.
    assert "left untranslated" not in done.err
    assert "each translated by itself (see --split_sentences): 1 of 3 (line 2)" in done.err
    assert [bool(line) for line in done.out.split("\n")] == [True, True, False, False]


def test_what_an_interrupted_translation_has_done_is_taken_up(trained, folder, tmp_path):
    output = tmp_path / "out.de"
    text = tmp_path / "text.en"
    lines = [" ".join(words) for words in itertools.permutations(WORDS, 4)]
    text.write_text("".join(f"{line}\n" for line in lines))
    flags = [f"--model_dir={trained}", f"--input={text}", f"--output={output}", "--batch_size=8"]
    command = [sys.executable, "translate.py", *flags]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    unfinished = tmp_path / "out.de.unfinished"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if unfinished.exists() and unfinished.read_bytes().count(b"\n") > 8:
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert process.wait() != 0
    assert [p.name for p in tmp_path.glob("out*")] == [unfinished.name]
    done_before = unfinished.read_bytes().count(b"\n") - 1
    text.write_text("".join(f"{line}\n" for line in lines[:40]))
    reference, scores = tmp_path / "reference", tmp_path / "scores"
    reference.write_text("eins\n" * 40)
    scored = [*flags, f"--reference={reference}", f"--save_scores={scores}"]
    done = run_script("translate", scored)
    assert f"found {done_before} earlier translations" in done.err
    assert json.loads(scores.read_text())["translation_seconds"] is None
    together = output.read_text()
    assert [p.name for p in tmp_path.glob("out*")] == ["out.de"]
    run_script("translate", flags)
    assert output.read_text() == together


def test_a_model_whose_scores_overflow_is_refused_by_name(trained, tmp_path):
    _damage(tmp_path / "m", trained)
    arrays, state = read_archive(trained / "best.npz")
    for name in arrays:  # Logits are products of the last layer's features and the embeddings.
        arrays[name] *= 1e15 if name.endswith("embeddings") else 1
        arrays[name] *= 1e30 if name.endswith("decoder/norm/gamma") else 1
    assert all(np.isfinite(array).all() for array in arrays.values())
    write_archive(tmp_path / "m/best.npz", arrays, state)
    text = tmp_path / "text.en"
    text.write_text("\none dog\n")
    flags = [f"--model_dir={tmp_path / 'm'}", f"--input={text}", f"--output={tmp_path / 'out'}"]
    refusal = f"the model in {tmp_path / 'm'} gives scores that are not numbers"
    done = run_script("translate", flags, refusal)
    assert done.out == "" and "for line 2" in done.err
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize("attention", ["cross", "encoder", "decoder"])
def test_draws_attention(trained, tmp_path, attention):
    flags = [f"--model_dir={trained}", "--source=one dog runs", "--target=eins Hund"]
    found = []
    for name, extra in (("all", ["--layer=all", "--head=all"]), ("mean", ["--merge_subwords"])):
        picture = tmp_path / f"{name}.svg"
        more = [f"--attention={attention}", f"--output={picture}", *extra]
        run_script("visualize_attention", [*flags, *more])
        found.append([text for text in svg_texts(picture) if text])
    # The mean of two heads, and words instead of their pieces.
    words = {"cross": {"dog", "Hund"}, "encoder": {"dog"}, "decoder": {"Hund"}}[attention]
    assert words <= {*found[1]} and not words & {*found[0]}
    heads = [[text for text in texts if re.match(r"head \d", text)] for texts in found]
    assert heads == [["head 1", "head 2"], []]


def test_attention_as_numbers_is_that_of_the_model(trained, tmp_path):
    sentences = "one dog runs", "eins Hund"
    given = [f"--model_dir={trained}", *map("--{}={}".format, ("source", "target"), sentences)]
    for ending in ("npz", "json"):
        run_script("visualize_attention", [*given, f"--output={tmp_path}/x.{ending}"])
    model, tokenizer, _ = ModelDirectory(trained).load()
    ids = [v.encode([text]) for v, text in zip(tokenizer[1:], sentences, strict=True)]
    maps = model.attention_maps(*(np.array(side, np.int32) for side in ids))
    read = json.loads((tmp_path / "x.json").read_text("utf-8"))
    with np.load(tmp_path / "x.npz") as arrays:
        assert maps.keys() == read["maps"].keys() == {n for n in arrays.files if "/" in n}
        for name, weights in maps.items():
            np.testing.assert_array_equal(arrays[name], np.float32(read["maps"][name]))
            np.testing.assert_allclose(arrays[name], weights[0], atol=1e-6)
    assert read["source_tokens"] == tokenizer.source.pieces(ids[0][0])
    assert read["target_tokens"] == tokenizer.target.pieces(ids[1][0])
    run_script("visualize_attention", [*given, "--output=x.npz", "--layer=1"], refusal="--layer")


def test_pages_to_explore_attention_are_made_of_a_sentence_and_of_a_text(trained, tmp_path):
    both = [f"--model_dir={trained}"] * 2
    page, index, text = tmp_path / "a.html", tmp_path / "b.html", tmp_path / "text.tsv"
    flags = ["--source=one dog", "--target=eins Hund", "--gold_links=0-0 1p1", f"--output={page}"]
    done = run_script("visualize_attention", [*both, *flags])
    assert done.err == "" and done.out == f"wrote {page}\n"
    found = page.read_text(encoding="utf-8")
    assert found.count('"name":"transformer_tiny of ') == 2 and '"sure":[[0,0]]' in found
    text.write_text("\t\nbig house\tgroß Haus\n")
    flags = [f"--input={text}", f"--target_input={text}", f"--output={index}", "--head=2"]
    done = run_script("visualize_attention", [*both[1:], *flags])
    assert "2 lines; 1 of them have no page" in done.out
    assert "big" not in (tmp_path / "b_pages" / "0002.html").read_text().partition("groß")[2]
    found = (tmp_path / "b_pages" / "0002.html").read_text(encoding="utf-8")
    assert '"choice":{"layer":null,"head":2,"merge":false,"kind":"cross"}' in found


def test_exports_and_the_export_needs_nothing_of_this_project(trained, folder):
    text, output = folder / "served.source", folder / "served.out"
    lines = read_lines(folder / "valid.source")[:3]
    write_lines(text, lines)
    arguments = [f"--model_dir={trained}", f"--export_dir={folder / 'serving'}"]
    done = run_script("export", [*arguments, f"--check_input={text}"])
    assert "3 lines translated alike in a fresh process" in done.out
    assert sorted(p.name for p in (folder / "serving").iterdir()) == ["1", "batching.config"]
    version = folder / "serving" / "1"
    card = json.loads((version / "assets.extra/model_card.json").read_text(encoding="utf-8"))
    assert card["models"][0]["preset"] == "transformer_tiny" and card["search"]["beam_size"] == 4
    assert {"translate", "score", "attention_maps"} < card["signatures"].keys()
    run_script("translate", [f"--model_dir={trained}", f"--input={text}", f"--output={output}"])
    with saved_model_client.loaded(version) as answer:
        translations = answer("serving_default", {"text": lines})["translation"]
    assert [translation.decode() for translation in translations] == read_lines(output)


def test_an_export_for_ctranslate2_says_how_many_lines_are_alike(trained, folder, tmp_path):
    pytest.importorskip("ctranslate2", reason="CTranslate2 is an optional package")
    text, serving = folder / "valid.source", tmp_path / "serving"
    model, where = f"--model_dir={trained}", f"--export_dir={serving}"
    arguments = [model, where, "--format=ctranslate2", f"--check_input={text}"]
    done = run_script("export", arguments)
    outputs = tmp_path / "ours", tmp_path / "theirs"
    for flag, output in zip((model, where), outputs, strict=True):
        arguments = [flag, f"--input={text}", f"--output={output}"]
        run_script("translate", arguments)
    ours, theirs = map(read_lines, outputs)
    assert (serving / "1" / "training_text.json").read_bytes() == (
        trained / "training_text.json"
    ).read_bytes()
    # An unfinished model repeats itself up to the limit, where many hypotheses are almost equal.
    alike = sum(a == b for a, b in zip(ours, theirs, strict=True))
    assert alike >= 4
    assert done.out.startswith(f"wrote {serving / '1'}; {alike} of 20 lines translated alike")
    for script, flags, refusal in (
        ("translate", [where, "--max_input_tokens=2000"], "was exported for at most 1024"),
        ("export", [model, where], "has another format"),
    ):
        run_script(script, flags, refusal=refusal)
    assert [path.name for path in serving.iterdir()] == ["1"]


def test_lines_too_long_for_the_export_are_counted_and_no_line_is_no_check(
    trained, folder, tmp_path
):
    text = tmp_path / "long.en"
    text.write_text("\n" + "dog " * 30 + "\n")
    arguments = [f"--model_dir={trained}", f"--export_dir={tmp_path / 'serving'}"]
    arguments += ["--max_input_tokens=20", f"--check_input={text}"]
    done = run_script("export", arguments, refusal="")
    assert not (tmp_path / "serving").exists()
    assert done.err.splitlines()[-2:] == [
        f"{text}: 1 of 2 lines are not compared, the first is line 2 (longer than the limit)",
        f"error: {text}: no line to compare; give --check_input some source sentences",
    ]


def test_sigterm_saves_and_the_same_command_goes_on(folder, corpus):
    command = [sys.executable, "train.py", *corpus, *QUICK, "--max_steps=100000"]
    command += [f"--model_dir={folder / 'stopped'}", f"--data_dir={folder / 'data'}"]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    metrics = folder / "stopped" / "metrics.jsonl"
    deadline = time.monotonic() + 120
    while not (metrics.exists() and metrics.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM, err
    (saved,) = (folder / "stopped" / "checkpoints").iterdir()
    assert int(saved.stem) >= 2
    assert f"saved at step {int(saved.stem):,}" in err.decode()


def test_text_for_validation_and_test_is_held_out_where_none_is_given(folder, corpus):
    sizes = ["--valid_size=10", "--test_size=5", f"--data_dir={folder / 'held'}"]
    done = train([*corpus[:2], *sizes], folder, model_dir="held x", quick=["--model=ibm1"])
    files = re.findall(r"^held out (\d+) pairs in (\S+) and (\S+)$", done.out, re.M)
    assert [count for count, *_ in files] == ["10", "5"]
    for count, *paths in files:
        assert [len(read_lines(path)) for path in paths] == [int(count)] * 2
    # The last lines give the command that scores the held-out test.
    *_, command = done.out.splitlines()
    python, script, *flags = shlex.split(command)
    assert (python, script) == ("python", "translate.py")
    assert f"--reference={files[1][2]}" in flags
    done = run_script("translate", flags)
    assert "BLEU" in done.out
    assert len(read_lines(folder / "held x" / "test.translation")) == 5


def test_a_handful_of_sentences_are_all_for_training(tmp_path):
    """Model 1 and its successor with attention, on the example of a chapter that compares them."""
    for side, lines in (
        ("es", ["por qué"] * 3 + ["por", "qué"]),
        ("en", ["why"] * 3 + ["for", "what"]),
    ):
        write_lines(tmp_path / f"a.{side}", lines)
    write_lines(tmp_path / "text", ["por qué", "por", "qué"])
    flags = [f"--train_source={tmp_path / 'a.es'}", f"--train_target={tmp_path / 'a.en'}"]
    for model, expected in (("ibm1", ["why"] * 3), ("attention_ibm1", ["why", "for", "what"])):
        few = ["--max_steps=100", "--bleu_lines=0"] if model != "ibm1" else []
        quick = [f"--model={model}", f"--data_dir={tmp_path}", *few]
        done = train(flags, tmp_path, model_dir=model, quick=quick)
        assert "all are for training" in done.out
        model_dir, text = f"--model_dir={tmp_path / model}", f"--input={tmp_path / 'text'}"
        done = run_script("translate", [model_dir, text])
        assert done.out.splitlines() == expected


def test_faults_of_a_text_are_named_where_a_run_begins(folder, corpus):
    same = [flag.replace("train", "valid", 1) for flag in corpus[:2]]
    for flags, count in ((["--dry_run"], 1), (["--max_steps=1"], 1), (["--max_steps=1"], 0)):
        flags = [*corpus[:2], *same, *flags]
        done = train(flags, folder, model_dir="overlap", quick=["--model=ibm1"])
        assert done.out.count("validation sources are in the training text, too") == count


# "word" is slow-only, because every_preset_test.py uses it for all presets.
@pytest.mark.parametrize(
    "tokenizer", [pytest.param("word", marks=pytest.mark.slow), "pretokenized"]
)
def test_every_tokenizer_goes_the_whole_way(tokenizer, folder, corpus, tmp_path):
    pieces = tmp_path / "pieces.txt"
    both = [*WORDS, *WORDS.values(), "un@@", "known"]
    pieces.write_text("".join(f"{word} {i}\n" for i, word in enumerate(both)), encoding="utf-8")
    flags = [f"--tokenizer={tokenizer}", "--max_steps=2"]
    flags += [f"--vocab_file={pieces}"] * (tokenizer == "pretokenized")
    model_dir = f"--model_dir={tmp_path / 'run'}"
    text = tmp_path / "text.en"
    text.write_text("one dog\n\nhouse zebra\n")
    for script, arguments in (
        ("train", [*corpus, *CHEAP, *flags, f"--data_dir={folder / 'data'}"]),
        ("translate", [f"--input={text}", f"--output={tmp_path / 'out.de'}"]),
        ("visualize_attention", ["--source=one dog", f"--output={tmp_path / 'a.png'}"]),
        ("export", [f"--export_dir={tmp_path / 'serving'}", f"--check_input={text}"]),
    ):
        with client_in_this_process():
            run_script(script, [model_dir, *arguments])
    assert (tmp_path / "out.de").read_text().count("\n") == 3
    assert "<unk>" not in (tmp_path / "out.de").read_text()


def _damage(path, run):
    os.makedirs(path / "tokenizer")
    for name in ("config.json", "best.npz", "tokenizer/shared.model"):
        (path / name).write_bytes((run / name).read_bytes())


def test_a_damaged_record_is_named_before_the_work(trained, folder, tmp_path):
    _damage(tmp_path / "m", trained)
    (tmp_path / "m/metrics.jsonl").write_text('{"step": 1, "kind": "train"}\n')
    arguments = [f"--model_dir={tmp_path / 'm'}", f"--input={folder / 'valid.source'}"]
    arguments += [f"--reference={folder / 'valid.target'}", f"--output={tmp_path / 'out'}"]
    run_script("translate", arguments, refusal=f"error: {tmp_path / 'm/metrics.jsonl'}, line 1: ")
    assert not (tmp_path / "out").exists()


def test_lines_of_unknown_words_are_named(folder, corpus, tmp_path):
    train(corpus, folder, "--max_steps=2", model_dir="words", quick=CHEAP)
    text = tmp_path / "text.en"
    text.write_text("\nfoo bar baz\n")
    arguments = [f"--model_dir={folder / 'words'}", f"--input={text}"]
    done = run_script(
        "translate", arguments, refusal=f"{text}: the model's vocabulary has none of its"
    )
    text.write_text("one dog\nfoo bar baz\n")
    done = run_script("translate", arguments)
    assert len(done.out.splitlines()) == 2
    assert "without a word that the model knows; their translations mean nothing: 1 " in done.err
    ranked = tmp_path / "ranked"
    ranked.write_text("0 ||| Hund Zebra ||| -1\n1 ||| Hund ||| -2\n")
    done = run_script("translate", [*arguments, f"--rank={ranked}"])
    assert "translations: 1 of 5 tokens are not in the vocab" in done.err
    # If unknown words are replaced, the line has a translation.
    lexicon = tmp_path / "lexicon.txt"
    lexicon.write_text("foo Fuß 0.5\n")
    done = run_script("translate", [*arguments, "--replace_unknowns", f"--lexicon={lexicon}"])
    assert len(done.out.splitlines()) == 2
    assert "unknown words in translations: " in done.err


def test_batches_have_at_most_so_many_pairs_and_a_constant_rate_stays(folder, corpus):
    flags = ["--max_sentences_per_batch=10", "--max_tokens_per_batch=4096"]
    flags += ["--loss_average=sentences", "--clip_norm=4"]
    flags += ["--schedule=constant", "--warmup_steps=1", "--adam_beta_2=0.999", "--max_steps=4"]
    flags.append("--learning_rate=3e-3")
    done = train(corpus, folder, *flags, model_dir="by sentences", quick=CHEAP)
    assert "batches per epoch: 20 of at most 4,096 tokens per side and 10 pairs" in done.out
    records = [r for r in _records(folder / "by sentences") if r["kind"] == "train"]
    assert [r["learning_rate"] for r in records] == pytest.approx([3e-3, 3e-3])
