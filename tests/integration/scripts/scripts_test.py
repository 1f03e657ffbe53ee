"""Runs the four scripts in turn on a corpus of a few words, and gives them bad input."""

import itertools
import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from nmt_zoo.common.files import read_lines, write_lines
from nmt_zoo.data_pipeline import datasets
from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.model_directory.metrics import read_records
from nmt_zoo.serving.export.server_files import read_meta_graph
from tests.integration.scripts.conftest import TRANSFORMER
from tests.running import ROOT, attempt, eagerly, run_script, train
from tests.tiny import WORDS, corpus_flags, small_flags
from tests.unit.decoding.pictures.attention_pictures_test import svg_texts

CHEAP = [*small_flags("attention_ibm2"), "--max_tokens_per_batch=256", "--log_every_steps=2"]
CHEAP.append("--bleu_lines=0")
PIECES = ["--tokenizer=bpe", "--num_pieces=300"]


def test_training_leaves_all_that_the_other_scripts_need(transformer):
    assert {p.name for p in transformer.iterdir()} == {
        *("best.npz", "checkpoints", "config.json", "lock", "metrics.jsonl", "tensorboard"),
        *("tokenizer", "training_text.json"),
    }
    records = list(read_records(transformer / "metrics.jsonl"))
    assert [r["step"] for r in records if r["kind"] == "train"] == [50, 100, 150]
    assert records[-1]["kind"] == "valid"


@pytest.mark.parametrize(
    ("model", "last"),
    [
        ("ibm1", "\npair "),
        ("phrase_based", "counted from the whole text: there are no steps to plan\n"),
    ],
)
def test_dry_run_without_gradients_prints_no_batches(model, last, folder, corpus):
    done = train(folder, "x", *corpus, f"--model={model}", "--dry_run")
    assert last in done.out and not re.search("batches|memory:|gradients|Adam ", done.out)
    assert not (folder / "x").exists()


def test_dry_run_prints_the_plan_of_a_mixture_and_makes_no_run(folder, corpus):
    twice = [f"{flag},{flag.split('=')[1]}" if "train_" in flag else flag for flag in corpus]
    flags = ("--dry_run", "--pad_to_bucket", "--corpus_weights=1,3", "--max_minutes=0.001")
    flags += ("--max_steps=70",)
    done = train(folder, "x", *twice, *CHEAP, *flags)
    for line in (
        "training pairs: 400, an epoch has 100 of 200 and 300 of 200",
        "dropped: 0 with an empty side",
        "pace: about 1 updates at most (--max_minutes=0.001 at ",
        "memory is enough for batches of",
        "    --max_steps=70 takes about ",
        "    --max_minutes=0.001 is time for about ",
    ):
        assert line in done.out
    assert re.search(
        r"^time: about \S+ s per update on one device, \d+ s per epoch$", done.out, re.M
    )
    assert "times as fast" not in done.out  # Precisions are compared by --precision=auto alone.
    assert not (folder / "x").exists()


def test_summary_shows_directories_side_by_side_and_trains_nothing(transformer, folder):
    before = sorted(transformer.rglob("*"))
    flags = ["--summary", f"--model_dir={transformer}", f"--model_dir={transformer}"]
    done = run_script("train", flags)
    rows = {line.split("  ")[0]: line.split() for line in done.out.splitlines()}
    assert rows["steps"] == ["steps", "150", "150"]
    assert rows["skipped steps"] == ["skipped", "steps", "0", "0"]
    assert rows["model"][1:] == ["transformer_tiny"] * 2
    best = np.load(transformer / "best.npz")
    count = sum(best[name].size for name in best.files if name != "state")
    assert rows["parameters"][1:] == [f"{count:,}"] * 2
    assert sorted(transformer.rglob("*")) == before
    run_script("train", ["--summary", f"--model_dir={folder}/none"], "no such model directory")
    run_script("train", flags[1:], refusal="give one --model_dir")


