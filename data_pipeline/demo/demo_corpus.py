"""Generates the demo corpus: English to German, with true word alignments.

A small bilingual grammar draws sentence pairs that show what makes this language pair interesting:
verb-second and verb-final clauses, separable verbs, the bracket of perfect and modal verbs, case
and adjective agreement, "kein" and "nicht", do-support, compounds, numbers, and an open class of
names to copy. An English sentence determines its German translation. Constituents are built in both
languages at once from tokens with link keys, so the alignment is exact however far a word moves.

Example:
    pair = generate(seed=1)["test"][0]
    print(pair.source, pair.target, pharaoh(pair.alignment), sep="\\n")
"""

import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from nmt_zoo.data_pipeline.demo import lexicon
from nmt_zoo.data_pipeline.demo.grammar import COMMA, NOTHING, Grammar, Phrase, Token, join

_MAX_TOKENS = 25  # per side
_MAX_PAIRS = 1_000_000


class DemoPair(NamedTuple):
    """A sentence pair.

    Attributes:
        source: tokenised English, one space between tokens.
        target: tokenised German.
        alignment: sorted (source position, target position), tokens counted from 0.
    """

    source: str
    target: str
    alignment: tuple[tuple[int, int], ...]


class _SentenceGrammar(Grammar):
    """Draws random sentences of one or more clauses."""

    def relative(self, phrase: Phrase, tense: str) -> Phrase:
        """Adds a relative clause on the last noun of a phrase, between commas in German."""
        human = phrase.kind == "person"
        tense = "past" if lexicon.TENSES[tense].past else self.tense(lexicon.FACTUAL_TENSES)
        if phrase.kind == "animal" or (human and self.chance(0.5)):
            german = "d" + lexicon.ENDINGS["definite", "nom"][phrase.gender]
            pronoun = self.unit("who" if human else "that", german)
            pronoun = pronoun._replace(agreement=phrase.agreement, kind=phrase.kind)
            event = self.event(tense, phrase.kind, subject=pronoun)
            clause = self.clause(event, tense, order="final", rate=0.2)
        else:
            event = self.event(tense, "person", phrase.kind, lexicon.DEFINITE)
            german = "d" + lexicon.ENDINGS["definite", event[0].complements[0].role][phrase.gender]
            german = "denen" if german == "den" and phrase.gender == "p" else german
            front = self.unit("whom" if human else "that", german)
            clause = self.clause(event, tense, order="final", front=front, gap=True)
        whole = join(phrase, COMMA, clause, COMMA)
        return phrase._replace(english=whole.english, german=whole.german)

    def simple(self) -> Phrase:
        """One main clause, in some cases with a relative clause or "because it is ..."."""
        tense = self.tense()
        if self.chance(0.12):
            verb, subject = self.event(tense)
            subject = self.relative(subject, tense) if subject.gender else subject
            return self.clause((verb, subject), tense, rate=0.2)
        clause = self.statement(tense, 0.35, (*lexicon.AFFIRMATIVE, lexicon.NO))
        if clause.gender and self.chance(0.2):
            return self.relative(clause, tense)
        if clause.gender and clause.kind not in ("person", "animal") and self.chance(0.2):
            return self.reason(clause, "past" if lexicon.TENSES[tense].past else "present")
        return clause

    def reason(self, clause: Phrase, tense: str) -> Phrase:
        """Adds "because it is red": the German pronoun has the gender of its antecedent."""
        english = "they" if clause.agreement == lexicon.PLURAL else "it"
        pronoun = self.unit(english, lexicon.ANAPHORS[clause.gender])
        pronoun = pronoun._replace(agreement=clause.agreement, kind=clause.kind)
        event = self.event(tense, "thing", "predicate", subject=pronoun)
        because = self.clause(event, tense, order="final")
        return join(clause, COMMA, self.unit("because", "weil"), because)

    def coordinated(self) -> Phrase:
        tense = self.tense()
        link = self.pick((("and", "und"), (",|but", ",|aber")))
        return join(self.statement(tense), self.unit(*link), self.statement(tense))

    def adverbial_clause(self) -> Phrase:
        """A subordinate clause of reason, concession, time or condition, first or last."""
        tense = self.tense()
        inner = lexicon.TENSES[tense].inner
        conjunction = self.unit(*self.pick(lexicon.CONJUNCTIONS[inner]))
        subordinate = join(conjunction, self.statement(inner, order="final"))
        if self.chance(0.4):
            return self.statement(tense, front=join(subordinate, self.unit(",", ",")))
        return join(self.statement(tense), COMMA, subordinate)

    def complement_clause(self) -> Phrase:
        """A clause with "that" or "whether", or an infinitive with "to"."""
        tense = self.tense(lexicon.FACTUAL_TENSES)
        kind = self.pick(("that", "that", "whether", "to"))
        matrix = self.clause(self.event(tense, complement=kind), tense)
        if kind == "to":
            event = self.event("infinitive", subject=NOTHING)
            return join(matrix, COMMA, self.clause(event, "infinitive", order="final"))
        past = lexicon.TENSES[tense].past
        tense = self.tense(("past", "could") if past else ("present", "perfect", "future"))
        conjunction = self.unit(kind, "dass" if kind == "that" else "ob")
        return join(matrix, COMMA, conjunction, self.statement(tense, order="final"))

    def question(self) -> Phrase:
        """A yes-no question, or a question for the subject, object, place, time or reason."""
        tense = self.tense()
        word = self.pick(("", "", "who", "where", "when", "why", "what", "what"))
        if not word:
            return self.statement(tense, 0.25, order="question")
        if word == "who":
            who = self.unit(word, "wer")._replace(definite=False)
            return self.clause(self.event(tense, subject=who), tense, rate=0.3, front=NOTHING)
        options = {"where": ("location", "direction", "journey"), "what": tuple(lexicon.NOUNS)}
        role = self.pick(options.get(word, ("",)))
        event = self.event(tense, complement=role)
        german = {"when": "wann", "why": "warum", "location": "wo"}
        front = self.unit(word, german.get(word) or german.get(role, "wohin"))
        if word == "what":
            front = self.object_question(role, event[0].complements[0].role)
        return self.clause(event, tense, order="question", front=front, gap=bool(role))

    def object_question(self, kind: str, case: str) -> Phrase:
        """Asks for an object: "what", "whom", "which" with a noun or "how many" with a noun."""
        noun, draw = self.pick(lexicon.NOUNS[kind]), self._random()
        if draw < 0.3:
            return self.noun_phrase(noun, case, (lexicon.WHICH,))
        if draw < 0.6 and noun.english[1] and case == "acc":
            return self.noun_phrase(noun, case, (lexicon.HOW_MANY,), plural=1)
        if kind == "person":
            return self.unit("whom", "wen" if case == "acc" else "wem")
        return self.unit("what", "was")

    def sentence(self) -> DemoPair:
        """Draws one sentence pair within the length limit."""
        while True:
            pattern, mark = self.pick(_PATTERNS)
            phrase = join(pattern(self), self.unit(mark, mark))
            english, german = phrase.english, _punctuated(phrase.german)
            if max(len(english), len(german)) <= _MAX_TOKENS:
                return DemoPair(_text(english), _text(german), _links(english, german))


