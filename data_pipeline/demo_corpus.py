"""A demo corpus that the project writes itself: English to German, with true word alignments.

A small bilingual grammar draws sentence pairs that show what makes this language pair interesting:
verb-second and verb-final clauses, separable verbs, the bracket of perfect and modal verbs, case
and adjective agreement, "kein" and "nicht", do-support, compounds, numbers, and an open class of
names to copy. An English sentence determines its German one. Constituents are built in both
languages at once from tokens with link keys, so the alignment is exact however far a word moves.

Example:
    pair = generate(seed=1)["test"][0]
    print(pair.source, pair.target, pharaoh(pair.alignment), sep="\\n")
"""

import functools
import itertools
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

_MAX_TOKENS = 25  # of either side
_MAX_PAIRS = 1_000_000
_FIRST, _THIRD, _PLURAL = range(3)  # agreement: I; he, she, it; we, they


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


class _Noun(NamedTuple):
    english: tuple[str, str]  # singular, plural; no plural for mass nouns
    german: tuple[str, str]
    gender: str
    weak: bool  # the singular ends like the plural, except in the nominative
    kind: str


class _Determiner(NamedTuple):
    english: str  # before singular, plural and mass nouns; "-" no word, "x" never
    stem: str
    endings: str
    declension: str  # of the adjectives that follow
    numeral_rate: float = 0.0
    definite: bool = False


class _Complement(NamedTuple):
    english: str  # preposition or empty
    german: str
    role: str  # case, adverbial, "predicate" or a conjunction
    kinds: tuple[str, ...]


class _Verb(NamedTuple):
    english: tuple[str, ...]  # base, third person, past, participle
    particle: str  # "+up" follows a pronoun, "-for" precedes it
    german: tuple[str, ...]  # infinitive, third person, past: without prefix; participle: with
    prefix: str
    subjects: tuple[str, ...]
    complements: tuple[_Complement, ...]
    adjuncts: tuple[str, ...]  # none for states


class _Tense(NamedTuple):
    weight: int
    english: str  # helper verb or empty
    german: str
    past: bool
    times: str  # key of the time adverbials
    inner: str  # tense of a subordinate clause


# ------------------------------------------------------------------------------------- lexicon


def _pairs(table: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(entry.replace("_", " ").split("=")) for entry in table.split())


# "_" is a space, "/" precedes an irregular plural, "-" is none; der* marks weak masculines.
_NOUN_TABLE = {
    "person": """man/men der Mann Männer; woman/women die Frau Frauen; guest der Gast Gäste;
        child/children das Kind Kinder; boy der* Junge Jungen; girl das Mädchen Mädchen;
        teacher der Lehrer Lehrer; doctor der Arzt Ärzte; neighbour der* Nachbar Nachbarn;
        student der* Student Studenten; friend der Freund Freunde; aunt die Tante Tanten;
        grandmother die Großmutter Großmütter; son der Sohn Söhne; farmer der* Bauer Bauern;
        daughter die Tochter Töchter; queen die Königin Königinnen; cook der Koch Köche;
        bus_driver der Busfahrer Busfahrer; police_officer der* Polizist Polizisten""",
    "animal": """dog der Hund Hunde; cat die Katze Katzen; horse das Pferd Pferde;
        bird der Vogel Vögel; cow die Kuh Kühe; pig das Schwein Schweine; goat die Ziege Ziegen;
        mouse/mice die Maus Mäuse; polar_bear der* Eisbär Eisbären;
        guinea_pig das Meerschweinchen Meerschweinchen""",
    "food": """apple der Apfel Äpfel; egg das Ei Eier; banana die Banane Bananen;
        potato die Kartoffel Kartoffeln; roll das Brötchen Brötchen; sausage die Wurst Würste;
        bread/- das Brot -; cheese/- der Käse -; soup/- die Suppe -; meat/- das Fleisch -;
        rice/- der Reis -; tomato_soup/- die Tomatensuppe -""",
    "drink": """milk/- die Milch -; water/- das Wasser -; coffee/- der Kaffee -; tea/- der Tee -;
        beer/- das Bier -; orange_juice/- der Orangensaft -""",
    "text": """book das Buch Bücher; letter der Brief Briefe; poem das Gedicht Gedichte;
        newspaper die Zeitung Zeitungen; novel der Roman Romane; story die Geschichte Geschichten;
        fairy_tale das Märchen Märchen; love_letter der Liebesbrief Liebesbriefe""",
    "thing": """key der Schlüssel Schlüssel; clock die Uhr Uhren; bag die Tasche Taschen;
        picture das Bild Bilder; knife/knives das Messer Messer; ball der Ball Bälle;
        umbrella der Regenschirm Regenschirme; lamp die Lampe Lampen; gift das Geschenk Geschenke;
        coffee_cup die Kaffeetasse Kaffeetassen; kitchen_table der Küchentisch Küchentische""",
    "garment": """coat der Mantel Mäntel; shirt das Hemd Hemden; dress das Kleid Kleider;
        hat der Hut Hüte; jacket die Jacke Jacken; winter_coat der Wintermantel Wintermäntel""",
    "vehicle": """car das Auto Autos; bicycle das Fahrrad Fahrräder; train der Zug Züge;
        ship das Schiff Schiffe; bus der Bus Busse; ferry die Fähre Fähren""",
    "place": """house das Haus Häuser; school die Schule Schulen; shop der Laden Läden;
        library die Bibliothek Bibliotheken; museum das Museum Museen; hotel das Hotel Hotels;
        church die Kirche Kirchen; garden der Garten Gärten; forest der Wald Wälder;
        park der Park Parks; village das Dorf Dörfer; living_room das Wohnzimmer Wohnzimmer;
        town_hall das Rathaus Rathäuser; train_station der Bahnhof Bahnhöfe""",
    "tree": "tree der Baum Bäume; apple_tree der Apfelbaum Apfelbäume; rose die Rose Rosen",
}
_ADJECTIVE_TABLE = {  # in the usual English order; one of each half go together
    "person": """friendly=freundlich clever=klug rich=reich poor=arm happy=glücklich sad=traurig
        famous=berühmt hungry=hungrig tired=müde sick=krank young=jung old=alt""",
    "animal": """beautiful=schön small=klein big=groß hungry=hungrig tired=müde young=jung old=alt
        black=schwarz white=weiß brown=braun""",
    "food,drink": "good=gut cheap=billig fresh=frisch hot=heiß warm=warm cold=kalt",
    "text": """beautiful=schön interesting=interessant boring=langweilig famous=berühmt long=lang
        short=kurz new=neu old=alt""",
    "thing": """beautiful=schön cheap=billig small=klein big=groß heavy=schwer new=neu old=alt
        red=rot blue=blau green=grün""",
    "garment": """beautiful=schön cheap=billig long=lang short=kurz warm=warm new=neu old=alt
        red=rot blue=blau black=schwarz""",
    "vehicle": "beautiful=schön small=klein big=groß fast=schnell slow=langsam new=neu old=alt",
    "place": "beautiful=schön famous=berühmt quiet=ruhig small=klein big=groß new=neu old=alt",
    "tree": "beautiful=schön small=klein old=alt green=grün",
}

