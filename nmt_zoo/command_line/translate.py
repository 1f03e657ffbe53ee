"""Translates text with a trained model.

python translate.py --model_dir=runs/x < in.en > out.de
python translate.py --model_dir=runs/x --input=test.en --output=out.de --reference=test.de
python translate.py --model_dir=runs/x,runs/y < in.en > out.de
python translate.py --model_dir=runs/x --language_model=runs/lm < in.en > out.de
python translate.py --channel_model=runs/ibm1_de_en --language_model=runs/lm < in.en > out.de
python translate.py --export_dir=exports/x < in.en > out.de
python translate.py --model_dir=runs/x --shortlist=runs/ibm1 < in.en > out.de
python translate.py --model_dir=runs/reverse --sample --tag=XBT --input=mono.de --output=back.en
python translate.py --model_dir=runs/x --input=test.en --score=test.de > log_probs
"""

from nmt_zoo.common import own_code, process

process.start(tensorflow=False, small_operations=True)

import dataclasses
import functools
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from nmt_zoo.command_line import console, engines
from nmt_zoo.command_line.engines import CTRANSLATE2, TENSORFLOW, convert_if_chosen
from nmt_zoo.command_line.flag_values import (
    ModelArguments,
    group,
    precision_flag,
    split_sentences_flag,
    with_length_penalty,
)
from nmt_zoo.command_line.machine import machine
from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import check_outputs, check_plain, decode_block, read_bytes, write_json
from nmt_zoo.common.parallel import num_cores
from nmt_zoo.common.progress import Progress
from nmt_zoo.configuration.options import AUTO, CHANNEL_WEIGHT, FUSION_WEIGHT
from nmt_zoo.data_pipeline.input_text import InputText, open_text, reader, windows
from nmt_zoo.data_pipeline.noise import COPIES, NAMES
from nmt_zoo.decoding.noise_scores import CLEAN, kinds_of, noise_scores
from nmt_zoo.decoding.scores import (
    METRICS,
    USUAL,
    bleu_tokenizer,
    check_bleu_tokenizer,
    check_metrics,
    corpus_scores,
    leading,
    remarks,
    score_entries,
    score_lines,
)
from nmt_zoo.decoding.search.requests import (
    FILES,
    OPTIONS,
    check_requests,
    copies_unknown,
    name_of,
    translator_options,
)
from nmt_zoo.decoding.search.types import COMPILE
from nmt_zoo.decoding.text import formats
from nmt_zoo.decoding.text.finished import file_facts
from nmt_zoo.decoding.text.line_warnings import LineWarnings
from nmt_zoo.decoding.text.markup import FORMS, Document
from nmt_zoo.decoding.text.training_text import TrainingText
from nmt_zoo.decoding.text.whole_texts import (
    Output,
    score_text,
    translate_text,
    unfinished,
)
from nmt_zoo.decoding.translator import Translator, split_options
from nmt_zoo.model_directory.directory import ModelDirectory, model_directories
from nmt_zoo.serving.ctranslate2.engine import CTranslate2Engine, CTranslate2Export

_model, _text, _search, _scores = map(group, ("Model", "Text", "Search", "Scores"))
_unknown = group("Unknown words")
_OF_LINES = "it is for whole lines"
_NOT_BY_CTRANSLATE2 = dict.fromkeys(
    (
        *("channel_model", "language_model", "prefix", "required", "glossary"),
        *("shortlist", "compile"),
        *("precision=bfloat16", "precision=int8", "precision=auto", "abstain"),
    ),
    "CTranslate2 cannot use it",
)
# What --score, which does not translate, has no use for.
_OF_TRANSLATING = dict.fromkeys(
    (
        *("beam_size", "n_best", "min_length_factor", "max_length_factor", "no_repeat_ngram"),
        *("prefix", "required", "glossary", "banned", "markup"),
        *("keep", "sample", "temperature", "top_k", "top_p", "seed", "mbr"),
        *("shortlist", "replace_unknowns", "lexicon", "split_sentences", "long_lines", "tag"),
        "abstain",
        *("export_dir", "reference", "metrics", "lowercase", "tokenize"),
        *("save_scores", "format=scores", "engine=ctranslate2", "compile", "precision=auto"),
    ),
    "nothing is translated",
)