_PATTERNS = (
    *15 * [(_SentenceGrammar.simple, ".")],
    *2 * [(_SentenceGrammar.coordinated, ".")],
    *6 * [(_SentenceGrammar.adverbial_clause, ".")],
    *6 * [(_SentenceGrammar.complement_clause, ".")],
    *6 * [(_SentenceGrammar.question, "?")],
)


def _punctuated(german: list[Token]) -> list[Token]:
    """Drops the comma that closes a relative clause before another mark."""
    following = itertools.chain((token.text for token in german[1:]), " ")
    return [
        token
        for token, text in zip(german, following, strict=True)
        if token.text != "," or text not in ",.?"
    ]


def _text(tokens: list[Token]) -> str:
    text = " ".join(token.text for token in tokens)
    return text[0].upper() + text[1:]


def _links(english: list[Token], german: list[Token]) -> tuple[tuple[int, int], ...]:
    sources: dict[int, list[int]] = {}
    for position, token in enumerate(english):
        for key in token.keys:
            sources.setdefault(key, []).append(position)
    targets = [(key, place) for place, token in enumerate(german) for key in token.keys]
    return tuple(sorted({(i, place) for key, place in targets for i in sources.get(key, ())}))


def sentences(seed: int) -> Iterator[DemoPair]:
    """Yields sentence pairs without end. Short sentences may recur, with the same translation."""
    grammar = _SentenceGrammar(seed)
    while True:
        yield grammar.sentence()


def generate(
    seed: int = 1, num_train: int = 24_000, num_valid: int = 500, num_test: int = 500
) -> dict[str, list[DemoPair]]:
    """Generates a corpus; the same arguments give the same corpus everywhere.

    Args:
        seed: random seed.
        num_train: number of training pairs, from 0.
        num_valid: number of validation pairs, from 0.
        num_test: number of test pairs, from 0.

    Returns:
        The pairs under "train", "valid" and "test"; no source sentence occurs twice.

    Raises:
        ValueError: a count is negative, or too large for the grammar.
    """
    counts = {"train": num_train, "valid": num_valid, "test": num_test}
    total = sum(counts.values())
    if min(counts.values()) < 0:
        raise ValueError(f"The demo corpus cannot have a negative number of pairs: {counts}.")
    if total > _MAX_PAIRS:
        raise ValueError(f"The demo corpus can have at most {_MAX_PAIRS} pairs in all: {counts}.")
    distinct: dict[str, DemoPair] = {}
    stream = sentences(seed)
    while len(distinct) < total:
        pair = next(stream)
        distinct.setdefault(pair.source, pair)
    pairs = iter(distinct.values())
    return {split: list(itertools.islice(pairs, count)) for split, count in counts.items()}


def pharaoh(alignment: Iterable[tuple[int, int]]) -> str:
    """Formats an alignment as "0-0 1-2 ...", as alignment tools do."""
    return " ".join(f"{source}-{target}" for source, target in alignment)
