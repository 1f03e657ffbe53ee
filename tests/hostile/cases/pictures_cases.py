"""Hostile sentences, texts, links, names and layers for visualize_attention.py and align.py."""

import functools
import json
import os
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np

from tests.hostile.case import Case, Refused, Works
from tests.hostile.inputs import BROKEN, ODDITIES, both, files
from tests.hostile.prepared import copy_model

_BPE = "--model_dir=../models/bpe"
_IBM1 = "--model_dir=../models/ibm1"
_TEXT = ("--source=../models/valid.source", "--target=../models/valid.target")


def cases():
    """Yields `Case`s."""
    yield from _sentences()
    yield from _names()
    yield from _choices()
    yield from _alignments()
    yield from _link_files()
    yield from _embeddings_and_curves()
    yield from _heads()


def _case(group, name, expected, *arguments, script="visualize_attention", **more):
    return Case(f"{script}.py: {group}", name, script, arguments, expected, **more)


_align = functools.partial(_case, script="align")


def _drawn(name):
    """Returns a check that a picture exists and is complete."""

    def check(outcome):
        path = outcome.folder / name
        if not path.exists():
            return f"no {name}"
        data = path.read_bytes()
        if name.endswith(".svg"):
            try:
                ElementTree.fromstring(data)
            except ElementTree.ParseError as error:
                return f"{name} is not well-formed: {error}"
            return ""
        start = {".png": b"\x89PNG", ".pdf": b"%PDF", ".html": b"<!doctype html>"}[path.suffix]
        return "" if data.startswith(start) else f"{name} begins with {data[:8]!r}"

    return check


def _read_back(name):
    """Returns a check that a file of numbers can be read, with a map of every kind."""

    def check(outcome):
        path = outcome.folder / name
        if path.suffix == ".npz":
            with np.load(path) as arrays:
                found = {name: arrays[name] for name in arrays.files}
        else:
            entries = json.loads(path.read_text("utf-8"))
            found = {**entries, **entries["maps"]}
        shape = [len(found[f"{side}_tokens"]) for side in ("target", "source")]
        return "" if list(np.shape(found["decoder/0/cross"])[1:]) == shape else f"not {shape}"

    return check


def _sentences():
    group = "sentences"
    flags = (_BPE, "--output=x.svg", "--head=mean", "--layer=1")
    for name in (
        *("control characters", "markup", "mathematics", "right to left", "emoji with joiners"),
        *("combining marks", "Chinese and Japanese", "Devanagari and Thai", "end of sentence"),
        *("line separators", "other planes", "noncharacters", "format", "code", "tab"),
    ):
        for side in ("source", "target"):
            sides = {"source": "one dog", "target": "eins Hund", side: ODDITIES[name]}
            texts = [f"--{s}={text}" for s, text in sides.items()]
            yield _case(group, f"{name}, --{side}", Works(_drawn("x.svg")), *flags, *texts)
    for side in ("source", "target"):
        odd = {"source": "one dog", "target": "eins Hund", side: ODDITIES["right to left"]}
        texts = [f"--{s}={text}" for s, text in odd.items()]
        for name in ("x.json", "x.npz"):
            flags_of_numbers = (_BPE, f"--output={name}", *texts)
            yield _case(group, f"{name}, --{side}", Works(_read_back(name)), *flags_of_numbers)
    page = (_BPE, "--output=x.html", "--target=eins Hund", "--beam_size=1")
    for name in ("control characters", "markup", "right to left", "noncharacters", "code"):
        text = f"--source={ODDITIES[name]}"
        yield _case(group, f"{name}, page", Works(_drawn("x.html")), *page, text)
    yield _case(
        *(group, "60 words", Works(_drawn("x.png")), _BPE, "--output=x.png", "--merge_subwords"),
        *(f"--source={'one dog ' * 30}", f"--target={'eins Hund ' * 30}", "--head=1", "--layer=1"),
    )
    refused = Refused("--source")
    for name, text in {"empty": "", "blank": "  ", "10,000 words": "one dog " * 5000}.items():
        yield _case(group, f"--source {name}", refused, *flags, f"--source={text}")
    for name in ("Latin-1", "a lone byte", "a surrogate"):
        for side in ("source", "target"):
            text = f"--{side}=".encode() + BROKEN[name]
            given = ("--source=one dog",) if side == "target" else ()
            refused = Refused(f"--{side}.*UTF-8")
            yield _case(group, f"{name}, --{side}", refused, *flags, *given, text)
    unknown = ("--model_dir=../models/word", "--source=qqq zzz")
    yield _case(group, "no known word", Refused("--source"), *unknown)


