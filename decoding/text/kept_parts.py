"""Keeps parts of lines, such as web addresses, out of translation: a sign stands for each part."""

import re

from data_pipeline.files import UserError
from data_pipeline.tokenization.vocabularies import UNK_ID

# E-mail and web addresses, placeholders, tags and entities.
TECHNICAL = "|".join(
    (
        r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
        r"(?:(?:https?|ftp)://|www\.)\S*[\w/]",
        r"\$?\{[^{}\s]*\}|%(?:\(\w+\)|\d+\$)?[-+#0]*\d*(?:\.\d+)?[sdifgxu]\b",
        r"</?[A-Za-z][^<>]*>|&(?:\w+|#\d+);",
    )
)
# For private use in Unicode, so that no text needs them. --copy_share trains models to copy them.
_SIGNS = [chr(code) for code in range(0xE000, 0xE100)]


class KeptParts:
    """Hides the parts of a line that match a pattern, and puts them into its translation.

    Args:
        pattern: regular expression; "technical" for `TECHNICAL`.
        tokenizer: `Tokenizer` of the model.

    Attributes:
        lost: numbers of the lines whose best translation lacks a part.

    Raises:
        UserError: not a regular expression, or the model has no way to write the signs.
    """

    def __init__(self, pattern, tokenizer):
        try:
            self._pattern = re.compile(TECHNICAL if pattern == "technical" else pattern)
        except re.error as error:
            raise UserError(
                f"--keep={pattern}: not a regular expression ({error}); expected a pattern of the "
                "parts to keep, or technical"
            ) from None
        if any(
            UNK_ID in vocabulary.encode(_SIGNS[:1])[0]
            for vocabulary in (tokenizer.source, tokenizer.target)
        ):
            raise UserError(
                "--keep puts signs into lines, which the vocabulary of this model cannot write: it "
                "has no byte pieces; leave the flag out, or train with --tokenizer=bpe"
            )
        self._target = tokenizer.target
        self.lost = set()

    def hide(self, line):
        """Returns (the line with a sign in the place of each part, {sign: part})."""
        signs = (sign for sign in _SIGNS if sign not in line)
        parts = {}

        def replace(match):
            sign = next(signs, "") if match[0] else ""
            if not sign:  # There is nothing to keep, or no sign is left.
                return match[0]
            parts[sign] = match[0]
            return sign

        return self._pattern.sub(replace, line), parts

    def sign_ids(self, sign):
        """Returns the target ids of a sign, as they are inside a line."""
        ids = self._target.encode([sign])[0][:-1]
        return ids[self._target.pieces(ids[:1]) == ["▁"] :]

    @staticmethod
    def restore(text, parts):
        """Puts the parts into a translation, each once, at the first of its signs."""
        for sign, part in parts.items():
            before, *after = text.split(sign)
            text = before + (part if after else "") + "".join(after)
        return text

    def check(self, number, parts, text):
        """Notes the number of a line whose best translation lacks a part."""
        if any(part not in text for part in parts.values()):
            self.lost.add(number)

    def summary(self):
        """Reports the lines that lost a part, in one line; empty if there are none."""
        if not self.lost:
            return ""
        numbers = ", ".join(f"{number:,}" for number in sorted(self.lost)[:10])
        numbers += ", ..." * (len(self.lost) > 10)
        return f"lines that lost a part that --keep names: {len(self.lost):,} (line {numbers})"
