"""Translates text with a trained model.

python translate.py --model_dir=runs/x < in.en > out.de
python translate.py --model_dir=runs/x --input=test.en --output=out.de --reference=test.de
python translate.py --model_dir=runs/x --language_model=runs/lm < in.en > out.de
python translate.py --channel_model=runs/ibm1_de_en --language_model=runs/lm < in.en > out.de
python translate.py --engine=ctranslate2 --export_dir=serving/x < in.en > out.de
"""

from command_line import startup, quiet  # noqa: F401, I001 - first of all, in this order

# isort: split

import contextlib
import json
import os
import sys
import time

from absl import flags

from command_line import console
from command_line.flag_values import group
from command_line.machine import machine
from data_pipeline.files import (
    UserError,
    check_writable,
    decode_lines,
    read_lines,
    write_lines,
    write_text,
)
from data_pipeline.streams import one_side, open_splits, sides_of
from decoding.kept import KeptTranslations
from decoding.remarks import remarks
from decoding.scores import check_bleu_tokenizer, corpus_scores
from decoding.serving.ctranslate2_engine import CTranslate2Export
from decoding.translator import MAX_INPUT_TOKENS, Translator
from decoding.unknowns import UnknownReplacer, read_lexicon
from model_directory.combined_models import (
    CHANNEL_WEIGHT,
    FUSION_WEIGHT,
    load_fusion,
    load_noisy_channel,
)
from model_directory.directory import ModelDirectory

FLAGS = flags.FLAGS

with group("Model"):
    flags.DEFINE_string("model_dir", "", "Directory of the trained model, as train.py wrote it.")
    flags.DEFINE_string(
        "language_model",
        "",
        "Directory of an n-gram language model (ngram_lm) of the target language, whose "
        "log-probabilities are added to those of the translation model.",
    )
    flags.DEFINE_string(
        "channel_model",
        "",
        "Translates with a noisy channel, instead of --model_dir: directory of an IBM model that "
        "was trained from target to source. Needs --language_model.",
    )
    flags.DEFINE_float(
        "language_model_weight",
        None,
        "Factor on the log-probabilities of --language_model; with --channel_model, 1 is Bayes' "
        f"rule. Default: {FUSION_WEIGHT}, or {CHANNEL_WEIGHT} with --channel_model.",
        lower_bound=0.0,
        upper_bound=100.0,
    )
    flags.DEFINE_enum(
        "engine",
        "tensorflow",
        ["tensorflow", "ctranslate2"],
        "Library that searches. ctranslate2 is faster; it needs --export_dir in place of "
        "--model_dir, and the packages of requirements-extra.txt.",
    )
    flags.DEFINE_string(
        "export_dir",
        "",
        "Folder that export.py --format=ctranslate2 wrote, of which the newest version translates. "
        "Only with --engine=ctranslate2.",
    )
with group("Text"):
    flags.DEFINE_string(
        "input", "", "File of source text, one sentence a line. Default: standard input."
    )
    flags.DEFINE_string("output", "", "File for the translations. Default: standard output.")
    flags.DEFINE_integer(
        "n_best",
        1,
        "Number of translations of each line, at most --beam_size. Above 1, they are written as "
        "`line ||| translation ||| score`, lines counted from 0.",
        lower_bound=1,
    )
    flags.DEFINE_bool("scores", False, "Writes the score and a tab before each translation.")
with group("Search"):
    flags.DEFINE_integer(
        "beam_size", 4, "Number of hypotheses that the beam search keeps (1: greedy).", 1, 1000
    )
    flags.DEFINE_float(
        "length_penalty",
        None,
        "Exponent alpha of the length penalty of Wu et al. 2016 (0: no penalty). "
        "Default: 0.6, or 0 with --channel_model.",
        lower_bound=0.0,
        upper_bound=10.0,
    )
    flags.DEFINE_integer("batch_size", 32, "Number of sentences translated at once.", 1, 10_000)
    flags.DEFINE_integer(
        "max_input_tokens",
        MAX_INPUT_TOKENS,
        "Longest line that is translated in one piece, in tokens with </s>. Memory grows with its "
        "square.",
        lower_bound=2,
        upper_bound=1_000_000,
    )
    flags.DEFINE_enum(
        "long_lines",
        "skip",
        ["skip", "split"],
        "What is done with lines above --max_input_tokens: skip leaves them untranslated, split "
        "translates them in parts.",
    )
with group("Unknown words"):
    flags.DEFINE_bool(
        "replace_unknowns",
        False,
        "Replaces each UNK in a translation by the source word that it attends to most. For "
        "models with --tokenizer=word.",
    )
    flags.DEFINE_string(
        "lexicon",
        "",
        "File of word translations, which --replace_unknowns writes in place of the source "
        "words; lines `source_word target_word probability`, as align.py --lexicon writes them.",
    )
