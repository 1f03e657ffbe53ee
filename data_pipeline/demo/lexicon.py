"""The vocabulary of the demo corpus: compact tables, and the entries that are read from them.

Spaces separate entries of one word, and ";" separates longer entries. "_" is a space inside an
entry, and "=" separates English from German. To add a word, add an entry:

    nouns         english[/plural] article singular plural   mouse/mice die Maus Mäuse
    adjectives    english=german                             small=klein
    verbs         base [past participle] =                   write wrote written =
                  infinitive [third past participle]         schreiben schreibt schrieb geschrieben
    complements   role=kinds                                 acc=food,drink
                  english/german/case=kinds                  for/auf/acc=person
    times         english=german                             last|week=letzte|Woche

Nouns: "/" precedes an irregular English plural, "-" means no plural, "der*" marks weak masculines.

Verbs: the key of a row is "subjects | complements | adjuncts". Regular forms are left out. "+"
joins a separable prefix (auf+stehen) or a particle that pronouns precede (put+on), "-" joins a
particle that stays next to its verb (wait-for); "ist_" marks perfects with "sein".

Times: "|" separates aligned chunks, "#i" aligns a German chunk with English chunk i, and {...} is
a number to draw.
"""

import functools
from collections.abc import Iterable
from typing import NamedTuple

FIRST, THIRD, PLURAL = range(3)  # agreement: I; he, she, it; we, they


class Noun(NamedTuple):
    english: tuple[str, str]  # singular, plural; no plural for mass nouns
    german: tuple[str, str]
    gender: str
    weak: bool  # the singular ends like the plural, except in the nominative
    kind: str


class Determiner(NamedTuple):
    english: str  # for singular, plural and mass nouns; "-": no word, "x": not possible
    stem: str
    endings: str
    declension: str  # declension of the adjectives that follow
    numeral_rate: float = 0.0
    definite: bool = False


class Complement(NamedTuple):
    english: str  # preposition or empty
    german: str
    role: str  # case, adverbial, "predicate" or a conjunction
    kinds: tuple[str, ...]


class Verb(NamedTuple):
    english: tuple[str, ...]  # base, third person, past, participle
    particle: str  # "+up" follows a pronoun, "-for" precedes it
    german: tuple[str, ...]  # infinitive, third person, past without prefix; participle with it
    prefix: str
    subjects: tuple[str, ...]
    complements: tuple[Complement, ...]
    adjuncts: tuple[str, ...]  # empty for verbs of state


class Tense(NamedTuple):
    weight: int
    english: str  # helper verb or empty
    german: str
    past: bool
    times: str  # key of the time adverbials
    inner: str  # tense of a subordinate clause


def _pairs(table: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(entry.replace("_", " ").split("=")) for entry in table.split())


