"""Searches with CTranslate2, and finds what `decoding.search` finds.

A search of CTranslate2 follows the same hypotheses as ours. Five things differ, and are made equal
here as far as possible:

* It does not ask whether a live hypothesis may win when K are finished. So it has to go on until
  2K are (its option `patience`). On trained models, the best translation is then almost always that
  of our search; with K, it is a worse one for 1 to 2% of the lines.
* It divides scores by length ** beta, not by ((5 + length) / 6) ** alpha. This matters only at its
  end: all hypotheses are taken and ranked anew.
* It has one length limit for a batch. Sentences that reach their own limit are searched again.
* At the limit, it ranks unfinished hypotheses among the finished ones.
* If a token may not be emitted, it gives the token's probability to the others, which changes the
  scores. So padding and `<s>`, which models hardly expect, are forbidden only where they turn up;
  UNK always for vocabularies of words, with which the search is therefore not quite the same.
"""

import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nmt_zoo.common.cores import num_cores
from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import read_bytes
from nmt_zoo.configuration.options import LENGTH_PENALTY
from nmt_zoo.data_pipeline.text_form import FORMS
from nmt_zoo.data_pipeline.tokenization.languages import Languages, of_languages
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from nmt_zoo.decoding.search.terms import Hypotheses, SearchOptions, padded
from nmt_zoo.decoding.text.training_text import RECORD
from nmt_zoo.serving.ctranslate2.conversion import (
    ABOUT,
    TOKENIZER,
    ctranslate2_package,
)
from nmt_zoo.serving.export.versions import newest_version

# Names of the search options that the engine follows.
_FOLLOWED = {"beam_size", "length_penalty", "emit_unknowns", "first"}
_FOLLOWED |= {"max_length_factor", "max_length_extra"}

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
        self.training_text_path = self.path / RECORD  # May be missing.
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

    def check_max_input_tokens(self, asked: int) -> None:
        """Raises `UserError` if the model cannot translate lines of that many tokens."""
        if asked > self.max_input_tokens:
            raise UserError(
                f"--max_input_tokens={asked}: {self.path} was exported for at most "
                f"{self.max_input_tokens}; export it again with a larger --max_input_tokens"
            )

    def config(self) -> dict[str, Any]:
        """Returns the configuration of the model directory that was exported."""
        return {"length_penalty": LENGTH_PENALTY, **self._about["config"]}

    def summary(self) -> dict[str, Any]:
        return self._about["training"]

    def load(self) -> tuple["CTranslate2Engine", Tokenizer, dict[str, Any]]:
        """Loads the engine; raises `UserError` if a file is damaged, or the package is missing."""
        tokenizer = Tokenizer.load(self._kind, self.path / TOKENIZER, self._form)
        languages = Languages.of(self._about["config"])
        tokenizer = of_languages(tokenizer, languages, *self.languages, str(self.path))
        engine = CTranslate2Engine(self.path, tokenizer, self._about)
        return engine, tokenizer, self.config()


