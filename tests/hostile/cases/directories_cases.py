"""Model directories with damaged or hostile files in them."""

import functools
import json
import os
import pickle
import shutil
import zipfile
from pathlib import Path

import numpy as np

from tests.hostile.case import Case, Refused, Works
from tests.hostile.inputs import sandwich
from tests.hostile.prepared import copy_model, flip, folder_for, pipe_for, quick, remove, replace

_TRANSLATE = ("--model_dir=model", "--beam_size=1")
_DEEP = "[" * 100_000
_ARRAYS = "model/target_embedding/embeddings"


def cases():
    """Yields `Case`s."""
    yield from _best()
    yield from _tokenizer()
    yield from _metrics()
    yield from _checkpoints()


def damaged(group, name, expected, prepare, *, script="translate", arguments=_TRANSLATE, **more):
    return Case(
        *(f"damaged {group}", name, script, tuple(arguments), expected),
        prepare=prepare,
        stdin=sandwich("one cat"),
        **more,
    )


def resume(*more, preset="transformer_tiny"):
    """Returns arguments of train.py that resume a copy of the model `bpe`."""
    given = ("--max_steps=302", "--learning_rate=0.01", "--save_every_steps=100")
    return quick(
        preset,
        *given,
        "--set=dropout=0",
        "--label_smoothing=0",
        "--eval_every_steps=100",
        *more,
        model_dir="model",
    )


class _Touch:
    """An object whose pickle makes a file when it is loaded."""

    def __reduce__(self):
        return os.system, ("touch pwned",)


def _archive(change):
    """Copies a model and edits the arrays of the copy's best.npz with `change(arrays)`."""
    path = copy_model("bpe") / "best.npz"
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    change(arrays)
    np.savez(path, **arrays)


def _with_array(make):
    return functools.partial(_archive, lambda arrays: arrays.update({_ARRAYS: make(arrays)}))


def _raw_entry(name, data):
    """Copies a model and adds an entry with these bytes to the copy's best.npz."""
    path = copy_model("bpe") / "best.npz"
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(name, data)


_BEST = {
    "missing": functools.partial(remove, "best.npz"),
    "empty": functools.partial(replace, "best.npz", b""),
    "cut": functools.partial(replace, "best.npz", None),
    "random bytes": functools.partial(replace, "best.npz", bytes(range(256)) * 50),
    "text": functools.partial(replace, "best.npz", b"weights\n"),
    "a raw pickle": functools.partial(replace, "best.npz", pickle.dumps(_Touch())),
    "one bit": functools.partial(flip, "best.npz"),
    "a folder": functools.partial(folder_for, "best.npz"),
    "a pipe": functools.partial(pipe_for, "best.npz"),
    "an array of pickles": _with_array(lambda _: np.array([_Touch()], dtype=object)),
    "another entry of pickles": functools.partial(
        _archive, lambda arrays: arrays.update(more=np.array([_Touch()], dtype=object))
    ),
    "strings": _with_array(lambda arrays: np.full(arrays[_ARRAYS].shape, "one")),
    "complex numbers": _with_array(lambda arrays: arrays[_ARRAYS] + 1j),
    "whole numbers": _with_array(lambda arrays: arrays[_ARRAYS].astype(np.int64)),
    "truth values": _with_array(lambda arrays: arrays[_ARRAYS] > 0),
    "another shape": _with_array(lambda arrays: arrays[_ARRAYS][:-1]),
    "one number": _with_array(lambda arrays: np.float32(1)),
    "NaN": _with_array(lambda arrays: arrays[_ARRAYS] * np.float32("nan")),
    "one infinite weight": _with_array(lambda arrays: _one_infinite(arrays[_ARRAYS])),
    "too large for float32": _with_array(lambda arrays: arrays[_ARRAYS].astype(float) * 1e300),
    "no such array": functools.partial(_archive, lambda arrays: arrays.pop(_ARRAYS)),
    "no state": functools.partial(_archive, lambda arrays: arrays.pop("state")),
    "a state that is no JSON": functools.partial(
        _archive, lambda arrays: arrays.update(state=np.array("{"))
    ),
    "an entry that is no array": functools.partial(_raw_entry, "model/x.npy", b"one dog"),
    "a header that promises 100 GB": functools.partial(
        _raw_entry,
        "model/x.npy",
        b"\x93NUMPY\x01\x00v\x00"
        + b"{'descr': '<f4', 'fortran_order': False, 'shape': (25000000000,), }".ljust(117)
        + b"\n",
    ),
    "of another model": lambda: shutil.copy("../models/word/best.npz", copy_model("bpe")),
}


def _one_infinite(weights):
    changed = weights.copy()
    changed.flat[7] = np.inf
    return changed


def _best():
    for name, prepare in _BEST.items():
        yield damaged("best.npz", name, Refused(r"(?!.*unsafe)best\.npz"), prepare)
    for name in ("cut", "one bit", "text"):
        resumed = Works(_whole_again)
        arguments = resume()
        full_name = f"train.py again, {name}"
        yield damaged(
            "best.npz", full_name, resumed, _BEST[name], script="train", arguments=arguments
        )


def _whole_again(outcome):
    try:
        with np.load(outcome.folder / "model/best.npz", allow_pickle=False) as archive:
            return "" if all(np.isfinite(archive[n]).all() for n in archive if "/" in n) else "NaN"
    except Exception as error:
        return f"best.npz is still damaged: {error}"


