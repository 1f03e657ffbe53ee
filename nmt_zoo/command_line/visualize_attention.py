"""Draws the attention of a trained model.

    python visualize_attention.py --model_dir=runs/x --source="A dog runs." --output=attention.png
    python visualize_attention.py --model_dir=runs/x --source="A dog runs." --output=attention.html
    python visualize_attention.py --model_dir=runs/x --source="A dog runs." --output=attention.npz
    python visualize_attention.py --model_dir=runs/x --input=test.en --output=attention.html
    python visualize_attention.py --model_dir=runs/x --source="A dog runs." --attention=tree
    python visualize_attention.py --model_dir=runs/x --heads=heads.png --input=test.en \\
        --target_input=test.de --gold=test.gold
    python visualize_attention.py --architecture=transformer_base --output=transformer.svg
    python visualize_attention.py --architecture=runs/x --output=x.svg

The name of a picture ends in .png, .svg or .pdf; an .html is a page on which to explore attention;
an .npz or .json has the weights as numbers.
"""

from nmt_zoo.common import process

process.start()  # Before anything imports TensorFlow.

import dataclasses
import sys
from pathlib import Path
from typing import Any

import tensorflow as tf

from nmt_zoo import models
from nmt_zoo.command_line import console, flag_values
from nmt_zoo.command_line.flag_values import flag, language_flag, number_or, shortened
from nmt_zoo.command_line.machine import machine
from nmt_zoo.command_line.model_settings import parse_settings
from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import check_outputs, check_writable, read_lines, write_json
from nmt_zoo.data_pipeline.lines import is_tsv, open_split
from nmt_zoo.data_pipeline.text_form import split_words
from nmt_zoo.data_pipeline.tokenization.vocabularies import EOS_ID
from nmt_zoo.decoding.alignment.aligner import Aligner, word_maps
from nmt_zoo.decoding.alignment.head_summaries import (
    record_of,
    summarise_heads,
    table_of,
)
from nmt_zoo.decoding.alignment.links import parse_gold, read_gold
from nmt_zoo.decoding.explorer.sentence import SentenceExplorer
from nmt_zoo.decoding.explorer.text_pages import write_page, write_pages
from nmt_zoo.decoding.pictures import attention_numbers
from nmt_zoo.decoding.pictures.architecture_pictures import (
    origin_of,
    save_architecture,
    save_preset,
)
from nmt_zoo.decoding.pictures.attention_pictures import (
    check_choice,
    check_kind,
    save_attention,
    title_of,
    usual_layer,
)
from nmt_zoo.decoding.pictures.head_pictures import save_heads
from nmt_zoo.decoding.pictures.tree_pictures import save_tree
from nmt_zoo.decoding.translator import Translator
from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.models.architecture import describe

_ONE = "Picture or page of the attention between a sentence and its translation"
_HEADS = "Picture and table of what each head looks at in a text"
_ARCHITECTURE = "Picture of what a model consists of"
_CHOICE = ("attention", "layer", "head")  # Flags that choose a map.


