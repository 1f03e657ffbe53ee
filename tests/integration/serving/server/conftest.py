"""Fixtures that the tests of the server share."""

import pytest

from tests.integration.serving.server.example import Example, running


@pytest.fixture(scope="session")
def example(tmp_path_factory):
    """A folder with version 1 of the example; tests leave it unchanged."""
    folder = tmp_path_factory.mktemp("example")
    Example().save(folder / "1")
    return folder


@pytest.fixture(scope="package")
def client(example):
    """A `Client` of a server of the example, with small limits."""
    with running(example, ("model.example", ""), max_lines=8, max_body_bytes=4096) as found:
        yield found
