"""Hostile settings, folders, streams and signals of train.py."""

import json
import os
import signal
from pathlib import Path

from tests.hostile.case import Ends, Refused, Works
from tests.hostile.cases.corpora_cases import MADE, SOURCE, TARGET, train_case, trained
from tests.hostile.inputs import both, files
from tests.hostile.prepared import copy_model


def cases():
    """Yields `Case`s."""
    yield from _settings()
    yield from _conflicts()
    yield from _folders()
    yield from _vocabularies()
    yield from _diverging()
    yield from _streams_and_signals()


def _settings():
    group = "--set"
    deep = "[" * 100_000
    for text, pattern in (
        ("width", "width"),
        ("=16", "="),
        ("", "set"),
        ("foo=1", "foo"),
        ("width=", "width"),
        ("width=wide", "width"),
        ("width=-16", "width"),
        ("width=0", "width"),
        ("width=16.5", "width"),
        ("width=null", "width"),
        ("width=true", "width"),
        ("width=[16]", "width"),
        ('width={"a":1}', "width"),
        ("width=17", "width|num_heads"),
        ("width=nan", "width"),
        ("width=4000000", "width"),
        ("width=1000000000000", "width"),
        (f"width={'1' * 5000}", "width"),
        ("num_heads=0", "num_heads"),
        ("num_heads=3", "num_heads"),
        ("num_encoder_layers=1000000", "num_encoder_layers"),
        ("num_decoder_layers=-1", "num_decoder_layers"),
        ("ffn_width=0", "ffn_width"),
        ("dropout=1", "dropout"),
        ("dropout=-0.1", "dropout"),
        ("dropout=nan", "dropout"),
        ("dropout=inf", "dropout"),
        (f"dropout={deep}", "dropout"),
        ("tie_embeddings=foo", "tie_embeddings"),
        ("pad_id=7", "pad_id"),
        ("dropout=__import__('os').system('touch pwned')", "dropout"),
    ):
        name = text if len(text) < 50 else f"{text[:20]}... of {len(text):,} characters"
        refused = Refused(pattern, ("data",))
        yield train_case(group, name, refused, f"--set={text}", preset="transformer_tiny")


def _conflicts():
    group = "flags that do not go together"
    for flags, pattern in (
        (("--update=em",), "update"),
        (("--jit_compile",), "pad_to_bucket"),
        (("--schedule=cosine", "--warmup_steps=10"), "decay_steps"),
        (("--weight_decay=0.1",), "optimizer"),
        (("--keep_best_by=bleu",), "bleu_lines"),
        (("--plateau_factor=0.5",), "schedule"),
        (("--alpha=0.1",), "alpha"),
        (("--dataset=demo",), "--dataset"),
        (("--valid_target=",), "valid_target"),
        (("--model_dir=x", "--model_dir=y"), "model_dir"),
        (("one dog",), "one dog"),
        (("--init_from=nowhere",), "nowhere"),
        (("--init_from=../models/ibm1",), "ibm1"),
        (("--init_from=../models/bpe", "--set=width=32"), "width"),
        (("--init_from=",), ""),
        (("--reverse_model_dir=y",), "reverse_model_dir"),
        (("--distribution=tpu",), "TPU|tpu"),
        (("--num_replicas=2",), "num_replicas"),
        (("--distribution=multi_worker",), "TF_CONFIG"),
        (("--tokenizer=pretokenized",), "vocab_file"),
        (("--min_word_count=1000", "--tokenizer=word"), "min_word_count"),
        (("--max_length=1",), "max_length"),
        (("--max_tokens_per_batch=1",), "max_tokens_per_batch"),
    ):
        expected = Refused(pattern, MADE) if pattern else Works(trained)
        yield train_case(group, " ".join(flags), expected, *flags, preset="transformer_tiny")
    for name, text in {
        "no JSON": "{",
        "a list": "[1]",
        "no cluster": "{}",
        "no such task": json.dumps(
            {"cluster": {"worker": ["127.0.0.1:1"]}, "task": {"type": "worker", "index": 5}}
        ),
    }.items():

        def set_config(text=text):
            os.environ["TF_CONFIG"] = text

        flags = ("--distribution=multi_worker",)
        refused = Refused("TF_CONFIG", ("data",))
        yield train_case(
            *(group, f"TF_CONFIG: {name}", refused, *flags),
            preset="transformer_tiny",
            prepare=set_config,
        )


