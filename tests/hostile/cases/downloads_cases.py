"""Hostile servers, hostile archives, and foreign files in the folder of downloads."""

import contextlib
import gzip
import hashlib
import io
import os
import random
import tarfile
from pathlib import Path

from nmt_zoo.data_pipeline import datasets
from nmt_zoo.data_pipeline.downloads.archives import stream_lines
from nmt_zoo.data_pipeline.downloads.markup import parse_sgml
from nmt_zoo.data_pipeline.downloads.remote_files import Downloads, RemoteFile
from tests.data_pipeline.published import WMT14, publish
from tests.data_pipeline.web import serving
from tests.hostile.case import Case, Refused, Works
from tests.hostile.inputs import both, files
from tests.hostile.prepared import quick

_DATA = random.Random(1).randbytes(300_000)
_SIZE = len(_DATA)
_SUM = f"sha256:{hashlib.sha256(_DATA).hexdigest()}"
_TEXT = "eins\nzwei\n"
_MEMBER = "training/x.de"
_SERVERS = contextlib.ExitStack()  # Servers end with the process of their case.


def cases():
    """Yields `Case`s."""
    yield from _servers()
    yield from _found()
    yield from _corpora()
    yield from _archives()
    yield from _sgml()


def fetch(path, own=_DATA, faults=(), ranges=True, size=_SIZE, **how):
    """Downloads a file from a misbehaving server in this process."""
    with serving() as server:
        server.files[path] = own
        server.faults[path] = list(faults)
        server.ranges = ranges
        address = how.pop("address", server.url + path)
        file = RemoteFile("corpus/x.bin", (address,), size, _SUM)
        how = {"delay": 0, "attempts": 2, "timeout": 5, **how}
        [found] = Downloads("data", **how).fetch([file])
        print(hashlib.sha256(found.read_bytes()).hexdigest())


def _fetched(outcome):
    """Describes what is wrong with a file that should have been downloaded whole, or ""."""
    return "" if outcome.out.strip() == _SUM.partition(":")[2] else "not the bytes published"


def _server(name, expected, *, prepare=None, file_limit=0, **how):
    def ask():
        fetch("/x.bin", **how)

    return Case(
        *("downloads", name, ask, (), expected), prepare=prepare, file_limit=file_limit, seconds=30
    )


def _servers():
    kept = ("data",)
    refused = Refused(r"x\.bin", kept)
    yield _server("as published", Works(_fetched))
    for name, own in {
        "one byte less": _DATA[:-1],
        "one byte more": _DATA + b"x",
        "nothing": b"",
        "other bytes": bytes(len(_DATA)),
        "a page that asks to log in": b"<html>Please log in</html>",
    }.items():
        yield _server(f"sends {name}", refused, own=own)
    endless = _DATA + bytes(50_000_000)
    more = Refused("more than the 300,000 bytes", kept)
    yield _server("sends 50 MB more", more, own=endless, file_limit=1_000_000)
    for fault in (400, 401, 403, 404, 410, 418, 451, 500, 502, 503, 504):
        wrong = Refused(str(fault), kept)
        yield _server(f"answers {fault}", wrong, faults=[fault] * 9)
    for name, fault in {
        "colours": (404, "\x1b[31mEVIL\x1b[0m"),
        "C1 controls": (404, "\x9b31mEVIL"),
        "5,000 characters": (404, "E" * 5000),
        "carriage returns": (404, "a\rerror: b\rc"),
        "text of another script": (404, "пропал"),
    }.items():
        with contextlib.suppress(UnicodeError):
            fault[1].encode("latin-1")
            yield _server(f"gives a reason of {name}", Refused("404", kept), faults=[fault] * 9)
    yield _server("breaks off twice", Works(_fetched), faults=[-200_000, -50_000])
    yield _server("breaks off always", refused, faults=[-len(_DATA)] * 9)
    yield _server("knows no ranges", Works(_fetched), faults=[-1000], ranges=False)
    yield _server("is busy, then answers", Works(_fetched), faults=[503])
    for name, address in {
        "nobody listens": "http://127.0.0.1:1/x.bin",
        "no such protocol": "gopher://127.0.0.1/x.bin",
        "a file of this machine": "file:///etc/passwd",
        "no protocol": "127.0.0.1/x.bin",
        "spaces": "http://127.0.0.1:1/a b",
        "line feeds": "http://127.0.0.1:1/a\r\nX: y",
        "no host": "http:///x.bin",
        "a port of words": "http://127.0.0.1:port/x.bin",
        "nothing": "",
    }.items():
        yield _server(f"address: {name}", refused, address=address)
    for name, mirror in {"is missing": "http://127.0.0.1:1", "is no address": "here"}.items():
        yield _server(f"the mirror {name}", Works(_fetched), mirror=mirror)
    yield _server("a full disk", Refused("cannot be written", kept), file_limit=100_000)
    yield _server("more than the disk has", Refused("free"), size=10**18)
    yield _server("offline", Refused("--offline"), offline=True)


