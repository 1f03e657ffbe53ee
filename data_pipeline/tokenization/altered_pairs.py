"""Alters a few training pairs in every epoch: puts strings to copy into both sides.

A vocabulary of byte pieces can write any character, but training hardly ever shows it those pieces.
So one emoji or curly quote spoils the translation of its line. Here a share of the pairs gets a
random string, the same on both sides and at the same kind of place. From them a model learns to
copy what it has never seen, and soonest the placeholders that stand for other text.
"""

import collections
import random
import re
from typing import Any

import numpy as np

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.encoded import EncodedCorpus
from nmt_zoo.data_pipeline.encoding import encode_lines
from nmt_zoo.data_pipeline.tokenization.bpe_dropout import mixed
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import PLACEHOLDERS, UNK_ID

# Of the strings. Few texts teach to copy placeholders, more teach to copy bytes.
_PLACEHOLDERS_SHARE = 0.7
_STREAM = 1 << 32  # Other random numbers than those of BPE-dropout.
# First and last characters of blocks of Unicode.
_SYMBOLS = (*("¡¿", "‐‧", "‰⁞", "₠₿", "←⇿", "∀⋿", "■◿", "☀➿", "😀🙏", "🌀🗿", "🚀🛼", "🤀🧿"),)
_LETTERS = ("À\u024f", "Ͱ\u03ff", "Ѐ\u045f", "את", "ءي", "अह", "กฮ", "ぁヾ", "一鿿", "가힣")
# Marks around a text, and templates of strings: W is a word, N a number, C a capital.
_MARKS = ("“”", "„“", "”“", "‘’", "«»", "»«", "‹›", "「」", "()", "[]", '""', "''", "——", "**")
_TEMPLATES = (
    *("W.W@W.W", "W@W.W", "https://www.W.W/W", "http://W.W/W?W=N", "www.W.W", "{N}", "{W}", "%W"),
    *("<W>", "</W>", "&W;", "$W", "#W", "@W", "W_W", "__N__", "[W]", "CCC-N/N", "CC N", "N.N", "N"),
    *("N,N %", "N:N", "CW", "CW-CW", "CCC"),
)
_WORD = re.compile(r"\w+")
_EQUAL = re.compile(r"\d+|\w{3,}")  # If both sides have it once, it is its own translation.
_STOP = re.compile(r"\s*[.!?…。！？।؟]+$")
_TAGS = re.compile(r"(?:.* )?>>[A-Za-z][\w-]*<< ")  # Of a language or a context, before a sentence.


