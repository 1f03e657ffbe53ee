"""Translates text with a trained model.

python translate.py --model_dir=runs/x < in.en > out.de
python translate.py --model_dir=runs/x --input=test.en --output=out.de --reference=test.de
python translate.py --model_dir=runs/x,runs/y < in.en > out.de
python translate.py --model_dir=runs/x --language_model=runs/lm < in.en > out.de
python translate.py --channel_model=runs/ibm1_de_en --language_model=runs/lm < in.en > out.de
python translate.py --engine=ctranslate2 --export_dir=serving/x < in.en > out.de
python translate.py --model_dir=runs/x --shortlist=runs/ibm1 < in.en > out.de
python translate.py --model_dir=runs/reverse --sample --tag=XBT --input=mono.de --output=back.en
python translate.py --model_dir=runs/x --input=test.en --score=test.de > log_probs
python translate.py --model_dir=runs/x --input=test.en --rank=test.nbest > ranked.nbest
"""

from nmt_zoo.command_line import startup, small_operations, quiet  # noqa: F401, I001 - first of all

# isort: split

import itertools
import sys
import time

from absl import flags

from nmt_zoo.command_line import console
from nmt_zoo.command_line.flag_values import (
    define,
    define_beam_size,
    define_length_penalty,
    define_max_input_tokens,
    define_split_sentences,
    group,
    set_length_penalty,
)
from nmt_zoo.command_line.machine import machine
from nmt_zoo.common.cores import num_cores
from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import check_outputs, write_json
from nmt_zoo.configuration.options import AUTO
from nmt_zoo.decoding.scores import (
    METRICS,
    USUAL,
    bleu_tokenizer,
    check_bleu_tokenizer,
    corpus_scores,
    paired_bootstrap,
    remarks,
    score_entries,
    score_lines,
)
from nmt_zoo.decoding.scoring import Scorer
from nmt_zoo.decoding.search.requests import FILES, OPTIONS, check_requests, translator_options
from nmt_zoo.decoding.search.shortlist import make_shortlist
from nmt_zoo.decoding.text import formats
from nmt_zoo.decoding.text.input_text import open_text
from nmt_zoo.decoding.text.kept import file_facts
from nmt_zoo.decoding.text.ranking import NBestList
from nmt_zoo.decoding.text.remarks import Remarks
from nmt_zoo.decoding.text.training_text import TrainingText
from nmt_zoo.decoding.text.whole_texts import (
    Output,
    rank_text,
    score_text,
    translate_text,
    unfinished,
)
from nmt_zoo.decoding.translator import MAX_INPUT_TOKENS, Translator
from nmt_zoo.decoding.unknowns import UnknownReplacer, read_lexicon
from nmt_zoo.model_directory.combined_models import (
    CHANNEL_WEIGHT,
    FUSION_WEIGHT,
    load_combined,
    load_lexical_model,
    model_directories,
)
from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.serving.ctranslate2.engine import CTranslate2Export, check_given

FLAGS = flags.FLAGS

with group("Model"):
    flags.DEFINE_string(
        "model_dir",
        "",
        "Directory of the trained model, as train.py wrote it; several with the same vocabularies, "
        "separated by commas, translate as an ensemble.",
    )
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
        "Library that runs the search. ctranslate2 is faster for small models, for single "
        "sentences and with int8 weights; it needs --export_dir in place of --model_dir, and the "
        "packages of requirements-extra.txt.",
    )
    flags.DEFINE_string(
        "export_dir",
        "",
        "Folder that export.py --format=ctranslate2 wrote, of which the newest version translates. "
        "Only with --engine=ctranslate2.",
    )
