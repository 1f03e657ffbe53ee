"""The demo corpus: its splits, its alignments, and the rules of its German grammar."""

import itertools
import re

import pytest

from nmt_zoo.data_pipeline.demo.demo_corpus import generate, pharaoh, sentences

NUM_PAIRS = 12_000
MARKS = {",", ".", "?"}
PERFECT = {"habe", "hat", "haben"}
HELPERS = {*PERFECT, "will", "wollen", "wird", "werde", "werden", "konnte", "konnten"}
ADJECTIVE = "(?:alt|jung|neu|schön|klein|groß|müd|hungrig|klug|lang|billig)"

# Nouns -> determiners, each with the ending of an adjective between it and one of these nouns.
ADJECTIVE_ENDINGS = {
    "Hund Vogel Arzt Mann Freund Brief Mantel Schlüssel": """
        der e, den en, dem en, ein er, einen en, einem en, mein er, kein er""",
    "Katze Kuh Frau Tochter Tante Zeitung Jacke Lampe": """
        die e, der en, eine e, einer en, meine e, ihrer en, keine e, jede e""",
    "Pferd Schwein Kind Mädchen Buch Kleid Bild Haus": """
        das e, dem en, ein es, einem en, unser es, kein es, dieses e, jedes e""",
    "Hunde Ärzte Männer Freunde Katzen Kühe Frauen Tanten Pferde Kinder Bücher Häuser": """
        die en, diese en, meine en, keine en, viele e, einige e""",
    "Hunden Ärzten Männern Freunden Kühen Kindern Häusern": "den en, ihren en",
}


@pytest.fixture(scope="module")
def corpus():
    return generate(seed=1, num_train=NUM_PAIRS - 700, num_valid=200, num_test=500)


@pytest.fixture(scope="module")
def pairs(corpus):
    return [pair for split in corpus.values() for pair in split]


def matching(pairs, pattern):
    """Returns the pairs whose source matches a pattern; the corpus must have some."""
    found = [pair for pair in pairs if re.search(pattern, pair.source)]
    assert found, f"no source sentence has {pattern!r}"
    return found


def places(pair, phrase):
    """Returns the German positions aligned with the first occurrence of an English phrase."""
    source, words = pair.source.split(), phrase.split()
    start = next(i for i in range(len(source)) if source[i : i + len(words)] == words)
    return sorted({j for i, j in pair.alignment if start <= i < start + len(words)})


def translations(pair, phrase):
    return " ".join(pair.target.split()[place] for place in places(pair, phrase))


def after(pair, phrase):
    """Returns the German word after the translation of an English phrase."""
    return pair.target.split()[places(pair, phrase)[-1] + 1]


# Splits.


def test_a_seed_names_one_corpus():
    first, again, other = (generate(seed, 50, 5, 5) for seed in (3, 3, 4))
    assert first == again
    assert first["train"] != other["train"]


def test_the_corpus_is_the_same_on_every_machine():
    (pair,) = generate(seed=1, num_train=0, num_valid=0, num_test=1)["test"]
    assert pair.source == "The neighbour and Wenbibin can drive to Arimark with Mrs Alvara ."
    assert pair.target == "Der Nachbar und Wenbibin können mit Frau Alvara nach Arimark fahren ."
    assert pharaoh(pair.alignment) == "0-0 1-1 2-2 3-3 4-4 5-10 6-8 7-9 8-5 9-6 10-7 11-11"


def test_splits_have_the_requested_sizes():
    corpus = generate(num_train=30, num_valid=0, num_test=7)
    sizes = {name: len(split) for name, split in corpus.items()}
    assert sizes == {"train": 30, "valid": 0, "test": 7}


def test_no_source_sentence_occurs_twice(pairs):
    assert len({pair.source for pair in pairs}) == len(pairs) == NUM_PAIRS


def test_a_source_sentence_has_one_translation():
    seen = {}
    for pair in itertools.islice(sentences(seed=2), NUM_PAIRS):
        assert seen.setdefault(pair.source, pair) == pair
    assert len(seen) < NUM_PAIRS  # Some short sentences occur more than once.


@pytest.mark.parametrize("size", [-1, 10**9])
def test_impossible_sizes_are_refused(size):
    with pytest.raises(ValueError, match="demo corpus"):
        generate(num_train=size)


def test_text_is_tokenised_capitalised_and_of_medium_length(pairs):
    lengths = [len(pair.source.split()) for pair in pairs]
    assert min(lengths) >= 3 and max(lengths) <= 25
    assert 9 < sum(lengths) / len(lengths) < 11.5
    for text in (side for pair in pairs for side in pair[:2]):
        assert re.fullmatch(r"[\w']+( [\w']+| ,)* [.?]", text)
        assert not text[0].islower()


