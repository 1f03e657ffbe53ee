"""Writes the tables of README.md, docs/results.md, docs/models.md and docs/options.md.

    python benchmarks/results_table.py

The files directly in docs/results/ are written by `translate.py
--save_scores=docs/results/NAME.json`; "data", "command" and "published" are added to them by hand.
The files in its folders are written by the script named in the docstring of their table's function.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from nmt_zoo.common import process

process.start()  # Before anything imports TensorFlow.

# isort: split

from benchmarks.tables import (
    coursework_tables,
    model_tables,
    reliability_tables,
    score_tables,
    speed_tables,
)
from nmt_zoo.command_line import console

DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "docs/results.md", "docs/models.md")),
    *(
        ROOT / "docs" / f"{name}.md"
        for name in ("options", "devices", "statistical_neural", "coursework")
    ),
]

TABLES = {
    "demo": score_tables.demo_output,
    "speed": speed_tables.update_sentence,
    "structure": reliability_tables.structure_table,
    "models": model_tables.model_table,
    "settings": model_tables.settings_table,
    "options": model_tables.options_table,
    "rules": model_tables.rules_table,
    "results": score_tables.general_table,
    "europarl10k": score_tables.europarl_table,
    "methods": score_tables.methods_table,
    "demo_alignment": score_tables.alignment_table,
    "aligners": lambda: score_tables.aligner_table("hansards"),
    "aligners_held_out": lambda: score_tables.aligner_table("demo_held_out"),
    "phrases": score_tables.phrases_table,
    "pretrained": score_tables.pretrained_table,
    "tuning": score_tables.tuning_table,
    "languages": score_tables.languages_table,
    "pronouns": score_tables.pronouns_table,
    "kinds": score_tables.kinds_table,
    "coursework": coursework_tables.score_table,
    "coursework_words": coursework_tables.words_output,
    "coursework_examples": coursework_tables.example_table,
    "noisy_channel": score_tables.noisy_channel_table,
    "pipeline": speed_tables.pipeline_table,
    "faults": reliability_tables.faults_table,
    "rivals": speed_tables.rivals_table,
    "updates": speed_tables.update_table,
    "recurrent": speed_tables.recurrent_table,
    "decoding": speed_tables.decoding_table,
    "serving": speed_tables.serving_table,
    "shortlist": speed_tables.shortlist_table,
}


def outdated():
    """Maps path -> text that it should have, for documents whose tables differ from the files."""
    found = {}
    for document in DOCUMENTS:
        text = new = document.read_text(encoding="utf-8")
        for name, table in TABLES.items():
            start, end = f"<!-- {name}: start -->\n", f"<!-- {name}: end -->\n"
            if start in new:
                before, rest = new.split(start)
                new = before + start + "\n".join(table()) + "\n" + end + rest.split(end)[1]
        if new != text:
            found[document] = new
    return found


def main(argv):
    """Rewrites the documents."""
    del argv
    for document, text in outdated().items():
        document.write_text(text, encoding="utf-8")
        print(f"wrote {document.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    console.run(main)
