"""The grammar of the demo corpus: random phrases and single clauses, in both languages at once.

A phrase is two lists of tokens with link keys. Phrases are joined into larger ones, and a clause
puts its parts in the order of each language; words that share a key are aligned wherever they go.
"""

import itertools
import random
from collections.abc import Sequence
from typing import NamedTuple

from nmt_zoo.data_pipeline.demo import lexicon

# The German middle field, from the left to the right sentence bracket.
_FIELD_TABLE = """nom acc-pronoun dat-pronoun time dat-definite acc-definite frequency negation
    company location dat acc direction journey bound"""
_FIELDS = _FIELD_TABLE.split()


class Token(NamedTuple):
    """A word with link keys; an English and a German word that share a key are aligned."""

    text: str
    keys: tuple[int, ...] = ()


class Phrase(NamedTuple):
    """A constituent in both languages, with features for agreement and for reference."""

    english: list[Token]
    german: list[Token]
    field: str = "nom"
    agreement: int = lexicon.THIRD
    gender: str = ""  # m, f, n or p for plural; empty unless a noun phrase
    kind: str = "person"
    definite: bool = True


def join(*phrases: Phrase) -> Phrase:
    """Concatenates phrases on both sides; the last one gives the features."""
    english = [token for phrase in phrases for token in phrase.english]
    german = [token for phrase in phrases for token in phrase.german]
    return phrases[-1]._replace(english=english, german=german)


NOTHING = Phrase([], [])
COMMA = Phrase([], [Token(",")])  # a comma that only German has


def _english_verbs(verb, tense, agreement, keys, question, modifier: Phrase) -> list[Token]:
    """Makes the English verb forms, with do-support, and "not" or an adverb between them."""
    row, (main, key) = lexicon.TENSES[tense], keys
    lemma, *link = (row.english or verb.english[0]).split()
    rest = [Token(word, (key,)) for word in link]
    if row.english:
        rest.append(Token(verb.english[3 if tense == "perfect" else 0], (main,)))
    else:
        key = main
    lexical = bool(link) or (not row.english and lemma != "be")
    negated = modifier.field == "negation"
    if lexical and (question or negated):
        rest.insert(0, Token(lemma, (key,)))
        lemma, lexical = "do", False
    finite = Token(lexicon.FINITE_FORMS[lemma][3 * row.past + agreement], (key,))
    if negated and finite.text == "can":
        return [Token("cannot", (key, *modifier.english[0].keys)), *rest]
    if lexical:
        return [*modifier.english, finite, *rest]
    return [finite, *modifier.english, *rest]


def _german_verbs(verb, tense, agreement, keys) -> tuple[Token, list[Token], list[Token]]:
    """Makes the finite verb, the right bracket, and the verb forms that end a verb-final clause."""
    row, (main, helper) = lexicon.TENSES[tense], keys
    lemma, nonfinite = row.german or verb.german[0], verb.prefix + verb.german[0]
    if tense == "perfect":
        lemma = "sein" if verb.german[3].startswith("ist_") else "haben"
        nonfinite = verb.german[3].removeprefix("ist_")
    form = lexicon.FINITE_FORMS[lemma][3 * row.past + agreement]
    if not row.german:
        bracket = [Token(verb.prefix, (main,))] if verb.prefix else []
        return Token(form, (main,)), bracket, [Token(verb.prefix + form, (main,))]
    finite, bracket = Token(form, (helper,)), [Token(nonfinite, (main,))]
    if tense != "infinitive":
        return finite, bracket, [*bracket, finite]
    if verb.prefix:
        return finite, bracket, [Token(verb.prefix + form + verb.german[0], (helper, main))]
    return finite, bracket, [finite, *bracket]


class Constituents(NamedTuple):
    """The parts of a clause besides its verbs; `middle` is in English order."""

    front: Phrase
    subject: Phrase
    middle: list[Phrase]
    modifier: Phrase


