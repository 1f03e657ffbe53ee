"""Trains `transformer_tiny` on small corpora, one method at a time; recipes; and other models.

    pip install sacremoses
    python benchmarks/methods.py --corpus=multi30k_en_de --data=data/multi30k
    python benchmarks/methods.py --corpus=europarl10k --data=data/europarl10k --only=plain,r_drop
    python benchmarks/methods.py --corpus=multi30k_en_de --only=recipe --seeds=1,2,3
    python benchmarks/methods.py --corpus=multi30k_en_de --only=ensemble --seeds=1,2,3
    python benchmarks/methods.py --corpus=multi30k_en_de --only=recipe_lowercased
    python benchmarks/methods.py --corpus=multi30k_en_de --only=ensemble_lowercased --seeds=1,2,3
    python benchmarks/methods.py --corpus=multi30k_en_de --only=tried_unchanged,tried_more_updates
    python benchmarks/methods.py --corpus=multi30k_en_de --only=gru_bahdanau
    python benchmarks/methods.py --corpus=multi30k_en_de_5000 --only=default,plain,bpe_dropout
    python benchmarks/methods.py --corpus=demo --data=data/demo --only=plain,guide

A complete run is not trained again; a run that was stopped resumes. All runs with a method make the
same number of updates. `recipe` is the best training that we know for the corpus, and `ensemble`
the recipe's runs of all seeds together; `recipe_lowercased` and `ensemble_lowercased` are the same
on text in lower case, which papers on Multi30k translate. `default` is what train.py chooses by
itself for a text of this size, in the number type that the processor is fast at. Validation text
alone chooses weights and length penalty. The test text is translated once, and the result is
written to docs/results/methods/, where results_table.py reads it. Methods named `tried_` chose the
recipe for Multi30k; they translate the validation text instead. Alignments of the demo corpus are
scored, too. In `teacher`, a run learns from that of `plain`, a model of its own kind and size
(Furlanello et al. 2018).
"""

import json
import resource
import shlex
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from absl import flags

from benchmarks.parts.scripts import chosen, require, run, write_record
from nmt_zoo.command_line import console
from nmt_zoo.common.files import read_lines, write_lines
from nmt_zoo.data_pipeline.tokenization.tokenizers import SIDES
from nmt_zoo.decoding.scores import corpus_scores

RESULTS = ROOT / "docs" / "results" / "methods"


class Corpus(NamedTuple):
    """A corpus and what all runs on it share.

    Attributes:
        title: name of the corpus in tables.
        source: suffix of the source files.
        target: suffix of the target files.
        valid: name of the validation text.
        test: name of the test text.
        flags: flags of train.py for all runs with a method.
        recipe: flags of train.py for the best known training; empty: none is known.
        scoring: flags of translate.py that choose the measure.
        has_unknowns: whether the recipe translates words, of which unknown ones are replaced.
        pairs: number of training pairs, the first of the text; None: all.
        is_cased: whether BLEU is to be given as papers on the corpus do, too, in lower case.
        dataset: name of the corpus if train.py knows it by name.
        folder: the folder of its files.
    """

    title: str
    source: str
    target: str
    valid: str
    test: str
    flags: tuple
    recipe: tuple
    scoring: tuple = ()
    has_unknowns: bool = False
    pairs: int | None = None
    is_cased: bool = False
    dataset: str = ""
    folder: str = ""


# On one core, because two runs side by side make more updates than one after the other on both.
_ALL = (
    *("--average_checkpoints=8", "--save_every_steps=250", "--patience=0"),
    *("--precision=bfloat16", "--intra_op_threads=1", "--copy_share=0"),
)
_TINY = ("--model=transformer_tiny", "--schedule=cosine", "--learning_rate=3e-3", *_ALL)
_MULTI30K = (
    *(*_TINY, "--num_pieces=6000", "--set=dropout=0.2", "--max_tokens_per_batch=2048"),
    *("--warmup_steps=1000", "--eval_every_steps=2000", "--bleu_lines=200"),
)
_MULTI30K_RECIPE = (
    *(*_MULTI30K, "--bpe_dropout=0.1", "--set=positions=rotary", "--max_steps=32000"),
)
# Else the size of the text chooses.
_WITHOUT = ("--bpe_dropout=0", "--set=positions=sinusoidal")
# Fewer pieces and more dropout for fewer pairs.
_MULTI30K_5000 = (
    *(*_TINY, *_WITHOUT, "--num_pieces=2000", "--set=dropout=0.3", "--max_tokens_per_batch=1024"),
    *("--warmup_steps=500", "--eval_every_steps=1000", "--bleu_lines=200", "--max_steps=5000"),
)
_EUROPARL = (
    *(*_TINY, *_WITHOUT, "--num_pieces=2000", "--set=dropout=0.3", "--max_tokens_per_batch=2048"),
    *("--warmup_steps=400", "--eval_every_steps=500", "--max_steps=3000"),
)
# Words that occur once are unknown; an aligner's lexicon translates them. The model has twice its
# usual width, and more dropout.
_EUROPARL_RECIPE = (
    *("--model=lstm_lexical", "--tokenizer=word", "--max_words=0", "--min_word_count=2"),
    *("--set=embedding_width=128", "--set=encoder_units=128", "--set=decoder_units=256"),
    *("--set=embedding_dropout=0.4", "--set=dropout=0.4", "--set=output_dropout=0.4"),
    *("--max_tokens_per_batch=400", "--schedule=cosine", "--learning_rate=2e-3"),
    *("--warmup_steps=200", "--eval_every_steps=1000", "--save_every_steps=250"),
    *("--average_checkpoints=8", "--patience=0", "--max_steps=10000", "--intra_op_threads=1"),
)


