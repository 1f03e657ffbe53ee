"""Downloads files: resumes broken downloads, checks the files, and never leaves a part as whole.

Neither `pooch` nor `keras.utils.get_file` resumes a broken download, which takes hours for WMT, and
what they have besides takes as many lines to call as to write.
"""

import hashlib
import http.client
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from nmt_zoo.common.errors import UserError, printable
from nmt_zoo.common.files import FilePath
from nmt_zoo.common.locks import locked_file
from nmt_zoo.common.progress import Progress

_MB = 1_000_000
_CHUNK = 1 << 18
_LONGEST_REASON = 200  # Characters of a server's message that are printed.
# HTTP statuses that are worth another attempt; at 416, the server has nothing after what is here.
_MAY_PASS = (408, 416, 425, 429, 500, 502, 503, 504)


class RemoteFile(NamedTuple):
    """A file of a corpus and its addresses; None for a size or a checksum that is not known."""

    path: str  # below the folder of downloads, such as "wmt14/test-full.tgz"
    addresses: tuple[str, ...]  # at least one, of the same bytes; tried in this order
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
            wanted = ", ".join(f"{self.path(f)} (of {f.addresses[0]})" for f in missing)
            raise UserError(
                f"--offline, but these files are missing: {wanted}; put them there, or leave out "
                "--offline"
            )
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
                f"download it again, or replace it by the one of {file.addresses[0]}"
            )

    def _download(self, file):
        path, failures = self.path(file), []
        mirrors = [f"{self.mirror.rstrip('/')}/{file.path}"] if self.mirror else []
        part_path = path.with_name(f"{path.name}.part")
        with locked_file(
            part_path,
            part_path,
            advice="give another --data_dir",
            busy="another process is downloading it; wait for it",
        ) as part:
            if path.exists():  # Another process was faster.
                return part_path.unlink()
            if not file.checksum:
                part.truncate(0)  # Without a checksum, parts of two versions could be joined.
            for address in (*mirrors, *file.addresses):
                failure = self._failure(file, part, address)
                if not failure:
                    os.replace(part_path, path)
                    return
                failures.append(_shown(address, failure))
                print(failures[-1], file=sys.stderr, flush=True)
            if not _size(part):
                part_path.unlink()
        raise UserError(
            f"{file.path} cannot be downloaded: {'; '.join(failures)}; check the network, "
            "http_proxy and https_proxy and run the same command again, or put the file at "
            f"{path}, or give the address of a copy as --mirror"
        )

    def _failure(self, file, part, address):
        """Receives a file from an address; returns the reason of a failure, or None."""
        attempt = 0
        while True:
            size = _size(part)
            try:
                _receive(address, file, part, self.timeout)
                reason = _fault(part.name, file)
                if not reason:
                    return None
                part.truncate(0)
                if not size:  # The part found may have been from another version of the file.
                    return reason
            except urllib.error.HTTPError as error:
                error.close()
                reason = f"HTTP status {error.code} ({error.reason})"
                if error.code not in _MAY_PASS:
                    return reason
                if error.code == 416:
                    part.truncate(0)
            except (ValueError, http.client.InvalidURL) as error:  # Such as one without http://.
                return str(error)
            except (OSError, http.client.HTTPException) as error:
                reason = str(getattr(error, "reason", "") or error) or type(error).__name__
            attempt = 1 if _size(part) > size else attempt + 1
            if attempt >= self.attempts:
                return reason
            wait = self.delay * 2 ** (attempt - 1)
            shown = _shown(address, reason)
            print(f"{shown}; trying again in {wait:g} s", file=sys.stderr, flush=True)
            time.sleep(wait)


def _receive(address, file, part, timeout):
    """Downloads the missing rest of a file and appends it; `UserError` if the disk is full.

    `OSError`, `HTTPException` or `ValueError`: there is no connection, or it broke.
    """
    size = _size(part)
    if file.size and size >= file.size:
        return
    request = urllib.request.Request(address, headers={"Range": f"bytes={size}-"} if size else {})
    with urllib.request.build_opener().open(request, timeout=timeout) as response:
        if size and not response.headers.get("Content-Range", "").startswith(f"bytes {size}-"):
            print(f"{address}: cannot resume a download; starting again", file=sys.stderr)
            part.truncate(0)
            size = 0
        length = response.headers.get("Content-Length") or ""
        total = size + int(length) if length.isdecimal() else file.size
        size = _copy(response, part, size, total, file)
    if total and size < min(total, file.size or total):
        raise ConnectionError(f"the connection ended after {size:,} of {total:,} bytes")


def _copy(response, part, size, total, file):
    """Writes the bytes of a response, at most one more than expected; returns the file's length."""
    limit = float("inf") if file.size is None else file.size + 1
    name, in_mb = Path(file.path).name, total and total // _MB
    with Progress(f"downloading {name}", in_mb, "MB", initial=size // _MB) as progress:
        while size < limit and (chunk := response.read1(min(_CHUNK, limit - size))):
            try:
                left = memoryview(chunk)
                while left:
                    left = left[part.write(left) :]
            except OSError as error:
                raise UserError(
                    f"{part.name}: cannot be written ({error.strerror}); make room and run the "
                    "same command again; it resumes from here"
                ) from None
            progress.update((size + len(chunk)) // _MB - size // _MB)
            size += len(chunk)
    return size


def _fault(path, file):
    """Returns what is wrong with a file on the disk, or None."""
    size = os.stat(path).st_size
    if not size:
        return "empty"
    if file.size is not None and size != file.size:
        expected = f"{size:,} bytes, expected {file.size:,}"
        return f"more than the {file.size:,} bytes expected" if size > file.size else expected
    kind, _, expected = (file.checksum or "").partition(":")
    if kind:
        digest = hashlib.new(kind, usedforsecurity=False)
        name = Path(file.path).name
        with (
            open(path, "rb") as opened,
            Progress(f"checking {name}", size // _MB, "MB") as progress,
        ):
            while chunk := opened.read(_MB):
                digest.update(chunk)
                progress.update(len(chunk) // _MB)
        if digest.hexdigest() != expected:
            return f"{kind} is {digest.hexdigest()}, expected {expected}"
    return None


def _size(part):
    return os.fstat(part.fileno()).st_size


def _shown(address, reason):
    """Names the reason of a failure; shortens a server's message, and escapes its controls."""
    short = reason if len(reason) <= _LONGEST_REASON else f"{reason[:_LONGEST_REASON]}..."
    return f"{printable(address)}: {printable(short)}"
