"""Teaches a model of a megabyte the translations of larger ones, and measures both.

    python -m docs.studies.student --teachers=runs/record/record-1,runs/record/record-2
    python -m docs.studies.student --teachers=runs/record/record-1 -- --set=width=112

The text is that of record.py. `runs/student.sh` teaches. docs/results/studies/student.json has the
figures: BLEU of the test text, sizes in bytes, and sentences a second of greedy searches
(benchmarks/speed.py).
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.tables.cells import markdown, with_tables
from docs.studies.trials import ROOT, run
from nmt_zoo.command_line.machine import machine
from nmt_zoo.common.files import write_json, write_text

RESULTS, PAGE = ROOT / "docs/results/studies/student.json", ROOT / "docs/studies/student.md"
GREEDY, BEAM = "--beam_size=1", "--beam_size=5"


def scores(flags: Any, name: str, *how: str) -> dict[str, Any]:
    """Translates the test text with translate.py; returns its scores."""
    text, out = f"{flags.data_dir}/multi30k_en_de_lower/test", f"{flags.runs}/{name}"
    files = [f"--input={text}.en", f"--reference={text}.de"]
    files += [f"--output={out}.de", f"--save_scores={out}.json"]
    run(sys.executable, "translate.py", *how, *files)
    found = json.loads(Path(f"{out}.json").read_text())
    kept = ("beam_size", "length_penalty", "engine", "bleu", "bleu_signature", "chrf")
    kept += ("parameters", "translation_seconds")
    return {"name": name, **{key: found[key] for key in kept if key in found}}


def newest(folder: Path) -> Path:
    """Returns the newest version in a folder of exports."""
    return max(folder.glob("[0-9]*"), key=lambda path: int(path.name))


def size(path: Path) -> int:
    """Returns the bytes of a file, or of all files of a folder."""
    files = [path] if path.is_file() else path.rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file())


def measured(flags: Any) -> dict[str, Any]:
    """Measures the teachers and the student that runs/student.sh has left."""
    teachers, runs = flags.teachers.split(","), Path(flags.runs)
    student, engine = f"--model_dir={runs}/model", f"--export_dir={runs}/ctranslate2"
    rows = [
        scores(flags, "teachers together", f"--model_dir={flags.teachers}", BEAM),
        scores(flags, "one teacher", f"--model_dir={teachers[0]}", BEAM),
        scores(flags, "student", student, BEAM, "--engine=tensorflow"),
        scores(flags, "student, greedy", student, GREEDY, "--engine=tensorflow"),
        scores(flags, "student in 8 bits, CTranslate2, beam 5", engine, BEAM),
        scores(flags, "student in 8 bits, CTranslate2, greedy", engine, GREEDY),
    ]
    forms = {"CTranslate2": newest(runs / "ctranslate2"), "SavedModel": newest(runs / "savedmodel")}
    forms["Argos Translate"] = next(runs.glob("*.argosmodel"))
    sizes = {name: size(path) for name, path in forms.items()}
    source = f"--source={flags.data_dir}/multi30k_en_de_lower/test.en"
    speed = [f"--model_dir={runs}/model", source, f"--output={runs}/speed.json", "--random"]
    how = ["--beams", "1", "--lines", "1000"]
    run(sys.executable, "benchmarks/speed.py", *speed, *how)
    (case,) = json.loads(Path(runs, "speed.json").read_text())["cases"]
    record = {"machine": machine(), "student": flags.student, "scores": rows, "bytes": sizes}
    return record | {"speed": case}


def tables(record: dict[str, Any]) -> dict[str, list[str]]:
    """Returns the lines of the tables by name."""
    rows = [["model", "parameters", "BLEU", "chrF"]]
    for row in record["scores"]:
        rows.append(
            [row["name"], f"{row['parameters']:,}", f"{row['bleu']:.2f}", f"{row['chrf']:.2f}"]
        )
    sizes = [["form", "bytes"], *([name, f"{count:,}"] for name, count in record["bytes"].items())]
    batch, single = record["speed"]["modes"]
    speeds = [["engine", "sentences a second, batches of 32", "alone", "ms, median"]]
    for kind, setting in batch["fastest"].items():
        (rate,) = (
            e["sentences_per_second"]
            for e in batch["engines"]
            if (e["kind"], e["setting"]) == (kind, setting)
        )
        alone = max(
            (e for e in single["engines"] if e["kind"] == kind),
            key=lambda e: e["sentences_per_second"],
        )
        latency = f"{alone['latency_ms']['median']:.2f}"
        speeds.append(
            [f"{kind}, {setting}", f"{rate:,.0f}", f"{alone['sentences_per_second']:,.0f}", latency]
        )
    return {
        name: markdown(table)
        for name, table in (("scores", rows), ("sizes", sizes), ("speeds", speeds))
    }


def main() -> None:
    """Teaches, measures, and writes the record and the tables of the page."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--teachers", required=True, help="model directories, with commas")
    parser.add_argument("--data_dir", default="data")
    parser.add_argument("--runs", default="runs/student")
    parser.add_argument("student", nargs="*", help="flags of train.py for the student")
    flags = parser.parse_args()
    text = f"{flags.data_dir}/multi30k_en_de_lower"
    variables = {"PYTHON": sys.executable, "RUNS": flags.runs, "TEACHERS": flags.teachers}
    variables |= {"SOURCE": f"{text}/train.en", "TARGET": f"{text}/train.de"}
    variables |= {"VALID_SOURCE": f"{text}/valid.en", "VALID_TARGET": f"{text}/valid.de"}
    run("runs/student.sh", *flags.student, **variables)
    record = measured(flags)
    write_json(RESULTS, record)
    write_text(PAGE, with_tables(PAGE.read_text(encoding="utf-8"), tables(record)))


if __name__ == "__main__":
    main()
