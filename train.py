"""Trains a translation model.

    python train.py
    python train.py --model=transformer_tiny --train_source=a.en --train_target=a.de \
        --valid_source=v.en --valid_target=v.de --model_dir=runs/x

The same command again goes on where it stopped.
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
from command_line.flag_values import shortened
from data_pipeline import datasets, mixing, pipeline, streams
from data_pipeline.batching import largest_shape
from data_pipeline.files import UserError, check_folder
from data_pipeline.tokenization import tokenizers
from model_directory import memory, summary
from model_directory.directory import ModelDirectory, model_of
from model_directory.options import DEFAULTS
from training import fine_tuning, pace, recipes, run
from training.devices.strategies import KINDS, Replicas, start_replicas
from training.evaluation import CRITERIA
from training.expectation_maximisation import em_update
from training.expectation_maximisation.agreement_update import reverse_directory
from training.expectation_maximisation.word_pairs import index_word_pairs
from training.ngrams import ngram_training
from training.updates.gradient import LOSS_AVERAGES
from training.updates.precision import PRECISIONS
from training.updates.schedules import SCHEDULES

FLAGS = flags.FLAGS

_NAMES = ", ".join([*models.preset_names(), *models.LANGUAGE_MODELS])
flags.DEFINE_string("model", "transformer_tiny", f"One of: {_NAMES}.")
flags.DEFINE_multi_string("set", [], "name=value: changes a setting of the preset. Repeatable.")
flags.DEFINE_multi_string(
    "model_dir",
    ["runs/demo"],
    "Where the run is kept; an earlier one goes on. Repeatable with --summary.",
)
flags.DEFINE_string("dataset", "", "A corpus by name. Empty: demo, or files if those are given.")
flags.DEFINE_bool("list_datasets", False, "Only prints the corpora that have a name.")
flags.DEFINE_bool("dry_run", False, "Only prints the plan of the training.")
flags.DEFINE_enum("distribution", "none", KINDS, "Devices that train together.")
flags.DEFINE_integer("num_replicas", 0, "mirrored: devices; 0: all GPUs.", 0, 64)
flags.DEFINE_string("tpu_address", "", "tpu: its name or address; empty: TPU_NAME, or local.")
flags.DEFINE_bool("summary", False, "Only prints what every --model_dir holds.")
flags.DEFINE_string("data_dir", "data", "Where downloads, prepared corpora and caches are kept.")
flags.DEFINE_bool("offline", False, "Takes downloads from --data_dir alone.")
flags.DEFINE_string("mirror", "", "Address of a copy of the folder downloads of a --data_dir.")
for _split in ("train", "valid"):
    for _side in tokenizers.SIDES:
        flags.DEFINE_string(f"{_split}_{_side}", "", f"Your own {_split} text, {_side} side.")
flags.DEFINE_string("corpus_weights", None, "Of several --train_source=a,b: parts of an epoch.")
flags.DEFINE_float("temperature", None, "Above 1: small corpora count for more.", lower_bound=1.0)

# Without a default here: recipes.py has one for each model and corpus.
flags.DEFINE_enum("update", None, ["gradient", "em"], "em: ibm1, ibm2, hmm_alignment only.")
flags.DEFINE_integer("model1_steps", None, "em: first, iterations of Model 1.", lower_bound=0)
flags.DEFINE_integer("model2_steps", None, "em: then, iterations of Model 2.", lower_bound=0)
flags.DEFINE_float("alpha", None, "em: sparse prior of translations; 0: none.", lower_bound=0.0)
flags.DEFINE_string(
    "reverse_model_dir", None, "em: also trains target to source, so that both agree; where to."
)
flags.DEFINE_enum("tokenizer", None, tokenizers.KINDS, "How text becomes ids.")
flags.DEFINE_integer(
    "vocab_size", None, "Pieces of bpe; most words a side of word (0: all).", lower_bound=0
)
flags.DEFINE_integer("min_word_count", None, "word: rarer words become UNK.", lower_bound=1)
flags.DEFINE_string(
    "vocab_file",
    None,
    "pretokenized: list of pieces, one a line; bpe: ready .model; ngram_lm: any vocabulary.",
)
flags.DEFINE_integer(
    "max_length", None, "Longest training sentence, in tokens with </s>.", lower_bound=1
)
flags.DEFINE_float(
    "max_length_ratio", None, "Largest ratio of the lengths of a training pair.", lower_bound=1.0
)
flags.DEFINE_integer("max_tokens_per_batch", None, "Rows x longest padded side.", lower_bound=1)
flags.DEFINE_integer("max_sentences_per_batch", None, "0: tokens alone decide.", lower_bound=0)
flags.DEFINE_integer("accumulate_steps", None, "Batches of an update.", lower_bound=1)
flags.DEFINE_bool("pad_to_bucket", None, "Batches in at most 24 shapes, for XLA and TPU.")
flags.DEFINE_bool("largest_batch_first", None, "Each epoch starts with its largest batch.")
flags.DEFINE_float("learning_rate", None, "Peak of the schedule.", 0.0, 1000.0)
flags.DEFINE_integer("warmup_steps", None, "Updates until the peak.", lower_bound=1)
flags.DEFINE_enum("schedule", None, list(SCHEDULES), "Learning rate behind the warm-up.")
flags.DEFINE_integer("decay_steps", None, "linear, cosine: last update; 0: max_steps.", 0)
flags.DEFINE_integer("plateau_patience", None, "plateau: validations without a better one.", 1)
flags.DEFINE_float("plateau_factor", None, "plateau: what the rate falls by.", 0.001, 0.999)
flags.DEFINE_enum("optimizer", None, ["adam", "adamw"], "adamw: with --weight_decay.")
flags.DEFINE_float("weight_decay", None, "adamw: times learning rate, each update.", 0.0, 1.0)
flags.DEFINE_float("adam_beta_2", None, "In [0, 1).", lower_bound=0.0, upper_bound=0.99999)
flags.DEFINE_enum("loss_average", None, LOSS_AVERAGES, "What the loss is divided by.")
flags.DEFINE_float("label_smoothing", None, "In [0, 1).", lower_bound=0.0, upper_bound=0.999)
flags.DEFINE_float("clip_norm", None, "Largest norm of the gradient; 0: any.", lower_bound=0.0)
flags.DEFINE_integer("max_steps", None, "Stop after this many updates; 0: no limit.", lower_bound=0)
flags.DEFINE_integer("max_epochs", None, "Stop after this many epochs; 0: no limit.", lower_bound=0)
flags.DEFINE_float(
    "max_minutes",
    None,
    "Ends within this long, from the start of the command to its end, all runs together; "
    "0: no limit.",
    lower_bound=0,
)
flags.DEFINE_integer(
    "patience", None, "Stop after so many validations without a better one; 0: no.", lower_bound=0
)
flags.DEFINE_integer("eval_every_steps", None, "Updates between validations.", lower_bound=1)
flags.DEFINE_integer("save_every_steps", None, "Updates between checkpoints.", lower_bound=1)
flags.DEFINE_integer("log_every_steps", None, "Updates between metrics.", lower_bound=1)
flags.DEFINE_integer("average_checkpoints", None, "Checkpoints kept and averaged.", lower_bound=1)
flags.DEFINE_integer(
    "max_bad_steps", None, "Stop after so many skipped steps in a row.", lower_bound=1
)
flags.DEFINE_float("ema_decay", None, "Moving average of weights; 0: none.", 0.0, 0.999999)
flags.DEFINE_enum("keep_best_by", None, CRITERIA, "What says which weights are the best.")
flags.DEFINE_string("init_from", None, "Model directory whose weights and vocabulary begin.")
flags.DEFINE_integer("bleu_lines", None, "Validation lines for BLEU; 0: none.", lower_bound=0)
flags.DEFINE_enum("precision", None, list(PRECISIONS), "Of products; weights are float32.")
flags.DEFINE_bool("jit_compile", None, "XLA compiles updates; needs --pad_to_bucket.")
flags.DEFINE_integer(
    "intra_op_threads", None, "Threads on one operation; 0: as TensorFlow does.", 0, 1024
)
flags.DEFINE_integer("seed", None, "Of weights, dropout and order.", lower_bound=0)


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


def read_flags():
    """Reads what is to be trained on what and how.

    Returns:
        (dataset name, its `Split`s, settings of the model, training options, names of the options
        that `training.pace` chooses).
    """
    dataset, splits = corpus_files()
    given = {name: FLAGS[name].value for name in DEFAULTS if FLAGS[name].present}
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
    given = {name: FLAGS[name].value for name in DEFAULTS if FLAGS[name].present}
    settings = settings_given(FLAGS.model)
    of_text = dataset, splits or prepare(dataset)
    config, text = ngram_training.configure(FLAGS.model, settings, given, *of_text)
    directory = ModelDirectory(FLAGS.model_dir[0])
    if directory.exists():
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
    for line in (
        f"model: {FLAGS.model}, {model.count_params():,} parameters"
        + "".join(f", {name}={value}" for name, value in settings.items()),
        "options: " + ", ".join(f"{name}={value}" for name, value in options.items()),
        *plan,
        f"validation pairs: {valid.num_pairs:,}, "
        + (f"the first {bleu_lines:,} for BLEU" if bleu_lines else "without BLEU (--bleu_lines=0)"),
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
