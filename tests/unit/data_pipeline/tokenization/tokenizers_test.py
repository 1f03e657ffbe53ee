"""Text to ids and back, and the vocabularies of the tokenizers."""

import itertools
import random
import unicodedata

import numpy as np
import pytest
import sentencepiece

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.text_form import JOINER, normalised
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer, sample_lines, train_tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import (
    BOS_ID,
    EOS_ID,
    PAD_ID,
    PLACEHOLDERS,
    SPECIALS,
    UNK_ID,
    BpeVocabulary,
    PieceVocabulary,
    WordVocabulary,
)
from tests.unit.data_pipeline.small import foreign_model

LINES = [f"the quick brown fox jumps over {n} lazy dogs ." for n in range(100)]
LINES += ["say <pad> and <unk> and <s> and </s> aloud"] * 20
SPECIAL_TEXTS = ["</s>", "a </s> b", "<s> <unk> </s> <pad>", "a</s>b<pad>c", "</s></s>", "▁</s>"]


@pytest.fixture(scope="module")
def bpe():
    return BpeVocabulary.train(LINES, 400)


def pieces_file(folder, *lines):
    path = folder / "pieces.txt"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def round_trip(vocabulary, line):
    return vocabulary.decode(vocabulary.encode([line])[0])


def test_bpe_gives_back_every_text_but_for_spaces_and_the_form(bpe):
    rng = random.Random(0)
    characters = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    lines = [
        "",
        "😀 👨‍👩‍👧 🏳️‍🌈 é q\u0323\u0302 می\u200cخواهم, nul\0",
        "<0x41> ⁇ ▅ {}[]\\",
        "  the  quick  fox ",
        "the\tquick \t fox\u2028e\u0301\ufeff",
        *SPECIAL_TEXTS,
        *("".join(chr(rng.choice(characters)) for _ in range(20)) for _ in range(200)),
    ]
    for line in lines:
        assert round_trip(bpe, line) == normalised(normalised(line).replace("▁", " "))


@pytest.mark.parametrize("error", [KeyboardInterrupt(), UserError("x.en, line 3: not UTF-8")])
def test_what_a_text_raises_ends_the_training_of_bpe_as_it_is(error):
    def lines():
        yield from LINES
        raise error

    with pytest.raises(type(error)) as raised:
        BpeVocabulary.train(lines(), 400)
    assert raised.value is error


def test_bpe_merges_what_is_frequent_and_names_the_smallest_vocabulary(bpe):
    """Characters without pieces of their own are bytes."""
    assert bpe.pieces(bpe.encode(["the quick"])[0]) == ["▁the", "▁quick", "</s>"]
    (ids,) = bpe.encode(["ß日😀"])
    assert UNK_ID not in ids and bpe.pieces(ids)[1:3] == ["<0xC3>", "<0x9F>"]
    assert len(bpe) == 400 + len(PLACEHOLDERS)
    assert 256 + len(SPECIALS) < len(BpeVocabulary.train(["a b ab"], 5000)) < 300
    for size in (-1, 3, 100, 270):
        with pytest.raises(UserError, match=rf"of {size} pieces.*--num_pieces") as e:
            BpeVocabulary.train(LINES, size)
        assert "\n" not in str(e.value)
    smallest = int(str(e.value).split("alone take ")[1].split(" pieces")[0])
    assert len(BpeVocabulary.train(LINES, smallest)) == smallest + len(PLACEHOLDERS)
    with pytest.raises(UserError):
        BpeVocabulary.train(LINES, smallest - 1)


@pytest.mark.parametrize(
    "options",
    [
        {"pad_id": 0, "unk_id": 3, "bos_id": 1, "eos_id": 2},
        {"bos_id": -1, "eos_id": -1},
        {"user_defined_symbols": "<pad>"},
        {"unk_piece": "UNK", "bos_piece": "[CLS]"},
        {"model_type": "unigram", "vocab_size": 50},
    ],
)
def test_ready_model_is_renumbered_and_splits_as_before(tmp_path, capsys, options):
    path = tmp_path / "given.model"
    path.write_bytes(foreign_model(LINES, **options))
    foreign = sentencepiece.SentencePieceProcessor(model_file=str(path))
    tokenizer = train_tokenizer("bpe", LINES, LINES, vocab_size=8000, vocab_file=path)
    ours = tokenizer.source
    assert tokenizer.shared
    assert ours.pieces([PAD_ID, UNK_ID, BOS_ID, EOS_ID]) == list(SPECIALS)
    assert f"{path}: pieces renumbered" in capsys.readouterr().out
    # Texts that spell a special token are not compared: they must no longer give its id.
    for line in [*LINES[:100:7], "日本 x", ""]:
        assert ours.processor.encode(line, out_type=str) == foreign.encode(line, out_type=str)
        assert round_trip(ours, line) == normalised(foreign.decode(foreign.encode(line)))
    tokenizer.save(tmp_path / "saved")
    assert Tokenizer.load("bpe", tmp_path / "saved").fingerprint() == tokenizer.fingerprint()
    ours.save(path)  # Has our ids, and is taken as it is.
    assert train_tokenizer("bpe", [], [], vocab_file=path).source.model == ours.model
    assert capsys.readouterr().out == ""