with group("Text"):
    flags.DEFINE_string(
        "input",
        "",
        "File of source text, one sentence a line; or a test set in SGML or XML; or a .tsv, which "
        "holds the source in --input_column. Default: standard input.",
    )
    flags.DEFINE_integer(
        "input_column",
        None,
        "Column of the source in an --input that ends in .tsv. Default: 1, if --reference names "
        "the same file.",
        lower_bound=1,
    )
    define_split_sentences(
        "Translates each sentence of a line by itself, and joins the best translations"
    )
    flags.DEFINE_string("output", "", "File for the translations. Default: standard output.")
    flags.DEFINE_enum(
        "format",
        "text",
        ["text", "jsonl"],
        "text writes translations; jsonl writes a JSON object for each line, with translation, "
        "score, log-probability, tokens, and links between words if the model aligns.",
    )
    flags.DEFINE_integer(
        "n_best",
        1,
        "Number of different translations of each line, at most --beam_size, or of draws with "
        "--sample. Above 1, they are written as `line ||| translation ||| score`, lines counted "
        "from 0, and lines in parts (--long_lines=split) have one.",
        lower_bound=1,
    )
    flags.DEFINE_bool("scores", False, "Writes the score and a tab before each translation.")
    flags.DEFINE_string(
        "tag",
        "",
        "Word to write before each translation, to mark text on which another model is trained. "
        "Lines without a translation stay empty.",
    )
with group("Search"):
    define_beam_size()
    define_length_penalty(", or 0 with --channel_model")
    flags.DEFINE_integer("batch_size", 32, "Number of sentences translated at once.", 1, 10_000)
    flags.DEFINE_enum(
        "precision",
        "float32",
        ["float32", "bfloat16"],
        "Number format of the computation. bfloat16 takes half the memory. On processors that "
        "multiply it in hardware, large models translate batches in about two thirds of the time. "
        "Translations differ a little.",
    )
    define_max_input_tokens(
        MAX_INPUT_TOKENS,
        "Longest line that is translated in one piece, in tokens with </s>. Memory grows with its "
        "square.",
    )
    flags.DEFINE_enum(
        "long_lines",
        "skip",
        ["skip", "split"],
        "How lines above --max_input_tokens are treated: skip leaves them untranslated, split "
        "translates them in parts.",
    )
for _title, _options in itertools.groupby(OPTIONS, key=lambda option: option.group):
    with group(_title):
        for _option in _options:
            define(_option)
with group("Unknown words"):
    flags.DEFINE_bool(
        "replace_unknowns",
        False,
        "Replaces each UNK in a translation by the most attended source word. For "
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
        "score",
        "",
        "File of translations of the input, which are scored instead of translating: prints the "
        "log-probability of each, and the perplexity of all. May be the --input itself if it ends "
        "in .tsv.",
    )
    flags.DEFINE_string(
        "rank",
        "",
        "File of several translations of each line, as --n_best writes them. Adds the score of "
        "the model to each, and sorts by it.",
    )
    flags.DEFINE_string(
        "reference",
        "",
        "Files of human translations of the input, separated by commas; or the --input itself if "
        "it is a test set with references, or a .tsv, whose other columns are the references. "
        "Blank lines are not scored. Prints --metrics.",
    )
    flags.DEFINE_list("metrics", "bleu,chrf", f"Scores to print: {', '.join(METRICS)}.")
    flags.DEFINE_string(
        "baseline",
        "",
        "File of other translations of the input. Tests by paired bootstrap whether the scores "
        "differ; needs --reference.",
    )
    flags.DEFINE_bool("lowercase", False, "Computes BLEU without regard to case (sacrebleu -lc).")
    flags.DEFINE_string(
        "tokenize",
        AUTO,
        "Tokenisation of BLEU (sacrebleu --tokenize). auto: the one that suits the script of the "
        "references.",
    )
    flags.DEFINE_string(
        "save_scores", "", "JSON file for the scores and settings; needs --reference."
    )


