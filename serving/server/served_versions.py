"""The version of a model that is served, and new versions that take its place."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from nmt_zoo.common.errors import UserError, printable
from nmt_zoo.serving.export.versions import newest_version
from nmt_zoo.serving.export.warm_up import read_requests
from nmt_zoo.serving.server.loaded_model import LoadedModel
from nmt_zoo.serving.server.refusals import Refusal

_WARM_UP_SECONDS = 600  # For each request.


class ServedVersions:
    """Serves the newest of the versions 1, 2, 3, ... in a folder, and replaces it by newer ones.

    As in TensorFlow Serving, one version is served at a time. Its successor is loaded beside it, so
    that no request has to wait, and the old one is closed after its last request. `load` gets a
    version's folder. Raises `UserError` if there is no version, or it cannot be loaded.
    """

    def __init__(
        self, folder: str | Path, name: str, load: Callable[[Path], LoadedModel] | None = None
    ) -> None:
        self._folder, self._name = Path(folder), name
        self._load = load or load_warm
        self._users = {}  # LoadedModel -> number of its running requests.
        self.states = {}  # Number -> (state, code and message of the error).
        newest = newest_version(self._folder)
        if not newest:
            raise UserError(
                f"{folder}: no numbered version of a model; write one with export.py "
                f"--model_dir=... --export_dir={folder}"
            )
        # Contents of the version that is served, and of the one that was tried last.
        self._served = self._tried = _contents(newest)
        self._current = self._load(newest)
        self.number = int(newest.name)
        self.states[self.number] = ("AVAILABLE", "OK", "")
        self._users[self._current] = 0

    @contextlib.contextmanager
    def use(self, name: str, number: int | None = None) -> Iterator[LoadedModel]:
        """Yields the model for a request; it is not closed within the `with` block.

        Raises `Refusal` if the model, or a version of this number, is not served.
        """
        if name != self._name or number not in (None, self.number):
            asked = f"Latest({name})" if number is None else f"Specific({name}, {number})"
            raise Refusal(404, f"Servable not found for request: {asked}")
        model = self._current
        self._users[model] += 1
        try:
            yield model
        finally:
            self._users[model] -= 1
            self._close_unused()

    def status(self, name: str, number: int | None = None) -> dict[str, Any]:
        """Returns the states of all known versions, or of one, as a dict for JSON.

        Raises `Refusal` if there is no such version.
        """
        if name != self._name:
            raise Refusal(404, f"Could not find any versions of model {name}")
        if number is not None and number not in self.states:
            raise Refusal(404, f"Could not find version {number} of model {name}")
        known = sorted(self.states, reverse=True) if number is None else [number]
        return {"model_version_status": [self._status_of(each) for each in known]}

    def _status_of(self, number):
        state, code, message = self.states[number]
        status = {"error_code": code, "error_message": message}
        return {"version": str(number), "state": state, "status": status}

    async def watch(self, seconds: float) -> None:
        """Looks for another version at intervals of `seconds`."""
        while True:
            await asyncio.sleep(seconds)
            await self.refresh()

    async def refresh(self) -> None:
        """Loads the newest version of the folder if it is not the one that is served.

        Files decide, not the number, which an export into an emptied folder takes again. A version
        that cannot be loaded, perhaps because it is still being copied, is tried again when its
        files have changed.
        """
        try:
            newest = await asyncio.to_thread(newest_version, self._folder)
            if not newest:
                return
            contents = await asyncio.to_thread(_contents, newest)
        except OSError:  # For a moment, such as too many open files; it is looked for again.
            return
        if contents in (self._served, self._tried):
            return
        self._tried, number = contents, int(newest.name)
        if number != self.number:
            self.states[number] = ("LOADING", "OK", "")
        try:
            model = await asyncio.to_thread(self._load, newest)
        except Exception as error:  # The old version stays in service.
            reason = printable(" ".join(str(error).split()))[:500]
            if number != self.number:
                self.states[number] = ("END", "UNKNOWN", reason)
            print(f"version {number} cannot be loaded: {reason}", flush=True)
            return
        self.states[self.number] = ("END", "OK", "")
        self._current, self.number, self._served = model, number, contents
        self._users[model] = 0
        self.states[number] = ("AVAILABLE", "OK", "")
        self._close_unused()
        print(f"version {number} is served", flush=True)

    def _close_unused(self):
        for model in [m for m, users in self._users.items() if not users and m != self._current]:
            del self._users[model]
            model.close()


def load_warm(folder: str | Path) -> LoadedModel:
    """Loads a version and answers its warm-up requests, because the first calls take long.

    Raises `UserError` if it cannot be loaded, or fails to answer one of them.
    """
    requests, model = read_requests(folder), LoadedModel(folder)
    for signature, inputs in requests:
        try:
            model.run(signature, inputs, _WARM_UP_SECONDS)
        except (Refusal, LookupError, ValueError, TypeError) as error:
            model.close()
            reason = " ".join(str(error).split())[:300]
            raise UserError(
                f"{folder}: the signature {signature!r} fails to answer a warm-up request "
                f"({reason}); train or export the model again"
            ) from None
    return model


def _contents(version):
    """Returns name, size and time of every file of a version."""
    found = []
    for path in sorted(version.rglob("*")):
        with contextlib.suppress(OSError):
            stat = path.stat()
            found.append((str(path), stat.st_size, stat.st_mtime_ns))
    return found
