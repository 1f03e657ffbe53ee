"""A web server for tests of downloads."""

import pytest

from tests.unit.data_pipeline.web import serving


@pytest.fixture
def web_server(monkeypatch):
    """A `Server` that is reached directly, even if this machine uses a proxy."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "127.0.0.1")
    with serving() as server:
        yield server
