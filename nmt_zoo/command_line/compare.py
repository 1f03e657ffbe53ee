"""Compares translations of one text by several systems with its human translation.

    python compare.py --source=test.en --reference=test.de --outputs=lstm.de,transformer.de
    python compare.py --source=test.en --reference=test.de --outputs=a.de,b.de,c.de --names=A,B,C \\
        --train_source=train.en --train_target=train.de --page=compare.html

Prints scores with confidence intervals and tests of their differences; scores by length of the
source; matches of words by their frequency; repeated, dropped and copied words; and the sentences
where systems differ most. The systems may be of any kind. TensorFlow is not needed.
"""

from nmt_zoo.common import process

process.start(tensorflow=False)

import collections
import dataclasses
import functools
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

from nmt_zoo.command_line import console, flag_values
from nmt_zoo.command_line.flag_values import group, shortened
from nmt_zoo.command_line.machine import machine
from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import check_outputs, write_json, write_text
from nmt_zoo.common.progress import Progress
from nmt_zoo.configuration.options import AUTO
from nmt_zoo.data_pipeline.input_text import open_text, other_translation, windows
from nmt_zoo.data_pipeline.lines import open_target
from nmt_zoo.data_pipeline.text_form import is_blank
from nmt_zoo.decoding.alignment.parallel_text import ParallelText
from nmt_zoo.decoding.comparison.page import comparison_page, sentence_html
from nmt_zoo.decoding.comparison.report import (
    Table,
    compare,
    examples,
    tables,
    without_controls,
)
from nmt_zoo.decoding.comparison.words import Links, Texts
from nmt_zoo.decoding.scores import (
    METRICS,
    bleu_tokenizer,
    check_bleu_tokenizer,
    check_metrics,
    leading,
    remarks,
    sentence_chrf,
    word_splitter,
)
from nmt_zoo.training.ways.expectation_maximisation import text_alignment

_texts, _training, _scores, _results = map(group, ("Texts", "Training text", "Scores", "Results"))
_FEWEST, _MOST = 2, 6  # Systems.
_LONGEST_PAIR = 300  # Words of a side above which a pair is not aligned: cells are their product.
_LONGEST_SHOWN = 1000  # Characters of a line in the printed examples.


@dataclasses.dataclass(frozen=True)
class Arguments(flag_values.Arguments):
    """The flags of compare.py."""

    source: str = _texts(
        "",
        "File of the text that was translated, one sentence a line; or a test set in SGML or XML; "
        "or a .tsv.",
        required="the text that was translated",
    )
    reference: str = _texts(
        "",
        "File of its human translation; or the --source itself if it is a test set with one "
        "reference, or a .tsv of two columns. Blank lines are left out.",
        required="its human translation",
    )
    outputs: list[str] = _texts(
        [],
        f"Files of {_FEWEST} to {_MOST} translations, separated by commas.",
        required="the translations to compare",
    )
    names: list[str] = _texts(
        [], "Names of the systems, separated by commas. Default: names of the files."
    )
    train_source: str = _training(
        "",
        "Source side of a training text, from which the word alignments learn, too; as for "
        "train.py.",
        needs=("train_target",),
    )
    train_target: str = _training(
        "",
        "Target side of a training text, in which the frequency of words is counted. Default: the "
        "--reference.",
    )
    metrics: list[str] = _scores(["bleu", "chrf"], f"Scores to print: {', '.join(METRICS)}.")
    lowercase: bool = _scores(False, "Computes BLEU and compares words without regard to case.")
    tokenize: str = _scores(
        AUTO,
        "How BLEU and all figures of words divide the lines (sacrebleu --tokenize). auto: what "
        "suits the script of each text.",
    )
    examples: int = _results(10, "Most sentences to print.", 0, 10_000)
    page: str = _results("", "HTML file for the same figures and all sentences.")
    save_scores: str = _results("", "JSON file for the figures.")