@dataclasses.dataclass(frozen=True)
class Arguments(ModelArguments):
    """The flags of translate.py; `options` has the options of the search that were given."""

    more = OPTIONS
    model_dir: str = _model(
        "",
        "Directory of the trained model, as train.py wrote it; several with the same vocabularies, "
        "separated by commas, translate as an ensemble.",
        required="the model that translates",
        unless=("channel_model", "export_dir"),
        excludes=("channel_model", "export_dir"),
    )
    language_model: str = _model(
        "",
        "Directory of an n-gram language model (ngram_lm) of the target language, whose "
        "log-probabilities are added to those of the translation model.",
        excludes=("precision=bfloat16", "precision=int8", "precision=auto"),
    )
    channel_model: str = _model(
        "",
        "Translates with a noisy channel, instead of --model_dir: directory of an IBM model that "
        "was trained from target to source. Then --length_penalty is 0 by default.",
        needs=("language_model",),
        excludes={"sample": "its steps have no probabilities to draw by"},
    )
    language_model_weight: float | None = _model(
        None,
        "Factor on the log-probabilities of --language_model; with --channel_model, 1 is Bayes' "
        f"rule. Default: {FUSION_WEIGHT}, or {CHANNEL_WEIGHT} with --channel_model.",
        0.0,
        100.0,
        needs=("language_model",),
    )
    export_dir: str = _model(
        "",
        "Folder that export.py --format=ctranslate2 wrote, instead of --model_dir; its newest "
        "version translates with CTranslate2, which is faster for small models, for single "
        "sentences and with int8 weights. Needs the packages of requirements-extra.txt.",
        excludes={**_NOT_BY_CTRANSLATE2, "engine=tensorflow": "it is for CTranslate2"},
    )
    engine: str = _model(
        AUTO,
        "What searches. ctranslate2 starts in a fraction of the time of tensorflow; it needs a "
        "Transformer and the packages of requirements-extra.txt. auto: ctranslate2 for little text "
        "or a pipe, where it writes the same text, otherwise tensorflow.",
        choices=(AUTO, TENSORFLOW, CTRANSLATE2),
        excludes=_NOT_BY_CTRANSLATE2,
        when="ctranslate2",
    )
    verbose: bool = _model(False, "Prints which engine translates, and why.")
    input: str = _text(
        "",
        "File of source text, one sentence a line; or a test set in SGML or XML; or a .tsv, which "
        "holds the source in --input_column. Default: standard input.",
    )
    input_column: int | None = _text(
        None,
        "Column of the source in an --input that ends in .tsv. Default: 1, if --reference names "
        "the same file.",
        1,
    )
    split_sentences: str = split_sentences_flag(
        _text,
        "Translates each sentence of a line by itself, and joins the best translations",
        excludes={
            "prefix": _OF_LINES,
            "required": _OF_LINES,
            "n_best>1": "a line has one translation, joined from those of its sentences",
        },
        when="always",
    )
    output: str = _text("", "File for the translations. Default: standard output.")
    format: str = _text(
        "text",
        "text writes translations; scores writes the score and a tab before each; jsonl writes a "
        "JSON object for each line, with translation, score, log-probability, tokens, and links "
        "between words if the model aligns.",
        choices=("text", "scores", "jsonl"),
    )
    n_best: int = _text(
        1,
        "Number of different translations of each line, at most --beam_size, or of draws with "
        "--sample. Above 1, they are written as `line ||| translation ||| score`, lines counted "
        "from 0, and lines in parts (--long_lines=split) have one.",
        1,
    )
    abstain: float | None = _text(
        None,
        "Leaves out translations of which the model is less sure than this, from 0 to 1: the "
        "geometric mean of the probabilities of its tokens, at the temperature that training chose "
        "on validation text. With --reference, the others are scored.",
        0.0,
        1.0,
        excludes=dict.fromkeys(
            ("n_best>1", "sample", "noise"), "it is for one best translation of each line"
        ),
    )
    tag: str = _text(
        "",
        "Word to write before each translation, to mark text on which another model is trained. "
        "Lines without a translation stay empty.",
        excludes=dict.fromkeys(("format=scores|jsonl", "n_best>1"), "it is for plain translations"),
    )
    markup: str = _text(
        "",
        "Form of an input with markup, which the output keeps: its text is translated, and tags "
        "are put around the words that align with those they stood around. srt: subtitles.",
        choices=("", *FORMS),
        excludes=dict.fromkeys(
            (
                *("reference", "n_best>1", "format=scores|jsonl", "tag", "input_column"),
                *("prefix", "required"),
            ),
            "it writes a document",
        ),
    )
    compile: str = _search(
        AUTO,
        "When XLA compiles searches, which are then faster; compiling takes some seconds for each "
        "size. auto: those of up to two sentences, in the background, once as much time was spent "
        "on them. always: those of all batches.",
        choices=COMPILE,
    )
    batch_size: int = _search(32, "Number of sentences translated at once.", 1, 10_000)
    precision: str = precision_flag(_search, excludes=("compile=never",))
    long_lines: str = _search(
        "skip",
        "How lines above --max_input_tokens are treated: skip leaves them untranslated, split "
        "translates them in parts.",
        choices=("skip", "split"),
        excludes={"prefix": _OF_LINES, "required": _OF_LINES},
        when="split",
    )
    replace_unknowns: bool = _unknown(
        False,
        "Replaces each UNK in a translation by the most attended source word. For models with "
        "--tokenizer=word.",
        excludes=dict.fromkeys(
            ("prefix", "required", "glossary", "banned", "keep"), "it changes words"
        ),
    )
    lexicon: str = _unknown(
        "",
        "File of word translations, which --replace_unknowns writes in place of the source words; "
        "lines `source_word target_word probability`, as align.py --lexicon writes them.",
        needs=("replace_unknowns",),
    )
    score: str = _scores(
        "",
        "File of translations of the input, which are scored instead of translating: prints the "
        "log-probability of each, and the perplexity of all. May be the --input itself if it ends "
        "in .tsv.",
        needs={"input": "the text that was translated"},
        excludes=_OF_TRANSLATING,
    )
    reference: str = _scores(
        "",
        "Files of human translations of the input, separated by commas; or the --input itself if "
        "it is a test set with references, or a .tsv, whose other column is the reference. "
        "Blank lines are not scored. Prints --metrics.",
    )
    metrics: list[str] = _scores(
        ["bleu", "chrf"], f"Scores to print: {', '.join(METRICS)}.", needs=("reference",)
    )
    lowercase: bool = _scores(
        False,
        "Computes BLEU without regard to case (sacrebleu -lc).",
        needs=("reference", "metrics=bleu"),
    )
    tokenize: str = _scores(
        AUTO,
        "Tokenisation of BLEU (sacrebleu --tokenize). auto: the one that suits the script of the "
        "references.",
        needs=("reference", "metrics=bleu"),
    )
    noise: str = _scores(
        "",
        "Kinds of noise, separated by commas, or all: also translates and scores the test set with "
        f"each, beside the clean one. Kinds: {', '.join(NAMES)}.",
        needs={"input": "the text that is altered", "reference": "altered with it"},
        excludes=dict.fromkeys(
            ("prefix", "required", "n_best>1", "sample"), "it is for plain translations"
        ),
    )
    save_scores: str = _scores("", "JSON file for the scores and settings.", needs=("reference",))
    runs_on: str = TENSORFLOW  # The engine that was chosen.

    @property
    def sample(self) -> bool:
        """Returns whether translations are drawn at random."""
        return bool(self.options.get("sample"))