def _names():
    group = "names of pictures"
    for name, prepare in {
        "x": None,
        "x.gif": None,
        "x.png.txt": None,
        "": None,
        ".png": None,
        "folder.png": lambda: os.mkdir("folder.png"),
        "file/x.png": files({"file": "x"}),
        "newdir.png/": None,
        f"{'x' * 300}.png": None,
        "/dev/full": None,
        "/proc/x.png": None,
    }.items():
        for flag, more in (
            ("output", (_BPE, "--source=one dog")),
            ("curves", (_BPE,)),
            ("embeddings", ("--model_dir=../models/word",)),
        ):
            if flag != "output" and name in ("", "x.png.txt", ".png", "newdir.png/"):
                continue
            pattern = f"--{flag}" if name == "" else name[:40].replace(".", r"\.")
            expected = Refused(pattern)
            if name == ".png":
                expected = Works(_drawn(".png")) if Path(".png").suffix else Refused(r"\.png")
            arguments = (*more, f"--{flag}={name}")
            shown = name if len(name) < 40 else "300 characters"
            full_name = f"--{flag}={shown}"
            yield _case(group, full_name, expected, *arguments, prepare=prepare)
    for name in ("x.png", "x.npz", "x.json"):
        flags = (_BPE, "--source=one dog", f"--output={name}")
        full = Refused(f"{name}: cannot be written")
        yield _case(group, f"a full disk, {name}", full, *flags, file_limit=1)


def _choices():
    group = "layers, heads and links"
    drawing = (_BPE, "--source=one dog", "--target=eins Hund", "--output=x.png")
    for flags, pattern in (
        (("--layer=9",), "--layer"),
        (("--layer=0",), "--layer"),
        (("--head=9",), "--head"),
        (("--head=0",), "--head"),
        (("--head=first",), "--head"),
        (("--head=-1",), "--head"),
        (("--head=1.5",), "--head"),
        ((f"--head={'9' * 30}",), "--head"),
        (("--head=²",), "--head"),
        (("--gold_links=0-0", "--attention=encoder"), "--gold_links"),
        (("--gold_links=0-0", "--target="), "--gold_links"),
        *(
            ((f"--gold_links={links}",), "--gold_links")
            for links in (
                "0",
                "a-b",
                "0-9",
                "-1-0",
                "0--0",
                "0_0",
                "0-0 x",
                "99999999999-0",
                "0-0,",
            )
        ),
        (("--output=x.npz", "--layer=1"), "--layer"),
        (("--output=x.json", "--attention=cross"), "--attention"),
        (("--symmetrise=union",), "symmetrise"),
        (("--threshold=0.5",), "threshold"),
        (("--model_dir=../models/word",), "model_dir"),
        (("one dog",), "one dog"),
    ):
        yield _case(group, " ".join(flags), Refused(pattern), *drawing, *flags)
    for model, pattern in (
        (("--model_dir=../models/ibm1",), "attention|cross"),
        (("--model_dir=../models/word", "--attention=encoder"), "encoder"),
        (("--model_dir=../models/lm",), "ngram_lm"),
        (("--model_dir=",), "model directory"),
        ((), "model_dir"),
        (("--model_dir=nowhere",), "nowhere"),
    ):
        arguments = (*model, "--source=one dog", "--output=x.png")
        expected = Refused(pattern)
        if model == ("--model_dir=../models/ibm1",):
            expected = Works(_drawn("x.png"))  # The picture shows its posterior.
        yield _case(group, " ".join(model) or "no model", expected, *arguments)
    yield _case(group, "nothing is asked for", Refused("--source"), _BPE)
    yield _case(group, "two things are asked for", Refused("exclude"), *drawing, "--curves=x.png")


