"""Draws the architectures that docs/models.md shows.

    python benchmarks/architecture_pictures.py

writes an .svg for each of `SHOWN` to docs/architectures.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from nmt_zoo.common import process

process.start()  # Before anything imports TensorFlow.

# isort: split

from nmt_zoo.command_line import console
from nmt_zoo.decoding.pictures.architecture_pictures import save_preset

FOLDER = ROOT / "docs" / "architectures"
SHOWN = ("ibm1", "phrase_based", "rnn_attention", "gru_bahdanau", "lstm_luong", "transformer_base")


def main(argv):
    """Draws the pictures."""
    del argv
    FOLDER.mkdir(exist_ok=True)
    for preset in SHOWN:
        save_preset(preset, {}, FOLDER / f"{preset}.svg")
    print(f"wrote {len(SHOWN)} pictures to {FOLDER.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    console.run(main)