def _multi30k(source, target):
    short = (*_MULTI30K, *_WITHOUT, "--max_steps=5000")
    return Corpus(
        *("Multi30k", source, target, "val", "test_2016_flickr", short, _MULTI30K_RECIPE),
        is_cased=True,
    )


CORPORA = {
    "multi30k_en_de": _multi30k("en", "de"),
    "multi30k_de_en": _multi30k("de", "en"),
    "multi30k_en_fr": _multi30k("en", "fr"),
    "multi30k_en_de_5000": _multi30k("en", "de")._replace(
        title="Multi30k, 5,000 pairs", flags=_MULTI30K_5000, recipe=(), pairs=5000
    ),
    "europarl10k": Corpus(
        *("Europarl, 10,000 pairs", "de", "en", "val", "test"),
        *(_EUROPARL, _EUROPARL_RECIPE),
        scoring=("--tokenize=none", "--lowercase"),
        has_unknowns=True,
    ),
    # train.py has a recipe for it.
    "demo": Corpus(
        *("demo corpus", "en", "de", "valid", "test", ("--model=transformer_tiny",), ()),
        dataset="demo",
    ),
}
METHODS = {
    "plain": (),
    "bpe_dropout": ("--bpe_dropout=0.1",),
    "copies": ("--copy_share=0.05",),
    "r_drop": ("--r_drop=5",),
    "token_dropout": ("--token_dropout=0.1",),
    "relative": ("--set=positions=relative",),
    "rotary": ("--set=positions=rotary",),
    "deep_shallow": ("--set=num_encoder_layers=7", "--set=num_decoder_layers=1"),
    "shared_layers": ("--set=share_layers=cycle_reversed", "--set=distinct_layers=2"),
    "ema": ("--ema_decay=0.999",),
    "float32": ("--precision=float32",),
    "guide": ("--guide={runs}/guide", "--guide_weight=0.5"),
    "teacher": ("--teacher={runs}/plain-1", "--teacher_weight=0.5"),
}
METHODS |= {
    f"rotary_{name}": (*METHODS["rotary"], *METHODS[name])
    for name in ("deep_shallow", "ema", "guide")
}
# With a corpus's recipe.
BEST = ("recipe", "ensemble", "recipe_lowercased", "ensemble_lowercased")
# Changes of one training on Multi30k in lower case, compared on validation text alone. They chose
# the recipe.
_TRIED = (*_MULTI30K, "--bpe_dropout=0.1", "--set=positions=rotary", "--max_steps=20000")
TRIALS = {
    "tried_unchanged": (),
    "tried_no_bpe_dropout": ("--bpe_dropout=0",),
    "tried_less_bpe_dropout": ("--bpe_dropout=0.05",),
    "tried_more_updates": ("--max_steps=32000",),
    "tried_less_bpe_dropout_more_updates": ("--bpe_dropout=0.05", "--max_steps=32000"),
}
DEFAULT = "default"  # Without flags, but for the number type and the names of the text.
# Other models, each for at most an hour on one core. Small batches make more updates in that time.
_MODEL = (
    *("--schedule=cosine", "--learning_rate=1e-3"),
    *("--eval_every_steps=500", "--bleu_lines=200", *_ALL),
)
_SMALL_BATCHES = (*_MODEL, "--max_tokens_per_batch=1024")
MODELS = {
    "rnn_attention": (*_SMALL_BATCHES, "--warmup_steps=500", "--max_steps=7000"),
    "gru_bahdanau": (*_SMALL_BATCHES, "--warmup_steps=100", "--max_steps=1150"),
    "lstm_conv": (*_SMALL_BATCHES, "--warmup_steps=500", "--max_steps=6000"),
    "transformer_simple": (
        *(*_SMALL_BATCHES, "--learning_rate=1.5e-4"),
        *("--warmup_steps=1000", "--max_steps=10000"),
    ),
    "transformer_small": (
        *(*_MODEL, "--max_tokens_per_batch=2048", "--set=dropout=0.2"),
        *("--warmup_steps=500", "--max_steps=3500"),
    ),
}