def _alignments():
    group = "texts to align"
    out = "--alignments=out"
    for name, (changed, pattern) in {
        "unequal numbers of lines": ({"a": "one\n"}, r"\ba\b"),
        "Latin-1": ({"a": b"one dog\nl\xe4uft\n"}, "a, line 2: not UTF-8"),
        "both empty": ({"a": "", "b": ""}, r"\ba\b"),
    }.items():
        start = files({"a": "one dog\none\n", "b": "eins Hund\neins\n", **changed})
        flags = (_IBM1, "--source=a", "--target=b", out)
        yield _align(group, name, Refused(pattern), *flags, prepare=start)
    joined = {
        "no bars": "one dog ||| eins Hund\none dog\n",
        "too many bars": "one dog ||| eins Hund\none ||| eins ||| Hund\n",
    }
    for name, text in joined.items():
        flags = (_IBM1, "--source=a", out)
        yield _align(group, name, Refused("a, line 2"), *flags, prepare=files({"a": text}))
    odd = "".join(f"{text}\n" for text in ODDITIES.values())

    def as_many(outcome):
        count = (outcome.folder / "out").read_text("utf-8").count("\n")
        return "" if count == len(ODDITIES) + 1 else f"{count} lines of {len(ODDITIES) + 1}"

    for model in ("ibm1", "bpe", "word"):
        flags = (f"--model_dir=../models/{model}", "--source=a", "--target=b", out)
        start = files({"a": f"one dog\n{odd}", "b": f"eins Hund\n{odd}"})
        yield _align(group, f"all odd text, {model}", Works(as_many), *flags, prepare=start)
    for flags, pattern in (
        ((_IBM1, *_TEXT), "--alignments"),
        ((_IBM1, out, "--target=x", "--source="), "--target|--source"),
        ((_IBM1, *_TEXT, out, "--symmetrise=union"), "--symmetrise"),
        ((_IBM1, *_TEXT, out, "--reverse_model_dir=../models/ibm1_reverse"), "--symmetrise"),
        ((_IBM1, *_TEXT, out, "--reverse_model_dir=nowhere", "--symmetrise=union"), "nowhere"),
        ((_IBM1, *_TEXT, out, "--layer=2"), "layer"),
        ((_IBM1, *_TEXT, out, "--save_scores=s"), "--gold"),
        ((_IBM1, *_TEXT, out, "--gold_base=1"), "--gold"),
        ((_IBM1, *_TEXT, "--alignments=/dev/full"), "/dev/full"),
        ((_IBM1, *_TEXT, "--alignments=newdir/"), "newdir"),
        ((_IBM1, *_TEXT, out, "--source=/dev/zero"), "/dev/zero"),
        ((_BPE, *_TEXT, out, "--layer=7"), "layer"),
        ((_BPE, *_TEXT, out, "--head=7"), "head"),
        ((_BPE, "--lexicon=lex"), "bpe|table"),
        (("--model_dir=../models/lm", *_TEXT, out), "ngram_lm"),
    ):
        name = " ".join(f for f in flags if f not in _TEXT).replace("../models/", "")
        yield _align(group, name, Refused(pattern), *flags)


def _link_files():
    group = "files of links"
    bad = {
        "a word": "0-0\nfoo\n",
        "no target": "0-0\n1-\n",
        "negative": "0-0\n-1-0\n",
        "a position of 20 digits": f"0-0\n{'9' * 20}-0\n",
        "full-width digits": "0-0\n１-０\n",
        "Latin-1": b"0-0\n\xe4\n",
    }
    for name, text in bad.items():
        for flag in ("from_alignments", "gold"):
            given = (
                ("--from_alignments=bad", "--alignments=out")
                if flag == "from_alignments"
                else ("--from_alignments=good", "--gold=bad")
            )
            start = files({"bad": text, "good": "0-0\n0-0\n"})
            yield _align(group, f"{name}, --{flag}", Refused("bad, line 2"), *given, prepare=start)
    for name, flags, pattern in (
        ("fewer lines in the gold", ("--from_alignments=a,a", "--gold=b"), r"\b[ab]\b"),
        ("two of unequal length", ("--from_alignments=a,b", "--alignments=out"), r"\b[ab]\b"),
        ("three", ("--from_alignments=a,a,a", "--alignments=out"), "--from_alignments"),
        ("missing", ("--from_alignments=nowhere", "--alignments=out"), "nowhere"),
        ("missing gold", ("--from_alignments=a", "--gold=nowhere"), "nowhere"),
        ("an empty name", ("--from_alignments=a,", "--alignments=out"), "--from_alignments"),
        ("positions from 1", ("--from_alignments=a", "--gold=a", "--gold_base=1"), "a, line 1"),
        ("--symmetrise=agree", ("--from_alignments=a,a", "--symmetrise=agree"), "agree"),
    ):
        symmetrise = ("--symmetrise=union",) if "," in flags[0] and "agree" not in name else ()
        start = files({"a": "0-0\n0-0\n", "b": "0-0\n"})
        yield _align(group, name, Refused(pattern), *symmetrise, *flags, prepare=start)


