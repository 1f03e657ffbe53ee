"""Translates strings to strings: tokenizer, batches by length, beam search, detokenizer."""

import collections
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.parallel import map_in_order
from nmt_zoo.configuration.options import MAX_INPUT_TOKENS
from nmt_zoo.data_pipeline.documents import Context, divided, joined
from nmt_zoo.data_pipeline.text_form import normalised
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import EOS_ID, PAD_ID, UNK_ID
from nmt_zoo.decoding.minimum_bayes_risk import expected_utilities
from nmt_zoo.decoding.search.phrases import phrase_ids
from nmt_zoo.decoding.search.types import Engine, SearchOptions, Sentence, length_normaliser
from nmt_zoo.decoding.text.glossary import Glossary
from nmt_zoo.decoding.text.kept_parts import Hidden, KeptParts
from nmt_zoo.decoding.text.splitting import sentences, split_line
from nmt_zoo.decoding.text.usual_form import Form, UsualForm

if TYPE_CHECKING:  # An engine of another kind translates without TensorFlow.
    from nmt_zoo.decoding.unknowns import UnknownReplacer


class Translation(NamedTuple):
    text: str  # The detokenised line.
    score: float  # Log-probability divided by the length penalty.
    log_prob: float  # Natural log-probability of its tokens including `</s>`.
    finished: bool  # False if the translation was cut at its length limit.
    ids: list  # Its token ids including `</s>`.
    problem: str = ""  # Why the line was left untranslated, from `PROBLEMS`; "": it was not.
    # The line and its translation in the usual form, as the model has them; None: as they are.
    usual: tuple[str, str] | None = None


class LineOptions(NamedTuple):
    """How lines become sentences that are searched for, and hypotheses become translations."""

    batch_size: int = 32  # Sentences translated at once; fewer if they do not fit into memory.
    max_input_tokens: int = MAX_INPUT_TOKENS  # Of the longest line that is translated, with `</s>`.
    split_long_lines: bool = False  # Translates longer lines in parts, see `split_line`.
    # Most sentences of a line that are translated at once: each sentence of the lines with more is
    # translated by itself, see `sentences`; 0: no line is split.
    split_sentences: int = 0
    name: str = "the model"  # For errors.
    num_threads: int = 1  # Batches that are searched at the same time, in a thread each.
    unknowns: "UnknownReplacer | None" = None  # Replaces each UNK; None: UNK is never emitted.
    # For each line `(prefix, phrases)`: text with which its translation begins, and a list of
    # phrases that it contains; None: there are no such constraints.
    constraints: Sequence[tuple[str, list[str]]] | None = None
    usual_form: UsualForm | None = None  # Of lines to translate; None: they stay as they are.
    glossary: Glossary | None = None  # Terms whose translations are required.
    keep: KeptParts | None = None  # Parts of lines that are not translated.
    # Sentences before each line of a text of several lines with which it is translated, see
    # `data_pipeline.documents`; single lines have their contexts already.
    context_sentences: int = 0
    # Words of the training text that stand before a line and go with each of its sentences.
    tags: Sequence[str] = ()
    # Candidates of each line among which minimum Bayes risk chooses, see
    # `decoding.minimum_bayes_risk`; 0: the most probable translation is the best.
    mbr: int = 0


def split_options(options: dict[str, Any]) -> tuple[SearchOptions, LineOptions]:
    """Divides options by their names into those of the search and those of lines."""
    search = {name: value for name, value in options.items() if name in SearchOptions._fields}
    others = {name: value for name, value in options.items() if name not in search}
    return SearchOptions(**search), LineOptions(**others)


class _Piece(NamedTuple):
    """A text that is translated at once: a line, or a part of one."""

    line: int  # Place of the line.
    number: int  # Of the line, for errors, for its constraints, and for draws.
    part: int  # Place of this part in its line; 0 for a whole line.
    text: str  # In its usual form.
    terms: list[str]  # Required translations.
    restore: Form | None  # Gives its translation the form of the line.
    hidden: Hidden | None  # `ids` has its text alone; None: all of `text`.
    ids: list  # Its ids in the source vocabulary, with `</s>`.


