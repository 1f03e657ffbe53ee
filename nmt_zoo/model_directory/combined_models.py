"""Models of several directories together: ensembles, shallow fusion and the noisy channel."""

import functools
import sys
from pathlib import Path
from typing import Any

import numpy as np

from nmt_zoo.common.errors import UserError
from nmt_zoo.configuration.options import AUTO, CHANNEL_WEIGHT, FUSION_WEIGHT
from nmt_zoo.data_pipeline.tokenization.tokenizers import SIDES, Tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import Vocabulary
from nmt_zoo.model_directory.directory import Loaded, ModelDirectory
from nmt_zoo.models.base import TranslationModel
from nmt_zoo.models.combination import Ensemble, ShallowFusion
from nmt_zoo.models.noisy_channel import NoisyChannel


def load_models(directories: list[ModelDirectory], dtype: str = "float32", **how: Any) -> Loaded:
    """Loads a translation model, or an ensemble of several with the same vocabularies.

    The configuration is the first one's, and if there are several, `ensemble` lists the directories
    and presets, and `length_penalty` is their mean. `dtype` and `how` are as for
    `ModelDirectory.load`; AUTO: searches choose between "float32" and "int8".
    Raises UserError: the vocabularies differ, or a directory cannot be loaded.
    """
    if dtype == AUTO:
        loaded = load_models(directories, **how)
        loaded[0].rounded = functools.cache(lambda: load_models(directories, "int8", **how)[0])
        return loaded
    loaded = [directory.load(dtype=dtype, **how) for directory in directories]
    first, (_, tokenizer, config) = directories[0], loaded[0]
    if len(loaded) == 1:
        return loaded[0]
    for directory, (member, member_tokenizer, member_config) in zip(
        directories, loaded, strict=True
    ):
        check_same_tokenizer(member_tokenizer, directory, tokenizer, first)
        require_steps(member, f"{directory.path} cannot be a member of an ensemble")
        contexts = [c["options"]["context_sentences"] for c in (config, member_config)]
        if contexts[0] != contexts[1]:
            raise UserError(
                f"{directory.path}: was trained with --context_sentences={contexts[1]}, and "
                f"{first.path} with {contexts[0]}; an ensemble reads the same text"
            )
    members, _, configs = zip(*loaded, strict=True)
    pairs = zip(directories, configs, strict=True)
    combined = {
        "ensemble": {str(directory.path): config["model"] for directory, config in pairs},
        "length_penalty": sum(config["length_penalty"] for config in configs) / len(configs),
    }
    return Ensemble(list(members)), tokenizer, {**config, **combined}


def require_steps(model: TranslationModel, what: str) -> None:
    """Raises `UserError` if a model has no decoding steps, which `what` would need."""
    if model.decoder_class:
        raise UserError(
            f"{what}: this model does not translate token by token, but by a search of its own; "
            "translate.py and serve.py use it alone; train.py --model=transformer_tiny makes one "
            "that can"
        )


def check_same_tokenizer(
    tokenizer: Tokenizer, directory: ModelDirectory, expected: Tokenizer, first: ModelDirectory
) -> None:
    """Raises `UserError` unless a model encodes sources and targets as the first model does."""
    remedy = "train it with the same --tokenizer and --vocab_file"
    of_words = "train both on the same text with the same --max_words and --min_word_count"
    if tokenizer.source.form != expected.source.form:
        raise UserError(
            f"{directory.path}: its text has --normalise={tokenizer.source.form}, and that of "
            f"{first.path} {expected.source.form}; train both with the same"
        )
    if tokenizer.kind != expected.kind:
        raise UserError(
            f"{directory.path}: its text is encoded by --tokenizer={tokenizer.kind}, and that of "
            f"{first.path} by {expected.kind}; {remedy}"
        )
    for side in SIDES:
        check_same_vocabulary(
            getattr(tokenizer, side),
            directory.path,
            getattr(expected, side),
            f"the {side} vocabulary of {first.path}",
            of_words
            if tokenizer.kind == "word"
            else f"train it with --vocab_file={vocabulary_file(first, expected, side)}",
        )
    if tokenizer.fingerprint() != expected.fingerprint():
        raise UserError(
            f"{directory.path}: it has the same pieces as {first.path}, but its SentencePiece "
            f"model splits words differently; {remedy}"
        )


