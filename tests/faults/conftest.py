"""The small model, text and directory of the tests of the loop."""

from tests.training.loop_test import corpus, directory, text, tokenizer  # noqa: F401
