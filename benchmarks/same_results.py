"""Writes what fixed commands give at a checkout, so that two checkouts can be compared.

    python benchmarks/same_results.py --root=../before --data=data --output=before.json
    python benchmarks/same_results.py --data=data --output=after.json --compare=before.json

Trains the demo, 500 updates on Multi30k and 500 on Europarl, phrases and rules from 1,000 pairs,
translates with each, aligns 3,000 pairs, and exports the demo's model and translates with the
export. A change that only moves code must leave every number and every byte of text as it was.
Times and paths are left out.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SIDES = ("source", "target")


def main():
    """Runs all commands; returns 1 if a record to compare with differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=ROOT, help="checkout whose scripts to run")
    parser.add_argument("--data", type=Path, required=True, help="folder of multi30k, europarl10k")
    parser.add_argument("--output", type=Path, required=True, help="JSON file for the record")
    parser.add_argument("--compare", type=Path, help="record of another checkout")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        record = results(arguments.root.resolve(), arguments.data.resolve(), Path(folder))
    arguments.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    if not arguments.compare:
        return 0
    before = json.loads(arguments.compare.read_text(encoding="utf-8"))
    differing = [name for name in {**before, **record} if before.get(name) != record.get(name)]
    print(f"{len(record) - len(differing)} of {len(record)} results are the same")
    for name in differing:
        print(f"{name}: {before.get(name)} before, {record.get(name)} now")
    return bool(differing)


def results(root, data, folder):
    """Returns name -> number or digest of everything that the commands give."""
    record = {}

    def run(script, *flags):
        command = [sys.executable, str(root / script), *map(str, flags)]
        subprocess.run(command, cwd=folder, check=True, stdout=sys.stderr)

    def trained(name, source, *flags):
        run("train.py", f"--model_dir={name}", "--intra_op_threads=1", "--seed=1", *flags)
        output = folder / f"{name}.out"
        # Whether a package is installed must not count.
        text = (f"--input={source}", f"--output={output}", "--engine=tensorflow")
        run("translate.py", f"--model_dir={name}", *text)
        record[f"{name}: translations"] = _digest(output)
        for line in (folder / name / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
            values = json.loads(line)
            entry = f"{name}: {values['kind']} at step {values['step']}"
            figures = {n: v for n, v in values.items() if "second" not in n}
            record[entry] = {n: v for n, v in figures.items() if n not in ("kind", "step")}

    def first(path, count):
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)[:count]
        short = folder / f"{path.parent.name}-{path.stem}-{count}{path.suffix}"
        short.write_text("".join(lines), encoding="utf-8")
        return short

    def names(corpus, source, target):
        return [
            f"--{split}_{side}={data / corpus / file}.{suffix}"
            for split, file in (("train", "train"), ("valid", "val"))
            for side, suffix in (("source", source), ("target", target))
        ]

    short = ("--max_steps=500", "--eval_every_steps=250", "--bleu_lines=100")
    trained("demo", folder / "data/demo/test.en")
    multi30k = data / "multi30k"
    text = first(multi30k / "test_2016_flickr.en", 200)
    trained("multi30k", text, *names("multi30k", "en", "de"), "--model=transformer_tiny", *short)
    text = first(data / "europarl10k" / "test.de", 200)
    trained("europarl", text, *names("europarl10k", "de", "en"), "--model=lstm_luong", *short)
    text = first(multi30k / "test_2016_flickr.en", 100)
    files = [first(multi30k / f"train.{suffix}", 1000) for suffix in ("en", "de")]
    pairs = [f"--train_{side}={path}" for side, path in zip(SIDES, files, strict=True)]
    files = [first(multi30k / f"val.{suffix}", 100) for suffix in ("en", "de")]
    pairs += [f"--valid_{side}={path}" for side, path in zip(SIDES, files, strict=True)]
    for model in ("phrase_based", "hiero"):
        trained(model, text, *pairs, f"--model={model}")
    files = (first(multi30k / f"train.{suffix}", 3000) for suffix in ("en", "de"))
    text = [f"--{side}={path}" for side, path in zip(SIDES, files, strict=True)]
    run("align.py", *text, "--alignments=links")
    record["align.py: links"] = _digest(folder / "links")
    run("export.py", "--model_dir=demo", "--export_dir=export")
    record["export.py: translations"] = _exported(folder)
    return record


def _digest(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _exported(folder):
    """Returns the digest of what the exported demo makes of 100 test lines."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401 - for its operations

    newest = max((folder / "export").glob("[0-9]*"), key=lambda path: int(path.name))
    function = tf.saved_model.load(str(newest)).signatures["serving_default"]
    lines = (folder / "data/demo/test.en").read_text(encoding="utf-8").splitlines()[:100]
    (name,) = function.structured_input_signature[1]
    values = function(**{name: tf.constant(lines)})
    texts = [v.numpy().tolist() for _, v in sorted(values.items()) if v.dtype == tf.string]
    return hashlib.sha256(repr(texts).encode()).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
