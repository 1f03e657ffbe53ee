"""Hostile folders for export.py, and hostile requests to exported models."""

import functools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

from nmt_zoo.common.errors import UserError
from tests.hostile.case import Case, Ends, Refused, Works
from tests.hostile.inputs import BROKEN, ODDITIES, PLAIN, both, files, sandwich
from tests.hostile.prepared import HAS_CTRANSLATE2, copy_model
from tests.scripts.running import ROOT

_VOCAB_SIZE = 300
_MODEL = "--model_dir=../models/bpe"


def cases():
    """Yields `Case`s."""
    yield from _exports()
    if HAS_CTRANSLATE2:
        yield from _ctranslate2()
    yield from _texts()
    yield from _ids()
    yield from _attention()
    yield from _options()


def _export(name, expected, *flags, **more):
    return Case("export.py", name, "export", (_MODEL, *flags), expected, **more)


def _versions(*expected):
    """Returns a check that the folder holds exactly these versions, all complete."""

    def check(outcome):
        folder = outcome.folder / "out"
        beside = {"README.md", "batching.config", "models.config"}
        found = sorted({path.name for path in folder.iterdir()} - beside)
        if found != sorted(expected):
            return f"out holds {', '.join(found)}, expected {', '.join(sorted(expected))}"
        for name in expected:
            inside = sorted(path.name for path in (folder / name).iterdir())
            if inside != [
                *("assets", "assets.extra", "fingerprint.pb", "saved_model.pb", "variables")
            ]:
                return f"out/{name} holds {', '.join(inside)}"
            if any((folder / name / "assets").iterdir()):
                return f"out/{name}/assets is not empty"
            if len(list((folder / name / "variables").iterdir())) != 2:
                return f"out/{name}/variables has files of another export"
        return ""

    return check


def _left_by_a_killed_export():
    for folder in ("out/.unfinished-1/assets", "out/.unfinished-1/variables"):
        os.makedirs(folder)
    Path("out/.unfinished-1/assets/junk").write_text("junk")
    Path("out/.unfinished-1/variables/variables.data-00001-of-00002").write_text("junk")


def two_exports(folder):
    """Exports the same model twice at the same time."""
    command = [sys.executable, str(ROOT / "export.py"), _MODEL, f"--export_dir={folder}"]
    started = [
        subprocess.Popen([*command, f"--beam_size={size}"], stderr=subprocess.PIPE, text=True)
        for size in (1, 2)
    ]
    errors = [process.communicate()[1] for process in started]
    refused = [text for text in errors if text]
    if all(process.returncode == 0 for process in started):
        return 0
    if len(refused) > 1 or "another export" not in refused[0]:
        raise UserError(f"two exports: {refused}")
    return 0


def _one_or_two(outcome):
    found = [name for name in ("1", "2") if (outcome.folder / "out" / name).exists()]
    return _versions(*found)(outcome) if found else "no version"


def _exports():
    out = "--export_dir=out"
    for name, (path, prepare) in {
        "a file": ("out", files({"out": "x"})),
        "below a file": ("out/x", files({"out": "x"})),
        "a device": ("/dev/null", None),
        "below /proc": ("/proc/out", None),
        "300 characters": ("x" * 300, None),
        "a link to itself": ("out", lambda: os.symlink("out", "out")),
    }.items():
        flag, pattern = f"--export_dir={path}", path[:40]
        yield _export(f"--export_dir: {name}", Refused(pattern), flag, prepare=prepare)
    yield _export("--export_dir: no name", Refused("export_dir"), "--export_dir=")
    locked = both(lambda: os.mkdir("locked"), lambda: os.chmod("locked", 0o700))
    yield _export(
        *("--export_dir: below a folder that may not be entered", Refused("locked")),
        "--export_dir=locked/out",
        prepare=locked,
        unprivileged=True,
    )
    for flag, pattern in (
        ("--model_dir=nowhere", "nowhere"),
        ("--model_dir=", "model_dir"),
        ("--model_dir=../models/lm", "ngram_lm"),
        ("--check_input=nowhere", "nowhere"),
        ("--check_input=/dev/zero", "/dev/zero"),
        ("one dog", "one dog"),
    ):
        yield _export(flag, Refused(pattern), out, flag)
    for name, data in {"Latin-1": BROKEN["Latin-1"], "empty": b""}.items():
        text = sandwich(data) if data else b""
        flags = (out, "--check_input=in.txt")
        yield _export(
            f"--check_input: {name}", Refused(r"in\.txt"), *flags, prepare=files({"in.txt": text})
        )
    odd = files({"in.txt": sandwich("\n".join(ODDITIES.values()))})
    everything = (out, "--beam_size=2", "--check_input=in.txt")
    yield _export(
        "all odd text as translate.py has it", Works(_versions("1")), *everything, prepare=odd
    )
    left = _left_by_a_killed_export
    yield _export(
        "after a killed export", Works(_ours_is_whole), out, "--beam_size=1", prepare=left
    )
    yield Case("export.py", "two at once", two_exports, ("out",), Works(_one_or_two))
    yield _export("a full disk", Refused("out"), out, file_limit=3000)
    short = Ends(130, lambda outcome: "" if outcome.err.count("\n") <= 1 else "a page of text")
    yield _export("Ctrl-C after 3 s", short, out, signal=(signal.SIGINT, 3.0))


