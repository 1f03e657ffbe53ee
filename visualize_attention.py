r"""Shows what a trained model has learnt: attention, word alignments, embeddings, curves.

    python visualize_attention.py --model_dir=runs/x --source="A dog runs." --output=attention.png
    python visualize_attention.py --model_dir=runs/x --source_file=a.en --target_file=a.de \
        --alignments=a.align
    python visualize_attention.py --model_dir=runs/ibm1 --lexicon=words.lex
    python visualize_attention.py --model_dir=runs/x --embeddings=words.png
    python visualize_attention.py --model_dir=runs/x --model_dir=runs/y --curves=curves.png
"""

from command_line import startup  # noqa: F401 - first of all, for what it does

# isort: split

import json
import re
import sys

import tensorflow as tf
from absl import flags

from command_line import console, quiet
from command_line.flag_values import shortened
from command_line.machine import machine
from data_pipeline.files import UserError, check_writable, write_text
from data_pipeline.tokenization.vocabularies import EOS_ID
from decoding.alignment.aligner import (
    AGREED,
    Aligner,
    align_agreeing,
    align_directions,
    word_maps,
)
from decoding.alignment.lexicons import (
    LEAST_PROBABLE,
    lexicon_entries,
    table_entries,
    write_lexicon,
)
from decoding.alignment.links import (
    SYMMETRISATIONS,
    parse_gold,
    read_directions,
    read_gold,
    score_alignments,
    symmetrise,
    write_alignments,
)
from decoding.alignment.parallel_text import ParallelText
from decoding.pictures.attention_pictures import check_choice, check_kind, save_attention
from decoding.pictures.embedding_points import PROJECTIONS, embedding_points
from decoding.pictures.points import save_points
from decoding.translator import Translator
from model_directory.directory import ModelDirectory
from training.reports.curves import save_learning_curves

FLAGS = flags.FLAGS

flags.DEFINE_multi_string(
    "model_dir", [], "Directory that train.py wrote. Repeatable with --curves."
)
# The attention of one sentence as a picture.
flags.DEFINE_string("source", None, "The sentence to read.")
flags.DEFINE_string("target", "", "Its translation; empty: the model's own.")
flags.DEFINE_string("output", "attention.png", "Picture to write: .png, .svg or .pdf.")
flags.DEFINE_enum(
    "attention",
    "cross",
    ["cross", "encoder", "decoder"],
    "cross: target to source; encoder, decoder: self-attention.",
)
flags.DEFINE_integer("layer", None, "Only this layer, counted from 1.", lower_bound=1)
flags.DEFINE_string("head", "", "Only this head, counted from 1, or: mean.")
flags.DEFINE_bool("merge_subwords", False, "Words instead of subword pieces.")
flags.DEFINE_integer("beam_size", 4, "Of the search for the translation.", 1, 1000)
flags.DEFINE_string("gold_links", "", "To mark: i-j sure, ipj possible; words counted from 0.")
# The word alignments of a text.
flags.DEFINE_string("source_file", "", "Text to align, a sentence a line.")
flags.DEFINE_string("target_file", "", "Its translation; empty: after a ||| in --source_file.")
flags.DEFINE_string("alignments", "", "Where links go: i-j, words counted from 0, line by line.")
flags.DEFINE_float(
    "threshold",
    None,
    f"Links of more weight; not given: the best of each target word; with agree: {AGREED}. "
    f"Of --lexicon alone, word pairs of more probability; not given: {LEAST_PROBABLE}.",
    lower_bound=0.0,
    upper_bound=1.0,
)
flags.DEFINE_string("reverse_model_dir", "", "A model from target to source, alone or too.")
flags.DEFINE_list("from_alignments", [], "Files of links instead of models: one, or two to join.")
flags.DEFINE_enum(
    "symmetrise",
    None,
    [*SYMMETRISATIONS, "agree"],
    "How two directions become one; agree: by the product of their weights.",
)
flags.DEFINE_string("gold", "", "True links, i-j sure, ipj or i?j possible: prints AER.")
flags.DEFINE_integer("gold_base", 0, "The number of the first word there.", 0, 1)
flags.DEFINE_string("save_scores", "", "With --gold: writes scores and settings as JSON.")
flags.DEFINE_string(
    "lexicon",
    "",
    "Where links are counted, for translate.py --lexicon; without text: an IBM model's own table.",
)
# Embeddings and learning curves as pictures.
flags.DEFINE_string("embeddings", "", "Picture of source and target words by their embeddings.")
flags.DEFINE_enum("projection", "tsne", list(PROJECTIONS), "How they come into the plane.")
flags.DEFINE_integer("num_words", 60, "Of each side, the most frequent.", lower_bound=2)
flags.DEFINE_string("curves", "", "Picture of perplexity (EM: log-likelihood) in training.")


