"""Downloads, from a server on this machine that breaks off, lies and refuses."""

import fcntl
import hashlib
import random
import re

import pytest

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.downloads.remote_files import Downloads, RemoteFile
from tests.unit.data_pipeline.web import Request

DATA = random.Random(1).randbytes(300_000)


@pytest.fixture
def server(web_server):
    web_server.files["/a/x.bin"] = DATA
    return web_server


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "downloads"


def remote(*addresses, data=DATA, size=True, checksum="sha256"):
    """Makes a `RemoteFile` whose content is `data`."""
    return RemoteFile(
        "corpus/x.bin",
        addresses,
        len(data) if size else None,
        f"{checksum}:{hashlib.new(checksum, data).hexdigest()}" if checksum else None,
    )


def fetch(folder, *files, **how):
    return Downloads(folder, **{"delay": 0, "attempts": 3, **how}).fetch(files)


def assert_arrives(folder, file, **how):
    """Asserts that a download has the whole content; returns its path."""
    [path] = fetch(folder, file, **how)
    assert path.read_bytes() == DATA
    return path


def put(folder, data, name="x.bin.part"):
    """Writes a file, or the beginning of one, that an earlier call has left."""
    path = folder / "corpus" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def left_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(("size", "checksum"), [(True, None), (False, "md5")])
def test_a_file_arrives_whole_and_nothing_else_is_left(server, folder, size, checksum):
    path = assert_arrives(folder, remote(f"{server.url}/a/x.bin", size=size, checksum=checksum))
    assert path == folder / "corpus" / "x.bin"
    assert left_in(folder) == ["corpus/x.bin"]
    assert server.requests == [Request("/a/x.bin", None)]


def test_a_file_put_there_by_hand_is_checked_and_no_server_asked(server, folder):
    file, path = remote(f"{server.url}/a/x.bin"), put(folder, DATA, "x.bin")
    for offline in (False, True):
        assert fetch(folder, file, offline=offline) == [path]
    for own, fault in (
        (DATA[:-1], "299,999 bytes, expected 300,000"),
        (bytes(len(DATA)), "sha256 is [0-9a-f]{64}, expected"),
        (b"", "empty"),
    ):
        path.write_bytes(own)
        with pytest.raises(UserError, match=rf"x\.bin: {fault}.*remove it to.*/a/x\.bin") as e:
            fetch(folder, file)
        assert "\n" not in str(e.value) and path.read_bytes() == own
    assert server.requests == []


def test_a_connection_may_break_often_and_any_mirror_resumes_where_it_broke(server, folder, capsys):
    server.faults["/a/x.bin"] = [-left for left in range(200_000, 0, -100_000)]
    assert_arrives(folder, remote(f"{server.url}/a/x.bin"), attempts=2).unlink()
    ranges = [None, *(f"bytes={start}-" for start in range(100_000, 300_000, 100_000))]
    assert [request.range for request in server.requests] == ranges
    server.files["/b/x.bin"] = DATA
    server.faults["/a/x.bin"] = [-1000, 500, 500]
    file = remote(f"{server.url}/a/x.bin", f"{server.url}/b/x.bin")
    assert_arrives(folder, file, attempts=2).unlink()
    assert server.requests[-1] == Request("/b/x.bin", "bytes=299000-")
    server.ranges = False
    put(folder, DATA[:1000])
    assert_arrives(folder, remote(f"{server.url}/a/x.bin"))
    assert "starting again" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("beginning", "known", "ranges"),
    [
        (bytes(1000), {}, ["bytes=1000-", None]),
        (bytes(len(DATA)), {}, [None]),
        (bytes(len(DATA) + 5), {}, [None]),
        (bytes(1000), {"size": False, "checksum": None}, [None]),  # No beginning is trusted.
        (DATA, {"size": False}, ["bytes=300000-", None]),  # The server has no more bytes.
    ],
)
def test_a_beginning_that_does_not_fit_is_thrown_away(server, folder, beginning, known, ranges):
    put(folder, beginning)
    assert_arrives(folder, remote(f"{server.url}/a/x.bin", **known))
    assert [request.range for request in server.requests] == ranges


