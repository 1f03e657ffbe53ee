"""Vocabularies for one side of a corpus: byte-pair encoding, words, ready-made pieces.

In every vocabulary, pad, unk, bos and eos have the ids 0, 1, 2 and 3. The argument `form` is the
form of the text, from `text_form.FORMS`, and `name` is the vocabulary's name in errors.
"""

import bisect
import collections
import io
import itertools
import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

import sentencepiece

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import FilePath, atomic_path, read_bytes, read_lines, write_lines
from nmt_zoo.data_pipeline.lines import AnyLines
from nmt_zoo.data_pipeline.text_form import (
    FIRST,
    JOINER,
    looks_tokenised,
    normalised,
    split_parts,
    split_words,
)
from nmt_zoo.data_pipeline.tokenization.sentencepiece_models import (
    processor_of,
    with_entries,
    with_special_ids,
)

PAD_ID, UNK_ID, BOS_ID, EOS_ID = range(4)
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")
# Characters for private use, which can stand for any text that is not translated: own pieces of BPE
# vocabularies, which a model learns to copy much sooner than it copies bytes.
PLACEHOLDERS = tuple(map(chr, range(0xE000, 0xE010)))

# For each style, what joins pieces in a line of pieces: pattern and replacement.
JOINTS = {
    "▁": ("▁", " "),
    "@@": ("@@( |$)", ""),
    JOINER: (f"(?:^|{JOINER} | ){JOINER}|{JOINER}(?: |$)", ""),
    "word": ("", ""),
}
_WORD_BYTES = re.compile(rb"[^ ]+")  # In a normalised line.
# In a list of words or pieces: those from elsewhere may have other spaces than ASCII's as pieces.
_ENTRY = re.compile(r"[^ \t\n\r\f\v]+")