def check_flags(flags: Arguments) -> None:
    """Raises `UserError` if flags contradict each other or something is missing."""
    flags.check()
    number = len(flags.outputs)
    if not _FEWEST <= number <= _MOST or not all(flags.outputs):
        paths = shortened(",".join(flags.outputs))
        raise UserError(
            f"--outputs: expected {_FEWEST} to {_MOST} files with commas between them, found "
            f"{sum(map(bool, flags.outputs))}: {paths}"
        )
    if len({*map(os.path.realpath, flags.outputs)}) < number:
        raise UserError("--outputs: the same file is given twice; give each system once")
    names = flags.names
    if names and (len(names) != number or not all(names) or len({*names}) < number):
        raise UserError(
            f"--names: expected {number} different names, one for each of --outputs, found "
            f"{shortened(','.join(names))}"
        )
    check_metrics(flags.metrics)
    check_bleu_tokenizer(flags.tokenize)
    texts = flags.source, flags.reference, flags.train_source, flags.train_target
    inputs = [*flags.outputs, *itertools.chain.from_iterable(text.split(",") for text in texts)]
    check_outputs(filter(None, (flags.page, flags.save_scores)), filter(None, inputs))


def read_texts(flags: Arguments) -> tuple[list[int], Texts, list[str]]:
    """Reads all texts of one test set.

    Returns the line numbers, from 1, of all lines with a reference; the texts of these lines; and
    remarks on what is left out.
    """
    text = open_text(flags.source, reference=flags.reference)
    source = [line for _, lines in windows(text.read, text.size) for line in lines]
    if len(text.references) > 1:
        raise UserError(
            f"{flags.reference}: holds {len(text.references)} references; give a file with one"
        )
    files = [os.path.basename(path) for path in flags.outputs]
    # With folders if the names would be equal.
    names = flags.names or (files if len({*files}) == len(files) else flags.outputs)
    paths = zip(names, flags.outputs, strict=True)
    outputs = {name: other_translation(path, flags.source, source) for name, path in paths}
    every = Texts(source, text.references[0], outputs)
    scored = [n for n, line in enumerate(every.reference) if not is_blank(line)]
    warnings = remarks(
        [every.reference],
        [*itertools.chain(*outputs.values())],
        flags.metrics,
        flags.tokenize == AUTO,
    )
    return [n + 1 for n in scored], every.of(scored), warnings


def read_training(
    flags: Arguments, splitters: list[Callable], fold: Callable[[str], str]
) -> list[list[list[str]]]:
    """Returns the words of the training text, (source, target); the source may be empty."""
    if flags.train_source:
        sides = ParallelText.read(flags.train_source, flags.train_target).lines
    else:
        sides = ([], open_target(("", flags.train_target)) if flags.train_target else [])
    with Progress("reading the training text", sum(map(len, sides)), "lines") as progress:

        def divided(line, split):
            progress.update(1)
            return [sys.intern(fold(word)) for word in split(line)]

        pairs = zip(sides, splitters, strict=True)
        return [[divided(line, split) for line in lines] for lines, split in pairs]


def align(words: Texts, training: list[list]) -> Links:
    """Aligns the source with the reference and every output, and with the training text at once.

    Equal translations have equal links, and the order of the systems does not matter.
    """
    texts = [words.reference, *words.outputs.values()]
    keys = ["\n".join(map(" ".join, text)) for text in texts]
    distinct = sorted(dict(zip(keys, texts, strict=True)).items())
    pairs = [pair for _, text in distinct for pair in zip(words.source, text, strict=True)]
    is_short = [max(map(len, pair)) <= _LONGEST_PAIR for pair in pairs]
    trained = [*zip(*training, strict=True)] if training[0] else []
    aligned = [pair if short else ([], []) for pair, short in zip(pairs, is_short, strict=True)]
    links = text_alignment.usual_links(list(zip(*trained, *aligned, strict=True)))
    links = zip(itertools.islice(links, len(trained), None), is_short, strict=True)
    linked = ({source for source, _ in pair} if short else None for pair, short in links)
    of_key = {key: [*itertools.islice(linked, len(text))] for key, text in distinct}
    reference, *outputs = (of_key[key] for key in keys)
    return Links(reference, dict(zip(words.outputs, outputs, strict=True)))


