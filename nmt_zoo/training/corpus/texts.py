"""The text that a run is trained and judged on: sentence pairs, or a target language alone."""

import itertools
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from nmt_zoo import models
from nmt_zoo.common.errors import UserError
from nmt_zoo.common.progress import Progress
from nmt_zoo.configuration import recipes
from nmt_zoo.data_pipeline import encoding, mixing, noise
from nmt_zoo.data_pipeline.documents import SEPARATOR, with_contexts
from nmt_zoo.data_pipeline.encoded import EncodedCorpus, EncodedSide, PairFilter
from nmt_zoo.data_pipeline.lines import Lines, open_split, open_target, tagged
from nmt_zoo.data_pipeline.text_checks import text_warnings
from nmt_zoo.data_pipeline.text_form import is_blank, normalised
from nmt_zoo.data_pipeline.tokenization.languages import tags_of
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer, train_tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import (
    UNK_ID,
    BpeVocabulary,
    PieceVocabulary,
    is_sentencepiece,
)
from nmt_zoo.decoding.text.training_text import TrainingText
from nmt_zoo.model_directory.directory import ModelDirectory

_HELD_OUT = {"valid": "validation", "test": "test"}
_LINES_AT_ONCE = 10_000  # Lines encoded between two updates of the progress bar.
_LONGEST_WORD = 40  # Bytes of a text for each of its spaces.
_MOST_CHECKED = 100_000  # Lines that a ready vocabulary is tried on, in a few seconds.


def size_of(split: Any) -> recipes.TextSize:
    """Measures a `Split` of files.

    Six bytes of UTF-8 are about one word, in languages with spaces and in Chinese.
    """
    sides = open_split(split) if split.source else [open_target(split)]
    tokens, characters, has_spaces = sides[-1].num_bytes // 6, set(), True
    if tokens <= recipes.MOST_TO_COUNT:
        characters.update(*itertools.chain(*sides))
        spaces = [sum(line.count(" ") for line in side) for side in sides]
        has_spaces = all(
            side.num_bytes < _LONGEST_WORD * count
            for side, count in zip(sides, spaces, strict=True)
        )
    return recipes.TextSize(len(sides[-1]), tokens, len(characters), has_spaces)


class Encoded(NamedTuple):
    """A text as ids."""

    corpus: EncodedCorpus  # to train on
    sizes: list  # number of pairs from each of the corpora that make up `corpus`
    valid: EncodedCorpus  # for validation


class PairText(NamedTuple):
    """Sentence pairs, for a model that translates."""

    train: tuple  # (source `Lines`, target `Lines`)
    valid: tuple  # (source lines, target lines), lists of str
    valid_names: Sequence[str] = ()  # Of the text of each pair of `valid`, if there are several.
    tags: Sequence[str] = ()  # Of the target language of each corpus, if there are several.

    @classmethod
    def open(cls, splits: dict[str, Any], options: dict[str, Any]) -> "PairText":
        """Opens {"train": `Split`, "valid": `Split`}."""
        train = open_split(splits["train"])
        mixing.parse_weights(options["corpus_weights"], len(train[0].sizes))
        noise.shares_of(options["noise"])  # Refused before anything is made.
        valid, tags = open_split(splits["valid"]), ()
        if context := options["context_sentences"]:
            in_documents, summary = with_contexts(train[0], context)
            train, valid = (in_documents, train[1]), (with_contexts(valid[0], context)[0], valid[1])
            print(summary, flush=True)
        if languages := options["target_languages"]:
            tags = tags_of(languages, len(train[0].sizes))
            if len(valid[0].sizes) != len(tags):
                raise UserError(
                    f"--target_languages={languages}: {len(tags)} languages and "
                    f"{len(valid[0].sizes)} validation texts; give one of each, in the same order"
                )
            train, valid = ((tagged(s, tags), t) for s, t in (train, valid))
        return cls(train, *_in_turn(valid), tags)

    def hashes(self) -> dict[str, str]:
        """Returns the entries of config.json that identify the text."""
        return {
            "training_text": encoding.text_hash(*self.train),
            "validation_text": encoding.text_hash(*self.valid),
            # Shares of an epoch depend on where one corpus ends and the next begins.
            "corpus_lines": ",".join(map(str, self.train[0].sizes)),
        }

    def record(self, options: dict[str, Any]) -> TrainingText | None:
        """Reads the training text once; returns what it, and that of --init_from, is like.

        None if it is not known which text the model of --init_from has seen.
        """
        record = TrainingText.of(self.train[0].plain)
        if not options["init_from"]:
            return record
        earlier = TrainingText.read(ModelDirectory(options["init_from"]).training_text_path)
        return earlier and record.joined(earlier)

    def train_tokenizer(self, options: dict[str, Any]) -> Tokenizer:
        """Makes the `Tokenizer` of a new run; reports what a ready one cannot write."""
        tokenizer = _trained(self.train[0].plain, self.train[1], options)
        if options["vocab_file"]:
            _report_changed(tokenizer.target, self.train[1], options["vocab_file"])
        tags = [*dict.fromkeys(self.tags)]
        if options["context_sentences"] and not options["vocab_file"]:
            tags.append(SEPARATOR)
        if tags:
            both = tokenizer.source.with_tags(tags)  # pyright: ignore[reportAttributeAccessIssue]
            return tokenizer._replace(source=both, target=both)
        return tokenizer

    def encode(self, tokenizer: Tokenizer, options: dict[str, Any], data_dir: str) -> Encoded:
        """Encodes the text, or reads its ids from the cache; prints how many pairs are dropped."""
        valid = encoding.encode_pairs(*self.valid, tokenizer, data_dir, "validation pairs").corpus
        corpus, dropped, sizes = encoding.encode_pairs(
            *self.train,
            tokenizer,
            data_dir,
            "training pairs",
            PairFilter(options["max_length"], options["max_length_ratio"]),
        )
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in dropped.items())
        print(f"dropped: {reasons}", flush=True)
        return Encoded(corpus, sizes, valid)


