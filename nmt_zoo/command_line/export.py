"""Exports a trained model for TensorFlow Serving or CTranslate2, and proves that it works.

    python export.py --model_dir=runs/x --export_dir=exports/x

writes exports/x/1, or the next free number; TensorFlow Serving loads the largest. Before that, a
fresh process without this project's code loads the SavedModel as a server does. There every
signature is called with sample lines, and its answers must equal the model's answers here.

    python export.py --model_dir=runs/x --export_dir=exports/y --format=ctranslate2
    python translate.py --export_dir=exports/y < in.en > out.de

exports a Transformer to CTranslate2, and prints how many of the lines it translates alike.
"""

from nmt_zoo.common import process

process.start()  # Before anything imports TensorFlow.

import dataclasses
import functools
import shutil
import sys
from pathlib import Path
from typing import Any

from nmt_zoo.command_line import console
from nmt_zoo.command_line.flag_values import ModelArguments, group, with_length_penalty
from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import check_folder, read_lines, write_text
from nmt_zoo.common.progress import Progress
from nmt_zoo.data_pipeline.text_form import is_blank
from nmt_zoo.data_pipeline.tokenization.tokenizers import SIDES
from nmt_zoo.decoding.translator import Translator, split_options
from nmt_zoo.model_directory.combined_models import load_models, require_steps
from nmt_zoo.model_directory.directory import ModelDirectory, model_directories
from nmt_zoo.serving.ctranslate2 import conversion
from nmt_zoo.serving.ctranslate2.engine import CTranslate2Engine, CTranslate2Export
from nmt_zoo.serving.export import model_card, server_files
from nmt_zoo.serving.export.saved_model import SearchModule, ServingModule
from nmt_zoo.serving.export.saved_model_check import check, requests_of_each_size
from nmt_zoo.serving.export.versions import check_format, publish, unfinished_version

_export, _search = group("Export"), group("Search")
SAMPLES = ["A dog runs.", "", "The old man does not see the two houses.", "7 , 8 and 9 ?", "x"]


@dataclasses.dataclass(frozen=True)
class Arguments(ModelArguments):
    """The flags of export.py."""

    export_dir: str = _export(
        "",
        "Folder of all exported versions of this model; each export adds a numbered folder.",
        required="the folder of all exported versions",
    )
    format: str = _export(
        "savedmodel",
        "savedmodel is for TensorFlow Serving. ctranslate2 is for translate.py --export_dir and "
        "other programs that use CTranslate2; Transformers only.",
        choices=("savedmodel", "ctranslate2"),
        excludes={"beam_size": "CTranslate2 is given one with each text"},
        when="ctranslate2",
    )
    quantization: str = _export(
        "float32",
        "Number format of the weights.",
        choices=conversion.QUANTIZATIONS,
        needs=("format=ctranslate2",),
    )
    precision: str = _export(
        "float32",
        "Number format of the computation. int8 stores weights in 8 bits, and has the signatures "
        "serving_default and translate alone, in programs that XLA compiles at the first request "
        "of each size. both adds score and attention_maps, with weights in float32.",
        choices=("float32", "int8", "both"),
        needs=("format=savedmodel",),
    )
    max_beam_size: int = _search(
        0,
        "Largest beam that a request may ask for (0: --beam_size).",
        0,
        1000,
        needs=("format=savedmodel",),
    )
    license: str = _export(
        "",
        "Licence of the model, for its model card. Default: not stated.",
        needs=("format=savedmodel",),
    )
    check_input: str = _export(
        "",
        "File of source text that the exported model must translate like the original. "
        "Default: a few built-in lines.",
    )


def translations_to_compare(
    arguments: Arguments, model: Any, tokenizer: Any, **search: Any
) -> tuple[Any, ...]:
    """Returns (lines of the check, a `Translation` of each); reports and omits untranslated lines.

    Raises UserError: the file of `--check_input` cannot be read or has nothing to compare.
    """
    path = arguments.check_input
    name, lines = path or "the built-in lines", read_lines(path) if path else SAMPLES
    translator = Translator.of(
        model, tokenizer, name=f"the model in {arguments.model_dir}", **search
    )
    with Progress("translating", len(lines), "lines") as progress:
        results = translator.translate(lines, done=lambda batch: progress.update(len(batch)))
    translations = [best for best, *_ in results]
    problems = [(n, best.problem) for n, best in enumerate(translations, start=1) if best.problem]
    if problems:
        number, problem = problems[0]
        print(
            f"{name}: {len(problems)} of {len(lines)} lines are not compared, the first is line "
            f"{number} ({problem})",
            file=sys.stderr,
        )
    pairs = zip(lines, translations, strict=True)
    compared = [(line, translation) for line, translation in pairs if not translation.problem]
    if all(is_blank(line) for line, _ in compared):
        raise UserError(f"{name}: no line to compare; give --check_input some source sentences")
    return tuple(zip(*compared, strict=True))