class Models(NamedTuple):
    """The models that translate together, loaded."""

    model: Any  # Keras's, or a `CTranslate2Model`.
    tokenizer: Any
    config: dict[str, Any]  # Also names the models that were combined.
    directories: list[Any]


# Flags besides `options` on which translations depend, and scores: how lines are read and written,
# and the models and their search. The model's own precision is among its options.
_LINE_FLAGS = ("replace_unknowns", "lexicon", "split_sentences", "long_lines", "max_input_tokens")
_MODEL_FLAGS = ("model_dir", "channel_model", "export_dir", "source_language", "target_language")
_MODEL_FLAGS += ("language_model", "language_model_weight")
_SEARCH_FLAGS = ("beam_size", "length_penalty", "precision", "n_best")
_COMMON = ("length_penalty", "batch_size", "max_input_tokens")  # Options of `Scorer` and others.
# What Python can ask of a translation.
OF_SEARCHES = ("beam_size", *_COMMON, "split_sentences", "long_lines", "replace_unknowns")
OF_SEARCHES += ("compile", *(option.name for option in OPTIONS))


def start_engine(args: Arguments) -> tuple[Arguments, list[Any], Any]:
    """Chooses and starts the engine that translates.

    Returns (the flags with this engine, the directories, and what CTranslate2 has loaded: None if
    TensorFlow translates).
    """
    if args.export_dir:
        export = CTranslate2Export(args.export_dir, args.languages)
        if "max_input_tokens" in args.given:
            export.check_max_input_tokens(args.max_input_tokens)
        most = min(args.max_input_tokens, export.max_input_tokens)
        args = dataclasses.replace(args, max_input_tokens=most)
        directory, loaded, reason = export, export.load(), "--export_dir"
    else:
        directory, loaded, reason = convert_if_chosen(args)
    engine = CTRANSLATE2 if directory else TENSORFLOW
    if args.verbose:
        print(f"engine: {engine} ({reason})", file=sys.stderr)
    args = dataclasses.replace(args, runs_on=engine)
    if directory:
        return args, [directory], loaded
    engines.start_tensorflow(args)
    if args.channel_model:
        return args, [ModelDirectory(args.channel_model)], None
    return args, model_directories(args.model_dir), None