def _ours_is_whole(outcome):
    junk = [path.name for path in (outcome.folder / "out" / "1").rglob("*") if "junk" in path.name]
    variables = list((outcome.folder / "out" / "1" / "variables").iterdir())
    return f"published {junk} and {len(variables)} files" if junk or len(variables) != 2 else ""


def _ctranslate2():
    def case(name, expected, *flags, **more):
        flags = ("--format=ctranslate2", "--export_dir=out", *flags)
        return _export(f"ctranslate2: {name}", expected, *flags, **more)

    def whole(outcome, versions=("1",)):
        folder = outcome.folder / "out"
        if (found := sorted(path.name for path in folder.iterdir())) != list(versions):
            return f"out holds {', '.join(found)}"
        files = {path.name for path in (folder / versions[-1]).iterdir()}
        missing = {"model.bin", "config.json", "export.json", "tokenizer"} - files
        return f"without {', '.join(missing)}" if missing else ""

    for model, pattern in (
        ("word", "RecurrentTranslationModel"),
        ("ibm1", "AlignmentModel"),
        ("bpe,../models/bpe", "Ensemble"),
        ("lm", "ngram_lm"),
    ):
        yield case(model, Refused(pattern), f"--model_dir=../models/{model}")
    odd = files({"in.txt": sandwich("\n".join(ODDITIES.values()))})
    yield case("all odd text", Works(whole), "--check_input=in.txt", prepare=odd)
    for kind in ("int8", "bfloat16"):
        yield case(kind, Works(whole), f"--quantization={kind}")
    yield case("int4", Refused("--quantization"), "--quantization=int4")
    yield case("after a killed export", Works(whole), prepare=_left_by_a_killed_export)
    yield case("a full disk", Refused("out"), file_limit=3000)
    yield case("Ctrl-C after 1 s", Ends(130, lambda outcome: ""), signal=(signal.SIGINT, 1.0))
    saved = functools.partial(copy_model, "saved_model", "out")
    yield case("into a folder of SavedModels", Refused("another format"), prepare=saved)
    yield _export(
        *("savedmodel: into a folder for CTranslate2", Refused("another format")),
        "--export_dir=out",
        prepare=functools.partial(copy_model, "ctranslate2", "out"),
    )
    yield _export(
        "--quantization alone", Refused("format"), "--export_dir=o", "--quantization=int8"
    )


