"""Fixtures that the tests of several scripts share."""

import pytest

from tests.scripts import saved_model


@pytest.fixture(scope="session")
def translate_in_c(tmp_path_factory):
    """Translates with a SavedModel in C: `(folder, path of the text) -> [(score, line)]`."""
    program = saved_model.compile_program(tmp_path_factory.mktemp("c"))
    return lambda folder, text: saved_model.translate(program, folder, text)