_DEFAULTS = LineOptions()
EMPTY = Translation("", 0.0, 0.0, True, [EOS_ID])
PROBLEMS = TOO_LONG, NO_MEMORY, IMPOSSIBLE, UNSURE = (
    "longer than the limit",
    "not enough memory",
    "the model finds no translation",
    "the model is less sure than --abstain",
)

IMPOSSIBLE_SCORE = -1e8  # A log-probability below this is that of something impossible.


def is_unknown(source_ids: Sequence[int]) -> bool:
    """Returns whether the vocabulary has no word of a line, given as ids with `</s>`."""
    return all(i == UNK_ID for i in source_ids[:-1])


class Translator:
    """Translates lines with an engine and the tokenizer of its model.

    Example:
        translator = Translator.of(model, tokenizer, beam_size=4)
        translator.translate(["A dog runs."])[0][0].text
    """

    def __init__(
        self, engine: Engine, tokenizer: Tokenizer, options: LineOptions = _DEFAULTS
    ) -> None:
        """Raises UserError: there are constraints, which the engine cannot follow."""
        if (options.constraints is not None or options.glossary) and engine.refusal:
            raise UserError(engine.refusal)
        self.engine, self.tokenizer, self.options = engine, tokenizer, options

    @classmethod
    def of(cls, model: Any, tokenizer: Tokenizer, **options: Any) -> "Translator":
        """Returns the translator of a `Searchable`.

        `options` are fields of `LineOptions`, and of `SearchOptions`, such as `beam_size`.
        Raises UserError: the model cannot be searched with an option.
        """
        from nmt_zoo.decoding.search.engine import make_engine

        search, lines = split_options(options)
        if model.decoder_class and not lines.unknowns and tokenizer.kind != "bpe":
            from nmt_zoo.decoding.unknowns import UnknownReplacer

            # It copies what it does not know.
            lines = lines._replace(unknowns=UnknownReplacer(model, tokenizer))
        # A target language is how every translation begins.
        first, emits = tokenizer.target.language_token, lines.unknowns is not None
        search = search._replace(first=first, emit_unknowns=emits)
        return cls(make_engine(model, search, tokenizer.target), tokenizer, lines)

    def check_known(self, lines: Sequence[str], name: str) -> None:
        """Raises `UserError` if lines have words but the vocabulary contains none of them."""
        source = self.tokenizer.source.encode(lines)
        not_empty = [number for number, ids in enumerate(source) if len(ids) > 1]
        if not_empty and all(map(is_unknown, source)):
            raise UserError(
                f"{name}: the model's vocabulary has none of its tokens, as in line "
                f"{not_empty[0] + 1}: {lines[not_empty[0]][:60]!r}; check language and tokenisation"
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
            numbers: line numbers for errors, constraints and the seeds of draws; None: from 1.
            done: called after every batch with {place in `lines`: its translations}, for the lines
                of which all parts are finished.
        """
        done = done or (lambda results: None)
        numbers = numbers or range(1, len(lines) + 1)
        if any("\n" in line for line in lines):
            results = self._line_by_line(lines, n_best, numbers)
            done(dict(enumerate(results)))
            return results
        pieces = self._pieces(lines, numbers)
        num_parts = collections.Counter(piece.line for piece in pieces)
        parts = [[[EMPTY]] * num_parts[line] for line in range(len(lines))]
        results, todo = {}, []
        # Longest first: if memory does not suffice, this shows at once.
        for piece in sorted(pieces, key=lambda piece: -len(piece.ids)):
            if len(piece.ids) > self.options.max_input_tokens:
                parts[piece.line][piece.part] = [untranslated(TOO_LONG)]
            elif len(piece.ids) > 1:
                todo.append(piece)
        num_open = collections.Counter(piece.line for piece in todo)

        def finish(some_lines):
            new = {line: self._joined(parts[line]) for line in some_lines if not num_open[line]}
            results.update(new)
            done(new)

        finish(range(len(lines)))  # Lines of which nothing is to be translated.
        size, num_candidates = self.options.batch_size, self._num_candidates(n_best)
        batches = [todo[start : start + size] for start in range(0, len(todo), size)]
        search = functools.partial(self._search, n_best=num_candidates)
        searched = map_in_order(search, batches, min(self.options.num_threads, len(batches)))
        for batch, hypotheses in zip(batches, searched, strict=True):
            for piece, of_piece in zip(batch, hypotheses, strict=True):
                # The best one of each part is joined.
                wanted = n_best if num_parts[piece.line] == 1 else 1
                translations = self._translations(piece, of_piece, wanted)
                translations = self._with_terms(piece, translations)
                if piece.restore:  # The form of the line.
                    translations = [
                        x._replace(text=piece.restore(x.text), usual=(piece.text, x.text))
                        for x in translations
                    ]
                parts[piece.line][piece.part] = translations
                num_open[piece.line] -= 1
            finish(dict.fromkeys(piece.line for piece in batch))
        return [results[line] for line in range(len(lines))]

    def _line_by_line(self, texts, n_best, numbers):
        """Translates texts of one or more lines as `translate`; joins their lines by line feeds."""
        texts = [*map(self.lines_of, texts)]
        numbers = [n for n, lines in zip(numbers, texts, strict=True) for _ in lines]
        translated = iter(self.translate([*itertools.chain(*texts)], n_best, numbers=numbers))
        return [self.of_text([*itertools.islice(translated, len(lines))]) for lines in texts]

    def lines_of(self, text: str) -> list[str]:
        """Returns the lines of a text, each after its context."""
        return Context(self.options.context_sentences).of(text.strip().split("\n"))

    def of_text(self, of_lines: list[list[Translation]]) -> list[Translation]:
        """Returns the translations of a text, given those of its lines."""
        best, *others = self._joined(of_lines)
        if len(of_lines) > 1 and not best.problem:
            best = best._replace(text="\n".join(of_line[0].text for of_line in of_lines))
        return [best, *others]

    def _pieces(self, lines, numbers):
        """Splits lines if asked to; returns their parts."""
        form = self.tokenizer.source.form
        parts = [
            (line, number, part, text)
            for line, number in enumerate(numbers)
            for part, text in enumerate(self._parts_of(normalised(lines[line], form), number))
        ]
        divided_parts = [self.divided(text) for *_, text in parts]
        usual = [self._usual(own) for *_, own in divided_parts]
        keep = self.options.keep
        hidden = [keep and keep.hide(text) for text, _ in usual]
        pieces, texts = [], []
        for part, divided_part, (as_usual, restore), without in zip(
            parts, divided_parts, usual, hidden, strict=True
        ):
            language, context, tags, own = divided_part
            text = without.text if without else as_usual
            texts.append(language + joined(context, tags + text))
            terms = self._terms([text, own] if restore else [text])
            whole = language + joined(context, tags + as_usual)
            pieces.append(_Piece(*part[:3], whole, terms, restore, without, []))
        source = self.tokenizer.source.encode(texts)
        return [piece._replace(ids=ids) for piece, ids in zip(pieces, source, strict=True)]

    def _usual(self, line):
        return self.options.usual_form.of(line) if self.options.usual_form else (line, None)

    def _terms(self, texts):
        """Returns the translations of the terms of texts, each once."""
        glossary = self.options.glossary
        return list(dict.fromkeys(itertools.chain(*map(glossary.find, texts)))) if glossary else []

    def in_sentences(self, line: str, number: int) -> list[str]:
        """Splits a line into sentences, see `split_sentences`, unless it has constraints."""
        most = self.options.split_sentences
        constraints = (self.options.constraints or [])[number - 1 : number]
        if not most or any(itertools.chain(*constraints)):
            return [line]
        parts = sentences(line)
        return parts if len(parts) > most else [line]

    def divided(self, line: str) -> tuple[str, list[str], str, str]:
        """Returns (tag of a language, sentences of the context, tags, the sentence) of a line.

        The tag of a language goes before all, other tags, see `LineOptions`, before the sentence.
        """
        before, line = self._without_tags(line, self._languages)
        context, own = divided(line) if self.options.context_sentences else ([], line)
        tags, own = self._without_tags(own, [*self._languages, *self.options.tags])
        language = [tag for tag in (*before, *tags) if tag in self._languages][-1:]
        tags = [tag for tag in tags if tag not in self._languages]
        front, inner = ("".join(f"{tag} " for tag in words) for words in (language, tags))
        return front, context, inner, own

    @functools.cached_property
    def _languages(self):
        source = self.tokenizer.source
        return [piece.strip("▁") for piece in source.pieces(source.language_tokens)]

    @staticmethod
    def _without_tags(line, tags):
        """Returns the tags with which a line begins, and the rest."""
        cut = []
        while tag := next((tag for tag in tags if line.startswith(tag)), ""):
            cut.append(tag)
            line = line[len(tag) :].lstrip()
        return cut, line

    def _parts_of(self, line, number):
        language, context, tags, own = self.divided(line)
        parts = self.in_sentences(own, number)
        if self.options.split_long_lines:
            parts = [
                part
                for whole in parts
                for part in ([whole] if self._fits(whole) else split_line(whole, self._fits))
            ]
        if len(parts) == 1 and (not context or self._fits(line)):
            return [line]
        most, parts = self.options.context_sentences, [tags + part for part in parts]
        if not most:
            return [language + part for part in parts]
        with_context = Context(most).of([*context, *parts])[len(context) :]
        # A part that is short enough only without its context has none.
        pairs = zip(with_context, parts, strict=True)
        return [language + (both if self._fits(both) else part) for both, part in pairs]

    def _fits(self, text):
        language, context, tags, own = self.divided(text)
        text = language + joined(context, tags + self._usual(own)[0])
        return len(self.tokenizer.source.encode([text])[0]) <= self.options.max_input_tokens

    def _search(self, batch, n_best):
        """Searches a batch of `_Piece`; returns the `Hypotheses` of each, or None."""
        batch_sentences = [
            Sentence(piece.ids, piece.number, *self._constraints_of(piece), part=piece.part)
            for piece in batch
        ]
        results = self.engine.search(batch_sentences, n_best)
        # Phrases share the beam, so placeholders are required only where they would be lost.
        lost = [k for k, piece in enumerate(batch) if self._may_require(piece, results[k])]
        again = []
        for k in lost:
            missing = map(self.options.keep.placeholder_ids, batch[k].hidden.parts)
            required = [*batch_sentences[k].required, *missing]
            again.append(batch_sentences[k]._replace(required=required))
        if again:
            for k, hypotheses in zip(lost, self.engine.search(again, n_best), strict=True):
                results[k] = hypotheses
        return results

    def _may_require(self, piece, hypotheses):
        """Returns whether a piece lost a part, and the search can require it."""
        if hypotheses is None or not (piece.hidden and piece.hidden.parts):
            return False
        if self.engine.refusal or self.engine.options.sample:
            return False
        text = self.tokenizer.target.decode(_until_end(hypotheses.ids[0].tolist()))
        return any(placeholder not in text for placeholder in piece.hidden.parts)

    def _num_candidates(self, n_best):
        """Returns how many hypotheses to search for, of which some may have the same text."""
        if self.engine.options.sample:
            return self.options.mbr or n_best
        return self.engine.options.beam_size if self.options.mbr or n_best > 1 else 1

    def check_constraints(self, num_lines: int, more: str = "") -> None:
        """Raises `UserError` if --prefix or --required have not a line for each of the text."""
        constraints = self.options.constraints
        if constraints is not None and len(constraints) != num_lines:
            raise UserError(
                f"--prefix or --required has {len(constraints):,} lines, and the text has "
                f"{num_lines:,}{more}; line n of them is about line n of the text"
            )

    def _constraints_of(self, piece):
        """Returns the ids of the prefix, and those of the required phrases, of a `_Piece`."""
        constraints, vocabulary = self.options.constraints, self.tokenizer.target
        if constraints is None:
            prefix, phrases = "", []
        elif piece.number > len(constraints):
            self.check_constraints(piece.number, " or more")
        else:
            prefix, phrases = constraints[piece.number - 1]
        phrases = list(dict.fromkeys([*phrases, *piece.terms]))
        (prefix,) = vocabulary.encode([prefix])
        return prefix[:-1], [phrase_ids(phrase, vocabulary) for phrase in phrases]

    def _with_terms(self, piece, translations):
        """Counts the terms of a `_Piece` in its best translation; adds the capitals of terms."""
        glossary = self.options.glossary
        if not (glossary and piece.terms):
            return translations
        translations = [
            translation._replace(text=glossary.capitalised(piece.text, translation.text))
            for translation in translations
        ]
        glossary.count(piece.number, piece.terms, translations[0].text)
        return translations

    def _translations(self, piece, hypotheses, n_best):
        """Returns the `n_best` translations of a `_Piece` as text, given its `Hypotheses`."""
        if hypotheses is None:
            return [untranslated(NO_MEMORY)]
        if np.isnan(hypotheses.log_probs).any():
            raise not_numbers(self.options.name, piece.number)
        places = np.flatnonzero(hypotheses.log_probs > IMPOSSIBLE_SCORE)[
            : self._num_candidates(n_best)
        ]
        if not places.size:
            return [untranslated(IMPOSSIBLE)]
        unknowns, keep = self.options.unknowns, self.options.keep
        target_ids = [_until_end(hypotheses.ids[k].tolist()) for k in places]
        if unknowns:
            texts, words = unknowns.texts(piece.text, target_ids)
            replaced = {tuple(ids): own for ids, own in zip(target_ids, words, strict=True)}
        else:
            texts = [self.tokenizer.target.decode(ids) for ids in target_ids]
        if piece.hidden:
            restored = [keep.restore(text, piece.hidden) for text in texts]
            if restored != texts:
                texts, target_ids = restored, self.tokenizer.target.encode(restored)
        columns = hypotheses.scores, hypotheses.log_probs, hypotheses.finished
        columns = [values[places].tolist() for values in columns]
        translations = list(map(Translation, texts, *columns, target_ids))
        chosen = self._chosen(translations)[:n_best]
        if piece.hidden:
            keep.check(piece.number, piece.hidden, chosen[0].text)
        if unknowns:
            for translation in chosen:
                unknowns.count(replaced[tuple(translation.ids)])
        return chosen

    def _chosen(self, translations):
        """Drops translations with the text of a better one; sorts the rest by expected chrF."""
        is_drawn, mbr = self.engine.options.sample, self.options.mbr
        if not is_drawn:
            translations = _with_different_texts(translations)
        if not mbr:
            return translations
        translations = translations[:mbr]
        log_probs = np.array([translation.log_prob for translation in translations])
        weights = np.exp(log_probs - log_probs.max())
        if is_drawn:  # Probable translations are drawn more often already.
            weights = np.ones(len(translations))
        utilities = expected_utilities([translation.text for translation in translations], weights)
        best = np.argsort(-utilities, kind="stable")
        return _with_different_texts(
            translations[i]._replace(score=float(utilities[i])) for i in best
        )

    def _joined(self, of_parts):
        """Joins the best translation of each part of a line; untranslated if any part is.

        With minimum Bayes risk, the score is the mean over the parts.
        """
        if len(of_parts) == 1:
            return of_parts[0]
        parts = [best for best, *_ in of_parts]
        problem = next((part.problem for part in parts if part.problem), "")
        if problem:
            return [untranslated(problem)]
        log_prob = sum(part.log_prob for part in parts)
        ids = [i for part in parts for i in part.ids if i != EOS_ID] + [EOS_ID]
        penalty = self.engine.options.length_penalty
        score = log_prob / float(length_normaliser(len(ids), penalty))
        if self.options.mbr:
            score = float(np.mean([part.score for part in parts if part != EMPTY] or [0.0]))
        text = " ".join(part.text for part in parts if part.text)
        return [Translation(text, score, log_prob, all(part.finished for part in parts), ids)]


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
