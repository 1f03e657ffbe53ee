"""Measures whether --markup puts tags around the right words, on the demo corpus.

    python -m docs.studies.markup --model_dir=runs/demo

The words of the 500 test lines are linked with those of their references. In each line, a phrase of
one to three words gets a tag: words linked with words in a row, which are linked with no others.
A tag is right if it surrounds these words and no others. Only translations that are their
references are counted, as links of others are not known. Writes docs/results/noise/markup.json.
"""

import argparse
import html
import itertools
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from nmt_zoo.command_line.machine import machine
from nmt_zoo.common.files import read_lines, write_json
from nmt_zoo.model_directory.directory import ModelDirectory

ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "docs/results/noise/markup.json"
_TAG = re.compile(r"</?b>")


def phrases(line: str, links: str) -> list[tuple[int, int, set[int]]]:
    """Returns (first word, last word, words of the translation) of each phrase of a line."""
    words, found = line.split(), []
    pairs = [tuple(map(int, link.split("-"))) for link in links.split()]
    for first, size in itertools.product(range(len(words)), (1, 2, 3)):
        inside = range(first, first + size)
        targets = {t for s, t in pairs if s in inside}
        is_row = targets and max(targets) - min(targets) < len(targets)
        is_alone = all(s in inside for s, t in pairs if t in targets)
        if first + size <= len(words) and is_row and is_alone:
            found.append((first, inside[-1], targets))
    return found


def words_in_tags(line: str) -> set[int]:
    """Returns the numbers of the words, between spaces, that begin or go on inside of a tag."""
    found, number, inside, in_word = set(), -1, False, False
    for part in re.split(r"(</?b>)", line):
        if _TAG.fullmatch(part):
            inside = part == "<b>"
            continue
        for character in part:
            if character.isspace():
                in_word = False
                continue
            number += not in_word
            in_word = True
            if inside and character.isalnum():
                found.add(number)
    return found


def main() -> None:
    """Translates a page of the test lines, and counts."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--model_dir", default="runs/demo")
    parser.add_argument("--data_dir", default="data/demo")
    flags = parser.parse_args()
    paths = (Path(flags.data_dir, f"test.{end}") for end in ("en", "de", "en-de"))
    lines = [*zip(*map(read_lines, paths), strict=True)]
    draw, marked, chosen = random.Random(1), [], []
    for source, _, links in lines:
        words, (first, last, expected) = source.split(), draw.choice(phrases(source, links))
        stop = re.search(r"\W*$", words[last])[0]
        shown = [*words]
        shown[first] = f"<b>{shown[first]}"
        shown[last] = f"{shown[last].removesuffix(stop)}</b>{stop}"
        marked.append(f"<p>{' '.join(shown)}</p>")
        chosen.append(expected)
    with tempfile.TemporaryDirectory() as folder:
        page, written = (Path(folder, name) for name in ("page.html", "translated.html"))
        page.write_text("\n".join(marked), encoding="utf-8")
        words = ["translate.py", f"--model_dir={flags.model_dir}", "--markup=html"]
        words += [f"--input={page}", f"--output={written}", "--engine=tensorflow"]
        subprocess.run([sys.executable, *words], cwd=ROOT, check=True)
        found = re.findall(r"<p>(.*?)</p>", written.read_text(encoding="utf-8"), re.DOTALL)
    right = counted = 0
    for (_, reference, _), expected, line in zip(lines, chosen, found, strict=True):
        if html.unescape(_TAG.sub("", line)) == reference:
            counted += 1
            right += words_in_tags(line) == expected
    config = ModelDirectory(flags.model_dir).config()
    record = {
        "command": "python -m docs.studies.markup",
        "model": config["model"],
        "lines": len(lines),
        "counted": counted,
        "right": right,
        "machine": machine(),
    }
    write_json(RESULT, record)
    print(record)


if __name__ == "__main__":
    main()