def export_saved_model(
    arguments: Arguments, folder: Path, model: Any, tokenizer: Any, config: dict, **search: Any
) -> str:
    """Writes a SavedModel into a folder and checks it; returns what was proved, in words."""
    lines, translations = translations_to_compare(arguments, model, tokenizer, **search)
    exact, options = model, {**search, "max_beam_size": arguments.max_beam_size}
    if arguments.precision == "both":
        directories = model_directories(arguments.model_dir)
        exact, *_ = load_models(directories, languages=arguments.languages)
    elif arguments.precision == "int8":
        exact = None
    with process.silence():  # tensorflow_text prints that SentencePiece normalises nothing.
        if exact is None:
            module = SearchModule(model, tokenizer, **options)
        else:
            module = ServingModule(model, tokenizer, exact, **options)
    module.save(folder)
    graph = server_files.read_meta_graph(folder)
    server_files.check_operations(graph)
    limit, name = arguments.max_input_tokens, Path(arguments.export_dir).resolve().name
    how = {"max_tokens": limit, "in_8_bits": model.is_quantised}
    requests, alike = check(folder, exact, tokenizer, lines, translations, **how)
    extra = folder / "assets.extra"
    extra.mkdir(exist_ok=True)
    further = []
    if model.is_quantised:  # Each compiles a program.
        further = requests_of_each_size(tokenizer, lines, translations)
    server_files.write_warm_up(extra, requests, graph.signature_def, name, further)
    model_card.write_card(
        extra,
        directories=model_directories(arguments.model_dir),
        config=config,
        license=arguments.license,
        parameters=model.count_params(),
        search={**search, "max_beam_size": module.max_beam_size},
    )
    count = f"{alike:,} of " if alike < len(lines) else ""
    return f"{count}{len(lines):,} lines translated alike in a fresh process"


def export_ctranslate2(
    arguments: Arguments, folder: Path, model: Any, tokenizer: Any, config: dict, **search: Any
) -> str:
    """Writes a model for CTranslate2 into a folder; returns how many lines are alike, in words."""
    directory = ModelDirectory(arguments.model_dir)
    # In place of the penalty of the model directory, which --length_penalty overrides.
    config = {**config, "length_penalty": search["length_penalty"]}
    if languages := config.get("languages"):  # Those that it is exported for.
        wanted = {s: x for s, x in zip(SIDES, arguments.languages, strict=True) if x}
        config["languages"] = {**languages, **wanted}
    about = {"config": config, "training": directory.summary()}
    about |= {name: getattr(arguments, name) for name in ("max_input_tokens", "quantization")}
    conversion.write(conversion.weights_in(directory), tokenizer, folder, **about)
    if directory.training_text_path.exists():
        shutil.copy(directory.training_text_path, folder)
    converted, tokenizer, _ = CTranslate2Export(folder, arguments.languages).load()
    lines, translations = translations_to_compare(arguments, model, tokenizer, **search)
    options, of_lines = split_options(search)
    engine = CTranslate2Engine(converted, options, of_lines.max_input_tokens)
    translator = Translator(engine, tokenizer, of_lines)
    pairs = zip(translator.translate(lines), translations, strict=True)
    alike = sum(best.text == expected.text for (best, *_), expected in pairs)
    return f"{alike} of {len(lines)} lines translated alike ({alike / len(lines):.1%})"


def main(arguments: Arguments) -> int:
    """Reads flags, exports, compares; a version appears only after it has passed the check."""
    arguments.check()
    to_ctranslate2 = arguments.format == "ctranslate2"
    if arguments.max_beam_size and arguments.max_beam_size < arguments.beam_size:
        raise UserError(
            f"--max_beam_size={arguments.max_beam_size} is less than --beam_size="
            f"{arguments.beam_size}, the default; give a larger one"
        )
    check_folder(arguments.export_dir)
    folder = Path(arguments.export_dir)
    check_format(folder, "saved_model.pb" if to_ctranslate2 else "model.bin")
    directories = model_directories(arguments.model_dir)
    if to_ctranslate2:  # What is needed later is looked for before minutes of loading.
        conversion.ctranslate2_package()
        if len(directories) > 1:
            raise UserError(
                f"--model_dir={arguments.model_dir}: CTranslate2 has no ensembles; give one "
                "directory"
            )
    else:
        for directory in directories:
            model_card.read_scores(directory.path)
    process.start_tensorflow()
    dtype = "float32" if arguments.precision == "float32" else "int8"
    model, tokenizer, config = load_models(directories, languages=arguments.languages, dtype=dtype)
    require_steps(model, f"--model_dir={arguments.model_dir} cannot be exported")
    arguments = with_length_penalty(arguments, config)
    names = "beam_size", "length_penalty", "max_input_tokens"
    search = {name: getattr(arguments, name) for name in names}
    search["context_sentences"] = config["options"]["context_sentences"]
    with unfinished_version(folder) as unfinished:
        if to_ctranslate2:
            proved = export_ctranslate2(arguments, unfinished, model, tokenizer, config, **search)
        else:
            proved = export_saved_model(arguments, unfinished, model, tokenizer, config, **search)
        version = publish(unfinished, folder)
        batching = folder / "batching.config"
        if not to_ctranslate2 and not batching.exists():  # It is the user's to change.
            write_text(batching, server_files.BATCHING)
    print(f"wrote {version}; {proved}")
    return 0


command = functools.partial(console.run, main, Arguments)