def _folders():
    group = "folders"
    full = both(lambda: os.mkdir("mine"), files({"mine/letter": "Dear Sir\n"}))
    for name, (path, prepare, pattern) in {
        "no name": ("", None, "model_dir"),
        "the current folder": (".", files({"letter": "Dear Sir\n"}), r"model_dir|\."),
        "a folder of other things": ("mine", full, "mine"),
        "a file": ("file", files({"file": "x"}), "file"),
        "below a file": ("file/run", files({"file": "x"}), "file"),
        "a device": ("/dev/null", None, "/dev/null"),
        "300 characters": ("x" * 300, None, "xxx"),
        "a link to itself": ("loop", lambda: os.symlink("loop", "loop"), "loop"),
    }.items():
        for flag in ("model_dir", "data_dir"):
            if flag == "data_dir" and name in ("a folder of other things", "the current folder"):
                continue
            leaves = ("data", *MADE) if flag == "data_dir" else ("data",)
            refused = Refused(pattern.replace("model_dir", flag), leaves)
            yield train_case(
                group, f"--{flag}: {name}", refused, f"--{flag}={path}", prepare=prepare
            )
    yield train_case(
        group, "--model_dir that is not UTF-8", Refused("name"), b"--model_dir=name\xff"
    )

    def lock():
        os.mkdir("locked")
        os.mkdir("locked/run")
        os.chmod("locked", 0o700)

    for flag in ("model_dir", "data_dir", "init_from"):
        yield train_case(
            *(group, f"--{flag} below a folder that may not be entered"),
            *(Refused("locked", MADE), f"--{flag}=locked/run"),
            preset="transformer_tiny",
            prepare=lock,
            unprivileged=True,
        )
    for name, limit in {"no room at all": 1, "room for a part": 3000}.items():
        yield train_case(group, name, Refused("cannot be written", MADE), file_limit=limit)
    other = {
        "another validation text": ("--valid_source=v", "--valid_target=w"),
        "another training text": ("--train_source=v", "--train_target=w"),
        "another learning rate": ("--seed=2",),
        "another preset": ("--model=ibm2",),
    }
    for name, flags in other.items():
        start = both(lambda: copy_model("ibm1", "run"), files({"v": SOURCE, "w": TARGET}))
        refused = Refused("run", ("data",))
        yield train_case(group, f"resumed with {name}", refused, *flags, prepare=start)


def _vocabularies():
    group = "--vocab_file"
    model = "../models/bpe/tokenizer/shared.model"

    def cut():
        Path("bad.model").write_bytes(Path(model).read_bytes()[:1000])

    for tokenizer, preset in (("bpe", "transformer_tiny"), ("pretokenized", "transformer_tiny")):
        for name, (path, prepare) in {
            "missing": ("bad.model", None),
            "empty": ("bad.model", files({"bad.model": b""})),
            "a folder": ("bad.model", lambda: os.mkdir("bad.model")),
            "random bytes": ("bad.model", files({"bad.model": bytes(range(256)) * 20})),
            "cut": ("bad.model", cut),
            "of the other kind": (
                ("../models/train.source", None)
                if tokenizer == "bpe"
                else ("../models/bpe/tokenizer/shared.model", None)
            ),
            "twice the same piece": ("bad.model", files({"bad.model": "one\ndog\none\n"})),
        }.items():
            refused = Refused(r"bad\.model|train\.source|shared\.model", ("data",))
            flags = (f"--tokenizer={tokenizer}", f"--vocab_file={path}")
            full_name = f"{tokenizer}: {name}"
            yield train_case(group, full_name, refused, *flags, preset=preset, prepare=prepare)


def _diverging():
    group = "runs that diverge"
    wrong = Refused("finite|learning_rate", MADE)
    slow = ("--max_steps=4", "--eval_every_steps=1", "--save_every_steps=1", "--max_bad_steps=2")
    for rate in ("1e9", "1e25", "1e38"):
        flags = (*slow, f"--learning_rate={rate}")
        yield train_case(group, f"--learning_rate={rate}", wrong, *flags, preset="transformer_tiny")
    for preset in ("lstm_luong", "transformer_simple"):
        flags = (*slow, "--learning_rate=1e25", "--clip_norm=0", "--max_steps=2")
        yield train_case(group, f"{preset}, --learning_rate=1e25", wrong, *flags, preset=preset)


def _streams_and_signals():
    group = "streams and signals"
    for name, expected, more in (
        ("standard output is full", Works(trained, "standard output"), {"stdout": "/dev/full"}),
        ("standard error is full", Works(trained), {"stderr": "/dev/full"}),
        ("standard input is closed", Works(trained), {"stdin": "closed", "fresh": True}),
        ("standard error is closed", Works(trained), {"stderr": "closed", "fresh": True}),
        ("the reader of standard error has gone", Works(trained), {"stderr": "broken"}),
    ):
        yield train_case(group, name, expected, **more)
    yield train_case(group, "the reader has gone", Works(), stdout="broken")
    long = ("--max_steps=100000", "--save_every_steps=100000", "--eval_every_steps=100000")

    def resumable(outcome):
        found = list((outcome.folder / "run/checkpoints").glob("*.npz"))
        return "" if found else "no checkpoint"

    for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        yield train_case(
            *(group, f"{number.name} in training", Ends(status, resumable), *long),
            preset="transformer_tiny",
            signal=(number, "validation pairs"),
        )
        short = Ends(130 if number == signal.SIGINT else 143, _few_words)
        for seconds in (0.5, 2.0):
            yield train_case(
                *(group, f"{number.name} after {seconds} s", short, *long),
                preset="transformer_tiny",
                signal=(number, seconds),
                fresh=True,
            )


def _few_words(outcome):
    return "" if outcome.err.count("\n") <= 2 else "a page of text"
