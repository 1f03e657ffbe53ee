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
from enum import IntEnum
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


class _Token(NamedTuple):
    """A word; an English and a German word that share a key are aligned."""

    text: str
    keys: tuple[int, ...] = ()


class _Field(IntEnum):
    """The order of the German middle field."""

    SUBJECT = 0
    ACCUSATIVE_PRONOUN = 1
    DATIVE_PRONOUN = 2
    TIME = 3
    DATIVE = 4
    DEFINITE_ACCUSATIVE = 5
    NEGATION = 6  # and adverbs of frequency
    COMPANY = 7
    LOCATION = 8
    INDEFINITE_ACCUSATIVE = 9
    BOUND = 10  # directions, prepositional objects and predicates


class _Phrase(NamedTuple):
    """A constituent in both languages, with the features that others agree with or refer to."""

    english: list[_Token]
    german: list[_Token]
    field: int = _Field.SUBJECT
    agreement: int = _THIRD
    gender: str = ""  # m, f, n or p for plural; empty unless a noun phrase
    kind: str = "person"
    definite: bool = True


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
    particle: str
    movable: bool  # "picks him up", but "looks for him"
    german: tuple[str, ...]  # infinitive, third person, past: without prefix; participle: with
    prefix: str
    perfect: str  # haben or sein
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
        rice/- der Reis -; tomato_soup/- die Tomatensuppe -;
        chocolate_cake der Schokoladenkuchen Schokoladenkuchen""",
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
_ADJECTIVE_TABLE = {  # in the usual English order
    "person": """friendly=freundlich clever=klug famous=berühmt rich=reich poor=arm happy=glücklich
        sad=traurig hungry=hungrig tired=müde sick=krank young=jung old=alt""",
    "animal": """beautiful=schön small=klein big=groß hungry=hungrig tired=müde young=jung old=alt
        black=schwarz white=weiß brown=braun""",
    "food": "good=gut cheap=billig fresh=frisch hot=heiß warm=warm cold=kalt",
    "drink": "good=gut cheap=billig fresh=frisch hot=heiß warm=warm cold=kalt",
    "text": """beautiful=schön interesting=interessant boring=langweilig famous=berühmt long=lang
        short=kurz new=neu old=alt""",
    "thing": """beautiful=schön cheap=billig small=klein big=groß heavy=schwer new=neu old=alt
        red=rot blue=blau green=grün""",
    "garment": """beautiful=schön cheap=billig long=lang short=kurz warm=warm new=neu old=alt
        red=rot blue=blau black=schwarz""",
    "vehicle": "beautiful=schön small=klein big=groß fast=schnell slow=langsam new=neu old=alt",
    "place": "beautiful=schön quiet=ruhig famous=berühmt small=klein big=groß empty=leer old=alt",
    "tree": "beautiful=schön small=klein big=groß old=alt green=grün",
}

# Subjects | complements | adjuncts: English and German verbs with their irregular principal parts.
# Complements are role=kinds or english/german/case=kinds. "+" joins a separable prefix or a
# particle that pronouns precede, "-" a fixed particle; "ist_" marks perfects with "sein".
_VERB_TABLE = {
    "weather | | time": "rain = regnen regnet regnete geregnet; snow = schneien",
    "person,animal,text,thing,food | predicate |": "be was been = sein ist war ist_gewesen",
    "person | that | time": """say said said = sagen; believe = glauben; hope = hoffen;
        know knew known = wissen weiß wusste gewusst""",
    "person | whether | time": "ask = fragen; know knew known = wissen weiß wusste gewusst",
    "person | to | time": """try = versuchen; promise = versprechen verspricht versprach versprochen;
        forget forgot forgotten = vergessen vergisst vergaß vergessen""",
    "person,animal | | location time": "sleep slept slept = schlafen schläft schlief geschlafen",
    "person | | company location time": """work = arbeiten; dance = tanzen;
        sing sang sung = singen singt sang gesungen""",
    "person | | company time": """get-up got got = auf+stehen steht stand ist_aufgestanden;
        come-back came come = zurück+kommen kommt kam ist_zurückgekommen""",
    "person,vehicle | | time": "arrive = an+kommen kommt kam ist_angekommen",
    "person | | location": "fall-asleep fell fallen = ein+schlafen schläft schlief ist_eingeschlafen",
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
        pick+up = ab+holen; invite = ein+laden lädt lud eingeladen; call = an+rufen ruft rief angerufen""",
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
    "person | of/an/acc=person,animal | time": "think thought thought = denken denkt dachte gedacht",
    "person | about/über/acc=person,text | location time": """talk = sprechen spricht sprach
        gesprochen""",
    "person | of/von/dat=person,animal,food | time": "dream = träumen",
    "person,animal | with/mit/dat=animal | location time": "play = spielen",
}
_GOODS = "food,text,thing,garment"
_IRREGULAR_FORMS = {  # present and past for I, he and we
    "be": "am is are was was were",
    "have": "have has have",
    "do": "do does do did did did",
    "want": "want wants want wanted wanted wanted",
    "can": "can can can could could could",
    "must": "must must must",
    "will": "will will will",
    "should": "should should should",
    "to": "to to to",
    "sein": "bin ist sind war war waren",
    "haben": "habe hat haben",
    "wollen": "will will wollen wollte wollte wollten",
    "können": "kann kann können konnte konnte konnten",
    "müssen": "muss muss müssen",
    "werden": "werde wird werden",
    "sollen": "sollte sollte sollten",
    "zu": "zu zu zu",
}
_ENDING_TABLE = {  # masculine, feminine, neuter and plural; "-" is none
    "definite": {"nom": "er ie as ie", "acc": "en ie as ie", "dat": "em er em en"},
    "ein": {"nom": "- e - e", "acc": "en e - e", "dat": "em er em en"},
    "strong": {"nom": "er e es e", "acc": "en e es e", "dat": "em er em en"},
    "mixed": {"nom": "er e es en", "acc": "en e es en", "dat": "en en en en"},
    "weak": {"nom": "e e e en", "acc": "en e e en", "dat": "en en en en"},
}
_PRONOUNS = (  # English subject and object; German nominative, accusative, dative; agreement
    ("I", "me", "ich", "mich", "mir", _FIRST),
    ("we", "us", "wir", "uns", "uns", _PLURAL),
    ("he", "him", "er", "ihn", "ihm", _THIRD),
    ("she", "her", "sie", "sie", "ihr", _THIRD),
    ("they", "them", "sie", "sie", "ihnen", _PLURAL),
)
_ANAPHORS = {"m": "er", "f": "sie", "n": "es", "p": "sie"}
_A = _Determiner("a - -", "ein", "ein", "mixed", 0.4)
_NO = _Determiner("no no no", "kein", "ein", "mixed")
_WHICH = _Determiner("which which which", "welch", "strong", "weak")
_HOW_MANY = _Determiner("x how|many x", "wie|viel", "strong", "strong")
_DEFINITE = (
    *5 * [_Determiner("the the the", "d", "definite", "weak", 0.06, definite=True)],
    _Determiner("this these this", "dies", "strong", "weak", 0.06, definite=True),
    _Determiner("my my my", "mein", "ein", "mixed", 0.06, definite=True),
    _Determiner("our our our", "unser", "ein", "mixed", 0.06, definite=True),
    _Determiner("his his his", "sein", "ein", "mixed", 0.06, definite=True),
    _Determiner("her her her", "ihr", "ein", "mixed", 0.06, definite=True),
    _Determiner("their their their", "ihr", "ein", "mixed", 0.06, definite=True),
)
_AFFIRMATIVE = (
    *_DEFINITE,
    *6 * [_A],
    _Determiner("every x x", "jed", "strong", "weak"),
    _Determiner("x many x", "viel", "strong", "strong"),
    _Determiner("x some x", "einig", "strong", "strong"),
)
_NEGATABLE = (*_DEFINITE, *10 * [_A])  # in negated clauses; "not a" becomes "kein"
_CONTRACTIONS = {
    "in dem": "im",
    "in das": "ins",
    "zu dem": "zum",
    "zu der": "zur",
    "von dem": "vom",
}