@dataclasses.dataclass(frozen=True)
class Arguments(flag_values.Arguments):
    """The flags of visualize_attention.py."""

    model_dir: list[str] = flag(
        "Model",
        [],
        "Directory of the trained model, as train.py wrote it. Repeatable, to compare models, with "
        "an --output that ends in .html.",
        repeatable=True,
    )
    source_language: str = language_flag("Model", "source")
    target_language: str = language_flag("Model", "target")
    source: str = flag(
        _ONE,
        "",
        "Sentence to translate.",
        required="what to draw",
        unless=("input", "architecture"),
        excludes=("input", "heads"),
    )
    target: str = flag(_ONE, "", "Its translation. Default: the model's own.", needs=("source",))
    input: str = flag(
        _ONE,
        "",
        "File of sentences, one a line, instead of --source: for --heads, or for an --output that "
        "ends in .html, which then links to a page for each sentence.",
        excludes=("attention=tree",),
    )
    target_input: str = flag(
        _ONE, "", "File of their translations. Default: the model's own.", needs=("input",)
    )
    output: str = flag(
        _ONE,
        "attention.png",
        "Picture to write, .png, .svg or .pdf; or a page to explore, .html; or a file for the "
        "numbers of all maps, .npz or .json.",
    )
    attention: str = flag(
        _ONE,
        "cross",
        "Attention to draw: cross is from target to source, encoder and decoder are "
        "self-attention. In an .html: what is shown first, as are layer, head and words. tree: no "
        "attention, but the phrases or rules of a translation by phrase_based or hiero.",
        choices=("cross", "encoder", "decoder", "tree"),
    )
    layer: str = flag(
        _ONE,
        "",
        "Layer to draw, counted from 1, or all. Default: the last but one, which aligns best.",
        excludes=("attention=tree",),
    )
    head: str = flag(
        _ONE,
        "mean",
        "Head to draw, counted from 1; mean of all; or all.",
        excludes=("attention=tree",),
    )
    merge_subwords: bool = flag(
        _ONE, False, "Draws words instead of subword pieces.", excludes=("attention=tree",)
    )
    gold_links: str = flag(
        _ONE,
        "",
        "Correct links to mark, i-j (sure) or ipj (possible), with spaces between.",
        needs=("source", "target", "attention=cross"),
    )
    heads: str = flag(
        _HEADS,
        "",
        "Picture to write of entropy, distance and alignment error rate of each attention head, "
        "with a table on standard output.",
        needs=("target_input",),
        excludes=("output", "attention", "layer", "head", "merge_subwords"),
    )
    gold: str = flag(
        _HEADS,
        "",
        "File of correct links, i-j (sure), ipj or i?j (possible), for the error rate.",
        needs=("heads",),
    )
    links_from: str = flag(
        _HEADS,
        "",
        "Directory of a model, such as ibm2, whose links replace --gold.",
        needs=("heads",),
        excludes=("gold",),
    )
    save_scores: str = flag(
        _HEADS, "", "JSON file for the table and its settings.", needs=("heads",)
    )
    architecture: str = flag(
        _ARCHITECTURE,
        "",
        "Model whose layers, shapes and numbers of parameters to draw: a preset, as --model of "
        "train.py, or the directory of a trained model.",
        excludes={
            "model_dir": "it takes the directory, too",
            **dict.fromkeys(
                (
                    *("source_language", "target_language", "source", "target", "input"),
                    *("target_input", "attention", "layer", "head", "merge_subwords", "heads"),
                ),
                "it draws no text",
            ),
        },
    )
    set: list[str] = flag(
        _ARCHITECTURE,
        [],
        "Changes a setting of the preset: name=value. Repeatable.",
        repeatable=True,
        needs=("architecture",),
    )

    @property
    def has_choice(self) -> bool:
        """Returns whether flags choose the attention, layer or head."""
        return bool(self.given & {*_CHOICE})


def one_model_dir(asked: Arguments) -> str:
    """Returns the --model_dir; raises `UserError` unless there is exactly one."""
    if len(asked.model_dir) != 1:
        raise UserError(f"expected one --model_dir, found {len(asked.model_dir)}")
    return asked.model_dir[0]


def gold_of(asked: Arguments, pair: list[int]) -> Any:
    """Returns --gold_links for sentences with these numbers of words, or None."""
    if not asked.gold_links:
        return None
    return parse_gold(asked.gold_links, "--gold_links", pair=pair)


def chosen_map(asked: Arguments) -> tuple[Any, Any]:
    """Returns (--layer, --head) as numbers or words; the layer is None if it is not given."""
    return number_or("layer", asked.layer, "all"), number_or("head", asked.head, "mean", "all")


def check_maps(asked: Arguments, model: Any, name: str) -> dict[str, Any]:
    """Checks --attention, --layer and --head; returns them as `save_attention` takes them."""
    of_nothing = model.attention_maps(*[tf.constant([[EOS_ID]])] * 2)
    check_kind(of_nothing, asked.attention, name)
    layer, head = chosen_map(asked)
    if layer is None:
        layer = usual_layer(of_nothing, asked.attention)
    layer, head = (None if value == "all" else value for value in (layer, head))
    check_choice(of_nothing, asked.attention, layer, head)
    return {"kind": asked.attention, "layer": layer, "head": head}


def translated(asked: Arguments, model: Any, tokenizer: Any, config: dict[str, Any]) -> tuple:
    """Returns the ids of --source and of its translation, and both as text."""
    translator = Translator.of(model, tokenizer, length_penalty=config["length_penalty"])
    translator.check_known([asked.source], "--source")
    ids = tokenizer.source.encode([asked.source])
    if len(ids[0]) < 2:
        raise UserError("--source is empty; there is nothing to draw")
    if asked.target:
        ids += tokenizer.target.encode([asked.target])
    else:
        best = translator.translate([asked.source])[0][0]
        if best.problem:
            raise UserError(f"--source: cannot be translated: {best.problem}; give --target")
        print(best.text)
        ids.append(best.ids)
    return ids, (asked.source, asked.target or best.text)


