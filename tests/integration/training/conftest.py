"""Fixtures shared with the tests of the training loop: a small model, text and directory."""

from tests.integration.training.loop_test import corpus, text, tokenizer  # noqa: F401
from tests.integration.training.loop_test import directory as quick_directory  # noqa: F401
from tests.integration.training.loop_test import transformer_directory as directory  # noqa: F401