def test_a_missing_file_is_had_from_the_next_address_or_from_a_mirror(server, folder, capsys):
    """The folder of downloads of another machine is a mirror."""
    bad = ["no address at all", "http://host:port/x.bin", "http://a b/x.bin"]
    addresses = [f"{server.url}/gone/x.bin", *bad, f"{server.url}/a/x.bin"]
    assert_arrives(folder, remote(*addresses)).unlink()
    said = capsys.readouterr().err
    assert "/gone/x.bin: HTTP status 404" in said and "trying again" not in said
    server.files["/copy/corpus/x.bin"] = DATA
    file = remote(addresses[-1])
    for mirror in (f"{server.url}/copy", f"{server.url}/copy/", f"{server.url}/empty"):
        assert_arrives(folder, file, mirror=mirror).unlink()
    paths = [request.path for request in server.requests]
    assert paths[:2] == ["/gone/x.bin", "/a/x.bin"]
    assert paths[2:] == [*["/copy/corpus/x.bin"] * 2, "/empty/corpus/x.bin", "/a/x.bin"]


def test_offline_names_all_that_is_missing_and_asks_nobody(server, folder):
    files = [remote(f"{server.url}/a/x.bin"), remote("http://y")._replace(path="other/y.tgz")]
    with pytest.raises(UserError, match="--offline") as e:
        fetch(folder, *files, offline=True)
    for wanted in ("corpus/x.bin", f"{server.url}/a/x.bin", "other/y.tgz"):
        assert wanted in str(e.value)
    assert server.requests == [] and not folder.exists()


SUMS = [hashlib.sha256(data).hexdigest() for data in (bytes(len(DATA)), DATA)]


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (bytes(len(DATA)), f"sha256 is {SUMS[0]}, expected {SUMS[1]}"),
        (DATA + bytes(10_000_000), "more than the 300,000 bytes expected"),
    ],
    ids=["checksum", "size"],
)
def test_of_other_bytes_no_more_are_taken_than_the_known_size_and_nothing_is_left(
    server, folder, full_disk, data, fault
):
    """A server, such as a wrong mirror, may send without end."""
    server.files["/a/x.bin"] = data
    with full_disk(len(DATA) + 1), pytest.raises(UserError, match=fault) as e:
        fetch(folder, remote(f"{server.url}/a/x.bin"))
    assert "\n" not in str(e.value)
    assert left_in(folder) == [] and len(server.requests) == 1


def test_every_address_and_what_to_do_is_in_the_error(server, folder, capsys):
    """What a server says does not command the terminal."""
    server.faults["/gone/x.bin"] = [(404, "\x1b[31mEVIL\x9b1m" + 500 * "!")]
    addresses = [f"{server.url}/gone/x.bin", "http://127.0.0.1:1/x.bin"]
    with pytest.raises(UserError, match=r"404 \(\\x1b\[31mEVIL\\x9b1m!+\.\.\.; ") as e:
        fetch(folder, remote(*addresses))
    message = str(e.value)
    for wanted in (*addresses, "refused", str(folder / "corpus" / "x.bin"), "--mirror"):
        assert wanted in message
    assert (capsys.readouterr().err.replace("\n", "") + message).isprintable()


def test_a_busy_server_is_asked_again_after_ever_longer_waits(server, folder, capsys):
    server.faults["/a/x.bin"] = [503, 429, 500]
    assert_arrives(folder, remote(f"{server.url}/a/x.bin"), delay=1e-3, attempts=4)
    waits = re.findall(r"HTTP status (\d+).*again in (\S+) s", capsys.readouterr().err)
    assert waits == [("503", "0.001"), ("429", "0.002"), ("500", "0.004")]


def test_a_full_disk_keeps_what_has_arrived_and_two_processes_do_not_write_one_file(
    server, folder, full_disk
):
    file = remote(f"{server.url}/a/x.bin")
    with open(put(folder, b""), "ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(UserError, match="another process"):
            fetch(folder, file)
    assert server.requests == []
    error = r"x\.bin\.part: cannot be written \(.*\); make room"
    with full_disk(100_000), pytest.raises(UserError, match=error):
        fetch(folder, file)
    assert_arrives(folder, file)
    assert server.requests[-1] == Request("/a/x.bin", "bytes=100000-")
