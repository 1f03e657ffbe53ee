"""Searches with CTranslate2, and finds what `decoding.search` finds.

A search of CTranslate2 follows the same hypotheses as ours. Four things differ, and are made equal
here as far as possible:

* It does not ask whether a live hypothesis may win when K are finished. So it has to go on until
  3K are (its option `patience`). Up to a length penalty of 1, the best translation is then that of
  our search; with 2K, of a model that knows little, it is sometimes a worse one.
* It has one length limit for a batch. Sentences that reach their own limit are searched again.
* At the limit, it ranks unfinished hypotheses among the finished ones.
* If a token may not be emitted, it gives the token's probability to the others, which changes the
  scores. So padding and `<s>`, which models hardly expect, are forbidden only where they turn up;
  UNK always for vocabularies of words, with which the search is therefore not quite the same.
"""

import json
import logging
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import read_bytes
from nmt_zoo.common.parallel import num_cores
from nmt_zoo.configuration.options import LENGTH_PENALTY
from nmt_zoo.data_pipeline.text_form import FORMS
from nmt_zoo.data_pipeline.tokenization.languages import Languages, of_languages
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from nmt_zoo.decoding.search.types import Engine, Hypotheses, SearchOptions, Sentence, padded
from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.serving.ctranslate2.conversion import (
    ABOUT,
    TOKENIZER,
    convert,
    ctranslate2_package,
    weights_in,
)
from nmt_zoo.serving.export.versions import newest_version

# Names of the search options that the engine follows.
_FOLLOWED = {"beam_size", "length_penalty", "emit_unknowns", "first"}
_FOLLOWED |= {"max_length_factor", "max_length_extra", "compile"}

# Most weights of a head's attention to the source, [B, S, S], that are computed at once.
_MOST_WEIGHTS = 1 << 21
_LIMITS = range(2, 1_000_001)  # Of --max_input_tokens.


class CTranslate2Export:
    """A version that `export.py --format=ctranslate2` wrote.

    Offers `config`, `summary` and `load`, as `ModelDirectory` does. `folder` is a version's folder,
    or the folder of all versions, of which the newest is taken. Raises `UserError` if there is no
    such export, or it is damaged.
    """

    def __init__(self, folder: str | Path, languages: tuple[str, str] = ("", "")) -> None:
        self.path = Path(folder)
        self.languages = languages  # As of `ModelDirectory.tokenizer`.
        if not (self.path / ABOUT).exists():
            self.path = newest_version(folder) or self.path
        self.best_path = self.path / "model.bin"  # The weights.
        self.training_text_path = self.path / "training_text.json"  # May be missing.
        try:
            self._about = json.loads(read_bytes(self.path / ABOUT))
            self.max_input_tokens = self._about["max_input_tokens"]  # With `</s>`.
            if type(self.max_input_tokens) is not int or self.max_input_tokens not in _LIMITS:
                raise ValueError
            options = self._about["config"]["options"]
            self._kind = options["tokenizer"]
            self._form = options["normalise"]
            if self._form not in FORMS:
                raise ValueError
        except (UserError, ValueError, KeyError, TypeError, RecursionError):
            raise UserError(
                f"{folder}: no model for CTranslate2; write one with export.py "
                f"--format=ctranslate2 --model_dir=... --export_dir={folder}"
            ) from None

    def check_max_input_tokens(self, wanted: int) -> None:
        """Raises `UserError` if the model cannot translate lines of that many tokens."""
        if wanted > self.max_input_tokens:
            raise UserError(
                f"--max_input_tokens={wanted}: {self.path} was exported for at most "
                f"{self.max_input_tokens}; export it again with a larger --max_input_tokens"
            )

    def config(self) -> dict[str, Any]:
        """Returns the configuration of the model directory that was exported."""
        return {"length_penalty": LENGTH_PENALTY, **self._about["config"]}

    def summary(self) -> dict[str, Any]:
        return self._about["training"]

    def load(self) -> tuple["CTranslate2Model", Tokenizer, dict[str, Any]]:
        """Loads the model; raises `UserError` if a file is damaged, or the package is missing."""
        tokenizer = Tokenizer.load(self._kind, self.path / TOKENIZER, self._form)
        languages = Languages.of(self._about["config"])
        tokenizer = of_languages(tokenizer, languages, *self.languages, str(self.path))
        return CTranslate2Model(self.path, tokenizer, self._about), tokenizer, self.config()


