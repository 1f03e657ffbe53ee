"""The vocabularies of one side: byte-pair encoding, words, ready-made pieces.

In each, pad, unk, bos and eos are the ids 0, 1, 2 and 3.
"""

import bisect
import collections
import io
import itertools
import re
from pathlib import Path

import sentencepiece

from data_pipeline.files import UserError, atomic_path, read_lines, write_lines
from data_pipeline.tokenization.sentencepiece_models import with_special_ids

PAD_ID, UNK_ID, BOS_ID, EOS_ID = range(4)
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")

# ASCII white space: what tf.strings.split takes, so that text is split alike inside a SavedModel.
_WORD = re.compile(r"[^ \t\n\r\f\v]+")
_WORD_BYTES = re.compile(_WORD.pattern.encode())


def split_words(line):
    """The words of a line: what stands between ASCII white space."""
    return _WORD.findall(line)


class BpeVocabulary:
    """SentencePiece byte-pair encoding (Sennrich et al. 2016) with byte fallback.

    Decoding gives back any line that was encoded, but for spaces: outer ones are dropped, several
    become one, and U+2581, SentencePiece's own sign for a space, becomes one.

    Args:
        model: the bytes of a SentencePiece model.
        name: what to call it in errors, such as its path.

    Raises:
        UserError: not a SentencePiece model, or one with other special ids.
    """

    file_suffix = ".model"

    def __init__(self, model, name="SentencePiece model"):
        self.model = model
        try:
            if not model:  # SentencePiece takes no bytes for no model, and says nothing.
                raise ValueError
            self.processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        except (RuntimeError, ValueError):
            raise UserError(
                f"{name}: not a SentencePiece model; it may be damaged: train again in a new "
                "--model_dir"
            ) from None
        p = self.processor
        found = (p.pad_id(), p.unk_id(), p.bos_id(), p.eos_id())
        if found != (PAD_ID, UNK_ID, BOS_ID, EOS_ID):
            raise UserError(
                f"{name}: pad, unk, bos, eos must be the ids 0, 1, 2, 3, found {found}; train it "
                "with --pad_id=0 --unk_id=1 --bos_id=2 --eos_id=3, or start a run with "
                "--tokenizer=bpe --vocab_file, which renumbers the pieces"
            )

    @classmethod
    def train(cls, lines, vocab_size):
        """Learns merges from text; fewer pieces than asked for if the text has no more.

        Args:
            lines: iterable of str.
            vocab_size: number of pieces, with 4 specials, 256 bytes and the text's characters.

        Raises:
            UserError: `vocab_size` too small for the characters of the text, or no text.
        """
        if not vocab_size:
            raise UserError("--tokenizer=bpe needs --num_pieces, the number of pieces")
        writer, raised = io.BytesIO(), []
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=_noting(lines, raised),
                model_writer=writer,
                model_type="bpe",
                vocab_size=vocab_size,
                hard_vocab_limit=False,
                byte_fallback=True,
                character_coverage=0.9999,
                # No character is replaced: a translation must be able to equal its reference.
                normalization_rule_name="identity",
                max_sentence_length=65536,
                pad_id=PAD_ID,
                unk_id=UNK_ID,
                bos_id=BOS_ID,
                eos_id=EOS_ID,
                minloglevel=2,
            )
        except RuntimeError as error:
            if raised:  # Ctrl-C, or a line that is not UTF-8; SentencePiece makes a text of it.
                raise raised[0] from None
            too_small = re.search(r"required_chars\. -?\d+ vs (\d+)", str(error))
            remedy = (
                f"its bytes and characters alone take {too_small[1]}; give a larger --num_pieces"
                if too_small
                else f"check the training files and --num_pieces ({' '.join(str(error).split())})"
            )
            raise UserError(
                f"no BPE vocabulary of {vocab_size} pieces can be trained on this text: {remedy}"
            ) from None
        return cls(writer.getvalue())

    @classmethod
    def from_model(cls, path):
        """Reads somebody's SentencePiece model, of BPE or another kind.

        Where its special ids are others, its pieces are renumbered, and a line on standard output
        says so.

        Raises:
            UserError: no such file, or no model that can be used.
        """
        model = _read_bytes(path)
        fitting = with_special_ids(model, SPECIALS, path)
        if fitting != model:
            print(
                f"{path}: pieces renumbered, so that {' '.join(SPECIALS)} are the first", flush=True
            )
        return cls(fitting, path)

    def __len__(self):
        return self.processor.get_piece_size()

    def encode(self, lines):
        """Lines to lists of ids, each ending in `EOS_ID`; an empty line is `[EOS_ID]`.

        Works in one thread, without the interpreter's lock: call it from several.
        """
        return self.processor.encode(list(lines), out_type=int, add_eos=True, num_threads=1)

    def decode(self, ids):
        """Ids, up to the first `EOS_ID`, to a line; a line feed among the bytes is a space.

        Outer spaces are dropped: versions of SentencePiece differ in how many they leave.
        """
        line = self.processor.decode([int(i) for i in _until_eos(ids)])
        return line.replace("\n", " ").strip(" ")

    def pieces(self, ids):
        """The piece of every id."""
        return [self.processor.id_to_piece(int(i)) for i in ids]

    def word_numbers(self, lines):
        """Finds the word of its line, between ASCII white space, in which each token begins.

        SentencePiece says which bytes of the line each piece is made of. They cannot be counted:
        normalisation changes their number, and `<unk>` stands for any number of them.

        Args:
            lines: iterable of str.

        Returns:
            For every line a list with a number for each of its ids, counted from 0 and never
            falling. The number of `</s>` is that of the words.
        """
        from sentencepiece.sentencepiece_pb2 import SentencePieceText

        lines = [line.encode() for line in lines]  # Then all versions count in bytes.
        texts = self.processor.encode(lines, out_type="serialized_proto", num_threads=1)
        return [
            self._word_numbers(line, SentencePieceText.FromString(text).pieces)
            for line, text in zip(lines, texts, strict=True)
        ]

    def _word_numbers(self, line, pieces):
        """As `word_numbers`, of one line, in bytes."""
        words = list(_WORD_BYTES.finditer(line))
        ends = [word.end() for word in words]
        last = max(len(words) - 1, 0)
        numbers = []
        for piece in pieces:
            number = min(bisect.bisect_right(ends, piece.begin), last)
            # Words that the model drops, such as a lone "▁", count as white space before the next.
            while number < last and ends[number] < piece.end:
                if self.processor.encode(words[number][0]):
                    break
                number += 1
            numbers.append(number)
        return [*numbers, len(words)]

    def save(self, path):
        """Writes the vocabulary to a file, atomically."""
        with atomic_path(path) as temporary:
            temporary.write_bytes(self.model)

    @classmethod
    def load(cls, path):
        """Reads what `save` wrote."""
        return cls(_read_bytes(path), path)


