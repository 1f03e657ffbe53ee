"""Model directories whose config.json was edited, damaged or replaced."""

import functools
import json

from tests.hostile.case import Refused
from tests.hostile.cases.directories_cases import damaged, resume
from tests.hostile.prepared import REMOVED, edit, folder_for, loop_for, pipe_for, replace

_DEEP = "[" * 100_000


def cases():
    """Yields `Case`s."""
    for keys, value in (
        (("format",), 2),
        (("format",), "1"),
        (("format",), REMOVED),
        (("model",), "gpt5"),
        (("model",), 7),
        (("model",), REMOVED),
        (("model",), "../../etc"),
        (("settings",), None),
        (("settings",), []),
        (("settings", "foo"), 1),
        (("settings", "pad_id"), 7),
        (("settings", "width"), 10**9),
        (("settings", "width"), "16"),
        (("settings", "width"), -16),
        (("settings", "width"), 0),
        (("settings", "width"), 1.5),
        (("settings", "width"), 17),
        (("settings", "width"), None),
        (("settings", "width"), 32),
        (("settings", "num_encoder_layers"), 1_000_000),
        (("settings", "num_heads"), 0),
        (("settings", "dropout"), "__import__('os').system('touch pwned')"),
        (("settings", "dropout"), float("nan")),
        (("settings",), REMOVED),
        (("tokenizer",), "char"),
        (("tokenizer",), "word"),
        (("tokenizer",), None),
        (("options",), None),
        (("options",), {}),
        (("options", "max_length"), REMOVED),
        (("options", "max_length"), "256"),
        (("options", "max_length"), float("nan")),
        (("options", "max_length"), -1),
        (("vocab_sizes",), []),
        (("vocab_sizes",), [300]),
        (("vocab_sizes",), [300, 300, 300]),
        (("vocab_sizes",), ["300", "300"]),
        (("vocab_sizes",), [300.0, 300.0]),
        (("vocab_sizes",), [-300, -300]),
        (("vocab_sizes",), [301, 301]),
        (("vocab_sizes",), [10**12, 10**12]),
        (("vocab_sizes",), REMOVED),
        (("sizes",), None),
        (("sizes",), [1]),
        (("sizes", "pad_id"), 7),
        (("sizes", "num_word_pairs"), 10**12),
    ):
        what = "removed" if value is REMOVED else json.dumps(value)[:40]
        prepare = functools.partial(edit, keys, value)
        refused = Refused(r"config\.json|model/tokenizer")
        yield damaged("config.json", f"{'.'.join(keys)}: {what}", refused, prepare)
    for name, data in {
        "empty": b"",
        "no JSON": b"{format: 1}",
        "cut": None,
        "a list": b"[]",
        "a number": b"1",
        "null": b"null",
        "100,000 brackets": _DEEP.encode(),
        "a number of 10,000 digits": b'{"format": ' + b"1" * 10_000 + b"}",
        "Latin-1": '{"format": 1, "model": "läuft"}'.encode("latin-1"),
        "UTF-16": '{"format": 1}'.encode("utf-16"),
        "NUL bytes": bytes(1000),
    }.items():
        prepare = functools.partial(replace, "config.json", data)
        yield damaged("config.json", name, Refused(r"config\.json"), prepare)
    for name, prepare in {
        "a folder": functools.partial(folder_for, "config.json"),
        "a link to itself": functools.partial(loop_for, "config.json"),
        "a pipe": functools.partial(pipe_for, "config.json"),
    }.items():
        yield damaged("config.json", name, Refused(r"config\.json"), prepare)
    for script, arguments in {
        "train": resume(),
        "visualize_attention": ("--model_dir=model", "--source=one dog", "--output=x.png"),
        "export": ("--model_dir=model", "--export_dir=exported"),
    }.items():
        for keys, value in ((("settings", "foo"), 1), (("vocab_sizes",), []), (("options",), {})):
            prepare = functools.partial(edit, keys, value)
            name = f"{script}.py, {'.'.join(keys)}: {json.dumps(value)}"
            refused = Refused(r"config\.json|^error: model\b.*other settings", ("data",))
            if script != "train" and keys == ("options",):
                continue  # Only train.py needs training options.
            yield damaged("config.json", name, refused, prepare, script=script, arguments=arguments)
