"""Exports a trained model for TensorFlow Serving or CTranslate2, and proves that it works.

    python export.py --model_dir=runs/x --export_dir=serving/x

writes serving/x/1, or the next free number; TensorFlow Serving loads the largest. Before that, a
fresh process without this project's code loads the SavedModel as a server does. There every
signature is called with sample lines, and its answers must equal the model's answers here.

    python export.py --model_dir=runs/x --export_dir=serving/y --format=ctranslate2
    python translate.py --engine=ctranslate2 --export_dir=serving/y < in.en > out.de

exports a Transformer to CTranslate2, and prints how many of the lines it translates alike.
"""

from nmt_zoo.command_line import startup, quiet  # noqa: F401, I001 - first of all, in this order

# isort: split

import sys
from pathlib import Path

from absl import flags

from nmt_zoo.command_line import console
from nmt_zoo.command_line.flag_values import (
    define_beam_size,
    define_length_penalty,
    define_max_input_tokens,
    group,
    set_length_penalty,
)
from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import check_folder, read_lines
from nmt_zoo.common.progress import Progress
from nmt_zoo.data_pipeline.text_form import is_blank
from nmt_zoo.decoding.text import training_text
from nmt_zoo.decoding.translator import MAX_INPUT_TOKENS, Translator
from nmt_zoo.model_directory.combined_models import load_models, model_directories
from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.serving.ctranslate2 import conversion
from nmt_zoo.serving.ctranslate2.engine import CTranslate2Export
from nmt_zoo.serving.export import model_card, server_files, warm_up
from nmt_zoo.serving.export.saved_model import ServingModule, write_saved_model
from nmt_zoo.serving.export.saved_model_check import check
from nmt_zoo.serving.export.versions import check_format, publish, unfinished_version

FLAGS = flags.FLAGS

with group("Folders"):
    flags.DEFINE_string(
        "model_dir",
        None,
        "Directory of the trained model, as train.py wrote it; several with the same vocabularies, "
        "separated by commas, are exported as an ensemble.",
        required=True,
    )
    flags.DEFINE_string(
        "export_dir",
        None,
        "Folder of all exported versions of this model; each export adds a numbered folder.",
        required=True,
    )
with group("Format"):
    flags.DEFINE_enum(
        "format",
        "savedmodel",
        ["savedmodel", "ctranslate2"],
        "savedmodel is for TensorFlow Serving. ctranslate2 is for translate.py "
        "--engine=ctranslate2 and other programs that use CTranslate2; Transformers only.",
    )
    flags.DEFINE_enum(
        "quantization",
        "float32",
        conversion.QUANTIZATIONS,
        "Number format of the weights. Only with --format=ctranslate2.",
    )
with group("Search"):
    define_beam_size(", unless a request asks for another. Only with --format=savedmodel")
    flags.DEFINE_integer(
        "max_beam_size",
        0,
        "Largest beam that a request may ask for (0: --beam_size). Only with --format=savedmodel.",
        0,
        1000,
    )
    define_length_penalty()
    define_max_input_tokens(
        MAX_INPUT_TOKENS,
        "Longest line that is translated, in tokens with </s>; a request with a longer line is "
        "refused.",
    )
with group("Model card"):
    flags.DEFINE_string(
        "license", "", "Licence of the model, for its model card. Default: not stated."
    )
    flags.DEFINE_string(
        "intended_use", "", "What the model is for, for its model card. Default: a general text."
    )
with group("Check"):
    flags.DEFINE_string(
        "check_input",
        "",
        "File of source text that the exported model must translate like the original. "
        "Default: a few built-in lines.",
    )


def translations_to_compare(model, tokenizer, **search):
    """Translates the lines of the check; reports and omits lines that are left untranslated.

    Returns:
        `(lines, translations)`, one `Translation` for each line.

    Raises:
        UserError: the file of `--check_input` cannot be read or has nothing to compare.
    """
    name = FLAGS.check_input or "the built-in lines"
    lines = read_lines(FLAGS.check_input) if FLAGS.check_input else warm_up.SAMPLES
    translator = Translator(model, tokenizer, name=f"the model in {FLAGS.model_dir}", **search)
    with Progress("translating", len(lines), "lines") as progress:
        results = translator.translate(lines, done=lambda found: progress.update(len(found)))
    found = [best[0] for best in results]
    left = [n for n, translation in enumerate(found, start=1) if translation.problem]
    if left:
        print(
            f"{name}: {len(left)} of {len(lines)} lines are not compared, the first is line "
            f"{left[0]} ({found[left[0] - 1].problem})",
            file=sys.stderr,
        )
    compared = [both for both in zip(lines, found, strict=True) if not both[1].problem]
    if all(is_blank(line) for line, _ in compared):
        raise UserError(f"{name}: no line to compare; give --check_input some source sentences")
    return tuple(zip(*compared, strict=True))


