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

from nmt_zoo.command_line import startup  # noqa: F401 - first of all, for what it does

# isort: split

import sys

from absl import flags

from nmt_zoo.command_line import console
from nmt_zoo.command_line.flag_values import group, number_or
from nmt_zoo.command_line.machine import machine
from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import check_outputs, check_writable, write_json
from nmt_zoo.decoding.alignment.lexicons import (
    LEAST_PROBABLE,
    lexicon_entries,
    table_entries,
    write_lexicon,
)
from nmt_zoo.decoding.alignment.links import (
    AGREED,
    SYMMETRISATIONS,
    read_directions,
    read_gold,
    score_alignments,
    symmetrise,
    write_alignments,
)
from nmt_zoo.decoding.alignment.parallel_text import ParallelText
from nmt_zoo.training.ways.expectation_maximisation import text_alignment
from nmt_zoo.training.ways.expectation_maximisation.corpus_links import Links

FLAGS = flags.FLAGS
JOINED = [*SYMMETRISATIONS, "agree"]

with group("Text and links"):
    flags.DEFINE_string("source", "", "File of text to align, one sentence a line.")
    flags.DEFINE_string(
        "target", "", "File of its translation. Default: the text after ||| in --source."
    )
    flags.DEFINE_string("alignments", "", "File for the links i-j, words counted from 0.")
    flags.DEFINE_string(
        "lexicon",
        "",
        "File for word translations, for translate.py --lexicon: counted from the links or, with "
        "--model_dir and no text, the word table of an IBM model.",
    )
with group("Training on the text"):
    flags.DEFINE_enum(
        "model",
        "fertility",
        list(text_alignment.ITERATIONS),
        "Model that is trained on the text. fertility: the HMM with a distribution of how many "
        "words each word becomes.",
    )
    flags.DEFINE_integer(
        "iterations",
        None,
        "Number of iterations of each stage: ibm1, then ibm2 or hmm, then fertility, as far as "
        "--model asks for them. Default: 2 with fertility, otherwise 5.",
        1,
        1000,
    )
with group("Instead of training"):
    flags.DEFINE_string(
        "model_dir", "", "Directory of a model from source to target, as train.py wrote it."
    )
    flags.DEFINE_string(
        "reverse_model_dir", "", "Directory of a model from target to source, as train.py wrote it."
    )
    flags.DEFINE_integer(
        "layer",
        None,
        "Attention layer that gives the links, counted from 1. Default: the choice of the model.",
        lower_bound=1,
    )
    flags.DEFINE_string(
        "head",
        "",
        "Attention head of that layer, counted from 1, or mean. Default: mean if --layer is given; "
        "otherwise the model's choice.",
    )
    flags.DEFINE_list(
        "from_alignments", [], "File of links to use instead of a model, or two files to join."
    )
with group("Choice of links"):
    flags.DEFINE_enum(
        "symmetrise",
        None,
        [*JOINED, "forward", "reverse"],
        "How two directions become one. agree: both models are trained to agree, and the "
        "geometric mean (fertility: the mean) of their probabilities decides. forward, reverse: "
        "only this direction is trained. Default when training: agree.",
    )
    flags.DEFINE_float(
        "threshold",
        None,
        f"Weight that a link must exceed. Default: {AGREED} with agree, "
        f"{text_alignment.LIKELY} with agree and fertility; otherwise every target word keeps its "
        "best link. With --model_dir and --lexicon alone: probability that a word "
        f"pair must exceed. Default: {LEAST_PROBABLE}.",
        lower_bound=0.0,
        upper_bound=1.0,
    )
with group("Scores"):
    flags.DEFINE_string(
        "gold",
        "",
        "File of correct links, i-j (sure), ipj or i?j (possible); or, as in NAACL 2003, a link on "
        "each line: sentence source target S|P. Prints AER.",
    )
    flags.DEFINE_integer(
        "gold_base",
        None,
        "Number of the first word in --gold. Default: 0 if a link names word 0, else 1; in the "
        "form of NAACL 2003: 1.",
        0,
        1,
    )
    flags.DEFINE_string("save_scores", "", "JSON file for the scores and settings; needs --gold.")


def given(*names):
    """Returns the flags among `names` that the command line has, as text such as "--a and --b"."""
    return " and ".join(f"--{name}" for name in names if FLAGS[name].present)