def table_lines(table: Table) -> list[str]:
    """Formats a table as lines of text, with its columns aligned."""
    rows = [[*map(without_controls, row)] for row in (table.head, *table.rows)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join([row[0].ljust(widths[0]), *cells[1:]]).rstrip())
    return [table.title, *lines, *(f"({without_controls(note)})" for note in table.notes), ""]


def example_lines(
    numbers: list[int], lines: Texts, chrf: dict[str, list[float]], most: int
) -> Iterable[str]:
    """Yields the sentences where systems differ most, as lines of text."""
    width = max(len("reference"), *(len(without_controls(name)) for name in lines.outputs))
    for title, indices in examples(chrf, most):
        if indices:
            yield f"Sentences where {without_controls(title)} (numbers: chrF)"
        for index in indices:
            yield f"line {numbers[index]:,}"
            rows = [("source", "", lines.source), ("reference", "", lines.reference)]
            rows += [(n, f"{chrf[n][index]:.1f}", text) for n, text in lines.outputs.items()]
            for name, score, text in rows:
                line = without_controls(text[index])
                shown = "(empty)" if is_blank(line) else shortened(line, _LONGEST_SHOWN)
                yield f"  {without_controls(name):{width}} {score:>5}  {shown}"
        if indices:
            yield ""


def record_of(flags: Arguments, tokenize: list[str], report: dict[str, Any]) -> dict[str, Any]:
    """Returns the entries of --save_scores; numbers are rounded to four digits."""
    figures = json.loads(json.dumps(report), parse_float=lambda text: round(float(text), 4))
    names = ("source", "reference", "outputs", "train_source", "train_target", "lowercase")
    return {
        **{name: getattr(flags, name) for name in names},
        "tokenize": tokenize,
        **figures,
        "machine": machine(),
    }


def main(flags: Arguments) -> int:
    """Reads the texts; writes the comparison if flags, and prints it."""
    check_flags(flags)
    numbers, lines, warnings = read_texts(flags)
    tokenize = [flags.tokenize] * 2
    if flags.tokenize == AUTO:
        chosen = [bleu_tokenizer([side]) for side in (lines.source, lines.reference)]
        tokenize, (_, reason) = [name for name, _ in chosen], chosen[1]
        warnings += filter(None, [reason])
    splitters = [*map(word_splitter, tokenize)]
    fold = str.lower if flags.lowercase else str
    written = lines.map(*splitters)
    words = written.map(*[lambda line: [*map(fold, line)]] * 2)
    training = read_training(flags, splitters, fold)
    links = align(words, training)
    counts = collections.Counter(itertools.chain.from_iterable(training[1] or words.reference))
    options = {"lowercase": flags.lowercase, "tokenize": tokenize[1]}
    with Progress("scoring", 2 * len(lines.outputs) * len(numbers), "translations") as progress:
        report = compare(
            *(lines, words, links, counts),
            metrics=leading(flags.metrics, [lines.reference]),
            progress=progress.update,
            **options,
        )
        chrf = {}
        for system, output in lines.outputs.items():
            chrf[system] = sentence_chrf(output, lines.reference)
            progress.update(len(output))
    shown = [*tables(report, "the training text" if training[1] else "the reference itself")]
    if flags.page:
        title = f"Translations of {os.path.basename(flags.source)}"
        sentences = (
            sentence_html(number, lines, written, chrf, index, fold)
            for index, number in enumerate(numbers)
        )
        write_text(
            flags.page, comparison_page(title, warnings, report["systems"], shown, sentences)
        )
    if flags.save_scores:
        write_json(flags.save_scores, record_of(flags, tokenize, report))
    print(*warnings, sep="\n", end="\n" * bool(warnings), file=sys.stderr)
    console.write_result(*itertools.chain.from_iterable(map(table_lines, shown)))
    console.write_result(*example_lines(numbers, lines, chrf, flags.examples))
    for path in filter(None, (flags.page, flags.save_scores)):
        print(f"wrote {path}")
    return 0


command = functools.partial(console.run, main, Arguments)