def _linearise(verb, tense, keys, order, constituents) -> Phrase:
    """Orders a clause in each language; German sorts the middle by field."""
    front, subject, middle, modifier = constituents
    question, agreement = order == "question", subject.agreement
    forms = _english_verbs(verb, tense, agreement, keys, question, modifier)
    particle = Phrase([Token(verb.particle[1:], keys[:1])] if verb.particle else [], [])
    shift = verb.particle[:1] == "+" and bool(middle) and middle[0].field.endswith("pronoun")
    english = [*front.english, *forms[:question], *subject.english, *forms[question:]]
    english += join(*middle[:shift], particle, *middle[shift:]).english
    finite, bracket, end = _german_verbs(verb, tense, agreement, keys)
    field = join(*sorted([*middle, modifier], key=lambda part: _FIELDS.index(part.field))).german
    if order == "final":
        german = [*front.german, *subject.german, *field, *end]
    elif question or front.german:
        german = [*front.german, finite, *subject.german, *field, *bracket]
    else:
        german = [*subject.german, finite, *field, *bracket]
    return Phrase(english, german)


class Grammar:
    """Draws random phrases and clauses."""

    def __init__(self, seed: int):
        self._random = random.Random(seed).random
        self._key = itertools.count().__next__

    def chance(self, probability: float) -> bool:
        return self._random() < probability

    def pick(self, options: Sequence):
        return options[int(self._random() * len(options))]

    # Words and noun phrases.

    def unit(self, english: str, german: str, field: str = "nom") -> Phrase:
        """Aligns two texts chunk by chunk; "|" separates chunks, "#i" names English chunk i."""
        source = [(chunk, self._key()) for chunk in english.split("|")]
        target = []
        for position, chunk in enumerate(german.split("|")):
            words, _, index = chunk.partition("#")
            target.append((words, source[int(index or position)][1]))
        tokens = (
            [Token(word, (key,)) for words, key in side for word in words.split()]
            for side in (source, target)
        )
        return Phrase(*tokens, field)

    def number(self, spread: int) -> tuple[str, str]:
        """Draws a number in both languages: words for 2 to 12, digits for 13 to 13 * spread."""
        if self.chance(0.6):
            return self.pick(lexicon.NUMERALS)
        digits = str(int(13 * spread ** self._random() ** 2))
        return digits, digits

    def name(self, syllables: Sequence[str]) -> str:
        first, middle, last = (self.pick(options.split()) for options in syllables)
        return first + middle + last if self.chance(0.8) else first + last

    def person_name(self, case: str) -> Phrase:
        name, draw = self.name(lexicon.PERSON_SYLLABLES), self._random()
        if draw < 0.15:
            return self.unit(f"Mr|{name}", f"{'Herr' if case == 'nom' else 'Herrn'}|{name}")
        if draw < 0.3:
            return self.unit(f"Mrs|{name}", f"Frau|{name}")
        if draw < 0.5:
            name += "|" + self.name(lexicon.PERSON_SYLLABLES)
        return self.unit(name, name)

    def determiner(self, row: lexicon.Determiner, number: int, case, gender, negation) -> Phrase:
        """A determiner and perhaps a numeral; negation turns "a" or nothing into "kein"."""
        word = row.english.split()[number].strip("-")
        ending = lexicon.ENDINGS[row.endings, case][gender]
        if negation is not None and row is lexicon.A:
            phrase = self.unit(word, "")
            keys = [key for token in negation.english + phrase.english for key in token.keys]
            phrase.german.append(Token("kein" + ending, tuple(keys)))
            return phrase
        phrase = self.unit(word, row.stem + ending if word else "")
        if number == 1 and self.chance(row.numeral_rate):
            return join(phrase, self.unit(*self.number(750)))
        return phrase

    def adjectives(self, kind: str, endings: dict[str, str], gender: str) -> list[Phrase]:
        """Draws no, one or two adjectives, in the usual order."""
        options = lexicon.ADJECTIVES[kind]
        half, draw = len(options) // 2, self._random()
        if draw < 0.07:
            chosen = [self.pick(options[:half]), self.pick(options[half:])]
        else:
            chosen = [self.pick(options)] if draw < 0.45 else []
        return [self.unit(en, de.removesuffix("e") + endings[gender]) for en, de in chosen]

    def noun_phrase(
        self, noun, case, determiners, *, plural=0.35, attributive=True, negation=None
    ) -> Phrase:
        """Determiner, numeral, adjectives (if `attributive`) and noun in agreement."""
        number = int(self.chance(plural)) if noun.english[1] else 2
        gender = "p" if number == 1 else noun.gender
        row = self.pick(determiners)
        while row.english.split()[number] == "x":
            row = self.pick(determiners)
        determiner = self.determiner(row, number, case, gender, negation)
        bare = row is lexicon.A and number > 0 and negation is None
        endings = lexicon.ENDINGS["strong" if bare else row.declension, case]
        german = noun.german[number == 1]
        if number == 1 and case == "dat" and german[-1] not in "ns":
            german += "n"
        elif number == 0 and noun.weak and case != "nom":
            german = noun.german[1]
        adjectives = self.adjectives(noun.kind, endings, gender) if attributive else []
        phrase = join(determiner, *adjectives, self.unit(noun.english[number == 1], german))
        if phrase.english[0].text == "a" and phrase.english[1].text[0] in "aeiou":
            phrase.english[0] = phrase.english[0]._replace(text="an")
        return phrase._replace(
            field=f"{case}-definite" if row.definite and case != "nom" else case,
            agreement=lexicon.PLURAL if number == 1 else lexicon.THIRD,
            gender=gender,
            kind=noun.kind,
            definite=row.definite,
        )

    def nominal(self, kinds, case, determiners, pronouns=lexicon.PRONOUNS, *, rate=0.2, **options):
        """A pronoun (with probability `rate` for persons), a name or a noun phrase."""
        kind = self.pick(kinds)
        if kind == "weather":
            return self.unit("it", "es")
        if kind == "city":
            name = self.name(lexicon.CITY_SYLLABLES)
            return self.unit(name, name)
        if kind == "person" and self.chance(rate):
            agreement, forms = self.pick(pronouns)
            subject, other, *german = forms.split()
            if case == "nom":
                return self.unit(subject, german[0])._replace(agreement=agreement)
            return self.unit(other, german[1 if case == "acc" else 2], f"{case}-pronoun")
        if kind == "person" and self.chance(0.3):
            field = case if case == "nom" else f"{case}-definite"
            return self.person_name(case)._replace(field=field)
        return self.noun_phrase(self.pick(lexicon.NOUNS[kind]), case, determiners, **options)

    # The parts of a clause.

    def prepositional(self, row: lexicon.Complement, phrase: Phrase, field: str) -> Phrase:
        whole = join(self.unit(row.english, row.german), phrase)._replace(field=field)
        first, second = whole.german[:2]
        contracted = lexicon.CONTRACTIONS.get(f"{first.text} {second.text}")
        if contracted:
            whole.german[:2] = [Token(contracted, first.keys + second.keys)]
        return whole

    def adverbial(self, role: str) -> Phrase:
        row = self.pick(lexicon.ADVERBIALS[role])
        phrase = self.nominal(row.kinds, row.role, (*lexicon.DEFINITE, lexicon.A), rate=0)
        return self.prepositional(row, phrase, role)

    def time(self, tense: str, habitual: bool) -> Phrase:
        key = lexicon.TENSES[tense].times
        key = "habit" if key == "present" and habitual and self.chance(0.35) else key
        english, german = self.number(5)
        year, hour = 1850 + int(170 * self._random()), 1 + int(12 * self._random())
        values = {"english": english, "german": german, "year": year, "hour": hour}
        return self.unit(*(text.format(**values) for text in self.pick(lexicon.TIMES[key])), "time")

    def modifier(self, subject: Phrase, tense: str, order: str) -> Phrase:
        """Negation or an adverb of frequency, where both languages give it the same scope."""
        if not subject.definite or order == "question" or tense in ("must", "infinitive"):
            return NOTHING
        if self.chance(0.15):
            return self.unit("not", "nicht", "negation")
        if tense in lexicon.SIMPLE_TENSES and self.chance(0.15):
            return self.unit(*self.pick(lexicon.FREQUENCIES), "frequency")
        return NOTHING

    def complements(self, verb, subject: Phrase, negation: Phrase | None) -> list[Phrase]:
        """The complements in English order; negation may turn the last object's "a" into "kein"."""
        reflexive = not subject.english or subject.english[0].text in ("I", "we")
        pronouns = lexicon.PRONOUNS[2:] if reflexive else lexicon.PRONOUNS
        phrases = []
        for row in verb.complements:
            if row.role == "predicate":
                phrases.append(self.unit(*self.pick(lexicon.ADJECTIVES[subject.kind]), "bound"))
            elif row.role in lexicon.ADVERBIALS:
                phrases.append(self.adverbial(row.role))
            elif row.role in ("acc", "dat"):
                last = row is verb.complements[-1]
                kein = negation if last and not row.german else None
                determiners = lexicon.AFFIRMATIVE if last and negation is None else lexicon.DEFINITE
                determiners = determiners if kein is None else lexicon.NEGATABLE
                phrase = self.nominal(row.kinds, row.role, determiners, pronouns, negation=kein)
                phrase = self.prepositional(row, phrase, "bound") if row.german else phrase
                phrases.append(phrase)
        return phrases

    def event(
        self, tense, kind="person", complement="", determiners=lexicon.AFFIRMATIVE, subject=None
    ):
        """A verb and its subject that go together in this tense."""
        verbs = lexicon.verbs_with(kind, complement)
        if tense not in lexicon.SIMPLE_TENSES:  # verbs of state take simple tenses only
            verbs = [verb for verb in verbs if verb.adjuncts]
        while True:
            verb = self.pick(verbs)
            attributive = complement != "predicate"  # no "cold bananas are hot"
            agent = subject or self.nominal(
                (kind,), "nom", determiners, rate=0.3, attributive=attributive
            )
            if subject is None and kind == "person" and self.chance(0.05):
                noun = self.noun_phrase(self.pick(lexicon.NOUNS[kind]), "nom", lexicon.DEFINITE)
                agent = join(noun, self.unit("and", "und"), self.person_name("nom"))
                agent = agent._replace(agreement=lexicon.PLURAL)
            forms = lexicon.FINITE_FORMS[verb.english[0]]
            if tense != "past" or forms[agent.agreement] != forms[3 + agent.agreement]:
                return verb, agent  # never a past that looks like the present: "they read"

    # Clauses.

    def clause(self, event, tense, *, order="main", rate=0.0, front=None, gap=False) -> Phrase:
        """Draws the rest of a clause and puts it in order.

        Args:
            event: the verb and its subject.
            tense: a key of `lexicon.TENSES`.
            order: "main" (verb second), "question" (English inverts too) or "final".
            rate: probability of each adjunct that the verb admits.
            front: a phrase that comes first; None: an adjunct of a main clause may come first.
            gap: whether `front` stands for the complement.

        Returns:
            The clause, with the features of its last noun phrase, so that a relative clause or a
            pronoun can refer to that noun. The gender is empty if the languages end differently.
        """
        verb, subject = event
        modifier = self.modifier(subject, tense, order)
        negation = modifier if modifier.field == "negation" else None
        middle = [] if gap else self.complements(verb, subject, negation)
        if any(phrase.german[0].text.startswith("kein") for phrase in middle):
            modifier = modifier._replace(german=[])
        adjuncts = [
            self.adverbial(role) if role != "time" else self.time(tense, negation is None)
            for role in verb.adjuncts
            if self.chance(rate) and not (role == "time" and modifier.field == "frequency")
        ]
        if adjuncts and order == "main" and front is None and self.chance(0.4):
            front = adjuncts.pop()
        middle += adjuncts
        keys = self._key(), self._key()
        constituents = Constituents(front or NOTHING, subject, middle, modifier)
        clause = _linearise(verb, tense, keys, order, constituents)
        if middle and middle[-1] is max(middle, key=lambda part: _FIELDS.index(part.field)):
            last = middle[-1]
            clause = clause._replace(agreement=last.agreement, gender=last.gender, kind=last.kind)
        return clause

    def tense(self, names: Sequence[str] = tuple(lexicon.TENSES)) -> str:
        return self.pick([name for name in names for _ in range(lexicon.TENSES[name].weight)])

    def statement(
        self, tense: str, rate=0.15, determiners=lexicon.AFFIRMATIVE, **options
    ) -> Phrase:
        kind, complement = "person", ""
        if tense in lexicon.FACTUAL_TENSES:
            kind = self.pick(lexicon.SUBJECTS)
        if tense in lexicon.SIMPLE_TENSES and self.chance(0.12):
            kind, complement = self.pick(("person", "animal", "text", "thing", "food")), "predicate"
        return self.clause(
            self.event(tense, kind, complement, determiners), tense, rate=rate, **options
        )
