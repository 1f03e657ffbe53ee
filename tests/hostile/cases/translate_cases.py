"""Hostile text, outputs, references, streams and signals of translate.py."""

import functools
import json
import os
import signal
from pathlib import Path

from tests.hostile import inputs, prepared
from tests.hostile.case import Case, Ends, Refused, Works
from tests.hostile.inputs import BROKEN, ODDITIES, both, fifo, files, same_ends, sandwich

_BPE = "--model_dir=../models/bpe"
_PLAIN = sandwich("one cat")


def cases():
    """Yields `Case`s."""
    yield from _text()
    yield from _broken_text()
    yield from _inputs_and_outputs()
    yield from _references()
    yield from _scoring()
    yield from _models()
    yield from _requests()
    if prepared.HAS_CTRANSLATE2:
        yield from _ctranslate2()
    yield from _streams()
    yield from _signals()


def _case(group, name, expected, *arguments, beam=True, **more):
    more.setdefault("stdin", _PLAIN)
    arguments = (_BPE, *(["--beam_size=1"] if beam else []), *arguments)
    return Case(f"translate.py: {group}", name, "translate", arguments, expected, **more)


def _text():
    for name, text in ODDITIES.items():
        yield _case("text", name, Works(same_ends), stdin=sandwich(text))
    everything = sandwich("\n".join(ODDITIES.values()))
    num_lines = len(ODDITIES) + 2
    for model in ("ibm1_bpe", "lm"):
        arguments = [f"--model_dir=../models/{model}"]
        if model == "lm":
            arguments = ["--model_dir=../models/bpe", "--language_model=../models/lm"]
        works = Works(lambda outcome: same_ends(outcome, num_lines))
        yield _case("text", f"all of it, {model}", works, *arguments, stdin=everything)
    for size in (1, 7):
        works = Works(lambda outcome: same_ends(outcome, num_lines))
        flags = (f"--batch_size={size}", "--input=in.txt", "--output=out")
        prepare = files({"in.txt": everything})
        yield _case("text", f"all of it, batches of {size}", works, *flags, prepare=prepare)
    long = {
        "40 kB of emoji in a line": "😀" * 10_000,
        "10,000 letters without a space": "x" * 10_000,
        "3,000 words in a line": "one dog cat " * 1000,
        "2 MB in a line": "one dog " * 250_000,
    }
    for name, text in long.items():
        says = Works(same_ends, says=r"(?s)line 2|2 of 3|1 line")
        yield _case("text", name, says, stdin=sandwich(text))
    many = sandwich("\n".join(inputs.hostile_lines(10_000)))
    for model in ("bpe", "ibm1_bpe"):
        works = Works(lambda outcome: same_ends(outcome, 10_002))
        flags = (f"--model_dir=../models/{model}", "--max_input_tokens=400", "--format=text")
        yield _case("text", f"10,000 lines, {model}", works, *flags, stdin=many, seconds=1200)
    same = {
        "no line feed at the end": (PLAIN_3.rstrip(b"\n"), 3),
        "a byte order mark": (b"\xef\xbb\xbf" + PLAIN_3, 3),
        "line ends of Windows": (PLAIN_3.replace(b"\n", b"\r\n"), 3),
        "1,000 empty lines": (sandwich("\n" * 997), 1000),
    }
    for name, (data, count) in same.items():
        works = Works(lambda outcome, count=count: same_ends(outcome, count))
        yield _case("text", name, works, stdin=data)
    for name, data in {"nothing": b"", "only a byte order mark": b"\xef\xbb\xbf"}.items():
        nothing = Works(lambda outcome: outcome.out and "output for no input")
        yield _case("text", name, nothing, stdin=data)


PLAIN_3 = sandwich("one cat")