def check_flags():
    """Raises `UserError` if flags contradict each other or something is missing."""
    learns, files, agree = trains(), FLAGS.from_alignments, FLAGS.symmetrise == "agree"
    directions = len(files) or bool(FLAGS.model_dir) + bool(FLAGS.reverse_model_dir)
    models = given("model_dir", "reverse_model_dir")
    training, looking = given("model", "iterations"), given("layer", "head")
    one_way = FLAGS.symmetrise in ("forward", "reverse")
    methods = "|".join(SYMMETRISATIONS) + ("" if files else "|agree")
    joins_best = learns and FLAGS.symmetrise not in (None, "agree")
    places = ("from_alignments", "model_dir", "reverse_model_dir", "gold")
    empty = given(*(name for name in places if not FLAGS[name].value))
    for wrong, message in (
        (empty, f"{empty}: expected a path, found nothing"),
        (files and models, f"--from_alignments replaces models; leave out {models}"),
        (not all(files), "--from_alignments: expected names of files, found an empty one"),
        (len(files) > 2, f"--from_alignments: expected one or two files, found {len(files)}"),
        (not FLAGS.source and not files, "there is no text to align; give --source and --target"),
        (FLAGS.target and not FLAGS.source, "--target needs --source"),
        (
            FLAGS.lexicon and not FLAGS.source,
            "--lexicon needs the text of the links; give --source",
        ),
        (
            not learns and training,
            f"{training} is for training; leave out {models or '--from_alignments'}",
        ),
        (
            not learns and one_way,
            f"--symmetrise={FLAGS.symmetrise} is only for training on the text; leave it out",
        ),
        (learns and looking, f"{looking} needs --model_dir"),
        (
            files and given("threshold"),
            "--threshold needs the weights of a model; --from_alignments has none",
        ),
        (files and looking, f"{looking} needs a model; leave out --from_alignments"),
        (
            joins_best and FLAGS.threshold is not None,
            f"--threshold needs --symmetrise=agree, found {FLAGS.symmetrise}",
        ),
        (files and agree, "--symmetrise=agree needs the weights of two models, not their links"),
        (directions == 2 and not FLAGS.symmetrise, f"two directions need --symmetrise={methods}"),
        (
            directions == 1 and FLAGS.symmetrise,
            "--symmetrise needs two directions: --model_dir and --reverse_model_dir, or two "
            "files in --from_alignments",
        ),
        (FLAGS.save_scores and not FLAGS.gold, "--save_scores needs --gold"),
        (given("gold_base") and not FLAGS.gold, "--gold_base needs --gold"),
        (
            not (FLAGS.alignments or FLAGS.gold or FLAGS.lexicon),
            "no output is named; give --alignments, --gold or --lexicon",
        ),
    ):
        if wrong:
            raise UserError(message)
    outputs = FLAGS.alignments, FLAGS.lexicon, FLAGS.save_scores
    inputs = FLAGS.source, FLAGS.target, FLAGS.gold, *files
    check_outputs(filter(None, outputs), filter(None, inputs))  # Now, so that no work is lost.


def train_and_align(sides):
    """Trains on a text and aligns it.

    Args:
        sides: (source, target), from `number_words`.

    Returns:
        (list of the `Links` of each direction, or of one for both; entries for --save_scores).
    """
    iterations = FLAGS.iterations or text_alignment.ITERATIONS[FLAGS.model]
    settings = FLAGS.model, iterations
    method = FLAGS.symmetrise or "agree"
    record = {"model": FLAGS.model, "iterations": iterations}
    if FLAGS.model == "fertility" and method not in ("forward", "reverse"):
        found = text_alignment.align_with_fertilities(sides, iterations, threshold=the_threshold())
    elif method == "agree":
        found = [text_alignment.align_agreeing(sides, *settings, the_threshold())]
    else:
        found = []
        for name, way in (("forward", sides), ("reverse", sides[::-1])):
            if method in (name, *SYMMETRISATIONS):
                print(f"{name}:", file=sys.stderr, flush=True)
                links = text_alignment.align_independently(way, *settings)
                found.append(links.reversed() if name == "reverse" else links)
    return found, record


def align_with_models(text):
    """Aligns a `ParallelText` with models of train.py.

    Returns:
        (list of links for each direction, or of one list for both; direction -> entries for
        --save_scores).
    """
    from nmt_zoo.command_line import quiet  # Before every module that imports TensorFlow.
    from nmt_zoo.decoding.alignment.aligner import Aligner, align_agreeing, align_directions
    from nmt_zoo.model_directory.directory import ModelDirectory

    quiet.start()
    text, aligners, records = text.in_memory(), {}, {}
    paths = {"forward": FLAGS.model_dir, "reverse": FLAGS.reverse_model_dir}
    for side, path in paths.items():
        if path:
            directory = ModelDirectory(path)
            model, tokenizer, config = directory.load()
            name = f"the {config['model']} of {path}"
            options = {"layer": FLAGS.layer, "head": number_or("head", FLAGS.head, "mean")}
            aligners[side] = Aligner(model, tokenizer, name=name, **options)
            training = {"parameters": model.count_params(), "training": directory.summary()}
            records[side] = {**config, **training}
    if FLAGS.symmetrise == "agree":
        return [align_agreeing(text, **aligners, threshold=the_threshold())], records
    return align_directions(text, **aligners, threshold=the_threshold()), records


