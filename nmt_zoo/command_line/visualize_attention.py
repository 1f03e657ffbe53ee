"""Draws the attention of a trained model.

    python visualize_attention.py --model_dir=runs/x --source="A dog runs." --output=attention.png
    python visualize_attention.py --model_dir=runs/x --source="A dog runs." --output=attention.html
    python visualize_attention.py --model_dir=runs/x --source="A dog runs." --attention=tree
    python visualize_attention.py --model_dir=runs/x --heads --input=test.en --target_input=test.de
    python visualize_attention.py --architecture=transformer_base --output=transformer.svg
    python visualize_attention.py --architecture=runs/x --output=x.svg

The name of a picture ends in .png, .svg or .pdf; an .html is a page on which to explore attention.
"""

from nmt_zoo.common import process

process.start()  # Before anything imports TensorFlow.

import dataclasses
import functools
import sys
from pathlib import Path
from typing import Any

from nmt_zoo import models
from nmt_zoo.command_line import console, flag_values
from nmt_zoo.command_line.flag_values import group, language_flag, number_or, shortened
from nmt_zoo.command_line.machine import machine
from nmt_zoo.command_line.model_settings import parse_settings
from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import check_outputs, check_writable, write_json
from nmt_zoo.data_pipeline.lines import open_split
from nmt_zoo.data_pipeline.text_form import split_words
from nmt_zoo.data_pipeline.tokenization.vocabularies import EOS_ID
from nmt_zoo.decoding.alignment.head_summaries import record_of, summarise_heads, table_of
from nmt_zoo.decoding.alignment.links import read_gold
from nmt_zoo.decoding.confidence import temperature_of
from nmt_zoo.decoding.explorer.sentence import (
    SentenceExplorer,
    maps_of,
    write_page,
)
from nmt_zoo.decoding.pictures import figures
from nmt_zoo.decoding.pictures.architecture_pictures import (
    origin_of,
    save_architecture,
    save_preset,
)
from nmt_zoo.decoding.pictures.attention_pictures import check_choice, save_attention
from nmt_zoo.decoding.pictures.tree_pictures import save_tree
from nmt_zoo.decoding.translator import Translator
from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.models.architecture import describe

_model = group("Model")
_one = group("Picture or page of the attention between a sentence and its translation")
_heads = group("Table of what each head looks at in a text")
_architecture = group("Picture of what a model consists of")
_CHOICE = ("attention", "layer", "head")  # Flags that choose a map.


