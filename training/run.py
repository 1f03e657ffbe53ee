"""What a run of training is put together from, and what does not go together."""

import functools

import keras

import models
from command_line import quiet
from data_pipeline import pipeline
from data_pipeline.files import UserError
from data_pipeline.tokenization import tokenizers
from decoding.translator import Translator
from model_directory.directory import ModelDirectory, check_model
from model_directory.options import BY_NAME, DEFAULTS, LIMITS, check_given, size_option
from training import fine_tuning
from training.devices.replicas import REPLICATED, ReplicaAdam, ReplicaTrainer
from training.evaluation import Evaluator
from training.expectation_maximisation import em_update
from training.expectation_maximisation.agreement_update import (
    AgreementTrainer,
    AgreementUpdate,
    open_reverse,
)
from training.limits import Limits
from training.loop import Trainer
from training.updates.gradient import GradientUpdate, LikelihoodUpdate, adam
from training.updates.precision import PRECISIONS

# What only one way of training has a use for.
_OF_UPDATE = {
    "em": ("model1_steps", "model2_steps", "alpha"),
    "gradient": (
        *("accumulate_steps", "precision", "jit_compile", "ema_decay", "optimizer", "weight_decay"),
        *("schedule", "decay_steps", "plateau_patience", "plateau_factor"),
    ),
}


def check_options(preset, options, given, undecided=()):
    """Raises `UserError` where options do not go together.

    Args:
        preset: name of the model.
        options: name -> value, of all training options; `decay_steps` may be set.
        given: name -> value of those of the user.
        undecided: names of those that `training.pace` may make smaller.

    Where the learning rate falls until a last update, that is kept as a number of its own: a run
    that goes on beyond its first --max_steps has to say it, as its rate would change.
    """
    update, is_table = options["update"], em_update.is_table(preset)
    if update == "em" and not is_table:
        raise UserError(
            f"--update=em: {preset} is trained by gradient; models that are not: "
            + ", ".join(filter(em_update.is_table, models.preset_names()))
        )
    unused = [name for other, names in _OF_UPDATE.items() if other != update for name in names]
    if is_table:
        unused.append("label_smoothing")
    for name in filter(given.get, unused):
        raise UserError(
            f"--{name}={options[name]}: not with --model={preset} --update={update}; leave it out"
        )
    check_given(options, given)
    if options["keep_best_by"] == "bleu" and not options["bleu_lines"]:
        raise UserError("--keep_best_by=bleu needs --bleu_lines above 0")
    if options["jit_compile"] and not options["pad_to_bucket"]:
        raise UserError(
            "--jit_compile needs --pad_to_bucket: XLA compiles an update anew for every shape of a "
            "batch, for many seconds, and without it almost every batch has a shape of its own"
        )
    if BY_NAME["decay_steps"].applies(options):
        options["decay_steps"] = options["decay_steps"] or options["max_steps"]
        last = options["decay_steps"]
        least = 1 if "warmup_steps" in undecided else options["warmup_steps"]
        if last < least:
            raise UserError(
                f"--schedule={options['schedule']} falls until the last update: give --decay_steps "
                f"or --max_steps of at least --warmup_steps, {least:,}; found {last:,}"
            )


def make_tokenizer(directory, config, train_lines, lock=True):
    """The `Tokenizer` of a new run, or of the run in the directory if it is the one of the flags.

    A setting that does not fit, and a directory that cannot be used, shows here, before long work.
    """
    if directory.exists():
        check_same_run(directory, config)
        if lock:
            directory.lock.acquire()
        return directory.tokenizer()
    directory.check_free()
    options = config["options"]
    if options["init_from"]:
        return ModelDirectory(options["init_from"]).tokenizer()
    tokenizer = tokenizers.train_tokenizer(
        options["tokenizer"],
        *train_lines,
        vocab_size=options[size_option(options["tokenizer"])] or None,
        min_word_count=options["min_word_count"],
        vocab_file=options["vocab_file"],
    )
    sizes = sizes_of_model(tokenizer, None)["vocab_sizes"]
    least = dict.fromkeys(models.corpus_sizes(config["model"]), 1)  # Not known yet.
    check_model({**config, "vocab_sizes": sizes, "sizes": least})
    return tokenizer


def sizes_of_model(tokenizer, words):
    """What the configuration keeps of the sizes of a model that only its text tells."""
    return {
        "vocab_sizes": [len(tokenizer.source), len(tokenizer.target)],
        "sizes": {"num_word_pairs": words.source_words.size} if words else {},
    }


