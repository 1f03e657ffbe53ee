r"""Trains a translation model.

    python train.py
    python train.py --model=transformer_tiny --train_source=a.en --train_target=a.de \
        --valid_source=v.en --valid_target=v.de --model_dir=runs/x

The same command again resumes the run. Defaults of options are general ones; models and corpora
have their own where others suit them better (training/recipes.py).
"""

from command_line import startup  # noqa: F401 - first of all, for what it does

# isort: split

import gc
import itertools
import json
import time

from absl import flags

import models
from command_line import console, quiet
from command_line.flag_values import define, group, shortened
from data_pipeline import datasets, mixing, pipeline, streams
from data_pipeline.batching import largest_shape
from data_pipeline.files import UserError, check_folder
from data_pipeline.tokenization import tokenizers
from model_directory import memory, summary
from model_directory.directory import ModelDirectory, model_of
from model_directory.options import BY_NAME, DEFAULTS, OPTIONS, VOCABULARY, renamed
from training import fine_tuning, pace, recipes, run
from training.devices.strategies import KINDS, Replicas, start_replicas
from training.expectation_maximisation import em_update
from training.expectation_maximisation.agreement_update import reverse_directory
from training.expectation_maximisation.word_pairs import index_word_pairs
from training.ngrams import ngram_training
from training.updates.precision import PRECISIONS

FLAGS = flags.FLAGS

_NAMES = ", ".join([*models.preset_names(), *models.LANGUAGE_MODELS])

with group("Model and model directory"):
    flags.DEFINE_string("model", "transformer_tiny", f"Model to train, one of: {_NAMES}.")
    flags.DEFINE_multi_string(
        "set", [], "Changes a setting of the model, as name=value. Repeatable."
    )
    flags.DEFINE_multi_string(
        "model_dir",
        ["runs/demo"],
        "Directory of the run; a run that is there already is resumed. Repeatable with --summary.",
    )
    flags.DEFINE_bool(
        "verbose", False, "Also prints all options of the run, as config.json has them."
    )
with group("Text"):
    flags.DEFINE_string(
        "dataset", "", "Corpus by name. Default: demo, or your own files if they are given."
    )
    for _split, _what in (("train", "training"), ("valid", "validation")):
        for _side in tokenizers.SIDES:
            flags.DEFINE_string(
                f"{_split}_{_side}", "", f"Your own {_what} text, {_side} side, a sentence a line."
            )
    flags.DEFINE_string("data_dir", "data", "Directory of downloads, prepared corpora and caches.")
    flags.DEFINE_bool("offline", False, "Uses downloads from --data_dir alone.")
    flags.DEFINE_string("mirror", "", "Address of a copy of the downloads of a --data_dir.")
with group("Instead of training"):
    flags.DEFINE_bool("dry_run", False, "Prints the plan of the training.")
    flags.DEFINE_bool("list_datasets", False, "Prints the corpora that have a name.")
    flags.DEFINE_bool("summary", False, "Prints what every --model_dir holds.")
for _title, _options in itertools.groupby(OPTIONS, key=lambda option: option.group):
    with group(_title):
        for _option in _options:
            define(_option)
        if _title == BY_NAME["max_words"].group:
            flags.DEFINE_integer(
                "vocab_size",
                None,
                "Older name of --num_pieces or --max_words, whichever suits --tokenizer.",
                lower_bound=0,
            )
with group("Several devices"):
    flags.DEFINE_enum("distribution", "none", KINDS, "Devices that train together.")
    flags.DEFINE_integer("num_replicas", 0, "Number of devices for mirrored (0: all GPUs).", 0, 64)
    flags.DEFINE_string(
        "tpu_address", "", "Name or address of the TPU. Default: TPU_NAME, or the local one."
    )


def settings_given(preset):
    """The --set flags, each value read as the type of the preset's own."""
    valid = models.preset_settings(preset)
    settings = {}
    for text in FLAGS.set:
        (name, equals, value), shown = text.partition("="), f"--set {shortened(text)}"
        if not equals:
            raise UserError(f"{shown}: expected name=value")
        if name not in valid:
            known = ", ".join(sorted(valid))
            raise UserError(f"{shown}: {preset} has no such setting; valid: {known}")
        try:
            settings[name] = value if isinstance(valid[name], str) else json.loads(value.lower())
        except (ValueError, RecursionError):
            raise UserError(f"{shown}: expected a value like {valid[name]!r}") from None
    return settings


