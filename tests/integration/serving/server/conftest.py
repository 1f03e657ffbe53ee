"""A server that the tests share."""

import pytest

from tests.integration.serving.server.example import running


@pytest.fixture(scope="package")
def client():
    """A `Client` of a server of the example, with small limits."""
    hosts = ("model.example", "")
    with running(allowed_hosts=hosts, max_lines=8, max_body_bytes=4096) as client:
        yield client
