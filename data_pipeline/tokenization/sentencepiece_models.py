"""Adapts SentencePiece models made elsewhere: pad, unk, bos and eos get the ids 0, 1, 2 and 3."""

import re
from collections.abc import Collection, Sequence

import sentencepiece

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import FilePath

_ROLES = ("pad", "unk", "bos", "eos")
TAG = re.compile("▁>>[^<>▁]+<<")  # A language, as the models of OPUS-MT write it in a text.


def with_special_ids(model: bytes, specials: Sequence[str], name: FilePath) -> bytes:
    """Renumbers the pieces of a SentencePiece model: `specials` get the ids 0, 1, 2, 3.

    An id is only a place in the list of pieces, and segmentation depends on scores alone. So text
    is split into the same pieces as before. Specials that the model lacks are added; the other
    pieces keep their order. Returns `model` itself if its ids are right. Errors name `name`.

    Raises UserError: not a SentencePiece model, or one of its ordinary pieces equals a special.
    """
    proto, kind = _read(model, name)
    spec = proto.trainer_spec
    old = list(proto.pieces)
    ids = [_id_of(role, special, spec, old) for role, special in zip(_ROLES, specials, strict=True)]
    if ids == list(range(len(_ROLES))) and [p.piece for p in old[: len(_ROLES)]] == list(specials):
        return model
    others = [piece for i, piece in enumerate(old) if i not in ids]
    for piece in others:
        if piece.piece in specials:
            raise UserError(
                f"{name}: {piece.piece!r} is an ordinary piece there, but a special token of this "
                "project; train a SentencePiece model without that piece"
            )
    del proto.pieces[:]
    _add_specials(proto, kind, specials)
    proto.pieces.extend(others)
    spec.vocab_size = len(proto.pieces)
    return proto.SerializeToString()


def processor_of(model: bytes, name: FilePath) -> sentencepiece.SentencePieceProcessor:
    """Returns the processor of a model; raises `UserError` if it is not a SentencePiece model."""
    try:
        if not model:  # SentencePiece takes empty bytes for a missing argument: no error.
            raise ValueError
        return sentencepiece.SentencePieceProcessor(model_proto=model)
    except (RuntimeError, ValueError):
        raise UserError(
            f"{name}: not a SentencePiece model, or a damaged one; expected what spm_train writes "
            "with the ending .model, or train again in a new --model_dir"
        ) from None


def _read(model, name):
    """Returns a model as a protocol buffer, and the kinds of its pieces."""
    processor_of(model, name)
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto.FromString(model)  # pyright: ignore[reportAttributeAccessIssue]
    return proto, sentencepiece_model_pb2.ModelProto.SentencePiece.Type  # pyright: ignore[reportAttributeAccessIssue]


def _add_specials(proto, kind, specials):
    """Adds the specials as the first pieces, with their roles."""
    for role, special in zip(_ROLES, specials, strict=True):
        proto.pieces.add(
            piece=special, score=0.0, type=kind.UNKNOWN if role == "unk" else kind.CONTROL
        )
        setattr(proto.trainer_spec, f"{role}_id", _ROLES.index(role))
        setattr(proto.trainer_spec, f"{role}_piece", special)


def _id_of(role, special, spec, pieces):
    """Returns the id of a special in a model, or None.

    Some models list the special as a symbol without giving it the role.
    """
    number = getattr(spec, f"{role}_id")
    if 0 <= number < len(pieces):
        return number
    return next((i for i, piece in enumerate(pieces) if piece.piece == special), None)


def with_entries(
    model: bytes, entries: Sequence[str], controls: Collection[str], name: FilePath
) -> bytes:
    """Makes a SentencePiece model whose piece i is `entries[i]`; the first four are specials.

    Text is split as by `model`. Of the entries that it lacks, `controls` never occur in a text, a
    tag such as `>>deu<<` is recognised where a word begins, a single character is known, as it
    would be unknown otherwise, and all others can only be decoded. Errors name `name`.

    Raises UserError: not a SentencePiece model, or the entries cannot be pieces.
    """
    proto, kind = _read(model, name)
    own = {piece.piece: piece for piece in proto.pieces if piece.type != kind.CONTROL}
    lowest = min((p.score for p in own.values() if p.type == kind.NORMAL), default=0.0)
    del proto.pieces[:]
    _add_specials(proto, kind, entries[: len(_ROLES)])
    for entry in entries[len(_ROLES) :]:
        if entry in controls:
            proto.pieces.add(piece=entry, score=0.0, type=kind.CONTROL)
        elif entry in own and own[entry].type != kind.UNKNOWN:
            proto.pieces.add(piece=entry, score=own[entry].score, type=own[entry].type)
        elif TAG.fullmatch(entry):
            proto.pieces.add(piece=entry, score=0.0, type=kind.USER_DEFINED)
        elif len(entry) == 1:
            proto.pieces.add(piece=entry, score=lowest - 10, type=kind.NORMAL)
        else:
            proto.pieces.add(piece=entry, score=0.0, type=kind.UNUSED)
    changed = proto.SerializeToString()
    _read(changed, name)
    return changed


def pieces_of(model: bytes, name: FilePath) -> list[str]:
    """Returns the pieces of a SentencePiece model that a text may have, without its specials."""
    proto, kind = _read(model, name)
    return [p.piece for p in proto.pieces if p.type not in (kind.CONTROL, kind.UNKNOWN)]