def the_export():
    """Returns the `CTranslate2Export` of --export_dir; checks the flags that depend on it."""
    if not FLAGS.export_dir:
        raise UserError(
            "--engine=ctranslate2 needs --export_dir, a folder that export.py --format=ctranslate2 "
            "wrote"
        )
    check_given({name: FLAGS[name].value for name in FLAGS})
    export = CTranslate2Export(FLAGS.export_dir)
    if FLAGS["max_input_tokens"].present:
        export.check_max_input_tokens(FLAGS.max_input_tokens)
    FLAGS.max_input_tokens = min(FLAGS.max_input_tokens, export.max_input_tokens)
    return export


def the_directories():
    """Returns the list of `ModelDirectory` of --model_dir, of --channel_model, or `the_export`."""
    if FLAGS.language_model_weight is not None and not FLAGS.language_model:
        raise UserError("--language_model_weight needs --language_model")
    if FLAGS.engine == "ctranslate2":
        return [the_export()]
    if FLAGS.export_dir:
        raise UserError("--export_dir needs --engine=ctranslate2")
    if bool(FLAGS.model_dir) == bool(FLAGS.channel_model):
        raise UserError("give either --model_dir, or --channel_model with --language_model")
    if FLAGS.channel_model:
        if not FLAGS.language_model:
            raise UserError("--channel_model needs --language_model")
        if FLAGS.coverage_penalty:
            raise UserError("--coverage_penalty: a noisy channel has no attention; leave it out")
        return [ModelDirectory(FLAGS.channel_model)]
    return model_directories(FLAGS.model_dir)


def load_model(directories):
    """Loads (model, tokenizer, config); config also names the models that were combined."""
    return load_combined(
        directories,
        ModelDirectory(FLAGS.language_model) if FLAGS.language_model else None,
        is_channel=bool(FLAGS.channel_model),
        weight=FLAGS.language_model_weight,
        **({"dtype": FLAGS.precision} if FLAGS.precision != "float32" else {}),
    )


def read_translations():
    """Reads --lexicon: source word -> target word."""
    if FLAGS.lexicon and not FLAGS.replace_unknowns:
        raise UserError("--lexicon is used by --replace_unknowns only; give both")
    return read_lexicon(FLAGS.lexicon) if FLAGS.lexicon else {}


def make_format(model, tokenizer, plain):
    """Returns the function that formats a window of results, see `decoding.text.formats`.

    Args:
        model: the model.
        tokenizer: its `Tokenizer`.
        plain: the function for --format=text.
    """
    if FLAGS.format == "text":
        return plain
    from nmt_zoo.decoding.alignment.aligner import Aligner

    aligner = Aligner(model, tokenizer) if model.has_alignment else None
    return formats.JsonLines(tokenizer, FLAGS.n_best > 1, aligner, FLAGS.max_input_tokens)


def print_results(*lines):
    """Prints results about the whole text where no translations are printed."""
    if FLAGS.output:
        console.write_result(*lines)
    else:
        print(*lines, sep="\n", file=sys.stderr)


_TEXTS = ("lexicon", *FILES)  # Flags that name a text on which translations depend.
# Flags besides `requests()` on which scores depend. The model's own precision is among its options.
_RECORDED = (
    *("replace_unknowns", "lexicon", "split_sentences", "long_lines", "max_input_tokens"),
    *("engine", "precision"),
)