def corpus_files():
    """(dataset name, train and valid `Split` of files, or None if they have to be prepared)."""
    own = {name: FLAGS[name].value for name in OWN_FILES}
    if FLAGS.dataset in ("", "files") and any(own.values()):
        targets_suffice = FLAGS.model in models.LANGUAGE_MODELS
        needed = [name for name in OWN_FILES if not (targets_suffice and name.endswith("source"))]
        missing = [f"--{name}" for name in needed if not own[name]]
        if missing:
            flags_needed = "both target flags" if targets_suffice else "all four flags"
            raise UserError(f"your own files need {flags_needed}; missing: {', '.join(missing)}")
        splits = {
            split: datasets.Split(own[f"{split}_source"], own[f"{split}_target"])
            for split in ("train", "valid")
        }
        return "files", splits
    if any(own.values()):
        raise UserError(f"--dataset={FLAGS.dataset} and --train_source exclude each other")
    if FLAGS.dataset == "files":
        raise UserError("--dataset=files needs " + ", ".join(f"--{name}" for name in OWN_FILES))
    return FLAGS.dataset or "demo", None


def prepare(dataset):
    """The train and valid `Split` of a dataset by name."""
    return datasets.prepare(dataset, FLAGS.data_dir, offline=FLAGS.offline, mirror=FLAGS.mirror)


OWN_FILES = ("train_source", "train_target", "valid_source", "valid_target")


def options_given():
    """Name -> value of the training options on the command line."""
    given = {name: FLAGS[name].value for name in DEFAULTS if FLAGS[name].present}
    if FLAGS.vocab_size is None:
        return given
    tokenizer = recipes.options(FLAGS.model, "", given)["tokenizer"]
    if FLAGS.init_from and "tokenizer" not in given:
        tokenizer = ModelDirectory(FLAGS.init_from).config()["tokenizer"]
    if tokenizer == "pretokenized":  # Where it has never meant anything.
        return given
    older = renamed({"vocab_size": FLAGS.vocab_size}, tokenizer)
    if both := set(older) & set(given):
        raise UserError(f"--vocab_size is the older name of --{both.pop()}; give one of them")
    return {**older, **given}


def read_flags():
    """Reads what is to be trained on what and how.

    Returns:
        (dataset name, its `Split`s, settings of the model, training options, names of the options
        that `training.pace` chooses).
    """
    dataset, splits = corpus_files()
    given = options_given()
    given_settings = settings_given(FLAGS.model)
    of_tokenizer, inherited = {}, {}
    if FLAGS.init_from:
        of_tokenizer, inherited = fine_tuning.inherit(
            FLAGS.init_from, FLAGS.model, given, given_settings
        )
    options = recipes.options(FLAGS.model, dataset, {**of_tokenizer, **given})
    valid = models.preset_settings(FLAGS.model)
    suited = recipes.MODEL_SETTINGS_BY_DATASET.get(dataset, {})
    settings = {name: value for name, value in suited.items() if name in valid}
    if options["tokenizer"] == "word" and valid.get("tie_embeddings") == "all":
        settings["tie_embeddings"] = "target"  # Each side has a vocabulary of its own.
    settings.update({**inherited, **given_settings})
    undecided = pace.undecided(dataset, options, given)
    run.check_options(FLAGS.model, options, given, undecided)
    if options["max_length"] > options["max_tokens_per_batch"]:
        options["max_length"] = options["max_tokens_per_batch"]
        print(f"max_length={options['max_length']}, because a batch holds no more tokens")
    return dataset, splits or prepare(dataset), settings, options, undecided


def make_language_model():
    """Reads flags and text; counts n-grams instead of training."""
    if FLAGS.dry_run:
        raise UserError(
            f"--dry_run plans steps of training, and {FLAGS.model} counts; leave it out"
        )
    of_counts = {"update": "em", "intra_op_threads": 0}
    start_replicas(of_counts, FLAGS.distribution, FLAGS.num_replicas, FLAGS.tpu_address)
    dataset, splits = corpus_files()
    given = options_given()
    settings = settings_given(FLAGS.model)
    of_text = dataset, splits or prepare(dataset)
    config, text = ngram_training.configure(FLAGS.model, settings, given, *of_text)
    directory = ModelDirectory(FLAGS.model_dir[0])
    if directory.exists():
        config["options"] = resumed_options(config["options"], [], directory)
        run.check_same_run(directory, config)
    ngram_training.train(directory, config, text)
    return 0