def _broken_text():
    line = r"line 2: not UTF-8"
    for name, data in BROKEN.items():
        yield _case("broken text", f"{name}, standard input", Refused(line), stdin=sandwich(data))
    latin = sandwich(BROKEN["Latin-1"])
    for flag in ("input", "reference"):
        arguments = (f"--{flag}=in.txt", "--output=out")
        wrong = Refused(rf"in\.txt, {line}")
        prepare = files({"in.txt": latin})
        yield _case("broken text", f"Latin-1, --{flag}", wrong, *arguments, prepare=prepare)
    yield _case("broken text", "UTF-16", Refused("line 1: not UTF-8"), stdin=inputs.UTF16)
    unknown = Refused("the model's vocabulary")
    word = "--model_dir=../models/word"
    yield _case("broken text", "no known word", unknown, word, stdin=b"qqq zzz\n")


def _inputs_and_outputs():
    group = "files"
    for name, prepare in {
        "missing": None,
        "a folder": lambda: os.mkdir("in.txt"),
        "empty": files({"in.txt": b""}),
        "gzip": files({"in.txt": b"\x1f\x8b\x08\x00" + bytes(range(128, 200))}),
        "a link to itself": lambda: os.symlink("in.txt", "in.txt"),
    }.items():
        refused = Refused(r"in\.txt\b")
        yield _case(
            group, f"--input {name}", refused, "--input=in.txt", "--output=out", prepare=prepare
        )
    yield _case(group, "--input without an end", Refused("/dev/zero"), "--input=/dev/zero")
    outputs = {
        "a folder": ("out", lambda: os.mkdir("out")),
        "a folder that is not there": ("newdir/", None),
        "below a file": ("in.txt/out", files({"in.txt": _PLAIN})),
        "a device": ("/dev/full", None),
        "300 characters": ("x" * 300, None),
        "a pipe": ("out", fifo("out")),
        "below /proc": ("/proc/out", None),
    }
    for name, (path, prepare) in outputs.items():
        for flag, more in (("output", ()), ("save_scores", ("--reference=ref",))):
            refused = Refused(rf"{path[:40]}")
            start = both(files({"ref": _PLAIN}), *filter(None, [prepare]))
            flags = (f"--{flag}={path}", *more)
            yield _case(group, f"--{flag} {name}", refused, *flags, prepare=start)
    locked = both(lambda: os.mkdir("locked"), lambda: os.chmod("locked", 0o555))
    yield _case(
        *(group, "--output in a folder that may not be written", Refused("locked/out")),
        *("--output=locked/out",),
        prepare=locked,
        unprivileged=True,
    )
    yield _case(
        *(group, "--output in a new folder", Works(same_out("new/out")), "--output=new/out"),
    )
    latin = Refused("--output: not UTF-8")
    yield _case(group, "--output whose name is not UTF-8", latin, b"--output=l\xe4uft")
    yield _case(
        *(group, "--output onto the input", Refused(r"in\.txt")),
        *("--input=in.txt", "--output=in.txt"),
        prepare=files({"in.txt": _PLAIN}),
    )
    older = both(files({"out": "older\n"}), lambda: None)
    full = Refused(r"out\S*: cannot be written")
    yield _case(group, "a full disk", full, "--output=out", prepare=older, file_limit=1)


def same_out(name):
    """Returns a check that a file of three lines was written."""

    def check(outcome):
        text = (outcome.folder / name).read_text("utf-8")
        return "" if text.count("\n") == 3 else f"{name} has {text.count(chr(10))} lines"

    return check