def load_directory(
    directory: ModelDirectory, max_input_tokens: int, languages: tuple[str, str]
) -> tuple["CTranslate2Model", Tokenizer, dict[str, Any]]:
    """Converts a model directory, and loads (model, tokenizer, config); keeps no converted file.

    `max_input_tokens` is the longest line that is translated, in tokens with `</s>`; `languages`
    are as of `ModelDirectory.tokenizer`.
    Raises UserError: the package is missing, another model than a Transformer, a damaged file, or
    weights that do not fit the configuration.
    """
    config = {**directory.config(), "length_penalty": directory.chosen()["length_penalty"]}
    weights, tokenizer = weights_in(directory), directory.tokenizer(languages)
    with tempfile.TemporaryDirectory() as folder:
        try:
            about = convert(weights, tokenizer, Path(folder), max_input_tokens)
        except (KeyError, ValueError, TypeError) as error:
            raise UserError(
                f"{directory.best_path}: does not fit config.json ({error}); restore the files "
                "with which the model was trained"
            ) from None
        return CTranslate2Model(Path(folder), tokenizer, about), tokenizer, config


class CTranslate2Engine:
    """Searches with a model of CTranslate2; a `types.Engine`.

    Args:
        model: what searches.
        options: of the search; CTranslate2 follows only some.
        max_input_tokens: longest source sentence, in tokens including `</s>`.
        load_fallback: loads the engine for sentences with constraints, and for those whose
            translation is cut; None: constraints are refused, and translations stay cut.

    Raises UserError: CTranslate2 cannot follow an option, or has too few positions.
    """

    def __init__(
        self,
        model: "CTranslate2Model",
        options: SearchOptions,
        max_input_tokens: int,
        load_fallback: Callable[[], Engine] | None = None,
    ) -> None:
        target = model.tokenizer.target
        # A target language is how every translation begins.
        self.options = options._replace(first=target.language_token)
        self.refusal = "--prefix, --required and --glossary: CTranslate2 cannot; leave them out"
        self.refusal *= load_fallback is None
        self._model, self._load_fallback, self._fallback = model, load_fallback, None
        self._lock = threading.Lock()
        self._pieces = target.pieces(range(len(target)))
        self._ids = {piece: i for i, piece in enumerate(self._pieces)}
        self._check(max_input_tokens)

    def _check(self, max_input_tokens):
        for name, default in SearchOptions._field_defaults.items():
            if name not in _FOLLOWED and getattr(self.options, name) != default:
                raise UserError(
                    f"--{name}: CTranslate2 cannot search with it as our search does; leave it "
                    "out, or give --model_dir instead of --export_dir"
                )
        longest = min(max_input_tokens, self._model.about["max_input_tokens"])
        needed = self.options.length_limit(longest)
        most = self._model.about["num_positions"]
        if most is not None and needed > most:
            raise UserError(
                f"--max_length_factor allows translations of {needed:,} "
                f"tokens for lines of {longest:,}, and the model was exported for at most "
                f"{most:,}; give smaller ones, or a smaller --max_input_tokens"
            )

    def search(self, sentences: Sequence[Sentence], n_best: int) -> list[Hypotheses | None]:
        """As `Engine`, for sentences of similar length; finds K hypotheses whatever `n_best`."""
        if any(sentence.prefix or sentence.required for sentence in sentences):
            return self._search_again(sentences, n_best)
        first = self._search([sentence.source_ids for sentence in sentences])
        results: list[Hypotheses | None] = [*first]
        if self._load_fallback:
            cut = [k for k, hypotheses in enumerate(first) if not hypotheses.finished[0]]
            again = self._search_again([sentences[k] for k in cut], n_best) if cut else []
            for k, hypotheses in zip(cut, again, strict=True):
                results[k] = hypotheses
        return results

    def _search_again(self, sentences, n_best):
        with self._lock:  # Batches are searched at the same time.
            self._fallback = self._fallback or self._load_fallback()
        return self._fallback.search(sentences, n_best)

    def _search(self, sources):
        """Returns the `Hypotheses` of sentences, lists of ids with EOS."""
        limits = [self.options.max_length(len(ids)) for ids in sources]
        results = self._translate(sources, max(limits))
        never = {PAD_ID, BOS_ID} if self.options.emit_unknowns else {PAD_ID, BOS_ID, UNK_ID}
        wrong = [i for i, beam in enumerate(results) if any(never & {*ids} for ids, _ in beam)]
        self._replace(results, wrong, sources, max(limits), barred=True)
        at_limit = {}
        for i, (limit, beam) in enumerate(zip(limits, results, strict=True)):
            if max(len(ids) for ids, _ in beam) >= limit:
                at_limit.setdefault((limit, i in wrong), []).append(i)
        for (limit, barred), rows in at_limit.items():
            # Fewer than 3K are finished before the limit, so at most 4K - 1 hypotheses are found.
            self._replace(results, rows, sources, limit, barred=barred, patience=4)
        return [_ranked(hypotheses, self.options) for hypotheses in results]

    def _replace(self, results, rows, sources, limit, **settings):
        """Searches some rows again and replaces their results; arguments as for `_translate`."""
        again = self._translate([sources[i] for i in rows], limit, **settings) if rows else []
        for i, hypotheses in zip(rows, again, strict=True):
            results[i] = hypotheses

    def _translate(self, sources, limit, *, barred=False, patience=3):
        """Returns for every sentence a list of (ids, log-probability)."""
        options, tokenizer = self.options, self._model.tokenizer
        patience = patience if options.beam_size > 1 else 1
        penalty = max(options.length_penalty, 1e-9)  # With 0, it would end a search sooner.
        first = options.first is not None and [[self._pieces[options.first]]] * len(sources)
        results = self._model.translator.translate_batch(
            [tokenizer.source.pieces(ids) for ids in sources],
            target_prefix=first or None,
            beam_size=options.beam_size,
            num_hypotheses=patience * options.beam_size,
            patience=patience,
            length_penalty=penalty,
            disable_unk=not options.emit_unknowns and (barred or tokenizer.kind != "bpe"),
            suppress_sequences=[[self._pieces[i]] for i in (PAD_ID, BOS_ID)] if barred else None,
            max_batch_size=_most_sentences(sources),
            max_input_length=0,  # No limit.
            min_decoding_length=0,  # An empty translation is possible.
            max_decoding_length=limit,
            return_end_token=True,
            return_scores=True,
        )
        return [
            [
                ([self._ids[piece] for piece in pieces], score * len(pieces) ** penalty)
                for pieces, score in zip(result.hypotheses, result.scores, strict=True)
            ]
            for result in results
        ]


