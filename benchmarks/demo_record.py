"""Writes what README.md says of `make demo`, its record and two pictures; run by `make figures`.

    python benchmarks/demo_record.py

It reads what `make demo` has left in runs/demo. The picture of the page needs chromium. Scores of
other seeds stay in the record.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from nmt_zoo.command_line import console
from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import read_lines, write_json

RUN = "runs/demo"
RECORD = ROOT / "docs" / "results" / "demo_en_de_transformer_tiny.json"
SIZE = (1100, 780)  # Pixels of the picture of the page: all that is above its tables.


def main(argv):
    """Writes the record and the pictures."""
    del argv
    before = json.loads(RECORD.read_text(encoding="utf-8"))
    chromium = shutil.which("chromium")
    if not chromium:
        raise UserError("chromium is not installed; on Debian, apt-get install chromium")
    record = json.loads((ROOT / RUN / "scores.json").read_text(encoding="utf-8"))
    origin = {"data": "demo corpus en-de, test", "command": ["make demo"]}
    write_json(RECORD, {**record, **origin, "seeds": before.get("seeds", {})})
    shutil.copy(ROOT / RUN / "attention.png", ROOT / "docs" / "attention.png")
    sentence, page = read_lines(ROOT / "data" / "demo" / "test.en")[30], f"{RUN}/attention.html"
    shown = [f"--source={sentence}", f"--output={page}"]
    script = [sys.executable, "visualize_attention.py", f"--model_dir={RUN}", *shown]
    subprocess.run(script, cwd=ROOT, check=True)
    options = ["--headless=new", "--no-sandbox", "--hide-scrollbars"]
    options += [f"--window-size={SIZE[0]},{SIZE[1]}", f"--screenshot={ROOT}/docs/explorer.png"]
    subprocess.run([chromium, *options, (ROOT / page).as_uri()], check=True, capture_output=True)
    return 0


if __name__ == "__main__":
    console.run(main)
