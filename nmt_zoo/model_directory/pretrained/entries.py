"""The vocabulary of a pretrained model as this project needs it: pad, unk, bos and eos come first.

`<s>`, with which our decoder starts, is a copy of what theirs starts with. All other entries keep
their order. A few pieces of a SentencePiece model may have no entry, so that they count as unknown;
they get entries of their own, copies of `<unk>` that no translation contains, because a text would
otherwise be split at other places.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import read_bytes
from nmt_zoo.data_pipeline.tokenization.languages import Languages
from nmt_zoo.data_pipeline.tokenization.sentencepiece_models import TAG, pieces_of, with_entries
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import BOS_ID, SPECIALS, BpeVocabulary


class Listed(NamedTuple):
    """The entries of a pretrained model by id, and the files that split a text into them.

    A model with a vocabulary for each side has two of these.
    """

    pieces: list[str | None]  # None: an id without a piece.
    pad: int
    unk: int
    start: int  # What the decoder reads first.
    eos: int
    files: Sequence[Path]  # SentencePiece models of source and target, or one for all.
    languages: Languages | None = None


class Entries(NamedTuple):
    """A vocabulary in our order, and a tokenizer for the text of the files."""

    tokenizer: Tokenizer
    rows: list[int]  # For each entry, the id in the pretrained model whose weights it has.
    never: list[int]  # Entries that a translation must not contain.


def entries_of(listed: Listed) -> Entries:
    """Puts the entries into our order, and makes the tokenizer.

    Raises UserError: the entries or the files cannot be used, or do not fit each other.
    """
    specials = {listed.pad, listed.unk, listed.eos}
    size = len(listed.pieces)
    if len(specials) < 3 or not all(0 <= i < size for i in (*specials, listed.start)):
        raise UserError(
            f"{listed.files[0].parent}: padding, <unk> and </s> must be different ids below {size},"
            f" found {listed.pad}, {listed.unk} and {listed.eos}"
        )
    others = [i for i in range(size) if i not in specials]
    texts, controls = [], set()
    tokens = {*listed.languages.signs.values()} if listed.languages else {}
    for i in others:
        piece = listed.pieces[i]
        if piece is None or piece in SPECIALS:
            piece = f"<id {i}>"
            controls.add(piece)
        elif TAG.fullmatch("▁" + piece):
            piece = "▁" + piece  # As it stands in a text.
        elif piece in tokens:
            controls.add(piece)
        texts.append(piece)
    models = [read_bytes(path) for path in listed.files]
    listed_pieces, unlisted = {*texts}, {}
    for model, path in zip(models, listed.files, strict=True):
        pieces = pieces_of(model, path)
        missing = [piece for piece in pieces if piece not in listed_pieces]
        if 2 * len(missing) > len(pieces):
            raise UserError(
                f"{path}: {len(missing):,} of its {len(pieces):,} pieces have no entry in the "
                "vocabulary; it belongs to another model"
            )
        unlisted.update(dict.fromkeys(piece for piece in missing if piece not in SPECIALS))
    entries = [*SPECIALS, *texts, *unlisted]
    if len({*entries}) < len(entries) or not all(entries):
        raise UserError(f"{listed.files[0].parent}: a piece is empty or appears twice")
    made = [
        BpeVocabulary(with_entries(model, entries, controls, path), path, "none")
        for model, path in zip(models, listed.files, strict=True)
    ]
    rows = [listed.pad, listed.unk, listed.start, listed.eos, *others]
    return Entries(
        Tokenizer("bpe", made[0], made[-1]),
        rows + [listed.unk] * len(unlisted),
        [BOS_ID, *range(len(rows), len(entries))],
    )