def make_batching(corpus, sizes, options, replicas):
    """The options of batches that are the same in every epoch, as `plan_batches` has them."""
    return {
        **pipeline.batch_options(
            corpus,
            sizes,
            options["max_tokens_per_batch"],
            max_sentences=options["max_sentences_per_batch"],
            corpus_weights=options["corpus_weights"],
            temperature=options["temperature"],
            pad_to_bucket=options["pad_to_bucket"],
            largest_first=options["largest_batch_first"],
        ),
        "num_workers": replicas.num_replicas,
    }


NAMED = ("model", "dataset", "training_text", "validation_text", "reverse_of")


def check_same_run(directory, config):
    """Compares a run with the one in the directory.

    Raises:
        UserError: flags or text differ.
    """

    def flat(config):
        settings = {**models.preset_settings(config["model"]), **config["settings"]}
        named = {name: config.get(name) for name in NAMED}
        return {**named, **settings, **DEFAULTS, **config["options"]}

    was, now = flat(directory.config()), flat(config)
    may_change = set(LIMITS)
    may_change |= {n for n, o in BY_NAME.items() if not (o.applies(was) or o.applies(now))}
    if was["keep_best_by"] == "bleu":
        may_change.discard("bleu_lines")  # Scores of other lines could not be compared.
    if was["validation_text"] is None:
        may_change.add("validation_text")
        print(
            f"{directory.path} was begun by an earlier version, which did not note its validation "
            "text: it cannot be compared with this one"
        )
    changes = [
        f"{name} was {was.get(name)!r}, is {now.get(name)!r}"
        for name in {**was, **now}
        if name not in may_change and was.get(name) != now.get(name)
    ]
    if changes:
        raise UserError(
            f"{directory.path} holds a run with other settings: {', '.join(changes)}; give the "
            "same flags to go on with it, or another --model_dir"
        )


def make_update(model, options, words, twin, replicas):
    """What changes the model: by gradient, or by expectation maximisation if that is asked for.

    With a `twin`, (`Directions`, reverse model), that one is changed, too.
    """
    if options["update"] == "em":
        em_options = {name: options[name] for name in ("alpha", "model1_steps", "model2_steps")}
        if twin:
            return AgreementUpdate(model, *twin, **em_options)
        return em_update.EMUpdate(model, words, **em_options)
    decays = BY_NAME["decay_steps"].applies(options)
    plateau = {name: options[f"plateau_{name}"] for name in ("patience", "factor")}
    optimizer = adam(
        learning_rate=options["learning_rate"],
        warmup_steps=options["warmup_steps"],
        schedule=options["schedule"],
        kind=ReplicaAdam if replicas.strategy else None,
        beta_2=options["adam_beta_2"],
        weight_decay=options["weight_decay"] if options["optimizer"] == "adamw" else 0.0,
        **({"decay_steps": options["decay_steps"]} if decays else {}),
        **(plateau if options["schedule"] == "plateau" else {}),
    )
    kind = LikelihoodUpdate if words else GradientUpdate
    if replicas.strategy:
        kind = functools.partial(REPLICATED[kind], replicas=replicas)
    return kind(
        model,
        optimizer,
        label_smoothing=options["label_smoothing"],
        clip_norm=options["clip_norm"],
        loss_average=options["loss_average"],
        jit_compile=options["jit_compile"],
        ema_decay=options["ema_decay"],
    )


def make_trainer(
    directory, reverse, tokenizer, options, corpus, words, valid, valid_lines, batching, replicas
):
    """Model, update, evaluator and loop; `words` are the word pairs of an alignment model."""
    keras.utils.set_random_seed(options["seed"])
    max_tokens = options["max_tokens_per_batch"]
    with replicas.scope():
        model = directory.new_model(PRECISIONS[options["precision"]])
        if options["init_from"] and not directory.checkpoint_steps():
            fine_tuning.start(model, options["init_from"])
        em_update.prepare(model, corpus, words)
        twin = open_reverse(reverse, directory, tokenizer, corpus, words) if reverse else None
        update = make_update(model, options, words, twin, replicas)
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
    loop, examples = Trainer, corpus
    if options["update"] == "em":
        loop, examples = em_update.EMTrainer, words
    if reverse:
        loop, examples = functools.partial(AgreementTrainer, reverse=reverse), twin[0]
    if replicas.strategy:
        loop = functools.partial(ReplicaTrainer, replicas=replicas)
    return loop(
        directory,
        update,
        examples,
        evaluator,
        limits,
        max_tokens=max_tokens,
        seed=options["seed"],
        keep_best_by=options["keep_best_by"],
        accumulate_steps=options["accumulate_steps"],
        began=quiet.BEGAN,
        **{name: value for name, value in batching.items() if name != "num_workers"},
    )