def _embeddings_and_curves():
    group = "embeddings and curves"
    for model in ("bpe", "word", "lm"):
        flags = (f"--model_dir=../models/{model}", "--embeddings=x.png")
        yield _case(group, f"embeddings of {model}", Refused(rf"models/{model}"), *flags)
    many = (_BPE, "--embeddings=x.png", "--num_words=1")
    yield _case(group, "one word", Refused("--num_words"), *many)
    yield _case(group, "curves without a model", Refused("model_dir"), "--curves=x.png")
    names = both(*(lambda n=n: copy_model("bpe", n) for n in ("$x_1$", "a<b>&amp;", "日本")))
    flags = ("--model_dir=$x_1$", "--model_dir=a<b>&amp;", "--model_dir=日本", "--curves=x.svg")
    yield _case(group, "curves of odd names", Works(_drawn("x.svg")), *flags, prepare=names)


def _heads():
    group = "summaries of heads"
    odd = "".join(f"{text}\n" for text in ODDITIES.values())
    count = odd.count("\n")
    text = ("--input=a", "--target_input=b")
    drawing = ("--heads=x.svg", *text)
    for model in ("bpe", "word", "ibm1"):
        start = files(
            {"a": f"one dog\n{odd}", "b": f"eins Hund\n{odd}", "g": "0-0\n" + "\n" * count}
        )
        for flags in (("--gold=g",), (_IBM1.replace("model_dir", "links_from"),)):
            given = (f"--model_dir=../models/{model}", *drawing, *flags)
            name = f"all odd text, {model}, {flags[0].split('=')[0]}"
            yield _case(group, name, Works(_drawn("x.svg")), *given, prepare=start)
    for name, changed, flags, pattern in (
        ("no input", {}, ("--input=",), "--input"),
        ("no target", {}, ("--target_input=",), "--target_input"),
        ("a missing text", {}, ("--input=nowhere",), "nowhere"),
        ("an empty text", {"a": ""}, (), "a: empty"),
        ("texts of unequal length", {"a": "one dog\n"}, (), r"\ba\b"),
        ("every pair with an empty side", {"a": "\none\n", "b": "eins\n\n"}, (), "a and b"),
        ("Latin-1", {"a": b"one\n\xe4\n"}, (), "a, line 2.*UTF-8"),
        ("gold of another length", {"g": "0-0\n"}, ("--gold=g",), "g: 1 lines"),
        ("gold outside", {"g": "0-0\n7-7\n"}, ("--gold=g",), "g, line 2"),
        ("gold and a model", {}, ("--gold=g", "--links_from=x"), "--links_from"),
        ("no model of links", {}, ("--links_from=nowhere",), "nowhere"),
        ("links of a language model", {}, ("--links_from=../models/lm",), "ngram_lm"),
        ("no such model", {}, ("--model_dir=nowhere",), "model_dir"),
        ("--gold_base", {}, ("--gold_base=1",), "--gold"),
        ("--layer", {}, ("--layer=1",), "--layer"),
        ("a name that is no picture", {}, ("--heads=x.txt",), "x.txt"),
        ("scores to a device", {}, ("--save_scores=/dev/full",), "/dev/full"),
        ("a line of 20,000 words", {"a": "one\n" + "dog " * 20_000}, (), "line 2"),
    ):
        start = files({"a": "one dog\none\n", "b": "eins Hund\neins\n", **changed})
        yield _case(group, name, Refused(pattern), _BPE, *drawing, *flags, prepare=start)
    for name in ("bpe", "lm"):
        flags = (f"--model_dir=../models/{name}", *drawing)
        start = files({"a": "one dog\n", "b": "eins Hund\n"})
        expected = Refused("has no attention|ngram_lm") if name == "lm" else Works(_drawn("x.svg"))
        yield _case(group, f"a pair, {name}", expected, *flags, prepare=start)