@dataclasses.dataclass(frozen=True)
class Arguments(flag_values.Arguments):
    """The flags of visualize_attention.py."""

    model_dir: list[str] = _model(
        [],
        "Directory of the trained model, as train.py wrote it. Repeatable, to compare models, with "
        "an --output that ends in .html.",
        repeatable=True,
    )
    source_language: str = language_flag(_model, "source")
    target_language: str = language_flag(_model, "target")
    source: str = _one(
        "",
        "Sentence to translate.",
        required="what to draw",
        unless=("heads", "architecture"),
        excludes=("heads",),
    )
    target: str = _one("", "Its translation. Default: the model's own.", needs=("source",))
    output: str = _one(
        "attention.png",
        "Picture to write, .png, .svg or .pdf; or a page to explore, .html.",
    )
    attention: str = _one(
        "cross",
        "Attention to draw: cross is from target to source, encoder and decoder are "
        "self-attention. In an .html: what is shown first, as are layer, head and words. tree: no "
        "attention, but the phrases or rules of a translation by phrase_based or hiero.",
        choices=("cross", "encoder", "decoder", "tree"),
    )
    layer: str = _one(
        "",
        "Layer to draw, counted from 1, or all. Default: the one by which align.py links words; of "
        "self-attention, the last but one.",
        excludes=("attention=tree",),
    )
    head: str = _one(
        "",
        "Head to draw, counted from 1; mean of all; or all. Default: as --layer; with it, mean.",
        excludes=("attention=tree",),
    )
    merge_subwords: bool = _one(
        False,
        "Draws words instead of subword pieces. Default: true in an .html, else false.",
        excludes=("attention=tree",),
    )
    heads: bool = _heads(
        False,
        "Prints a table of entropy, distance and alignment error rate of each attention head.",
        needs=("input", "target_input"),
        excludes=("output", "attention", "layer", "head", "merge_subwords"),
    )
    input: str = _heads("", "File of sentences, one a line.", needs=("heads",))
    target_input: str = _heads("", "File of their translations.", needs=("heads",))
    gold: str = _heads(
        "",
        "File of correct links, i-j (sure), ipj or i?j (possible), for the error rate; align.py "
        "writes those of another model.",
        needs=("heads",),
    )
    save_scores: str = _heads("", "JSON file for the table and its settings.", needs=("heads",))
    architecture: str = _architecture(
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
    set: list[str] = _architecture(
        [],
        "Changes a setting of the preset: name=value. Repeatable.",
        repeatable=True,
        needs=("architecture",),
    )


def one_model_dir(flags: Arguments) -> str:
    """Returns the --model_dir; raises `UserError` unless there is exactly one."""
    if len(flags.model_dir) != 1:
        raise UserError(f"expected one --model_dir, found {len(flags.model_dir)}")
    return flags.model_dir[0]


def load(flags: Arguments, path: str, *, checks: bool = False) -> tuple[Any, Any, Any, str]:
    """Returns the model of a directory, its tokenizer, its configuration, and its name in titles.

    If it `checks`, raises `UserError` unless the model has the attention that flags choose.
    """
    model, tokenizer, config = ModelDirectory(path).load(languages=flags.languages)
    if checks:
        maps = maps_of(model, [EOS_ID], [EOS_ID])
        check_choice(maps, **chosen_map(flags), name=f"{path}: this {config['model']}")
    return model, tokenizer, config, f"{config['model']} of {path}"


def chosen_map(flags: Arguments) -> dict[str, Any]:
    """Returns --attention, --layer and --head as `save_attention` takes them."""
    layer = number_or("layer", flags.layer, "all")
    head = number_or("head", flags.head, "mean", "all")
    return {"kind": flags.attention, "layer": layer, "head": head}


def translated(flags: Arguments, model: Any, tokenizer: Any, config: dict[str, Any]) -> tuple:
    """Returns the ids of --source and of its translation, their tokens, and both as text."""
    translator = Translator.of(model, tokenizer, length_penalty=config["length_penalty"])
    translator.check_known([flags.source], "--source")
    ids = tokenizer.source.encode([flags.source])
    if len(ids[0]) < 2:
        raise UserError("--source is empty; there is nothing to draw")
    target = flags.target
    if target:
        ids += tokenizer.target.encode([target])
    else:
        best = translator.translate([flags.source])[0][0]
        if best.problem:
            raise UserError(f"--source: cannot be translated: {best.problem}; give --target")
        target = best.text
        print(target)
        ids.append(best.ids)
    tokens = [vocabulary.pieces(row) for vocabulary, row in zip(tokenizer[1:], ids, strict=True)]
    return ids, tokens, (flags.source, target)


def draw_sentence(flags: Arguments) -> None:
    """Draws the attention between a sentence and its translation, or what this is made of."""
    path, is_tree = one_model_dir(flags), flags.attention == "tree"
    figures.check_path(flags.output)
    model, tokenizer, config, name = load(flags, path, checks=not is_tree)
    if is_tree and not model.decoder_class:
        raise UserError(
            f"--attention=tree: {path}: this {config['model']} translates token by token; only "
            "phrase_based and hiero translate by phrases"
        )
    ids, tokens, texts = translated(flags, model, tokenizer, config)
    if not is_tree:
        look = {"merge_subwords": flags.merge_subwords, "name": name, "texts": texts}
        look |= chosen_map(flags) | {"alignment": model.alignment}
        return save_attention(maps_of(model, *ids), *tokens, flags.output, **look)
    derivation = model.decoder().explain(*ids)
    if derivation is None:
        raise UserError("--target: it is empty, or far too long or too short for the source")
    words = [side[:-1] for side in tokens]
    save_tree(derivation.phrases, *words, flags.output, title=f"{name}: {texts[1]}")


def load_explorers(flags: Arguments) -> list[SentenceExplorer]:
    """Loads every --model_dir; checks the flags that choose what a page shows first."""
    if not flags.model_dir:
        raise UserError("expected at least one --model_dir, found none")
    check_writable(flags.output)
    explorers = []
    for path in flags.model_dir:
        model, tokenizer, config, name = load(flags, path, checks=bool(flags.given & {*_CHOICE}))
        more = {"length_penalty": config["length_penalty"]}
        more["temperature"] = temperature_of(model, [ModelDirectory(path)], 1.0)
        explorers.append(SentenceExplorer(model, tokenizer, name, **more))
    return explorers


def first_view(flags: Arguments) -> dict[str, Any]:
    """Returns what a page shows first, as far as flags choose it."""
    view = {k: value for k, value in chosen_map(flags).items() if value not in (None, "all")}
    view = {"head": "mean", **view} if "layer" in view else view
    return view | ({"merge": flags.merge_subwords} if "merge_subwords" in flags.given else {})


def explore_sentence(flags: Arguments) -> None:
    """Writes a page on which to explore the attention of --source."""
    explorers = load_explorers(flags)
    for explorer in explorers:
        explorer.translator.check_known([flags.source], "--source")
    models = [explorer.explore(flags.source, flags.target) for explorer in explorers]
    if not flags.target:
        console.write_result(*(model["target"]["text"] for model in models))
    write_page(flags.output, models, first_view(flags))


def print_heads(flags: Arguments) -> None:
    """Prints a table that summarises every attention head over a text."""
    inputs = flags.input, flags.target_input, flags.gold
    check_outputs(filter(None, [flags.save_scores]), filter(None, inputs))
    path = one_model_dir(flags)
    names = flags.input, flags.target_input
    lines = open_split(names)
    gold = None
    if flags.gold:
        pairs = [tuple(len(split_words(x)) for x in pair) for pair in zip(*lines, strict=True)]
        gold = read_gold(flags.gold, pairs=pairs)
    model, tokenizer, config, name = load(flags, path)
    summary = summarise_heads(model, tokenizer, (names, lines), name=f"the {name}", gold=gold)
    pairs, empty, unknown = summary.pairs, summary.empty, summary.unknown
    if unknown:
        print(f"{unknown:,} lines in which the {name} knows no word", file=sys.stderr)
    if empty:
        all_pairs = f"{empty:,} of {pairs + empty:,} pairs"
        print(f"{all_pairs} have an empty side and do not count", file=sys.stderr)
    if flags.save_scores:
        names = ("input", "target_input", "gold", "save_scores")
        settings = {name: getattr(flags, name) for name in names}
        summed_up = ModelDirectory(path).summary()
        training = {"parameters": model.count_params(), "training": summed_up}
        record = {**config, **training, **settings, **record_of(summary), "machine": machine()}
        write_json(flags.save_scores, record)
    console.write_result(*table_of(summary.heads))


def draw_architecture(flags: Arguments) -> None:
    """Draws the parts of a preset, or of the model of a directory."""
    name, presets = flags.architecture, [*models.PRESETS, *models.LANGUAGE_MODELS]
    figures.check_path(flags.output)
    if name in presets:
        return save_preset(name, parse_settings(flags.set, name), flags.output)
    if not Path(name).is_dir():
        raise UserError(
            f"--architecture={shortened(name)}: there is no such directory or model; expected one "
            f"of {', '.join(presets)}"
        )
    if flags.set:
        raise UserError(f"--set needs a preset, found --architecture={name}, a trained model")
    directory = ModelDirectory(name)
    model, preset = directory.new_model(), directory.config()["model"]
    save_architecture(
        describe(model), flags.output, title=f"{preset} of {name}", notes=[origin_of(preset)]
    )


def main(flags: Arguments) -> int:
    """Draws the one picture, or prints the table, that the flags ask for."""
    chosen_map(flags)
    flags.check()
    process.start_tensorflow()
    if flags.heads:
        print_heads(flags)
        return 0
    if flags.architecture:
        draw_architecture(flags)
    elif flags.attention != "tree" and flags.output.lower().endswith(".html"):
        explore_sentence(flags)
    else:
        draw_sentence(flags)
    print(f"wrote {flags.output}")
    return 0


command = functools.partial(console.run, main, Arguments)
