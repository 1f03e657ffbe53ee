"""Checks that all kinds of pictures share."""

import pytest

# How the files of each format begin.
MAGIC = {".png": b"\x89PNG\r\n\x1a\n", ".svg": b"<?xml", ".pdf": b"%PDF-"}


@pytest.fixture
def same_bytes(tmp_path):
    """A function that draws by `draw(path)` twice, in each format, and compares the files."""

    def check(draw, endings=(".svg",)):
        for ending in endings:
            paths = [tmp_path / f"{name}{ending}" for name in "ab"]
            for path in paths:
                draw(path)
            assert paths[0].read_bytes() == paths[1].read_bytes()
            assert paths[0].read_bytes().startswith(MAGIC[ending])

    return check