_ADVERBIAL_TABLE = {  # english/german/case=kinds
    "location": """in/in/dat=city in/in/dat=place behind/hinter/dat=place,tree
        in_front_of/vor/dat=place next_to/neben/dat=place,tree""",
    "direction": "into/in/acc=place to/zu/dat=place through/durch/acc=place",
    "journey": "to/nach/dat=city",
    "company": "with/mit/dat=person,animal without/ohne/acc=person,animal",
}
_FIELDS = {
    "nom": _Field.SUBJECT,
    "dat": _Field.DATIVE,
    "acc": _Field.INDEFINITE_ACCUSATIVE,
    "company": _Field.COMPANY,
    "location": _Field.LOCATION,
    "direction": _Field.BOUND,
    "journey": _Field.BOUND,
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
_CONJUNCTION_TABLE = {
    "present": """because=weil although=obwohl when=wenn if=wenn while=während before=bevor
        as_soon_as=sobald""",
    "past": """because=weil although=obwohl when=als while=während before=bevor
        as_soon_as=sobald""",
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


def _pairs(table: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(entry.replace("_", " ").split("=")) for entry in table.split())


def _softened(word: str) -> str:
    """Writes a final y after a consonant as "ie", as English endings ask."""
    return word[:-1] + "ie" if word.endswith("y") and word[-2] not in "aeou" else word


def _with_s(word: str) -> str:
    """English plural or third person: "apples", "tries", "watches"."""
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
    english, german = prepositions or ("", "")
    return _Complement(english, german, role, tuple(kinds.split(",")))


def _weak_forms(infinitive: str, prefix: str) -> tuple[str, ...]:
    stem = infinitive.removesuffix("n").removesuffix("e")
    third = stem + ("et" if stem.endswith(("t", "d")) else "t")
    unstressed = stem.startswith(("be", "ge", "ver")) or stem.endswith("ier")
    return infinitive, third, third + "e", prefix + ("" if unstressed else "ge") + third


def _verb(frame: str, row: str) -> _Verb:
    subjects, complements, adjuncts = (field.split() for field in frame.split("|"))
    english, german = (side.split() for side in row.split("="))
    base, _, particle = english[0].replace("+", "-").partition("-")
    regular = _softened(base).removesuffix("e") + "ed"
    prefix, _, infinitive = german[0].rpartition("+")
    parts = (infinitive, *german[1:]) if german[1:] else _weak_forms(infinitive, prefix)
    return _Verb(
        (base, _with_s(base), *(english[1:] or (regular, regular))),
        particle,
        "+" in english[0],
        (*parts[:3], parts[3].removeprefix("ist_")),
        prefix,
        "sein" if parts[3].startswith("ist_") else "haben",
        tuple(subjects[0].split(",")),
        tuple(map(_complement, complements)),
        tuple(adjuncts),
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
    return forms | {lemma: row.split() for lemma, row in _IRREGULAR_FORMS.items()}


_NOUNS = {
    kind: tuple(_noun(kind, row) for row in table.split(";")) for kind, table in _NOUN_TABLE.items()
}
_VERBS = tuple(
    _verb(frame, row) for frame, table in _VERB_TABLE.items() for row in table.split(";")
)
_FORMS = _finite_forms(_VERBS)
_ADJECTIVES = {kind: _pairs(table) for kind, table in _ADJECTIVE_TABLE.items()}
_ENDINGS = {
    (name, case): dict(zip("mfnp", (ending.strip("-") for ending in row.split()), strict=True))
    for name, rows in _ENDING_TABLE.items()
    for case, row in rows.items()
}
_ADVERBIALS = {
    role: tuple(map(_complement, table.split())) for role, table in _ADVERBIAL_TABLE.items()
}
_TIMES = {
    key: tuple(row.strip().split("=") for row in table.split(";"))
    for key, table in _TIME_TABLE.items()
}
_CONJUNCTIONS = {tense: _pairs(table) for tense, table in _CONJUNCTION_TABLE.items()}
_FREQUENCIES, _NUMERALS = _pairs(_FREQUENCY_TABLE), _pairs(_NUMERAL_TABLE)
_SUBJECT_KINDS = ("person",) * 16 + ("animal", "animal", "thing", "garment", "vehicle", "weather")


# ------------------------------------------------------------------------------------- grammar


@functools.cache
def _verbs(subject: str, complement: str = "") -> tuple[_Verb, ...]:
    """Verbs by the kind of their subject and the role or kind of their only, bare complement."""

    def admits(verb: _Verb) -> bool:
        roles = {name for row in verb.complements for name in (row.role, *row.kinds)}
        if not complement:
            return not roles & {"predicate", "that", "whether", "to"}
        bare = len(verb.complements) == 1 and not verb.complements[0].german
        return bare and complement in roles

    return tuple(verb for verb in _VERBS if subject in verb.subjects and admits(verb))


def _join(*phrases: _Phrase) -> _Phrase:
    """Concatenates phrases on both sides; the last one gives the features."""
    english = [token for phrase in phrases for token in phrase.english]
    german = [token for phrase in phrases for token in phrase.german]
    return phrases[-1]._replace(english=english, german=german)


_NOTHING = _Phrase([], [])
_COMMA = _Phrase([], [_Token(",")])  # one that only German has


def _english_verbs(verb, tense, agreement, keys, question, modifier) -> list[_Token]:
    """The verb forms with do-support, and "not" or an adverb among them."""
    row, (main, key) = _TENSES[tense], keys
    lemma, *link = (row.english or verb.english[0]).split()
    rest = [_Token(word, (key,)) for word in link]
    if row.english:
        rest.append(_Token(verb.english[3 if tense == "perfect" else 0], (main,)))
    else:
        key = main
    lexical = bool(link) or (not row.english and lemma != "be")
    negated = bool(modifier) and modifier[0].text == "not"
    if lexical and (question or negated):
        rest.insert(0, _Token(lemma, (key,)))
        lemma, lexical = "do", False
    finite = _Token(_FORMS[lemma][3 * row.past + agreement], (key,))
    if negated and finite.text == "can":
        return [_Token("cannot", (key, *modifier[0].keys)), *rest]
    return [*modifier, finite, *rest] if lexical else [finite, *modifier, *rest]


def _german_verbs(verb, tense, agreement, keys) -> tuple[_Token, list[_Token], list[_Token]]:
    """The finite verb, the right bracket, and both of them at the end of a clause."""
    row, (main, helper) = _TENSES[tense], keys
    lemma, nonfinite = row.german or verb.german[0], verb.prefix + verb.german[0]
    if tense == "perfect":
        lemma, nonfinite = verb.perfect, verb.german[3]
    form = _FORMS[lemma][3 * row.past + agreement]
    if not row.german:
        bracket = [_Token(verb.prefix, (main,))] if verb.prefix else []
        return _Token(form, (main,)), bracket, [_Token(verb.prefix + form, (main,))]
    finite, bracket = _Token(form, (helper,)), [_Token(nonfinite, (main,))]
    if tense != "infinitive":
        return finite, bracket, [*bracket, finite]
    if verb.prefix:
        return finite, bracket, [_Token(verb.prefix + "zu" + verb.german[0], (helper, main))]
    return finite, bracket, [finite, *bracket]


def _linearise(verb, tense, keys, order, front, subject, middle, modifier) -> _Phrase:
    """Orders a clause in each language; `middle` is in English order, German sorts by field."""
    inverted = order == "question"
    forms = _english_verbs(verb, tense, subject.agreement, keys, inverted, modifier.english)
    particle = _Phrase([_Token(verb.particle, keys[:1])] if verb.particle else [], [])
    pronoun = (_Field.ACCUSATIVE_PRONOUN, _Field.DATIVE_PRONOUN)
    shift = verb.movable and bool(middle) and middle[0].field in pronoun
    english = [*front.english, *forms[:inverted], *subject.english, *forms[inverted:]]
    english += _join(*middle[:shift], particle, *middle[shift:]).english
    finite, bracket, end = _german_verbs(verb, tense, subject.agreement, keys)
    fields = sorted([*middle, modifier], key=lambda phrase: phrase.field)
    rest = _join(subject, *fields).german
    if order == "final":
        german = [*front.german, *rest, *end]
    elif inverted or front.german:
        german = [*front.german, finite, *rest, *bracket]
    else:
        german = [*subject.german, finite, *_join(*fields).german, *bracket]
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

    def unit(self, english: str, german: str, field: int = _Field.SUBJECT) -> _Phrase:
        """Links two texts; "|" separates aligned chunks, "#i" names another English chunk."""
        source = [(chunk, self._key()) for chunk in english.split("|")]
        target = []
        for position, chunk in enumerate(german.split("|")):
            words, _, index = chunk.partition("#")
            target.append((words, source[int(index or position)][1]))
        return _Phrase(
            [_Token(word, (key,)) for words, key in source for word in words.split()],
            [_Token(word, (key,)) for words, key in target for word in words.split()],
            field,
        )

    def number(self) -> tuple[str, str]:
        """English and German number from two on: words up to twelve, digits above."""
        if self.chance(0.6):
            return self.pick(_NUMERALS)
        digits = str(int(13 * 750 ** self._random() ** 2))
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
        """A determiner and perhaps a numeral; negation turns "a" and nothing into "kein"."""
        word = row.english.split()[number].strip("-")
        if negation is not None and row is _A:
            phrase = self.unit(word, "")
            keys = [key for token in negation.english + phrase.english for key in token.keys]
            phrase.german.append(_Token("kein" + _ENDINGS["ein", case][gender], tuple(keys)))
            return phrase
        phrase = self.unit(word, row.stem + _ENDINGS[row.endings, case][gender] if word else "")
        if number == 1 and self.chance(row.numeral_rate):
            return _join(phrase, self.unit(*self.number()))
        return phrase

    def adjectives(self, kind: str, endings: dict[str, str], gender: str) -> list[_Phrase]:
        """None, one or two adjectives in the usual order."""
        options, count = _ADJECTIVES[kind], self.chance(0.45) + self.chance(0.07)
        places = sorted({int(self._random() * len(options)) for _ in range(count)})
        return [
            self.unit(options[place][0], options[place][1].removesuffix("e") + endings[gender])
            for place in places
        ]

    def noun_phrase(self, noun, case, determiners, *, plural=0.35, negation=None) -> _Phrase:
        """Determiner, numeral, adjectives and noun in agreement."""
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
        head = self.unit(noun.english[number == 1], german)
        phrase = _join(determiner, *self.adjectives(noun.kind, endings, gender), head)
        if phrase.english[0].text == "a" and phrase.english[1].text[0] in "aeiou":
            phrase.english[0] = phrase.english[0]._replace(text="an")
        definite_object = row.definite and case == "acc"
        return phrase._replace(
            field=_Field.DEFINITE_ACCUSATIVE if definite_object else _FIELDS[case],
            agreement=_PLURAL if number == 1 else _THIRD,
            gender=gender,
            kind=noun.kind,
            definite=row.definite,
        )

    def nominal(self, kinds, case, determiners, pronouns=_PRONOUNS, *, rate=0.2, negation=None):
        """A pronoun (with probability `rate` for persons), a name or a noun phrase."""
        kind = self.pick(kinds)
        if kind == "weather":
            return self.unit("it", "es")
        if kind == "city":
            name = self.name(_CITY_SYLLABLES)
            return self.unit(name, name)
        if kind == "person" and self.chance(rate):
            subject, english, *german, agreement = self.pick(pronouns)
            column = ("nom", "acc", "dat").index(case)
            phrase = self.unit(english if column else subject, german[column], _Field(column))
            return phrase._replace(agreement=agreement)
        if kind == "person" and self.chance(0.3):
            field = _Field.DEFINITE_ACCUSATIVE if case == "acc" else _FIELDS[case]
            return self.person_name(case)._replace(field=field)
        return self.noun_phrase(self.pick(_NOUNS[kind]), case, determiners, negation=negation)

    # The parts of a clause.

    def prepositional(self, row: _Complement, phrase: _Phrase, field: int) -> _Phrase:
        whole = _join(self.unit(row.english, row.german), phrase)._replace(field=field)
        first, second = whole.german[:2]
        contracted = _CONTRACTIONS.get(f"{first.text} {second.text}")
        if contracted:
            whole.german[:2] = [_Token(contracted, first.keys + second.keys)]
        return whole

    def adverbial(self, role: str) -> _Phrase:
        row = self.pick(_ADVERBIALS[role])
        phrase = self.nominal(row.kinds, row.role, (*_DEFINITE, _A), rate=0)
        return self.prepositional(row, phrase, _FIELDS[role])

    def time(self, tense: str, habitual: bool) -> _Phrase:
        key = _TENSES[tense].times
        if key == "present" and habitual and self.chance(0.35):
            key = "habit"
        english, german = self.number()
        year, hour = 1850 + int(170 * self._random()), 1 + int(12 * self._random())
        values = {"english": english, "german": german, "year": year, "hour": hour}
        return self.unit(*(text.format(**values) for text in self.pick(_TIMES[key])), _Field.TIME)

    def modifier(self, subject: _Phrase, tense: str, order: str) -> _Phrase:
        """Negation or an adverb of frequency, where both languages give it the same scope."""
        if not subject.definite or order == "question" or tense in ("must", "infinitive"):
            return _NOTHING
        if self.chance(0.15):
            return self.unit("not", "nicht", _Field.NEGATION)
        if tense in ("present", "past") and self.chance(0.15):
            return self.unit(*self.pick(_FREQUENCIES), _Field.NEGATION)
        return _NOTHING

    def complements(self, verb, subject: _Phrase, negation: _Phrase | None) -> list[_Phrase]:
        """The complements in English order; a negated last object may say "kein"."""
        reflexive = not subject.english or subject.english[0].text in ("I", "we")
        pronouns = _PRONOUNS[2:] if reflexive else _PRONOUNS
        phrases = []
        for row in verb.complements:
            if row.role == "predicate":
                phrases.append(self.unit(*self.pick(_ADJECTIVES[subject.kind]), _Field.BOUND))
            elif row.role in _ADVERBIALS:
                phrases.append(self.adverbial(row.role))
            elif row.role in _FIELDS:
                last = row is verb.complements[-1]
                kein = negation if last and not row.german else None
                determiners = _AFFIRMATIVE if last and negation is None else _DEFINITE
                determiners = determiners if kein is None else _NEGATABLE
                phrase = self.nominal(row.kinds, row.role, determiners, pronouns, negation=kein)
                if row.german:
                    phrase = self.prepositional(row, phrase, _Field.BOUND)
                phrases.append(phrase)
        return phrases

    def event(self, tense, kind="person", complement="", determiners=_AFFIRMATIVE, subject=None):
        """A verb and its subject that go together in this tense."""
        while True:
            verb = self.pick(_verbs(kind, complement))
            if tense not in ("present", "past") and not verb.adjuncts:
                continue  # states are simple
            agent = subject or self.nominal((kind,), "nom", determiners, rate=0.3)
            if subject is None and kind == "person" and self.chance(0.05):
                noun = self.noun_phrase(self.pick(_NOUNS[kind]), "nom", _DEFINITE)
                agent = _join(noun, self.unit("and", "und"), self.person_name("nom"))
                agent = agent._replace(agreement=_PLURAL)
            forms = _FORMS[verb.english[0]]
            if tense != "past" or forms[agent.agreement] != forms[3 + agent.agreement]:
                return verb, agent  # never a past that looks present: "they read"

    # Clauses.

    def clause(
        self, verb, subject, tense, *, order="main", rate=0.0, front=None, gap=False
    ) -> _Phrase:
        """Draws the rest of a clause and puts it in order.

        Args:
            verb: the lexicon entry.
            subject: the nominative phrase.
            tense: a key of `_TENSES`.
            order: "main" (verb second), "question" (English inverts too) or "final".
            rate: probability of each adjunct that the verb admits.
            front: a phrase that comes first; without it an adjunct of a main clause may.
            gap: whether `front` stands for the complement.

        Returns:
            The clause. Its features are those of its last noun phrase, so that a relative clause
            or a pronoun can refer to it; the gender is empty if the languages end differently.
        """
        modifier = self.modifier(subject, tense, order)
        negation = modifier if modifier.german[:1] and modifier.german[0].text == "nicht" else None
        middle = [] if gap else self.complements(verb, subject, negation)
        if any(phrase.german[0].text.startswith("kein") for phrase in middle):
            modifier = modifier._replace(german=[])
        timeless = modifier is not _NOTHING and negation is None
        adjuncts = [
            self.adverbial(role) if role != "time" else self.time(tense, modifier is _NOTHING)
            for role in verb.adjuncts
            if self.chance(rate) and not (timeless and role == "time")
        ]
        if adjuncts and order == "main" and front is None and self.chance(0.4):
            front = adjuncts.pop()
        middle += adjuncts
        keys = self._key(), self._key()
        clause = _linearise(verb, tense, keys, order, front or _NOTHING, subject, middle, modifier)
        if middle and middle[-1] is max(middle, key=lambda phrase: phrase.field):
            last = middle[-1]
            clause = clause._replace(agreement=last.agreement, gender=last.gender, kind=last.kind)
        return clause

    def statement(self, tense: str, rate=0.15, determiners=_AFFIRMATIVE, **options) -> _Phrase:
        kind, complement = self.pick(_SUBJECT_KINDS), ""
        if tense in ("present", "past") and self.chance(0.15):
            kind, complement = self.pick(("person", "animal", "text", "thing", "food")), "predicate"
        verb, subject = self.event(tense, kind, complement, determiners)
        return self.clause(verb, subject, tense, rate=rate, **options)

    def relative(self, phrase: _Phrase, tense: str) -> _Phrase:
        """Adds a relative clause on the last noun of a phrase, between commas in German."""
        human = phrase.kind == "person"
        tense = "past" if _TENSES[tense].past else self.tense(("present", "past", "perfect"))
        if phrase.kind == "animal" or (human and self.chance(0.5)):
            german = "d" + _ENDINGS["definite", "nom"][phrase.gender]
            pronoun = self.unit("who" if human else "that", german)
            pronoun = pronoun._replace(agreement=phrase.agreement, kind=phrase.kind)
            verb, _ = self.event(tense, phrase.kind, subject=pronoun)
            clause = self.clause(verb, pronoun, tense, order="final", rate=0.2)
        else:
            verb, subject = self.event(tense, "person", phrase.kind, _DEFINITE)
            german = "d" + _ENDINGS["definite", verb.complements[0].role][phrase.gender]
            german = "denen" if german == "den" and phrase.gender == "p" else german
            front = self.unit("whom" if human else "that", german)
            clause = self.clause(verb, subject, tense, order="final", front=front, gap=True)
        whole = _join(phrase, _COMMA, clause, _COMMA)
        return phrase._replace(english=whole.english, german=whole.german)

    def tense(self, names: Sequence[str] = tuple(_TENSES)) -> str:
        return self.pick([name for name in names for _ in range(_TENSES[name].weight)])

    # Sentences.

    def simple(self) -> _Phrase:
        """One main clause; some have a relative clause or a reason that says "it"."""
        tense = self.tense()
        if self.chance(0.12):
            verb, subject = self.event(tense)
            subject = self.relative(subject, tense) if subject.gender else subject
            return self.clause(verb, subject, tense, rate=0.2)
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
        verb, _ = self.event(tense, "thing", "predicate", subject=pronoun)
        because = self.clause(verb, pronoun, tense, order="final")
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
        tense = self.tense(("present", "past", "perfect"))
        kind = self.pick(("that", "that", "whether", "to"))
        matrix = self.clause(*self.event(tense, complement=kind), tense)
        if kind == "to":
            verb, nobody = self.event("infinitive", subject=_NOTHING)
            return _join(matrix, _COMMA, self.clause(verb, nobody, "infinitive", order="final"))
        past = _TENSES[tense].past
        tense = self.tense(("past", "could") if past else ("present", "perfect", "future"))
        conjunction = self.unit(kind, "dass" if kind == "that" else "ob")
        return _join(matrix, _COMMA, conjunction, self.statement(tense, order="final"))

    def polar_question(self) -> _Phrase:
        return self.statement(self.tense(), 0.25, order="question")

    def content_question(self) -> _Phrase:
        """A question for the subject, the object, the place, the time or the reason."""
        tense, word = self.tense(), self.pick(("who", "where", "when", "why", "what", "what"))
        if word == "who":
            who = self.unit(word, "wer")._replace(definite=False)
            return self.clause(*self.event(tense, subject=who), tense, rate=0.3)
        role = ""
        if word == "where":
            role = self.pick(("location", "direction", "journey"))
            front = self.unit(word, "wo" if role == "location" else "wohin")
        elif word == "what":
            role = self.pick(tuple(_NOUNS))
        else:
            front = self.unit(word, "wann" if word == "when" else "warum")
        verb, subject = self.event(tense, complement=role)
        if word == "what":
            front = self.object_question(role, verb.complements[0].role)
        return self.clause(verb, subject, tense, order="question", front=front, gap=bool(role))

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
        while True:
            pattern, mark = self.pick(_PATTERNS)
            phrase = _join(pattern(self), self.unit(mark, mark))
            english, german = phrase.english, _punctuate(phrase.german)
            if max(len(english), len(german)) <= _MAX_TOKENS:
                return DemoPair(_text(english), _text(german), _links(english, german))


_PATTERNS = (
    *15 * [(_Grammar.simple, ".")],
    *2 * [(_Grammar.coordinated, ".")],
    *6 * [(_Grammar.adverbial_clause, ".")],
    *6 * [(_Grammar.complement_clause, ".")],
    *2 * [(_Grammar.polar_question, "?")],
    *4 * [(_Grammar.content_question, "?")],
)


def _punctuate(german: list[_Token]) -> list[_Token]:
    """Merges adjacent commas and drops a comma before the final mark."""
    tokens: list[_Token] = []
    for token in german:
        if tokens and tokens[-1].text == "," and token.text in ",.?":
            tokens.pop()
        tokens.append(token)
    return tokens


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
        raise ValueError(f"The demo grammar gives at most {_MAX_PAIRS} distinct pairs: {counts}.")
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