# Subjects | complements | adjuncts: English and German verbs with their irregular principal parts.
# Complements are role=kinds or english/german/case=kinds. "+" joins a separable prefix or a
# particle that pronouns precede, "-" a fixed particle; "ist_" marks perfects with "sein".
_VERB_TABLE = {
    "weather | | time": "rain = regnen regnet regnete geregnet; snow = schneien",
    "person,animal,text,thing,food | predicate |": "be was been = sein",
    "person,animal,thing | location |": "be was been = sein",
    "person | that | time": "say said said = sagen; believe = glauben; hope = hoffen",
    "person | whether | time": "ask = fragen",
    "person | that |": "know knew known = wissen weiß wusste gewusst",
    "person | whether |": "know knew known = wissen weiß wusste gewusst",
    "person | to | time": """try = versuchen; promise = versprechen verspricht versprach
        versprochen; forget forgot forgotten = vergessen vergisst vergaß vergessen""",
    "person,animal | | location time": "sleep slept slept = schlafen schläft schlief geschlafen",
    "person | | company location time": """work = arbeiten; dance = tanzen;
        sing sang sung = singen singt sang gesungen""",
    "person | | company time": """get-up got got = auf+stehen steht stand ist_aufgestanden;
        come-back came come = zurück+kommen kommt kam ist_zurückgekommen;
        fall-asleep fell fallen = ein+schlafen schläft schlief ist_eingeschlafen""",
    "person,vehicle | | time": "arrive = an+kommen kommt kam ist_angekommen",
    "person,thing,garment | | time": """disappear = verschwinden verschwindet verschwand
        ist_verschwunden""",
    "person | location | company": "live = wohnen",
    "person,animal | location | time": "stay = bleiben bleibt blieb ist_geblieben",
    "person,animal | direction | time": """go went gone = gehen geht ging ist_gegangen;
        run ran run = laufen läuft lief ist_gelaufen""",
    "person | journey | company time": """drive drove driven = fahren fährt fuhr ist_gefahren;
        fly flew flown = fliegen fliegt flog ist_geflogen;
        move = um+ziehen zieht zog ist_umgezogen""",
    "person | acc=goods,vehicle | location time": """buy bought bought = kaufen;
        sell sold sold = verkaufen""",
    "person | acc=goods | time": """lose lost lost = verlieren verliert verlor verloren;
        bring+along brought brought = mit+bringen bringt brachte mitgebracht""",
    "person | acc=text | location time": """read read read = lesen liest las gelesen;
        write wrote written = schreiben schreibt schrieb geschrieben""",
    "person | acc=food | company location time": "eat ate eaten = essen isst aß gegessen",
    "person | acc=drink | location time": "drink drank drunk = trinken trinkt trank getrunken",
    "person | acc=thing,animal | location time": """look-for = suchen;
        find found found = finden findet fand gefunden""",
    "person,animal | acc=person,animal,tree | location time": """watch = beobachten;
        see saw seen = sehen sieht sah gesehen""",
    "person | acc=person | time": """meet met met = treffen trifft traf getroffen;
        pick+up = ab+holen; invite = ein+laden lädt lud eingeladen;
        call = an+rufen ruft rief angerufen""",
    "person | acc=person,place | company time": "visit = besuchen",
    "person | acc=person,animal,place |": """love = lieben;
        know knew known = kennen kennt kannte gekannt""",
    "person | acc=thing,vehicle |": "need = brauchen",
    "person | acc=vehicle | time": "repair = reparieren",
    "person | acc=garment | time": """wear wore worn = tragen trägt trug getragen;
        put+on put put = an+ziehen zieht zog angezogen;
        take+off took taken = aus+ziehen zieht zog ausgezogen""",
    "person | acc=animal | location time": "feed fed fed = füttern",
    "person | acc=person,text,thing | time": "look-at = an+sehen sieht sah angesehen",
    "person | dat=person | time": """thank = danken; answer = antworten; listen-to = zu+hören;
        help = helfen hilft half geholfen""",
    "person,animal | dat=person,animal | time": "follow = folgen folgt folgte ist_gefolgt",
    "thing,garment,vehicle | dat=person |": "belong-to = gehören",
    "person | dat=person acc=goods | time": """give gave given = geben gibt gab gegeben;
        show showed shown = zeigen; send sent sent = schicken""",
    "person | for/auf/acc=person,vehicle | location time": "wait = warten",
    "person | of/an/acc=person,animal | time": """think thought thought = denken denkt dachte
        gedacht""",
    "person | about/über/acc=person,text | location time": """talk = sprechen spricht sprach
        gesprochen""",
    "person | of/von/dat=person,animal,food | time": "dream = träumen",
    "person,animal | with/mit/dat=animal | location time": "play = spielen",
}
_GOODS = "food,text,thing,garment"
# Present and past for I, he and we, where the principal parts do not tell.
_IRREGULAR_TABLE = """be: am is are was was were; have: have has have; do: do does do did did did;
    want: want wants want wanted wanted wanted; can: can can can could could could; to: to to to;
    must: must must must; will: will will will; should: should should should; zu: zu zu zu;
    sein: bin ist sind war war waren; haben: habe hat haben; werden: werde wird werden;
    können: kann kann können konnte konnte konnten; müssen: muss muss müssen;
    wollen: will will wollen wollte wollte wollten; sollen: sollte sollte sollten"""