def _references():
    group = "references and scores"
    kept = {
        "fewer lines": ("one\n", "3 lines.*1|1.*3 lines"),
        "more lines": ("one\n" * 4, "4"),
        "empty": ("", "ref"),
    }
    for name, (text, pattern) in kept.items():
        start = files({"ref": text})
        yield _case(group, name, Refused(pattern), "--reference=ref", prepare=start)
    yield _case(group, "missing", Refused("nowhere"), "--reference=nowhere")
    for tokenize in ("foo", "", "13A", "ja-mecab", "ko-mecab", "flores200", "spm"):
        start = files({"ref": _PLAIN})
        flags = ("--reference=ref", f"--tokenize={tokenize}", "--output=out")
        refused = Refused("--tokenize")
        yield _case(group, f"--tokenize={tokenize}", refused, *flags, prepare=start)
    yield _case(group, "--tokenize without a reference", Refused("reference"), "--tokenize=zh")
    yield _case(group, "--lowercase without a reference", Refused("reference"), "--lowercase")
    yield _case(group, "--save_scores without a reference", Refused("reference"), "--save_scores=s")
    for name, text, pattern in (
        ("two columns, three in a line", "a\tb\nc\td\te\n", "line 2: expected source and target"),
        ("three columns, two in a line", "a\tb\tc\nd\te\n", "line 2: expected 3 columns"),
    ):
        flags = ("--input=x.tsv", "--reference=x.tsv", "--output=out")
        prepare = files({"x.tsv": text})
        yield _case(group, name, Refused(pattern), *flags, prepare=prepare)
    sgml = '<doc docid="a"><seg id="1">one</seg><seg id="2">two</seg></doc>'
    for name, text, pattern in (
        ("SGML without an end", sgml[:-20], "ref.sgm"),
        ("SGML of another document", sgml.replace('"a"', '"b"'), "only one of the two"),
        ("SGML with a segment twice", sgml.replace('"2"', '"1"'), "line 1.*appears twice"),
        ("SGML that is not SGML", "one\n", "ref.sgm: expected <seg"),
    ):
        flags = ("--input=in.sgm", "--reference=ref.sgm", "--output=out")
        prepare = files({"in.sgm": sgml, "ref.sgm": text})
        yield _case(group, name, Refused(pattern), *flags, prepare=prepare)
    for flags, pattern in (
        (("--reference=in.txt,", "--input=in.txt"), "comma"),
        (("--reference=ref", "--baseline=short"), "short has 1"),
        (("--reference=ref", "--baseline=nowhere"), "nowhere"),
        (("--reference=ref", "--metrics=bleu,foo"), "--metrics"),
        (("--reference=ref", "--metrics="), "--metrics"),
        (("--baseline=ref",), "--reference"),
        (("--input=in.txt", "--input_column=1"), "tsv"),
        (("--input_column=0",), "--input_column"),
    ):
        start = files({"in.txt": _PLAIN, "ref": _PLAIN, "short": "one\n"})
        yield _case(group, " ".join(flags), Refused(pattern), *flags, prepare=start)
    tsv = files({"both.tsv": "one dog\teins Hund\none cat\teins Katze\none\teins\n"})
    both_sides = ("--input=both.tsv", "--reference=both.tsv", "--output=out")

    def columns(outcome):
        wrong = same_out("out")(outcome)
        has_tab = "\t" in (outcome.folder / "out").read_text("utf-8")
        return wrong or ("a tab in a translation" if has_tab else "")

    yield _case(group, "both columns of a .tsv", Works(columns), *both_sides, prepare=tsv)
    same = ("--input=in.txt", "--reference=../case/in.txt", "--output=out")
    refused = Refused("in.txt")
    yield _case(group, "the input itself", refused, *same, prepare=files({"in.txt": _PLAIN}))


def _scoring():
    group = "scoring and ranking"
    odd = sandwich("\n".join(ODDITIES.values()))
    num_lines = odd.count(b"\n")
    prepare = files({"in.txt": odd, "out.txt": odd, "list": "0 ||| eins ||| -1\n"})
    source = "--input=in.txt"
    works = Works(lambda outcome: same_ends(outcome, num_lines))
    flags = (source, "--score=out.txt")
    yield _case(group, "odd lines", works, *flags, prepare=prepare, beam=False)
    one = Works(lambda outcome: "" if outcome.out.count("\n") == 1 else "not one line")
    yield _case(group, "a list of one", one, source, "--rank=list", prepare=prepare, beam=False)
    for name, flags, pattern in (
        ("--score fewer lines", ("--score=list",), f"{num_lines} lines.*1;"),
        ("--score of itself", ("--score=in.txt",), "same file"),
        ("--score missing", ("--score=nowhere",), "nowhere"),
        ("--rank plain text", ("--rank=out.txt",), r"out\.txt, line 1: expected `line"),
        ("--rank missing", ("--rank=nowhere",), "nowhere"),
        ("--rank in JSON", ("--rank=list", "--format=jsonl"), "--format"),
        ("--rank and --score", ("--rank=list", "--score=out.txt"), "--score"),
        ("--score and --n_best", ("--score=out.txt", "--n_best=1"), "--n_best"),
    ):
        refused = Refused(pattern)
        yield _case(group, name, refused, source, *flags, prepare=prepare, beam=False)
    yield _case(group, "--score without --input", Refused("--input"), "--score=x", beam=False)
    many = {"several.tsv": "a\tb\tc\n"}
    both = ("--input=several.tsv", "--score=several.tsv")
    several = Refused("expected one translation")
    yield _case(group, "three columns", several, *both, prepare=files(many), beam=False)


