"""Makes an n-gram language model in a model directory: text, vocabulary, counts, perplexity."""

import itertools
import math
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

import models
from data_pipeline import streams
from data_pipeline.files import UserError
from data_pipeline.pipeline import (
    EncodedCorpus,
    EncodedSide,
    batches,
    encode_lines,
    text_hash,
)
from data_pipeline.progress import Progress
from data_pipeline.tokenization.tokenizers import Tokenizer, train_tokenizer
from data_pipeline.tokenization.vocabularies import PAD_ID, UNK_ID, BpeVocabulary, PieceVocabulary
from model_directory.directory import model_arrays
from model_directory.options import VOCABULARY, check_given, size_option
from model_directory.weight_files import write_archive
from training import recipes
from training.ngrams.counting import estimate

_EVALUATION_TOKENS = 50_000  # Scored at once.
_LINES_AT_ONCE = 10_000  # Encoded between two looks at the clock.


class Text(NamedTuple):
    """What a language model is made of and judged by.

    Attributes:
        source: `FileLines`, the other language, from which `bpe` takes a part of its pieces; an
            empty list where there is none.
        train: `FileLines`, which may be of any size.
        valid: list of str.
    """

    source: streams.FileLines
    train: streams.FileLines
    valid: list


def read_text(splits):
    """Opens the target sides of two `Split`s; the sources may be empty names.

    Args:
        splits: {"train": `Split`, "valid": `Split`}; the first as `streams.open_split`.

    Raises:
        UserError: a file that is missing or empty, or sides of unequal numbers of lines.
    """
    train, valid = splits["train"], splits["valid"]
    if train.source:
        source, target = streams.open_split(train)
    else:
        source, target = [], streams.open_target(train)
    text = Text(source, target, list(streams.open_target(valid)))
    for path, lines in ((train.target, text.train), (valid.target, text.valid)):
        if not any(line.strip() for line in lines):
            raise UserError(f"{path}: empty; expected one sentence a line")
    return text


def configure(model, settings, given, dataset, splits):
    """Reads the text and makes the configuration of a run.

    Args:
        model: preset name.
        settings: of the model, where they are not the preset's.
        given: name -> value of the options that the user gave.
        dataset: name of a corpus, or "files".
        splits: as `read_text`.

    Returns:
        (configuration without sizes, `Text`).

    Raises:
        UserError: an option that an n-gram model has no use for.
    """
    useless = [f"--{name}" for name in given if name not in VOCABULARY]
    if useless:
        raise UserError(
            f"{model} counts its text and learns nothing in steps, so it has no use for "
            f"{', '.join(useless)}; of the training options it takes "
            + ", ".join(f"--{name}" for name in VOCABULARY)
        )
    text = read_text(splits)
    options = recipes.options(model, dataset, given)
    check_given(options, given)
    config = {
        "model": model,
        "settings": settings,
        "tokenizer": options["tokenizer"],
        "dataset": dataset,
        "training_text": text_hash(text.source, text.train),
        "validation_text": text_hash([], text.valid),
        "options": {name: options[name] for name in VOCABULARY},
    }
    return config, text


def make_tokenizer(options, text):
    """The tokenizer that a translation model of the same text has, or that of `vocab_file`.

    Args:
        options: name -> value.
        text: `Text`.

    Returns:
        `Tokenizer`; its target side is the language model's.
    """
    path = options["vocab_file"]
    if not path:
        return train_tokenizer(
            options["tokenizer"],
            text.source or text.train,
            text.train,
            vocab_size=options[size_option(options["tokenizer"])] or None,
            min_word_count=options["min_word_count"],
        )
    if Path(path).suffix == BpeVocabulary.file_suffix:
        return Tokenizer("bpe", *[BpeVocabulary.load(path)] * 2)
    return Tokenizer("pretokenized", *[PieceVocabulary.from_pieces(path)] * 2)


def perplexity(model, text):
    """exp of the negative log-likelihood a token of an `EncodedSide`, `</s>` among them."""
    log_prob = 0.0
    budget = max(_EVALUATION_TOKENS, int(text.lengths.max()))
    for batch in batches(EncodedCorpus(text, text), budget):
        ids = batch["target_ids"]
        scores = model.score(ids, ids).numpy()
        log_prob += scores[ids.numpy() != PAD_ID].astype(np.float64).sum()
    return math.exp(-log_prob / text.ids.size)


def train(directory, config, text):
    """Counts, smooths, judges and keeps a language model; one that is there already stays.

    Args:
        directory: `ModelDirectory`; if it exists, of the same run.
        config: as `ModelDirectory.config`, without the sizes.
        text: `Text`.
    """
    if directory.best_state() is not None:
        print(f"{directory.path} holds the language model of this text and these options already")
        return
    directory.lock.acquire()
    try:
        _train(directory, config, text)
    finally:
        directory.lock.release()


def _train(directory, config, text):
    began = time.monotonic()
    is_new = not directory.exists()  # Else a run was stopped before its end.
    if is_new:
        directory.check_free()
    tokenizer = make_tokenizer(config["options"], text) if is_new else directory.tokenizer()
    sizes = [len(tokenizer.source), len(tokenizer.target)]
    # What does not fit shows before the work.
    order = models.create(config["model"], *sizes, **config["settings"]).order
    train_text, valid_text = (
        _encode(tokenizer.target, lines, name)
        for name, lines in (("training text", text.train), ("validation text", text.valid))
    )
    print(f"vocabulary ({tokenizer.kind}): {sizes[1]:,} entries", flush=True)
    table = estimate(train_text, sizes[1], order)
    print("\n".join(_describe(table)), flush=True)
    if is_new:
        found = {"num_ngrams": table.keys.size}
        kind = {"tokenizer": tokenizer.kind}
        directory.start({**config, **kind, "vocab_sizes": sizes, "sizes": found}, tokenizer)
    model = directory.new_model()
    model.fill(table)
    result = {"step": 1, "perplexity": perplexity(model, valid_text)}
    seconds = round(time.monotonic() - began, 3)
    directory.rewind_metrics(0, 0)
    directory.append_metrics({**result, "epoch": 1, "seconds": seconds, "kind": "valid"})
    write_archive(directory.best_path, model_arrays(model), result)
    print(f"valid perplexity {result['perplexity']:.2f}; {seconds:.1f} seconds in all")


def _encode(vocabulary, lines, name):
    """`EncodedSide` of the lines that are not empty."""
    parts, left = [], iter(lines)
    with Progress(f"encoding {name}", len(lines), "lines") as progress:
        while chunk := list(itertools.islice(left, _LINES_AT_ONCE)):
            parts.append(encode_lines(vocabulary, chunk))
            progress.update(len(chunk))
    text = EncodedSide(*map(np.concatenate, zip(*parts, strict=True)))
    real = np.flatnonzero(text.lengths > 1)
    text = text.take(real)
    print(
        f"{name}: {real.size:,} sentences, {text.ids.size:,} tokens with </s>, "
        f"{np.mean(text.ids == UNK_ID):.2%} unknown; {len(lines) - real.size:,} empty lines dropped"
    )
    return text


def _describe(table):
    """Lines that say what was counted, and which discounts are not from the text."""
    for length, count in enumerate(table.num_ngrams, start=2):
        yield f"{length}-grams: {count:,}"
    for length, (off, estimated) in enumerate(zip(table.discounts, table.estimated, strict=True)):
        origin = "" if estimated else " (fixed: the text has not counts enough to estimate them)"
        yield f"discounts of {length + 1}-grams: {', '.join(f'{d:.3f}' for d in off)}{origin}"