_ENDING_TABLE = {  # masculine, feminine, neuter and plural; "-" is none
    "definite": {"nom": "er ie as ie", "acc": "en ie as ie", "dat": "em er em en"},
    "ein": {"nom": "- e - e", "acc": "en e - e", "dat": "em er em en"},
    "strong": {"nom": "er e es e", "acc": "en e es e", "dat": "em er em en"},
    "mixed": {"nom": "er e es en", "acc": "en e es en", "dat": "en en en en"},
    "weak": {"nom": "e e e en", "acc": "en e e en", "dat": "en en en en"},
}
_PRONOUNS = (  # agreement; English subject and object; German nominative, accusative, dative
    (_FIRST, "I me ich mich mir"),
    (_PLURAL, "we us wir uns uns"),
    (_THIRD, "he him er ihn ihm"),
    (_THIRD, "she her sie sie ihr"),
    (_PLURAL, "they them sie sie ihnen"),
)
_ANAPHORS = {"m": "er", "f": "sie", "n": "es", "p": "sie"}
_A = _Determiner("a - -", "ein", "ein", "mixed", 0.4)
_NO = _Determiner("no no no", "kein", "ein", "mixed")
_WHICH = _Determiner("which which which", "welch", "strong", "weak")
_HOW_MANY = _Determiner("x how|many x", "wie|viel", "strong", "strong")
_DEFINITE = (
    *5 * [_Determiner("the the the", "d", "definite", "weak", 0.06, definite=True)],
    _Determiner("this these this", "dies", "strong", "weak", 0.06, definite=True),
    *(
        _Determiner(f"{english} {english} {english}", german, "ein", "mixed", 0.06, definite=True)
        for english, german in _pairs("my=mein our=unser his=sein her=ihr their=ihr")
    ),
)
_AFFIRMATIVE = (
    *_DEFINITE,
    *6 * [_A],
    _Determiner("every x x", "jed", "strong", "weak"),
    _Determiner("x many x", "viel", "strong", "strong"),
    _Determiner("x some x", "einig", "strong", "strong"),
)
_NEGATABLE = (*_DEFINITE, *10 * [_A])  # in negated clauses; "not a" becomes "kein"
_CONTRACTION_TABLE = "in_dem=im in_das=ins zu_dem=zum zu_der=zur von_dem=vom"
_ADVERBIAL_TABLE = {  # english/german/case=kinds
    "location": """in/in/dat=city in/in/dat=place behind/hinter/dat=place,tree
        in_front_of/vor/dat=place next_to/neben/dat=place,tree""",
    "direction": "into/in/acc=place to/zu/dat=place through/durch/acc=place",
    "journey": "to/nach/dat=city",
    "company": "with/mit/dat=person,animal without/ohne/acc=person,animal",
}
_FREQUENCY_TABLE = "often=oft always=immer never=nie seldom=selten sometimes=manchmal"
# "|" separates aligned chunks; "#i" aligns a German chunk with English chunk i.
_TIME_TABLE = {
    "present": "today=heute; now=jetzt; in the|evening=am|Abend; at|{hour}|o'clock=um|{hour}|Uhr",
    "habit": "every|day=jeden|Tag; every|morning=jeden|Morgen; every|week=jede|Woche",
    "past": """yesterday=gestern; last|week=letzte|Woche; last|year=letztes|Jahr;
        last|summer=letzten|Sommer; on|Monday=am|Montag; on|Friday=am|Freitag;
        in|{year}=im Jahr|{year}; {english}|years|ago=vor#2|{german}#0|Jahren#1;
        {english}|days|ago=vor#2|{german}#0|Tagen#1""",
    "perfect": "today=heute; this|week=diese|Woche; this|morning=heute|Morgen",
    "future": """tomorrow=morgen; next|week=nächste|Woche; next|year=nächstes|Jahr;
        on|Sunday=am|Sonntag; at|{hour}|o'clock=um|{hour}|Uhr;
        in|{english}|days=in|{german}|Tagen; in|{english}|weeks=in|{german}|Wochen""",
}
_NUMERAL_TABLE = """two=zwei three=drei four=vier five=fünf six=sechs seven=sieben eight=acht
    nine=neun ten=zehn eleven=elf twelve=zwölf"""