def load_model(args: Arguments, directories: list[Any]) -> tuple[Any, Any, dict[str, Any]]:
    """Loads (model, tokenizer, config)."""
    from nmt_zoo.model_directory.combined_models import load_combined

    return load_combined(
        directories,
        ModelDirectory(args.language_model) if args.language_model else None,
        is_channel=bool(args.channel_model),
        weight=args.language_model_weight,
        languages=args.languages,
        dtype=args.precision,
    )


def open_markup(args: Arguments, copies: bool) -> InputText:
    """Opens the document of --markup as a text of its sentences; prints what is odd in it.

    Code and the like inside of sentences are signs, if the model `copies` what it does not know.
    """
    name = args.input or "standard input"
    data = read_bytes(args.input) if args.input else sys.stdin.buffer.read()
    check_plain(data, name)
    how = {"divide": lambda text: [text]} if args.split_sentences == "never" else {}
    document = Document(decode_block(data, name, 1), args.markup, name, signs=copies, **how)
    if document.remark:
        print(document.remark, file=sys.stderr)
    return InputText(reader(document.lines), name, len(document.lines), markup=document)


def make_format(args: Arguments, models: Models, document: Document | None) -> Callable:
    """Returns the function that formats a window of results, see `decoding.text.formats`."""
    if args.format == "jsonl" or document:
        from nmt_zoo.decoding.alignment.aligner import Aligner

        model, tokenizer, *_ = models
        # An aligner refuses models that cannot align.
        aligns = document.has_tags if document else model.has_alignment
        aligner = Aligner(model, tokenizer, name="--markup: the model") if aligns else None
        several = args.n_best > 1, aligner, args.max_input_tokens
        if document:
            return formats.whole_document(document, formats.JsonLines(tokenizer, *several))
        return formats.JsonLines(tokenizer, *several, confidence_scorer(args, models))
    if args.score:
        return formats.best_lines(lambda best: f"{best.log_prob:.4f}")
    if args.n_best > 1:
        return formats.n_best_lines
    if args.tag:
        # Empty lines stay empty, so that training leaves their pairs out.
        return formats.best_lines(lambda best: best.text and f"{args.tag} {best.text}")
    if args.format == "scores":
        return formats.best_lines(lambda best: f"{best.score:.4f}\t{best.text}")
    return formats.best_lines(lambda best: best.text)


