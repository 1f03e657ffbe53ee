"""Trains a translation model.

    python train.py
    python train.py --model=transformer_tiny --train_source=a.en --train_target=a.de \
        --valid_source=v.en --valid_target=v.de --model_dir=runs/x

The same command again goes on where it stopped.
"""

import json

from training import quiet  # noqa: F401 - before all that imports TensorFlow

# isort: split

import keras
from absl import app, flags

import models
from data_pipeline import datasets, pipeline, tokenizers
from data_pipeline.files import UserError
from decoding.translator import Translator
from training import recipes
from training.checkpoints import ModelDirectory
from training.console import one_line_errors
from training.evaluation import Evaluator
from training.loop import Limits, Trainer
from training.updates import GradientUpdate, adam

FLAGS = flags.FLAGS

flags.DEFINE_string("model", "transformer_tiny", f"One of: {', '.join(models.preset_names())}.")
flags.DEFINE_multi_string("set", [], "name=value: changes a setting of the preset. Repeatable.")
flags.DEFINE_string("model_dir", "runs/demo", "Where the run is kept; an earlier one goes on.")
flags.DEFINE_string("dataset", "", "A corpus by name: demo. Empty: demo, or files if those are.")
flags.DEFINE_string("data_dir", "data", "Where prepared corpora and caches are kept.")
for _split in ("train", "valid"):
    for _side in tokenizers.SIDES:
        flags.DEFINE_string(f"{_split}_{_side}", "", f"Your own {_split} text, {_side} side.")

# Without a default here: recipes.py has one for each model and corpus.
flags.DEFINE_enum("tokenizer", None, tokenizers.KINDS, "How text becomes ids.")
flags.DEFINE_integer("vocab_size", None, "Pieces of bpe; most words a side of word (0: all).")
flags.DEFINE_integer("min_word_count", None, "word: rarer words become UNK.", lower_bound=1)
flags.DEFINE_string("vocab_file", None, "pretokenized: list of pieces, one a line.")
flags.DEFINE_integer("max_length", None, "Longest training sentence, in tokens with </s>.")
flags.DEFINE_float("max_length_ratio", None, "Largest ratio of the lengths of a training pair.")
flags.DEFINE_integer("max_tokens_per_batch", None, "Rows x longest padded side.", lower_bound=1)
flags.DEFINE_float("learning_rate", None, "Peak of the schedule.", lower_bound=0.0)
flags.DEFINE_integer("warmup_steps", None, "Updates until the peak.", lower_bound=1)
flags.DEFINE_float("label_smoothing", None, "In [0, 1).", lower_bound=0.0, upper_bound=0.999)
flags.DEFINE_float("clip_norm", None, "Largest norm of the gradient; 0: any.", lower_bound=0.0)
flags.DEFINE_integer("max_steps", None, "Stop after this many updates; 0: no limit.")
flags.DEFINE_integer("max_epochs", None, "Stop after this many epochs; 0: no limit.")
flags.DEFINE_float("max_minutes", None, "Stop after this long, all sittings; 0: no limit.")
flags.DEFINE_integer("patience", None, "Stop after so many validations without a better one; 0: no")
flags.DEFINE_integer("eval_every_steps", None, "Updates between validations.", lower_bound=1)
flags.DEFINE_integer("save_every_steps", None, "Updates between checkpoints.", lower_bound=1)
flags.DEFINE_integer("log_every_steps", None, "Updates between metrics.", lower_bound=1)
flags.DEFINE_integer("average_checkpoints", None, "Checkpoints kept and averaged.", lower_bound=1)
flags.DEFINE_integer("bleu_lines", None, "Validation lines translated for BLEU.", lower_bound=1)
flags.DEFINE_integer("seed", None, "Of weights, dropout and order.")


def settings_given(preset):
    """The --set flags, each value read as the type of the preset's own."""
    valid = models.preset_settings(preset)
    settings = {}
    for text in FLAGS.set:
        name, equals, value = text.partition("=")
        if not equals:
            raise UserError(f"--set {text}: expected name=value")
        if name not in valid:
            raise UserError(
                f"--set {text}: {preset} has no such setting; valid: {', '.join(sorted(valid))}"
            )
        try:
            settings[name] = value if isinstance(valid[name], str) else json.loads(value.lower())
        except json.JSONDecodeError:
            raise UserError(f"--set {text}: expected a value like {valid[name]!r}") from None
    return settings


def corpus_files():
    """(dataset name, its train and valid `Split`) from the flags."""
    own = {name: FLAGS[name].value for name in OWN_FILES}
    if FLAGS.dataset in ("", "files") and any(own.values()):
        missing = [f"--{name}" for name, value in own.items() if not value]
        if missing:
            raise UserError(f"your own files need all four flags; missing: {', '.join(missing)}")
        splits = {
            split: datasets.Split(own[f"{split}_source"], own[f"{split}_target"])
            for split in ("train", "valid")
        }
        return "files", splits
    if any(own.values()):
        raise UserError(f"--dataset={FLAGS.dataset} and --train_source exclude each other")
    if FLAGS.dataset == "files":
        raise UserError("--dataset=files needs " + ", ".join(f"--{name}" for name in OWN_FILES))
    name = FLAGS.dataset or "demo"
    return name, datasets.prepare(name, FLAGS.data_dir)


