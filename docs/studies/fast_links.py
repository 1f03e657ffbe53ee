"""Measures the word links of CTranslate2 beside those of TensorFlow, on the demo corpus.

    python train.py --model_dir=runs/demo
    python export.py --model_dir=runs/demo --export_dir=exports/demo --format=ctranslate2
    python export.py --model_dir=runs/demo --export_dir=exports/demo_int8 --format=ctranslate2 \\
        --quantization=int8
    python -m docs.studies.fast_links --model_dir=runs/demo exports/demo exports/demo_int8

Both engines link the words of the 500 test lines with those of their references, by the same layer
and heads. Writes docs/results/alignment/fast_links.json: the alignment error rates, and how many
pairs have the same links as with TensorFlow.
"""

import argparse
from pathlib import Path

from nmt_zoo.command_line.machine import machine
from nmt_zoo.common.files import read_lines, write_json
from nmt_zoo.data_pipeline.text_form import split_words
from nmt_zoo.decoding.alignment.aligner import Aligner
from nmt_zoo.decoding.alignment.links import read_gold, score_alignments
from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.serving.ctranslate2.engine import CTranslate2Export

ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "docs/results/alignment/fast_links.json"


def main() -> None:
    """Aligns with every engine, scores, and writes the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model_dir", required=True)
    parser.add_argument("export_dirs", nargs="+")
    flags = parser.parse_args()
    sides = [read_lines(ROOT / f"data/demo/test.{side}") for side in ("en", "de")]
    sizes = [tuple(len(split_words(x)) for x in pair) for pair in zip(*sides, strict=True)]
    gold = read_gold(str(ROOT / "data/demo/test.en-de"), pairs=sizes)
    directory = ModelDirectory(flags.model_dir)
    ours, rows = None, []
    for read in (directory, *map(CTranslate2Export, flags.export_dirs)):
        model, tokenizer, _ = read.load()
        links = Aligner(model, tokenizer).links(*sides)
        ours = ours or links
        engine = "TensorFlow" if read is directory else f"CTranslate2 {model.about['quantization']}"
        scores = score_alignments(links, gold)._asdict()
        same = sum(a == b for a, b in zip(ours, links, strict=True))
        rows.append({"engine": engine, **{name: round(x, 4) for name, x in scores.items()}})
        rows[-1] |= {"links": sum(map(len, links)), "pairs_with_the_same_links": same}
        print(rows[-1])
    found = directory.chosen()["alignment"]
    lines = (__doc__ or "").replace("\\\n", "").splitlines()
    record = {
        "command": [" ".join(line.split()) for line in lines if "python" in line],
        "attention": {name: found[name] for name in ("layer", "head")},
        "pairs": len(gold),
        "engines": rows,
        "machine": machine(),
    }
    write_json(RESULT, record)


if __name__ == "__main__":
    main()