class WordVocabulary:
    """Words separated by white space; what is not in the list is UNK.

    Args:
        words: all entries, the first four being `SPECIALS`.
        name: what to call it in errors, such as its path.

    Raises:
        UserError: other specials, nothing else, an entry twice, or an entry with white space.
    """

    file_suffix = ".vocab"
    style = "word"  # How `join_pieces` makes a line.

    def __init__(self, words, name="vocabulary"):
        self.words = list(words)
        if tuple(self.words[:4]) != SPECIALS:
            raise UserError(
                f"{name}: pad, unk, bos, eos must be the ids 0, 1, 2, 3: the first four lines must "
                f"be {' '.join(SPECIALS)}, found {' '.join(self.words[:4])!r}"
            )
        if len(self.words) == len(SPECIALS):
            raise UserError(f"{name}: no entry besides {' '.join(SPECIALS)}; give a longer list")
        _check_entries(self.words, name)
        self.index = {word: i for i, word in enumerate(self.words)}
        for special in SPECIALS:  # The word "</s>" in a text must not end its sentence.
            self.index[special] = UNK_ID

    @classmethod
    def train(cls, lines, vocab_size, min_count):
        """The words that occur at least `min_count` times, the `vocab_size - 4` most frequent.

        Args:
            lines: iterable of str.
            vocab_size: most entries, with the specials; None for all.
            min_count: rarer words are left out.

        Raises:
            UserError: no word is left.
        """
        counts = collections.Counter(word for line in lines for word in _WORD.findall(line))
        for special in SPECIALS:
            counts.pop(special, None)
        kept = sorted((-count, word) for word, count in counts.items() if count >= min_count)
        limit = None if vocab_size is None else max(vocab_size - len(SPECIALS), 0)
        words = [word for _, word in kept[:limit]]
        if not words:
            raise UserError(
                f"no word for a vocabulary: {len(counts)} different words in the text; look at the "
                "files, lower --min_word_count or raise --max_words"
            )
        return cls([*SPECIALS, *words])

    def __len__(self):
        return len(self.words)

    def encode(self, lines):
        """Lines to lists of ids, each ending in `EOS_ID`; an empty line is `[EOS_ID]`."""
        get = self.index.get
        return [[*(get(word, UNK_ID) for word in self.split(line)), EOS_ID] for line in lines]

    def split(self, line):
        """The words of a line as `encode` finds them, known or not."""
        return split_words(line)

    def decode(self, ids, unknowns=None):
        """Ids, up to the first `EOS_ID`, to a line.

        Args:
            ids: list of int.
            unknowns: what to write for each UNK, in order; None writes "<unk>".
        """
        ids = _until_eos(ids)
        pieces = self.pieces(ids)
        if unknowns is not None:
            unknowns = iter(unknowns)
            pieces = [
                next(unknowns) if i == UNK_ID else piece
                for i, piece in zip(ids, pieces, strict=True)
            ]
        return join_pieces(pieces, self.style)

    def pieces(self, ids):
        """The word of every id."""
        return [self.words[int(i)] for i in ids]

    def word_numbers(self, lines):
        """As `BpeVocabulary.word_numbers`; each token is a word."""
        return [list(range(len(self.split(line)) + 1)) for line in lines]

    def save(self, path):
        """Writes the vocabulary to a file, atomically."""
        write_lines(path, self.words)

    @classmethod
    def load(cls, path):
        """Reads what `save` wrote."""
        return cls(read_lines(path), path)


