"""Models of several directories that translate together: shallow fusion and the noisy channel."""

import sys

from data_pipeline.files import UserError
from data_pipeline.tokenization.tokenizers import Tokenizer
from models.fusion import ShallowFusion
from models.ibm import AlignmentModel
from models.noisy_channel import NoisyChannel

FUSION_WEIGHT = 0.2
CHANNEL_WEIGHT = 1.0


def load_fusion(directory, language_directory, weight):
    """Loads a translation model combined with a language model of its target vocabulary.

    Args:
        directory: `ModelDirectory` of the translation model.
        language_directory: `ModelDirectory` of the language model.
        weight: of the language model, at least 0.

    Returns:
        `(model, tokenizer, config)`, see `ModelDirectory.load`.

    Raises:
        UserError: the vocabularies differ, or a directory cannot be loaded.
    """
    model, tokenizer, config = directory.load()
    language_model, language_tokenizer, _ = language_directory.load(language_model=True)
    check_same_vocabulary(
        language_tokenizer.target,
        language_directory.path,
        tokenizer.target,
        f"the target vocabulary of {directory.path}",
        vocabulary_file(directory, tokenizer, "target"),
    )
    return ShallowFusion(model, language_model, weight=weight), tokenizer, config


def load_noisy_channel(directory, language_directory, weight):
    """Loads a noisy channel: an IBM model and a language model of its source vocabulary.

    Args:
        directory: `ModelDirectory` of the model from the target language to the source language.
        language_directory: `ModelDirectory` of the language model.
        weight: of the language model, above 0.

    Returns:
        `(model, tokenizer, config)`, see `ModelDirectory.load`; the tokenizer's sides are
        exchanged.

    Raises:
        UserError: not an IBM model, the vocabularies differ, or a directory cannot be loaded.
    """
    channel, tokenizer, config = directory.load()
    if not isinstance(channel, AlignmentModel):
        raise UserError(
            f"{directory.path} holds {config['model']}; the noisy channel needs an IBM model of "
            "the reverse direction: train.py --model=ibm1 with source and target exchanged"
        )
    if config["model"] != "ibm1":
        print(
            f"{directory.path}: the noisy channel uses the word table of {config['model']} only, "
            "and takes all alignments for equally probable",
            file=sys.stderr,
        )
    language_model, language_tokenizer, _ = language_directory.load(language_model=True)
    check_same_vocabulary(
        language_tokenizer.target,
        language_directory.path,
        tokenizer.source,
        f"the source vocabulary of {directory.path}, which the noisy channel translates into",
        vocabulary_file(directory, tokenizer, "source"),
    )
    model = NoisyChannel(channel, language_model, weight=weight)
    return model, Tokenizer(tokenizer.kind, tokenizer.target, tokenizer.source), config


def check_same_vocabulary(found, path, expected, name, file):
    """Raises `UserError` unless two vocabularies have the same entries in the same order.

    Args:
        found: vocabulary of the language model.
        path: directory of the language model.
        expected: the vocabulary that is needed.
        name: name of the expected vocabulary.
        file: file of the expected vocabulary.
    """
    entries = [vocabulary.pieces(range(len(vocabulary))) for vocabulary in (found, expected)]
    if entries[0] == entries[1]:
        return
    pairs = enumerate(zip(*entries, strict=False))
    place = next((i for i, (a, b) in pairs if a != b), min(map(len, entries)))
    differing = ["nothing" if place >= len(e) else repr(e[place]) for e in entries]
    raise UserError(
        f"{path}: its vocabulary ({len(found):,} entries) differs from {name} ({len(expected):,} "
        f"entries): entry {place} is {differing[0]} instead of {differing[1]}; train the language "
        f"model with --vocab_file={file}"
    )


def vocabulary_file(directory, tokenizer, side):
    """Returns the path of a side's vocabulary file in a model directory."""
    name = "shared" if tokenizer.shared else side
    return directory.path / "tokenizer" / (name + tokenizer.target.file_suffix)
