"""Marks for tests whose fixture `parts` has a model with each kind of vocabularies.

Where both kinds take the same code, one of them is enough.
"""

import pytest

VOCABULARIES = ("bpe", "word")
with_pieces = pytest.mark.parametrize("parts", ["bpe"], indirect=True)
with_words = pytest.mark.parametrize("parts", ["word"], indirect=True)