def _list(*lines):
    return "".join(f"{line}\n" for line in lines).encode()


OTHER_IDS = {"pad_id": -1, "unk_id": 1, "bos_id": 2, "eos_id": 3}
ORDINARY = {"bos_piece": "[CLS]", "user_defined_symbols": "<s>"}
BAD_FILES = [
    ("bpe", foreign_model(LINES), "shared.model: pad, unk.*--pad_id=0"),
    ("bpe", foreign_model(LINES, **OTHER_IDS), "shared.model: pad, unk.*--pad_id=0"),
    ("word", _list(*SPECIALS, "a", "b", "a"), "shared.vocab.*line 7: 'a'"),
    ("word", _list(*SPECIALS, "a", ""), "shared.vocab.*line 6: ''"),
    ("word", _list(*SPECIALS, "a b"), "shared.vocab.*line 5: 'a b'"),
    ("word", _list("<unk>", "<s>", "</s>", "a"), "first four lines must be <pad> <unk> <s> </s>"),
    ("word", _list(*SPECIALS), "shared.vocab.*no entry besides"),
    ("given bpe", foreign_model(LINES, **ORDINARY), "given: '<s>' is an ordinary piece"),
    ("given pretokenized", _list("a 3", "", "b 1"), "given, line 2: "),
    ("given pretokenized", _list("<unk>", "a", "b", "a 9"), "given, line 4: "),
    ("given pretokenized", _list("a", " \t"), "given, line 2: "),
    ("given pretokenized", _list("a", "e\u0301"), "given: the piece .* is not.*--normalise=none"),
]


@pytest.mark.parametrize(("kind", "data", "fault"), BAD_FILES, ids=range(len(BAD_FILES)))
def test_a_bad_vocabulary_is_one_line_that_names_it(tmp_path, kind, data, fault):
    given, kind = kind.startswith("given"), kind.split()[-1]
    path = tmp_path / ("given" if given else "shared.model" if kind == "bpe" else "shared.vocab")
    path.write_bytes(data)
    with pytest.raises(UserError, match=fault) as e:
        if given:
            train_tokenizer(kind, LINES, LINES, vocab_file=path)
        else:
            Tokenizer.load(kind, tmp_path)
    assert "\n" not in str(e.value)


def test_large_corpora_are_sampled_pair_by_pair():
    source, target = [f"s{i}" for i in range(1000)], [f"t{i}" for i in range(1000)]
    sample = list(sample_lines(source, target, 300))
    assert len(sample) == 600
    numbers = [int(line[1:]) for line in sample]
    assert numbers[:300] == numbers[300:] == sorted(set(numbers))
    assert sample[0][0] == "s" and sample[-1][0] == "t"
    assert abs(np.mean(numbers) - 500) < 60
    assert sample == list(sample_lines(source, target, 300))
    assert sample != list(sample_lines(source, target, 300, seed=1))
    assert list(sample_lines(source, target, 1000)) == [*source, *target]


@pytest.mark.parametrize(
    ("lines", "limit", "least", "words"),
    [
        (["a a a b", "b c"], None, 2, "a b"),  # Words seen less than twice are unknown.
        (["c c c a a b b b b"], 6, 1, "b c"),  # The limit counts the specials.
        (["d c", "b a b a", "z z z"], None, 1, "z a b c d"),  # By count, then by word.
        (["z z z", "b a b a", "d c"], None, 1, "z a b c d"),
    ],
)
def test_word_vocabularies_have_the_most_frequent_words(lines, limit, least, words):
    vocabulary = WordVocabulary.train(lines, limit, least)
    assert vocabulary.words == [*SPECIALS, *words.split()]
    (ids,) = vocabulary.encode([f"{words[0]} foo {words[2]}"])
    assert ids == [4, UNK_ID, 5, EOS_ID]
    assert vocabulary.decode(ids) == f"{words[0]} <unk> {words[2]}"