def confidence_scorer(args: Arguments, models: Models) -> Any:
    """Returns the `ConfidenceScorer` of the models; None if no token has a probability."""
    if models.model.decoder_class:
        return None
    from nmt_zoo.decoding.confidence import ConfidenceScorer, temperature_of

    directories = [] if args.language_model else models.directories
    temperature = temperature_of(models.model, directories, None)
    if temperature is None:
        print("confidence: not calibrated, as training chose no temperature", file=sys.stderr)
    return ConfidenceScorer(
        models.model, models.tokenizer, temperature or 1.0, args.max_input_tokens
    )


def print_results(args: Arguments, *lines: str) -> None:
    """Prints results about the whole text where no translations are printed."""
    if args.output:
        console.write_result(*lines)
    else:
        print(*lines, sep="\n", file=sys.stderr)


def print_scores(
    args: Arguments, outputs: list[str], text: Any, tokenizer: Any, run: dict, seconds: Any
) -> None:
    """Prints scores with their signatures; saves them as JSON for --save_scores."""
    kept = [i for i, output in enumerate(outputs) if output is not None]
    if len(kept) < len(outputs):
        print(f"scored: {len(kept):,} of {len(outputs):,} lines", file=sys.stderr)
        if not kept:
            return
    texts = ([reference[i] for i in kept] for reference in text.references)
    references, outputs = list(map(tokenizer.target_words, texts)), [outputs[i] for i in kept]
    tokenize, reason = args.tokenize, ""
    if tokenize == AUTO:
        tokenize, reason = bleu_tokenizer(references)
    # A tokenisation that the user chose is compared with figures of the same tokenisation.
    is_usual = args.tokenize == AUTO and tokenize == USUAL
    has_bleu = "bleu" in args.metrics
    args = dataclasses.replace(args, metrics=leading(args.metrics, references))
    warnings = [*remarks(references, outputs, args.metrics, is_usual), reason if has_bleu else ""]
    for line in filter(None, warnings):
        print(line, file=sys.stderr)
    options = {"lowercase": args.lowercase, "tokenize": tokenize, "metrics": args.metrics}
    scores = corpus_scores(outputs, references, **options)
    lines = score_lines(scores, args.metrics)
    print_results(args, *lines)
    if args.save_scores:
        record = {
            **run,
            **score_entries(scores, args.metrics),
            "beam_size": 1 if args.sample else args.beam_size,
            "length_penalty": args.length_penalty,
            **{name: getattr(args, name) for name in (*_LINE_FLAGS, "precision")},
            "engine": args.runs_on,
            **args.options,
            "sentences": len(outputs),
            "translation_seconds": seconds,
        }
        write_json(args.save_scores, record)


def texts_read(args: Arguments) -> dict[str, str]:
    """Returns flag -> path of the texts on which translations depend."""
    paths = {"lexicon": args.lexicon, **{name: args.options.get(name) for name in FILES}}
    return {name: path for name, path in paths.items() if path}


def what_translates(args: Arguments) -> dict[str, Any]:
    """Returns everything besides the text that a translation depends on, as JSON values."""
    values = args.values()
    read = {name: [path] for name, path in texts_read(args).items()}
    if args.options.get("rules"):  # Their files have been loaded with the flags.
        read |= own_code.record()
    for name in ("model_dir", "channel_model", "language_model", "shortlist"):
        if path := values.get(name):
            read[name] = [directory.best_path for directory in model_directories(path)]
    if args.export_dir:
        read["export_dir"] = [CTranslate2Export(args.export_dir).best_path]
    files = {name: file_facts(paths) for name, paths in read.items()}
    flags = {name: values[name] for name in (*_MODEL_FLAGS, *_SEARCH_FLAGS, *_LINE_FLAGS)}
    return {**flags, "engine": args.runs_on, **args.options, **files}


