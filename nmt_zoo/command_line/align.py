"""Links the words of a text with the words of its translation.

    python align.py --source=a.en --target=a.de --alignments=a.align
    python align.py --source=a.en-de --model=ibm2 --symmetrise=intersection --alignments=a.align
    python align.py --model_dir=runs/x --source=a.en --target=a.de --gold=a.gold --lexicon=a.lex

The first two commands train models of both directions on the text itself, without TensorFlow. The
third command aligns with a model that train.py has trained. A line of `a.en` and a line of `a.de`,
or one line of `a.en-de` with both:

    the old dog runs
    der alte Hund läuft
    the old dog runs ||| der alte Hund läuft

become a line of `a.align`, with `i-j` for source word i and target word j, counted from 0:

    0-0 1-1 2-2 3-3
"""

from nmt_zoo.common import process

process.start(tensorflow=False)

import dataclasses
import functools
import sys
from typing import Any

from nmt_zoo.command_line import console, flag_values
from nmt_zoo.command_line.flag_values import group, language_flag, number_or
from nmt_zoo.command_line.machine import machine
from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import check_outputs, write_json, write_lines
from nmt_zoo.data_pipeline.encoded import EncodedCorpus
from nmt_zoo.data_pipeline.text_form import split_words
from nmt_zoo.decoding.alignment.links import (
    AGREED,
    SYMMETRISATIONS,
    read_alignments,
    read_gold,
    score_alignments,
    symmetrise,
    write_alignments,
)
from nmt_zoo.decoding.alignment.parallel_text import ParallelText
from nmt_zoo.decoding.unknowns import write_lexicon
from nmt_zoo.training.ways.expectation_maximisation import text_alignment
from nmt_zoo.training.ways.expectation_maximisation.corpus_links import CorpusLinks
from nmt_zoo.training.ways.phrases.extraction import link_text, parallel_phrases

_JOINED = (*SYMMETRISATIONS, "agree")
_text, _training = group("Text and links"), group("Training on the text")
_instead, _choice, _scores = map(group, ("Instead of training", "Choice of links", "Scores"))
_HEADS = "mean", "auto"
_LONG = 500  # Words. A pair of so many takes seconds, one of four times as many some minutes.
_PHRASE = 10  # Words.
_OF_TRAINING = dict.fromkeys(
    ("model", "iterations", "symmetrise=forward|reverse"), "it is for training"
)


