"""Hostile corpora for train.py."""

import os

from tests.hostile.case import Case, Refused, Works
from tests.hostile.inputs import BROKEN, ODDITIES, UTF16, both, fifo, files
from tests.hostile.prepared import quick

MADE = ("data", "run")  # Folders that a run may leave if it is refused after it has begun.
SOURCE = "one dog\none cat\ntwo dog\nthree cat\nsees one dog\n" * 4
TARGET = "eins Hund\neins Katze\nzwei Hund\ndrei Katze\nsieht eins Hund\n" * 4


def cases():
    """Yields `Case`s."""
    yield from _corpora()
    yield from _same_file_on_both_sides()
    yield from _mixtures()


def train_case(group, name, expected, *arguments, preset="ibm1", **more):
    arguments = quick(preset, *arguments)
    return Case(f"train.py: {group}", name, "train", arguments, expected, **more)


def trained(outcome):
    """Describes what is missing from a finished run, or returns ""."""
    names = ("config.json", "best.npz", "metrics.jsonl", "tokenizer")
    missing = [name for name in names if not (outcome.folder / "run" / name).exists()]
    return f"no {', '.join(missing)}" if missing else _not_json(outcome)


def _not_json(outcome):
    text = (outcome.folder / "run" / "metrics.jsonl").read_text("utf-8")
    return "NaN in metrics.jsonl" if "NaN" in text or "Infinity" in text else ""


def _corpora():
    group, own = "corpora", ("--train_source=a", "--train_target=b")
    text = {"a": SOURCE, "b": TARGET}
    for name, (changed, pattern) in {
        "unequal numbers of lines": ({"b": TARGET + "mehr\n"}, "20 lines.*21"),
        "an empty side": ({"a": ""}, r"\ba: empty"),
        "all lines blank": ({"a": " \n" * 20, "b": "\t\n" * 20}, "no word|empty|blank"),
        "UTF-16": ({"a": UTF16 * 10, "b": TARGET + "eins\n"}, "a, line 1: not UTF-8"),
        "gzip": ({"a": b"\x1f\x8b\x08\x00" + b"\n\x80" * 20}, r"a: .*gzip"),
        "all lines too long": ({"a": "one " * 300 + "\n", "b": "eins " * 300 + "\n"}, "max_length"),
        "all lengths too far apart": ({"a": "one\n", "b": "eins " * 50 + "\n"}, "max_length_ratio"),
    }.items():
        start = files({**text, **changed})
        yield train_case(group, name, Refused(pattern, MADE), *own, prepare=start)
    for flag in ("train_target", "valid_source"):
        for name, data in BROKEN.items():
            start = files({"bad": SOURCE.encode() + data + b"\n" + SOURCE.encode()})
            other = flag.replace("target", "source") if "target" in flag else "valid_target"
            arguments = (f"--{flag}=bad", f"--{other}=good")
            start = both(start, files({"good": SOURCE + "one\n" + SOURCE}))
            refused = Refused(r"bad, line 21: not UTF-8", ("data",))
            yield train_case(group, f"--{flag} with {name}", refused, *arguments, prepare=start)
    for flag in ("train_source", "valid_target"):
        for name, (path, prepare) in {
            "missing": ("nowhere", None),
            "a folder": ("folder", lambda: os.mkdir("folder")),
            "a pipe": ("pipe", fifo("pipe")),
            "a device without an end": ("/dev/zero", None),
            "a device without room": ("/dev/full", None),
            "a link to itself": ("loop", lambda: os.symlink("loop", "loop")),
        }.items():
            refused = Refused(path, ("data",))
            yield train_case(
                group, f"--{flag} {name}", refused, f"--{flag}={path}", prepare=prepare
            )
    yield from _odd_text(group, own, text)