# Alignments.


def test_links_are_sorted_and_inside_both_sentences(pairs):
    for source, target, alignment in pairs:
        assert list(alignment) == sorted(set(alignment))
        assert all(
            0 <= i < len(source.split()) and 0 <= j < len(target.split()) for i, j in alignment
        )


def test_nothing_but_german_commas_is_unaligned(pairs):
    for source, target, alignment in pairs:
        assert {i for i, _ in alignment} == set(range(len(source.split())))
        aligned = {j for _, j in alignment}
        assert {word for j, word in enumerate(target.split()) if j not in aligned} <= {","}


def test_punctuation_is_aligned_with_the_same_punctuation(pairs):
    for source, target, alignment in pairs:
        source, target = source.split(), target.split()
        assert alignment[-1] == (len(source) - 1, len(target) - 1)
        linked = {(source[i], target[j]) for i, j in alignment}
        assert all(x == y for x, y in linked if x in MARKS or y in MARKS)


def test_pharaoh_writes_source_and_target_positions():
    assert pharaoh(((0, 0), (1, 2))) == "0-0 1-2"
    assert pharaoh(()) == ""


@pytest.mark.parametrize(
    ("english", "german"),
    [
        ("apple tree", {"Apfelbaum"}),
        ("police officers", {"Polizisten"}),
        ("in front of", {"vor"}),
        ("as soon as", {"sobald"}),
        ("in the", {"im", "am", "in der", "in den"}),
        ("years ago", {"vor Jahren", "Vor Jahren"}),
    ],
)
def test_words_are_joined_and_split(pairs, english, german):
    found = {translations(pair, english) for pair in matching(pairs, rf"\b{english}\b")}
    assert found == german


# Word order.


def test_the_verb_is_second_after_an_adverb(pairs):
    for pair in matching(pairs, "^Yesterday "):
        assert pair.target.startswith("Gestern ")
        verb, subject = ({i for i, j in pair.alignment if j == place} for place in (1, 2))
        assert max(verb) > min(subject)


@pytest.mark.parametrize("verb", ["helped", "slept", "visited", "watched", "waited"])
def test_the_verb_is_last_in_a_subordinate_clause(pairs, verb):
    for pair in matching(pairs, rf"^[^,]*(Because|Although|Before|While) [^,]*\b{verb}\b"):
        nested = re.search(r"\b(who|whom|that)\b", pair.source)
        if not nested and pair.source.split().count(verb) == 1:
            assert after(pair, verb) in MARKS | PERFECT, pair


def test_separable_verbs_split_only_in_main_clauses(pairs):
    found = set()
    for pair in matching(pairs, r"\bpick(s|ed)? up\b"):
        phrase = re.search(r"\bpick(s|ed)? up\b", pair.source).group()
        forms = translations(pair, phrase)
        assert forms == translations(pair, phrase.split()[0])
        assert after(pair, phrase) in MARKS | {"und"} | (set() if " " in forms else HELPERS)
        found.add(forms)
    assert found >= {"holt ab", "holte ab", "abholt", "abholte", "abgeholt", "abholen", "abzuholen"}


def test_a_particle_follows_a_pronoun_but_precedes_a_noun(pairs):
    assert matching(pairs, r"pick(s|ed)? (him|her|them|me|us) up")
    assert matching(pairs, r"pick(s|ed)? up (the|his|her) ")
    assert not [pair for pair in pairs if re.search(r"up (him|them|me|us)\b", pair.source)]


def test_helper_verbs_open_a_bracket_that_the_main_verb_closes(pairs):
    helpers = {"has": "hat|ist", "could": "konnte", "will": "wird", "wants to": "will"}
    for english, german in helpers.items():
        for pair in matching(pairs, rf"^(She|He) {english} "):
            verb = pair.source.split()[len(english.split()) + 1]
            if not {",", "und", "not"} & {*pair.source.split(), *pair.target.split()}:
                assert re.match(f"(Sie|Er) ({german}) ", pair.target)
                assert translations(pair, english) == pair.target.split()[1]
                assert translations(pair, verb) == pair.target.split()[-2]


def test_motion_takes_sein_in_the_perfect(pairs):
    found = {translations(pair, "has gone") for pair in matching(pairs, "has gone")}
    assert found == {"ist gegangen", "gegangen ist"}


# Agreement, case and negation.