def test_all_white_space_separates_words_and_invisible_characters_do_not():
    vocabulary = WordVocabulary.train(["a\u00a0b\u00ad c\u2028d\u3000"], None, 1)
    assert vocabulary.words[4:] == ["a", "b", "c", "d"]
    assert vocabulary.encode(["  c\u2028\ufeffd\u3000\t\v\f\r a\u00a0b "]) == [[6, 7, 4, 5, EOS_ID]]
    vocabulary = WordVocabulary.train(["a b ▁▁ ▁x y@@ @@"], None, 1)  # Words are not joined.
    assert vocabulary.decode(vocabulary.encode(["a ▁▁ b y@@ @@"])[0]) == "a ▁▁ b y@@ @@"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("läuft. läuft .", "läuft _. läuft ."),
        ("(„Hund“)...", "(_ „_ Hund _“ _) _..."),
        ("The dog's 10:30 e-mail, U.S. 50%", "The dog _'s 10:30 e-mail _, U.S _. 50 _%"),
        ("¿Qué? l'homme n'est", "¿_ Qué _? l'_ homme n'_ est"),
        ("... -- 'tis ?! ‿. (‿", "... - _- '_ tis ? _! ‿. (‿"),
        ("a\u2060. ‿\u2060.", "a _. ‿."),  # No joiner of the text is taken for a sign.
    ],
)
def test_marks_of_raw_text_are_split_from_words_and_joined_again(tmp_path, capsys, text, parts):
    tokens = [f"{text} ."] * 10
    tokenizer = train_tokenizer("word", [text, "a."], tokens, min_word_count=1)
    assert "source: marks are split" in capsys.readouterr().out
    tokenizer.save(tmp_path)
    for source, target in (tokenizer[1:], Tokenizer.load("word", tmp_path)[1:]):
        assert source.split(text) == parts.replace("_", JOINER).split()
        assert source.decode(source.encode([text])[0]) == normalised(text)
        words, (numbers,) = text.split(), source.word_numbers([text])
        assert numbers == sorted(numbers) and {*numbers} == {*range(len(words) + 1)}
        assert target.split(text) == normalised(text).split()  # Of a text that is tokenised.
    (ids,), given = source.encode(["(Foo)!"]), source.split("(Foo)!")
    unknown = [part for part, i in zip(given, ids, strict=False) if i == UNK_ID]
    assert source.decode(ids, unknown) == "(Foo)!"


def pretokenized(folder, *lines):
    return train_tokenizer("pretokenized", [], [], vocab_file=pieces_file(folder, *lines))


@pytest.mark.parametrize(
    ("pieces", "text", "words"),
    [
        (["Dampf@@", "schiff", "ahoi"], "Dampf@@ schiff ahoi", "Dampfschiff ahoi"),
        (["▁Dampf", "schiff", "▁ahoi"], "▁Dampf schiff ▁ahoi", "Dampfschiff ahoi"),
        (["Schiff", "ahoi"], "Schiff  ahoi", "Schiff ahoi"),
        (["a@@", "b@@", "c", "▁"], "c a@@", "c a"),  # The more frequent mark; the last may go on.
        (["▁a", "▁b", "c", "@@"], "▁a c", "ac"),
        (["a▁", "@@b"], "a▁ @@b", "a▁ @@b"),
    ],
)
def test_pieces_are_looked_up_and_joined_to_words(tmp_path, pieces, text, words):
    """Specials in the list are not doubled."""
    fronts = ((), SPECIALS, ("<unk> 0", "<s> 0", "</s> 0"), ("</s>", "<pad>"))
    for front, beside in itertools.product(fronts, ("", "\t-4.5")):
        tokenizer = pretokenized(tmp_path, *front, *(piece + beside for piece in pieces))
        assert tokenizer.shared
        assert tokenizer.source.words == [*SPECIALS, *pieces]
        (ids,) = tokenizer.source.encode([text])
        assert UNK_ID not in ids
        assert tokenizer.target.decode(ids) == words
        assert tokenizer.target.decode([]) == ""


@pytest.mark.parametrize(
    ("pieces", "in_pieces"),
    [("▁der ▁H und ▁läuft", "▁der ▁H und"), ("der H@@ und läuft", "der H@@ und")],
)
def test_target_lines_in_pieces_are_joined_as_translations_are(tmp_path, pieces, in_pieces):
    tokenizer = pretokenized(tmp_path, *pieces.split())
    assert tokenizer.target_words([in_pieces, "", pieces]) == ["der Hund", "", "der Hund läuft"]
    plain = ["der  Hund @@ -1 +1 @@", "", "läuft a@@ "]  # Of no piece of the vocabulary.
    assert tokenizer.target_words(plain) == plain
    words = train_tokenizer("word", [in_pieces], [in_pieces], min_word_count=1)
    assert words.target_words([in_pieces]) == [in_pieces]