def _models():
    group = "models"
    for flags, pattern in (
        (("--model_dir=",), "model_dir"),
        (("--model_dir=nowhere",), "nowhere"),
        (("--model_dir=/dev/null",), "/dev/null"),
        (("--model_dir=.",), "config.json"),
        ((f"--model_dir={'x' * 300}",), "xxx"),
        (("--channel_model=../models/ibm1",), "--model_dir"),
        (("--model_dir=../models/lm",), "ngram_lm"),
        (("--language_model=../models/ibm1",), "ibm1"),
        (("--language_model=nowhere",), "nowhere"),
        (("--language_model_weight=1",), "--language_model"),
        (("--model_dir=", "--channel_model=../models/bpe"), "language_model"),
        (
            ("--model_dir=", "--channel_model=../models/bpe", "--language_model=../models/lm"),
            "IBM model",
        ),
        (("--model_dir=../models/word", "--language_model=../models/lm"), "vocabulary"),
        (("--lexicon=../models/train.source",), "--replace_unknowns"),
        (("--replace_unknowns",), "unknown|word"),
        (("one dog",), "one dog"),
    ):
        name = " ".join(flags)[:60].replace("../models/", "")
        yield _case(group, name, Refused(pattern), *flags)
    word = ("--model_dir=../models/word", "--replace_unknowns", "--lexicon=lex")
    for name, text in {
        "empty": "",
        "two columns": "one eins\n",
        "four columns": "one eins 0.5 x\n",
        "a word for a number": "one eins often\n",
        "a probability that is not finite": "one eins nan\n",
    }.items():
        yield _case(group, f"--lexicon {name}", Refused("lex"), *word, prepare=files({"lex": text}))
    locked = both(lambda: os.makedirs("locked/model"), lambda: os.chmod("locked", 0o700))
    yield _case(
        *(group, "--model_dir below a folder that may not be entered", Refused("locked")),
        *("--model_dir=locked/model",),
        prepare=locked,
        unprivileged=True,
    )
    yield _case(group, "--model_dir that is not UTF-8", Refused(r"name"), b"--model_dir=name\xff")


def _requests():
    group = "requests"
    for name in ("prefix", "required", "banned"):
        yield _case(group, f"--{name} missing", Refused("nowhere"), f"--{name}=nowhere")
        refused, prepare = Refused(r"\basked\b"), files({"asked": BROKEN["a lone byte"] + b"\n"})
        yield _case(group, f"--{name} is not UTF-8", refused, f"--{name}=asked", prepare=prepare)
    for name, text in {"empty": "", "an empty line": "Hund\n\nKatze\n"}.items():
        prepare = files({"asked": text})
        yield _case(group, f"--banned {name}", Refused("asked"), "--banned=asked", prepare=prepare)
    odd = files({"asked": "".join(f"x{text}\n" for text in ODDITIES.values() if "\n" not in text)})
    yield _case(group, "--banned odd", Works(same_ends), "--banned=asked", prepare=odd)
    for count in (1, 2, 4):  # The text has three lines.
        refused = Refused("--prefix or --required", ("out.unfinished",))
        flags = ("--prefix=asked", "--input=in.txt", "--output=out")
        prepare = files({"asked": "Hund\n" * count, "in.txt": _PLAIN})
        yield _case(group, f"--prefix of {count} lines", refused, *flags, prepare=prepare)
    for flags, pattern in (
        (("--temperature=1",), "--sample"),
        (("--sample", "--temperature=-1"), "--temperature"),
        (("--sample", "--temperature=nan"), "--temperature"),
        (("--sample", "--top_p=2"), "--top_p"),
        (("--sample", "--seed=-1"), "--seed"),
        (("--sample", "--n_best=100000"), "--n_best"),
        (("--mbr=1",), "--mbr"),
        (("--min_length_factor=9",), "--max_length_factor"),
        (("--max_length_extra=0",), "--max_length_extra"),
        (("--diversity_groups=3", "--beam_size=4"), "--diversity_groups"),
        (("--model_dir=../models/bpe,",), "model directory"),
        (("--model_dir=../models/bpe,../models/word",), "--tokenizer"),
    ):
        name = " ".join(flags).replace("../models/", "")
        yield _case(group, name, Refused(pattern), *flags, beam=False)


