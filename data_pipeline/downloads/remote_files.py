"""Downloads files: resumes broken downloads, checks the files, and never leaves a part as whole.

Neither `pooch` nor `keras.utils.get_file` resumes a broken download, which takes hours for WMT.
"""

import contextlib
import hashlib
import http.client
import os
import shutil
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from nmt_zoo.common.errors import UserError, printable
from nmt_zoo.common.files import FilePath
from nmt_zoo.common.locks import lock
from nmt_zoo.common.progress import Progress

_MB = 1_000_000
_CHUNK = 1 << 18
_LONGEST_REASON = 200  # Characters of a server's message that are printed.
_MAY_PASS = (408, 425, 429, 500, 502, 503, 504)  # HTTP statuses that are worth another attempt.


class RemoteFile(NamedTuple):
    """A file of a corpus and its addresses; None for a size or a checksum that is not known."""

    path: str  # below the folder of downloads, such as "wmt14/test-full.tgz"
    addresses: tuple[str, ...]  # of the same bytes, tried in this order
    size: int | None = None  # bytes
    checksum: str | None = None  # "sha256:..." or "md5:..." in hexadecimal digits


class Downloads(NamedTuple):
    """A folder of downloaded files, and the settings of downloading.

    Files that are there already, also by hand, are used. An address is given up after `attempts` in
    a row without a new byte, or at once if another attempt cannot help. Proxies are taken from the
    environment: `http_proxy`, `https_proxy`, `no_proxy`.

    Example:
        >>> nc = RemoteFile("nc.tgz", ("https://www.statmt.org/wmt14/training-parallel-nc-v9.tgz",))
        >>> [path] = Downloads("data/downloads").fetch([nc])
    """

    folder: FilePath
    mirror: str = ""  # address of a copy of such a folder, tried first; "": none
    offline: bool = False  # never use the network
    attempts: int = 5
    delay: float = 1.0  # seconds before the second attempt; doubled before each further attempt
    timeout: float = 60.0  # seconds without a byte after which a connection counts as broken

    def fetch(self, files: Iterable[RemoteFile]) -> list[Path]:
        """Checks the files that are in the folder, downloads the missing ones, returns their paths.

        Raises UserError: a file cannot be downloaded, or has another size or checksum.
        """
        files = list(files)
        missing = [file for file in files if not self.path(file).exists()]
        for file in files:
            if file not in missing:
                self._check_own(file)
        if missing and self.offline:
            wanted = ", ".join(f"{self.path(f)} (of {_origin(f)})" for f in missing)
            raise UserError(
                f"--offline, but these files are missing: {wanted}; put them there, or leave out "
                "--offline"
            )
        self._check_room(missing)
        for file in missing:
            self._download(file)
        return [self.path(file) for file in files]

    def path(self, file: RemoteFile) -> Path:
        """Returns the path of a file in the folder."""
        return Path(self.folder, file.path)

    def _check_own(self, file):
        """Raises `UserError` if a file in the folder has another size or checksum."""
        try:
            fault = _fault(self.path(file), file)
        except OSError as error:
            fault = f"cannot be read ({error.strerror})"
        if fault:
            raise UserError(
                f"{self.path(file)}: {fault}; it is damaged, or another file; remove it to "
                f"download it again, or replace it by the one of {_origin(file)}"
            )

    def _check_room(self, files):
        needed = sum(max((f.size or 0) - _size(_part(self.path(f))), 0) for f in files)
        folder = Path(self.folder).absolute()
        while not folder.exists():
            folder = folder.parent
        free = shutil.disk_usage(folder).free
        if needed > free:
            raise UserError(
                f"{self.folder}: the downloads need {needed / _MB:,.0f} MB and {free / _MB:,.0f} "
                "MB are free; make room, or give another --data_dir"
            )

    def _download(self, file):
        path = self.path(file)
        addresses = list(file.addresses)
        if self.mirror:
            addresses.insert(0, f"{self.mirror.rstrip('/')}/{file.path}")
        failures = []
        with _locked(_part(path)) as part:
            if path.exists():  # Another process was faster.
                return
            if not file.checksum:
                part.truncate(0)  # Without a checksum, parts of two versions could be joined.
            for address in addresses:
                failure = self._failure(file, part, address)
                if not failure:
                    os.replace(_part(path), path)
                    return
                failures.append(f"{printable(address)}: {_shown(failure)}")
                _say(failures[-1])
        raise UserError(
            f"{file.path} cannot be downloaded: {'; '.join(failures) or 'it has no address'}; "
            "check the network, http_proxy and https_proxy and run the same command again, or put "
            f"the file at {path}, or give the address of a copy as --mirror"
        )

    def _failure(self, file, part, address):
        """Receives a file from an address; returns the reason of a failure, or None."""
        begun_before = _size(part.name) > 0
        attempt = 0
        while True:
            size = _size(part.name)
            try:
                _receive(address, file, part, self.timeout)
                reason = _fault(part.name, file)
                if not reason:
                    return None
                part.truncate(0)
                if not begun_before:
                    return reason
                begun_before = False  # The part found may be from another version of the file.
            except urllib.error.HTTPError as error:
                reason = f"HTTP status {error.code} ({error.reason})"
                if error.code not in _MAY_PASS:
                    return reason
            except (ValueError, http.client.InvalidURL) as error:  # Such as one without http://.
                return str(error)
            except (OSError, http.client.HTTPException) as error:
                reason = str(getattr(error, "reason", "") or error) or type(error).__name__
            attempt = 1 if _size(part.name) > size else attempt + 1
            if attempt >= self.attempts:
                return reason
            wait = self.delay * 2 ** (attempt - 1)
            _say(f"{printable(address)}: {_shown(reason)}; trying again in {wait:g} s")
            time.sleep(wait)