def print_scores(outputs, text, tokenizer, run, seconds):
    """Prints scores with their signatures; keeps them as JSON if asked."""
    references = list(map(tokenizer.target_words, text.references))
    tokenize, reason = FLAGS.tokenize, ""
    if tokenize == AUTO:
        tokenize, reason = bleu_tokenizer(references)
    # A tokenisation that was asked for is compared with figures of the same tokenisation.
    is_usual = FLAGS.tokenize == AUTO and tokenize == USUAL
    has_bleu = "bleu" in FLAGS.metrics
    said = [*remarks(references, outputs, has_bleu and is_usual), reason if has_bleu else ""]
    for line in filter(None, said):
        print(line, file=sys.stderr)
    options = {"lowercase": FLAGS.lowercase, "tokenize": tokenize, "metrics": FLAGS.metrics}
    scores = corpus_scores(outputs, references, **options)
    lines = score_lines(scores, FLAGS.metrics)
    if text.baseline is not None:
        baseline = tokenizer.target_words(text.baseline)
        lines += paired_bootstrap(outputs, baseline, references, **options)
    print_results(*lines)
    if FLAGS.save_scores:
        record = {
            **run,
            **score_entries(scores, FLAGS.metrics),
            "beam_size": 1 if FLAGS.sample else FLAGS.beam_size,
            "length_penalty": FLAGS.length_penalty,
            **{name: FLAGS[name].value for name in _RECORDED},
            **requests(),
            "sentences": len(outputs),
            "translation_seconds": seconds,
        }
        write_json(FLAGS.save_scores, record)


def check_paths():
    """Raises `UserError` if an output cannot be written, or would replace an input."""
    flags = "input", "score", "rank", "baseline", *_TEXTS
    inputs = [*(FLAGS[name].value for name in flags), *FLAGS.reference.split(",")]
    outputs = FLAGS.output, FLAGS.output and unfinished(FLAGS.output), FLAGS.save_scores
    check_outputs(filter(None, outputs), filter(None, inputs), None if FLAGS.input else sys.stdin)


def what_translates():
    """Returns everything besides the text that a translation depends on, as JSON values."""
    read = {name: [FLAGS[name].value] for name in _TEXTS if FLAGS[name].value}
    for name in ("model_dir", "channel_model", "language_model", "shortlist"):
        if path := FLAGS[name].value:
            read[name] = [one.best_path for one in model_directories(path)]
    if FLAGS.export_dir:
        read["export_dir"] = [CTranslate2Export(FLAGS.export_dir).best_path]
    files = {name: file_facts(paths) for name, paths in read.items()}
    groups = "Model", "Search", "Unknown words", *(option.group for option in OPTIONS)
    names = [n for n in FLAGS if getattr(FLAGS[n], "group", "") in groups and n != "batch_size"]
    names += ["n_best", "split_sentences"]
    return {**{name: FLAGS[name].value for name in names}, **files}


def requests():
    """Returns the options of the search that were given: name -> value."""
    return {o.name: FLAGS[o.name].value for o in OPTIONS if FLAGS[o.name].value is not None}


def search_options(directories, model, tokenizer):
    """Returns the arguments of `Translator` that say how to search; reads all that they need."""
    asked = requests()
    copies = all(directory.config()["options"].get("copy_share") for directory in directories)
    found = translator_options(asked, model, tokenizer, copies)
    options = {"beam_size": FLAGS.beam_size, **found}
    if FLAGS.shortlist:
        lexical = load_lexical_model(ModelDirectory(FLAGS.shortlist), tokenizer, directories[0])
        options["shortlist"] = make_shortlist(lexical, tokenizer.shared)
    return options


_NEED_REFERENCE = ("save_scores", "tokenize", "lowercase", "metrics", "baseline")
# Flags that --score and --rank use; all others are for translating.
_OF_SCORING = {
    *("model_dir", "language_model", "channel_model", "language_model_weight", "length_penalty"),
    *("input", "input_column", "output", "format", "batch_size", "max_input_tokens", "precision"),
}