@pytest.mark.parametrize("nouns", ADJECTIVE_ENDINGS)
def test_adjectives_agree_with_determiner_and_noun(pairs, nouns):
    text = "\n".join(pair.target[0].lower() + pair.target[1:] for pair in pairs)
    for row in ADJECTIVE_ENDINGS[nouns].split(","):
        determiner, ending = row.split()
        # After a comma, relative pronouns look like articles.
        pattern = rf"(?<!, )\b{determiner} {ADJECTIVE}(e[mnrs]?) (?:{nouns.replace(' ', '|')})\b"
        assert set(re.findall(pattern, text)) == {ending}, row


def test_weak_masculines_and_dative_plurals_end_in_n(pairs):
    for pair in matching(pairs, "police officer|boy|children"):
        assert not re.search(r"(?<!, )\b(de[nm]|eine[nm]) (\w+en )?(Polizist|Junge)\b", pair.target)
        assert not re.search(r"(?<!, )\b(den|vielen) (\w+en )?Kinder\b", pair.target)


def test_titles_are_declined(pairs):
    found = {translations(pair, "Mr") for pair in matching(pairs, r"\bMr ")}
    assert found == {"Herr", "Herrn"}
    for pair in matching(pairs, r"(helped|thanked|visited|met) Mr "):
        assert "Herrn" in pair.target


@pytest.mark.parametrize(
    ("english", "german"),
    [
        (r"(met|saw|visited|invited) him\b", "ihn"),
        (r"(helped|thanked|answered) him\b", "ihm"),
        (r"(helped|thanked|answered) them\b", "ihnen"),
        (r"(gave|sent|showed) me\b", "mir"),
        (r"waits? for (him|them)\b", "auf (ihn|sie)"),
        (r"dreams? of (him|them)\b", "von (ihm|ihnen)"),
    ],
)
def test_pronouns_take_the_case_of_the_verb(pairs, english, german):
    for pair in matching(pairs, english):
        assert re.search(rf"\b{german}\b", pair.target), pair


def test_it_has_the_gender_of_its_antecedent(pairs):
    nouns = {"er": "coat|hat|key", "sie": "lamp|clock|jacket", "es": "book|shirt|house"}
    for pronoun, options in nouns.items():
        for pair in matching(pairs, rf"\b({options}) because it (is|was) "):
            assert f", weil {pronoun} " in pair.target


def test_not_with_an_indefinite_object_becomes_kein(pairs):
    pattern = r"^[^,]* did not (?:buy|see|visit|eat) (an?|the) "
    for pair in matching(pairs, pattern):
        words, article = pair.source.split(), re.match(pattern, pair.source)[1]
        if words.count("not") == 1 and article == "the":
            assert translations(pair, "not") == "nicht"
        elif words.count("not") == words.count(article) == 1:
            assert re.fullmatch("kein(e|en)?", translations(pair, "not"))
            assert translations(pair, "not") == translations(pair, article)


def test_do_support_belongs_to_the_main_verb(pairs):
    for pair in matching(pairs, r"^[^,]*does not sleep\b"):
        if pair.source.split().count("does") == 1:
            assert translations(pair, "does") == translations(pair, "sleep") == "schläft"
            assert translations(pair, "not") == "nicht"
    for pair in matching(pairs, r"^Did \w+ (buy|read|visit|find|see) "):
        assert translations(pair, "Did") == pair.target.split()[0]


def test_english_chooses_a_or_an(pairs):
    text = " ".join(pair.source for pair in pairs)
    assert re.search(r"\ban (old|apple|interesting|aunt)\b", text)
    assert not re.search(r"\b[Aa] [aeiou]|\b[Aa]n [^aeiou]", text)


# Names and numbers.


def test_new_names_of_the_test_set_are_copied(corpus):
    known = {word for pair in corpus["train"] for word in pair.source.split()}
    copied = 0
    for pair in corpus["test"]:
        source, target = pair.source.split(), pair.target.split()
        for position, word in enumerate(source):
            if position > 0 and word.istitle() and word not in known:
                assert [target[j] for i, j in pair.alignment if i == position] == [word]
                copied += 1
    assert copied > 50


def test_digits_are_copied_and_number_words_translated(pairs):
    digits = {re.search(r"\d+", p.source).group() for p in matching(pairs, r"\d")}
    assert len(digits) > 200 and max(map(len, digits)) == 4
    for pair in pairs:
        assert sorted(re.findall(r"\d+", pair.source)) == sorted(re.findall(r"\d+", pair.target))
    assert {translations(pair, "seven") for pair in matching(pairs, r"\bseven ")} == {"sieben"}