def the_threshold():
    """Returns --threshold, or its default, which is None unless directions agree."""
    agree = FLAGS.symmetrise == "agree" or (trains() and not FLAGS.symmetrise)
    if FLAGS.threshold is not None or not agree:
        return FLAGS.threshold
    return text_alignment.LIKELY if trains() and FLAGS.model == "fertility" else AGREED


def trains():
    """Returns whether models are trained, rather than loaded or replaced by links."""
    return not (FLAGS.model_dir or FLAGS.reverse_model_dir or FLAGS.from_alignments)


def align_text():
    """Aligns a text, or reads its alignments; writes the links, counts and scores them."""
    check_flags()
    text = ParallelText.read(FLAGS.source, FLAGS.target) if FLAGS.source else None
    words = text.words() if text else None
    sides = [text_alignment.number_words(side) for side in words] if text else None
    lengths = [(side.lengths - 1).tolist() for side in sides] if text else None
    sizes = list(zip(*lengths, strict=True)) if text else None
    if text and any(0 in pair for pair in sizes):
        empty = sum(0 in pair for pair in sizes)
        print(
            f"{empty:,} of {len(sizes):,} pairs have an empty side; their line of links is empty",
            file=sys.stderr,
        )
    if FLAGS.from_alignments:
        directions = read_directions(FLAGS.from_alignments, pairs=sizes)
        sizes = sizes or [(None, None)] * len(directions[0])
    gold = read_gold(FLAGS.gold, pairs=sizes, base=FLAGS.gold_base) if FLAGS.gold else None
    if FLAGS.from_alignments:
        records = {"from_alignments": FLAGS.from_alignments}
    else:
        directions, records = train_and_align(sides) if trains() else align_with_models(text)
    alignments, *reverse = directions
    if reverse:
        both = zip(alignments, *reverse, strict=True)
        alignments = Links.of_lists(symmetrise(*pair, FLAGS.symmetrise) for pair in both)
    if FLAGS.alignments:
        write_alignments(FLAGS.alignments, alignments)
        print(f"wrote {FLAGS.alignments}: {sum(map(len, alignments)):,} links")
    if FLAGS.lexicon:
        count = write_lexicon(FLAGS.lexicon, lexicon_entries(alignments, *words))
        print(f"wrote {FLAGS.lexicon}: {count:,} word pairs")
    if gold is not None:
        print_scores(alignments, gold, records)


def print_scores(alignments, gold, records):
    """Prints AER, precision and recall; writes them as JSON with --save_scores."""
    score = score_alignments(alignments, gold)
    num_links = sum(map(len, alignments))
    console.write_result(
        f"AER {score.aer:.4f}, precision {score.precision:.4f}, recall {score.recall:.4f} "
        f"({len(gold):,} sentence pairs, {num_links:,} links)"
    )
    if FLAGS.save_scores:
        settings = ("gold", "layer", "head")
        record = {
            **records,
            **{name: round(value, 4) for name, value in score._asdict().items()},
            **{"sentences": len(gold), "links": num_links},
            **{name: FLAGS[name].value for name in settings},
            "symmetrise": FLAGS.symmetrise or ("agree" if trains() else None),
            "threshold": the_threshold(),
            "machine": machine(),
        }
        write_json(FLAGS.save_scores, record)


def write_table():
    """Writes the lexicon from a model's own translation table."""
    from nmt_zoo.command_line import quiet  # Before every module that imports TensorFlow.
    from nmt_zoo.model_directory.directory import ModelDirectory

    check_writable(FLAGS.lexicon)
    quiet.start()
    model, tokenizer, config = ModelDirectory(FLAGS.model_dir).load()
    threshold = LEAST_PROBABLE if FLAGS.threshold is None else FLAGS.threshold
    name = f"the {config['model']} of {FLAGS.model_dir}"
    entries = table_entries(model, tokenizer, threshold=threshold, name=name)
    count = write_lexicon(FLAGS.lexicon, entries)
    print(f"wrote {FLAGS.lexicon}: {count:,} word pairs of probability above {threshold:g}")


def main(argv):
    """Aligns a text; or, given only a model and a lexicon, writes the model's own table."""
    del argv
    number_or("head", FLAGS.head, "mean")
    asked = {name for name in FLAGS if FLAGS[name].present}
    if FLAGS.lexicon and asked <= {"model_dir", "lexicon", "threshold"} and FLAGS.model_dir:
        write_table()
    else:
        align_text()
    return 0


def command():
    """Runs the script on the command line, and exits."""
    console.run(main)