def train_or_plan():
    """Reads flags and text; prints the plan of the run, or opens it and trains."""
    dataset, splits, settings, options, undecided = read_flags()
    of_devices = FLAGS.distribution, FLAGS.num_replicas, FLAGS.tpu_address
    replicas = start_replicas(options, *of_devices)
    train_lines = streams.open_split(splits["train"])
    mixing.parse_weights(options["corpus_weights"], len(train_lines[0].sizes))
    valid_lines = datasets.read_split(splits["valid"])
    config = {
        "model": FLAGS.model,
        "settings": settings,
        "tokenizer": options["tokenizer"],
        "dataset": dataset,
        "training_text": pipeline.text_hash(*train_lines),
        "validation_text": pipeline.text_hash(*valid_lines),
        "options": options,
    }
    directory = replicas.directory(FLAGS.model_dir[0])
    if not (FLAGS.dry_run or replicas.is_chief):
        replicas.join(directory, config)
    of_flags, is_new = config, not directory.exists()
    if not is_new:
        options = resumed_options(options, undecided, directory)
        config = {**config, "options": options}
    reverse = reverse_directory(directory, config)
    tokenizer = run.make_tokenizer(directory, config, train_lines, lock=not FLAGS.dry_run)
    valid = pipeline.encode_corpus(*valid_lines, tokenizer, FLAGS.data_dir, "validation pairs")
    corpus, dropped, sizes = pipeline.encode_pairs(
        *train_lines,
        tokenizer,
        FLAGS.data_dir,
        "training pairs",
        pipeline.PairFilter(options["max_length"], options["max_length_ratio"]),
    )
    batching = run.make_batching(corpus, sizes, options, replicas)
    words = index_word_pairs(corpus) if em_update.is_table(FLAGS.model) else None
    config = {**config, **run.sizes_of_model(tokenizer, words)}
    batched = corpus, tokenizer, options["max_tokens_per_batch"], options["seed"]
    dropped = ", ".join(f"{count:,} {reason}" for reason, count in dropped.items())
    print(f"dropped: {dropped}", flush=True)
    plan = pipeline.plan_batches(
        corpus, options["max_tokens_per_batch"], seed=options["seed"], **batching
    )
    if is_new and undecided:
        options = {**options, **choose_pace(config, undecided, corpus, words, plan, replicas)}
        config = {**config, "options": options}
    if FLAGS.dry_run:
        print_plan(config, batched, words, batching, plan)
        return 0
    if is_new:
        directory.start(config, tokenizer)
    elif replicas.is_chief:
        directory.complete_config(validation_text=config["validation_text"])
    if replicas.is_chief:
        replicas.join(directory, of_flags)
    texts = corpus, words, valid, valid_lines
    trainer = run.make_trainer(directory, reverse, tokenizer, options, *texts, batching, replicas)
    plan = *pipeline.describe(*batched, plan=plan, **batching), *replicas.describe(options)
    print_run(config, trainer.update.model, plan, valid)
    signal_number = trainer.run()
    if signal_number or not replicas.is_chief:
        return signal_number and 128 + signal_number
    print_end(directory, reverse)
    if options["update"] == "gradient" and trainer.state["step"] < options["warmup_steps"]:
        print(
            f"the run ended within its warm-up, at step {trainer.state['step']:,} of "
            f"--warmup_steps={options['warmup_steps']}, before the learning rate was at its peak; "
            "go on with a longer limit, or give fewer in a new --model_dir"
        )
    return 0


def resumed_options(options, undecided, directory):
    """The options of a run that goes on; prints what it has from its beginning."""
    # The vocabulary of an earlier version, which had other recipes for its size, stays.
    undecided = [*undecided, *(name for name in VOCABULARY if name not in options_given())]
    found = pace.resumed(options, undecided, directory.config()["options"])
    kept = [f"--{name}={found[name]}" for name in undecided if found[name] != options[name]]
    if kept:
        print(f"as when the run began: {', '.join(kept)}", flush=True)
    return found


