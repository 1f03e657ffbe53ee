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
python translate.py --model_dir=runs/x --input=test.en --rank=test.nbest > ranked.nbest
"""

from nmt_zoo.common import process

process.start(tensorflow=False, small_operations=True)

import dataclasses
import sys
import time
from collections.abc import Callable
from typing import Any

from nmt_zoo.command_line import console, flag_values
from nmt_zoo.command_line.engines import CTRANSLATE2, TENSORFLOW, convert_if_chosen
from nmt_zoo.command_line.flag_values import (
    beam_size_flag,
    flag,
    language_flag,
    length_penalty_flag,
    max_input_tokens_flag,
    split_sentences_flag,
    with_length_penalty,
)
from nmt_zoo.command_line.machine import machine
from nmt_zoo.common.cores import num_cores
from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import check_outputs, write_json
from nmt_zoo.configuration.options import AUTO, CHANNEL_WEIGHT, FUSION_WEIGHT
from nmt_zoo.decoding.scores import (
    METRICS,
    USUAL,
    bleu_tokenizer,
    check_bleu_tokenizer,
    check_metrics,
    corpus_scores,
    paired_bootstrap,
    remarks,
    score_entries,
    score_lines,
)
from nmt_zoo.decoding.search.requests import FILES, OPTIONS, check_requests, translator_options
from nmt_zoo.decoding.search.terms import COMPILE
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
from nmt_zoo.model_directory.directory import ModelDirectory, model_directories
from nmt_zoo.serving.ctranslate2.engine import CTranslate2Export

_MODEL, _TEXT, _SEARCH, _SCORES = "Model", "Text", "Search", "Scores"
_UNKNOWN = "Unknown words"
_OF_LINES = "it is for whole lines"
_NOT_BY_CTRANSLATE2 = dict.fromkeys(
    (
        *("channel_model", "language_model", "replace_unknowns", "prefix", "required"),
        *("shortlist", "coverage_penalty", "precision=bfloat16", "compile"),
        *("divide_by_length", "word_reward"),
    ),
    "CTranslate2 cannot use it",
)
# What --score and --rank, which do not translate, have no use for.
_OF_TRANSLATING = dict.fromkeys(
    (
        *("beam_size", "n_best", "min_length_factor", "max_length_factor", "no_repeat_ngram"),
        *("divide_by_length", "word_reward", "coverage_penalty", "prefix", "required", "banned"),
        *("keep", "sample", "temperature", "top_k", "top_p", "seed", "mbr"),
        *("shortlist", "replace_unknowns", "lexicon", "split_sentences", "long_lines", "tag"),
        *("export_dir", "reference", "metrics", "baseline", "lowercase", "tokenize"),
        *("save_scores", "format=scores", "engine=ctranslate2", "compile"),
    ),
    "nothing is translated",
)


@dataclasses.dataclass(frozen=True)
class Arguments(flag_values.Arguments):
    """The flags of translate.py; `options` has the options of the search that were given."""

    more = OPTIONS
    model_dir: str = flag(
        _MODEL,
        "",
        "Directory of the trained model, as train.py wrote it; several with the same vocabularies, "
        "separated by commas, translate as an ensemble.",
        required="the model that translates",
        unless=("channel_model", "export_dir"),
        excludes=("channel_model", "export_dir"),
    )
    source_language: str = language_flag(_MODEL, "source")
    target_language: str = language_flag(_MODEL, "target")
    language_model: str = flag(
        _MODEL,
        "",
        "Directory of an n-gram language model (ngram_lm) of the target language, whose "
        "log-probabilities are added to those of the translation model.",
        excludes=("precision=bfloat16",),
    )
    channel_model: str = flag(
        _MODEL,
        "",
        "Translates with a noisy channel, instead of --model_dir: directory of an IBM model that "
        "was trained from target to source.",
        needs=("language_model",),
        excludes={
            "coverage_penalty": "a noisy channel has no attention",
            "sample": "its steps have no probabilities to draw by",
        },
    )
    language_model_weight: float | None = flag(
        _MODEL,
        None,
        "Factor on the log-probabilities of --language_model; with --channel_model, 1 is Bayes' "
        f"rule. Default: {FUSION_WEIGHT}, or {CHANNEL_WEIGHT} with --channel_model.",
        0.0,
        100.0,
        needs=("language_model",),
    )
    export_dir: str = flag(
        _MODEL,
        "",
        "Folder that export.py --format=ctranslate2 wrote, instead of --model_dir; its newest "
        "version translates with CTranslate2, which is faster for small models, for single "
        "sentences and with int8 weights. Needs the packages of requirements-extra.txt.",
        excludes={**_NOT_BY_CTRANSLATE2, "engine=tensorflow": "it is for CTranslate2"},
    )
    engine: str = flag(
        _MODEL,
        AUTO,
        "What searches. ctranslate2 starts in a fraction of the time of tensorflow; it needs a "
        "Transformer and the packages of requirements-extra.txt. auto: ctranslate2 for little text "
        "or a pipe, where it writes the same text, otherwise tensorflow.",
        choices=(AUTO, TENSORFLOW, CTRANSLATE2),
        excludes=_NOT_BY_CTRANSLATE2,
        when="ctranslate2",
    )
    verbose: bool = flag(_MODEL, False, "Prints which engine translates, and why.")
    input: str = flag(
        _TEXT,
        "",
        "File of source text, one sentence a line; or a test set in SGML or XML; or a .tsv, which "
        "holds the source in --input_column. Default: standard input.",
    )
    input_column: int | None = flag(
        _TEXT,
        None,
        "Column of the source in an --input that ends in .tsv. Default: 1, if --reference names "
        "the same file.",
        1,
    )
    split_sentences: str = split_sentences_flag(
        _TEXT,
        "Translates each sentence of a line by itself, and joins the best translations",
        excludes={
            "prefix": _OF_LINES,
            "required": _OF_LINES,
            "n_best>1": "a line has one translation, joined from those of its sentences",
        },
        when="always",
    )
    output: str = flag(_TEXT, "", "File for the translations. Default: standard output.")
    format: str = flag(
        _TEXT,
        "text",
        "text writes translations; scores writes the score and a tab before each; jsonl writes a "
        "JSON object for each line, with translation, score, log-probability, tokens, and links "
        "between words if the model aligns.",
        choices=("text", "scores", "jsonl"),
    )
    n_best: int = flag(
        _TEXT,
        1,
        "Number of different translations of each line, at most --beam_size, or of draws with "
        "--sample. Above 1, they are written as `line ||| translation ||| score`, lines counted "
        "from 0, and lines in parts (--long_lines=split) have one.",
        1,
    )
    tag: str = flag(
        _TEXT,
        "",
        "Word to write before each translation, to mark text on which another model is trained. "
        "Lines without a translation stay empty.",
        excludes=dict.fromkeys(("format=scores|jsonl", "n_best>1"), "it is for plain translations"),
    )
    beam_size: int = beam_size_flag(_SEARCH)
    length_penalty: float | None = length_penalty_flag(_SEARCH, ", or 0 with --channel_model")
    compile: str = flag(
        _SEARCH,
        AUTO,
        "When XLA compiles searches of up to two sentences at a time, which then take about a "
        "third of the time; compiling takes some seconds. auto: in the background, once as much "
        "time was spent on such searches. Larger batches are not compiled.",
        choices=COMPILE,
    )
    batch_size: int = flag(_SEARCH, 32, "Number of sentences translated at once.", 1, 10_000)
    precision: str = flag(
        _SEARCH,
        "float32",
        "Number format of the computation. bfloat16 takes half the memory. On processors that "
        "multiply it in hardware, large models translate batches in about two thirds of the time. "
        "Translations differ a little.",
        choices=("float32", "bfloat16"),
    )
    max_input_tokens: int = max_input_tokens_flag(
        _SEARCH,
        MAX_INPUT_TOKENS,
        "Longest line that is translated in one piece, in tokens with </s>. Memory grows with its "
        "square.",
    )
    long_lines: str = flag(
        _SEARCH,
        "skip",
        "How lines above --max_input_tokens are treated: skip leaves them untranslated, split "
        "translates them in parts.",
        choices=("skip", "split"),
        excludes={"prefix": _OF_LINES, "required": _OF_LINES},
        when="split",
    )
    replace_unknowns: bool = flag(
        _UNKNOWN,
        False,
        "Replaces each UNK in a translation by the most attended source word. For models with "
        "--tokenizer=word.",
        excludes=dict.fromkeys(("prefix", "required", "banned", "keep"), "it changes words"),
    )
    lexicon: str = flag(
        _UNKNOWN,
        "",
        "File of word translations, which --replace_unknowns writes in place of the source words; "
        "lines `source_word target_word probability`, as align.py --lexicon writes them.",
        needs=("replace_unknowns",),
    )
    score: str = flag(
        _SCORES,
        "",
        "File of translations of the input, which are scored instead of translating: prints the "
        "log-probability of each, and the perplexity of all. May be the --input itself if it ends "
        "in .tsv.",
        needs={"input": "the text that was translated"},
        excludes={"rank": "nothing is translated", **_OF_TRANSLATING},
    )
    rank: str = flag(
        _SCORES,
        "",
        "File of several translations of each line, as --n_best writes them. Adds the score of the "
        "model to each, and sorts by it.",
        needs={"input": "the text that was translated"},
        excludes={"format=scores|jsonl": "nothing is translated", **_OF_TRANSLATING},
    )
    reference: str = flag(
        _SCORES,
        "",
        "Files of human translations of the input, separated by commas; or the --input itself if "
        "it is a test set with references, or a .tsv, whose other columns are the references. "
        "Blank lines are not scored. Prints --metrics.",
    )
    metrics: list[str] = flag(
        _SCORES, ["bleu", "chrf"], f"Scores to print: {', '.join(METRICS)}.", needs=("reference",)
    )
    baseline: str = flag(
        _SCORES,
        "",
        "File of other translations of the input. Tests by paired bootstrap whether the scores "
        "differ.",
        needs=("reference",),
    )
    lowercase: bool = flag(
        _SCORES,
        False,
        "Computes BLEU without regard to case (sacrebleu -lc).",
        needs=("reference", "metrics=bleu"),
    )
    tokenize: str = flag(
        _SCORES,
        AUTO,
        "Tokenisation of BLEU (sacrebleu --tokenize). auto: the one that suits the script of the "
        "references.",
        needs=("reference", "metrics=bleu"),
    )
    save_scores: str = flag(
        _SCORES, "", "JSON file for the scores and settings.", needs=("reference",)
    )
    runs_on: str = TENSORFLOW  # The engine that was chosen.

    @property
    def sample(self) -> bool:
        """Returns whether translations are drawn at random."""
        return bool(self.options.get("sample"))


def open_directories(asked: Arguments) -> list[Any]:
    """Returns the `ModelDirectory`s of --model_dir or --channel_model."""
    if asked.channel_model:
        return [ModelDirectory(asked.channel_model)]
    return model_directories(asked.model_dir)


def start_engine(asked: Arguments) -> tuple[Arguments, list[Any], Any]:
    """Chooses and starts the engine that translates.

    Returns (the flags with this engine, the directories, and what CTranslate2 has loaded: None if
    TensorFlow translates).
    """
    if asked.export_dir:
        export = CTranslate2Export(asked.export_dir, asked.languages)
        asked = limited(asked, export)
        engine, directory, loaded, reason = CTRANSLATE2, export, export.load(), "--export_dir"
    else:
        chosen = convert_if_chosen(asked, asked.given)
        engine, directory, loaded, reason = chosen
    if asked.verbose:
        print(f"engine: {engine} ({reason})", file=sys.stderr)
    if engine == TENSORFLOW:
        start_tensorflow()
    asked = dataclasses.replace(asked, runs_on=engine)
    return asked, [directory] if directory else open_directories(asked), loaded


def start_tensorflow() -> None:
    """Starts TensorFlow for a search of several batches at a time."""
    # A thread for each batch is faster than several threads for one operation after the other.
    process.start_tensorflow(intra_op_threads=1)


def limited(asked: Arguments, export: CTranslate2Export) -> Arguments:
    """Returns the flags with at most the --max_input_tokens for which a model was exported."""
    if "max_input_tokens" in asked.given:
        export.check_max_input_tokens(asked.max_input_tokens)
    most = min(asked.max_input_tokens, export.max_input_tokens)
    return dataclasses.replace(asked, max_input_tokens=most)


def load_model(asked: Arguments, directories: list[Any]) -> tuple[Any, Any, dict[str, Any]]:
    """Loads (model, tokenizer, config); config also names the models that were combined."""
    from nmt_zoo.model_directory.combined_models import load_combined

    return load_combined(
        directories,
        ModelDirectory(asked.language_model) if asked.language_model else None,
        is_channel=bool(asked.channel_model),
        weight=asked.language_model_weight,
        languages=asked.languages,
        **({"dtype": asked.precision} if asked.precision != "float32" else {}),
    )


def make_format(asked: Arguments, model: Any, tokenizer: Any, plain: Callable) -> Callable:
    """Returns the function that formats a window of results, see `decoding.text.formats`.

    `plain` is the function for formats other than jsonl.
    """
    if asked.format != "jsonl":
        return plain
    from nmt_zoo.decoding.alignment.aligner import Aligner

    aligner = Aligner(model, tokenizer) if model.has_alignment else None
    return formats.JsonLines(tokenizer, asked.n_best > 1, aligner, asked.max_input_tokens)


def print_results(asked: Arguments, *lines: str) -> None:
    """Prints results about the whole text where no translations are printed."""
    if asked.output:
        console.write_result(*lines)
    else:
        print(*lines, sep="\n", file=sys.stderr)


# Flags besides `options` on which scores depend. The model's own precision is among its options.
_RECORDED = (
    *("replace_unknowns", "lexicon", "split_sentences", "long_lines", "max_input_tokens"),
    "precision",
)


def print_scores(
    asked: Arguments, outputs: list[str], text: Any, tokenizer: Any, run: dict, seconds: Any
) -> None:
    """Prints scores with their signatures; keeps them as JSON if asked."""
    references = list(map(tokenizer.target_words, text.references))
    tokenize, reason = asked.tokenize, ""
    if tokenize == AUTO:
        tokenize, reason = bleu_tokenizer(references)
    # A tokenisation that was asked for is compared with figures of the same tokenisation.
    is_usual = asked.tokenize == AUTO and tokenize == USUAL
    has_bleu = "bleu" in asked.metrics
    said = [*remarks(references, outputs, has_bleu and is_usual), reason if has_bleu else ""]
    for line in filter(None, said):
        print(line, file=sys.stderr)
    options = {"lowercase": asked.lowercase, "tokenize": tokenize, "metrics": asked.metrics}
    scores = corpus_scores(outputs, references, **options)
    lines = score_lines(scores, asked.metrics)
    if text.baseline is not None:
        baseline = tokenizer.target_words(text.baseline)
        lines += paired_bootstrap(outputs, baseline, references, **options)
    print_results(asked, *lines)
    if asked.save_scores:
        record = {
            **run,
            **score_entries(scores, asked.metrics),
            "beam_size": 1 if asked.sample else asked.beam_size,
            "length_penalty": asked.length_penalty,
            **{name: getattr(asked, name) for name in _RECORDED},
            "engine": asked.runs_on,
            **asked.options,
            "sentences": len(outputs),
            "translation_seconds": seconds,
        }
        write_json(asked.save_scores, record)


def check_paths(asked: Arguments) -> None:
    """Raises `UserError` if an output cannot be written, or would replace an input."""
    inputs = [asked.input, asked.score, asked.rank, asked.baseline, *asked.reference.split(",")]
    inputs += texts_read(asked).values()
    outputs = asked.output, asked.output and unfinished(asked.output), asked.save_scores
    check_outputs(filter(None, outputs), filter(None, inputs), None if asked.input else sys.stdin)


def texts_read(asked: Arguments) -> dict[str, str]:
    """Returns flag -> path of the texts on which translations depend."""
    paths = {"lexicon": asked.lexicon, **{name: asked.options.get(name) for name in FILES}}
    return {name: path for name, path in paths.items() if path}


def what_translates(asked: Arguments) -> dict[str, Any]:
    """Returns everything besides the text that a translation depends on, as JSON values."""
    values = asked.values()
    read = {name: [path] for name, path in texts_read(asked).items()}
    for name in ("model_dir", "channel_model", "language_model", "shortlist"):
        if path := values.get(name):
            read[name] = [one.best_path for one in model_directories(path)]
    if asked.export_dir:
        read["export_dir"] = [CTranslate2Export(asked.export_dir).best_path]
    files = {name: file_facts(paths) for name, paths in read.items()}
    names = ("model_dir", "language_model", "channel_model", "language_model_weight", "export_dir")
    names += ("beam_size", "length_penalty", "precision", "max_input_tokens", "long_lines")
    names += ("replace_unknowns", "lexicon", "n_best", "split_sentences")
    found = {name: values[name] for name in names} | {"engine": asked.runs_on}
    return {**found, **asked.options, **files}


def search_options(
    asked: Arguments, directories: list[Any], model: Any, tokenizer: Any
) -> dict[str, Any]:
    """Returns the arguments of `Translator` that say how to search; reads all that they need."""
    copies = all(directory.config()["options"].get("copy_share") for directory in directories)
    found = translator_options(asked.options, model, tokenizer, copies)
    options = {"beam_size": asked.beam_size, **found}
    if path := asked.options.get("shortlist"):
        from nmt_zoo.decoding.search.shortlist import make_shortlist
        from nmt_zoo.model_directory.combined_models import load_lexical_model

        lexical = load_lexical_model(ModelDirectory(path), tokenizer, directories[0])
        options["shortlist"] = make_shortlist(lexical, tokenizer.shared)
    return options


def check_flags(asked: Arguments) -> None:
    """Raises `UserError` if flags exclude each other, before anything is read."""
    asked.check(OPTIONS)
    check_requests(asked.options, beam_size=asked.beam_size, n_best=asked.n_best)
    if asked.tag and asked.tag.split() != [asked.tag]:
        raise UserError(f"--tag={asked.tag!r}: expected one word, without white space")
    check_metrics(asked.metrics)
    if asked.reference and "bleu" in asked.metrics:
        check_bleu_tokenizer(asked.tokenize)
    check_paths(asked)
    if not asked.output:
        console.check_standard_output()


def output_for(asked: Arguments, text: Any) -> Output:
    """Returns the `Output` for the lines of an `InputText`."""
    return Output(
        asked.output,
        lambda lines: console.write_result(*lines),
        asked.batch_size,
        what_translates(asked),
        shows_progress=not text.prompts and bool(asked.output or not sys.stdout.isatty()),
    )


def score_or_rank(
    asked: Arguments, text: Any, model: Any, tokenizer: Any, common: dict[str, Any]
) -> None:
    """Scores the translations of --score, or scores and sorts those of --rank, of an `InputText`.

    `common` has the arguments that `Scorer` and `Translator` have in common.
    """
    from nmt_zoo.decoding.scoring import Scorer

    scorer = Scorer(model, tokenizer, **common)
    if asked.rank:
        rank_text(text, scorer, output_for(asked, text), NBestList(asked.rank))
        for reason, count in scorer.problems.items():
            print(f"translations not scored ({reason}): {count:,}", file=sys.stderr)
        if scorer.num_unknown:
            print(f"translations: {scorer.unknown_tokens()}", file=sys.stderr)
        return
    formatted = make_format(asked, model, tokenizer, formats.log_prob_lines)
    if len(text.references) != 1:
        raise UserError(f"--score={asked.score}: expected one translation, found several")
    score_text(text, scorer, output_for(asked, text), formatted)
    print_results(asked, scorer.summary())


def most_sentences(asked: Arguments, training_text: TrainingText | None) -> int:
    """Returns the most sentences of a line that are translated at once, for a `Translator`."""
    if asked.split_sentences == "always":
        return 1
    # Of a line in parts there is one translation.
    is_auto = asked.split_sentences == "auto" and asked.n_best == 1
    return training_text.most_sentences if is_auto and training_text else 0


def keras_model(asked: Arguments) -> Any:
    """Starts TensorFlow for sentences of which CTranslate2 is not sure; returns the model."""
    start_tensorflow()
    return load_model(asked, open_directories(asked))[0]


def make_translator(
    asked: Arguments,
    directories: list[Any],
    model: Any,
    tokenizer: Any,
    lexicon: dict[str, str],
    common: dict[str, Any],
) -> Translator:
    """Returns the `Translator`; arguments as `score_or_rank`, and what was read from --lexicon."""
    unknowns, engine = None, None
    if asked.replace_unknowns:
        from nmt_zoo.decoding.unknowns import UnknownReplacer

        unknowns = UnknownReplacer(model, tokenizer, lexicon)
    options = search_options(asked, directories, model, tokenizer)
    if asked.runs_on == CTRANSLATE2:
        sure = asked.export_dir or asked.engine == CTRANSLATE2  # Nothing else shall run.
        engine, model = model, None if sure else lambda: keras_model(asked)
    return Translator(
        model,
        tokenizer,
        **options,
        split_long_lines=asked.long_lines == "split",
        num_threads=num_cores(),
        unknowns=unknowns,
        engine=engine,
        compiles=asked.compile,
        **common,
    )


def translate(
    asked: Arguments,
    text: Any,
    translator: Translator,
    directories: list[Any],
    model: Any,
    config: dict[str, Any],
    training_text: TrainingText | None,
) -> None:
    """Translates an `InputText`; prints remarks and scores. `config` is the model's."""
    plain = formats.scored_lines if asked.format == "scores" else formats.plain_lines
    plain = formats.tagged_lines(asked.tag) if asked.tag else plain
    plain = formats.n_best_lines if asked.n_best > 1 else plain
    training = None
    if text.references:  # Read before the work, in case it is damaged.
        training = [directory.summary() for directory in directories]
        training = training[0] if len(training) == 1 else training
    remarks = Remarks(
        asked.max_input_tokens,
        config["options"]["max_length"],
        asked.n_best,
        translator.unknowns is not None,
        training_text=training_text,
        split=translator.in_sentences,
    )
    began = time.monotonic()
    outputs, num_used = translate_text(
        text,
        translator,
        output_for(asked, text),
        n_best=asked.n_best,
        formatted=make_format(asked, model, translator.tokenizer, plain),
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
        print_scores(asked, outputs, text, translator.tokenizer, {**config, **facts}, seconds)


def main(asked: Arguments) -> int:
    """Reads flags and text; translates, scores or ranks."""
    check_flags(asked)
    asked, directories, loaded = start_engine(asked)
    for directory in directories:
        directory.config()  # Refuses a directory without a model before standard input is read.
    lexicon = {}
    if asked.lexicon:
        from nmt_zoo.decoding.unknowns import read_lexicon

        lexicon = read_lexicon(asked.lexicon)
    training_text = None
    if not asked.channel_model:  # It translates into the language of its source text.
        training_text = TrainingText.read(directories[0].training_text_path)
    text = open_text(
        asked.input,
        column=asked.input_column,
        reference=asked.reference or asked.score,
        baseline=asked.baseline,
    )
    model, tokenizer, config = loaded or load_model(asked, directories)
    asked = with_length_penalty(asked, config)
    context = config["options"]["context_sentences"]
    if context:
        text = text.in_documents(context)
    names = "length_penalty", "batch_size", "max_input_tokens"
    paths = ", ".join(str(directory.path) for directory in directories)
    common = {"name": f"the model in {paths}", **{n: getattr(asked, n) for n in names}}
    if asked.score or asked.rank:
        score_or_rank(asked, text, model, tokenizer, common)
        return 0
    common["split_sentences"] = most_sentences(asked, training_text)
    common["context_sentences"] = context
    translator = make_translator(asked, directories, model, tokenizer, lexicon, common)
    translate(asked, text, translator, directories, model, config, training_text)
    return 0


def command() -> None:
    """Runs the script on the command line, and exits."""
    console.run(main, Arguments)