class BpeVocabulary:
    """SentencePiece byte-pair encoding (Sennrich et al. 2016) with byte fallback.

    Decoding restores an encoded line in the form of `text_form.normalised`, except that U+2581,
    SentencePiece's own sign for a space, becomes a space.
    Raises UserError: not a SentencePiece model, or a model with other special ids.
    """

    file_suffix = ".model"
    style = "▁"  # As `piece_style`.
    language_token: int | None = None  # The id of a language, with which each text begins.
    language_tokens: frozenset = frozenset()  # Of all languages; a text may have one itself.

    def __init__(self, model: bytes, name: FilePath = "SentencePiece model", form: str = "nfc"):
        self.model = model
        self.form = form
        self.processor = p = processor_of(model, name)
        ids = p.pad_id(), p.unk_id(), p.bos_id(), p.eos_id()
        if ids != (PAD_ID, UNK_ID, BOS_ID, EOS_ID):
            raise UserError(
                f"{name}: pad, unk, bos, eos must be the ids 0, 1, 2, 3, found {ids}; train it "
                "with --pad_id=0 --unk_id=1 --bos_id=2 --eos_id=3, or start a run with "
                "--tokenizer=bpe --vocab_file, which renumbers the pieces"
            )

    @classmethod
    def train(
        cls, lines: Iterable[str], vocab_size: int | None, form: str = "nfc"
    ) -> "BpeVocabulary":
        """Learns merges from text. The result has fewer pieces if the text does not yield more.

        `vocab_size` includes 4 specials, 256 bytes and the characters of the text, but no
        `PLACEHOLDERS`.
        Raises UserError: it is too small for the characters of the text, or there is no text.
        """
        if not vocab_size:
            raise UserError("--tokenizer=bpe needs --num_pieces, the number of pieces")
        writer, raised = io.BytesIO(), []
        texts = (normalised(line, form) for line in lines)
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=_noting(filter(None, texts), raised),
                model_writer=writer,
                model_type="bpe",
                vocab_size=vocab_size + len(PLACEHOLDERS),
                hard_vocab_limit=False,
                byte_fallback=True,
                user_defined_symbols=list(PLACEHOLDERS),
                character_coverage=0.9999,
                # `normalised` does it: a translation must be able to equal its reference.
                normalization_rule_name="identity",
                max_sentence_length=65536,
                pad_id=PAD_ID,
                unk_id=UNK_ID,
                bos_id=BOS_ID,
                eos_id=EOS_ID,
                minloglevel=2,
            )
        except RuntimeError as error:
            if raised:  # Ctrl-C, or a line that is not UTF-8; SentencePiece keeps only its message.
                raise raised[0] from None
            too_small = re.search(r"required_chars\. -?\d+ vs (\d+)", str(error))
            remedy = (
                "its bytes and characters alone take "
                f"{int(too_small[1]) - len(PLACEHOLDERS)} pieces; give a larger --num_pieces"
                if too_small
                else f"check the training files and --num_pieces ({' '.join(str(error).split())})"
            )
            raise UserError(
                f"no BPE vocabulary of {vocab_size} pieces can be trained on this text: {remedy}"
            ) from None
        return cls(writer.getvalue(), form=form)

    def with_tags(self, tags: Iterable[str]) -> "BpeVocabulary":
        """Returns the vocabulary with tags of languages, such as `>>de<<`, as further pieces."""
        entries = [*self.pieces(range(len(self))), *(f"▁{tag}" for tag in tags)]
        model = with_entries(self.model, entries, (), "vocabulary with tags")
        return type(self)(model, form=self.form)

    @classmethod
    def from_model(cls, path: FilePath, form: str = "nfc") -> "BpeVocabulary":
        """Reads a SentencePiece model made elsewhere, of BPE or another type.

        If its special ids are not 0, 1, 2, 3, the pieces are renumbered, and a line on standard
        output reports this.
        Raises UserError: the file is missing, the model cannot be used, or its pieces are in
        another form.
        """
        model = read_bytes(path)
        fitting = with_special_ids(model, SPECIALS, path)
        if fitting != model:
            print(
                f"{path}: pieces renumbered, so that {' '.join(SPECIALS)} are the first", flush=True
            )
        vocabulary = cls(fitting, path, form)
        _check_form(vocabulary.pieces(range(len(vocabulary))), form, path)
        return vocabulary

    def __len__(self) -> int:
        return self.processor.get_piece_size()

    def encode(self, lines: Iterable[str]) -> list[list[int]]:
        """Encodes lines as lists of ids, each ending in `EOS_ID`; an empty line is `[EOS_ID]`.

        Works in one thread without Python's global interpreter lock: call it from several threads.
        """
        lines = [normalised(line, self.form) for line in lines]
        encoded = self.processor.encode(lines, out_type=int, add_eos=True, num_threads=1)
        if self.language_token is None:
            return encoded
        return [
            [self.language_token, *ids] if self._needs_language(ids) else ids for ids in encoded
        ]

    def _needs_language(self, ids):
        return (
            self.language_token is not None and len(ids) > 1 and ids[0] not in self.language_tokens
        )

    def decode(self, ids: Sequence[int]) -> str:
        """Decodes the ids before the first `EOS_ID` to a line, in the form of `normalised`.

        Byte pieces spell any character, such as a line feed, and pieces may be parts of one.
        """
        return normalised(self.processor.decode([int(i) for i in _until_eos(ids)]), self.form)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Returns the piece of every id."""
        return [self.processor.id_to_piece(int(i)) for i in ids]

    def ids(self, pieces: Iterable[str]) -> list[int]:
        """Returns the id of every piece."""
        return [self.processor.piece_to_id(piece) for piece in pieces]

    def word_numbers(self, lines: Iterable[str]) -> list[list[int]]:
        """Finds the word, as `split_words` counts them, in which each token of a line begins.

        Returns for every line the word number of each id, counted from 0 and never falling. The
        number of `</s>` is the number of words, that of the token of a language -1. SentencePiece
        reports the bytes of the line that each piece covers. The lengths of the pieces would not
        give them: normalisation changes the number of bytes, and `<unk>` stands for any number of
        bytes.
        """
        from sentencepiece.sentencepiece_pb2 import SentencePieceText  # pyright: ignore[reportAttributeAccessIssue]

        # For bytes, all versions give byte offsets.
        encoded = [normalised(line, self.form).encode() for line in lines]
        texts = self.processor.encode(encoded, out_type="serialized_proto", num_threads=1)
        return [
            self._word_numbers(line, SentencePieceText.FromString(text).pieces)
            for line, text in zip(encoded, texts, strict=True)
        ]

    def _word_numbers(self, line, pieces):
        words = list(_WORD_BYTES.finditer(line))
        ends = [word.end() for word in words]
        last = max(len(words) - 1, 0)
        numbers = []
        for piece in pieces:
            number = min(bisect.bisect_right(ends, piece.begin), last)
            # A word without any piece, such as a lone "▁", counts as white space before the next
            # word.
            while number < last and ends[number] < piece.end:
                if self.processor.encode(words[number][0]):
                    break
                number += 1
            numbers.append(number)
        ids = [piece.id for piece in pieces]
        if ids and ids[0] in self.language_tokens:  # Written in the text, it is no word either.
            numbers[0] = -1
        language = [-1] if self._needs_language([*ids, EOS_ID]) else []
        return [*language, *numbers, len(words)]

    def save(self, path: FilePath) -> None:
        """Writes the vocabulary to a file, atomically."""
        with atomic_path(path) as temporary:
            temporary.write_bytes(self.model)

    @classmethod
    def load(cls, path: FilePath, form: str = "nfc") -> "Vocabulary":
        """Reads what `save` wrote."""
        return cls(read_bytes(path), path, form)


class WordVocabulary:
    """Words separated by white space; a word that is not in the list becomes UNK.

    `words` are all entries; the first four are `SPECIALS`. If an entry has a `JOINER`, marks are
    split from words, see `split_parts`, and joined again.
    Raises UserError: the first four entries are not `SPECIALS`, there is no other entry, an entry
    occurs twice, or an entry contains white space.
    """

    file_suffix = ".vocab"
    language_token: int | None = None  # As of `BpeVocabulary`; here, no text has one.
    language_tokens: frozenset = frozenset()

    def __init__(self, words: Iterable[str], name: FilePath = "vocabulary", form: str = "nfc"):
        self.words = list(words)
        self.form = form
        self.style = JOINER if any(JOINER in word for word in self.words) else "word"
        if tuple(self.words[:4]) != SPECIALS:
            raise UserError(
                f"{name}: pad, unk, bos, eos must be the ids 0, 1, 2, 3: the first four lines must "
                f"be {' '.join(SPECIALS)}, found {' '.join(self.words[:4])!r}"
            )
        if len(self.words) == len(SPECIALS):
            raise UserError(f"{name}: no entry besides {' '.join(SPECIALS)}; give a longer list")
        _check_entries(self.words, name)
        self.index = {word: i for i, word in enumerate(self.words)}
        for special in SPECIALS:  # The word "</s>" in a text must not end the sentence.
            self.index[special] = UNK_ID

    @classmethod
    def train(
        cls, lines: AnyLines, vocab_size: int | None, min_count: int, form: str = "nfc"
    ) -> "WordVocabulary":
        """Takes the `vocab_size - 4` most frequent words that occur at least `min_count` times.

        A `vocab_size` of None is no limit. Text that does not look tokenised counts as parts of
        words. Raises UserError: no word is left.
        """
        in_words = looks_tokenised([*itertools.islice(lines, FIRST)])
        split = split_words if in_words else split_parts
        counts = collections.Counter(word for line in lines for word in split(line, form))
        for special in SPECIALS:
            counts.pop(special, None)
        frequent = sorted((-count, word) for word, count in counts.items() if count >= min_count)
        limit = None if vocab_size is None else max(vocab_size - len(SPECIALS), 0)
        words = [word for _, word in frequent[:limit]]
        if not words:
            raise UserError(
                f"no word is left for a vocabulary, of {len(counts)} different words in the text; "
                "check the files, lower --min_word_count or raise --max_words"
            )
        return cls([*SPECIALS, *words], form=form)

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, lines: Iterable[str]) -> list[list[int]]:
        """Encodes lines as lists of ids, each ending in `EOS_ID`; an empty line is `[EOS_ID]`."""
        get = self.index.get
        return [[*(get(word, UNK_ID) for word in self.split(line)), EOS_ID] for line in lines]

    def split(self, line: str) -> list[str]:
        """Splits a line into words as `encode` does, including unknown words."""
        return (split_parts if self.style == JOINER else split_words)(line, self.form)

    def decode(self, ids: Sequence[int], unknowns: Iterable[str] | None = None) -> str:
        """Decodes the ids before the first `EOS_ID` to a line.

        `unknowns` are texts to write for each UNK, in order; None writes "<unk>".
        """
        ids = _until_eos(ids)
        pieces = self.pieces(ids)
        if unknowns is not None:
            unknowns = iter(unknowns)
            pieces = [
                next(unknowns) if i == UNK_ID else piece
                for i, piece in zip(ids, pieces, strict=True)
            ]
        return normalised(join_pieces(pieces, self.style), self.form)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Returns the word of every id."""
        return [self.words[int(i)] for i in ids]

    def word_numbers(self, lines: Iterable[str]) -> list[list[int]]:
        """As `BpeVocabulary.word_numbers`; here each token is a word, or a part of one."""
        words = [split_words(line, self.form) for line in lines]
        return [[*(n for n, w in enumerate(x) for _ in self.split(w)), len(x)] for x in words]

    def save(self, path: FilePath) -> None:
        """Writes the vocabulary to a file, atomically."""
        write_lines(path, self.words)

    @classmethod
    def load(cls, path: FilePath, form: str = "nfc") -> "Vocabulary":
        """Reads what `save` wrote."""
        return cls(read_lines(path), path, form)