def load_lexical_model(
    directory: ModelDirectory, tokenizer: Tokenizer, first: ModelDirectory
) -> TranslationModel:
    """Loads a model with a table of word translations, such as an IBM model, for a shortlist.

    `tokenizer` and `first` are the tokenizer and the directory of the model that translates.
    Raises UserError: no table, other vocabularies, or the directory cannot be loaded.
    """
    model, own_tokenizer, config = directory.load()
    check_same_tokenizer(own_tokenizer, directory, tokenizer, first)
    if model.translations(np.zeros([1, 1], np.int32)) is None:
        raise UserError(
            f"{directory.path} holds {config['model']}, which has no table of word translations; "
            "give the directory of an IBM model, such as ibm1"
        )
    return model


def load_guide(
    directory: ModelDirectory, tokenizer: Tokenizer, run: ModelDirectory
) -> TranslationModel:
    """Loads a model whose alignments guide the training of `run`, which has `tokenizer`.

    Raises UserError: no alignments, another vocabulary, or the directory cannot be loaded.
    """
    model, own, config = directory.load()
    if not model.has_alignment:
        raise UserError(
            f"--guide={directory.path} holds {config['model']}, which does not align words; give "
            "the directory of another model, such as hmm_alignment"
        )
    check_same_tokenizer(tokenizer, run, own, directory)
    return model


def load_combined(
    directories: list[ModelDirectory],
    language: ModelDirectory | None = None,
    *,
    is_channel: bool = False,
    weight: float | None = None,
    **how: Any,
) -> Loaded:
    """Loads a model, an ensemble, or either with a language model: shallow fusion, noisy channel.

    If `is_channel`, `directories` holds only an IBM model of the reverse direction: the tokenizer's
    sides are exchanged, `length_penalty` is 0, and `how` has no effect. `weight` is the language
    model's, at least 0; None: `FUSION_WEIGHT` or `CHANNEL_WEIGHT`. Otherwise, `how` is as for
    `load_models`. With a language model, the configuration also holds `channel_model` (or ""),
    `language_model` and `language_model_weight`.
    Raises UserError: not a model that can be combined, the vocabularies differ, or a directory
    cannot be loaded.
    """
    if not language:
        return load_models(directories, **how)
    directory, side, use = directories[0], "target", ""
    if is_channel:
        model, tokenizer, config = _load_channel(directory)
        side, use = "source", ", which the noisy channel translates into"
    else:
        model, tokenizer, config = load_models(directories, **how)
        require_steps(model, f"--language_model cannot be added to {directory.path}")
    language_model, language_tokenizer, _ = language.load(language_model=True)
    check_same_vocabulary(
        language_tokenizer.target,
        language.path,
        getattr(tokenizer, side),
        f"the {side} vocabulary of {directory.path}{use}",
        f"train the language model with --vocab_file={vocabulary_file(directory, tokenizer, side)}",
    )
    if weight is None:
        weight = CHANNEL_WEIGHT if is_channel else FUSION_WEIGHT
    facts = {
        "channel_model": str(directory.path) if is_channel else "",
        "language_model": str(language.path),
        "language_model_weight": weight,
    }
    if not is_channel:
        return ShallowFusion(model, language_model, weight=weight), tokenizer, {**config, **facts}
    noisy = NoisyChannel(model, language_model, weight=weight)
    exchanged = Tokenizer(tokenizer.kind, tokenizer.target, tokenizer.source)
    return noisy, exchanged, {**config, "length_penalty": 0.0, **facts}


def _load_channel(directory):
    channel, tokenizer, config = directory.load()
    if "em" not in channel.trained_by:
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
    return channel, tokenizer, config


def check_same_vocabulary(
    own: Vocabulary, path: Path, expected: Vocabulary, name: str, remedy: str
) -> None:
    """Raises `UserError` unless two vocabularies have the same entries in the same order.

    The error names `path`, the directory of the model with the vocabulary `own`; the `name` of
    the expected vocabulary; and the `remedy`.
    """
    entries = [v.pieces(range(len(v))) for v in (own, expected)]
    if entries[0] == entries[1]:
        return
    pairs = enumerate(zip(*entries, strict=False))
    first = next((i for i, (a, b) in pairs if a != b), min(map(len, entries)))
    differing = ["nothing" if first >= len(e) else repr(e[first]) for e in entries]
    raise UserError(
        f"{path}: its vocabulary ({len(own):,} entries) differs from {name} ({len(expected):,} "
        f"entries): entry {first} is {differing[0]} instead of {differing[1]}; {remedy}"
    )


def vocabulary_file(directory: ModelDirectory, tokenizer: Tokenizer, side: str) -> Path:
    """Returns the path of a side's vocabulary file in a model directory."""
    name = "shared" if tokenizer.in_one_file else side
    return directory.path / "tokenizer" / (name + tokenizer.target.file_suffix)