def test_what_does_not_fit_the_run_of_a_directory_is_refused(transformer, text, corpus, tmp_path):
    def refused(refusal, *flags):
        return train(text, "transformer", *corpus, *TRANSFORMER, *flags, refusal=refusal)

    done = refused("learning_rate was 0.01, is 0.5", "--learning_rate=0.5", "--seed=9")
    assert "seed was 1, is 9" in done.err
    refused("num_heads was 2, is 4", "--set=num_heads=4")
    refused("another training text", *corpus_flags(tmp_path, train=199)[:2])
    done = refused("another validation text", *corpus_flags(tmp_path, valid=19)[2:])
    assert "training text" not in done.err
    directory = ModelDirectory(transformer)
    directory.lock.acquire()
    refused(f"{transformer}: another run is under way")
    directory.lock.release()


def test_a_pipe_is_translated_line_by_line_as_soon_as_it_pauses(transformer):
    process = subprocess.Popen(
        [sys.executable, "translate.py", f"--model_dir={transformer}"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        lines = []
        for text in ("one dog\n\nthe zebra\u2028sees\r\n", "   \n"):
            process.stdin.write(text.encode())
            process.stdin.flush()  # The next lines are written when these have been translated.
            lines += [process.stdout.readline() for _ in range(text.count("\n"))]
        rest, errors = process.communicate(b"house")
    assert process.returncode == 0, errors
    assert [line.strip() == b"" for line in lines] == [False, True, False, True]
    assert rest.count(b"\n") == 1 and lines[0].endswith(b"\n")
    assert b"empty lines, left empty: 2 of 5 (lines 2, 4)\n" in errors


def test_a_terminal_is_asked_for_lines_until_it_ends_them(transformer, monkeypatch):
    keyboard, terminal = pty.openpty()
    os.write(keyboard, "one dog\n\nhouse ✓ dog\n\x04".encode())  # Ctrl-D
    with open(terminal) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        done = run_script("translate", [f"--model_dir={transformer}", "--keep=none"])
    os.close(keyboard)
    assert [bool(line) for line in done.out.split("\n")] == [True, False, True, False]
    assert done.err.startswith("> > > > ") and "translating" not in done.err
    (remark,) = (line for line in done.err.splitlines() if "✓" in line)
    assert " such as ✓ (U+2713): 1 of " in remark and remark.endswith("(line 3)")


def test_a_text_that_standard_input_reads_is_not_replaced(transformer, tmp_path, monkeypatch):
    text = tmp_path / "x"
    text.write_text("one dog\n")
    for flag in ("output", "save_scores"):
        with open(text) as stdin:
            monkeypatch.setattr(sys, "stdin", stdin)
            flags = [f"--model_dir={transformer}", f"--{flag}={text}", f"--reference={text}2"]
            run_script("translate", flags, "is also the standard input")
        assert text.read_text() == "one dog\n"


def test_several_references_are_scored(transformer, text, tmp_path):
    source, target = text / "valid.source", text / "valid.target"
    output, table, other = (tmp_path / name for name in ("out.de", "all.tsv", "other.de"))
    flags = [f"--model_dir={transformer}", f"--output={output}"]
    write_lines(other, [f"{line} x" for line in read_lines(target)])
    both = [f"--input={source}", f"--reference={target},{other}"]
    done = run_script("translate", [*flags, *both, "--metrics=ter,bleu"])
    ter, bleu = done.out.splitlines()
    assert ter.startswith("TER|nrefs:2|") and bleu.startswith("BLEU|nrefs:2|")
    columns = zip(*map(read_lines, (target, source)), strict=True)
    write_lines(table, ["\t".join(line) for line in columns])
    same = [f"--input={table}", f"--reference={table},{other}", "--input_column=2"]
    same.append("--metrics=ter,bleu")
    assert run_script("translate", [*flags, *same]).out.splitlines() == [ter, bleu]
    for bad, expected in (
        ([f"--input={table}"], "give it as --reference, too"),
        ([f"--input={source}", f"--reference={table}"], "given for one side only"),
        ([f"--input={source}", f"--reference={source}"], "same file for source and target"),
    ):
        assert run_script("translate", [*flags[:1], *bad], refusal=expected).out == ""


def test_n_best_lists_json_lines_and_scores_agree(transformer, text, tmp_path):
    def translate(*flags):
        arguments = [f"--model_dir={transformer}", f"--input={text / 'valid.source'}"]
        done = run_script("translate", [*arguments, *flags])
        return done.out.split("\n")[:-1], done.err

    three, _ = translate("--n_best=3")
    assert [line.split(" ||| ")[0] for line in three] == [str(i) for i in range(20) for _ in "abc"]
    records = [json.loads(line) for line in translate("--n_best=3", "--format=jsonl")[0]]
    assert [r["source"] for r in records] == read_lines(text / "valid.source")
    assert three == [
        f"{n} ||| {translation['translation']} ||| {translation['score']:.4f}"
        for n, record in enumerate(records)
        for translation in record["n_best"]
    ]
    for record in records:
        assert record["translation"] == record["n_best"][0]["translation"]
        assert record["tokens"][-1] == "</s>" or not record["finished"]
        sizes = [len(record[side].split()) for side in ("source", "translation")]
        assert all(i < sizes[0] and j < sizes[1] for i, j in record["alignment"])

    given = tmp_path / "given"
    write_lines(given, [record["translation"] for record in records])
    scored, errors = translate("--format=jsonl", f"--score={given}")
    assert "perplexity" in errors
    for record, line in zip(records, scored, strict=True):
        assert json.loads(line)["score"] == pytest.approx(record["score"], abs=1e-3)


def test_a_page_keeps_its_tags(transformer, tmp_path, monkeypatch):
    page, output = tmp_path / "page.html", tmp_path / "out.html"
    text = (
        '<p class="a">one <b>dog</b> runs &amp; two cats</p>\n<script>1 < 2</script><p>big <i>cat'
    )
    page.write_text(text)
    flags = [f"--model_dir={transformer}", "--markup=html"]
    done = run_script("translate", [*flags, f"--input={page}", f"--output={output}"])
    assert "page.html: tags without their start or end tag: 1, such as <i>" in done.err
    written = output.read_text()
    tags = '<p class="a">', "<b>", "</b>", "</p>\n<script>1 < 2</script><p>", "<i>"
    places = [written.index(tag) for tag in tags]
    assert places == sorted(places) and written != text and not written.endswith("\n")
    with open(page) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert run_script("translate", flags).out == written
    titles = tmp_path / "film.srt"
    titles.write_text("1\n00:01 --> 00:02\none dog\nruns .\n\n")
    lines = run_script("translate", [*flags[:1], "--markup=srt", f"--input={titles}"]).out.split(
        "\n"
    )
    assert lines[:2] == ["1", "00:01 --> 00:02"] and len(lines) == 6 and all(lines[2:4])


def test_long_lines_are_left_or_split_and_every_output_stays_well_formed(transformer, tmp_path):
    path = tmp_path / "text.en"
    path.write_text("one dog\n" + "big cat runs. " * 8 + "\n\n")
    flags = [f"--model_dir={transformer}", f"--input={path}", "--max_input_tokens=30"]
    flags.append("--beam_size=2")
    done = run_script("translate", [*flags, "--long_lines=split", "--format=scores"])
    assert "lines of more than 30 tokens, translated in parts: 1 of 3 (line 2)" in done.err
    first, long, empty = [float(line.split("\t")[0]) for line in done.out.splitlines()]
    assert first < 0 and -float("inf") < long < 0 and empty == 0
    path.write_text("one dog\n" + "Big cat runs. " * 8 + "\n\n")
    done = run_script("translate", [*flags, "--n_best=2"])
    # With several translations, a line is not split.
    assert "(longer than the limit of 30 tokens; see --long_lines): 1 of 3 (line 2)" in done.err
    assert "may be missing in the translations (see --split_sentences): 1 of 3" in done.err
    numbers = [line.split(" ||| ")[0] for line in done.out.splitlines()]
    assert numbers == ["0", "0", "1", "2"]
    done = run_script("translate", flags)  # Training text has a sentence a line.
    assert "left untranslated" not in done.err
    assert "each translated by itself (see --split_sentences): 1 of 3 (line 2)" in done.err
    assert [bool(line) for line in done.out.split("\n")] == [True, True, False, False]


def test_what_an_interrupted_translation_has_done_is_taken_up(transformer, tmp_path):
    output, path = tmp_path / "out.de", tmp_path / "text.en"
    lines = [" ".join(words) for words in itertools.permutations(WORDS, 3)]
    write_lines(path, lines)
    flags = [f"--model_dir={transformer}", f"--input={path}", f"--output={output}"]
    flags += ["--batch_size=8", "--beam_size=1"]
    unfinished = tmp_path / "out.de.unfinished"

    def interrupt():
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if unfinished.exists() and unfinished.read_bytes().count(b"\n") > 8:
                return os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.02)

    with ThreadPoolExecutor() as thread:
        thread.submit(interrupt)
        assert attempt("translate", flags).status == 128 + signal.SIGINT
    assert [p.name for p in tmp_path.glob("out*")] == [unfinished.name]
    done_before = unfinished.read_bytes().count(b"\n") - 1
    write_lines(path, lines[: done_before + 20])
    reference, scores = tmp_path / "reference", tmp_path / "scores"
    write_lines(reference, ["eins"] * (done_before + 20))
    done = run_script("translate", [*flags, f"--reference={reference}", f"--save_scores={scores}"])
    assert f"found {done_before} earlier translations" in done.err
    assert "BLEU|nrefs:1|case:mixed|" in done.out and "chrF2|" in done.out
    assert "TER|" not in done.out
    record = json.loads(scores.read_text())
    assert record["translation_seconds"] is None and record["beam_size"] == 1
    together = output.read_text()
    assert record["sentences"] == together.count("\n") == done_before + 20
    assert [p.name for p in tmp_path.glob("out*")] == ["out.de"]
    run_script("translate", flags)
    assert output.read_text() == together


def test_all_heads_or_the_mean_of_words_are_drawn(transformer, tmp_path):
    flags = [f"--model_dir={transformer}", "--source=one dog runs", "--target=eins Hund"]
    pictures = []
    for name, extra in (("all", ["--layer=all", "--head=all"]), ("mean", ["--merge_subwords"])):
        picture = tmp_path / f"{name}.svg"
        run_script("visualize_attention", [*flags, f"--output={picture}", *extra])
        pictures.append([text for text in svg_texts(picture) if text])
    # The mean of two heads, and words instead of their pieces.
    assert {"dog", "Hund"} <= {*pictures[1]} and not {"dog", "Hund"} & {*pictures[0]}
    heads = [[text for text in texts if re.match(r"head \d", text)] for texts in pictures]
    assert heads == [["head 1", "head 2"], []]


def test_a_page_to_explore_attention_shows_models_side_by_side(transformer, tmp_path):
    page = tmp_path / "a.html"
    flags = ["--source=one dog", "--target=eins Hund", f"--output={page}", "--head=2"]
    done = run_script("visualize_attention", [f"--model_dir={transformer}"] * 2 + flags)
    assert done.err == "" and done.out == f"wrote {page}\n"
    html = page.read_text(encoding="utf-8")
    assert html.count('"name":"transformer_tiny of ') == 2
    assert '"choice":{"kind":"cross","head":2}' in html


@eagerly
def test_an_export_translates_alike_in_a_process_without_this_project(
    folder, corpus, text, tmp_path
):
    """export.py compares the answers of all signatures."""
    path, serving = tmp_path / "text", tmp_path / "serving"
    write_lines(path, read_lines(text / "valid.source")[:3])
    train(folder, "exported", *corpus, *CHEAP, *PIECES, "--max_steps=2")
    arguments = [f"--model_dir={folder / 'exported'}", f"--export_dir={serving}"]
    done = run_script("export", [*arguments, f"--check_input={path}"])
    assert "3 lines translated alike in a fresh process" in done.out
    assert sorted(p.name for p in serving.iterdir()) == ["1", "batching.config"]
    extra = serving / "1" / "assets.extra"
    card = (extra / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert "## attention_ibm2\n" in card and "* Search: beam_size 4, " in card
    run_script("export", [*arguments, "--precision=int8"], refusal="cannot for attention_ibm2")
    # Lines that are too long for an export are counted, and no line is no check.
    path.write_text("\n" + "dog " * 30 + "\n")
    arguments = [arguments[0], f"--export_dir={tmp_path / 'none'}", "--max_input_tokens=20"]
    done = run_script("export", [*arguments, f"--check_input={path}"], refusal="")
    assert not (tmp_path / "none").exists()
    assert done.err.splitlines()[-2:] == [
        f"{path}: 1 of 2 lines are not compared, the first is line 2 (longer than the limit)",
        f"error: {path}: no line to compare; give --check_input some source sentences",
    ]


@pytest.mark.slow
def test_an_export_in_8_bits_scores_in_float32_on_request(transformer, tmp_path):
    """export.py compares the answers of all signatures."""
    flags = f"--model_dir={transformer}", f"--export_dir={tmp_path}", "--beam_size=1"
    run_script("export", [*flags, "--precision=both"])
    signatures = read_meta_graph(tmp_path / "1").signature_def
    assert signatures.keys() >= {"serving_default", "translate", "score", "attention_maps"}


def test_an_export_for_ctranslate2_says_how_many_lines_are_alike(transformer, text, tmp_path):
    pytest.importorskip("ctranslate2", reason="CTranslate2 is an optional package")
    path, serving = text / "valid.source", tmp_path / "serving"
    model, where = f"--model_dir={transformer}", f"--export_dir={serving}"
    done = run_script("export", [model, where, "--format=ctranslate2", f"--check_input={path}"])
    outputs = tmp_path / "ours", tmp_path / "theirs"
    for flag, output in zip((f"{model} --engine=tensorflow", where), outputs, strict=True):
        run_script("translate", [*flag.split(), f"--input={path}", f"--output={output}"])
    ours, theirs = map(read_lines, outputs)
    assert (serving / "1" / "training_text.json").read_bytes() == (
        transformer / "training_text.json"
    ).read_bytes()
    alike = sum(a == b for a, b in zip(ours, theirs, strict=True))
    assert alike >= 15
    assert done.out.startswith(f"wrote {serving / '1'}; {alike} of 20 lines translated alike")
    for script, flags, refusal in (
        ("translate", [where, "--max_input_tokens=2000"], "was exported for at most 1024"),
        ("export", [model, where], "has another format"),
    ):
        run_script(script, flags, refusal=refusal)
    assert [path.name for path in serving.iterdir()] == ["1"]


def test_sigterm_saves_and_names_the_step(folder, corpus):
    """Also that train.py prints what is promised and nothing of its libraries."""
    command = [sys.executable, "train.py", *corpus, *CHEAP, *PIECES]
    command += ["--max_steps=100000", f"--model_dir={folder / 'stopped'}"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, cwd=ROOT, **pipes)
    metrics = folder / "stopped" / "metrics.jsonl"
    deadline = time.monotonic() + 120
    while not (metrics.exists() and metrics.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM, err
    (saved,) = (folder / "stopped" / "checkpoints").iterdir()
    assert int(saved.stem) >= 2
    assert f"saved at step {int(saved.stem):,}" in err
    assert "training pairs: 200" in out and "padding" in out and "options: " not in out
    assert "until --max_steps=100000 or --patience=10\n" in out
    assert "pace: about 100,000 updates at most (--max_steps=100000), " in out
    assert "LOG(" not in err and "oneDNN" not in err


@eagerly
def test_text_for_validation_and_test_is_held_out_where_none_is_given(folder, corpus):
    sizes = ["--valid_size=10", "--test_size=5", f"--data_dir={folder / 'held'}"]
    done = train(folder, "held x", *corpus[:2], "--model=ibm1", "--bleu_lines=0", *sizes)
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


@eagerly
def test_faults_of_a_text_are_named_where_a_run_begins(folder, corpus):
    same = [flag.replace("train", "valid", 1) for flag in corpus[:2]]
    cases = [(f"--model={name}", "--dry_run", 1) for name in ("phrase_based", "ibm1")]
    for *flags, count in (*cases, ("--max_steps=1", 1), ("--max_steps=1", 0)):
        done = train(folder, "overlap", *corpus, *same, "--model=ibm1", *flags)
        assert done.out.count("validation sources are in the training text, too") == count


@eagerly
def test_a_run_that_is_of_no_use_ends_with_a_command_that_can_be_pasted(
    text, tmp_path, monkeypatch
):
    splits = {
        name: datasets.Split(text / f"{name}.source", text / f"{name}.target")
        for name in ("train", "valid")
    }
    few = datasets.Included(lambda *_: splits, about="", size="", licence="", citation="")
    monkeypatch.setitem(datasets.DATASETS, "few", few)
    flags = ["--dataset=few", *small_flags("transformer_tiny"), "--num_pieces=300"]
    done = train(tmp_path, "network", *flags, "--max_steps=1", "--bleu_lines=5")
    _, script, *flags = shlex.split(done.out.splitlines()[-1])
    assert (script, flags[-1]) == ("train.py", f"--model_dir={tmp_path / 'network'}_phrases")
    done = run_script("train", [*flags, "--max_steps=1"])
    assert "no use" not in done.out
    write_lines(tmp_path / "wrong", ["of another text"] * 20)
    flags = [f"--valid_target={tmp_path / 'wrong'}", "--model=phrase_based", "--max_steps=1"]
    done = train(tmp_path, "counted", *corpus_flags(tmp_path), *flags)
    _, script, *flags = shlex.split(done.out.splitlines()[-1])
    done = run_script("train", flags)
    assert script == "train.py" and "no steps to plan" in done.out


def test_text_of_ones_own_never_meets_the_run_of_the_demo(
    transformer, corpus, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(transformer, "runs/demo")
    flags = [*corpus, "--model=phrase_based"]
    run_script("train", flags, refusal="give --model_dir, such as runs/x")
    done = run_script("train", [*flags, "--dry_run"])
    assert "the whole text: there are no steps to plan" in done.out
    assert re.search("^bleu_lines +2000 +way of training$", done.out, re.M)


@eagerly
def test_pretokenized_text_goes_the_whole_way(folder, corpus, tmp_path):
    pieces, path = tmp_path / "pieces.txt", tmp_path / "text.en"
    both = [*WORDS, *WORDS.values(), "un@@", "known"]
    write_lines(pieces, [f"{word} {i}" for i, word in enumerate(both)])
    path.write_text("one dog\n\nhouse zebra\n")
    flags = ["--tokenizer=pretokenized", f"--vocab_file={pieces}", "--max_steps=2"]
    train(folder, "pieces", *corpus, *CHEAP, *flags)
    done = run_script("translate", [f"--model_dir={folder / 'pieces'}", f"--input={path}"])
    assert done.out.count("\n") == 3 and "<unk>" not in done.out


def test_a_damaged_record_is_named_before_the_work(transformer, text, tmp_path):
    os.makedirs(tmp_path / "m/tokenizer")
    for name in ("config.json", "best.npz", "tokenizer/shared.model"):
        (tmp_path / "m" / name).write_bytes((transformer / name).read_bytes())
    (tmp_path / "m/metrics.jsonl").write_text('{"step": 1, "kind": "train"}\n')
    arguments = [f"--model_dir={tmp_path / 'm'}", f"--input={text / 'valid.source'}"]
    arguments += [f"--reference={text / 'valid.target'}", f"--output={tmp_path / 'out'}"]
    run_script("translate", arguments, refusal=f"error: {tmp_path / 'm/metrics.jsonl'}, line 1: ")
    assert not (tmp_path / "out").exists()


@eagerly
def test_batches_have_at_most_so_many_pairs_and_a_constant_rate_stays(folder, corpus):
    flags = ["--max_sentences_per_batch=10", "--max_tokens_per_batch=4096"]
    flags += ["--loss_average=sentences", "--clip_norm=4"]
    flags += ["--schedule=constant", "--warmup_steps=1", "--adam_beta_2=0.999", "--max_steps=4"]
    done = train(folder, "by sentences", *corpus, *CHEAP, *flags, "--learning_rate=3e-3")
    assert "batches per epoch: 20 of at most 4,096 tokens per side and 10 pairs" in done.out
    records = read_records(folder / "by sentences/metrics.jsonl")
    rates = [record["learning_rate"] for record in records if record["kind"] == "train"]
    assert rates == pytest.approx([3e-3, 3e-3])