def _found():
    path = "data/corpus/x.bin"

    def there(data, name=path):
        return both(lambda: os.makedirs("data/corpus"), files({name: data}))

    for name, data in {"empty": b"", "cut": _DATA[:-1], "other bytes": bytes(len(_DATA))}.items():
        yield _server(f"put there by hand: {name}", Refused(r"x\.bin"), prepare=there(data))
    folder = both(lambda: os.makedirs(path), lambda: None)
    yield _server("put there by hand: a folder", Refused(r"x\.bin"), prepare=folder)
    for name, data in {
        "the beginning of another": bytes(1000),
        "more than all": bytes(len(_DATA) + 5),
        "all, but of another": bytes(len(_DATA)),
        "all": _DATA,
    }.items():
        start = there(data, f"{path}.part")
        yield _server(f"left by a broken one: {name}", Works(_fetched), prepare=start)
    blocked = both(files({"data": "x"}), lambda: None)
    yield _server("the folder is a file", Refused("data"), prepare=blocked)
    part = both(lambda: os.makedirs(f"{path}.part"), lambda: None)
    yield _server("the part is a folder", Refused(r"x\.bin"), prepare=part)
    unreadable = both(there(_DATA), lambda: os.chmod(path, 0))
    yield Case(
        *("downloads", "put there by hand: not readable", lambda: fetch("/x.bin"), ()),
        Refused(r"x\.bin"),
        prepare=unreadable,
        unprivileged=True,
    )


def _corpora():
    """Yields cases of train.py with a published corpus, served by a server in this process."""

    def published(change):
        def start():
            server = _SERVERS.enter_context(serving())
            corpus = publish(datasets.DATASETS["wmt14_en_de"], change(dict(WMT14)), server)
            datasets.DATASETS["wmt14_en_de"] = corpus

        return start

    def without(member):
        return lambda texts: {name: text for name, text in texts.items() if name != member}

    sgml = "test-full/newstest2014-deen-ref.de.sgm"
    changes = {
        "a missing member": without("commoncrawl.de-en.de"),
        "sides of unequal length": lambda texts: {**texts, "dev/newstest2013.de": "Eins\n"},
        "a damaged test set": lambda texts: {**texts, sgml: "<refset><doc><seg id=1>x</refset>"},
        "an empty side": lambda texts: {**texts, "dev/newstest2013.en": ""},
        "no segments": lambda texts: {**texts, sgml: "nothing"},
    }
    flags = (*("--dataset=wmt14_en_de", "--data_dir=data"), "--dry_run")
    for name, change in changes.items():
        arguments = quick("ibm1", *flags, corpus=())
        refused = Refused(r"data/downloads", ("data",))
        yield Case(
            *("archives", f"train.py, {name}", "train", arguments, refused),
            prepare=published(change),
        )
    yield Case(
        *("downloads", "train.py --offline", "train"),
        quick("ibm1", "--dataset=wmt14_en_de", "--data_dir=data", "--offline", corpus=()),
        Refused("--offline", ("data",)),
    )


def read_member(path, member):
    """Prints the lines of a member of an archive."""
    print(*stream_lines(path, member), sep="\n")


def _tar(*members, mode="w:gz"):
    """Returns a function that writes x.tgz; members are (name, text), or a `TarInfo` for a link."""

    def write():
        with tarfile.open("x.tgz", mode) as archive:
            for member in members:
                if isinstance(member, tarfile.TarInfo):
                    archive.addfile(member)
                else:
                    info = tarfile.TarInfo(member[0])
                    info.size = len(member[1].encode())
                    archive.addfile(info, io.BytesIO(member[1].encode()))

    return write


def _special(name, kind, target="", size=0):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, target, size
    return info