def the_model_dir():
    """The only --model_dir."""
    if len(FLAGS.model_dir) != 1:
        raise UserError(f"expected one --model_dir, found {len(FLAGS.model_dir)}")
    return FLAGS.model_dir[0]


def the_head():
    """--head as `save_attention` and `Aligner` take it."""
    return int(FLAGS.head) if FLAGS.head.isdigit() else FLAGS.head or None


def draw_attention():
    """Translates a sentence if needed, draws the attention between the two."""
    if FLAGS.gold_links and not (FLAGS.target and FLAGS.attention == "cross"):
        raise UserError("--gold_links needs --target, the words that it links, and cross attention")
    path = the_model_dir()
    console.check_picture("output", FLAGS.output)
    model, tokenizer, config = ModelDirectory(path).load()
    of_nothing = model.attention_maps(*[tf.constant([[EOS_ID]])] * 2)
    check_kind(of_nothing, FLAGS.attention, f"{path}: this {config['model']}")
    check_choice(of_nothing, FLAGS.attention, FLAGS.layer, the_head())
    translator = Translator(model, tokenizer, beam_size=FLAGS.beam_size)
    translator.check_known([FLAGS.source], "--source")
    ids = tokenizer.source.encode([FLAGS.source])
    if len(ids[0]) < 2:
        raise UserError("--source is empty; there is nothing to look at")
    if FLAGS.target:
        ids += tokenizer.target.encode([FLAGS.target])
    else:
        best = translator.translate([FLAGS.source])[0][0]
        if best.problem:
            raise UserError(f"--source: cannot be translated: {best.problem}; give --target")
        print(best.text)
        ids.append(best.ids)

    maps = model.attention_maps(*(tf.constant([row], tf.int32) for row in ids))
    maps = {name: weights[0].numpy() for name, weights in maps.items()}
    tokens = [vocabulary.pieces(row) for vocabulary, row in zip(tokenizer[1:], ids, strict=True)]
    gold = None
    if FLAGS.gold_links:
        maps, tokens = word_maps(maps, tokenizer, (FLAGS.source, FLAGS.target))
        pair = [len(words) - 1 for words in tokens]
        gold = parse_gold(FLAGS.gold_links, "--gold_links", pair=pair)
    with console.picture("output", FLAGS.output):
        save_attention(
            maps,
            *tokens,
            FLAGS.output,
            kind=FLAGS.attention,
            layer=FLAGS.layer,
            head=the_head(),
            merge_subwords=FLAGS.merge_subwords and gold is None,
            gold=gold,
        )