FLAGS = flags.FLAGS

flags.DEFINE_enum("corpus", "multi30k_en_de", CORPORA, "Corpus to train on.")
flags.DEFINE_string("data", "data/multi30k", "Folder of the corpus.")
flags.DEFINE_string("runs", "runs/methods", "Folder for the model directories.")
flags.DEFINE_list("only", [], "Methods or models to train. Default: all.")
flags.DEFINE_list("seeds", ["1"], "Seeds of the runs of each method.")
flags.DEFINE_string(
    "machine", "", "Flags of train.py for every run that suit the machine, such as its devices."
)


def rewritten(corpus, folder, change):
    """Writes a corpus to another folder; returns the `Corpus` there.

    Args:
        corpus: `Corpus`.
        folder: path, relative to the project.
        change: what each line becomes: a function from str to str.
    """
    (ROOT / folder).mkdir(parents=True, exist_ok=True)
    for split, count in (("train", corpus.pairs), (corpus.valid, None), (corpus.test, None)):
        for suffix in (corpus.source, corpus.target):
            lines = read_lines(ROOT / corpus.folder / f"{split}.{suffix}")
            write_lines(ROOT / folder / f"{split}.{suffix}", map(change, lines[:count]))
    return corpus._replace(folder=folder)


def train_command(corpus, method, seed, model_dir):
    """Returns the command that trains a run, as a list."""
    if method in BEST:
        own = corpus.recipe
    elif method in TRIALS:
        own = (*_TRIED, *TRIALS[method])
    elif method == DEFAULT:
        own = ("--precision=auto",)
    elif method in MODELS:
        own = (f"--model={method}", *MODELS[method])
    else:
        runs = Path(model_dir).parent
        own = (*corpus.flags, *(flag.format(runs=runs) for flag in METHODS[method]))
    where = [f"--seed={seed}", *_text(corpus), f"--model_dir={model_dir}"]
    return ["train.py", *own, *shlex.split(FLAGS.machine), *where]


def guide_command(corpus, folder):
    """Returns the command that trains the aligner for --guide, with the pieces of the runs."""
    pieces = [flag for flag in corpus.flags if flag.startswith("--num_pieces")]
    where = [f"--model_dir={folder}", f"--reverse_model_dir={folder}_reverse"]
    return ["train.py", "--model=hmm_alignment", "--tokenizer=bpe", *pieces, *_text(corpus), *where]


def _text(corpus):
    """Returns the flags of train.py that name the text."""
    if corpus.dataset:
        return [f"--dataset={corpus.dataset}"]
    return [
        f"--{split}_{side}={corpus.folder}/{name}.{getattr(corpus, side)}"
        for split, name in (("train", "train"), ("valid", corpus.valid))
        for side in SIDES
    ]


def translate_commands(corpus, model_dirs, folder, has_unknowns):
    """Returns the commands that translate and score the test text, the last one, as lists."""
    test = f"{corpus.folder}/{corpus.test}"
    before, unknowns = [], []
    if has_unknowns:
        text = [f"--{side}={corpus.folder}/train.{getattr(corpus, side)}" for side in SIDES]
        lexicon = f"--lexicon={folder}/lexicon"
        before, unknowns = [["align.py", *text, lexicon]], ["--replace_unknowns", lexicon]
    last = [
        *("translate.py", f"--model_dir={','.join(model_dirs)}", "--beam_size=5"),
        *(*corpus.scoring, *unknowns),
        *(f"--input={test}.{corpus.source}", f"--reference={test}.{corpus.target}"),
        *(f"--output={folder}/test.{corpus.target}", f"--save_scores={folder}/scores.json"),
    ]
    return [*before, last]


def align_command(corpus, model_dir):
    """Returns the command that aligns the test text and scores the links; None without gold."""
    test, pair = f"{corpus.folder}/{corpus.test}", f"{corpus.source}-{corpus.target}"
    # train.py makes the links of a corpus that it knows.
    if not (corpus.dataset or (ROOT / f"{test}.{pair}").exists()):
        return None
    return [
        *("align.py", f"--model_dir={model_dir}", f"--gold={test}.{pair}"),
        *(f"--source={test}.{corpus.source}", f"--target={test}.{corpus.target}"),
        *(f"--alignments={model_dir}/test.{pair}", f"--save_scores={model_dir}/links.json"),
    ]