def _archives():
    def case(name, expected, prepare, member=_MEMBER, path="x.tgz"):
        return Case("archives", name, read_member, (path, member), expected, prepare=prepare)

    same = Works(lambda outcome: "" if outcome.out == _TEXT else f"read {outcome.out!r}")
    good, text = (_MEMBER, _TEXT), _TEXT * 10_000
    for name, climbing in {
        "climbs out": "../../climbed",
        "is absolute": "/tmp/hostile_climbed",
        "is a home": "~/climbed",
        "has backslashes": "..\\..\\climbed",
        "has NUL": "a\0b",
        "has line feeds": "a\nerror: b",
        "is 3,000 characters": "x/" * 1500,
    }.items():
        yield case(f"a name that {name}", same, _tar((climbing, "evil"), good))
    refused = Refused(r"x\.tgz")
    links = {"symbolic": tarfile.SYMTYPE, "hard": tarfile.LNKTYPE}
    for kind, number in links.items():
        for target in ("/etc/passwd", "../../../etc/passwd", _MEMBER, "gone"):
            prepare = _tar(_special(_MEMBER, number, target))
            yield case(f"a {kind} link to {target}", refused, prepare)
        circle = _tar(_special(_MEMBER, number, "y"), _special("training/y", number, "x.de"))
        yield case(f"{kind} links in a circle", refused, circle)
    for name, number in {
        "a pipe": tarfile.FIFOTYPE,
        "a device": tarfile.CHRTYPE,
        "a folder": tarfile.DIRTYPE,
    }.items():
        yield case(f"{name} in the place of text", refused, _tar(_special(_MEMBER, number)))
    yield case("no such member", refused, _tar(("other", _TEXT)))
    yield case("names that colour the terminal", refused, _tar(("\x1b[31mred", _TEXT)))
    yield case("no members", refused, _tar())
    yield case("a member twice", same, _tar(good, (_MEMBER, "drei\n")))
    for name, data in {
        "empty": b"",
        "no archive": b"no archive\n",
        "a zip": b"PK\x03\x04" + bytes(100),
        "gzip of nothing": gzip.compress(b""),
        "gzip of zeros": gzip.compress(bytes(2000)),
        "gzip of noise": gzip.compress(_DATA),
    }.items():
        yield case(f"the file is {name}", refused, files({"x.tgz": data}))
    yield case("the file is missing", refused, None)
    yield case("the file is a folder", refused, lambda: os.mkdir("x.tgz"))
    for share in (0.01, 0.5, 0.9):

        def cut(share=share):
            _tar((_MEMBER, text + str(random.Random(1).random())))()
            data = Path("x.tgz").read_bytes()
            Path("x.tgz").write_bytes(data[: int(len(data) * share)])

        yield case(f"cut off at {share:.0%}", refused, cut)

    large = _special(_MEMBER, tarfile.REGTYPE, size=10**12)
    yield case("a member that promises a TB", refused, _tar(large))
    yield case("a member that is not UTF-8", Refused(r"x\.tgz: .*line 2: not UTF-8"), _latin)
    whole = gzip.compress("".join(random.Random(1).choices("abc\n", k=50_000)).encode())
    half = len(whole) // 2
    for name, data in {
        "without its end": whole[:-6],
        "of two bytes": whole[:2],
        "with one byte changed": whole[:half] + bytes([whole[half] ^ 0xFF]) + whole[half + 1 :],
        "with text after it": whole + b"more",
    }.items():
        prepare = files({"x.gz": data})
        yield case(f"gzip {name}", Refused(r"x\.gz"), prepare, member="", path="x.gz")


def _latin():
    with tarfile.open("x.tgz", "w:gz") as archive:
        info = tarfile.TarInfo(_MEMBER)
        info.size = 10
        archive.addfile(info, io.BytesIO(b"eins\nf\xfcnf\n"))


def read_sgml(text):
    """Prints the segments of an SGML test set."""
    print(*parse_sgml(text, "x.sgm").values(), sep="\n")


def _sgml():
    segment = '<doc docid="a"><seg id="1">one</seg></doc>'
    for name, text in {
        "empty": "",
        "no markup": "one\ntwo\n",
        "a segment without an end": segment.replace("</seg>", ""),
        "a segment without an id": segment.replace('id="1"', ""),
        "a segment twice": segment * 2,
        "a segment in a segment": segment.replace("one", segment),
        "20,000 documents without an end": "<doc " * 20_000,
        "20,000 segments without an end": "<seg id=1>" * 20_000,
        "100,000 brackets": segment + "<" * 100_000 + "seg",
        "NUL bytes": "\0" * 1000,
    }.items():
        expected = Refused(r"x\.sgm")
        if name == "100,000 brackets":
            expected = Refused(r"x\.sgm")
        yield Case("archives", f"SGML: {name}", read_sgml, (text,), expected, seconds=20)
