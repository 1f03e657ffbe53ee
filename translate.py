"""Translates text with a trained model.

python translate.py --model_dir=runs/x < in.en > out.de
python translate.py --model_dir=runs/x --input=test.en --output=out.de --reference=test.de
python translate.py --model_dir=runs/x --language_model=runs/lm < in.en > out.de
python translate.py --channel_model=runs/ibm1_de_en --language_model=runs/lm < in.en > out.de
"""

import json
import sys
import time

from training import quiet  # before all that imports TensorFlow

# isort: split

from absl import app, flags

from data_pipeline.files import (
    UserError,
    check_writable,
    decode_lines,
    read_lines,
    write_lines,
    write_text,
)
from decoding.translator import Translator
from decoding.unknowns import UnknownReplacer, read_lexicon
from training.checkpoints import ModelDirectory
from training.combination import (
    CHANNEL_WEIGHT,
    FUSION_WEIGHT,
    load_fusion,
    load_noisy_channel,
)
from training.console import machine, one_line_errors
from training.evaluation import corpus_scores

FLAGS = flags.FLAGS

flags.DEFINE_string("model_dir", "", "Directory that train.py wrote.")
flags.DEFINE_string("channel_model", "", "Instead: of an IBM model of the reverse direction.")
flags.DEFINE_string("language_model", "", "Directory of an ngram_lm of the target language.")
flags.DEFINE_float(
    "language_model_weight",
    None,
    "Of its log-probabilities; 1 with --channel_model is Bayes' rule. "
    f"Default: {FUSION_WEIGHT}, with --channel_model {CHANNEL_WEIGHT}.",
)
flags.DEFINE_string("input", "", "Source text, one sentence a line; empty: standard input.")
flags.DEFINE_string("output", "", "Where translations go; empty: standard output.")
flags.DEFINE_string("reference", "", "Human translations of the input: prints BLEU and chrF.")
flags.DEFINE_integer("beam_size", 4, "Hypotheses followed at a time; 1: greedy.", lower_bound=1)
flags.DEFINE_float(
    "length_penalty",
    None,
    "Alpha of Wu et al. 2016; 0: none. Default: 0.6, with --channel_model 0.",
    lower_bound=0.0,
)
flags.DEFINE_integer("batch_size", 32, "Sentences translated at once.", lower_bound=1)
flags.DEFINE_integer("n_best", 1, "Translations for each line, as `line ||| text ||| score`.")
flags.DEFINE_bool("scores", False, "Puts the score and a tab before each translation.")
flags.DEFINE_bool("replace_unknowns", False, "word: UNK becomes the source word attended to.")
flags.DEFINE_string("lexicon", "", "Its translations: source word, target word, probability.")
flags.DEFINE_bool("lowercase", False, "BLEU without regard to case (sacrebleu -lc).")
flags.DEFINE_string("tokenize", "13a", "Tokenisation of BLEU (sacrebleu --tokenize).")
flags.DEFINE_string("save_scores", "", "With --reference: writes scores and settings as JSON.")


def read_input():
    """(lines, name for errors)."""
    if FLAGS.input:
        lines = read_lines(FLAGS.input)
        if not lines:
            raise UserError(f"{FLAGS.input}: empty; expected one sentence a line")
        return lines, FLAGS.input
    return decode_lines(sys.stdin.buffer.read(), "standard input"), "standard input"


def load_model():
    """(`ModelDirectory`, model, tokenizer, configuration with what is said of several models)."""
    if bool(FLAGS.model_dir) == bool(FLAGS.channel_model):
        raise UserError(
            "give --model_dir, or --channel_model and --language_model, and not both: what "
            "translates is one or the other"
        )
    directory = ModelDirectory(FLAGS.model_dir or FLAGS.channel_model)
    if not FLAGS.language_model:
        if FLAGS.channel_model or FLAGS.language_model_weight is not None:
            raise UserError("--channel_model and --language_model_weight need --language_model")
        return directory, *directory.load()
    language = ModelDirectory(FLAGS.language_model)
    default = CHANNEL_WEIGHT if FLAGS.channel_model else FUSION_WEIGHT
    weight = default if FLAGS.language_model_weight is None else FLAGS.language_model_weight
    load = load_noisy_channel if FLAGS.channel_model else load_fusion
    model, tokenizer, config = load(directory, language, weight)
    names = {"channel_model": FLAGS.channel_model, "language_model": FLAGS.language_model}
    return directory, model, tokenizer, {**config, **names, "language_model_weight": weight}