def _ctranslate2():
    engine, given = "--engine=ctranslate2", "--export_dir=../models/ctranslate2"

    def case(name, expected, *flags, **more):
        more.setdefault("stdin", _PLAIN)
        arguments = (engine, *(flags or (given,)))
        return Case("translate.py: ctranslate2", name, "translate", arguments, expected, **more)

    def damaged(name, pattern, change):
        return case(name, Refused(pattern), "--export_dir=model", prepare=change)

    everything = sandwich("\n".join(ODDITIES.values()))
    works = Works(lambda outcome: same_ends(outcome, len(ODDITIES) + 2))
    yield case("all odd text", works, stdin=everything)
    lines = Works(lambda outcome: same_ends(outcome, 2_002))
    many = sandwich("\n".join(inputs.hostile_lines(2_000)))
    short = (given, "--max_input_tokens=400", "--beam_size=2")
    yield case("2,000 lines", lines, *short, stdin=many, seconds=600)
    for name, text in {
        "10,000 letters without a space": "x" * 10_000,
        "3,000 words in a line": "one dog cat " * 1000,
    }.items():
        says = Works(same_ends, says="line 2|1 line")
        yield case(name, says, stdin=sandwich(text))
    nothing = Works(lambda outcome: outcome.out and "output for no input")
    yield case("nothing", nothing, stdin=b"")
    for name, data in BROKEN.items():
        yield case(name, Refused("line 2: not UTF-8"), stdin=sandwich(data))
    yield case("more hypotheses than tokens", Works(same_ends), given, "--beam_size=400")
    yield case("jsonl", Works(), given, "--format=jsonl", "--n_best=3")
    for flags, pattern in (
        (("--beam_size=1",), "--export_dir"),
        (("--export_dir=nowhere",), "nowhere"),
        (("--export_dir=/dev/null",), "/dev/null"),
        (("--export_dir=/dev/zero",), "/dev/zero"),
        (("--export_dir=../models/bpe",), "models/bpe"),
        (("--export_dir=../models/saved_model",), "models/saved_model"),
        ((given, _BPE), "--model_dir"),
        ((given, "--language_model=../models/lm"), "--language_model"),
        ((given, "--prefix=in.txt"), "--prefix"),
        ((given, "--banned=in.txt"), "in.txt"),
        ((given, "--shortlist=../models/ibm1_bpe"), "--shortlist"),
        ((given, "--sample"), "--sample"),
        ((given, "--mbr=2", "--no_repeat_ngram=2"), "--no_repeat_ngram"),
        ((given, "--max_input_tokens=100000"), "--max_input_tokens"),
        ((given, "--precision=bfloat16"), "--precision"),
        ((given, "--score=in.txt", "--input=in.txt"), "--engine|--export_dir"),
        ((given, "--beam_size=0"), "--beam_size"),
    ):
        name = " ".join(flags).replace("../models/", "")
        yield case(name, Refused(pattern), *flags)
    yield _case("ctranslate2", "--export_dir without the engine", Refused("--engine"), given)
    for name, data in {
        "empty": b"",
        "no JSON": b"{",
        "a list": b"[]",
        "a text as limit": b'{"max_input_tokens": "x", "config": {"options": {}}}',
        "brackets": b"[" * 100_000,
        "not UTF-8": b"\xff",
        "numbers of 10,000 digits": b'{"max_input_tokens": ' + b"9" * 10_000 + b"}",
    }.items():
        about = "1/export.json"
        change = functools.partial(prepared.replace, about, data, "ctranslate2")
        yield damaged(f"export.json: {name}", "model", change)
    for file in ("1/model.bin", "1/config.json", "1/shared_vocabulary.json", "1/tokenizer"):
        change = functools.partial(prepared.remove, file, "ctranslate2")
        yield damaged(f"{file} is missing", "model", change)
    for file in ("1/model.bin", "1/config.json", "1/shared_vocabulary.json", _PIECES):
        for name, data in (("cut in half", None), ("empty", b""), ("junk", b"\0\xff junk" * 99)):
            change = functools.partial(prepared.replace, file, data, "ctranslate2")
            yield damaged(f"{file}: {name}", "model", change)
    for limit in (-1, 0, 1, 2**70, True, None, 1.5):
        change = functools.partial(_edit_export, limit)
        yield damaged(f"export.json: max_input_tokens={limit}", "model", change)