def _tokenizer():
    model, words = "tokenizer/shared.model", "tokenizer/source.vocab"
    for name, prepare in {
        "missing": functools.partial(remove, model),
        "no folder": functools.partial(remove, "tokenizer"),
        "empty": functools.partial(replace, model, b""),
        "cut": functools.partial(replace, model, None),
        "random bytes": functools.partial(replace, model, bytes(range(256)) * 20),
        "one bit": functools.partial(flip, model),
        "one bit near the end": functools.partial(flip, model, 0.99),
        "a folder": functools.partial(folder_for, model),
    }.items():
        yield damaged("tokenizer", f"BPE: {name}", Refused(r"shared\.model|tokenizer"), prepare)
    for name, prepare in {
        "missing": functools.partial(remove, words, "word"),
        "empty": functools.partial(replace, words, b"", "word"),
        "cut": functools.partial(replace, words, None, "word"),
        "one bit": functools.partial(flip, words, 0.7, "word"),
        "Latin-1": functools.partial(replace, words, b"l\xe4uft\n" * 14, "word"),
    }.items():
        yield damaged("tokenizer", f"words: {name}", Refused(r"source\.vocab|tokenizer"), prepare)


_BAD_RECORDS = {
    "of no known kind": '{"step": 1, "kind": "foo"}',
    "without seconds": '{"step": 1, "kind": "valid", "perplexity": 2.0}',
    "with a word for a step": '{"step": "one", "kind": "train", "seconds": 1.0}',
    "with NaN": '{"step": 1, "kind": "valid", "seconds": 1.0, "perplexity": NaN}',
    "that is a list": "[1, 2]",
    "that is cut": '{"step": 1, "ki',
    "of 100,000 brackets": _DEEP,
    "of NUL bytes": "\0" * 100,
}


def _metrics():
    for name, line in _BAD_RECORDS.items():
        for where in ("in the middle", "at the end"):
            prepare = functools.partial(_damage_metrics, line, where == "at the end")
            scripts = {
                "train": resume(),
                "visualize_attention": ("--model_dir=model", "--curves=curves.png"),
            }
            if where == "at the end":
                scripts["translate"] = (
                    *(*_TRANSLATE, "--reference=../models/valid.target", "--save_scores=s.json"),
                    "--input=../models/valid.source",
                )
            for script, arguments in scripts.items():
                # A killed run leaves a last line that was cut short; this is no error.
                cut = where == "at the end" and name in ("that is cut", "of NUL bytes")
                cut = cut or name == "with NaN"  # Earlier versions wrote NaN.
                expected = (
                    Works() if cut else Refused(r"metrics\.jsonl, line \d", ("data", "model"))
                )
                full_name = f"{script}.py, a record {name} {where}"
                yield damaged(
                    *("metrics.jsonl", full_name, expected, prepare),
                    script=script,
                    arguments=arguments,
                )
    for script, arguments in (("train", ("--summary", "--model_dir=model")),):
        for name, line in _BAD_RECORDS.items():
            prepare = functools.partial(_damage_metrics, line, False)
            refused = Works() if name == "with NaN" else Refused(r"metrics\.jsonl, line \d")
            full_name = f"--summary, a record {name}"
            yield damaged(
                *("metrics.jsonl", full_name, refused, prepare), script=script, arguments=arguments
            )


def _damage_metrics(line, at_the_end):
    path = copy_model("bpe") / "metrics.jsonl"
    lines = path.read_text("utf-8").splitlines()
    lines.insert(len(lines) if at_the_end else 1, line)
    path.write_text("".join(f"{each}\n" for each in lines), encoding="utf-8")


def _checkpoints():
    newest = "checkpoints/00000300.npz"
    for name, prepare in {
        "empty": functools.partial(replace, newest, b""),
        "cut": functools.partial(replace, newest, None),
        "one bit": functools.partial(flip, newest),
        "random bytes": functools.partial(replace, newest, bytes(range(256)) * 50),
        "a raw pickle": functools.partial(replace, newest, pickle.dumps(_Touch())),
        "a folder": functools.partial(folder_for, newest),
    }.items():
        aside = Works(_resumed, says=r"00000300")
        arguments = resume()
        yield damaged(
            "checkpoints", f"newest: {name}", aside, prepare, script="train", arguments=arguments
        )
    for name, prepare in {
        "all are damaged": _damage_all,
        "the folder is a file": _file_for_checkpoints,
        "the lock is a folder": functools.partial(folder_for, "lock"),
    }.items():
        pattern = "checkpoints" if "lock" not in name else "lock|model"
        refused = Refused(pattern, ("data", "model"))
        yield damaged("checkpoints", name, refused, prepare, script="train", arguments=resume())


def _resumed(outcome):
    last = json.loads((outcome.folder / "model/metrics.jsonl").read_text("utf-8").split("\n")[-2])
    if (outcome.folder / "pwned").exists():
        return "a pickle was executed"
    return "" if last["step"] == 302 else f"ends with step {last['step']}"


def _damage_all():
    for path in (copy_model("bpe") / "checkpoints").iterdir():
        path.write_bytes(b"x")


def _file_for_checkpoints():
    remove("checkpoints")
    Path("model/checkpoints").write_text("x")