class PieceVocabulary(WordVocabulary):
    """Ready-made pieces separated by white space; `decode` joins them to words.

    Args and Raises as `WordVocabulary`.
    """

    def __init__(self, words, name="vocabulary"):
        super().__init__(words, name)
        self.style = piece_style(self.words)

    @classmethod
    def from_pieces(cls, path):
        """Reads somebody's list of pieces: one a line, a count or score after it is ignored.

        Specials are put in front; where the list has them already, they are not doubled.

        Raises:
            UserError: no such file, a line without a piece, a piece twice, or no pieces.
        """
        pieces = [(_WORD.findall(line) or [""])[0] for line in read_lines(path)]
        _check_entries(pieces, path)
        return cls([*SPECIALS, *(piece for piece in pieces if piece not in SPECIALS)], path)


def piece_style(words):
    """How pieces mark word boundaries: "▁" (in front of a word), "@@" (goes on) or "word".

    The more frequent mark counts: each may also turn up as plain text in a list of the other.
    """
    counts = {
        "▁": sum(word.startswith("▁") for word in words),
        "@@": sum(word.endswith("@@") for word in words),
    }
    style = max(counts, key=counts.get)
    return style if counts[style] else "word"


def join_pieces(pieces, style):
    """Pieces to a line of words, by a style of `piece_style`."""
    if style == "▁":
        return "".join(pieces).replace("▁", " ").strip(" ")
    line = " ".join(pieces)
    return re.sub("@@( |$)", "", line) if style == "@@" else line


def _noting(lines, raised):
    """Goes through lines and appends what they raise to a list."""
    try:
        yield from lines
    except (Exception, KeyboardInterrupt) as error:
        raised.append(error)
        raise


def _read_bytes(path):
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); check the name") from None


def _check_entries(words, name):
    seen = set()
    for line, word in enumerate(words, 1):
        if word in seen or not _WORD.fullmatch(word):
            raise UserError(
                f"{name}, line {line}: {word!r} is empty, has white space or stands twice; "
                "expected a different entry on each line"
            )
        seen.add(word)


def _until_eos(ids):
    """The ids before the first EOS, without padding: a hypothesis cut short has no EOS."""
    before_eos = itertools.takewhile(lambda i: i != EOS_ID, ids)
    return [i for i in before_eos if i != PAD_ID]
