"""Draws what a trained model has learnt: attention, embeddings, learning curves.

    python visualize_attention.py --model_dir=runs/x --source="A dog runs." --output=attention.png
    python visualize_attention.py --model_dir=runs/x --source="A dog runs." --output=attention.html
    python visualize_attention.py --model_dir=runs/x --source="A dog runs." --output=attention.npz
    python visualize_attention.py --model_dir=runs/x --input=test.en --output=attention.html
    python visualize_attention.py --model_dir=runs/x --heads=heads.png --input=test.en \\
        --target_input=test.de --gold=test.gold
    python visualize_attention.py --model_dir=runs/x --embeddings=words.png
    python visualize_attention.py --model_dir=runs/x --model_dir=runs/y --curves=curves.png

The name of a picture ends in .png, .svg or .pdf; an .html is a page on which to explore attention;
an .npz or .json has the weights as numbers.
"""

from nmt_zoo.command_line import startup, quiet  # noqa: F401, I001 - first of all, in this order

# isort: split

import sys

import tensorflow as tf
from absl import flags

from nmt_zoo.command_line import console
from nmt_zoo.command_line.flag_values import define_beam_size, group, number_or
from nmt_zoo.command_line.machine import machine
from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import check_outputs, check_writable, read_lines, write_json
from nmt_zoo.data_pipeline.streams import is_tsv, open_split
from nmt_zoo.data_pipeline.text_form import split_words
from nmt_zoo.data_pipeline.tokenization.vocabularies import EOS_ID
from nmt_zoo.decoding.alignment.aligner import Aligner, word_maps
from nmt_zoo.decoding.alignment.head_summaries import summarise_heads
from nmt_zoo.decoding.alignment.head_tables import record_of, table_of
from nmt_zoo.decoding.alignment.links import parse_gold, read_gold
from nmt_zoo.decoding.explorer.sentence import SentenceExplorer
from nmt_zoo.decoding.explorer.text_pages import write_page, write_pages
from nmt_zoo.decoding.pictures import attention_numbers
from nmt_zoo.decoding.pictures.attention_pictures import (
    check_choice,
    check_kind,
    save_attention,
    title_of,
    usual_layer,
)
from nmt_zoo.decoding.pictures.embedding_points import PROJECTIONS, embedding_points
from nmt_zoo.decoding.pictures.head_pictures import save_heads
from nmt_zoo.decoding.pictures.learning_curves import save_learning_curves
from nmt_zoo.decoding.pictures.points import save_points
from nmt_zoo.decoding.translator import Translator
from nmt_zoo.model_directory.directory import ModelDirectory

FLAGS = flags.FLAGS

with group("Model"):
    flags.DEFINE_multi_string(
        "model_dir",
        [],
        "Directory of the trained model, as train.py wrote it. Repeatable, to compare models, with "
        "--curves and with an --output that ends in .html.",
    )
with group("Picture or page of the attention between a sentence and its translation"):
    flags.DEFINE_string("source", None, "Sentence to translate.")
    flags.DEFINE_string("target", "", "Its translation. Default: the model's own.")
    flags.DEFINE_string(
        "input",
        "",
        "File of sentences, one a line, instead of --source: for --heads, or for an --output that "
        "ends in .html, which then links to a page for each sentence.",
    )
    flags.DEFINE_string("target_input", "", "File of their translations. Default: the model's own.")
    flags.DEFINE_string(
        "output",
        "attention.png",
        "Picture to write, .png, .svg or .pdf; or a page to explore, .html; or a file for the "
        "numbers of all maps, .npz or .json.",
    )
    flags.DEFINE_enum(
        "attention",
        "cross",
        ["cross", "encoder", "decoder"],
        "Attention to draw: cross is from target to source, encoder and decoder are "
        "self-attention. In an .html: what is shown first, as are layer, head and words.",
    )
    flags.DEFINE_string(
        "layer",
        "",
        "Layer to draw, counted from 1, or all. Default: the last but one, which aligns best.",
    )
    flags.DEFINE_string("head", "mean", "Head to draw, counted from 1; mean of all; or all.")
    flags.DEFINE_bool("merge_subwords", False, "Draws words instead of subword pieces.")
    define_beam_size()
    flags.DEFINE_string(
        "gold_links",
        "",
        "Correct links to mark, i-j (sure) or ipj (possible), with spaces between; needs --target.",
    )
    flags.DEFINE_integer(
        "gold_base",
        None,
        "Number of the first word in --gold_links or --gold. Default: 0 if a link names word 0, "
        "else 1.",
        0,
        1,
    )