def check_flags(args: Arguments) -> None:
    """Raises `UserError` if flags exclude each other, or an output cannot be written."""
    args.check(OPTIONS)
    check_requests(args.options, beam_size=args.beam_size, n_best=args.n_best)
    if args.tag and args.tag.split() != [args.tag]:
        raise UserError(f"--tag={args.tag!r}: expected one word, without white space")
    check_metrics(args.metrics)
    if args.noise:
        kinds_of(args.noise)
    if args.reference and "bleu" in args.metrics:
        check_bleu_tokenizer(args.tokenize)
    inputs = [args.input, args.score, *args.reference.split(",")]
    inputs += texts_read(args).values()
    outputs = args.output, args.output and unfinished(args.output), args.save_scores
    check_outputs(filter(None, outputs), filter(None, inputs), None if args.input else sys.stdin)
    if not args.output:
        console.check_standard_output()


def score(args: Arguments, text: Any, output: Output, models: Models) -> None:
    """Scores the translations of --score."""
    from nmt_zoo.decoding.scoring import Scorer

    options = {name: getattr(args, name) for name in _COMMON}
    options["name"] = name_of(models.directories)
    scorer = Scorer(models.model, models.tokenizer, **options)
    formatted = make_format(args, models, text.markup)
    if len(text.references) != 1:
        raise UserError(f"--score={args.score}: expected one translation, found several")
    score_text(text, scorer, output, formatted)
    print_results(args, scorer.summary())


def make_translator(
    args: Arguments, models: Models, lexicon: dict[str, str], training_text: TrainingText | None
) -> Translator:
    """Returns the `Translator`; reads all files that it needs."""
    model, tokenizer, _, directories = models
    # Of a line in parts there is one translation.
    split = args.split_sentences if args.n_best == 1 else "never"
    options = {"beam_size": args.beam_size, "compile": args.compile}
    options |= translator_options(args.options, tokenizer, directories, training_text, split)
    options |= {name: getattr(args, name) for name in _COMMON}
    options |= {"num_threads": num_cores(), "split_long_lines": args.long_lines == "split"}
    if path := args.options.get("shortlist"):
        from nmt_zoo.decoding.search.shortlist import make_shortlist
        from nmt_zoo.model_directory.combined_models import load_lexical_model

        lexical = load_lexical_model(ModelDirectory(path), tokenizer, directories[0])
        options["shortlist"] = make_shortlist(lexical, tokenizer.shared)
    if args.replace_unknowns:
        from nmt_zoo.decoding.unknowns import UnknownReplacer

        options["unknowns"] = UnknownReplacer(model, tokenizer, lexicon)
    if args.runs_on == TENSORFLOW:
        return Translator.of(model, tokenizer, **options)

    def load_engine():
        engines.start_tensorflow(args)
        keras_model, *_ = load_model(args, model_directories(args.model_dir))
        return Translator.of(keras_model, tokenizer, **options).engine

    search, of_lines = split_options(options)
    is_sure = args.export_dir or args.engine == CTRANSLATE2  # Nothing else shall run.
    fallback = None if is_sure else load_engine
    search = search._replace(emit_unknowns=args.replace_unknowns)
    engine = CTranslate2Engine(model, search, args.max_input_tokens, fallback)
    return Translator(engine, tokenizer, of_lines)


def abstaining(args: Arguments, models: Models) -> dict[str, Any]:
    """Returns what leaves out doubtful translations, as an argument of `translate_text`."""
    if args.abstain is None:
        return {}
    from nmt_zoo.decoding.confidence import Abstaining

    if not (scorer := confidence_scorer(args, models)):
        raise UserError(
            f"--abstain: {models.config['model']} gives no probabilities of single tokens; "
            "leave it out"
        )
    return {"abstain": Abstaining(scorer, args.abstain)}