with group("Scores"):
    flags.DEFINE_string(
        "reference", "", "File of human translations of the input; prints BLEU and chrF."
    )
    flags.DEFINE_bool("lowercase", False, "Computes BLEU without regard to case (sacrebleu -lc).")
    flags.DEFINE_string("tokenize", "13a", "Tokenisation of BLEU (sacrebleu --tokenize).")
    flags.DEFINE_string(
        "save_scores", "", "JSON file for the scores and settings; needs --reference."
    )


def read_text():
    """Reads the text of the flags: (lines, name for errors, reference lines or None)."""
    if not FLAGS.input:
        name = "standard input"
        try:
            lines = decode_lines(sys.stdin.buffer.read(), name)
        except OSError as error:
            raise UserError(
                f"{name}: cannot be read ({error.strerror}); give the text as a file: --input"
            ) from None
        references = read_lines(one_side(FLAGS.reference)) if FLAGS.reference else None
        if references is not None and len(references) != len(lines):
            raise UserError(
                f"{name} has {len(lines)} lines and {FLAGS.reference} has {len(references)}; line "
                "n of one must translate line n of the other"
            )
        return lines, name, references
    if FLAGS.reference:
        sides = open_splits(sides_of(FLAGS.input, FLAGS.reference))
        lines, references = map(list, sides)
        return lines, FLAGS.input, references
    lines = read_lines(FLAGS.input)
    if not lines:
        raise UserError(f"{FLAGS.input}: empty; expected one sentence a line")
    if FLAGS.input.lower().endswith(".tsv") and any("\t" in line for line in lines):
        raise UserError(
            f"{FLAGS.input}: has tabs, so it may hold source and target; give it as --reference, "
            f"too, or translate its first column: cut -f1 {FLAGS.input} | python translate.py ..."
        )
    return lines, FLAGS.input, None


def the_export():
    """Returns the `CTranslate2Export` of --export_dir; checks the flags that depend on it."""
    if not FLAGS.export_dir:
        raise UserError(
            "--engine=ctranslate2 needs --export_dir, a folder that export.py --format=ctranslate2 "
            "wrote"
        )
    for name in ("model_dir", "channel_model", "language_model", "replace_unknowns"):
        if FLAGS[name].value:
            raise UserError(f"--engine=ctranslate2 cannot use --{name}; leave it out")
    export = CTranslate2Export(FLAGS.export_dir)
    most = export.max_input_tokens
    if FLAGS["max_input_tokens"].present and FLAGS.max_input_tokens > most:
        raise UserError(
            f"--max_input_tokens={FLAGS.max_input_tokens}: {export.path} was exported for at most "
            f"{most}; export it again with a larger --max_input_tokens"
        )
    FLAGS.max_input_tokens = min(FLAGS.max_input_tokens, most)
    return export


def the_directory():
    """Returns the `ModelDirectory` of --model_dir or --channel_model, or `the_export`."""
    if FLAGS.engine == "ctranslate2":
        return the_export()
    if FLAGS.export_dir:
        raise UserError("--export_dir needs --engine=ctranslate2")
    if bool(FLAGS.model_dir) == bool(FLAGS.channel_model):
        raise UserError("give either --model_dir, or --channel_model with --language_model")
    if not FLAGS.language_model and (
        FLAGS.channel_model or FLAGS.language_model_weight is not None
    ):
        raise UserError("--channel_model and --language_model_weight need --language_model")
    return ModelDirectory(FLAGS.model_dir or FLAGS.channel_model)


def load_model(directory):
    """Loads (model, tokenizer, config); config also names the models that were combined."""
    if not FLAGS.language_model:
        return directory.load()
    language = ModelDirectory(FLAGS.language_model)
    default = CHANNEL_WEIGHT if FLAGS.channel_model else FUSION_WEIGHT
    weight = default if FLAGS.language_model_weight is None else FLAGS.language_model_weight
    load = load_noisy_channel if FLAGS.channel_model else load_fusion
    model, tokenizer, config = load(directory, language, weight)
    names = {"channel_model": FLAGS.channel_model, "language_model": FLAGS.language_model}
    return model, tokenizer, {**config, **names, "language_model_weight": weight}


def read_translations():
    """Reads --lexicon: source word -> target word."""
    if FLAGS.lexicon and not FLAGS.replace_unknowns:
        raise UserError("--lexicon is used by --replace_unknowns only; give both")
    return read_lexicon(FLAGS.lexicon) if FLAGS.lexicon else {}


def formatted(results):
    """Formats the results as output lines."""
    if FLAGS.n_best > 1:
        return [
            f"{number} ||| {translation.text} ||| {translation.score:.4f}"
            for number, translations in enumerate(results)
            for translation in translations
        ]
    if FLAGS.scores:
        return [f"{best[0].score:.4f}\t{best[0].text}" for best in results]
    return [best[0].text for best in results]