def _in_turn(sides):
    """Returns lists of the lines, a line of each text in turn, and the name of each one's text.

    So the first lines, of which BLEU is computed, are of all texts. There are no names of one text.
    """
    lines, sizes = [list(side) for side in sides], sides[0].sizes
    if len(sizes) == 1:
        return tuple(lines), ()
    owners = np.repeat(range(len(sizes)), sizes)
    order = np.lexsort([owners, np.concatenate(list(map(range, sizes)))])
    paths = list(zip(*(map(str, side.paths) for side in sides), strict=True))
    short = [tuple(os.path.basename(path) for path in pair) for pair in paths]
    names = [" to ".join(pair) for pair in (short if len({*short}) == len(short) else paths)]
    return tuple([side[i] for i in order] for side in lines), [names[owners[i]] for i in order]


class TargetText(NamedTuple):
    """Sentences of the target language, for a language model."""

    # Of the source language, from which `bpe` learns a part of its pieces; an empty list if there
    # are no such files.
    source: Lines
    train: Lines  # of any size
    valid: tuple  # (list of str,) * 2
    valid_names: Sequence[str] = ()

    @classmethod
    def open(cls, splits: dict[str, Any], options: dict[str, Any]) -> "TargetText":
        """Opens {"train": `Split`, "valid": `Split`}; the names of source files may be empty.

        Raises:
            UserError: a file is missing or empty, or sides differ in their numbers of lines.
        """
        train, valid = splits["train"], splits["valid"]
        if train.source:
            source, target = open_split(train)
        else:
            source, target = [], open_target(train)
        text = cls(source, target, (list(open_target(valid)),) * 2)
        for path, lines in ((train.target, text.train), (valid.target, text.valid[1])):
            if all(map(is_blank, lines)):
                raise UserError(f"{path}: empty; expected one sentence a line")
        return text

    def hashes(self) -> dict[str, str]:
        return {
            "training_text": encoding.text_hash(self.source, self.train),
            "validation_text": encoding.text_hash([], self.valid[1]),
        }

    def record(self, options: dict[str, Any]) -> None:
        """Returns None: a language model gets no source text that could be unlike this one."""

    def train_tokenizer(self, options: dict[str, Any]) -> Tokenizer:
        """Makes the tokenizer that a translation model would have on the same text.

        With `vocab_file`, which may come from any other model, makes the tokenizer of that
        vocabulary instead. The language model uses the target side of the tokenizer.
        """
        path, form = options["vocab_file"], options["normalise"]
        if not path:
            return _trained(self.source or self.train, self.train, options)
        if options["tokenizer"] == "bpe" and is_sentencepiece(path):
            vocabulary = BpeVocabulary.from_model(path, form)
            _report_changed(vocabulary, self.train, path)
            return Tokenizer("bpe", vocabulary, vocabulary)
        return Tokenizer("pretokenized", *[PieceVocabulary.from_pieces(path, form)] * 2)

    def encode(self, tokenizer: Tokenizer, options: dict[str, Any], data_dir: str) -> Encoded:
        """As `PairText.encode`; both sides of each corpus are the target text."""
        train = _encode_side(tokenizer.target, self.train, "training text")
        valid = _encode_side(tokenizer.target, self.valid[1], "validation text")
        return Encoded(
            EncodedCorpus(train, train), [train.lengths.size], EncodedCorpus(valid, valid)
        )