@dataclasses.dataclass(frozen=True)
class Arguments(flag_values.Arguments):
    """The flags of align.py."""

    source: str = _text(
        "",
        "File of text to align, one sentence a line.",
        required="the text to align, with its --target",
        unless=("from_alignments",),
    )
    target: str = _text(
        "",
        "File of its translation. Default: the text after ||| in --source.",
        needs=("source",),
    )
    alignments: str = _text(
        "",
        "File for the links i-j, words counted from 0.",
        required="the output",
        unless=("gold", "lexicon", "phrases"),
    )
    lexicon: str = _text(
        "",
        "File for word translations, for translate.py --lexicon, counted from the links.",
        needs=("source",),
    )
    phrases: list[str] = _text(
        [],
        f"Two files, for phrases of the text of up to {_PHRASE} words and for their translations.",
        needs=("source",),
    )
    model: str = _training(
        "fertility",
        "Model that is trained on the text. fertility: HMM with word fertilities (how many target "
        "words each source word generates).",
        choices=text_alignment.ITERATIONS,
    )
    iterations: int | None = _training(
        None,
        "Number of iterations of each stage: ibm1, then ibm2 or hmm, then fertility, as far as "
        "--model asks for them. Default: 2 with fertility, otherwise 5.",
        1,
        1000,
    )
    model_dir: str = _instead(
        "",
        "Directory of a model from source to target, as train.py wrote it.",
        excludes=_OF_TRAINING,
    )
    reverse_model_dir: str = _instead(
        "",
        "Directory of a model from target to source, as train.py wrote it.",
        excludes=_OF_TRAINING,
    )
    source_language: str = language_flag(_instead, "source")
    target_language: str = language_flag(_instead, "target")
    layer: int | None = _instead(
        None,
        "Attention layer that gives the links, counted from 1. Default: the guided one, or the one "
        "that aligned validation text best; of a model without these, the last but one.",
        1,
        needs=("model_dir or reverse_model_dir",),
        excludes={"head=auto": "it chooses the layer, too"},
    )
    head: str = _instead(
        "",
        "Attention head of that layer, counted from 1, or mean. auto: the head of any layer that "
        "agrees best with a model that is trained on the text, as without --model_dir. Default: "
        "mean if --layer is given; otherwise as --layer.",
        needs=("model_dir or reverse_model_dir",),
    )
    from_alignments: list[str] = _instead(
        [],
        "File of links to use instead of a model, or two files to join.",
        excludes={
            **dict.fromkeys(
                ("model_dir", "reverse_model_dir", "layer", "head"),
                "links replace models",
            ),
            **dict.fromkeys(("threshold", "symmetrise=agree"), "links have no weights"),
            **_OF_TRAINING,
        },
    )
    symmetrise: str | None = _choice(
        None,
        "How two directions become one. agree: both models are trained to agree, and the "
        "geometric mean (fertility: the mean) of their probabilities decides. forward, reverse: "
        "only this direction is trained. Default when training: agree.",
        choices=(*_JOINED, "forward", "reverse"),
    )
    threshold: float | None = _choice(
        None,
        f"Weight that a link must exceed. Default: {AGREED} with agree, "
        f"{text_alignment.LIKELY} with agree and fertility; otherwise every target word keeps its "
        "best link.",
        0.0,
        1.0,
    )
    gold: str = _scores(
        "",
        "File of correct links, i-j (sure), ipj or i?j (possible); or, as in NAACL 2003, a link on "
        "each line: sentence source target S|P. Prints AER.",
    )
    save_scores: str = _scores("", "JSON file for the scores and settings.", needs=("gold",))

    @property
    def trains(self) -> bool:
        """Returns whether models are trained, rather than loaded or replaced by links."""
        return not (self.model_dir or self.reverse_model_dir or self.from_alignments)

    @property
    def least(self) -> float | None:
        """The --threshold, or its default, which is None unless directions agree."""
        agree = self.symmetrise == "agree" or (self.trains and not self.symmetrise)
        if self.threshold is not None or not agree:
            return self.threshold
        return text_alignment.LIKELY if self.trains and self.model == "fertility" else AGREED


def check_flags(flags: Arguments) -> None:
    """Raises `UserError` if flags contradict each other or something is missing."""
    for name in ("from_alignments", "model_dir", "reverse_model_dir", "gold"):
        if name in flags.given and not getattr(flags, name):
            raise UserError(f"--{name}: expected a path, found nothing")
    flags.check()
    files = flags.from_alignments
    directions = len(files) or bool(flags.model_dir) + bool(flags.reverse_model_dir)
    methods = "|".join(SYMMETRISATIONS if files else _JOINED)
    for wrong, message in (
        (not all(files), "--from_alignments: expected names of files, found an empty one"),
        (len(files) > 2, f"--from_alignments: expected one or two files, found {len(files)}"),
        (
            flags.phrases and (len(flags.phrases) != 2 or not all(flags.phrases)),
            f"--phrases={','.join(flags.phrases)}: expected two files",
        ),
        (
            flags.trains
            and flags.symmetrise not in (None, "agree")
            and flags.threshold is not None,
            f"--threshold needs --symmetrise=agree, found {flags.symmetrise}",
        ),
        (directions == 2 and not flags.symmetrise, f"two directions need --symmetrise={methods}"),
        (
            directions == 1 and flags.symmetrise,
            "--symmetrise needs two directions: --model_dir and --reverse_model_dir, or two "
            "files in --from_alignments",
        ),
    ):
        if wrong:
            raise UserError(message)
    outputs = flags.alignments, flags.lexicon, *flags.phrases, flags.save_scores
    inputs = flags.source, flags.target, flags.gold, *files
    check_outputs(filter(None, outputs), filter(None, inputs))  # Now, so that no work is lost.