class PieceVocabulary(WordVocabulary):
    """Ready-made pieces separated by white space; `decode` joins them to words."""

    def __init__(self, words: Iterable[str], name: FilePath = "vocabulary", form: str = "nfc"):
        super().__init__(words, name, form)
        self.style = piece_style(self.words)

    @classmethod
    def from_pieces(cls, path: FilePath, form: str = "nfc") -> "PieceVocabulary":
        """Reads a list of pieces made elsewhere, one piece per line.

        A count or score after a piece is ignored. The specials come first, whether or not the list
        contains them.
        Raises UserError: the file is missing, a line has no piece, a piece occurs twice or is in
        another form, or there are no pieces.
        """
        pieces = [(_ENTRY.findall(line) or [""])[0] for line in read_lines(path)]
        _check_entries(pieces, path)
        _check_form(pieces, form, path)
        return cls([*SPECIALS, *(piece for piece in pieces if piece not in SPECIALS)], path, form)

    def joined(self, lines: list[str]) -> list[str]:
        """Joins the pieces of each line to words as `decode` does, if the lines are in pieces."""
        pieces = [split_words(line) for line in lines]
        if self.style == "▁":
            firsts = [line[0] for line in pieces if line]
            in_pieces = 2 * sum(first.startswith("▁") for first in firsts) > len(firsts)
        else:
            in_pieces = any(p.endswith("@@") and p in self.index for line in pieces for p in line)
        return [join_pieces(line, self.style) for line in pieces] if in_pieces else lines