def translate(
    args: Arguments,
    text: Any,
    output: Output,
    models: Models,
    translator: Translator,
    training_text: TrainingText | None,
) -> None:
    """Translates an `InputText`; prints warnings and scores."""
    unknowns, keep = translator.options.unknowns, translator.options.keep
    training = None
    if args.noise and len(text.references) > 1:
        raise UserError(
            f"--noise alters a line and its reference, found {len(text.references)} references "
            "of each line; give one"
        )
    if text.references:  # Read before the work, in case it is damaged.
        training = [directory.summary() for directory in models.directories]
        training = training[0] if len(training) == 1 else training
    reported = LineWarnings(
        training_text,
        translator.in_sentences,
        max_input_tokens=args.max_input_tokens,
        max_length=models.config["options"]["max_length"],
        n_best=args.n_best,
        replaces_unknowns=unknowns is not None,
    )
    began = time.monotonic()
    outputs, num_used = translate_text(
        text,
        translator,
        output,
        n_best=args.n_best,
        formatted=make_format(args, models, text.markup),
        warnings=reported,
        **abstaining(args, models),
    )
    seconds = None if num_used else round(time.monotonic() - began, 1)
    for warning in reported:
        print(warning, file=sys.stderr)
    earlier = "; lines of the earlier run are not counted" if num_used else ""
    for counts in filter(None, (unknowns, keep, translator.options.glossary)):
        if summary := counts.summary():
            print(f"{summary}{earlier}", file=sys.stderr)
    if text.references:
        facts = {"parameters": models.model.count_params()}
        run = {**models.config, **facts, "training": training, "machine": machine()}
        rows = with_noise(args, translator, outputs) if args.noise else []
        if rows:
            run["noise"] = [row._asdict() for row in rows]
        print_scores(args, outputs, text, models.tokenizer, run, seconds)
        for row in rows:
            share = 100 * row.bleu / rows[0].bleu if rows[0].bleu else 0
            of_clean = f" ({share:.0f}% of {CLEAN})" * (row is not rows[0])
            altered = f"{row.altered:5,} lines altered, "
            print_results(
                args, f"{row.kind:10}{altered}BLEU {row.bleu:5.2f}{of_clean}, chrF {row.chrf:5.2f}"
            )


def with_noise(args: Arguments, translator: Translator, outputs: list[str]) -> list[Any]:
    """Translates and scores the test set with each kind of noise; returns `noise_scores.Row`s."""
    text = open_text(args.input, column=args.input_column, reference=args.reference)
    lines = [line for _, window in windows(text.read, args.batch_size) for line in window]
    pairs = list(zip(lines, text.references[0], strict=True))
    tokenize = args.tokenize
    if tokenize == AUTO:
        tokenize, _ = bleu_tokenizer(text.references)
    kinds = kinds_of(args.noise)
    rows = noise_scores(translator, kinds, pairs, outputs, tokenize)
    with Progress("noise", len(kinds) + 1, "texts") as progress:
        rows = [progress.update(1) or row for row in rows]
    if len(rows) <= len(kinds):
        print(f"{COPIES}: not scored, the vocabulary has no byte pieces", file=sys.stderr)
    return rows


def main(args: Arguments) -> int:
    """Reads flags and text; translates or scores."""
    check_flags(args)
    args, directories, loaded = start_engine(args)
    for directory in directories:
        directory.config()  # Refuses a directory without a model before standard input is read.
    lexicon = {}
    if args.lexicon:  # Read before the model is loaded, in case it is damaged.
        from nmt_zoo.decoding.unknowns import read_lexicon

        lexicon = read_lexicon(args.lexicon)
    training_text = None
    if not args.channel_model:  # It translates into the language of its source text.
        training_text = TrainingText.read(directories[0].training_text_path)
    reference = args.reference or args.score
    if args.markup:
        text = open_markup(args, copies_unknown(args.options, directories))
    else:
        text = open_text(args.input, column=args.input_column, reference=reference)
    models = Models(*(loaded or load_model(args, directories)), directories)
    args = with_length_penalty(args, models.config)
    if most := models.config["options"]["context_sentences"]:
        text = text.in_documents(most)
    shows_progress = not text.prompts and bool(args.output or not sys.stdout.isatty())
    end = "\n" * (text.markup is None)
    output = Output(
        args.output,
        lambda lines: console.write_result(*lines, end=end),
        args.batch_size,
        what_translates(args),
        shows_progress,
        end,
    )
    if args.score:
        score(args, text, output, models)
        return 0
    translator = make_translator(args, models, lexicon, training_text)
    translate(args, text, output, models, translator, training_text)
    return 0


command = functools.partial(console.run, main, Arguments)
