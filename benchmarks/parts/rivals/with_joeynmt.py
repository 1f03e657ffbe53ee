"""Trains and runs a Transformer of JoeyNMT by its own commands, for rivals.py."""

import os
import re
import signal
import subprocess
import sys
import time

import yaml
from common import EVERY, task


def configuration(task, batch_size):
    """Returns JoeyNMT's configuration; `batch_size` is that of a search."""
    stack = {"type": "transformer", "num_layers": 3, "num_heads": 4, "hidden_size": 256}
    stack |= {"ff_size": 1024, "dropout": task["dropout"], "layer_norm": "pre"}
    stack["embeddings"] = {"embedding_dim": 256, "scale": True, "dropout": 0.0}
    pieces = {"level": "word", "max_length": 100, "voc_file": str(task.texts / "pieces.txt")}
    folder, model_dir = task.texts / "pieces", task.run / "model"
    files = {"train": f"{folder}/train", "dev": f"{folder}/valid", "dataset_type": "plain"}
    return {
        **{"name": "rivals", "model_dir": str(model_dir), "use_cuda": False},
        **{"random_seed": task["seed"]},
        "data": {**files, "src": {"lang": "src", **pieces}, "trg": {"lang": "trg", **pieces}},
        "model": {
            **{"initializer": "xavier_uniform", "embed_initializer": "xavier_uniform"},
            **{"tied_embeddings": True, "tied_softmax": True, "encoder": stack, "decoder": stack},
        },
        "training": {
            **{"optimizer": "adam", "adam_betas": [0.9, 0.98], "normalization": "tokens"},
            **{"scheduling": "warmupinversesquareroot", "learning_rate_min": 1e-9},
            "learning_rate_warmup": task["warmup_steps"],
            **{"learning_rate": task["learning_rate"], "clip_grad_norm": task["clip_norm"]},
            **{"label_smoothing": task["label_smoothing"], "epochs": 10000},
            **{"batch_size": task["max_tokens_per_batch"], "batch_type": "token"},
            **{"logging_freq": EVERY, "validation_freq": 100000 * EVERY, "overwrite": True},
        },
        "testing": {
            **{"load_model": f"{model_dir}/latest.ckpt", "beam_size": task["beam"]},
            **{"beam_alpha": task["length_penalty"], "batch_size": batch_size},
            **{"batch_type": "sentence", "max_output_length": 100},
        },
    }


def start(task, mode, *more, batch_size=1):
    """Starts a command of JoeyNMT."""
    path = task.run / f"{mode}.yaml"
    path.write_text(yaml.safe_dump(configuration(task, batch_size)), encoding="utf-8")
    command = [sys.executable, "-m", "joeynmt", mode, str(path), *more]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    os.environ["OMP_NUM_THREADS"] = str(task["threads"])
    return subprocess.Popen(command, text=True, **pipes)


def finish(process, names, text=""):
    """Ends a command with its input; returns its output, and the numbers after names in its log."""
    output, log = process.communicate(text)
    print(log)
    return output, *([float(x) for x in re.findall(rf"{n}\s*([\d.]*\d)", log)] for n in names)


def main(task):
    training = start(task, "train", "--skip-test")
    time.sleep(task.seconds_left())
    training.send_signal(signal.SIGINT)  # As Ctrl-C, at which it saves its weights.
    _, task.rates, updates = finish(training, ["Tokens per Sec:", r"epoch \d+, step"])
    text, decoding = "".join(" ".join(line) + "\n" for line in task.test), {}
    for size in sorted(task["batch_sizes"], reverse=True):
        search = start(task, "translate", batch_size=size)
        output, seconds = finish(search, ["Generation took"], text)
        decoding[size] = len(task.test) / seconds[0]
        if seconds[0] > 40:
            break
    task.write([line.split() for line in output.splitlines()])
    commands = ["train train.yaml --skip-test (until Ctrl-C)", "translate translate.yaml < pieces"]
    settings = {"commands": [f"python -m joeynmt {x}" for x in commands]}
    task.finish(decoding, {**settings, "config": configuration(task, 1)}, int(updates[-1]))


if __name__ == "__main__":
    main(task())