Vocabulary: TypeAlias = BpeVocabulary | WordVocabulary


def piece_style(words: Iterable[str]) -> str:
    """Finds how pieces mark word boundaries: "▁" (before a word), "@@" (word continues) or "word".

    The more frequent mark decides, because either mark may occur as plain text.
    """
    counts = {
        "▁": sum(word.startswith("▁") for word in words),
        "@@": sum(word.endswith("@@") for word in words),
    }
    style = max(counts, key=counts.get)
    return style if counts[style] else "word"


def join_pieces(pieces: Iterable[str], style: str) -> str:
    """Joins pieces to a line of words, by a style that `piece_style` returns."""
    line = ("" if style == "▁" else " ").join(pieces)
    return re.sub(*JOINTS[style], line).strip(" ")


def _noting(lines, raised):
    """Yields lines, and appends an exception that their iteration raises to `raised`."""
    try:
        yield from lines
    except (Exception, KeyboardInterrupt) as error:
        raised.append(error)
        raise


def is_sentencepiece(path: FilePath) -> bool:
    """Returns whether a file is a SentencePiece model, by its name or its first byte.

    Raises UserError: the file cannot be read.
    """
    # A model begins with the tag of its first piece, 10. As a text, its first line would be empty.
    return Path(path).suffix == BpeVocabulary.file_suffix or read_bytes(path)[:1] == b"\n"


def _check_entries(words, name):
    seen = set()
    for line, word in enumerate(words, 1):
        if word in seen or not _ENTRY.fullmatch(word):
            raise UserError(
                f"{name}, line {line}: {word!r} is empty, has white space or appears twice; "
                "expected a different entry on each line"
            )
        seen.add(word)


def _check_form(pieces, form, name):
    """Raises `UserError` if a piece of a ready vocabulary could not occur in a normalised text."""
    for piece in pieces:
        if form == "nfc" and not unicodedata.is_normalized("NFC", piece):
            raise UserError(
                f"{name}: the piece {piece!r} is not in Unicode normal form C, into which text is "
                "brought by default; give --normalise=none"
            )


def _until_eos(ids):
    """Returns the ids before the first EOS, without padding. A truncated hypothesis has no EOS."""
    before_eos = itertools.takewhile(lambda i: i != EOS_ID, ids)
    return [i for i in before_eos if i != PAD_ID]