def _odd_text(group, own, text):
    odd = "".join(f"{line}\n" for line in ODDITIES.values())
    many = {
        "all odd text": {"a": SOURCE + odd, "b": TARGET + odd},
        "one pair": {"a": "one\n", "b": "eins\n"},
        "a line of 1 MB": {"a": SOURCE + "one " * 250_000 + "\n", "b": TARGET + "eins\n"},
        "a byte order mark": {"a": "\ufeff" + SOURCE},
        "line ends of Windows": {"a": SOURCE.replace("\n", "\r\n")},
        "no line feed at the end": {"a": SOURCE.rstrip("\n")},
        "the same pair 100 times": {"a": "one dog\n" * 100, "b": "eins Hund\n" * 100},
    }
    for name, changed in many.items():
        yield train_case(group, name, Works(trained), *own, prepare=files({**text, **changed}))
    start = files({"a": SOURCE + odd, "b": TARGET + odd})
    for preset, tokenizer in (("transformer_tiny", "bpe"), ("lstm_luong", "word")):
        flags = (*own, f"--tokenizer={tokenizer}", "--vocab_size=500")
        name = f"all odd text, {preset} of {tokenizer}"
        yield train_case(group, name, Works(trained), *flags, preset=preset, prepare=start)


def _same_file_on_both_sides():
    group = "one file for two sides"
    tsv = "".join(f"{s}\t{t}\n" for s, t in zip(SOURCE.split("\n"), TARGET.split("\n")) if s)  # noqa: B905
    start = files({"a": SOURCE, "ok.tsv": tsv, "OK.TSV": tsv, "b": TARGET})

    def columns(outcome):
        words = (outcome.folder / "run/tokenizer/source.vocab").read_text("utf-8")
        return trained(outcome) or ("target words in the source" if "Hund" in words else "")

    for name, source, target in (
        ("a .tsv", "ok.tsv", "ok.tsv"),
        ("a .TSV", "OK.TSV", "OK.TSV"),
        ("two spellings of a .tsv", "ok.tsv", "../case/./ok.tsv"),
    ):
        sides = (f"--train_source={source}", f"--train_target={target}")
        yield train_case(group, name, Works(columns), *sides, prepare=start)
    for name, source, target in (
        ("the same file", "a", "a"),
        ("two spellings", "a", "../case/a"),
        ("a link", "a", "link"),
        ("a hard link", "a", "hard"),
        ("a .tsv for the source", "ok.tsv", "b"),
        ("a .tsv for the target", "a", "ok.tsv"),
    ):
        sides = (f"--train_source={source}", f"--train_target={target}")
        refused = Refused(rf"\b{source}\b", ("data",))
        links = both(start, lambda: os.symlink("a", "link"), lambda: os.link("a", "hard"))
        yield train_case(group, name, refused, *sides, prepare=links)
    for tabs, line in ((0, "one dog eins Hund"), (2, "one\tdog\teins Hund")):
        bad = files({"bad.tsv": tsv + line + "\n" + tsv})
        sides = ("--train_source=bad.tsv", "--train_target=bad.tsv")
        refused = Refused(r"bad\.tsv, line 21: .*tab", ("data",))
        yield train_case(group, f"a .tsv with {tabs} tabs in a line", refused, *sides, prepare=bad)


def _mixtures():
    group = "mixtures of corpora"
    both_sides = ("--train_source=a,a2", "--train_target=b,b2")
    start = files({"a": SOURCE, "a2": SOURCE, "b": TARGET, "b2": TARGET})
    for weights in ("inf,1", "nan,1", "0,0", "-1,1", "1", "1,2,3", "many,1", ",", "1e400,1", ""):
        refused = Refused("--corpus_weights", ("data",))
        if weights == "":
            refused = Works(trained)
        flags = (*both_sides, f"--corpus_weights={weights}")
        more = {"preset": "ibm1_factored", "prepare": start}
        yield train_case(group, f"--corpus_weights={weights}", refused, *flags, **more)
    for sides in (("a,", "b,"), (",a", ",b"), ("a,a2", "b"), ("a", "b,b2"), ("a,nowhere", "b,b2")):
        flags = (f"--train_source={sides[0]}", f"--train_target={sides[1]}")
        refused = Refused("comma|source|nowhere", ("data",))
        yield train_case(group, " and ".join(sides), refused, *flags, prepare=start)