def print_scores(outputs, references, run, seconds):
    """Prints BLEU and chrF with their signatures; keeps them as JSON if asked."""
    scores = corpus_scores(outputs, references, lowercase=FLAGS.lowercase, tokenize=FLAGS.tokenize)
    for name in ("bleu", "chrf"):
        line = scores[name].format(signature=scores[f"{name}_signature"])
        if FLAGS.output:
            console.write_result(line)
        else:
            print(line, file=sys.stderr)
    if FLAGS.save_scores:
        record = {
            **run,
            "bleu": round(scores["bleu"].score, 2),
            "bleu_signature": scores["bleu_signature"],
            "chrf": round(scores["chrf"].score, 2),
            "chrf_signature": scores["chrf_signature"],
            "beam_size": FLAGS.beam_size,
            "length_penalty": FLAGS.length_penalty,
            "replace_unknowns": FLAGS.replace_unknowns,
            "sentences": len(outputs),
            "translation_seconds": round(seconds, 1),
        }
        write_text(FLAGS.save_scores, json.dumps(record, indent=2, ensure_ascii=False) + "\n")


def check_paths():
    """Raises `UserError` if an output cannot be written, or would replace an input."""
    taken = {os.path.realpath(path): path for path in (FLAGS.input, FLAGS.reference) if path}
    for path in filter(None, (FLAGS.output, FLAGS.save_scores)):
        check_writable(path)
        if os.path.realpath(path) in taken:
            raise UserError(f"{path}: given for two flags; give each flag a file of its own")
        taken[os.path.realpath(path)] = path
    if FLAGS.output:
        check_writable(unfinished())


def unfinished():
    """Returns the path where translations are kept until all are done."""
    return f"{FLAGS.output}.unfinished"


def what_translates():
    """Returns everything besides the text that a translation depends on, as JSON values."""
    names = ("model_dir", "channel_model", "language_model", "lexicon", "export_dir")
    files = {}
    for name in names:
        if path := FLAGS[name].value:
            kind = CTranslate2Export if name == "export_dir" else ModelDirectory
            file = path if name == "lexicon" else kind(path).best_path
            files[name] = [os.path.realpath(file), os.stat(file).st_size, os.stat(file).st_mtime_ns]
    settings = ("beam_size", "length_penalty", "language_model_weight", "n_best")
    return {**files, **{n: FLAGS[n].value for n in (*settings, "replace_unknowns")}}


def main(argv):
    """Reads flags and text, translates, scores."""
    del argv
    quiet.start()
    if not 1 <= FLAGS.n_best <= FLAGS.beam_size:
        raise UserError(f"--n_best={FLAGS.n_best} must be from 1 to --beam_size={FLAGS.beam_size}")
    for flag in ("save_scores", "tokenize", "lowercase"):
        if FLAGS[flag].present and FLAGS[flag].value and not FLAGS.reference:
            raise UserError(f"--{flag} needs --reference")
    if FLAGS.reference:
        check_bleu_tokenizer(FLAGS.tokenize)
    check_paths()
    if not FLAGS.output:
        console.check_standard_output()
    directory = the_directory()
    directory.config()  # Refuses a directory without a model before standard input is read.
    lexicon = read_translations()
    lines, name, references = read_text()
    model, tokenizer, config = load_model(directory)
    if FLAGS.length_penalty is None:
        FLAGS.length_penalty = 0.0 if FLAGS.channel_model else 0.6
    translator = Translator(
        model,
        tokenizer,
        beam_size=FLAGS.beam_size,
        length_penalty=FLAGS.length_penalty,
        batch_size=FLAGS.batch_size,
        max_input_tokens=FLAGS.max_input_tokens,
        split_long_lines=FLAGS.long_lines == "split",
        name=f"the model in {directory.path}",
        unknowns=UnknownReplacer(model, tokenizer, lexicon) if FLAGS.replace_unknowns else None,
        engine=model if FLAGS.engine == "ctranslate2" else None,
    )
    if not translator.unknowns:
        translator.check_known(lines, name)
    training = directory.summary() if references is not None else None
    began = time.monotonic()
    keeping = contextlib.nullcontext()
    if FLAGS.output:
        keeping = KeptTranslations(unfinished(), what_translates())
    with keeping as kept:
        if kept and kept.num_taken_up:
            print(
                f"resuming with {kept.num_taken_up:,} translations from {kept.path}",
                file=sys.stderr,
            )
        results = translator.translate(
            lines, n_best=FLAGS.n_best, description="translating", kept=kept
        )
        if FLAGS.output:
            write_lines(FLAGS.output, formatted(results))
    seconds = time.monotonic() - began
    lengths = [len(ids) for ids in tokenizer.source.encode(lines)]
    limits = FLAGS.max_input_tokens, config["options"]["max_length"]
    for remark in remarks(results, lengths, *limits):
        print(remark, file=sys.stderr)
    if translator.unknowns:
        counts = translator.unknowns.counts
        print(
            f"unknown words in translations: {counts['copied']:,} copied from the source, "
            f"{counts['translated']:,} translated with the lexicon",
            file=sys.stderr,
        )
    if not FLAGS.output:
        console.write_result(*formatted(results))
    if references is not None:
        run = {
            **config,
            "parameters": model.count_params(),
            "training": training,
            "machine": machine(),
        }
        print_scores([best[0].text for best in results], references, run, seconds)
    return 0


if __name__ == "__main__":
    console.run(main)
