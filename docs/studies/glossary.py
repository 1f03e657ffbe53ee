"""Measures --glossary: terms met, where they stand, and what happens to the other lines.

    python -m docs.studies.glossary --model_dir=runs/x --text=data/multi30k_en_de/test

Of the text, PREFIX.en and PREFIX.de, the first 200 lines with a term and the first 200 without one
are translated twice, with the terms and without. Writes docs/results/noise/glossary.json.
"""

import argparse
import itertools
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from nmt_zoo.command_line.machine import machine
from nmt_zoo.common.files import read_lines, write_json
from nmt_zoo.decoding.scores import corpus_scores
from nmt_zoo.decoding.search.phrases import has_phrase
from nmt_zoo.decoding.text.glossary import Glossary
from nmt_zoo.model_directory.directory import ModelDirectory

ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "docs/results/noise/glossary.json"
# Words that training text uses, words that it uses little, and words that it lacks.
TERMS = {
    "dog": "Hund",
    "street": "Straße",
    "table": "Tisch",
    "water": "Wasser",
    "bike": "Rad",
    "car": "Wagen",
    "crowd": "Menschenmenge",
    "tennis ball": "Tennisball",
    "ball": "Spielball",
    "beach": "Ufer",
    "building": "Bauwerk",
    "field": "Acker",
    "hat": "Kappe",
    "helmet": "Schutzhelm",
    "jacket": "Anorak",
    "boy": "Knabe",
    "couch": "Kanapee",
    "sidewalk": "Trottoir",
}


def translated(lines: list[str], model_dir: str, *flags: str) -> list[str]:
    """Translates lines by translate.py."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = (Path(folder, name) for name in ("source", "target"))
        source.write_text("\n".join(lines) + "\n", encoding="utf-8")
        words = ["translate.py", f"--model_dir={model_dir}", f"--input={source}"]
        words += [f"--output={target}", "--engine=tensorflow", *flags]
        subprocess.run([sys.executable, *words], cwd=ROOT, check=True)
        return read_lines(target)


def bleu(lines: list[str], references: list[str]) -> float:
    """Returns sacreBLEU's BLEU."""
    return round(corpus_scores(lines, [references], metrics=["bleu"])["bleu"].score, 2)


def measure(model_dir: str, text: str, path: Path) -> dict[str, Any]:
    """Translates with the terms of a file and without, and counts."""
    write = "".join(f"{term}\t{wanted}\n" for term, wanted in TERMS.items())
    path.write_text(write, encoding="utf-8")
    glossary = Glossary(str(path))
    lines = [*zip(*(read_lines(f"{text}.{side}") for side in ("en", "de")), strict=True)]
    having, others = (
        [*itertools.islice((x for x in lines if bool(glossary.find(x[0])) is has), 200)]
        for has in (True, False)
    )
    (sources, references), (other_sources, other_references) = (
        map(list, zip(*part, strict=True)) for part in (having, others)
    )
    both = sources + other_sources
    plain = translated(both, model_dir)
    asked = translated(both, model_dir, f"--glossary={path}")
    rows, places = dict.fromkeys(TERMS.values(), (0, 0, 0, 0)), []
    for number, source in enumerate(sources):
        for wanted in glossary.find(source):
            is_met, was_met = (has_phrase(x[number], wanted) for x in (asked, plain))
            words = asked[number].rstrip(" .").split(" ")
            is_last = is_met and not was_met and has_phrase(" ".join(words[-2:]), wanted)
            source_words = source.rstrip(" .").split(" ")
            term = next(term for term in TERMS if TERMS[term] == wanted)
            is_last = is_last and not has_phrase(" ".join(source_words[-3:]).lower(), term)
            found = (1, is_met, was_met, is_last)
            rows[wanted] = tuple(map(sum, zip(rows[wanted], found, strict=True)))
            if is_last or not is_met:
                places.append({"source": source, "translation": asked[number], "term": wanted})
    of_others = [x[len(sources) :] for x in (plain, asked)]
    return {
        "command": "python -m docs.studies.glossary",
        "model": ModelDirectory(model_dir).config()["model"],
        "terms": {
            f"{term} = {wanted}": dict(
                zip(("asked", "met", "met_without", "moved_to_the_end"), rows[wanted], strict=True)
            )
            for term, wanted in TERMS.items()
        },
        "lines_with_a_term": len(sources),
        "bleu_of_these": {
            "without": bleu(plain[: len(sources)], references),
            "with": bleu(asked[: len(sources)], references),
        },
        "lines_without_a_term": len(other_sources),
        "bleu_of_the_others": {
            "without": bleu(of_others[0], other_references),
            "with": bleu(of_others[1], other_references),
        },
        "others_that_differ": sum(a != b for a, b in zip(*of_others, strict=True)),
        "at_the_end_or_not_met": places,
        "machine": machine(),
    }


def main() -> None:
    """Measures, writes the record and prints its sums."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model_dir", required=True)
    parser.add_argument("--text", default="data/multi30k_en_de/test", metavar="PREFIX")
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        record = measure(flags.model_dir, flags.text, Path(folder, "terms.tsv"))
    write_json(RESULT, record)
    for name in ("asked", "met", "met_without", "moved_to_the_end"):
        print(name, sum(row[name] for row in record["terms"].values()))
    print({name: record[name] for name in ("bleu_of_these", "bleu_of_the_others")})


if __name__ == "__main__":
    main()