_TENSES = {
    "present": _Tense(34, "", "", False, "present", "present"),
    "past": _Tense(30, "", "", True, "past", "past"),
    "perfect": _Tense(13, "have", "haben", False, "perfect", "perfect"),
    "future": _Tense(5, "will", "werden", False, "future", "present"),
    "can": _Tense(4, "can", "können", False, "future", "present"),
    "could": _Tense(3, "can", "können", True, "past", "past"),
    "must": _Tense(3, "must", "müssen", False, "future", "present"),
    "should": _Tense(3, "should", "sollen", False, "future", "present"),
    "want": _Tense(4, "want to", "wollen", False, "future", "present"),
    "wanted": _Tense(2, "want to", "wollen", True, "past", "past"),
    "infinitive": _Tense(0, "to", "zu", False, "future", "present"),
}
_SIMPLE, _FACTUAL = ("present", "past"), ("present", "past", "perfect")
_CONJUNCTION_TABLE = {
    "present": "because=weil although=obwohl when=wenn if=wenn while=während as_soon_as=sobald",
    "past": "because=weil although=obwohl when=als while=während before=bevor as_soon_as=sobald",
    "perfect": "because=weil although=obwohl",
}
_PERSON_SYLLABLES = (
    "Al Be Da El Fa Ga Ha Il Jo Ka La Ma No Or Pe Ro Sa Ta Ul Vi Wen Ya Ze",
    "bi da fe gu ka le lo mi na po ri ro sa ti to va vu wi zo",
    "bin dra fin la lin mar nek nia ra ric ron sha tus vid wen",
)
_CITY_SYLLABLES = (
    "Ar Bel Cor Dun El Fal Gor Hel Kar Lin Mor Nor Or Pel Ros Sel Tar Ul Vel Wil",
    "a da e i la lo mi na o ra ri ta te u va",
    "berg borg fels ford gard haven mark mond mont port stad stein vik wald",
)


def _softened(word: str) -> str:
    """Writes a final y after a consonant as "ie", as English endings ask."""
    return word[:-1] + "ie" if word.endswith("y") and word[-2] not in "aeou" else word


def _with_s(word: str) -> str:
    return _softened(word) + ("es" if word.endswith(("s", "sh", "ch", "o")) else "s")


def _noun(kind: str, row: str) -> _Noun:
    english, article, *german = row.split()
    singular, _, plural = english.replace("_", " ").partition("/")
    plural = "" if plural == "-" else plural or _with_s(singular)
    gender = {"der": "m", "die": "f", "das": "n"}[article.rstrip("*")]
    return _Noun((singular, plural), tuple(german), gender, article.endswith("*"), kind)


def _complement(text: str) -> _Complement:
    head, _, kinds = text.replace("goods", _GOODS).partition("=")
    *prepositions, role = head.replace("_", " ").split("/")
    return _Complement(*(prepositions or ("", "")), role, tuple(kinds.split(",")))


def _weak_forms(infinitive: str, prefix: str) -> tuple[str, ...]:
    stem = infinitive.removesuffix("n").removesuffix("e")
    third = stem + ("et" if stem.endswith(("t", "d")) else "t")
    unstressed = stem.startswith(("be", "ge", "ver")) or stem.endswith("ier")
    return infinitive, third, third + "e", prefix + ("" if unstressed else "ge") + third


def _verb(frame: str, row: str) -> _Verb:
    subjects, complements, adjuncts = (field.split() for field in frame.split("|"))
    english, german = (side.split() for side in row.split("="))
    base = english[0].replace("+", "-").split("-")[0]
    regular = _softened(base).removesuffix("e") + "ed"
    prefix, _, infinitive = german[0].rpartition("+")
    return _Verb(
        english=(base, _with_s(base), *(english[1:] or (regular, regular))),
        particle=english[0].removeprefix(base),
        german=(infinitive, *(german[1:] or _weak_forms(infinitive, prefix)[1:])),
        prefix=prefix,
        subjects=tuple(subjects[0].split(",")),
        complements=tuple(map(_complement, complements)),
        adjuncts=tuple(adjuncts),
    )


def _finite_forms(verbs: Iterable[_Verb]) -> dict[str, list[str]]:
    """Maps English and German verbs to their present and past for I, he and we."""
    forms = {}
    for verb in verbs:
        base, third, past, _ = verb.english
        forms[base] = [base, third, base, past, past, past]
        infinitive, third, past, _ = verb.german
        # Only a preterite-present such as "ich weiß, er weiß" has no -t.
        stem = infinitive.removesuffix("n").removesuffix("e")
        first = stem + "e" if third.endswith("t") else third
        plural = past + ("n" if past.endswith("e") else "en")
        forms[infinitive] = [first, third, infinitive, past, past, plural]
    irregular = (entry.split(":") for entry in _IRREGULAR_TABLE.split(";"))
    return forms | {lemma.strip(): row.split() for lemma, row in irregular}


_NOUNS = {
    kind: tuple(_noun(kind, row) for row in table.split(";")) for kind, table in _NOUN_TABLE.items()
}
_VERBS = tuple(_verb(frame, row) for frame in _VERB_TABLE for row in _VERB_TABLE[frame].split(";"))
_FORMS = _finite_forms(_VERBS)
_ADJECTIVES = {
    kind: _pairs(table) for kinds, table in _ADJECTIVE_TABLE.items() for kind in kinds.split(",")
}
_ENDINGS = {
    (name, case): dict(zip("mfnp", (ending.strip("-") for ending in row.split()), strict=True))
    for name, rows in _ENDING_TABLE.items()
    for case, row in rows.items()
}
_ADVERBIALS = {
    role: tuple(map(_complement, table.split())) for role, table in _ADVERBIAL_TABLE.items()
}
_TIMES = {
    key: [row.strip().split("=") for row in table.split(";")] for key, table in _TIME_TABLE.items()
}
_CONJUNCTIONS = {tense: _pairs(table) for tense, table in _CONJUNCTION_TABLE.items()}
_CONTRACTIONS = dict(_pairs(_CONTRACTION_TABLE))
_FREQUENCIES, _NUMERALS = _pairs(_FREQUENCY_TABLE), _pairs(_NUMERAL_TABLE)
_SUBJECTS = 30 * ("person",) + 3 * ("animal",) + ("thing", "garment", "vehicle", "weather")


