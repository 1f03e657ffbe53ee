"""Fixtures that the tests of several scripts share."""

import functools

import pytest

from tests.integration.scripts import saved_model


@pytest.fixture(scope="session")
def program_in_c(tmp_path_factory):
    """The path of the program that calls a SavedModel."""
    return saved_model.compile_program(tmp_path_factory.mktemp("c"))


@pytest.fixture(scope="session")
def translate_in_c(program_in_c):
    """Translates with a SavedModel in C: `(folder, path of the text) -> [(score, line)]`."""
    return lambda folder, text: saved_model.translate(program_in_c, folder, text)


@pytest.fixture(scope="session")
def call_in_c(program_in_c):
    """Calls any signature of a SavedModel in C, see `saved_model.call`."""
    return functools.partial(saved_model.call, program_in_c)