with group("Picture and table of what each head looks at in a text"):
    flags.DEFINE_string(
        "heads",
        "",
        "Picture to write of entropy, distance and alignment error rate of each attention head, "
        "with a table on standard output; needs --input and --target_input.",
    )
    flags.DEFINE_string(
        "gold", "", "File of correct links, i-j (sure), ipj or i?j (possible), for the error rate."
    )
    flags.DEFINE_string(
        "links_from", "", "Directory of a model, such as ibm2, whose links replace --gold."
    )
    flags.DEFINE_string("save_scores", "", "JSON file for the table and its settings.")
with group("Picture of the embeddings"):
    flags.DEFINE_string(
        "embeddings", "", "Picture to write of source and target words, by their embeddings."
    )
    flags.DEFINE_enum(
        "projection",
        "pca",
        list(PROJECTIONS),
        "Projection into the plane; tsne needs scikit-learn.",
    )
    flags.DEFINE_integer(
        "num_words", 60, "Number of words of each side, the most frequent ones.", lower_bound=2
    )
with group("Picture of the learning curves"):
    flags.DEFINE_string(
        "curves", "", "Picture to write of perplexity (EM: log-likelihood) over the updates."
    )


def the_model_dir():
    """Returns the --model_dir; raises `UserError` unless there is exactly one."""
    if len(FLAGS.model_dir) != 1:
        raise UserError(f"expected one --model_dir, found {len(FLAGS.model_dir)}")
    return FLAGS.model_dir[0]


def check_gold_flags():
    """Raises `UserError` if flags of gold links lack what they need."""
    if FLAGS.gold_links and not (FLAGS.target and FLAGS.attention == "cross"):
        raise UserError("--gold_links needs --target and --attention=cross")
    if FLAGS["gold_base"].present and not FLAGS.gold_links:
        raise UserError("--gold_base needs --gold_links")


def the_gold(pair):
    """Returns --gold_links for sentences with these numbers of words, or None."""
    if not FLAGS.gold_links:
        return None
    return parse_gold(FLAGS.gold_links, "--gold_links", pair=pair, base=FLAGS.gold_base)


def the_choice():
    """Returns (--layer, --head) as numbers or words; the layer is None if it is not given."""
    return number_or("layer", FLAGS.layer, "all"), number_or("head", FLAGS.head, "mean", "all")


def check_maps(model, name):
    """Checks --attention, --layer and --head; returns them as `save_attention` takes them."""
    of_nothing = model.attention_maps(*[tf.constant([[EOS_ID]])] * 2)
    check_kind(of_nothing, FLAGS.attention, name)
    layer, head = the_choice()
    if layer is None:
        layer = usual_layer(of_nothing, FLAGS.attention)
    layer, head = (None if value == "all" else value for value in (layer, head))
    check_choice(of_nothing, FLAGS.attention, layer, head)
    return {"kind": FLAGS.attention, "layer": layer, "head": head}