def _trained(source, target, options):
    size = "max_words" if options["tokenizer"] == "word" else "num_pieces"
    return train_tokenizer(
        options["tokenizer"],
        source,
        target,
        vocab_size=options[size] or None,
        min_word_count=options["min_word_count"],
        vocab_file=options["vocab_file"],
        form=options["normalise"],
    )


def _report_changed(vocabulary, lines, name):
    """Prints how many target lines a ready SentencePiece model cannot write as they are."""
    if not isinstance(vocabulary, BpeVocabulary):  # Unknown pieces are counted elsewhere.
        return
    count, first, left = 0, "", enumerate(itertools.islice(lines, _MOST_CHECKED), start=1)
    while chunk := list(itertools.islice(left, _LINES_AT_ONCE)):
        encoded = vocabulary.encode(line for _, line in chunk)
        for (number, line), ids in zip(chunk, encoded, strict=True):
            line, written = normalised(line, vocabulary.form), vocabulary.decode(ids)
            if line.replace(" ", "") != written.replace(" ", ""):
                count += 1
                first = first or f"line {number}: {line[:60]!r} becomes {written[:60]!r}"
    if count:
        which = "the first " if len(lines) > _MOST_CHECKED else ""
        print(
            f"{name}: {count:,} of {which}{min(len(lines), _MOST_CHECKED):,} target lines cannot "
            f"be written exactly with this vocabulary, such as {first}",
            flush=True,
        )


def _encode_side(vocabulary, lines, name):
    """Returns the `EncodedSide` of the lines that are not empty."""
    parts, left = [], iter(lines)
    with Progress(f"encoding {name}", len(lines), "lines") as progress:
        while chunk := list(itertools.islice(left, _LINES_AT_ONCE)):
            parts.append(encoding.encode_lines(vocabulary, chunk))
            progress.update(len(chunk))
    text = EncodedSide(*map(np.concatenate, zip(*parts, strict=True)))
    real = np.flatnonzero(text.lengths > 1)
    text = text.take(real)
    print(
        f"{name}: {real.size:,} sentences, {text.ids.size:,} tokens with </s>, "
        f"{np.mean(text.ids == UNK_ID):.2%} unknown; {len(lines) - real.size:,} empty lines dropped"
    )
    return text


def open_text(
    preset: str, splits: dict[str, Any], options: dict[str, Any]
) -> PairText | TargetText:
    """Opens the text of a run: `PairText`, or `TargetText` for a model that reads no source."""
    kind = PairText if models.model_class(preset).reads_source else TargetText
    return kind.open(splits, options)


def print_faults(run_config: Any) -> None:
    """Prints what looks wrong with the text of a new run, a `training.setup.RunConfig`.

    Validation and test text are compared with the training text, if there are any.
    """
    reads_source = models.model_class(run_config.model).reads_source
    options = run_config.options
    texts = {
        name: open_split(split) if reads_source else (open_target(split),)
        for name, split in run_config.whole_splits.items()
    }
    held_out = {long: texts[n] for n, long in _HELD_OUT.items() if n in texts}
    how = {
        # In a text of several languages, a side is in more than one.
        "own": run_config.dataset == "files" and not options["target_languages"],
        "in_documents": options["context_sentences"] > 0,
    }
    for line in text_warnings(texts["train"], held_out, **how):
        print(f"warning: {line}", flush=True)
