"""Writes the result table of README.md from docs/results/*.json.

    python benchmarks/results_table.py            rewrites the table
    python benchmarks/results_table.py --check    fails if the README is not what the files say

The JSON files are written by `translate.py --reference=... --save_scores=docs/results/NAME.json`;
"data", "command" and "published" are added by hand beside the measured figures.
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
START, END = "<!-- results: start -->\n", "<!-- results: end -->\n"
COLUMNS = ("model", "data", "parameters", "BLEU", "chrF", "training", "machine", "details")


def row(path):
    """The table row of one result file."""
    r = json.loads(path.read_text(encoding="utf-8"))
    training = r["training"]
    return (
        f"`{r['model']}`",
        r["data"],
        f"{r['parameters'] / 1e6:.2f} M",
        f"**{r['bleu']:.2f}**" + (f" ({r['published']})" if r.get("published") else ""),
        f"{r['chrf']:.2f}",
        f"{training['minutes']:.0f} min, {training['steps']:,} steps, seed {r['options']['seed']}",
        f"{r['machine']['processor']}",
        f"[{path.stem}](docs/results/{path.name})",
    )


def table():
    """The whole table in Markdown, with commands and signatures below it."""
    paths = sorted((ROOT / "docs" / "results").glob("*.json"))
    rows = [COLUMNS, ("---",) * len(COLUMNS), *map(row, paths)]
    lines = [f"| {' | '.join(cells)} |" for cells in rows]
    for path in paths:
        r = json.loads(path.read_text(encoding="utf-8"))
        lines += ["", f"{path.stem} (`{r['bleu_signature']}`, beam {r['beam_size']}):", "```"]
        lines += [*r["command"], "```"]
    return "\n".join(lines) + "\n"


def main():
    """Rewrites or checks the README."""
    text = README.read_text(encoding="utf-8")
    before, rest = text.split(START)
    after = rest.split(END)[1]
    new = before + START + table() + END + after
    if "--check" in sys.argv[1:]:
        if new != text:
            sys.exit("README.md: the result table is not that of docs/results; run this script")
        return
    README.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