def check_flags():
    """Raises `UserError` if flags exclude each other, before anything is read."""
    split = ["--long_lines=split"] if FLAGS.long_lines == "split" else []
    check_requests(
        requests(),
        beam_size=FLAGS.beam_size if FLAGS["beam_size"].present else None,
        n_best=FLAGS.n_best,
        split=" ".join([*split, *["--split_sentences"] * (FLAGS.split_sentences == "always")]),
        replace_unknowns=FLAGS.replace_unknowns,
    )
    if FLAGS.precision != "float32" and (FLAGS.language_model or FLAGS.engine != "tensorflow"):
        raise UserError(
            f"--precision={FLAGS.precision} cannot be combined with --language_model and --engine"
        )
    if FLAGS.scores and FLAGS.format == "jsonl":
        raise UserError("--scores: --format=jsonl has the scores already; leave the flag out")
    if FLAGS.tag:
        if FLAGS.tag.split() != [FLAGS.tag]:
            raise UserError(f"--tag={FLAGS.tag!r}: expected one word, without white space")
        if FLAGS.scores or FLAGS.n_best > 1 or FLAGS.format == "jsonl":
            raise UserError("--tag is for plain translations; leave out --scores, --n_best, jsonl")
    for flag in _NEED_REFERENCE:
        if FLAGS[flag].present and FLAGS[flag].value and not FLAGS.reference:
            raise UserError(f"--{flag} needs --reference")
    for mode in ("score", "rank"):
        if FLAGS[mode].value:
            check_scoring(mode)
    if FLAGS.sample and FLAGS.channel_model:
        raise UserError(
            "--sample: the steps of a noisy channel have no probabilities to draw by; leave it out"
        )
    if FLAGS.rank and FLAGS.format == "jsonl":
        raise UserError("--rank writes an n-best list; leave out --format=jsonl")
    if not FLAGS.metrics or not set(FLAGS.metrics) <= set(METRICS):
        found = ",".join(FLAGS.metrics) or "nothing"
        raise UserError(f"--metrics: expected some of {','.join(METRICS)}, found {found}")
    if "bleu" not in FLAGS.metrics:
        for flag in ("lowercase", "tokenize"):
            if FLAGS[flag].present and FLAGS[flag].value:
                raise UserError(f"--{flag} is for BLEU; add bleu to --metrics, or leave it out")
    elif FLAGS.reference:
        check_bleu_tokenizer(FLAGS.tokenize)
    check_paths()
    if not FLAGS.output:
        console.check_standard_output()


def check_scoring(mode):
    """Raises `UserError` at a flag that --score or --rank does not use."""
    given = [name for name in FLAGS if FLAGS[name].present and FLAGS[name].value not in ("", [])]
    strange = [n for n in given if hasattr(FLAGS[n], "group") and n not in {*_OF_SCORING, mode}]
    if strange:
        raise UserError(f"--{mode} does not translate; leave out --{strange[0]}")
    if not FLAGS.input:
        raise UserError(f"--{mode} needs --input, the text that was translated")


def the_output(text):
    """Returns the `Output` for the lines of a `InputText`."""
    return Output(
        FLAGS.output,
        lambda lines: console.write_result(*lines),
        FLAGS.batch_size,
        what_translates(),
        shows_progress=not text.prompts and bool(FLAGS.output or not sys.stdout.isatty()),
    )


def score_or_rank(text, model, tokenizer, common):
    """Scores the translations of --score, or scores and sorts those of --rank.

    Args:
        text: `InputText`.
        model: the model.
        tokenizer: its `Tokenizer`.
        common: arguments that `Scorer` and `Translator` have in common.
    """
    scorer = Scorer(model, tokenizer, **common)
    if FLAGS.rank:
        rank_text(text, scorer, the_output(text), NBestList(FLAGS.rank))
        for reason, count in scorer.problems.items():
            print(f"translations not scored ({reason}): {count:,}", file=sys.stderr)
        if scorer.num_unknown:
            print(f"translations: {scorer.unknown_tokens()}", file=sys.stderr)
        return
    formatted = make_format(model, tokenizer, formats.log_prob_lines)
    if len(text.references) != 1:
        raise UserError(f"--score={FLAGS.score}: expected one translation, found several")
    score_text(text, scorer, the_output(text), formatted)
    print_results(scorer.summary())