OWN_FILES = ("train_source", "train_target", "valid_source", "valid_target")


def open_run(directory, preset, settings, dataset, options, train_lines):
    """Makes the directory of a new run, or checks that the flags are those of the one in it."""
    if directory.exists():
        check_same_run(directory, preset, settings, dataset, options)
        return
    tokenizer = tokenizers.train_tokenizer(
        options["tokenizer"],
        *train_lines,
        vocab_size=options["vocab_size"] or None,
        min_word_count=options["min_word_count"],
        vocab_file=options["vocab_file"],
    )
    sizes = [len(tokenizer.source), len(tokenizer.target)]
    if not tokenizer.shared and models.preset_settings(preset).get("tie_embeddings") == "all":
        settings = {"tie_embeddings": "target", **settings}
        print("tie_embeddings=target, because the tokenizer has a vocabulary for each side")
    models.create(preset, *sizes, **settings)  # A setting that does not fit shows before writing.
    directory.start(
        {
            "model": preset,
            "settings": settings,
            "tokenizer": tokenizer.kind,
            "vocab_sizes": sizes,
            "dataset": dataset,
            "options": options,
        },
        tokenizer,
    )


def check_same_run(directory, preset, settings, dataset, options):
    """Raises `UserError` where flags differ from those of the run in the directory."""
    old = directory.config()
    new = {"model": preset, "dataset": dataset, **settings, **options}
    was = {"model": old["model"], "dataset": old["dataset"], **old["settings"], **old["options"]}
    names = [name for name in new if name not in recipes.LIMITS and was.get(name) != new[name]]
    if names:
        changes = ", ".join(f"{name} was {was.get(name)!r}, is {new[name]!r}" for name in names)
        raise UserError(
            f"{directory.path} holds a run with other settings: {changes}; give the same flags to "
            "go on with it, or another --model_dir"
        )


def main(argv):
    """Reads flags, makes the parts, trains."""
    if len(argv) > 1:
        raise UserError(f"unexpected argument {argv[1]!r}; flags start with --")
    settings = settings_given(FLAGS.model)
    dataset, splits = corpus_files()
    given = {name: FLAGS[name].value for name in recipes.DEFAULTS if FLAGS[name].present}
    options = recipes.options(FLAGS.model, dataset, given)
    if options["max_tokens_per_batch"] < options["max_length"]:
        options["max_length"] = options["max_tokens_per_batch"]
    train_lines = datasets.read_split(splits["train"])
    valid_lines = datasets.read_split(splits["valid"])

    directory = ModelDirectory(FLAGS.model_dir)
    open_run(directory, FLAGS.model, settings, dataset, options, train_lines)
    tokenizer = directory.tokenizer()
    corpus = pipeline.encode_corpus(*train_lines, tokenizer, FLAGS.data_dir, "training pairs")
    corpus, dropped = pipeline.filter_pairs(
        corpus, max_length=options["max_length"], max_length_ratio=options["max_length_ratio"]
    )
    valid = pipeline.encode_corpus(*valid_lines, tokenizer, FLAGS.data_dir, "validation pairs")

    keras.utils.set_random_seed(options["seed"])
    model = directory.new_model()
    max_tokens = options["max_tokens_per_batch"]
    for line in (
        f"model: {FLAGS.model}, {model.count_params():,} parameters",
        f"dropped: {', '.join(f'{count:,} {reason}' for reason, count in dropped.items())}",
        *pipeline.describe(corpus, tokenizer, max_tokens, options["seed"]),
        f"validation pairs: {valid.num_pairs:,}; BLEU on the first {options['bleu_lines']:,}",
    ):
        print(line, flush=True)

    update = GradientUpdate(
        model,
        adam(learning_rate=options["learning_rate"], warmup_steps=options["warmup_steps"]),
        label_smoothing=options["label_smoothing"],
        clip_norm=options["clip_norm"],
    )
    evaluator = Evaluator(
        update,
        Translator(model, tokenizer, beam_size=1, batch_size=64),
        valid,
        *(lines[: options["bleu_lines"]] for lines in valid_lines),
        max_tokens=max_tokens,
    )
    limits = Limits(
        keep_checkpoints=options["average_checkpoints"],
        **{name: options[name] for name in Limits._fields if name in options},
    )
    trainer = Trainer(
        directory, update, corpus, evaluator, limits, max_tokens=max_tokens, seed=options["seed"]
    )
    signal_number = trainer.run()
    if signal_number:
        return 128 + signal_number
    print(f"the model is in {FLAGS.model_dir}; next: python translate.py --model_dir=...")
    return 0


if __name__ == "__main__":
    app.run(one_line_errors(main))