def train_and_align(flags: Arguments, sides: Any) -> tuple[list[CorpusLinks], dict[str, Any]]:
    """Trains on a text, (source, target) from `number_words`, and aligns it.

    Returns the `CorpusLinks` of each direction, or of one for both; and entries for --save_scores.
    """
    iterations = flags.iterations or text_alignment.ITERATIONS[flags.model]
    record = {"model": flags.model, "iterations": iterations}
    settings = flags.model, iterations
    method = flags.symmetrise or "agree"
    if method == "agree" or (flags.model == "fertility" and method in SYMMETRISATIONS):
        return text_alignment.align_text(sides, *settings, threshold=flags.least), record
    directions = []
    for name, way in (("forward", sides), ("reverse", sides[::-1])):
        if method in (name, *SYMMETRISATIONS):
            print(f"{name}:", file=sys.stderr, flush=True)
            (links,) = text_alignment.align_text(way, *settings, both=False)
            directions.append(links.reversed() if name == "reverse" else links)
    return directions, record


def align_with_models(flags: Arguments, text: ParallelText) -> tuple[list[Any], dict[str, Any]]:
    """Aligns a `ParallelText` with models of train.py.

    Returns the links of each direction, or of one for both; and direction -> --save_scores entries.
    """
    process.start_tensorflow()  # Before anything imports it.
    from nmt_zoo.decoding.alignment.aligner import Aligner, align_text
    from nmt_zoo.model_directory.directory import ModelDirectory
    from nmt_zoo.training.validation.choices import TO_LEARN, ranked_heads

    text, aligners, records = ParallelText(text.names, tuple(map(list, text.lines))), {}, {}
    paths = {"forward": flags.model_dir, "reverse": flags.reverse_model_dir}
    for side, path in paths.items():
        if path:
            directory = ModelDirectory(path)
            languages = flags.languages if side == "forward" else flags.languages[::-1]
            model, tokenizer, config = directory.load(languages=languages)
            name = f"the {config['model']} of {path}"
            options = {"layer": flags.layer, "head": number_or("head", flags.head, *_HEADS)}
            if flags.head == "auto":
                way = text if side == "forward" else text.swapped()
                best, *_ = ranked_heads(model, tokenizer, way, name)
                options = {"layer": best.layer, "head": best.head}
                print(
                    f"{name}: {best} differs least from links that were trained on "
                    f"{min(len(text.lines[0]), TO_LEARN):,} pairs (AER {best.score.aer:.4f})",
                    file=sys.stderr,
                )
            elif not any(options.values()):
                options = dict(zip(options, model.alignment or (None, None), strict=True))
            aligners[side] = Aligner(model, tokenizer, name=name, **options)
            training = {"parameters": model.count_params(), "training": directory.summary()}
            records[side] = {**config, **training, **options}
    agree = flags.symmetrise == "agree"
    return align_text(text, **aligners, threshold=flags.least, agree=agree), records