def draw_attention():
    """Draws the attention between a sentence and its translation; translates it if needed."""
    check_gold_flags()
    if FLAGS.output.lower().endswith(".html"):
        explore_sentence()
        return
    if FLAGS.target and FLAGS["beam_size"].present:
        raise UserError("--target needs no search; leave out --beam_size, or --target")
    path, as_numbers = the_model_dir(), FLAGS.output.lower().endswith(attention_numbers.ENDINGS)
    if as_numbers:
        check_numbers()
    else:
        console.check_picture("output", FLAGS.output, (".html", *attention_numbers.ENDINGS))
    model, tokenizer, config = ModelDirectory(path).load()
    choice = check_maps(model, f"{path}: this {config['model']}")
    translator = Translator(
        model, tokenizer, beam_size=FLAGS.beam_size, length_penalty=config["length_penalty"]
    )
    translator.check_known([FLAGS.source], "--source")
    ids = tokenizer.source.encode([FLAGS.source])
    if len(ids[0]) < 2:
        raise UserError("--source is empty; there is nothing to draw")
    if FLAGS.target:
        ids += tokenizer.target.encode([FLAGS.target])
    else:
        best = translator.translate([FLAGS.source])[0][0]
        if best.problem:
            raise UserError(f"--source: cannot be translated: {best.problem}; give --target")
        print(best.text)
        ids.append(best.ids)
    texts = FLAGS.source, FLAGS.target or best.text

    maps = model.attention_maps(*(tf.constant([row], tf.int32) for row in ids))
    maps = {name: weights[0].numpy() for name, weights in maps.items()}
    name = f"{config['model']} of {path}"
    title = title_of(name, maps, **choice)
    tokens = [vocabulary.pieces(row) for vocabulary, row in zip(tokenizer[1:], ids, strict=True)]
    gold = None
    if FLAGS.gold_links:
        maps, tokens = word_maps(maps, tokenizer, (FLAGS.source, FLAGS.target))
        gold = the_gold([len(words) - 1 for words in tokens])
    with console.picture("output", FLAGS.output):
        if as_numbers:
            attention_numbers.save_numbers(maps, *tokens, FLAGS.output, model=name, gold=gold)
            return
        save_attention(
            maps,
            *tokens,
            FLAGS.output,
            **choice,
            merge_subwords=FLAGS.merge_subwords and gold is None,
            gold=gold,
            title=title,
            texts=texts,
        )


def check_numbers():
    """Raises `UserError` if numbers cannot be written to --output or flags choose among them."""
    for name in ("attention", "layer", "head", "merge_subwords"):
        if FLAGS[name].present:
            raise UserError(
                f"--{name}: {FLAGS.output} holds every map of the tokens; leave out --{name}"
            )
    check_writable(FLAGS.output)


def the_explorers():
    """Loads every --model_dir; checks the flags that choose what a page shows first."""
    if not FLAGS.model_dir:
        raise UserError("expected at least one --model_dir, found none")
    check_writable(FLAGS.output)
    explorers = []
    for path in FLAGS.model_dir:
        model, tokenizer, config = ModelDirectory(path).load()
        if any(FLAGS[name].present for name in ("attention", "layer", "head")):
            check_maps(model, f"{path}: this {config['model']}")
        name = f"{config['model']} of {path}"
        search = {"beam_size": FLAGS.beam_size, "length_penalty": config["length_penalty"]}
        explorers.append(SentenceExplorer(model, tokenizer, name, **search))
    return explorers


def the_first_view():
    """Returns what a page shows first, as far as flags choose it."""
    layer, head = (None if value == "all" else value for value in the_choice())
    view = {"layer": layer, "head": head, "merge": FLAGS.merge_subwords}
    if any(FLAGS[name].present for name in ("attention", "layer", "head")):
        view["kind"] = FLAGS.attention
    return view


def explore_sentence():
    """Writes a page on which to explore the attention of --source."""
    explorers = the_explorers()
    texts = FLAGS.source, FLAGS.target
    gold = the_gold([len(split_words(text)) for text in texts])
    for explorer in explorers:
        explorer.translator.check_known([FLAGS.source], "--source")
    models = [explorer.explore(*texts, gold=gold) for explorer in explorers]
    if not FLAGS.target:
        console.write_result(*(model["target"]["text"] for model in models))
    view = the_first_view()
    write_page(FLAGS.output, models, {**view, "merge": view["merge"] or gold is not None})
    print(f"wrote {FLAGS.output}")