def update_to_try(config, corpus, words):
    """An update of a fresh model on one device, for what is measured before a run."""
    options = config["options"]
    model = model_of(config, PRECISIONS[options["precision"]])
    if words:
        em_update.prepare(model, corpus, words)
    return run.make_update(model, options, words, None, Replicas())


def choose_pace(config, undecided, corpus, words, plan, replicas):
    """Chooses and prints the undecided options of a new run; returns name -> value."""
    options, seconds = config["options"], None
    limit = 60 * options["max_minutes"]
    # Updates of several devices, and those that XLA compiles, take other times than a first few.
    if limit and not (replicas.strategy or options["jit_compile"]):
        update, batches = update_to_try(config, corpus, words), pipeline.dataset_of(corpus, plan)
        seconds = pace.seconds_an_update(update, batches, options["accumulate_steps"], limit)
        del update
        gc.collect()  # Two models at once may be too much for an accelerator.
    batches_an_update = replicas.num_replicas * options["accumulate_steps"]
    outlook = pace.outlook(
        options,
        -(-plan.batch_sizes.size // batches_an_update),
        max(limit - (time.monotonic() - quiet.BEGAN), 0.0),
        seconds,
    )
    chosen = pace.choose(options, undecided, outlook)
    for line in pace.report(chosen, options, outlook):
        print(line, flush=True)
    return chosen


def print_plan(config, batched, words, batching, plan):
    """Prints what the first epoch would be, and what memory its updates take."""
    corpus, update = batched[0], None
    if config["options"]["update"] == "gradient":
        update = update_to_try(config, corpus, words)
    model = update.model if update else model_of(config)
    known = {"num_parameters": model.count_params(), "plan": plan}
    told = [plan.report(*batched, **known, **batching)]
    if update:
        lengths = corpus.source.lengths, corpus.target.lengths
        told.append(memory.report(update, largest_shape(plan, *lengths)))
    for line in itertools.chain(*told):
        console.write_result(line)


def print_run(config, model, plan, valid):
    """Prints what is about to be trained."""
    settings, options = config["settings"], config["options"]
    bleu_lines = min(options["bleu_lines"], valid.num_pairs)
    limits = ("max_steps", "max_epochs", "max_minutes", "patience")
    until = [f"--{name}={options[name]}" for name in limits if options[name]]
    for line in (
        f"model: {FLAGS.model}, {model.count_params():,} parameters"
        + "".join(f", {name}={value}" for name, value in settings.items()),
        *([f"options: {', '.join(f'{n}={v}' for n, v in options.items())}"] * FLAGS.verbose),
        *plan,
        f"validation pairs: {valid.num_pairs:,}, "
        + (f"the first {bleu_lines:,} for BLEU" if bleu_lines else "without BLEU (--bleu_lines=0)"),
        f"until {' or '.join(until)}" if until else "until it is stopped",
    ):
        print(line, flush=True)


def print_end(directory, reverse):
    """Prints what has been trained, and what to do with it."""
    print(*summary.table([directory]), sep="\n")
    print(f"the model is in {directory.path}; translate.py --model_dir={directory.path} uses it")
    if reverse:
        print(
            f"the reverse model is in {reverse.path}; visualize_attention.py --model_dir="
            f"{directory.path} --reverse_model_dir={reverse.path} --symmetrise=agree aligns with "
            "both"
        )


def main(argv):
    """Does what the flags ask for."""
    del argv
    if FLAGS.list_datasets:
        console.write_result(*datasets.listing())
        return 0
    if FLAGS.summary:
        console.write_result(*summary.table(map(ModelDirectory, FLAGS.model_dir)))
        return 0
    if len(FLAGS.model_dir) > 1:
        raise UserError("a run has one --model_dir; several go with --summary only")
    check_folder(FLAGS.data_dir)
    directory = ModelDirectory(FLAGS.model_dir[0])
    if not directory.exists():
        directory.check_free()
    if FLAGS.model in models.LANGUAGE_MODELS:
        return make_language_model()
    return train_or_plan()


if __name__ == "__main__":
    console.run(main)
