"""Checks that all kinds of pictures share."""

import pytest

# How the files of each format begin.
MAGIC = {".png": b"\x89PNG\r\n\x1a\n", ".svg": b"<?xml", ".pdf": b"%PDF-"}


@pytest.fixture(params=MAGIC)
def same_bytes(request, tmp_path):
    """A function that draws by `draw(path)` twice, in each format, and compares the files."""

    def check(draw):
        paths = [tmp_path / f"{name}{request.param}" for name in "ab"]
        for path in paths:
            draw(path)
        assert paths[0].read_bytes() == paths[1].read_bytes()
        assert paths[0].read_bytes().startswith(MAGIC[request.param])

    return check