def make_replacer(model, tokenizer):
    """`UnknownReplacer` of the flags, or None."""
    if FLAGS.lexicon and not FLAGS.replace_unknowns:
        raise UserError("--lexicon is used by --replace_unknowns only; give both")
    if not FLAGS.replace_unknowns:
        return None
    return UnknownReplacer(model, tokenizer, read_lexicon(FLAGS.lexicon) if FLAGS.lexicon else None)


def report(lines, results, lengths, max_length):
    """Says on standard error what a user might not expect of the output."""
    notes = {
        "empty lines, left empty": sum(length <= 1 for length in lengths),
        f"lines longer than any in training ({max_length} tokens), translated in full but "
        "perhaps badly": sum(length > max_length for length in lengths),
        "translations cut at their length limit (twice the source and 20 tokens)": sum(
            not best[0].finished for best in results
        ),
    }
    for note, count in notes.items():
        if count:
            print(f"{count:,} of {len(lines):,} {note}", file=sys.stderr)


def formatted(results):
    """Output lines."""
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
    file = sys.stdout if FLAGS.output else sys.stderr
    for name in ("bleu", "chrf"):
        print(scores[name].format(signature=scores[f"{name}_signature"]), file=file)
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


def main(argv):
    """Reads flags and text, translates, scores."""
    if len(argv) > 1:
        raise UserError(f"unexpected argument {argv[1]!r}; flags start with --")
    quiet.start()
    if not 1 <= FLAGS.n_best <= FLAGS.beam_size:
        raise UserError(f"--n_best={FLAGS.n_best} must be from 1 to --beam_size={FLAGS.beam_size}")
    if FLAGS.save_scores and not FLAGS.reference:
        raise UserError("--save_scores needs --reference")
    directory, model, tokenizer, config = load_model()
    if FLAGS.length_penalty is None:
        FLAGS.length_penalty = 0.0 if FLAGS.channel_model else 0.6
    lines, name = read_input()
    references = read_lines(FLAGS.reference) if FLAGS.reference else None
    if references is not None and len(references) != len(lines):
        raise UserError(
            f"{name} has {len(lines)} lines and {FLAGS.reference} has {len(references)}; line n of "
            "one must translate line n of the other"
        )
    for path in filter(None, (FLAGS.output, FLAGS.save_scores)):
        check_writable(path)  # Before the work, not after it.
    translator = Translator(
        model,
        tokenizer,
        beam_size=FLAGS.beam_size,
        length_penalty=FLAGS.length_penalty,
        batch_size=FLAGS.batch_size,
        unknowns=make_replacer(model, tokenizer),
    )
    if not translator.unknowns:
        translator.check_known(lines, name)
    training = directory.summary() if references is not None else None
    began = time.monotonic()
    results = translator.translate(lines, n_best=FLAGS.n_best, description="translating")
    seconds = time.monotonic() - began
    lengths = [len(ids) for ids in tokenizer.source.encode(lines)]
    report(lines, results, lengths, config["options"]["max_length"])
    if translator.unknowns:
        counts = translator.unknowns.counts
        print(
            f"unknown words in translations: {counts['copied']:,} copied from the source, "
            f"{counts['translated']:,} translated with the lexicon",
            file=sys.stderr,
        )
    if FLAGS.output:
        write_lines(FLAGS.output, formatted(results))
    else:
        sys.stdout.buffer.write("".join(f"{line}\n" for line in formatted(results)).encode())
        sys.stdout.buffer.flush()
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
    app.run(one_line_errors(main))
