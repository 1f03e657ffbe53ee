"""Tests of compare.py on texts that a dictionary translates word by word."""

import json
import random
import re
from pathlib import Path

import pytest

from tests.running import refusals, run_elsewhere, run_script
from tests.tiny import WORDS

TEXTS = ("--source=en", "--reference=de")
ALL = (*TEXTS, "--outputs=same,short,twice")


def write(name, lines):
    Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs compare.py in a folder with a text and translations of it."""
    monkeypatch.chdir(tmp_path)
    rng = random.Random(1)
    source = [rng.sample(list(WORDS), rng.randrange(3, 8)) for _ in range(60)]
    reference = [[WORDS[word] for word in line] for line in source]
    write("en", map(" ".join, source))
    for name, change in {
        "de": lambda line, _: line,
        "same": lambda line, _: line,
        "short": lambda line, _: line[:-1],
        "twice": lambda line, _: [*line, *line[-3:]],
        "copy": lambda line, words: [*line[:-1], words[-1]],
        "five": lambda line, _: line[::-1],
        "six": lambda line, _: line[1:],
        "seven": lambda line, _: line[2:],
    }.items():
        write(name, (" ".join(change(*pair)) for pair in zip(reference, source, strict=True)))
    return lambda *flags, **more: run_script("compare", flags, **more)


def report_of(run, *flags):
    done = run(*flags, "--save_scores=scores.json")
    return json.loads(Path("scores.json").read_text()), done


def test_faults_are_found_where_they_are(run):
    report, done = report_of(run, *TEXTS, "--outputs=same,short,twice,copy")
    bleu = report["scores"]["bleu"]["systems"]
    assert bleu["same"]["score"] == pytest.approx(100) and bleu["same"]["p_value"] is None
    assert bleu["short"]["p_value"] < 0.01 and report["best"] == "same"
    faults = report["faults"]
    assert (faults["same"]["dropped"], faults["same"]["length_ratio"]) == (0, 1)
    assert faults["twice"]["repeated"] == 60 and faults["twice"]["length_ratio"] > 1.5
    assert faults["copy"]["copied"] == 60
    assert 40 < faults["short"]["dropped"] < 80
    assert faults["same"]["copied"] == faults["same"]["repeated"] == faults["same"]["doubled"] == 0
    assert re.search(r"^same +100\.00 +0\.00 +best", done.out, re.M)
    assert "the reference itself" in done.out and done.out.endswith("wrote scores.json\n")


def test_a_training_text_has_the_frequencies(run):
    write("train.en", ["dog cat"] * 30)
    write("train.de", [f"{WORDS['dog']} {WORDS['cat']}"] * 30)
    training = ("--train_source=train.en", "--train_target=train.de", "--metrics=bleu")
    report, done = report_of(run, *ALL, *training)
    words = Path("de").read_text().split()
    known = sum(word in (WORDS["dog"], WORDS["cat"]) for word in words)
    counts = {each["frequency"]: each["reference_words"] for each in report["by_frequency"]}
    assert counts["21-100"] == known and counts["0"] == len(words) - known
    assert "in the training text" in done.out
    assert report_of(run, *ALL, *training[1:])[0]["by_frequency"] == report["by_frequency"]


def test_blank_references_are_counted_and_left_out(run):
    lines = Path("de").read_text().splitlines()
    write("gaps", ["", *lines[1:30], " \u00a0", *lines[31:]])
    report, done = report_of(run, "--source=en", "--reference=gaps", "--outputs=same,short")
    assert report["sentences"] == 58
    assert "2 of 60 reference lines are blank and are not scored" in done.err
    assert report["scores"]["bleu"]["systems"]["same"]["score"] == pytest.approx(100)
    assert "line 31\n" not in run(*TEXTS[:1], "--reference=gaps", "--outputs=same,short").out


def test_case_counts_unless_it_is_told_not_to(run):
    write("title", map(str.title, Path("de").read_text().splitlines()))
    outputs = (*TEXTS, "--outputs=title,short", "--metrics=bleu")
    strict, _ = report_of(run, *outputs)
    loose, _ = report_of(run, *outputs, "--lowercase")
    assert strict["scores"]["bleu"]["systems"]["title"]["score"] < 60
    assert loose["scores"]["bleu"]["systems"]["title"]["score"] == pytest.approx(100)
    assert loose["faults"]["title"]["dropped"] == 0


def test_a_tsv_and_a_test_set_are_read_like_plain_text(run):
    sides = zip(
        Path("en").read_text().splitlines(), Path("de").read_text().splitlines(), strict=True
    )
    write("both.tsv", map("\t".join, sides))
    segments = (
        f'<seg id="{n}">{t}</seg>' for n, t in enumerate(Path("en").read_text().splitlines())
    )
    write("set", ['<srcset setid="a" srclang="en"><doc docid="d">', *segments, "</doc></srcset>"])
    plain, _ = report_of(run, *ALL, "--metrics=bleu")
    for flags in (
        ("--source=both.tsv", "--reference=both.tsv"),
        ("--source=set", "--reference=de"),
    ):
        report, _ = report_of(run, *flags, ALL[2], "--metrics=bleu")
        assert report["faults"] == plain["faults"] and report["scores"] == plain["scores"]


def test_hostile_lines_and_long_ones_pass_through(run):
    write("en", ["<b>\u202e a", "", "word " * 10_000])
    write("de", ["<i>&amp;", "x", "Wort " * 10_000])
    write("a", ["</script>\u2067", "", "Wort " * 9_000])
    write("b", ["\x1b[31m\x00", "x y", ""])
    report, done = report_of(run, *TEXTS, "--outputs=a,b", "--page=p.html")
    assert report["sentences"] == 3 and "(empty)" in done.out and "\x1b" not in done.out
    assert [each["unaligned"] for each in report["faults"].values()] == [1, 1]
    page = re.sub("</?mark>", "", Path("p.html").read_text())
    assert "<bdi>&lt;/script&gt;\u2067</bdi>" in page and "Wort " * 9_000 in page


BAD = """
--reference=de --outputs=same,short -> give --source: the text
{TEXTS} -> give --outputs
{TEXTS} --outputs=same -> files with commas between them, found 1: same
{TEXTS} --outputs=same,short,twice,copy,five,six,seven -> --outputs: expected 2 to 6 files with
{TEXTS} --outputs=same, -> files with commas between them, found 1
{TEXTS} --outputs=same,./same -> the same file is given twice
{ALL} --names=a,b -> --names: expected 3 different names
{ALL} --names=a,b,a -> --names: expected 3 different names
{TEXTS} --outputs=same,nowhere -> nowhere: cannot be read
{TEXTS} --outputs=same,empty -> en has 60 lines and empty has 0
--source=empty --reference=de --outputs=same,short -> empty: empty; expected one sentence
--source=en --reference=empty --outputs=same,short -> empty: empty or blank
{TEXTS} --outputs=same,fewer -> en has 60 lines and fewer has 59
{ALL} --train_source=en -> --train_source needs --train_target
{ALL} --train_source=en --train_target=fewer -> en has 60 lines and fewer has 59
{ALL} --metrics=comet -> --metrics: expected some of bleu,chrf,ter
{ALL} --tokenize=x -> --tokenize=x: expected one of
{ALL} --page=same -> same: given for two flags
{ALL} --page=folder -> folder: cannot be written (a folder)
""".format(TEXTS=" ".join(TEXTS), ALL=" ".join(ALL))


@pytest.mark.parametrize(("flags", "refusal"), refusals(BAD))
def test_what_cannot_be_compared_is_one_line_and_writes_nothing(run, flags, refusal):
    write("empty", [])
    write("fewer", Path("de").read_text().splitlines()[1:])
    Path("folder").mkdir()
    before = {path: path.stat().st_mtime_ns for path in Path().iterdir()}
    more = [] if "--page" in flags[-1] else ["--page=p.html"]
    assert not run(*flags, "--save_scores=s.json", *more, refusal=refusal).out
    assert {path: path.stat().st_mtime_ns for path in Path().iterdir()} == before


def test_comparing_does_not_import_tensorflow(run):
    done, packages = run_elsewhere("compare", *ALL, "--page=p.html")
    assert done.out.endswith("wrote p.html\n") and not {"keras", "tensorflow"} & {*packages}