# ------------------------------------------------------------------------------------- grammar

# The German middle field, from the left to the right sentence bracket.
_FIELD_TABLE = """nom acc-pronoun dat-pronoun time dat-definite acc-definite frequency negation
    company location dat acc direction journey bound"""
_FIELDS = _FIELD_TABLE.split()


class _Token(NamedTuple):
    """A word; an English and a German word that share a key are aligned."""

    text: str
    keys: tuple[int, ...] = ()


class _Phrase(NamedTuple):
    """A constituent in both languages, with the features that others agree with or refer to."""

    english: list[_Token]
    german: list[_Token]
    field: str = "nom"
    agreement: int = _THIRD
    gender: str = ""  # m, f, n or p for plural; empty unless a noun phrase
    kind: str = "person"
    definite: bool = True


@functools.cache
def _verbs(subject: str, complement: str = "") -> tuple[_Verb, ...]:
    """Verbs by the kind of their subject and the role or kind of their only, bare complement."""

    def admits(verb: _Verb) -> bool:
        names = {name for row in verb.complements for name in (row.role, *row.kinds)}
        if not complement:
            return not names & {"predicate", "that", "whether", "to"}
        return complement in names and len(verb.complements) == 1 and not verb.complements[0].german

    return tuple(verb for verb in _VERBS if subject in verb.subjects and admits(verb))


def _join(*phrases: _Phrase) -> _Phrase:
    """Concatenates phrases on both sides; the last one gives the features."""
    english = [token for phrase in phrases for token in phrase.english]
    german = [token for phrase in phrases for token in phrase.german]
    return phrases[-1]._replace(english=english, german=german)


_NOTHING = _Phrase([], [])
_COMMA = _Phrase([], [_Token(",")])  # one that only German has


def _english_verbs(verb, tense, agreement, keys, question, modifier: _Phrase) -> list[_Token]:
    """The verb forms with do-support, and "not" or an adverb among them."""
    row, (main, key) = _TENSES[tense], keys
    lemma, *link = (row.english or verb.english[0]).split()
    rest = [_Token(word, (key,)) for word in link]
    if row.english:
        rest.append(_Token(verb.english[3 if tense == "perfect" else 0], (main,)))
    else:
        key = main
    lexical = bool(link) or (not row.english and lemma != "be")
    negated = modifier.field == "negation"
    if lexical and (question or negated):
        rest.insert(0, _Token(lemma, (key,)))
        lemma, lexical = "do", False
    finite = _Token(_FORMS[lemma][3 * row.past + agreement], (key,))
    if negated and finite.text == "can":
        return [_Token("cannot", (key, *modifier.english[0].keys)), *rest]
    if lexical:
        return [*modifier.english, finite, *rest]
    return [finite, *modifier.english, *rest]


def _german_verbs(verb, tense, agreement, keys) -> tuple[_Token, list[_Token], list[_Token]]:
    """The finite verb, the right bracket, and both of them at the end of a clause."""
    row, (main, helper) = _TENSES[tense], keys
    lemma, nonfinite = row.german or verb.german[0], verb.prefix + verb.german[0]
    if tense == "perfect":
        lemma = "sein" if verb.german[3].startswith("ist_") else "haben"
        nonfinite = verb.german[3].removeprefix("ist_")
    form = _FORMS[lemma][3 * row.past + agreement]
    if not row.german:
        bracket = [_Token(verb.prefix, (main,))] if verb.prefix else []
        return _Token(form, (main,)), bracket, [_Token(verb.prefix + form, (main,))]
    finite, bracket = _Token(form, (helper,)), [_Token(nonfinite, (main,))]
    if tense != "infinitive":
        return finite, bracket, [*bracket, finite]
    if verb.prefix:
        return finite, bracket, [_Token(verb.prefix + form + verb.german[0], (helper, main))]
    return finite, bracket, [finite, *bracket]


def _linearise(verb, tense, keys, order, front, subject, middle, modifier) -> _Phrase:
    """Orders a clause in each language; `middle` is in English order, German sorts by field."""
    question, agreement = order == "question", subject.agreement
    forms = _english_verbs(verb, tense, agreement, keys, question, modifier)
    particle = _Phrase([_Token(verb.particle[1:], keys[:1])] if verb.particle else [], [])
    shift = verb.particle[:1] == "+" and bool(middle) and middle[0].field.endswith("pronoun")
    english = [*front.english, *forms[:question], *subject.english, *forms[question:]]
    english += _join(*middle[:shift], particle, *middle[shift:]).english
    finite, bracket, end = _german_verbs(verb, tense, agreement, keys)
    field = _join(*sorted([*middle, modifier], key=lambda part: _FIELDS.index(part.field))).german
    if order == "final":
        german = [*front.german, *subject.german, *field, *end]
    elif question or front.german:
        german = [*front.german, finite, *subject.german, *field, *bracket]
    else:
        german = [*subject.german, finite, *field, *bracket]
    return _Phrase(english, german)


