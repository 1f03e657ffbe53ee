"""Translates strings to strings: tokenizer, batches by length, beam search, detokenizer."""

import collections
import itertools
import math
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.parallel import map_in_order
from nmt_zoo.data_pipeline.documents import Context, divided, joined
from nmt_zoo.data_pipeline.text_form import normalised
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import EOS_ID, PAD_ID, UNK_ID
from nmt_zoo.decoding.minimum_bayes_risk import expected_utilities
from nmt_zoo.decoding.search.phrases import phrase_ids
from nmt_zoo.decoding.search.terms import NEVER, SearchOptions, Sentence, length_normaliser
from nmt_zoo.decoding.text.kept_parts import Hidden, KeptParts
from nmt_zoo.decoding.text.splitting import sentences, split_line

if TYPE_CHECKING:  # An engine of another kind translates without TensorFlow.
    from nmt_zoo.decoding.unknowns import UnknownReplacer


class Translation(NamedTuple):
    text: str  # The detokenised line.
    score: float  # Log-probability divided by the length penalty.
    log_prob: float  # Natural log-probability of its tokens including `</s>`.
    finished: bool  # False if the translation was cut at its length limit.
    ids: list  # Its token ids including `</s>`.
    problem: str = ""  # Why the line was left untranslated, from `PROBLEMS`; "": it was not.


class _Piece(NamedTuple):
    """A text that is translated at once: a line, or a part of one."""

    line: int  # Place of the line.
    number: int  # Of the line, for errors, for what is asked of it, and for draws.
    part: int  # Place of this part in its line; 0 for a whole line.
    text: str
    kept: Hidden | None  # `ids` has its text alone; None: all of `text`.
    ids: list  # Its ids in the source vocabulary, with `</s>`.


# Longest line that is translated, in tokens including `</s>`, counted as by `--max_length`. Real
# sentences are far shorter: by default, training leaves out all above 256, so that models have seen
# nothing longer. Memory for attention grows with the square of the length: each head of a layer
# takes 4 MB at 1,024 tokens, 6 GB at 40,000.
MAX_INPUT_TOKENS = 1024
EMPTY = Translation("", 0.0, 0.0, True, [EOS_ID])
PROBLEMS = TOO_LONG, NO_MEMORY, IMPOSSIBLE = (
    "longer than the limit",
    "not enough memory",
    "the model finds no translation",
)


def is_unknown(source_ids: Sequence[int]) -> bool:
    """Returns whether the vocabulary has no word of a line, given as ids with `</s>`."""
    return all(i == UNK_ID for i in source_ids[:-1])


