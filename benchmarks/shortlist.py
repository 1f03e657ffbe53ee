r"""Measures what lexical shortlists gain in speed and cost in BLEU.

    python benchmarks/shortlist.py --model_dir=runs/multi30k --shortlist=runs/ibm1 \
        --source=data/multi30k/test_2016_flickr.en \
        --reference=data/multi30k/test_2016_flickr.de \
        --output=docs/results/speed/shortlist_trained.json
    python benchmarks/shortlist.py --output=docs/results/speed/shortlist_random.json

The first command measures a trained model with the shortlists of a trained IBM model. The second
measures `transformer_base` with random weights that never end a translation, and random shortlists
of the same sizes, which have more tokens together than those of real text. All settings take turns
with the same lines, on the threads of `translate.py`; ratios are medians over the rounds.
"""

import json
import os
import re
import statistics
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # Lets this script run without an installation, like train.py.

from absl import flags

from benchmarks.parts.decode_engines import LENGTH_PENALTY, SEED, Source, load_ours
from benchmarks.parts.scripts import recorded
from benchmarks.parts.side_by_side import spread
from nmt_zoo.command_line import console
from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import read_lines

FLAGS = flags.FLAGS

flags.DEFINE_string("model_dir", "", "Model directory. Default: random weights.")
flags.DEFINE_string("shortlist", "", "Directory of an IBM model with its vocabularies.")
flags.DEFINE_string("source", "", "File of source text, one sentence a line.")
flags.DEFINE_string("reference", "", "File of its human translations.")
flags.DEFINE_multi_string(
    "sizes",
    ["10,100", "20,100"],
    "Translations of each token, and frequent tokens, of a shortlist. Repeatable.",
)
flags.DEFINE_multi_integer("beam", [4, 1], "Number of hypotheses. Repeatable.", lower_bound=1)
flags.DEFINE_integer("pieces", 32_000, "Size of the vocabulary of random weights.", lower_bound=100)
flags.DEFINE_integer("random_tokens", 8, "Tokens of its source sentences.", lower_bound=2)
flags.DEFINE_integer("rounds", 3, "Number of turns of each setting.", lower_bound=1)
flags.DEFINE_integer("lines", 128, "Number of lines in a turn with batches.", lower_bound=1)
flags.DEFINE_integer("single_lines", 24, "Number of lines in a turn without.", lower_bound=1)
flags.DEFINE_string("output", "", "JSON file for all figures.")


def trained_case():
    """Returns (model, tokenizer, {sizes: shortlist or None}, lines, references)."""
    from nmt_zoo.decoding.search.shortlist import make_shortlist
    from nmt_zoo.model_directory.combined_models import load_lexical_model
    from nmt_zoo.model_directory.directory import ModelDirectory

    directory = ModelDirectory(FLAGS.model_dir)
    model, tokenizer, _ = directory.load()
    lexical = load_lexical_model(ModelDirectory(FLAGS.shortlist), tokenizer, directory)
    shortlists = {
        sizes: make_shortlist(lexical, tokenizer.shared, *map(int, sizes.split(",")))
        for sizes in FLAGS.sizes
    }
    lines, references = read_lines(FLAGS.source), read_lines(FLAGS.reference)
    if not lines or len(lines) != len(references):
        raise UserError(
            f"{FLAGS.source} has {len(lines)} lines and {FLAGS.reference} {len(references)}; "
            "expected the same number, at least 1"
        )
    return model, tokenizer, {"": None, **shortlists}, lines, references


def random_case():
    """As `trained_case`, without references."""
    from nmt_zoo.decoding.search.shortlist import Shortlist

    model, tokenizer = load_ours(Source("transformer_base", "", "", "word"), FLAGS.pieces)
    rng, shortlists = np.random.default_rng(SEED), {}
    for sizes in FLAGS.sizes:
        translations, frequent = map(int, sizes.split(","))
        tokens = rng.integers(4, FLAGS.pieces, (FLAGS.pieces, translations))
        shortlists[sizes] = Shortlist(tokens, np.arange(FLAGS.pieces) < 4 + frequent)
    words = rng.integers(4, FLAGS.pieces, (FLAGS.lines, FLAGS.random_tokens - 1))
    return model, tokenizer, {"": None, **shortlists}, [" ".join(f"w{i}" for i in w) for w in words]


def measure(translators, lines, batch):
    """Lets translators, by sizes, take turns; returns sizes -> seconds of each round."""
    count = min(len(lines), FLAGS.single_lines if batch == 1 else FLAGS.lines)
    seconds = {sizes: [] for sizes in translators}
    for translator in translators.values():
        for some in (lines[:1], lines[: 1 if batch == 1 else 2]):
            translator.translate(some)  # The second line makes the graph.
    for number in range(FLAGS.rounds):
        start = number * count % len(lines)
        turn = (lines * 2)[start : start + count]
        for sizes in list(translators)[:: -1 if number % 2 else 1]:
            began = time.perf_counter()
            for some in [[line] for line in turn] if batch == 1 else [turn]:
                translators[sizes].translate(some)
            seconds[sizes].append(time.perf_counter() - began)
    return count, seconds


def records(case, model, tokenizer, shortlists, lines, references=None):
    """Yields a record for each beam, batch and size; prints it."""
    from nmt_zoo.decoding.scores import corpus_scores
    from nmt_zoo.decoding.translator import Translator

    for beam in FLAGS.beam:
        bleu = {}
        for batch in (32, 1):
            translators = {
                sizes: Translator(
                    model,
                    tokenizer,
                    beam_size=beam,
                    length_penalty=LENGTH_PENALTY,
                    batch_size=batch,
                    num_threads=os.cpu_count(),
                    shortlist=shortlist,
                )
                for sizes, shortlist in shortlists.items()
            }
            count, seconds = measure(translators, lines, batch)
            for sizes, wall in seconds.items():
                if references and batch > 1:
                    found = [best[0].text for best in translators[sizes].translate(lines)]
                    scores = corpus_scores(found, [references], metrics=["bleu"])
                    bleu[sizes] = scores["bleu"].score
                record = {
                    **{"case": case, "beam": beam, "batch": batch, "sizes": sizes},
                    "sentences_per_second": statistics.median(count / s for s in wall),
                    "gain": spread([a / b for a, b in zip(seconds[""], wall, strict=True)]),
                    "bleu": bleu.get(sizes),
                }
                print(json.dumps(record), flush=True)
                yield record


def main(argv):
    """Measures and writes the figures."""
    del argv
    given = [bool(FLAGS[name].value) for name in ("model_dir", "shortlist", "source", "reference")]
    if any(given) and not all(given):
        raise UserError("--model_dir, --shortlist, --source and --reference go together")
    for sizes in FLAGS.sizes:
        if not re.fullmatch("[0-9]{1,6},[0-9]{1,6}", sizes):
            raise UserError(f"--sizes={sizes}: expected two numbers, such as 20,100")

    from nmt_zoo.common import process

    process.start(small_operations=True)

    # isort: split

    process.start_tensorflow(intra_op_threads=1)
    name = Path(FLAGS.model_dir).name or "transformer_base"
    with recorded(FLAGS.output) as record:
        case = trained_case() if FLAGS.model_dir else random_case()
        record["settings"] = list(records(name, *case))


if __name__ == "__main__":
    console.run(main)