def draw_attention(asked: Arguments) -> None:
    """Draws the attention between a sentence and its translation; translates it if needed."""
    if asked.output.lower().endswith(".html"):
        explore_sentence(asked)
        return
    path, as_numbers = (
        one_model_dir(asked),
        asked.output.lower().endswith(attention_numbers.ENDINGS),
    )
    if as_numbers:
        check_numbers(asked)
    else:
        console.check_picture("output", asked.output, (".html", *attention_numbers.ENDINGS))
    model, tokenizer, config = ModelDirectory(path).load(languages=asked.languages)
    choice = check_maps(asked, model, f"{path}: this {config['model']}")
    ids, texts = translated(asked, model, tokenizer, config)
    maps = model.attention_maps(*(tf.constant([row], tf.int32) for row in ids))
    maps = {name: weights[0].numpy() for name, weights in maps.items()}
    name = f"{config['model']} of {path}"
    title = title_of(name, maps, **choice)
    tokens = [vocabulary.pieces(row) for vocabulary, row in zip(tokenizer[1:], ids, strict=True)]
    gold = None
    if asked.gold_links:
        maps, tokens = word_maps(maps, tokenizer, (asked.source, asked.target))
        gold = gold_of(asked, [len(words) - 1 for words in tokens])
    with console.picture("output", asked.output):
        if as_numbers:
            attention_numbers.save_numbers(maps, *tokens, asked.output, model=name, gold=gold)
            return
        save_attention(
            maps,
            *tokens,
            asked.output,
            **choice,
            merge_subwords=asked.merge_subwords and gold is None,
            gold=gold,
            title=title,
            texts=texts,
        )


def draw_tree(asked: Arguments) -> None:
    """Draws the phrases or rules that a translation of a sentence is made of."""
    path = one_model_dir(asked)
    console.check_picture("output", asked.output)
    model, tokenizer, config = ModelDirectory(path).load(languages=asked.languages)
    if not model.decoder_class:
        raise UserError(
            f"--attention=tree: {path}: this {config['model']} translates token by token; only "
            "phrase_based and hiero translate by phrases"
        )
    ids, texts = translated(asked, model, tokenizer, config)
    found = model.decoder().explain(*ids)
    if found is None:
        raise UserError("--target: it is empty, or far too long or too short for the source")
    words = [
        vocabulary.pieces(row)[:-1] for vocabulary, row in zip(tokenizer[1:], ids, strict=True)
    ]
    with console.picture("output", asked.output):
        title = f"{config['model']} of {path}: {texts[1]}"
        save_tree(found.phrases, *words, asked.output, title=title)


def check_numbers(asked: Arguments) -> None:
    """Raises `UserError` if numbers cannot be written to --output or flags choose among them."""
    for name in (*_CHOICE, "merge_subwords"):
        if name in asked.given:
            raise UserError(
                f"--{name}: {asked.output} holds every map of the tokens; leave out --{name}"
            )
    check_writable(asked.output)


def load_explorers(asked: Arguments) -> list[SentenceExplorer]:
    """Loads every --model_dir; checks the flags that choose what a page shows first."""
    if not asked.model_dir:
        raise UserError("expected at least one --model_dir, found none")
    check_writable(asked.output)
    explorers = []
    for path in asked.model_dir:
        model, tokenizer, config = ModelDirectory(path).load(languages=asked.languages)
        if asked.has_choice:
            check_maps(asked, model, f"{path}: this {config['model']}")
        name = f"{config['model']} of {path}"
        penalty = config["length_penalty"]
        explorers.append(SentenceExplorer(model, tokenizer, name, length_penalty=penalty))
    return explorers


def first_view(asked: Arguments) -> dict[str, Any]:
    """Returns what a page shows first, as far as flags choose it."""
    layer, head = (None if value == "all" else value for value in chosen_map(asked))
    view = {"layer": layer, "head": head, "merge": asked.merge_subwords}
    if asked.has_choice:
        view["kind"] = asked.attention
    return view