def published_measure(outputs, references, language):
    """Returns BLEU of lower-cased text, tokenised as Moses does; papers on Multi30k give it."""
    from sacremoses import MosesTokenizer

    tokenizer = MosesTokenizer(language)
    texts = [
        [tokenizer.tokenize(line.lower(), return_str=True, escape=False) for line in lines]
        for lines in (outputs, references)
    ]
    return round(corpus_scores(texts[0], [texts[1]], tokenize="none")["bleu"].score, 2)


def _is_ensemble(method):
    return method.startswith("ensemble")


def all_commands(corpus, method, seeds, runs):
    """Returns the commands that train, translate and align, as lists, and the folder of results.

    Args:
        corpus: `Corpus`.
        method: one of `METHODS`, `MODELS`, `BEST` or `TRIALS`, or `DEFAULT`.
        seeds: list of str; one, but for an ensemble.
        runs: folder of the model directories.
    """
    folder = f"{runs}/{method}-{'-'.join(seeds)}"
    if _is_ensemble(method):
        recipe = method.replace("ensemble", "recipe")
        model_dirs, links = [f"{runs}/{recipe}-{seed}" for seed in seeds], None
    else:
        model_dirs, links = [folder], align_command(corpus, folder)
    commands = []
    if method.endswith("guide"):
        commands.append(guide_command(corpus, f"{runs}/guide"))
    if method == "teacher":
        commands.append(train_command(corpus, "plain", "1", f"{runs}/plain-1"))
    for seed, model_dir in zip(seeds, model_dirs, strict=True):
        commands.append(train_command(corpus, method, seed, model_dir))
    has_unknowns = corpus.has_unknowns and method in BEST
    commands += translate_commands(corpus, model_dirs, folder, has_unknowns)
    return commands + ([links] if links else []), folder


def train_and_score(name, method, seeds):
    """Trains runs, unless they are complete, and writes the result file of all together."""
    corpus = CORPORA[name]._replace(folder=FLAGS.data)
    if method in TRIALS:
        corpus = corpus._replace(test=corpus.valid)
    if method.endswith("_lowercased") or method in TRIALS:
        corpus = rewritten(corpus, f"{FLAGS.runs}/{name}/lowercased", str.lower)
    elif corpus.pairs:
        corpus = rewritten(corpus, f"{FLAGS.runs}/{name}/text", str)
    commands, folder = all_commands(corpus, method, seeds, f"{FLAGS.runs}/{name}")
    (ROOT / folder).mkdir(parents=True, exist_ok=True)
    for command in commands:
        run(command)
    record = json.loads((ROOT / folder / "scores.json").read_text("utf-8"))
    record["command"] = [shlex.join(["python", *command]) for command in commands]
    record["data"] = f"{corpus.title} {corpus.source}-{corpus.target}, {corpus.test}"
    record["method"] = method
    if commands[-1][0] == "align.py":
        record["aer"] = json.loads((ROOT / folder / "links.json").read_text("utf-8"))["aer"]
    if corpus.is_cased:
        texts = (f"{folder}/test", f"{corpus.folder}/{corpus.test}")
        outputs, references = (read_lines(ROOT / f"{text}.{corpus.target}") for text in texts)
        record["bleu_lowercased_moses"] = published_measure(outputs, references, corpus.target)
    (RESULTS / name).mkdir(parents=True, exist_ok=True)
    write_record(RESULTS / name / f"{Path(folder).name}.json", record)


def methods_of(corpus):
    """Returns the names of the methods and models that can be trained on a corpus."""
    names = [*METHODS, *MODELS]
    if corpus.recipe:
        names += BEST
    if corpus.recipe and corpus.is_cased:
        names += TRIALS
    if not corpus.dataset:
        names.append(DEFAULT)
    return names


def main(argv):
    """Trains and scores the methods asked for."""
    del argv
    corpus = CORPORA[FLAGS.corpus]
    if corpus.is_cased:
        require("sacremoses")
    for method in chosen(FLAGS.only, methods_of(corpus), "method or model"):
        together = [FLAGS.seeds] if _is_ensemble(method) else [[seed] for seed in FLAGS.seeds]
        for seeds in together:
            train_and_score(FLAGS.corpus, method, seeds)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"processor time: {(used.ru_utime + used.ru_stime) / 60:.0f} minutes")
    return 0


if __name__ == "__main__":
    console.run(main)