_PIECES = "1/tokenizer/shared.model"


def _edit_export(limit):
    path = prepared.copy_model("ctranslate2") / "1" / "export.json"
    about = {**json.loads(path.read_text("utf-8")), "max_input_tokens": limit}
    path.write_text(json.dumps(about), encoding="utf-8")


def _streams():
    group = "streams"
    refused = Refused("standard output")
    yield _case(group, "standard output is full", refused, stdout="/dev/full")
    silent = Works(lambda outcome: "")
    yield _case(group, "standard error is full", Works(same_ends), stderr="/dev/full")
    yield _case(group, "standard error is closed", Works(same_ends), stderr="closed", fresh=True)
    for name, expected, more in (
        ("output is closed", refused, {"stdout": "closed"}),
        ("input is closed", Refused("standard input"), {"stdin": "closed"}),
    ):
        yield _case(group, f"standard {name}", expected, fresh=True, **more)
    written = ("--input=in.txt", "--output=out")
    nothing_shown = {"stdin": "closed", "stdout": "closed", "stderr": "closed"}
    yield _case(
        *(group, "all three are closed, files are given", Works(same_ends), *written),
        prepare=files({"in.txt": _PLAIN}),
        fresh=True,
        **nothing_shown,
    )
    scored = (*written, "--reference=ref")
    yield _case(
        *(
            group,
            "scores for an output that is full",
            Refused("standard output", ("out",)),
            *scored,
        ),
        prepare=files({"in.txt": _PLAIN, "ref": "eins Hund\neins Katze\neins\n"}),
        stdout="/dev/full",
    )
    gone = Ends(1, lambda outcome: outcome.err and f"says {outcome.err[:100]!r}")
    yield _case(group, "the reader has gone", gone, stdout="broken")
    yield _case(group, "the reader of standard error has gone", silent, stderr="broken")
    yield _case(
        *(group, "standard input cannot be read", Refused("standard input")),
        stdin="/proc/self/mem",
    )


def _signals():
    group = "signals"
    short = Ends(130, lambda outcome: "" if len(outcome.err) < 200 else "a page of text")
    for seconds in (0.05, 0.5, 1.5, 3.0):
        yield _case(
            *(group, f"Ctrl-C after {seconds} s", short, "--input=in.txt", "--output=out"),
            prepare=_long_text,
            signal=(signal.SIGINT, seconds),
            fresh=True,
        )
    yield _case(
        *(group, "Ctrl-C while translating", short, "--input=in.txt", "--output=out"),
        prepare=_long_text,
        signal=(signal.SIGINT, 3.0),
    )


def _long_text():
    Path("in.txt").write_text("one big dog sees a small cat\n" * 100_000)
