"""Trains by train.py for rivals.py, and translates with the search of translate.py."""

import os
import subprocess
import sys
from pathlib import Path

from common import EVERY, task

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))


def main(task):
    model_dir, sides = task.run / "model", (("source", "src"), ("target", "trg"))
    names = ("max_tokens_per_batch", "learning_rate", "warmup_steps", "label_smoothing", "seed")
    flags = [
        *(f"--{s}_{side}={task.texts / s}.{x}" for s in ("train", "valid") for side, x in sides),
        *("--model=transformer_small", f"--model_dir={model_dir}", "--precision=float32"),
        *(f"--vocab_file={task.texts / 'pieces.model'}", f"--max_minutes={task['minutes']}"),
        *(f"--set={x}dropout={task['dropout']}" for x in ("", "attention_", "ffn_")),
        *(
            "--copy_share=0",
            "--schedule=inverse_sqrt",
            f"--log_every_steps={EVERY}",
        ),
        *(f"--{name}={task[name]}" for name in names),
        *("--bleu_lines=0", "--eval_every_steps=100000", "--save_every_steps=100000"),
    ]
    subprocess.run([sys.executable, "train.py", *flags], check=True, cwd=ROOT)
    threads = task["threads"]
    os.environ |= {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": str(threads)}

    from benchmarks.parts.decode_engines import NEVER, NO_ONEDNN, Source, ours
    from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
    from nmt_zoo.model_directory.metrics import read_records

    records = read_records(model_dir / "metrics.jsonl")
    task.rates = [r["tokens_per_second"] for r in records if "tokens_per_second" in r]
    source = Source("", str(model_dir), "", "bpe")
    work = ours(source, 0, "float32", threads, NO_ONEDNN, NEVER)  # As translate.py does.
    vocabulary = Tokenizer.load("bpe", model_dir / "tokenizer").target

    def translate(lines, size):
        lines = [vocabulary.decode(vocabulary.ids(line)) for line in lines]
        return [vocabulary.pieces(ids)[:-1] for ids in work(lines, task["beam"], size)[0]]

    decoding = task.decode(translate)
    command = " ".join(["python train.py", *flags])
    task.finish(decoding, {"command": command}, records[-1]["step"])


if __name__ == "__main__":
    main(task())