def explore_sentence(asked: Arguments) -> None:
    """Writes a page on which to explore the attention of --source."""
    explorers = load_explorers(asked)
    texts = asked.source, asked.target
    gold = gold_of(asked, [len(split_words(text)) for text in texts])
    for explorer in explorers:
        explorer.translator.check_known([asked.source], "--source")
    models = [explorer.explore(*texts, gold=gold) for explorer in explorers]
    if not asked.target:
        console.write_result(*(model["target"]["text"] for model in models))
    view = first_view(asked)
    write_page(asked.output, models, {**view, "merge": view["merge"] or gold is not None})
    print(f"wrote {asked.output}")


def explore_text(asked: Arguments) -> None:
    """Writes pages on which to explore the attention of each line of --input, and their index."""
    if not asked.output.lower().endswith(".html"):
        raise UserError(f"--output={asked.output}: --input needs a name that ends in .html")
    check_outputs([asked.output], filter(None, (asked.input, asked.target_input)))
    if asked.target_input:
        sources, targets = map(list, open_split((asked.input, asked.target_input)))
    elif is_tsv(asked.input):
        raise UserError(f"{asked.input}: a .tsv has two sides; give it as --target_input, too")
    else:
        sources, targets = read_lines(asked.input), None
    if not sources:
        raise UserError(f"{asked.input} is empty; there is nothing to draw")
    explorers = load_explorers(asked)
    for explorer in explorers:
        explorer.translator.check_known(sources, asked.input)
    missing = write_pages(asked.output, explorers, sources, targets, first_view(asked))
    more = f"; {missing:,} of them have no page; the index gives the reasons" if missing else ""
    print(f"wrote {asked.output}, an index of the pages of {len(sources):,} lines{more}")


def check_heads(asked: Arguments) -> None:
    """Raises `UserError` if flags of --heads contradict each other or something is missing."""
    console.check_picture("heads", asked.heads)
    inputs = asked.input, asked.target_input, asked.gold
    check_outputs(filter(None, (asked.heads, asked.save_scores)), filter(None, inputs))


def draw_heads(asked: Arguments) -> None:
    """Summarises every attention head over a text, as a picture and a table."""
    check_heads(asked)
    path = one_model_dir(asked)
    names = asked.input, asked.target_input
    lines = open_split(names)
    gold = linker = None
    if asked.gold:
        pairs = [tuple(len(split_words(x)) for x in pair) for pair in zip(*lines, strict=True)]
        gold = read_gold(asked.gold, pairs=pairs)
    directory = ModelDirectory(path)
    model, tokenizer, config = directory.load(languages=asked.languages)
    if asked.links_from:
        linking, its_tokenizer, its_config = ModelDirectory(asked.links_from).load()
        its_name = f"the {its_config['model']} of {asked.links_from}"
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
    with console.picture("heads", asked.heads):
        save_heads(found.heads, asked.heads, title=title)
    if asked.save_scores:
        names = ("input", "target_input", "gold", "links_from", "save_scores")
        settings = {name: getattr(asked, name) for name in names}
        training = {"parameters": model.count_params(), "training": directory.summary()}
        record = {**config, **training, **settings, **record_of(found), "machine": machine()}
        write_json(asked.save_scores, record)
    console.write_result(*table_of(found.heads))


def draw_architecture(asked: Arguments) -> None:
    """Draws the parts of a preset, or of the model of a directory."""
    name, presets = asked.architecture, [*models.preset_names(), *models.LANGUAGE_MODELS]
    console.check_picture("output", asked.output)
    if name in presets:
        settings = parse_settings(asked.set, name)
        with console.picture("output", asked.output):
            save_preset(name, settings, asked.output)
        return
    if not Path(name).is_dir():
        raise UserError(
            f"--architecture={shortened(name)}: there is no such directory or model; expected one "
            f"of {', '.join(presets)}"
        )
    if asked.set:
        raise UserError(f"--set needs a preset, found --architecture={name}, a trained model")
    directory = ModelDirectory(name)
    model, preset = directory.new_model(), directory.config()["model"]
    with console.picture("output", asked.output):
        save_architecture(
            describe(model), asked.output, title=f"{preset} of {name}", notes=[origin_of(preset)]
        )


def main(asked: Arguments) -> int:
    """Draws the one picture that the flags ask for."""
    chosen_map(asked)
    asked.check()
    process.start_tensorflow()
    if asked.architecture:
        draw_architecture(asked)
    elif asked.heads:
        draw_heads(asked)
    elif asked.attention == "tree":
        draw_tree(asked)
    elif asked.input:
        explore_text(asked)
    else:
        draw_attention(asked)
    return 0


def command() -> None:
    """Runs the script on the command line, and exits."""
    console.run(main, Arguments)
