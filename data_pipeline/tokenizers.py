"""Text to ids and back: `bpe`, `word` and `pretokenized`.

A `Tokenizer` is two vocabularies, of the source and of the target, which are one and the same
where they are shared. In each, pad, unk, bos and eos are the ids 0, 1, 2 and 3.
"""

import collections
import hashlib
import io
import re
from pathlib import Path
from typing import NamedTuple

import sentencepiece

from data_pipeline.files import UserError, atomic_path, read_lines, write_lines

PAD_ID, UNK_ID, BOS_ID, EOS_ID = range(4)
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")
KINDS = ("bpe", "word", "pretokenized")
SIDES = ("source", "target")

# ASCII white space: what tf.strings.split takes, so that text is split alike inside a SavedModel.
_WORD = re.compile(r"[^ \t\n\r\f\v]+")


class BpeVocabulary:
    """SentencePiece byte-pair encoding (Sennrich et al. 2016) with byte fallback.

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
                "with --pad_id=0 --unk_id=1 --bos_id=2 --eos_id=3"
            )

    @classmethod
    def train(cls, lines, vocab_size):
        """Learns merges from text; fewer pieces than asked for if the text has no more.

        Raises:
            UserError: `vocab_size` too small for the characters of the text, or no text.
        """
        writer = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(lines),
                model_writer=writer,
                model_type="bpe",
                vocab_size=vocab_size,
                hard_vocab_limit=False,
                byte_fallback=True,
                character_coverage=0.9999,
                # Text is kept as it is: a translation must be able to equal its reference.
                normalization_rule_name="identity",
                max_sentence_length=65536,
                pad_id=PAD_ID,
                unk_id=UNK_ID,
                bos_id=BOS_ID,
                eos_id=EOS_ID,
                minloglevel=2,
            )
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[-1]
            raise UserError(
                f"no BPE vocabulary of {vocab_size} pieces can be trained on this text ({reason}); "
                "give another --vocab_size (at least 260 plus the number of different characters)"
            ) from None
        return cls(writer.getvalue())

    def __len__(self):
        return self.processor.get_piece_size()

    def encode(self, lines):
        """Lines to lists of ids, each ending in `EOS_ID`; an empty line is `[EOS_ID]`."""
        return self.processor.encode(list(lines), out_type=int, add_eos=True)

    def decode(self, ids):
        """Ids, up to the first `EOS_ID`, to a line."""
        return self.processor.decode([int(i) for i in _until_eos(ids)])

    def pieces(self, ids):
        """The piece of every id."""
        return [self.processor.id_to_piece(int(i)) for i in ids]

    def save(self, path):
        """Writes the vocabulary to a file, atomically."""
        with atomic_path(path) as temporary:
            temporary.write_bytes(self.model)

    @classmethod
    def load(cls, path):
        """Reads what `save` wrote."""
        try:
            return cls(Path(path).read_bytes(), path)
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror})") from None


class WordVocabulary:
    """Words, or ready-made pieces, separated by white space; what is not in the list is UNK.

    Args:
        words: all entries, the first four being `SPECIALS`.
        name: what to call it in errors, such as its path.

    Raises:
        UserError: other specials, an entry twice, or an entry with white space.
    """

    file_suffix = ".vocab"

    def __init__(self, words, name="vocabulary"):
        self.words = list(words)
        if tuple(self.words[:4]) != SPECIALS:
            raise UserError(
                f"{name}: pad, unk, bos, eos must be the ids 0, 1, 2, 3: the first four lines must "
                f"be {' '.join(SPECIALS)}, found {' '.join(self.words[:4])!r}"
            )
        self.index = {}
        for i, word in enumerate(self.words):
            if word in self.index or not _WORD.fullmatch(word):
                raise UserError(
                    f"{name}, line {i + 1}: {word!r} is empty, has white space or stands twice"
                )
            self.index[word] = i
        for special in SPECIALS:  # The word "</s>" in a text must not end its sentence.
            self.index[special] = UNK_ID
        self.style = piece_style(self.words)

    @classmethod
    def train(cls, lines, vocab_size, min_count):
        """The words that occur at least `min_count` times, the `vocab_size - 4` most frequent."""
        counts = collections.Counter(word for line in lines for word in _WORD.findall(line))
        for special in SPECIALS:
            counts.pop(special, None)
        kept = sorted((-count, word) for word, count in counts.items() if count >= min_count)
        limit = None if vocab_size is None else max(vocab_size - len(SPECIALS), 0)
        return cls([*SPECIALS, *(word for _, word in kept[:limit])])

    @classmethod
    def from_pieces(cls, path):
        """Reads somebody's list of pieces: one a line, a count or score after it is ignored.

        Specials are put in front; where the list has them already, they are not doubled.
        """
        pieces = [(_WORD.findall(line) or [""])[0] for line in read_lines(path)]
        known = set(SPECIALS)
        return cls([*SPECIALS, *(p for p in pieces if p not in known)], path)

    def __len__(self):
        return len(self.words)

    def encode(self, lines):
        """Lines to lists of ids, each ending in `EOS_ID`; an empty line is `[EOS_ID]`."""
        get = self.index.get
        return [[*(get(word, UNK_ID) for word in _WORD.findall(line)), EOS_ID] for line in lines]

    def decode(self, ids):
        """Ids, up to the first `EOS_ID`, to a line; BPE pieces are joined to words."""
        return join_pieces(self.pieces(_until_eos(ids)), self.style)

    def pieces(self, ids):
        """The word of every id."""
        return [self.words[int(i)] for i in ids]

    def save(self, path):
        """Writes the vocabulary to a file, atomically."""
        write_lines(path, self.words)

    @classmethod
    def load(cls, path):
        """Reads what `save` wrote."""
        return cls(read_lines(path), path)


class Tokenizer(NamedTuple):
    """How text becomes ids: the kind and the vocabularies of both sides."""

    kind: str
    source: BpeVocabulary | WordVocabulary
    target: BpeVocabulary | WordVocabulary

    @property
    def shared(self):
        """Whether both sides use one vocabulary."""
        return self.source is self.target

    def save(self, folder):
        """Writes `shared.*`, or `source.*` and `target.*`, into a folder."""
        suffix = self.source.file_suffix
        if self.shared:
            self.source.save(Path(folder, "shared" + suffix))
        else:
            self.source.save(Path(folder, "source" + suffix))
            self.target.save(Path(folder, "target" + suffix))

    @classmethod
    def load(cls, kind, folder):
        """Reads what `save` wrote.

        Raises:
            UserError: missing or damaged files.
        """
        vocabulary = BpeVocabulary if kind == "bpe" else WordVocabulary
        shared = Path(folder, "shared" + vocabulary.file_suffix)
        if shared.exists():
            both = vocabulary.load(shared)
            return cls(kind, both, both)
        return cls(
            kind,
            *(vocabulary.load(Path(folder, s + vocabulary.file_suffix)) for s in SIDES),
        )

    def fingerprint(self):
        """A hash that changes with the kind and any entry."""
        digest = hashlib.sha256(self.kind.encode())
        for side in (self.source, self.target):
            data = side.model if self.kind == "bpe" else "\n".join(side.words).encode()
            digest.update(hashlib.sha256(data).digest())
        return digest.hexdigest()


def train_tokenizer(
    kind, source_lines, target_lines, *, vocab_size=None, min_word_count=2, vocab_file=None
):
    """Makes the tokenizer of a training corpus.

    Args:
        kind: "bpe" (one vocabulary learnt from both sides), "word" (a vocabulary a side), or
            "pretokenized" (the text is already in pieces, listed in `vocab_file`).
        source_lines: list of str.
        target_lines: list of str.
        vocab_size: "bpe": number of pieces; "word": at most this many words a side, None for all.
        min_word_count: "word": rarer words become UNK.
        vocab_file: "pretokenized": path of the list of pieces, one a line.

    Raises:
        UserError: unknown kind, or no such vocabulary can be made.
    """
    if kind == "bpe":
        lines = (line for side in (source_lines, target_lines) for line in side if line)
        both = BpeVocabulary.train(lines, vocab_size)
        return Tokenizer(kind, both, both)
    if kind == "word":
        return Tokenizer(
            kind,
            *(
                WordVocabulary.train(lines, vocab_size, min_word_count)
                for lines in (source_lines, target_lines)
            ),
        )
    if kind == "pretokenized":
        if not vocab_file:
            raise UserError("--tokenizer=pretokenized needs --vocab_file, a list of pieces")
        both = WordVocabulary.from_pieces(vocab_file)
        return Tokenizer(kind, both, both)
    raise UserError(f"unknown tokenizer {kind!r}; there are {', '.join(KINDS)}")


def piece_style(words):
    """How pieces mark word boundaries: "▁" (in front of a word), "@@" (goes on) or "word"."""
    if any(word.startswith("▁") for word in words):
        return "▁"
    if any(word.endswith("@@") for word in words):
        return "@@"
    return "word"


def join_pieces(pieces, style):
    """Pieces to a line of words, by a style of `piece_style`."""
    if style == "▁":
        return "".join(pieces).replace("▁", " ").strip(" ")
    line = " ".join(pieces)
    return re.sub("@@( |$)", "", line) if style == "@@" else line


def _until_eos(ids):
    ids = list(ids)
    return ids[: ids.index(EOS_ID)] if EOS_ID in ids else ids