class CTranslate2Model:
    """A model of CTranslate2, to search with by a `CTranslate2Engine`, and to align words with.

    `about` is what `conversion.convert` returned. Raises `UserError` if the model
    cannot be read, or the package is missing.
    """

    decoder_class = CTranslate2Engine
    align_sizes = (0, 1)  # As of `models.base.Searchable`.
    no_alignment = "its export does not name the attention that aligns; export the model again"

    def __init__(self, path: Path, tokenizer: Tokenizer, about: dict[str, Any]) -> None:
        self.tokenizer, self.about = tokenizer, about
        self.translator = _translator(path)
        # Exports of earlier versions name none.
        self.has_alignment = about.get("alignment") is not None
        exported, used = about["quantization"], self.translator.compute_type
        if not used.startswith(exported):  # int8 is used as int8_float32, for example.
            print(
                f"{path}: exported in {exported}, which CTranslate2 does not compute with on this "
                f"processor; it uses {used}",
                file=sys.stderr,
            )

    def count_params(self) -> int:
        return self.about["parameters"]

    def align(self, source_ids: np.ndarray, target_ids: np.ndarray) -> np.ndarray:
        """Computes what `models.base.TranslationModel.align` does, by decoding the target again.

        Tokens after the last position that was exported are aligned with `</s>`.
        """
        most = self.about["num_positions"]
        sources = [self.tokenizer.source.pieces(ids[ids != PAD_ID]) for ids in source_ids]
        targets = [self.tokenizer.target.pieces(ids[ids != PAD_ID])[:most] for ids in target_ids]
        results = self.translator.translate_batch(
            sources,
            # The attention that predicts the last token does not depend on it.
            target_prefix=[pieces[:-1] for pieces in targets],
            beam_size=1,
            max_batch_size=min(32, _most_sentences(sources)),
            max_input_length=0,  # No limit.
            max_decoding_length=max(map(len, targets)),
            return_end_token=True,
            return_attention=True,
        )
        weights = np.zeros([*target_ids.shape, source_ids.shape[1]], np.float32)
        for pair, source, target, result in zip(weights, sources, targets, results, strict=True):
            pair[:, len(source) - 1] = 1.0
            pair[: len(target), : len(source)] = result.attention[0][: len(target)]
        return weights


def _most_sentences(sources):
    """Returns how many of these sentences CTranslate2 may read at once."""
    return max(1, _MOST_WEIGHTS // max(map(len, sources)) ** 2)


def _translator(path):
    """Loads a model of CTranslate2, without the package's own log of warnings."""
    package = ctranslate2_package()
    level = package.get_log_level()
    package.set_log_level(logging.ERROR)
    try:
        # A `Translator` of ours searches several batches at the same time, each in one thread.
        return package.Translator(str(path), inter_threads=num_cores(), intra_threads=1)
    except (RuntimeError, ValueError) as error:
        raise UserError(
            f"{path}: CTranslate2 cannot read it ({' '.join(str(error).split())}); export the "
            "model again"
        ) from None
    finally:
        package.set_log_level(level)


def _ranked(hypotheses, options):
    """Returns the `Hypotheses` of a sentence: the finished by score, then unfinished ones."""
    ids, log_probs = zip(*hypotheses, strict=True)
    lengths = np.array(list(map(len, ids)))
    log_probs = np.array(log_probs, np.float32)
    scores = log_probs / lengths**options.length_penalty
    finished = np.array([row[-1] == EOS_ID for row in ids])
    best = np.lexsort((-scores, ~finished))[: options.beam_size]
    return Hypotheses(
        padded(ids)[best], log_probs[best], scores[best].astype(np.float32), finished[best]
    )