class CTranslate2Engine:
    """Searches with a model of CTranslate2; to be given to a `Translator`. It aligns no words.

    `about` is what the export recorded, see `conversion.write`. Raises `UserError` if the model
    cannot be read, or the package is missing.
    """

    has_alignment = False

    def __init__(self, path: Path, tokenizer: Tokenizer, about: dict[str, Any]) -> None:
        self.tokenizer = tokenizer
        self._about = about
        self._num_positions = about["num_positions"]
        self._translator = _translator(path)
        exported, used = about.get("quantization", "float32"), self._translator.compute_type
        if not used.startswith(exported):  # int8 is used as int8_float32, for example.
            print(
                f"{path}: exported in {exported}, which CTranslate2 does not compute with on this "
                f"processor; it uses {used}",
                file=sys.stderr,
            )
        self._pieces = tokenizer.target.pieces(range(len(tokenizer.target)))
        self._ids = {piece: i for i, piece in enumerate(self._pieces)}
        self._never = [[self._pieces[i]] for i in (PAD_ID, BOS_ID)]
        # A target language: how each translation begins.
        sign = tokenizer.target.language_token
        self._beginning = None if sign is None else [self._pieces[sign]]

    def count_params(self) -> int:
        return self._about["parameters"]

    def check(self, options: SearchOptions, max_input_tokens: int) -> None:
        """Raises `UserError` if the engine cannot follow an option, or has too few positions.

        `max_input_tokens` is the longest source sentence, in tokens including `</s>`.
        """
        for name, default in SearchOptions._field_defaults.items():
            if name not in _FOLLOWED and getattr(options, name) != default:
                raise UserError(
                    f"--{name}: CTranslate2 cannot search with it as our search does; leave it "
                    "out, or give --model_dir instead of --export_dir"
                )
        longest = min(max_input_tokens, self._about["max_input_tokens"])
        found, most = options.length_limit(longest), self._num_positions
        if most is not None and found > most:
            raise UserError(
                f"--max_length_factor allows translations of {found:,} "
                f"tokens for lines of {longest:,}, and the model was exported for at most "
                f"{most:,}; give smaller ones, or a smaller --max_input_tokens"
            )

    def __call__(
        self, source: Sequence[list[int]], n_best: int, options: SearchOptions
    ) -> list[Hypotheses]:
        """Searches lists of ids with EOS, of similar length; finds K hypotheses whatever `n_best`.

        Returns `Hypotheses` for each sentence, without the axis B.
        """
        del n_best
        limits = [options.length_limit(len(ids)) + bool(self._beginning) for ids in source]
        found = self._search(source, max(limits), options)
        never = {PAD_ID, BOS_ID} if options.emit_unknowns else {PAD_ID, BOS_ID, UNK_ID}
        wrong = [i for i, some in enumerate(found) if any(never & {*ids} for ids, _ in some)]
        self._replace(found, wrong, source, max(limits), options, barred=True)
        at_limit = {}
        for i, (limit, some) in enumerate(zip(limits, found, strict=True)):
            if max(len(ids) for ids, _ in some) >= limit:
                at_limit.setdefault((limit, i in wrong), []).append(i)
        for (limit, barred), rows in at_limit.items():
            # Fewer than 2K are finished before the limit, so at most 3K - 1 hypotheses are found.
            self._replace(found, rows, source, limit, options, barred=barred, patience=3)
        return [_ranked(hypotheses, options) for hypotheses in found]

    def _replace(self, found, rows, *search, **settings):
        """Searches some rows again and replaces what was found; arguments as for `_search`."""
        source, *others = search
        again = self._search([source[i] for i in rows], *others, **settings) if rows else []
        for i, hypotheses in zip(rows, again, strict=True):
            found[i] = hypotheses

    def _search(self, source, limit, options, *, barred=False, patience=2):
        """Returns for every sentence a list of (ids, log-probability)."""
        patience = patience if options.beam_size > 1 else 1
        # Near the likely length, length ** beta and our length normaliser rank alike. This decides
        # which K are returned if more of them finish at the last step. Without any penalty,
        # CTranslate2 would end a search sooner.
        length = np.mean([len(ids) for ids in source])
        beta = max(options.length_penalty * length / (5 + length), 1e-9)
        results = self._translator.translate_batch(
            [self.tokenizer.source.pieces(ids) for ids in source],
            target_prefix=self._beginning and [self._beginning] * len(source),
            beam_size=options.beam_size,
            num_hypotheses=patience * options.beam_size,
            patience=patience,
            length_penalty=beta,
            disable_unk=not options.emit_unknowns and (barred or self.tokenizer.kind != "bpe"),
            suppress_sequences=self._never if barred else None,
            max_batch_size=max(1, _MOST_WEIGHTS // max(map(len, source)) ** 2),
            max_input_length=0,  # No limit.
            min_decoding_length=0,  # An empty translation is possible.
            max_decoding_length=limit,
            return_end_token=True,
            return_scores=True,
        )
        return [
            [
                ([self._ids[piece] for piece in pieces], score * len(pieces) ** beta)
                for pieces, score in zip(result.hypotheses, result.scores, strict=True)
            ]
            for result in results
        ]


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
    lengths = np.array([len(each) for each in ids])
    log_probs = np.array(log_probs, np.float32)
    scores = log_probs / ((5 + lengths) / 6) ** options.length_penalty
    finished = np.array([each[-1] == EOS_ID for each in ids])
    best = np.lexsort((-scores, ~finished))[: options.beam_size]
    return Hypotheses(
        padded(ids)[best], log_probs[best], scores[best].astype(np.float32), finished[best]
    )