@pytest.fixture(scope="module", params=["bpe", "word", "@@", "▁"])
def tokenizer(request, tmp_path_factory):
    if request.param in ("bpe", "word"):
        return train_tokenizer(request.param, LINES, LINES[50:], vocab_size=400)
    mark = {"@@": ["the@@", "quick@@", "fox"], "▁": ["▁the", "quick", "▁fox"]}[request.param]
    return pretokenized(tmp_path_factory.mktemp("pieces"), *mark)


def test_every_line_ends_in_eos_which_no_text_spells_and_an_empty_one_is_nothing_else(tokenizer):
    for side in (tokenizer.source, tokenizer.target):
        for ids in side.encode(SPECIAL_TEXTS):
            assert ids[-1] == EOS_ID
            assert not {PAD_ID, BOS_ID, EOS_ID} & set(ids[:-1])
    blank = ["", " ", "\u2028", "\u00a0\t", "\u200b", "\ufeff "]
    (fox, *encoded) = tokenizer.source.encode(["the fox", *blank])
    assert fox[-1] == EOS_ID and fox.count(EOS_ID) == 1
    assert encoded == [[EOS_ID]] * len(blank)
    assert tokenizer.source.encode([]) == []
    line = tokenizer.source.decode(fox)
    assert tokenizer.source.decode([*fox, *fox, PAD_ID]) == line  # Up to the first EOS.
    assert tokenizer.source.decode([EOS_ID, *fox]) == tokenizer.source.decode([]) == ""


def test_saved_tokenizer_is_the_same_when_loaded(tokenizer, tmp_path):
    left = WordVocabulary([*SPECIALS, "left"])  # By a killed run; not loaded in place of the new.
    Tokenizer("pretokenized", left, left).save(tmp_path)
    left_file = next(tmp_path.iterdir()).rename(tmp_path / f"shared{tokenizer.source.file_suffix}")
    tokenizer.save(tmp_path)
    assert left_file.exists() == (tokenizer.kind != "word")
    names = {path.stem for path in tmp_path.iterdir()}
    assert names == ({"source", "target"} if tokenizer.kind == "word" else {"shared"})
    loaded = Tokenizer.load(tokenizer.kind, tmp_path)
    assert loaded.fingerprint() == tokenizer.fingerprint()
    assert (loaded.kind, loaded.shared) == (tokenizer.kind, tokenizer.shared)
    for old, new in zip(tokenizer[1:], loaded[1:], strict=True):
        encoded = old.encode(LINES + SPECIAL_TEXTS)
        assert new.encode(LINES + SPECIAL_TEXTS) == encoded
        assert [new.decode(ids) for ids in encoded] == [old.decode(ids) for ids in encoded]
        assert len(new) == len(old)


def test_fingerprint_changes_with_every_entry_their_order_the_side_the_kind_and_the_model(bpe):
    a, b, c = (WordVocabulary([*SPECIALS, *words.split()]) for words in ("x y", "x z", "y x"))
    tokenizers = [Tokenizer("word", *sides) for sides in ((a, a), (a, b), (b, a), (a, c), (c, c))]
    pieces, other = PieceVocabulary([*SPECIALS, "x", "y"]), BpeVocabulary.train(LINES, 350)
    tokenizers.append(Tokenizer("pretokenized", pieces, pieces))
    tokenizers += [Tokenizer("bpe", model, model) for model in (bpe, other)]
    again = BpeVocabulary.train(LINES, 350)
    assert Tokenizer("bpe", again, again).fingerprint() == tokenizers[-1].fingerprint()
    assert len({tokenizer.fingerprint() for tokenizer in tokenizers}) == len(tokenizers)
    again = WordVocabulary([*SPECIALS, "x", "y"])
    assert Tokenizer("word", again, again).fingerprint() == tokenizers[0].fingerprint()


@pytest.mark.parametrize("kind", ["bpe", "word"])
def test_text_in_parts_is_encoded_as_the_composed_text_unless_its_form_is_to_stay(kind, tmp_path):
    parts, composed = (unicodedata.normalize(f, "Größe größer café") for f in ("NFD", "NFC"))
    for form, is_same in (("nfc", True), ("none", False)):
        size = {"bpe": 290, "word": None}[kind]
        found = train_tokenizer(
            kind, [parts], [composed], vocab_size=size, min_word_count=1, form=form
        )
        found.save(tmp_path)
        for each in (found, Tokenizer.load(kind, tmp_path, form)):
            assert (each.source.encode([parts]) == each.source.encode([composed])) is is_same
            assert (each.source.decode(each.source.encode([parts])[0]) == parts) is not is_same
    assert found.fingerprint() != Tokenizer.load(kind, tmp_path).fingerprint()