def main(flags: Arguments) -> int:
    """Aligns a text, or reads its alignments; writes the links, counts and scores them."""
    number_or("head", flags.head, *_HEADS)
    check_flags(flags)
    text = ParallelText.read(flags.source, flags.target) if flags.source else None
    lines = text.lines if text else ()
    sides = [text_alignment.number_words(map(split_words, side)) for side in lines]
    lengths = [(side.lengths - 1).tolist() for side in sides] if text else None
    sizes = list(zip(*lengths, strict=True)) if text else None
    if text and any(0 in pair for pair in sizes):
        empty = sum(0 in pair for pair in sizes)
        print(
            f"{empty:,} of {len(sizes):,} pairs have an empty side; their line of links is empty",
            file=sys.stderr,
        )
    long = [number for number, pair in enumerate(sizes or (), 1) if max(pair) > _LONG]
    if flags.trains and long:
        print(
            f"{len(long):,} of {len(sizes):,} pairs have more than {_LONG} words on a side, the "
            f"first in line {long[0]:,}; their time grows with the cube of their length",
            file=sys.stderr,
        )
    if flags.from_alignments:
        directions = [read_alignments(path, pairs=sizes) for path in flags.from_alignments]
        counts = [len(links) for links in directions]
        if counts[0] != counts[-1]:
            found = map("{} in {}".format, counts, flags.from_alignments)
            raise UserError(
                f"expected the same number of lines in both, found {' and '.join(found)}"
            )
        sizes = sizes or [(None, None)] * counts[0]
    gold = read_gold(flags.gold, pairs=sizes) if flags.gold else None
    if flags.from_alignments:
        records = {"from_alignments": flags.from_alignments}
    else:
        directions, records = (
            train_and_align(flags, sides) if flags.trains else align_with_models(flags, text)
        )
    alignments, *reverse = directions
    if reverse:
        both = zip(alignments, *reverse, strict=True)
        alignments = CorpusLinks.of_lists(symmetrise(*pair, flags.symmetrise) for pair in both)
    if flags.alignments:
        write_alignments(flags.alignments, alignments)
        print(f"wrote {flags.alignments}: {sum(map(len, alignments)):,} links")
    if flags.lexicon or flags.phrases:
        count_words(flags, alignments, sides, lines)
    if gold is not None:
        print_scores(flags, alignments, gold, records)
    return 0


def count_words(flags: Arguments, alignments: Any, sides: Any, lines: Any) -> None:
    """Writes what links tell of words and phrases, as --lexicon and --phrases ask for.

    `sides` are the words of both sides as numbers, `lines` the text of both.
    """
    if flags.lexicon:
        count = write_lexicon(flags.lexicon, alignments, *(map(split_words, x) for x in lines))
        print(f"wrote {flags.lexicon}: {count:,} word pairs")
    if flags.phrases:
        text = link_text(EncodedCorpus(*sides), CorpusLinks.of_lists(alignments))
        flat = [[word for x in side for word in (*split_words(x), "")] for side in lines]
        places = zip(*parallel_phrases(text, _PHRASE), strict=True)
        pairs = dict.fromkeys(
            (" ".join(flat[0][a:b]), " ".join(flat[1][c:d])) for a, b, c, d in places
        )
        for side, path in enumerate(flags.phrases):
            write_lines(path, (pair[side] for pair in pairs))
        print(f"wrote {' and '.join(flags.phrases)}: {len(pairs):,} phrase pairs")


def print_scores(flags: Arguments, alignments: Any, gold: Any, records: dict[str, Any]) -> None:
    """Prints AER, precision and recall; writes them as JSON with --save_scores."""
    score = score_alignments(alignments, gold)
    num_links = sum(map(len, alignments))
    console.write_result(
        f"AER {score.aer:.4f}, precision {score.precision:.4f}, recall {score.recall:.4f} "
        f"({len(gold):,} sentence pairs, {num_links:,} links)"
    )
    if flags.save_scores:
        record = {
            **records,
            **{name: round(value, 4) for name, value in score._asdict().items()},
            **{"sentences": len(gold), "links": num_links},
            **{name: getattr(flags, name) for name in ("gold", "layer", "head")},
            "symmetrise": flags.symmetrise or ("agree" if flags.trains else None),
            "threshold": flags.least,
            "machine": machine(),
        }
        write_json(flags.save_scores, record)


command = functools.partial(console.run, main, Arguments)