class _Grammar:
    """Draws random sentences."""

    def __init__(self, seed: int):
        self._random = random.Random(seed).random
        self._key = itertools.count().__next__

    def chance(self, probability: float) -> bool:
        return self._random() < probability

    def pick(self, options: Sequence):
        return options[int(self._random() * len(options))]

    # Words and noun phrases.

    def unit(self, english: str, german: str, field: str = "nom") -> _Phrase:
        """Links two texts; "|" separates aligned chunks, "#i" names another English chunk."""
        source = [(chunk, self._key()) for chunk in english.split("|")]
        target = []
        for position, chunk in enumerate(german.split("|")):
            words, _, index = chunk.partition("#")
            target.append((words, source[int(index or position)][1]))
        tokens = (
            [_Token(word, (key,)) for words, key in side for word in words.split()]
            for side in (source, target)
        )
        return _Phrase(*tokens, field)

    def number(self, spread: int) -> tuple[str, str]:
        """English and German number: words from two to twelve, digits from 13 to 13 * spread."""
        if self.chance(0.6):
            return self.pick(_NUMERALS)
        digits = str(int(13 * spread ** self._random() ** 2))
        return digits, digits

    def name(self, syllables: Sequence[str]) -> str:
        first, middle, last = (self.pick(options.split()) for options in syllables)
        return first + middle + last if self.chance(0.8) else first + last

    def person_name(self, case: str) -> _Phrase:
        name, draw = self.name(_PERSON_SYLLABLES), self._random()
        if draw < 0.15:
            return self.unit(f"Mr|{name}", f"{'Herr' if case == 'nom' else 'Herrn'}|{name}")
        if draw < 0.3:
            return self.unit(f"Mrs|{name}", f"Frau|{name}")
        if draw < 0.5:
            name += "|" + self.name(_PERSON_SYLLABLES)
        return self.unit(name, name)

    def determiner(self, row: _Determiner, number: int, case, gender, negation) -> _Phrase:
        """A determiner and perhaps a numeral; negation turns "a" or nothing into "kein"."""
        word = row.english.split()[number].strip("-")
        if negation is not None and row is _A:
            phrase = self.unit(word, "")
            keys = [key for token in negation.english + phrase.english for key in token.keys]
            phrase.german.append(_Token("kein" + _ENDINGS["ein", case][gender], tuple(keys)))
            return phrase
        phrase = self.unit(word, row.stem + _ENDINGS[row.endings, case][gender] if word else "")
        if number == 1 and self.chance(row.numeral_rate):
            return _join(phrase, self.unit(*self.number(750)))
        return phrase

    def adjectives(self, kind: str, endings: dict[str, str], gender: str) -> list[_Phrase]:
        """None, one or two adjectives in the usual order."""
        options = _ADJECTIVES[kind]
        half, draw = len(options) // 2, self._random()
        if draw < 0.07:
            chosen = [self.pick(options[:half]), self.pick(options[half:])]
        else:
            chosen = [self.pick(options)] if draw < 0.45 else []
        return [self.unit(en, de.removesuffix("e") + endings[gender]) for en, de in chosen]

    def noun_phrase(
        self, noun, case, determiners, *, plural=0.35, attributive=True, negation=None
    ) -> _Phrase:
        """Determiner, numeral, adjectives (if `attributive`) and noun in agreement."""
        number = int(self.chance(plural)) if noun.english[1] else 2
        gender = "p" if number == 1 else noun.gender
        row = self.pick(determiners)
        while row.english.split()[number] == "x":
            row = self.pick(determiners)
        determiner = self.determiner(row, number, case, gender, negation)
        bare = row is _A and number > 0 and negation is None
        endings = _ENDINGS["strong" if bare else row.declension, case]
        german = noun.german[number == 1]
        if number == 1 and case == "dat" and german[-1] not in "ns":
            german += "n"
        elif number == 0 and noun.weak and case != "nom":
            german = noun.german[1]
        adjectives = self.adjectives(noun.kind, endings, gender) if attributive else []
        phrase = _join(determiner, *adjectives, self.unit(noun.english[number == 1], german))
        if phrase.english[0].text == "a" and phrase.english[1].text[0] in "aeiou":
            phrase.english[0] = phrase.english[0]._replace(text="an")
        return phrase._replace(
            field=f"{case}-definite" if row.definite and case != "nom" else case,
            agreement=_PLURAL if number == 1 else _THIRD,
            gender=gender,
            kind=noun.kind,
            definite=row.definite,
        )

    def nominal(self, kinds, case, determiners, pronouns=_PRONOUNS, *, rate=0.2, **options):
        """A pronoun (with probability `rate` for persons), a name or a noun phrase."""
        kind = self.pick(kinds)
        if kind == "weather":
            return self.unit("it", "es")
        if kind == "city":
            name = self.name(_CITY_SYLLABLES)
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
        return self.noun_phrase(self.pick(_NOUNS[kind]), case, determiners, **options)

    # The parts of a clause.

    def prepositional(self, row: _Complement, phrase: _Phrase, field: str) -> _Phrase:
        whole = _join(self.unit(row.english, row.german), phrase)._replace(field=field)
        first, second = whole.german[:2]
        contracted = _CONTRACTIONS.get(f"{first.text} {second.text}")
        if contracted:
            whole.german[:2] = [_Token(contracted, first.keys + second.keys)]
        return whole

    def adverbial(self, role: str) -> _Phrase:
        row = self.pick(_ADVERBIALS[role])
        phrase = self.nominal(row.kinds, row.role, (*_DEFINITE, _A), rate=0)
        return self.prepositional(row, phrase, role)

    def time(self, tense: str, habitual: bool) -> _Phrase:
        key = _TENSES[tense].times
        key = "habit" if key == "present" and habitual and self.chance(0.35) else key
        english, german = self.number(5)
        year, hour = 1850 + int(170 * self._random()), 1 + int(12 * self._random())
        values = {"english": english, "german": german, "year": year, "hour": hour}
        return self.unit(*(text.format(**values) for text in self.pick(_TIMES[key])), "time")

    def modifier(self, subject: _Phrase, tense: str, order: str) -> _Phrase:
        """Negation or an adverb of frequency, where both languages give it the same scope."""
        if not subject.definite or order == "question" or tense in ("must", "infinitive"):
            return _NOTHING
        if self.chance(0.15):
            return self.unit("not", "nicht", "negation")
        if tense in _SIMPLE and self.chance(0.15):
            return self.unit(*self.pick(_FREQUENCIES), "frequency")
        return _NOTHING

    def complements(self, verb, subject: _Phrase, negation: _Phrase | None) -> list[_Phrase]:
        """The complements in English order; a negated last object may say "kein"."""
        reflexive = not subject.english or subject.english[0].text in ("I", "we")
        pronouns = _PRONOUNS[2:] if reflexive else _PRONOUNS
        phrases = []
        for row in verb.complements:
            if row.role == "predicate":
                phrases.append(self.unit(*self.pick(_ADJECTIVES[subject.kind]), "bound"))
            elif row.role in _ADVERBIALS:
                phrases.append(self.adverbial(row.role))
            elif row.role in ("acc", "dat"):
                last = row is verb.complements[-1]
                kein = negation if last and not row.german else None
                determiners = _AFFIRMATIVE if last and negation is None else _DEFINITE
                determiners = determiners if kein is None else _NEGATABLE
                phrase = self.nominal(row.kinds, row.role, determiners, pronouns, negation=kein)
                phrase = self.prepositional(row, phrase, "bound") if row.german else phrase
                phrases.append(phrase)
        return phrases

    def event(self, tense, kind="person", complement="", determiners=_AFFIRMATIVE, subject=None):
        """A verb and its subject that go together in this tense."""
        verbs = _verbs(kind, complement)
        if tense not in _SIMPLE:  # states stay simple
            verbs = [verb for verb in verbs if verb.adjuncts]
        while True:
            verb = self.pick(verbs)
            attributive = complement != "predicate"  # no "cold bananas are hot"
            agent = subject or self.nominal(
                (kind,), "nom", determiners, rate=0.3, attributive=attributive
            )
            if subject is None and kind == "person" and self.chance(0.05):
                noun = self.noun_phrase(self.pick(_NOUNS[kind]), "nom", _DEFINITE)
                agent = _join(noun, self.unit("and", "und"), self.person_name("nom"))
                agent = agent._replace(agreement=_PLURAL)
            forms = _FORMS[verb.english[0]]
            if tense != "past" or forms[agent.agreement] != forms[3 + agent.agreement]:
                return verb, agent  # never a past that looks present: "they read"

    # Clauses.

    def clause(self, event, tense, *, order="main", rate=0.0, front=None, gap=False) -> _Phrase:
        """Draws the rest of a clause and puts it in order.

        Args:
            event: the verb and its subject.
            tense: a key of `_TENSES`.
            order: "main" (verb second), "question" (English inverts too) or "final".
            rate: probability of each adjunct that the verb admits.
            front: a phrase that comes first; without it an adjunct of a main clause may.
            gap: whether `front` stands for the complement.

        Returns:
            The clause. Its features are those of its last noun phrase, so that a relative clause
            or a pronoun can refer to it; the gender is empty if the languages end differently.
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
        clause = _linearise(verb, tense, keys, order, front or _NOTHING, subject, middle, modifier)
        if middle and middle[-1] is max(middle, key=lambda part: _FIELDS.index(part.field)):
            last = middle[-1]
            clause = clause._replace(agreement=last.agreement, gender=last.gender, kind=last.kind)
        return clause

    def tense(self, names: Sequence[str] = tuple(_TENSES)) -> str:
        return self.pick([name for name in names for _ in range(_TENSES[name].weight)])

    def statement(self, tense: str, rate=0.15, determiners=_AFFIRMATIVE, **options) -> _Phrase:
        kind, complement = self.pick(_SUBJECTS) if tense in _FACTUAL else "person", ""
        if tense in _SIMPLE and self.chance(0.12):
            kind, complement = self.pick(("person", "animal", "text", "thing", "food")), "predicate"
        return self.clause(
            self.event(tense, kind, complement, determiners), tense, rate=rate, **options
        )

    def relative(self, phrase: _Phrase, tense: str) -> _Phrase:
        """Adds a relative clause on the last noun of a phrase, between commas in German."""
        human = phrase.kind == "person"
        tense = "past" if _TENSES[tense].past else self.tense(_FACTUAL)
        if phrase.kind == "animal" or (human and self.chance(0.5)):
            german = "d" + _ENDINGS["definite", "nom"][phrase.gender]
            pronoun = self.unit("who" if human else "that", german)
            pronoun = pronoun._replace(agreement=phrase.agreement, kind=phrase.kind)
            event = self.event(tense, phrase.kind, subject=pronoun)
            clause = self.clause(event, tense, order="final", rate=0.2)
        else:
            event = self.event(tense, "person", phrase.kind, _DEFINITE)
            german = "d" + _ENDINGS["definite", event[0].complements[0].role][phrase.gender]
            german = "denen" if german == "den" and phrase.gender == "p" else german
            front = self.unit("whom" if human else "that", german)
            clause = self.clause(event, tense, order="final", front=front, gap=True)
        whole = _join(phrase, _COMMA, clause, _COMMA)
        return phrase._replace(english=whole.english, german=whole.german)

    # Sentences.

    def simple(self) -> _Phrase:
        """One main clause; some have a relative clause or a reason that says "it"."""
        tense = self.tense()
        if self.chance(0.12):
            verb, subject = self.event(tense)
            subject = self.relative(subject, tense) if subject.gender else subject
            return self.clause((verb, subject), tense, rate=0.2)
        clause = self.statement(tense, 0.35, (*_AFFIRMATIVE, _NO))
        if clause.gender and self.chance(0.2):
            return self.relative(clause, tense)
        if clause.gender and clause.kind not in ("person", "animal") and self.chance(0.2):
            return self.reason(clause, "past" if _TENSES[tense].past else "present")
        return clause

    def reason(self, clause: _Phrase, tense: str) -> _Phrase:
        """Adds "because it is red": the German pronoun has the gender of its antecedent."""
        english = "they" if clause.agreement == _PLURAL else "it"
        pronoun = self.unit(english, _ANAPHORS[clause.gender])
        pronoun = pronoun._replace(agreement=clause.agreement, kind=clause.kind)
        event = self.event(tense, "thing", "predicate", subject=pronoun)
        because = self.clause(event, tense, order="final")
        return _join(clause, _COMMA, self.unit("because", "weil"), because)

    def coordinated(self) -> _Phrase:
        tense = self.tense()
        link = self.pick((("and", "und"), (",|but", ",|aber")))
        return _join(self.statement(tense), self.unit(*link), self.statement(tense))

    def adverbial_clause(self) -> _Phrase:
        """A subordinate clause of reason, concession, time or condition, first or last."""
        tense = self.tense()
        inner = _TENSES[tense].inner
        conjunction = self.unit(*self.pick(_CONJUNCTIONS[inner]))
        subordinate = _join(conjunction, self.statement(inner, order="final"))
        if self.chance(0.4):
            return self.statement(tense, front=_join(subordinate, self.unit(",", ",")))
        return _join(self.statement(tense), _COMMA, subordinate)

    def complement_clause(self) -> _Phrase:
        """A clause with "that" or "whether", or an infinitive with "to"."""
        tense = self.tense(_FACTUAL)
        kind = self.pick(("that", "that", "whether", "to"))
        matrix = self.clause(self.event(tense, complement=kind), tense)
        if kind == "to":
            event = self.event("infinitive", subject=_NOTHING)
            return _join(matrix, _COMMA, self.clause(event, "infinitive", order="final"))
        past = _TENSES[tense].past
        tense = self.tense(("past", "could") if past else ("present", "perfect", "future"))
        conjunction = self.unit(kind, "dass" if kind == "that" else "ob")
        return _join(matrix, _COMMA, conjunction, self.statement(tense, order="final"))

    def question(self) -> _Phrase:
        """A yes-no question, or one for the subject, object, place, time or reason."""
        tense = self.tense()
        word = self.pick(("", "", "who", "where", "when", "why", "what", "what"))
        if not word:
            return self.statement(tense, 0.25, order="question")
        if word == "who":
            who = self.unit(word, "wer")._replace(definite=False)
            return self.clause(self.event(tense, subject=who), tense, rate=0.3, front=_NOTHING)
        options = {"where": ("location", "direction", "journey"), "what": tuple(_NOUNS)}
        role = self.pick(options.get(word, ("",)))
        event = self.event(tense, complement=role)
        german = {"when": "wann", "why": "warum", "location": "wo"}
        front = self.unit(word, german.get(word) or german.get(role, "wohin"))
        if word == "what":
            front = self.object_question(role, event[0].complements[0].role)
        return self.clause(event, tense, order="question", front=front, gap=bool(role))

    def object_question(self, kind: str, case: str) -> _Phrase:
        """What, whom, "which" with a noun or "how many" with a noun."""
        noun, draw = self.pick(_NOUNS[kind]), self._random()
        if draw < 0.3:
            return self.noun_phrase(noun, case, (_WHICH,))
        if draw < 0.6 and noun.english[1] and case == "acc":
            return self.noun_phrase(noun, case, (_HOW_MANY,), plural=1)
        if kind == "person":
            return self.unit("whom", "wen" if case == "acc" else "wem")
        return self.unit("what", "was")

    def sentence(self) -> DemoPair:
        """Draws one sentence pair within the length limit."""
        while True:
            pattern, mark = self.pick(_PATTERNS)
            phrase = _join(pattern(self), self.unit(mark, mark))
            english, german = phrase.english, _punctuated(phrase.german)
            if max(len(english), len(german)) <= _MAX_TOKENS:
                return DemoPair(_text(english), _text(german), _links(english, german))


_PATTERNS = (
    *15 * [(_Grammar.simple, ".")],
    *2 * [(_Grammar.coordinated, ".")],
    *6 * [(_Grammar.adverbial_clause, ".")],
    *6 * [(_Grammar.complement_clause, ".")],
    *6 * [(_Grammar.question, "?")],
)


def _punctuated(german: list[_Token]) -> list[_Token]:
    """Drops the comma that closes a relative clause before another mark."""
    following = itertools.chain((token.text for token in german[1:]), " ")
    return [
        token
        for token, text in zip(german, following, strict=True)
        if token.text != "," or text not in ",.?"
    ]


def _text(tokens: list[_Token]) -> str:
    text = " ".join(token.text for token in tokens)
    return text[0].upper() + text[1:]


def _links(english: list[_Token], german: list[_Token]) -> tuple[tuple[int, int], ...]:
    sources: dict[int, list[int]] = {}
    for position, token in enumerate(english):
        for key in token.keys:
            sources.setdefault(key, []).append(position)
    targets = [(key, place) for place, token in enumerate(german) for key in token.keys]
    return tuple(sorted({(i, place) for key, place in targets for i in sources.get(key, ())}))


# -------------------------------------------------------------------------------------- corpus


def sentences(seed: int) -> Iterator[DemoPair]:
    """Yields sentence pairs without end; a short one may come again, always the same pair."""
    grammar = _Grammar(seed)
    while True:
        yield grammar.sentence()


def generate(
    seed: int = 1, num_train: int = 24_000, num_valid: int = 500, num_test: int = 500
) -> dict[str, list[DemoPair]]:
    """Generates a corpus; the same arguments give the same corpus everywhere.

    Args:
        seed: names the corpus.
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