class AlteredPairs:
    """Alters pairs at random; a pair's draws are a function of seed, epoch and pair number.

    A `share` of the pairs, in [0, 1], gets a string to copy. A pair with a sentence that would
    become longer than `max_length`, in tokens with `</s>`, stays as it is.
    Raises UserError: a vocabulary has no byte pieces.
    """

    def __init__(self, tokenizer: Tokenizer, share: float, seed: int, max_length: int):
        self.vocabularies: tuple[Any, Any] = tokenizer.source, tokenizer.target
        if any(UNK_ID in v.encode(["\ue000"])[0] for v in self.vocabularies):
            raise UserError(
                f"--copy_share={share:g} needs a SentencePiece model with byte pieces "
                "(spm_train --byte_fallback), to spell any character; leave it out"
            )
        self.below = np.uint64(round(share * 2**32))
        self.seed = seed
        self.max_length = max_length
        # A character that the vocabulary knows is translated as the text translates it.
        self.symbols = [chars for chars in map(self._unknown, map(_block, _SYMBOLS)) if chars]
        self.marks = [marks for marks in _MARKS if self._unknown(marks) == list(marks)]

    def _unknown(self, characters):
        return [
            character
            for character in characters
            if all(v.processor.piece_to_id(character) == UNK_ID for v in self.vocabularies)
        ]

    def sample(self, part: EncodedCorpus, epoch: int, first: int = 0) -> EncodedCorpus:
        """Alters consecutive pairs of an epoch, of which `first` is the first one's number."""
        rows = np.arange(part.num_pairs)
        draws = mixed(mixed(np.uint64([self.seed]), [_STREAM + epoch]), first + rows)
        chosen = np.flatnonzero(draws & np.uint64(2**32 - 1) < self.below)
        if not chosen.size:
            return part
        pairs = zip(*map(self._lines, self.vocabularies, part, [chosen] * 2), strict=True)
        altered = [
            self._altered(pair, random.Random(int(draws[row])))
            for row, pair in zip(chosen, pairs, strict=True)
        ]
        new = list(map(encode_lines, self.vocabularies, zip(*altered, strict=True)))
        fits = np.all([side.lengths <= self.max_length for side in new], axis=0)
        rows[chosen[fits]] = rows.size + np.flatnonzero(fits)
        sides = zip(part, new, strict=True)
        return EncodedCorpus(
            *(usual.joined(altered_side).take(rows) for usual, altered_side in sides)
        )

    @staticmethod
    def _lines(vocabulary, side, rows):
        sentences = side.take(rows)
        return map(vocabulary.decode, np.split(sentences.ids, np.cumsum(sentences.lengths)[:-1]))

    def _altered(self, pair, draw):
        source, target = pair
        tags = match[0] if (match := _TAGS.match(source)) else ""
        pair = source.removeprefix(tags), target
        for _ in range(draw.choice((1, 1, 1, 2))):
            pair = self._with_copy(pair, draw)
        return tags + pair[0], pair[1]

    def _with_copy(self, pair, draw):
        """Puts a string, or marks, at the same kind of place on both sides."""
        shared, placeholders = _shared_words(pair), draw.random() < _PLACEHOLDERS_SHARE
        if self.marks and draw.random() < 0.4:
            opening, closing = (
                draw.sample(PLACEHOLDERS, 2) if placeholders else draw.choice(self.marks)
            )
            spans = [(0, len(line)) for line in pair]
            if shared and draw.random() < 0.3:
                spans = draw.choice(shared)
            # Marks mostly as in running text.
            space = " " if placeholders else draw.choice(("", "", "", "", "", " "))
            before, after = opening + space, space + closing
            return [
                line[:start] + before + line[start:end] + after + line[end:]
                for line, (start, end) in zip(pair, spans, strict=True)
            ]
        string = draw.choice(PLACEHOLDERS) if placeholders else self._string(pair, draw)
        if shared and draw.random() < 0.4:
            spans = draw.choice(shared)
        else:
            string, spans = self._beside(pair, string, placeholders, draw)
        return [
            line[:start] + string + line[end:]
            for line, (start, end) in zip(pair, spans, strict=True)
        ]

    @staticmethod
    def _beside(pair, string, placeholders, draw):
        """Chooses the front, the end, or the place before the final stop; returns string, spans."""
        may_touch = not (placeholders or string.isalnum() or len(string) > 2)
        space = draw.choice((" ", " ", "")) if may_touch else " "
        position = draw.randrange(3)
        if position == 0:
            return string + space, [(0, 0)] * 2
        stops = [_STOP.search(line) for line in pair]
        if position == 1 or not all(stops):
            return space + string, [(len(line),) * 2 for line in pair]
        return space + string, [(stop.start(),) * 2 for stop in stops]

    def _string(self, pair, draw):
        """Makes a string: symbols, letters of one alphabet, or an address, a code or a name."""
        kind = draw.randrange(5)
        if kind < 2 and self.symbols:
            return "".join(draw.choices(draw.choice(self.symbols), k=draw.choice((1, 1, 1, 2))))
        if kind == 2:
            return "".join(draw.choices(_block(draw.choice(_LETTERS)), k=draw.randint(1, 4)))
        words = _WORD.findall(" ".join(pair)) or ["w"]

        def fill(place):
            if place[0] == "C":
                return draw.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
            if place[0] == "N":
                return str(draw.randrange(10 ** draw.randint(1, 4)))
            syllables = (draw.choice("bcdfghjklmnprstvwz") + draw.choice("aeiou") for _ in range(3))
            return draw.choice((draw.choice(words), "".join(syllables)[: draw.randint(2, 6)]))

        return re.sub("[WNC]", fill, draw.choice(_TEMPLATES))


def _block(bounds):
    return [chr(code) for code in range(ord(bounds[0]), ord(bounds[1]) + 1)]


def _shared_words(pair):
    """Returns the (source span, target span) of every word that each side has once."""
    spans = []
    for line in pair:
        spans_of = collections.defaultdict(list)
        for match in _EQUAL.finditer(line):
            spans_of[match[0]].append(match.span())
        spans.append({word: at[0] for word, at in spans_of.items() if len(at) == 1})
    return [(span, spans[1][word]) for word, span in spans[0].items() if word in spans[1]]