def request(signature, given):
    """Calls a signature of the SavedModel in a session, as a server does; prints the answer."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        loaded = tf.compat.v1.saved_model.load(session, ["serve"], "../models/saved_model/1")
        endpoint = loaded.signature_def[signature]
        names = sorted(endpoint.outputs)
        try:
            found = session.run(
                [endpoint.outputs[name].name for name in names],
                {endpoint.inputs[name].name: value for name, value in given.items()},
            )
        except tf.errors.OpError as error:
            raise UserError(" ".join(error.message.split())[:500]) from None
    answer = {name: value.tolist() for name, value in zip(names, found, strict=True)}
    print(json.dumps(answer, default=lambda data: data.decode("utf-8", "replace")))


def _request(group, name, expected, signature, **given):
    group = f"SavedModel: {group}"
    return Case(group, name, request, (signature, given), expected)


def _rows(count, *, same=()):
    """Returns a check that an answer has `count` rows, and equal translations in rows `same`."""

    def check(outcome):
        answer = json.loads(outcome.out)
        sizes = {name: len(value) for name, value in answer.items()}
        if set(sizes.values()) != {count}:
            return f"rows: {sizes}, expected {count}"
        for first, second in (same,) if same else ():
            if answer["translation"][first] != answer["translation"][second]:
                return "a plain line is translated in two ways"
        return ""

    return check


def _strings(*lines):
    data = [line.encode("utf-8") if isinstance(line, str) else line for line in lines]
    return np.array(data, dtype=object)


def _texts():
    def ask(name, expected, *lines):
        return _request("text", name, expected, "serving_default", text=_strings(*lines))

    odd = list(ODDITIES.values())
    yield ask("no lines", Works(_rows(0)))
    yield ask("an empty line", Works(_rows(1)), "")
    yield ask("only empty lines", Works(_rows(3)), "", "", "")
    alike = _rows(len(odd) + 2, same=(0, len(odd) + 1))
    yield ask("all odd text", Works(alike), PLAIN, *odd, PLAIN)
    for name in ("NUL", "end of sentence", "byte piece", "line separators", "control characters"):
        yield ask(name, Works(_rows(3, same=(0, 2))), PLAIN, ODDITIES[name], PLAIN)
    yield ask("a line feed", Works(_rows(3, same=(0, 2))), PLAIN, "one\ndog", PLAIN)
    for name, data in BROKEN.items():
        yield ask(name, Works(_rows(3, same=(0, 2))), PLAIN, data, PLAIN)
    for name, text in {
        "40 kB of emoji": "😀" * 10_000,
        "10,000 letters without a space": "x" * 10_000,
        "5,000 words": "one dog " * 2500,
    }.items():
        yield ask(name, Refused(r"text\[1\]"), PLAIN, text, PLAIN)
    words = ("one dog " * 60, *[PLAIN] * 7)
    yield ask("a line of 120 words among short ones", Works(_rows(8, same=(1, 7))), *words)


def _ids():
    def ask(name, expected, ids, lengths):
        given = {
            "source_ids": np.array(ids, np.int32).reshape(len(ids), len(ids[0]) if ids else 3),
            "source_lengths": np.array(lengths, np.int32),
        }
        return _request("ids", name, expected, "translate_ids", **given)

    row = [20, 30, 2]
    yield ask("no rows", Works(_rows(0)), [], [])
    yield ask("a row without ids", Works(_rows(1)), [[]], [0])
    yield ask("length 0", Works(_rows(1)), [row], [0])
    yield ask("only padding", Works(_rows(1)), [[0, 0, 0]], [3])
    yield ask("special ids", Works(_rows(1)), [[1, 2, 3]], [3])
    yield ask("strange ids behind the length", Works(_rows(1)), [[20, 2, -7]], [2])
    for name, strange in {
        "a negative id": -1,
        "the first id that is none": _VOCAB_SIZE,
        "the largest int32": 2**31 - 1,
        "the smallest int32": -(2**31),
    }.items():
        yield ask(name, Refused("source_ids"), [row, [20, strange, 2]], [3, 3])
    for name, lengths in {
        "a negative length": [-1, 3],
        "a length beyond the row": [3, 4],
        "one length for two rows": [3],
        "three lengths for two rows": [3, 3, 3],
        "no length for two rows": [],
    }.items():
        yield ask(name, Refused("source_lengths"), [row, row], lengths)
    yield ask("two lengths for one row", Refused("source_lengths"), [row], [3, 3])
    yield ask("5,000 ids", Refused("source_ids"), [[20] * 5000], [5000])


def _attention():
    def ask(name, expected, source, target):
        given = {"source": _strings(*source), "target": _strings(*target)}
        return _request("attention", name, expected, "attention", **given)

    odd = [line[:50] for line in ODDITIES.values()]  # A batch may have so many weights at most.
    yield ask("no rows", Works(_rows(0)), [], [])
    yield ask("empty lines", Works(_rows(2)), ["", "one"], ["eins", ""])
    yield ask("both empty", Works(_rows(1)), [""], [""])
    yield ask("all odd text", Works(_rows(len(odd))), odd, odd[::-1])
    yield ask("not UTF-8", Works(_rows(2)), [PLAIN, BROKEN["overlong"]], [BROKEN["Latin-1"], PLAIN])
    for name, source, target in (
        ("two sources, one target", [PLAIN] * 2, [PLAIN]),
        ("one source, three targets", [PLAIN], [PLAIN] * 3),
        ("no source, one target", [], [PLAIN]),
    ):
        yield ask(name, Refused("source|target"), source, target)
    long = "x" * 10_000
    yield ask("a source of 10,000 letters", Refused("source"), [long], [PLAIN])
    yield ask("a target of 10,000 letters", Refused("target"), [PLAIN], [long])


def _options():
    def ask(name, expected, beam_size, length_penalty, n_best, *lines):
        rows = max(len(lines), 1)
        given = {
            "beam_size": np.full([rows], beam_size, np.int32),
            "length_penalty": np.full([rows], length_penalty, np.float32),
            "n_best": np.full([rows], n_best, np.int32),
        }
        text = _strings(*lines or [PLAIN])
        return _request("options", name, expected, "translate", text=text, **given)

    yield ask("the defaults", Works(_rows(1)), -1, -1, -1)
    yield ask("all odd text", Works(_rows(len(ODDITIES))), 2, 0, 2, *ODDITIES.values())
    yield ask("only empty lines", Works(_rows(2)), 1, 10, 1, "", "")
    for name, beam_size in {"none": 0, "many": 5, "2^31 - 1": 2**31 - 1, "-2^31": -(2**31)}.items():
        yield ask(f"beam_size: {name}", Refused("beam_size"), beam_size, 0.6, 1)
    for value in (-0.5, 11, float("nan"), float("inf")):
        yield ask(f"length_penalty: {value}", Refused("length_penalty"), 4, value, 1)
    for value in (0, 5, -7):
        yield ask(f"n_best: {value}", Refused("n_best"), 4, 0.6, value)
