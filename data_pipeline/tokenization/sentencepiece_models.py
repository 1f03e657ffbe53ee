"""Adapts SentencePiece models made elsewhere: pad, unk, bos and eos get the ids 0, 1, 2 and 3."""

from collections.abc import Sequence

import sentencepiece

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import FilePath

_ROLES = ("pad", "unk", "bos", "eos")


def with_special_ids(model: bytes, specials: Sequence[str], name: FilePath) -> bytes:
    """Renumbers the pieces of a SentencePiece model: `specials` get the ids 0, 1, 2, 3.

    An id is only a place in the list of pieces, and segmentation depends on scores alone. So text
    is split into the same pieces as before. Specials that the model lacks are added; the other
    pieces keep their order. Returns `model` itself if its ids are right. Errors name `name`.

    Raises UserError: not a SentencePiece model, or one of its ordinary pieces equals a special.
    """
    try:
        if not model:  # SentencePiece takes empty bytes for a missing argument: no error.
            raise ValueError
        sentencepiece.SentencePieceProcessor(model_proto=model)
    except (RuntimeError, ValueError):
        raise UserError(
            f"{name}: not a SentencePiece model, or a damaged one; expected what spm_train writes "
            "with the ending .model"
        ) from None
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto.FromString(model)  # pyright: ignore[reportAttributeAccessIssue]
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
    kind = sentencepiece_model_pb2.ModelProto.SentencePiece.Type  # pyright: ignore[reportAttributeAccessIssue]
    for role, special in zip(_ROLES, specials, strict=True):
        proto.pieces.add(
            piece=special, score=0.0, type=kind.UNKNOWN if role == "unk" else kind.CONTROL
        )
        setattr(spec, f"{role}_id", _ROLES.index(role))
        setattr(spec, f"{role}_piece", special)
    proto.pieces.extend(others)
    spec.vocab_size = len(proto.pieces)
    return proto.SerializeToString()


def _id_of(role, special, spec, pieces):
    """Returns the id of a special in a model, or None.

    Some models list the special as a symbol without giving it the role.
    """
    found = getattr(spec, f"{role}_id")
    if 0 <= found < len(pieces):
        return found
    return next((i for i, piece in enumerate(pieces) if piece.piece == special), None)