# Nouns by kind.
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
# Adjectives by kinds of nouns, in the usual English order. Two together come from different halves.
_ADJECTIVE_TABLE = {
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
# Verbs by subjects | complements | adjuncts.
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
# Present and past for I, he and we, where these do not follow from the principal parts.
_IRREGULAR_TABLE = """be: am is are was was were; have: have has have; do: do does do did did did;
    want: want wants want wanted wanted wanted; can: can can can could could could; to: to to to;
    must: must must must; will: will will will; should: should should should; zu: zu zu zu;
    sein: bin ist sind war war waren; haben: habe hat haben; werden: werde wird werden;
    können: kann kann können konnte konnte konnten; müssen: muss muss müssen;
    wollen: will will wollen wollte wollte wollten; sollen: sollte sollte sollten"""
_ENDING_TABLE = {  # masculine, feminine, neuter and plural; "-": no ending
    "definite": {"nom": "er ie as ie", "acc": "en ie as ie", "dat": "em er em en"},
    "ein": {"nom": "- e - e", "acc": "en e - e", "dat": "em er em en"},
    "strong": {"nom": "er e es e", "acc": "en e es e", "dat": "em er em en"},
    "mixed": {"nom": "er e es en", "acc": "en e es en", "dat": "en en en en"},
    "weak": {"nom": "e e e en", "acc": "en e e en", "dat": "en en en en"},
}
PRONOUNS = (  # agreement; English subject and object; German nominative, accusative, dative
    (FIRST, "I me ich mich mir"),
    (PLURAL, "we us wir uns uns"),
    (THIRD, "he him er ihn ihm"),
    (THIRD, "she her sie sie ihr"),
    (PLURAL, "they them sie sie ihnen"),
)
ANAPHORS = {"m": "er", "f": "sie", "n": "es", "p": "sie"}
# Determiners; frequent ones are repeated in their group.
A = Determiner("a - -", "ein", "ein", "mixed", 0.4)
NO = Determiner("no no no", "kein", "ein", "mixed")
WHICH = Determiner("which which which", "welch", "strong", "weak")
HOW_MANY = Determiner("x how|many x", "wie|viel", "strong", "strong")
DEFINITE = (
    *5 * [Determiner("the the the", "d", "definite", "weak", 0.06, definite=True)],
    Determiner("this these this", "dies", "strong", "weak", 0.06, definite=True),
    *(
        Determiner(f"{english} {english} {english}", german, "ein", "mixed", 0.06, definite=True)
        for english, german in _pairs("my=mein our=unser his=sein her=ihr their=ihr")
    ),
)
AFFIRMATIVE = (
    *DEFINITE,
    *6 * [A],
    Determiner("every x x", "jed", "strong", "weak"),
    Determiner("x many x", "viel", "strong", "strong"),
    Determiner("x some x", "einig", "strong", "strong"),
)
NEGATABLE = (*DEFINITE, *10 * [A])  # in negated clauses; "not a" becomes "kein"
_CONTRACTION_TABLE = "in_dem=im in_das=ins zu_dem=zum zu_der=zur von_dem=vom"
# Adverbials by role, in the format of complements.
_ADVERBIAL_TABLE = {
    "location": """in/in/dat=city in/in/dat=place behind/hinter/dat=place,tree
        in_front_of/vor/dat=place next_to/neben/dat=place,tree""",
    "direction": "into/in/acc=place to/zu/dat=place through/durch/acc=place",
    "journey": "to/nach/dat=city",
    "company": "with/mit/dat=person,animal without/ohne/acc=person,animal",
}
_FREQUENCY_TABLE = "often=oft always=immer never=nie seldom=selten sometimes=manchmal"
# Times by `Tense.times`, or "habit".
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
TENSES = {
    "present": Tense(34, "", "", False, "present", "present"),
    "past": Tense(30, "", "", True, "past", "past"),
    "perfect": Tense(13, "have", "haben", False, "perfect", "perfect"),
    "future": Tense(5, "will", "werden", False, "future", "present"),
    "can": Tense(4, "can", "können", False, "future", "present"),
    "could": Tense(3, "can", "können", True, "past", "past"),
    "must": Tense(3, "must", "müssen", False, "future", "present"),
    "should": Tense(3, "should", "sollen", False, "future", "present"),
    "want": Tense(4, "want to", "wollen", False, "future", "present"),
    "wanted": Tense(2, "want to", "wollen", True, "past", "past"),
    "infinitive": Tense(0, "to", "zu", False, "future", "present"),
}
SIMPLE_TENSES, FACTUAL_TENSES = ("present", "past"), ("present", "past", "perfect")
# Conjunctions by the tense of the subordinate clause.
_CONJUNCTION_TABLE = {
    "present": "because=weil although=obwohl when=wenn if=wenn while=während as_soon_as=sobald",
    "past": "because=weil although=obwohl when=als while=während before=bevor as_soon_as=sobald",
    "perfect": "because=weil although=obwohl",
}
# The first, middle and last syllable of names.
PERSON_SYLLABLES = (
    "Al Be Da El Fa Ga Ha Il Jo Ka La Ma No Or Pe Ro Sa Ta Ul Vi Wen Ya Ze",
    "bi da fe gu ka le lo mi na po ri ro sa ti to va vu wi zo",
    "bin dra fin la lin mar nek nia ra ric ron sha tus vid wen",
)
CITY_SYLLABLES = (
    "Ar Bel Cor Dun El Fal Gor Hel Kar Lin Mor Nor Or Pel Ros Sel Tar Ul Vel Wil",
    "a da e i la lo mi na o ra ri ta te u va",
    "berg borg fels ford gard haven mark mond mont port stad stein vik wald",
)


def _softened(word: str) -> str:
    """Writes a final y after a consonant as "ie", as English endings require."""
    return word[:-1] + "ie" if word.endswith("y") and word[-2] not in "aeou" else word


def _with_s(word: str) -> str:
    return _softened(word) + ("es" if word.endswith(("s", "sh", "ch", "o")) else "s")


def _noun(kind: str, row: str) -> Noun:
    english, article, *german = row.split()
    singular, _, plural = english.replace("_", " ").partition("/")
    plural = "" if plural == "-" else plural or _with_s(singular)
    gender = {"der": "m", "die": "f", "das": "n"}[article.rstrip("*")]
    return Noun((singular, plural), tuple(german), gender, article.endswith("*"), kind)


def _complement(text: str) -> Complement:
    head, _, kinds = text.replace("goods", _GOODS).partition("=")
    *prepositions, role = head.replace("_", " ").split("/")
    return Complement(*(prepositions or ("", "")), role, tuple(kinds.split(",")))


def _weak_forms(infinitive: str, prefix: str) -> tuple[str, ...]:
    stem = infinitive.removesuffix("n").removesuffix("e")
    third = stem + ("et" if stem.endswith(("t", "d")) else "t")
    unstressed = stem.startswith(("be", "ge", "ver")) or stem.endswith("ier")
    return infinitive, third, third + "e", prefix + ("" if unstressed else "ge") + third


def _verb(frame: str, row: str) -> Verb:
    subjects, complements, adjuncts = (field.split() for field in frame.split("|"))
    english, german = (side.split() for side in row.split("="))
    base = english[0].replace("+", "-").split("-")[0]
    regular = _softened(base).removesuffix("e") + "ed"
    prefix, _, infinitive = german[0].rpartition("+")
    return Verb(
        english=(base, _with_s(base), *(english[1:] or (regular, regular))),
        particle=english[0].removeprefix(base),
        german=(infinitive, *(german[1:] or _weak_forms(infinitive, prefix)[1:])),
        prefix=prefix,
        subjects=tuple(subjects[0].split(",")),
        complements=tuple(map(_complement, complements)),
        adjuncts=tuple(adjuncts),
    )


def _finite_forms(verbs: Iterable[Verb]) -> dict[str, list[str]]:
    """Maps English and German verbs to their present and past for I, he and we."""
    forms = {}
    for verb in verbs:
        base, third, past, _ = verb.english
        forms[base] = [base, third, base, past, past, past]
        infinitive, third, past, _ = verb.german
        # Only preterite-present verbs ("ich weiß, er weiß") have a third person without -t.
        stem = infinitive.removesuffix("n").removesuffix("e")
        first = stem + "e" if third.endswith("t") else third
        plural = past + ("n" if past.endswith("e") else "en")
        forms[infinitive] = [first, third, infinitive, past, past, plural]
    irregular = (entry.split(":") for entry in _IRREGULAR_TABLE.split(";"))
    return forms | {lemma.strip(): row.split() for lemma, row in irregular}  # pyright: ignore[reportReturnType]


NOUNS = {
    kind: tuple(_noun(kind, row) for row in table.split(";")) for kind, table in _NOUN_TABLE.items()
}
VERBS = tuple(_verb(frame, row) for frame in _VERB_TABLE for row in _VERB_TABLE[frame].split(";"))
FINITE_FORMS = _finite_forms(VERBS)
ADJECTIVES = {
    kind: _pairs(table) for kinds, table in _ADJECTIVE_TABLE.items() for kind in kinds.split(",")
}
ENDINGS = {
    (name, case): dict(zip("mfnp", (ending.strip("-") for ending in row.split()), strict=True))
    for name, rows in _ENDING_TABLE.items()
    for case, row in rows.items()
}
ADVERBIALS = {
    role: tuple(map(_complement, table.split())) for role, table in _ADVERBIAL_TABLE.items()
}
TIMES = {
    key: [row.strip().split("=") for row in table.split(";")] for key, table in _TIME_TABLE.items()
}
CONJUNCTIONS = {tense: _pairs(table) for tense, table in _CONJUNCTION_TABLE.items()}
CONTRACTIONS = dict(_pairs(_CONTRACTION_TABLE))
FREQUENCIES, NUMERALS = _pairs(_FREQUENCY_TABLE), _pairs(_NUMERAL_TABLE)
# Kinds of subjects, repeated by frequency.
SUBJECTS = 30 * ("person",) + 3 * ("animal",) + ("thing", "garment", "vehicle", "weather")


@functools.cache
def verbs_with(subject: str, complement: str = "") -> tuple[Verb, ...]:
    """Finds verbs by the kind of their subject and the role or kind of their complement.

    A complement that is asked for is the verb's only one and has no preposition. "" finds all verbs
    without a predicate or a clause.
    """

    def admits(verb: Verb) -> bool:
        names = {name for row in verb.complements for name in (row.role, *row.kinds)}
        if not complement:
            return not names & {"predicate", "that", "whether", "to"}
        return complement in names and len(verb.complements) == 1 and not verb.complements[0].german

    return tuple(verb for verb in VERBS if subject in verb.subjects and admits(verb))
