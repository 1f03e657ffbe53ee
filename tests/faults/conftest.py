"""Fixtures shared with the tests of the training loop: a small model, text and directory."""

from tests.training.loop_test import corpus, directory, text, tokenizer  # noqa: F401
