"""Compares translations of one text by several systems: figures, and the tables that show them."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from nmt_zoo.decoding.comparison.words import Links, Texts, faults, word_matches
from nmt_zoo.decoding.scores import corpus_scores, system_scores

NAMES = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER"}
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f]")
_STEP, _LONGEST = 10, 60  # Words of a class of lengths; lengths above the longest are one class.


def without_controls(text: str) -> str:
    r"""Returns a text with control characters as escapes, such as a tab as `\t`."""
    return _CONTROLS.sub(lambda control: ascii(control[0])[1:-1], text)


def length_class(length: int) -> int:
    """Returns the number of the class of a length in words: 0, 1 to 10, 11 to 20, and so on."""
    return -(-min(length, _LONGEST + 1) // _STEP)


def _length_name(number):
    first = (number - 1) * _STEP + 1
    if number == 0:
        return "0"
    return f"{first}-{number * _STEP}" if first <= _LONGEST else f"more than {_LONGEST}"


def compare(
    lines: Texts,
    words: Texts,
    links: Links,
    counts: Mapping[str, int],
    *,
    metrics: Sequence[str],
    progress: Callable[[int], Any] = lambda count: None,
    **bleu_options: Any,
) -> dict[str, Any]:
    """Returns all figures of a comparison as JSON values, see `tables` for how they are shown.

    `words` are the words of `lines`, none of whose references is blank; `links` are for `faults`
    and `counts` for `word_matches`. `metrics` and `bleu_options` are as for `corpus_scores`.
    `progress` is called with a number of translations after they were scored.
    """
    systems = list(lines.outputs)
    texts, reference = list(lines.outputs.values()), [lines.reference]
    best, scored = system_scores(texts, reference, metrics, **bleu_options)
    progress(len(texts) * len(lines.source))
    return {
        "systems": systems,
        "sentences": len(lines.source),
        "best": systems[best],
        "scores": {
            metric: {
                "signature": signature,
                "systems": {
                    name: score._asdict() for name, score in zip(systems, scores, strict=True)
                },
            }
            for metric, (signature, scores) in scored.items()
        },
        "by_length": _by_length(lines, words, metrics, bleu_options),
        "by_frequency": word_matches(words, counts),
        "faults": faults(words, links),
    }


def _by_length(lines, words, metrics, bleu_options):
    classes: dict[int, list[int]] = {}
    for number, line in enumerate(words.source):
        classes.setdefault(length_class(len(line)), []).append(number)
    records = []
    for length, numbers in sorted(classes.items()):
        part = lines.of(numbers)
        scores = {
            system: corpus_scores(output, [part.reference], metrics, **bleu_options)
            for system, output in part.outputs.items()
        }
        records.append(
            {
                "words": _length_name(length),
                "sentences": len(numbers),
                "scores": {
                    metric: {system: scores[system][metric].score for system in scores}
                    for metric in metrics
                },
            }
        )
    return records


def examples(chrf: Mapping[str, Sequence[float]], most: int) -> list[tuple[str, list[int]]]:
    """Chooses sentences where systems differ most: at most `most`, shared among the kinds.

    `chrf` is system -> the chrF of each of its lines. Returns (kind, numbers of sentences, the
    clearest first): where each system is better than all others, and where all are worst.
    """
    scores = list(zip(*chrf.values(), strict=True))
    kinds = [
        (
            f"{system} is better than the others",
            [of_line[n] - max(of_line[:n] + of_line[n + 1 :]) for of_line in scores],
        )
        for n, system in enumerate(chrf)
    ]
    chosen = []
    for number, (title, gains) in enumerate(kinds):
        order = sorted(range(len(gains)), key=lambda n: -gains[n])
        share = len(range(number, most, len(kinds) + 1))
        chosen.append((title, [n for n in order if gains[n] > 0][:share]))
    worst = sorted(range(len(scores)), key=lambda n: max(scores[n]))
    share = len(range(len(kinds), most, len(kinds) + 1))
    return [*chosen, ("even the best translation is poor", worst[:share])]


class Table(NamedTuple):
    """A table of texts. The first column names the row; all others are numbers."""

    title: str
    head: list[str]
    rows: list[list[str]]
    notes: list[str]


def tables(report: dict[str, Any], frequencies_of: str) -> Iterator[Table]:
    """Yields the tables of a `compare` report; `frequencies_of` names the text of `counts`."""
    yield _score_table(report)
    systems = report["systems"]
    for metric in report["scores"]:
        rows = [
            [record["words"], f"{record['sentences']:,}"]
            + [f"{record['scores'][metric][system]:.2f}" for system in systems]
            for record in report["by_length"]
        ]
        title = f"{NAMES[metric]} by length of the source"
        yield Table(title, ["words", "sentences", *systems], rows, [])
    rows = [
        [record["frequency"], f"{record['reference_words']:,}"]
        + [_in_percent(record["systems"][system]) for system in systems]
        for record in report["by_frequency"]
        if record["reference_words"] or any(s["words"] for s in record["systems"].values())
    ]
    title = f"Precision, recall and F1 of words, in percent, by frequency in {frequencies_of}"
    note = "a word is right wherever it stands in its line"
    yield Table(title, ["frequency", "in reference", *systems], rows, [note])
    yield _fault_table(report)


def _score_table(report):
    scores, best = report["scores"], report["best"]
    head, rows = ["system"], [[system] for system in report["systems"]]
    for metric, of_metric in scores.items():
        head += [NAMES[metric], "±", "p"]
        for row, score in zip(rows, of_metric["systems"].values(), strict=True):
            p_value = "best" if score["p_value"] is None else f"{score['p_value']:.3f}"
            row += [f"{score['score']:.2f}", f"{score['interval']:.2f}", p_value]
    first = NAMES[next(iter(scores))]
    notes = [
        "±: 95% confidence interval, by resampling the sentences",
        f"p: paired bootstrap against {best}, the best by {first}; below 0.05, the difference is "
        "hardly chance",
        *(of_metric["signature"] for of_metric in scores.values()),
    ]
    return Table(f"Scores of {report['sentences']:,} sentences", head, rows, notes)


def _in_percent(record):
    values = (record["precision"], record["recall"], record["f1"])
    return " ".join("   -" if v is None else f"{100 * v:4.0f}" for v in values).lstrip()


def _fault_table(report):
    rows = []
    for system, counts in report["faults"].items():
        length, share = counts["length_ratio"], counts["dropped_share"]
        rows.append(
            [system, "-" if length is None else f"{length:.2f}"]
            + [f"{counts[name]:,}" for name in ("empty", "dropped")]
            + ["-" if share is None else f"{100 * share:.1f}%"]
            + [f"{counts[name]:,}" for name in ("doubled", "repeated", "copied")]
        )
    notes = [
        "length: words for each word of the reference; empty: lines without a word",
        "dropped: source words with a link to the reference and none to the translation",
        "doubled: words that follow themselves; repeated: three words that come again in a line, "
        "unlike in source and reference",
        "copied: source words that the reference text has nowhere",
    ]
    if unaligned := max(counts["unaligned"] for counts in report["faults"].values()):
        notes.append(f"sentences too long to be aligned, without dropped words: {unaligned:,}")
    head = ["system", "length", "empty", "dropped", "%", "doubled", "repeated", "copied"]
    return Table("Repeated, dropped and copied words", head, rows, notes)