def explore_text():
    """Writes pages on which to explore the attention of each line of --input, and their index."""
    if not FLAGS.output.lower().endswith(".html"):
        raise UserError(f"--output={FLAGS.output}: --input needs a name that ends in .html")
    check_outputs([FLAGS.output], filter(None, (FLAGS.input, FLAGS.target_input)))
    if FLAGS.target_input:
        sources, targets = map(list, open_split((FLAGS.input, FLAGS.target_input)))
    elif is_tsv(FLAGS.input):
        raise UserError(f"{FLAGS.input}: a .tsv has two sides; give it as --target_input, too")
    else:
        sources, targets = read_lines(FLAGS.input), None
    if not sources:
        raise UserError(f"{FLAGS.input} is empty; there is nothing to draw")
    explorers = the_explorers()
    for explorer in explorers:
        explorer.translator.check_known(sources, FLAGS.input)
    missing = write_pages(FLAGS.output, explorers, sources, targets, the_first_view())
    more = f"; {missing:,} of them have no page; the index gives the reasons" if missing else ""
    print(f"wrote {FLAGS.output}, an index of the pages of {len(sources):,} lines{more}")


def check_heads():
    """Raises `UserError` if flags of --heads contradict each other or something is missing."""
    for name in ("input", "target_input"):
        if not FLAGS[name].value:
            raise UserError(f"--heads needs --{name}")
    if FLAGS.gold and FLAGS.links_from:
        raise UserError("--links_from replaces --gold; leave out one of them")
    if FLAGS["gold_base"].present and not FLAGS.gold:
        raise UserError("--gold_base needs --gold")
    console.check_picture("heads", FLAGS.heads)
    inputs = FLAGS.input, FLAGS.target_input, FLAGS.gold
    check_outputs(filter(None, (FLAGS.heads, FLAGS.save_scores)), filter(None, inputs))


def draw_heads():
    """Summarises every attention head over a text, as a picture and a table."""
    check_heads()
    path = the_model_dir()
    names = FLAGS.input, FLAGS.target_input
    lines = open_split(names)
    gold = linker = None
    if FLAGS.gold:
        pairs = [tuple(len(split_words(x)) for x in pair) for pair in zip(*lines, strict=True)]
        gold = read_gold(FLAGS.gold, pairs=pairs, base=FLAGS.gold_base)
    directory = ModelDirectory(path)
    model, tokenizer, config = directory.load()
    if FLAGS.links_from:
        linking, its_tokenizer, its_config = ModelDirectory(FLAGS.links_from).load()
        its_name = f"the {its_config['model']} of {FLAGS.links_from}"
        linker = Aligner(linking, its_tokenizer, name=its_name)
    name = f"{config['model']} of {path}"
    found = summarise_heads(
        model, tokenizer, (names, lines), name=f"the {name}", gold=gold, linker=linker
    )
    for problem in found.problems():
        print(problem, file=sys.stderr)
    title = (
        f"{name}: attention over {found.pairs:,} sentence pairs by layer (row) and head (column)"
    )
    with console.picture("heads", FLAGS.heads):
        save_heads(found.heads, FLAGS.heads, title=title)
    if FLAGS.save_scores:
        settings = {flag: FLAGS[flag].value for flag in MODES[draw_heads][1].split()}
        training = {"parameters": model.count_params(), "training": directory.summary()}
        record = {**config, **training, **settings, **record_of(found), "machine": machine()}
        write_json(FLAGS.save_scores, record)
    console.write_result(*table_of(found.heads))


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
    """Draws the perplexity during training, or the log-likelihood in EM."""
    if not FLAGS.model_dir:
        raise UserError("--curves needs at least one --model_dir")
    console.check_picture("curves", FLAGS.curves)
    with console.picture("curves", FLAGS.curves):
        save_learning_curves([ModelDirectory(path) for path in FLAGS.model_dir], FLAGS.curves)


# Function -> (flag that asks for it, flags that go with that flag).
MODES = {
    draw_attention: (
        "source",
        "target output attention layer head merge_subwords beam_size gold_links gold_base",
    ),
    explore_text: ("input", "target_input output attention layer head merge_subwords beam_size"),
    draw_heads: ("heads", "input target_input gold gold_base links_from save_scores"),
    draw_embeddings: ("embeddings", "projection num_words"),
    draw_curves: ("curves", ""),
}


def main(argv):
    """Draws the one picture that the flags ask for."""
    del argv
    the_choice()
    quiet.start()
    console.chosen_mode(MODES, {name for name in FLAGS if FLAGS[name].present})()
    return 0


def command():
    """Runs the script on the command line, and exits."""
    console.run(main)