def most_sentences(training_text):
    """Returns the most sentences of a line that are translated at once, for a `Translator`."""
    if FLAGS.split_sentences == "always":
        return 1
    # Of a line in parts there is one translation.
    is_auto = FLAGS.split_sentences == "auto" and FLAGS.n_best == 1
    return training_text.most_sentences if is_auto and training_text else 0


def make_translator(directories, model, tokenizer, lexicon, common):
    """Returns the `Translator`; arguments as `score_or_rank`, and what was read from --lexicon."""
    return Translator(
        model,
        tokenizer,
        **search_options(directories, model, tokenizer),
        split_long_lines=FLAGS.long_lines == "split",
        num_threads=num_cores(),
        unknowns=UnknownReplacer(model, tokenizer, lexicon) if FLAGS.replace_unknowns else None,
        engine=model if FLAGS.engine == "ctranslate2" else None,
        **common,
    )


def translate(text, translator, directories, model, config, training_text):
    """Translates the text; prints remarks and scores.

    Args:
        text: `InputText`.
        translator: `Translator`.
        directories: list of `ModelDirectory`.
        model: the model.
        config: its configuration.
        training_text: its `TrainingText`, or None.
    """
    plain = formats.scored_lines if FLAGS.scores else formats.plain_lines
    plain = formats.tagged_lines(FLAGS.tag) if FLAGS.tag else plain
    plain = formats.n_best_lines if FLAGS.n_best > 1 else plain
    training = None
    if text.references:  # Read before the work, in case it is damaged.
        training = [directory.summary() for directory in directories]
        training = training[0] if len(training) == 1 else training
    remarks = Remarks(
        FLAGS.max_input_tokens,
        config["options"]["max_length"],
        FLAGS.n_best,
        translator.unknowns is not None,
        training_text=training_text,
        split=translator.in_sentences,
    )
    began = time.monotonic()
    outputs, num_used = translate_text(
        text,
        translator,
        the_output(text),
        n_best=FLAGS.n_best,
        formatted=make_format(model, translator.tokenizer, plain),
        remarks=remarks,
    )
    seconds = None if num_used else round(time.monotonic() - began, 1)
    for remark in remarks:
        print(remark, file=sys.stderr)
    earlier = "; lines of the earlier run are not counted" if num_used else ""
    for counts in filter(None, (translator.unknowns, translator.keep)):
        if summary := counts.summary():
            print(f"{summary}{earlier}", file=sys.stderr)
    if text.references:
        facts = {"parameters": model.count_params(), "training": training, "machine": machine()}
        print_scores(outputs, text, translator.tokenizer, {**config, **facts}, seconds)


def main(argv):
    """Reads flags and text; translates, scores or ranks."""
    del argv
    # A thread for each batch is faster than several threads for one operation after the other.
    quiet.start(intra_op_threads=1)
    check_flags()
    directories = the_directories()
    for directory in directories:
        directory.config()  # Refuses a directory without a model before standard input is read.
    lexicon = read_translations()
    training_text = None
    if not FLAGS.channel_model:  # It translates into the language of its source text.
        training_text = TrainingText.read(directories[0].training_text_path)
    text = open_text(
        FLAGS.input,
        column=FLAGS.input_column,
        reference=FLAGS.reference or FLAGS.score,
        baseline=FLAGS.baseline,
    )
    model, tokenizer, config = load_model(directories)
    set_length_penalty(config)
    names = "length_penalty", "batch_size", "max_input_tokens"
    paths = ", ".join(str(directory.path) for directory in directories)
    common = {"name": f"the model in {paths}", **{n: FLAGS[n].value for n in names}}
    if FLAGS.score or FLAGS.rank:
        score_or_rank(text, model, tokenizer, common)
        return 0
    common["split_sentences"] = most_sentences(training_text)
    translator = make_translator(directories, model, tokenizer, lexicon, common)
    translate(text, translator, directories, model, config, training_text)
    return 0


def command():
    """Runs the script on the command line, and exits."""
    console.run(main)