def export_saved_model(folder, model, tokenizer, config, **search):
    """Writes a SavedModel into a folder and checks it; returns what was proved, in words."""
    lines, translations = translations_to_compare(model, tokenizer, **search)
    with quiet.silence():  # tensorflow_text prints that SentencePiece normalises nothing.
        module = ServingModule(model, tokenizer, max_beam_size=FLAGS.max_beam_size, **search)
    limit, name = FLAGS.max_input_tokens, Path(FLAGS.export_dir).resolve().name
    signatures = write_saved_model(
        folder,
        module,
        name,
        lambda _: check(folder, model, tokenizer, lines, translations, max_tokens=limit),
    )
    extra = folder / server_files.EXTRA
    training_text.copy(model_directories(FLAGS.model_dir)[0].training_text_path, extra)
    (extra / "tokenizer").mkdir()
    tokenizer.save(extra / "tokenizer")
    facts = {
        "license": FLAGS.license or model_card.NOT_STATED,
        "intended_use": FLAGS.intended_use or model_card.INTENDED_USE,
        "parameters": model.count_params(),
        "search": {**search, "max_beam_size": module.max_beam_size},
        "signatures": model_card.signature_table(signatures),
    }
    directories = model_directories(FLAGS.model_dir)
    model_card.write_card(extra, directories=directories, config=config, facts=facts)
    return f"{len(lines)} lines translated alike in a fresh process"


def export_ctranslate2(folder, model, tokenizer, config, **search):
    """Writes a model for CTranslate2 into a folder; returns how many lines are alike, in words."""
    conversion.check_convertible(model)
    # In place of the penalty of the model directory, which --length_penalty overrides.
    config = {**config, "length_penalty": search["length_penalty"]}
    about = {"config": config, "training": ModelDirectory(FLAGS.model_dir).summary()}
    about["max_input_tokens"] = FLAGS.max_input_tokens
    conversion.write(model, tokenizer, folder, quantization=FLAGS.quantization, **about)
    training_text.copy(ModelDirectory(FLAGS.model_dir).training_text_path, folder)
    engine, tokenizer, _ = CTranslate2Export(folder).load()
    lines, translations = translations_to_compare(model, tokenizer, **search)
    translator = Translator(None, tokenizer, engine=engine, **search)
    found = [best[0].text for best in translator.translate(lines)]
    alike = sum(a == b.text for a, b in zip(found, translations, strict=True))
    return f"{alike} of {len(lines)} lines translated alike ({alike / len(lines):.1%})"


def main(argv):
    """Reads flags, exports, compares; a version appears only after it has passed the check."""
    del argv
    to_ctranslate2 = FLAGS.format == "ctranslate2"
    if FLAGS["quantization"].present and not to_ctranslate2:
        raise UserError("--quantization needs --format=ctranslate2")
    for name in ("beam_size", "max_beam_size", "license", "intended_use"):
        if FLAGS[name].present and to_ctranslate2:
            raise UserError(f"--{name} needs --format=savedmodel")
    if FLAGS.max_beam_size and FLAGS.max_beam_size < FLAGS.beam_size:
        raise UserError(
            f"--max_beam_size={FLAGS.max_beam_size} is less than --beam_size={FLAGS.beam_size}, "
            "the default; give a larger one"
        )
    check_folder(FLAGS.export_dir)
    folder = Path(FLAGS.export_dir)
    check_format(folder, "saved_model.pb" if to_ctranslate2 else "model.bin")
    directories = model_directories(FLAGS.model_dir)
    if to_ctranslate2:  # What is needed later is looked for before minutes of loading.
        conversion.ctranslate2_package()
    else:
        for directory in directories:
            model_card.read_scores(directory.path)
    quiet.start()
    model, tokenizer, config = load_models(directories)
    set_length_penalty(config)
    names = "beam_size", "length_penalty", "max_input_tokens"
    search = {name: FLAGS[name].value for name in names}
    with unfinished_version(folder) as unfinished:
        if to_ctranslate2:
            proved = export_ctranslate2(unfinished, model, tokenizer, config, **search)
        else:
            proved = export_saved_model(unfinished, model, tokenizer, config, **search)
        version = publish(unfinished, folder)
        if not to_ctranslate2:
            server_files.write_beside(folder, folder.resolve().name)
    print(f"wrote {version}; {proved}")
    return 0


def command():
    """Runs the script on the command line, and exits."""
    console.run(main)
