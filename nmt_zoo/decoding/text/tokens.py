"""The tokens of a line and of its translation, and the word to which each belongs."""

from collections.abc import Sequence

from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import EOS_ID
from nmt_zoo.decoding.alignment.subword_merging import numbers_in_text
from nmt_zoo.decoding.search.phrases import piece_text
from nmt_zoo.decoding.translator import Translation

Tokens = tuple[Sequence[int], Sequence[int]]  # Ids with `</s>`, and the number of the word of each.


def tokens_of(tokenizer: Tokenizer, line: str, translation: Translation) -> tuple[Tokens, Tokens]:
    """Returns the `Tokens` of a line and of its translation.

    If the translation is joined from pieces, so is the line: both then count words. Of a line that
    was put into its usual form, they are those that the model has read and written.
    """
    source, target = tokenizer.source, tokenizer.target
    line, text = translation.usual or (line, translation.text)
    ids = [i for i in translation.ids if i != EOS_ID]
    pieces = [piece_text(piece, target.style) for piece in target.pieces(ids)]
    (source_ids,), (numbers,) = source.encode([line]), source.word_numbers([line])
    if b"".join(pieces).strip(b" ") != text.encode():
        # Given as pieces, with words for UNK, or changed by its form.
        return (source_ids, numbers), (target.encode([text])[0], target.word_numbers([text])[0])
    if tokenizer.kind == "pretokenized":
        source_pieces = source.split(line)  # pyright: ignore[reportAttributeAccessIssue]
        numbers = numbers_in_text([piece_text(x, source.style) for x in source_pieces])
    return (source_ids, numbers), ([*ids, EOS_ID], numbers_in_text(pieces))