def check_alignment_flags():
    """Raises `UserError` where flags for the alignments of a text do not go together."""
    files, forward, reverse = FLAGS.from_alignments, FLAGS.model_dir, FLAGS.reverse_model_dir
    directions = len(files) if files else bool(forward) + bool(reverse)
    of_models = " and ".join(f"--{f}" for f in ("threshold", "layer", "head") if FLAGS[f].present)
    has_text = bool(FLAGS.source_file)
    methods = "|".join(SYMMETRISATIONS)
    agree = FLAGS.symmetrise == "agree"
    for wrong, message in (
        (files and (forward or reverse), "--from_alignments stands for models; leave one out"),
        (files and of_models, f"{of_models} needs a model, which --from_alignments stands for"),
        (not all(files), "--from_alignments: expected names of files, found an empty one"),
        (len(files) > 2, f"--from_alignments: expected one or two files, found {len(files)}"),
        (len(forward) > 1, "expected one --model_dir; for the other way: --reverse_model_dir"),
        (not directions, "nothing aligns; give --model_dir, --reverse_model_dir or both"),
        (files and agree, "--symmetrise=agree needs the weights of two models, not their links"),
        (
            directions == 2 and not FLAGS.symmetrise,
            f"two directions need --symmetrise={methods}" + ("" if files else "|agree"),
        ),
        (
            directions < 2 and FLAGS.symmetrise,
            "--symmetrise needs two directions: --model_dir and --reverse_model_dir, or two "
            "files in --from_alignments",
        ),
        (not files and not has_text, "a model needs text to align: --source_file"),
        (FLAGS.target_file and not has_text, "--target_file needs --source_file"),
        (FLAGS.lexicon and not has_text, "--lexicon needs the words of the links: --source_file"),
        (FLAGS.save_scores and not FLAGS.gold, "--save_scores needs --gold"),
        (FLAGS["gold_base"].present and not FLAGS.gold, "--gold_base needs --gold"),
        (
            not (FLAGS.alignments or FLAGS.gold or FLAGS.lexicon),
            "nothing asks for the links; give --alignments, --gold or --lexicon",
        ),
    ):
        if wrong:
            raise UserError(message)
    for path in filter(None, (FLAGS.alignments, FLAGS.lexicon, FLAGS.save_scores)):
        check_writable(path)  # Before the work, not after it.


def align_with_models(text):
    """(links of each direction, {direction: what --save_scores keeps of its model})."""
    aligners, records = {}, {}
    paths = {"forward": next(iter(FLAGS.model_dir), ""), "reverse": FLAGS.reverse_model_dir}
    for side, path in paths.items():
        if path:
            directory = ModelDirectory(path)
            model, tokenizer, config = directory.load()
            name = f"the {config['model']} of {path}"
            options = {"layer": FLAGS.layer, "head": the_head()}
            aligners[side] = Aligner(model, tokenizer, name=name, **options)
            training = {"parameters": model.count_params(), "training": directory.summary()}
            records[side] = {**config, **training}
    if FLAGS.symmetrise == "agree":
        return [align_agreeing(text, **aligners, threshold=the_threshold())], records
    return align_directions(text, **aligners, threshold=the_threshold()), records


def the_threshold():
    """--threshold, or what stands for it."""
    return AGREED if FLAGS.threshold is None and FLAGS.symmetrise == "agree" else FLAGS.threshold


def align_text():
    """Aligns a text, or reads its alignments; writes the links, counts and scores them."""
    check_alignment_flags()
    text = ParallelText.read(FLAGS.source_file, FLAGS.target_file) if FLAGS.source_file else None
    sizes = text.sizes() if text else None
    if text and any(0 in pair for pair in sizes):
        empty = sum(0 in pair for pair in sizes)
        print(f"{empty:,} of {len(sizes):,} pairs have an empty side", file=sys.stderr)
    gold = read_gold(FLAGS.gold, pairs=sizes, base=FLAGS.gold_base) if FLAGS.gold else None
    if FLAGS.from_alignments:
        directions = read_directions(FLAGS.from_alignments, pairs=sizes)
        records = {"from_alignments": FLAGS.from_alignments}
    else:
        directions, records = align_with_models(text)
    alignments, *reverse = directions
    if reverse:
        both = zip(alignments, *reverse, strict=True)
        alignments = [symmetrise(*pair, FLAGS.symmetrise) for pair in both]
    if gold and len(gold) != len(alignments):
        raise UserError(f"{FLAGS.gold}: {len(gold)} lines; expected {len(alignments)}, as aligned")
    if FLAGS.alignments:
        write_alignments(FLAGS.alignments, alignments)
        print(f"wrote {FLAGS.alignments}: {sum(map(len, alignments)):,} links")
    if FLAGS.lexicon:
        count = write_lexicon(FLAGS.lexicon, lexicon_entries(alignments, *text.words()))
        print(f"wrote {FLAGS.lexicon}: {count:,} word pairs")
    if gold:
        print_scores(alignments, gold, records)


