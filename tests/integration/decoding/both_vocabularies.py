"""Marks for tests whose fixture `parts` has a model with each kind of vocabularies.

Where both kinds take the same code, one of them is for `make test-slow`. It stays in its place in
the list, because pytest orders tests by it, so that no model is made twice.
"""

import pytest

VOCABULARIES = ("bpe", "word")
_SLOW_PIECES, _SLOW_WORDS = (pytest.param(kind, marks=pytest.mark.slow) for kind in VOCABULARIES)
with_pieces = pytest.mark.parametrize("parts", ["bpe", _SLOW_WORDS], indirect=True)
with_words = pytest.mark.parametrize("parts", [_SLOW_PIECES, "word"], indirect=True)