def _receive(address, file, part, timeout):
    """Downloads the missing rest of a file and appends it; `UserError` if the disk is full.

    `OSError`, `HTTPException` or `ValueError`: there is no connection, or it broke.
    """
    have = _size(part.name)
    if file.size and have >= file.size:
        return
    request = urllib.request.Request(address)
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        response = urllib.request.build_opener().open(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and have:
            if error.headers.get("Content-Range", "").endswith(f"/{have}"):
                return
            part.truncate(0)
            raise ConnectionError(f"the server has nothing after byte {have:,}") from None
        raise
    with response:
        if have and not (response.headers.get("Content-Range") or "").startswith(f"bytes {have}-"):
            _say(f"{address}: cannot resume a download; starting again")
            part.truncate(0)
            have = 0
        length = response.headers.get("Content-Length") or ""
        total = have + int(length) if length.isdecimal() else file.size
        done = _copy(response, part, have, total, file)
    if total and done < min(total, file.size or total):
        raise ConnectionError(f"the connection ended after {done:,} of {total:,} bytes")


def _copy(response, part, done, total, file):
    """Writes the bytes of a response, at most one more than expected; returns the file's length."""
    most = float("inf") if file.size is None else file.size + 1
    name = Path(file.path).name
    with Progress(
        f"downloading {name}", total and total // _MB, "MB", initial=done // _MB
    ) as progress:
        while done < most and (chunk := response.read1(min(_CHUNK, most - done))):
            left = memoryview(chunk)
            try:
                while left:
                    left = left[part.write(left) :]
            except OSError as error:
                raise UserError(
                    f"{part.name}: cannot be written ({error.strerror}); make room and run the "
                    "same command again; it resumes from here"
                ) from None
            progress.update((done + len(chunk)) // _MB - done // _MB)
            done += len(chunk)
    return done


def _fault(path, file):
    """Returns what is wrong with a file on the disk, or None."""
    size = os.stat(path).st_size
    if not size:
        return "empty"
    if file.size is not None and size > file.size:
        return f"more than the {file.size:,} bytes expected"
    if file.size is not None and size < file.size:
        return f"{size:,} bytes, expected {file.size:,}"
    if file.checksum is None:
        return None
    kind, _, expected = file.checksum.partition(":")
    digest = hashlib.new(kind, usedforsecurity=False)
    with (
        open(path, "rb") as opened,
        Progress(f"checking {Path(file.path).name}", size // _MB, "MB") as progress,
    ):
        while chunk := opened.read(_MB):
            digest.update(chunk)
            progress.update(len(chunk) // _MB)
    if digest.hexdigest() != expected:
        return f"{kind} is {digest.hexdigest()}, expected {expected}"
    return None


def _origin(file):
    return file.addresses[0] if file.addresses else "no known address"


def _part(path):
    return path.with_name(f"{path.name}.part")


def _size(path):
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


@contextlib.contextmanager
def _locked(path):
    """Yields a file locked and opened for appending; removes it afterwards if it is empty."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(path, "ab", buffering=0)  # noqa: SIM115 - closed below.
    except OSError as error:
        raise UserError(
            f"{path}: cannot be written ({error.strerror}); give another --data_dir"
        ) from None
    with file:
        if not lock(file, path):
            raise UserError(f"{path}: another process is downloading it; wait for it")
        try:
            yield file
        finally:
            if _size(path) == 0:
                path.unlink(missing_ok=True)


def _shown(reason):
    """Shortens a server's message and escapes its control characters."""
    short = reason if len(reason) <= _LONGEST_REASON else f"{reason[:_LONGEST_REASON]}..."
    return printable(short)


def _say(text):
    print(text, file=sys.stderr, flush=True)