def print_scores(alignments, gold, records):
    """Prints AER, precision and recall; keeps them as JSON if asked."""
    score = score_alignments(alignments, gold)
    num_links = sum(map(len, alignments))
    console.write_result(
        f"AER {score.aer:.4f}, precision {score.precision:.4f}, recall {score.recall:.4f} "
        f"({len(gold):,} sentence pairs, {num_links:,} links)"
    )
    if FLAGS.save_scores:
        settings = ("gold", "layer", "head", "symmetrise")
        record = {
            **records,
            **{name: round(value, 4) for name, value in score._asdict().items()},
            **{"sentences": len(gold), "links": num_links},
            **{name: FLAGS[name].value for name in settings},
            "threshold": the_threshold(),
            "machine": machine(),
        }
        write_text(FLAGS.save_scores, json.dumps(record, indent=2, ensure_ascii=False) + "\n")


def write_table():
    """Writes the word translations of a model's own table."""
    path = the_model_dir()
    check_writable(FLAGS.lexicon)
    model, tokenizer, config = ModelDirectory(path).load()
    threshold = LEAST_PROBABLE if FLAGS.threshold is None else FLAGS.threshold
    name = f"the {config['model']} of {path}"
    entries = table_entries(model, tokenizer, threshold=threshold, name=name)
    count = write_lexicon(FLAGS.lexicon, entries)
    print(f"wrote {FLAGS.lexicon}: {count:,} word pairs of more than {threshold:g}")


def draw_embeddings():
    """Draws source and target words in one plane."""
    path = the_model_dir()
    console.check_picture("embeddings", FLAGS.embeddings)
    model, tokenizer, config = ModelDirectory(path).load()
    options = {"projection": FLAGS.projection, "num_words": FLAGS.num_words}
    name = f"the {config['model']} of {path}"
    with console.picture("embeddings", FLAGS.embeddings):
        save_points(embedding_points(model, tokenizer, name=name, **options), FLAGS.embeddings)


def draw_curves():
    """Draws how perplexity, or the likelihood in EM, went in training."""
    if not FLAGS.model_dir:
        raise UserError("--curves needs a --model_dir, or several")
    console.check_picture("curves", FLAGS.curves)
    with console.picture("curves", FLAGS.curves):
        save_learning_curves([ModelDirectory(path) for path in FLAGS.model_dir], FLAGS.curves)


# What can be asked for: the flags that ask for it, those that go with them.
MODES = {
    draw_attention: (
        "source",
        "target output attention layer head merge_subwords beam_size gold_links",
    ),
    align_text: (
        "source_file from_alignments",
        "target_file alignments threshold layer head reverse_model_dir symmetrise gold gold_base "
        "save_scores lexicon",
    ),
    write_table: ("lexicon", "threshold"),
    draw_embeddings: ("embeddings", "projection num_words"),
    draw_curves: ("curves", ""),
}


def main(argv):
    """Does the one thing that the flags ask for."""
    del argv
    if not re.fullmatch("([1-9][0-9]{0,8}|mean)?", FLAGS.head):
        head = shortened(FLAGS.head)
        raise UserError(f"--head={head}: expected a number, counted from 1, or mean")
    quiet.start()
    console.chosen_mode(MODES, {name for name in FLAGS if FLAGS[name].present})()
    return 0


if __name__ == "__main__":
    console.run(main)