class Translator:
    """Translates lines with a model and its tokenizer.

    Args:
        model: the `Searchable` that translates; or with an `engine`, the function that loads it for
            sentences of which the engine is not sure, whose translation was cut or lost a part
            that is kept; None leaves them as the engine finds them.
        batch_size: sentences translated at once; fewer if they do not fit into memory.
        max_input_tokens: longest line that is translated, in tokens including `</s>`.
        split_long_lines: translates longer lines in parts, see `split_line`.
        split_sentences: most sentences of a line that are translated at once: each sentence of the
            lines with more is translated by itself, see `sentences`; 0: no line is split.
        num_threads: number of batches that are searched at the same time, in a thread each.
        unknowns: replaces each UNK with a word; None: UNK is never emitted.
        engine: `serving.ctranslate2.engine.CTranslate2Engine` that searches in place of `model`.
        asked: for each line, by its number, `(prefix, phrases)`: text with which its translation
            begins, and a list of phrases that it contains; None: nothing is asked for.
        keep: parts of lines that are not translated; None for none.
        context_sentences: sentences before each line of a text of several lines with which it is
            translated, see `data_pipeline.documents`; single lines have their contexts already.
        mbr: number of candidates of each line among which minimum Bayes risk chooses, see
            `decoding.minimum_bayes_risk`; 0: the most probable translation is the best.
        compiles: when XLA compiles searches of few sentences, one of `search.terms.COMPILE`.
        **search: fields of `SearchOptions`, such as `beam_size`.

    Example:
        translator = Translator(model, tokenizer, beam_size=4)
        translator.translate(["A dog runs."])[0][0].text
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Tokenizer,
        *,
        batch_size: int = 32,
        max_input_tokens: int = MAX_INPUT_TOKENS,
        split_long_lines: bool = False,
        split_sentences: int = 0,
        name: str = "the model",
        num_threads: int = 1,
        unknowns: "UnknownReplacer | None" = None,
        engine: Any = None,
        asked: Sequence[tuple[str, list[str]]] | None = None,
        keep: KeptParts | None = None,
        seed: int = 0,
        context_sentences: int = 0,
        mbr: int = 0,
        compiles: str = NEVER,
        **search: Any,
    ) -> None:
        self.tokenizer = tokenizer
        self.batch_size = batch_size
        self.max_input_tokens = max_input_tokens
        self.split_long_lines = split_long_lines
        self.split_sentences = split_sentences
        self.name = name
        self.num_threads = num_threads
        own_search = model is not None and not engine and model.own_search
        if own_search and tokenizer.kind != "bpe":  # It copies what it does not know.
            from nmt_zoo.decoding.unknowns import UnknownReplacer

            unknowns = unknowns or UnknownReplacer(model, tokenizer)
        self.unknowns = unknowns
        # A target language: how every translation begins.
        how = {"first": tokenizer.target.language_token, "emit_unknowns": unknowns is not None}
        self.options = SearchOptions(**search, **how)
        self._engine = engine
        if engine:
            engine.check(self.options, max_input_tokens)
            if asked is not None:
                raise UserError("--prefix and --required: CTranslate2 cannot; leave them out")
        self.asked = asked
        self.keep = keep
        self.context_sentences = context_sentences
        self.mbr = mbr
        self._model = model
        self._seed = seed
        self._compiles = compiles
        self._searcher = None
        self._lock = threading.Lock()
        if not engine:
            self._make_searcher(model)

    def _make_searcher(self, model):
        if model.own_search:
            from nmt_zoo.decoding.search.own_search import OwnSearcher

            self._searcher = OwnSearcher(model, self.options)
            return
        from nmt_zoo.decoding.search.searcher import Searcher

        if self.options.shortlist is not None:
            from nmt_zoo.decoding.search.shortlist import check_shortlist

            check_shortlist(model, self.options, self.asked is not None)
        self._searcher = Searcher(
            model, self.options, self.tokenizer.target, self._seed, self._compiles
        )

    def check_known(self, lines: Sequence[str], name: str) -> None:
        """Raises `UserError` if lines have words but the vocabulary contains none of them."""
        source = self.tokenizer.source.encode(lines)
        found = [number for number, ids in enumerate(source) if len(ids) > 1]
        if found and all(map(is_unknown, source)):
            raise UserError(
                f"{name}: the model's vocabulary has none of its tokens, as in line "
                f"{found[0] + 1}: {lines[found[0]][:60]!r}; check language and tokenisation"
            )

    def translate(
        self,
        lines: Sequence[str],
        n_best: int = 1,
        *,
        numbers: Sequence[int] | None = None,
        done: Callable[[dict[int, list[Translation]]], None] | None = None,
    ) -> list[list[Translation]]:
        """Returns the translations of every line, in order, the best first.

        An empty line stays empty. A line has fewer than `n_best` translations if the model finds
        fewer, and one if it is empty, translated in parts, or left untranslated. A text with line
        feeds is translated line by line, and `done` is then called at the end alone.
        Raises UserError: the model's scores are not numbers.

        Args:
            n_best: different translations of each line, at most the beam; or draws, in order.
            numbers: line numbers for errors, `asked` and the seeds of draws; None: from 1.
            done: called after every batch with {place in `lines`: its translations}, for the lines
                of which all parts are finished.
        """
        done = done or (lambda found: None)
        numbers = numbers or range(1, len(lines) + 1)
        if any("\n" in line for line in lines):
            results = self._line_by_line(lines, n_best, numbers)
            done(dict(enumerate(results)))
            return results
        pieces = self._pieces(lines, numbers)
        num_parts = collections.Counter(piece.line for piece in pieces)
        found = [[[EMPTY]] * num_parts[line] for line in range(len(lines))]
        results, todo = {}, []
        # Longest first: if memory does not suffice, this shows at once.
        for piece in sorted(pieces, key=lambda piece: -len(piece.ids)):
            if len(piece.ids) > self.max_input_tokens:
                found[piece.line][piece.part] = [untranslated(TOO_LONG)]
            elif len(piece.ids) > 1:
                todo.append(piece)
        num_open = collections.Counter(piece.line for piece in todo)

        def finish(some):
            new = {line: self._joined(found[line]) for line in some if not num_open[line]}
            results.update(new)
            done(new)

        def search(batch):
            return self._search_all(batch, self._num_candidates(n_best))

        finish(range(len(lines)))  # Lines of which nothing is to be translated.
        batches = [
            todo[start : start + self.batch_size] for start in range(0, len(todo), self.batch_size)
        ]
        searched = map_in_order(search, batches, min(self.num_threads, len(batches)))
        for batch, hypotheses in zip(batches, searched, strict=True):
            for piece, some in zip(batch, hypotheses, strict=True):
                # The best one of each part is joined.
                wanted = n_best if num_parts[piece.line] == 1 else 1
                found[piece.line][piece.part] = self._translations(piece, some, wanted)
                num_open[piece.line] -= 1
            finish(dict.fromkeys(piece.line for piece in batch))
        return [results[line] for line in range(len(lines))]

    def _line_by_line(self, texts, n_best, numbers):
        """Translates texts of one or more lines as `translate`; joins their lines by line feeds."""
        texts = [text.strip().split("\n") for text in texts]
        if self.context_sentences:
            texts = [Context(self.context_sentences).of(lines) for lines in texts]
        numbers = [n for n, lines in zip(numbers, texts, strict=True) for _ in lines]
        found = iter(self.translate([*itertools.chain(*texts)], n_best, numbers=numbers))
        results = []
        for of_lines in (list(itertools.islice(found, len(lines))) for lines in texts):
            best, *others = self._joined(of_lines)
            if len(of_lines) > 1 and not best.problem:
                best = best._replace(text="\n".join(one.text for one, *_ in of_lines))
            results.append([best, *others])
        return results

    def _pieces(self, lines, numbers):
        """Splits lines if asked to; returns their parts."""
        form = self.tokenizer.source.form
        parts = [
            (line, number, part, text)
            for line, number in enumerate(numbers)
            for part, text in enumerate(self._parts_of(normalised(lines[line], form), number))
        ]
        pairs = [self.divided(text) for *_, text in parts]
        kept = [self.keep and self.keep.hide(own) for _, own in pairs]
        texts = [
            joined(context, one.text if one else own)
            for one, (context, own) in zip(kept, pairs, strict=True)
        ]
        source = self.tokenizer.source.encode(texts)
        return [_Piece(*part, *one) for part, *one in zip(parts, kept, source, strict=True)]

    def in_sentences(self, line: str, number: int) -> list[str]:
        """Splits a line into sentences, see `split_sentences`, unless something is asked of it."""
        asked = (self.asked or [])[number - 1 : number]
        if not self.split_sentences or any(itertools.chain(*asked)):
            return [line]
        found = sentences(line)
        return found if len(found) > self.split_sentences else [line]

    def divided(self, line: str) -> tuple[list[str], str]:
        """Returns (the sentences of its context, the sentence) of a line."""
        return divided(line) if self.context_sentences else ([], line)

    def _parts_of(self, line, number):
        context, own = self.divided(line)
        parts = self.in_sentences(own, number)
        if self.split_long_lines:
            parts = [
                part
                for whole in parts
                for part in ([whole] if self._fits(whole) else split_line(whole, self._fits))
            ]
        if len(parts) == 1 and (not context or self._fits(line)):
            return [line]
        if not self.context_sentences:
            return parts
        found = Context(self.context_sentences).of([*context, *parts])[len(context) :]
        # A part that is short enough only without its context has none.
        return [a if self._fits(a) else b for a, b in zip(found, parts, strict=True)]

    def _fits(self, text):
        return len(self.tokenizer.source.encode([text])[0]) <= self.max_input_tokens

    def _search_all(self, batch, n_best):
        """Searches a batch of `_Piece`; returns the `Hypotheses` of each, or None."""
        sentences = [
            Sentence(piece.ids, piece.number, *self._asked_of(piece.number), part=piece.part)
            for piece in batch
        ]
        if self._engine:
            found = self._engine([s.source_ids for s in sentences], n_best, self.options)
            if self._model:
                cut = [k for k, hypotheses in enumerate(found) if not hypotheses.finished[0]]
                self._search_again(found, cut, sentences, n_best)
        else:
            found = self._searcher.search(sentences, n_best)
        # Phrases share the beam, so signs are required only where they would be lost.
        lost = [k for k, piece in enumerate(batch) if self._may_require(piece, found[k])]
        for k in lost:
            required = [*sentences[k].required, *map(self.keep.sign_ids, batch[k].kept.parts)]
            sentences[k] = sentences[k]._replace(required=required)
        self._search_again(found, lost, sentences, n_best)
        return found

    def _search_again(self, found, places, sentences, n_best):
        """Replaces some `Hypotheses` by those that the model finds."""
        if not places:
            return
        with self._lock:  # Batches are searched at the same time.
            if self._searcher is None:
                self._make_searcher(self._model())
        again = self._searcher.search([sentences[k] for k in places], n_best)
        for k, hypotheses in zip(places, again, strict=True):
            found[k] = hypotheses

    def _may_require(self, piece, found):
        """Returns whether a piece lost a part, and the search can require it."""
        if found is None or self._model is None or not (piece.kept and piece.kept.parts):
            return False
        options = self.options
        if (
            options.sample
            or options.shortlist is not None
            or getattr(self._model, "own_search", False)
        ):
            return False
        text = self.tokenizer.target.decode(_until_end(found.ids[0].tolist()))
        return any(sign not in text for sign in piece.kept.parts)

    def _num_candidates(self, n_best):
        """Returns how many hypotheses to search for, of which some may have the same text."""
        if self.options.sample:
            return self.mbr or n_best
        return self.options.beam_size if self.mbr or n_best > 1 else 1

    def check_asked(self, num_lines: int, more: str = "") -> None:
        """Raises `UserError` if --prefix or --required have not a line for each of the text."""
        if self.asked is not None and len(self.asked) != num_lines:
            raise UserError(
                f"--prefix or --required has {len(self.asked):,} lines, and the text has "
                f"{num_lines:,}{more}; line n of them is about line n of the text"
            )

    def _asked_of(self, number):
        """Returns what is asked of a line as ids, the prefix and the phrases; see `asked`."""
        if self.asked is None:
            return (), ()
        if number > len(self.asked):
            self.check_asked(number, " or more")
        prefix, phrases = self.asked[number - 1]
        vocabulary = self.tokenizer.target
        (prefix,) = vocabulary.encode([prefix])
        return prefix[:-1], [phrase_ids(phrase, vocabulary) for phrase in phrases]

    def _translations(self, piece, found, n_best):
        """Returns the `n_best` translations of a `_Piece` as text, given its `Hypotheses`."""
        if found is None:
            return [untranslated(NO_MEMORY)]
        if np.isnan(found.log_probs).any():
            raise not_numbers(self.name, piece.number)
        places = np.flatnonzero(found.log_probs > -1e8)[: self._num_candidates(n_best)]
        if not places.size:
            return [untranslated(IMPOSSIBLE)]
        target_ids = [_until_end(found.ids[k].tolist()) for k in places]
        if self.unknowns:
            texts, replaced = self.unknowns.texts(piece.text, target_ids)
            words = {tuple(ids): some for ids, some in zip(target_ids, replaced, strict=True)}
        else:
            texts = [self.tokenizer.target.decode(ids) for ids in target_ids]
        if piece.kept:
            restored = [self.keep.restore(text, piece.kept) for text in texts]
            if restored != texts:
                texts, target_ids = restored, self.tokenizer.target.encode(restored)
        translations = [
            Translation(
                text,
                float(found.scores[k]),
                float(found.log_probs[k]),
                bool(found.finished[k]),
                ids,
            )
            for k, text, ids in zip(places, texts, target_ids, strict=True)
        ]
        chosen = self._chosen(translations)[:n_best]
        if piece.kept:
            self.keep.check(piece.number, piece.kept, chosen[0].text)
        if self.unknowns:
            for translation in chosen:
                self.unknowns.count(words[tuple(translation.ids)])
        return chosen

    def _chosen(self, translations):
        """Drops translations with the text of a better one; sorts the rest by expected chrF."""
        if not self.options.sample:
            translations = _with_different_texts(translations)
        if not self.mbr:
            return translations
        translations = translations[: self.mbr]
        log_probs = np.array([translation.log_prob for translation in translations])
        weights = np.exp(log_probs - log_probs.max())
        if self.options.sample:  # Probable translations are drawn more often already.
            weights = np.ones(len(translations))
        utilities = expected_utilities([translation.text for translation in translations], weights)
        best = np.argsort(-utilities, kind="stable")
        return _with_different_texts(
            translations[i]._replace(score=float(utilities[i])) for i in best
        )

    def _joined(self, found):
        """Joins the best translation of each part of a line; untranslated if any part is.

        With minimum Bayes risk, the score is the mean over the parts.
        """
        if len(found) == 1:
            return found[0]
        parts = [best for best, *_ in found]
        problem = next((part.problem for part in parts if part.problem), "")
        if problem:
            return [untranslated(problem)]
        log_prob = sum(part.log_prob for part in parts)
        ids = [i for part in parts for i in part.ids if i != EOS_ID] + [EOS_ID]
        score = self._by_length(log_prob, ids)
        if self.options.coverage_penalty:  # A sum over source words, so those of parts add up.
            score += sum(part.score - self._by_length(part.log_prob, part.ids) for part in parts)
        if self.mbr:
            score = float(np.mean([part.score for part in parts if part != EMPTY] or [0.0]))
        text = " ".join(part.text for part in parts if part.text)
        return [Translation(text, score, log_prob, all(part.finished for part in parts), ids)]

    def _by_length(self, log_prob, ids):
        options = self.options
        reward = options.word_reward * (len(ids) - 1)
        divisor = length_normaliser(len(ids), options.length_penalty, options.divide_by_length)
        return (log_prob + reward) / float(divisor)


def untranslated(problem: str) -> Translation:
    """Returns the `Translation` of a line that is left untranslated, see `PROBLEMS`."""
    return Translation("", -math.inf, -math.inf, True, [], problem)


def not_numbers(name: str, number: int) -> UserError:
    """Returns the `UserError` for a model whose scores of a line are NaN."""
    return UserError(
        f"{name} gives scores that are not numbers, for line {number}: its training diverged; "
        "train again, for example with a smaller --learning_rate"
    )


def _with_different_texts(translations):
    first = {}
    for translation in translations:
        first.setdefault(translation.text, translation)
    return list(first.values())


def _until_end(ids):
    """Cuts ids after the first EOS; if there is no EOS, only removes padding."""
    return ids[: ids.index(EOS_ID) + 1] if EOS_ID in ids else [i for i in ids if i != PAD_ID]
