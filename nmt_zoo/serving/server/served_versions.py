"""The version of a model that is served, and new versions that take its place."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from nmt_zoo.common.cores import give_way
from nmt_zoo.common.errors import UserError, printable
from nmt_zoo.common.process import silence
from nmt_zoo.serving.export.versions import newest_version
from nmt_zoo.serving.export.warm_up import read_requests
from nmt_zoo.serving.server.loaded_model import FIRST, ExportedModel, LoadedModel
from nmt_zoo.serving.server.refusals import Refusal


class ServedVersions:
    """Serves a model, and newer versions of it that take its place.

    As in TensorFlow Serving, one version is served at a time. Its successor is loaded beside it, so
    that no request has to wait, and the old one is closed after its last request.

    Args:
        name: of the model.
        model: what is served first.
        number: of its version.
        folder: has the versions 1, 2, 3, ..., of which the newest is to be served; or None.
        contents: of the version in `folder` that is served first.
        successors: yields the models that take the place of the first one by one, until the event
            that it gets is set.
    """

    def __init__(
        self,
        name: str,
        model: LoadedModel,
        *,
        number: int = 1,
        folder: Path | None = None,
        contents: list[tuple] | None = None,
        successors: Callable[[threading.Event], Generator[LoadedModel]] | None = None,
    ) -> None:
        self._name, self._folder = name, folder
        self._thread = ThreadPoolExecutor(1, initializer=give_way)  # Makes the successors.
        self._closing = threading.Event()
        self._successors = successors(self._closing) if successors else (each for each in ())
        self._users = {model: 0}  # LoadedModel -> number of its running requests.
        # Contents of the version that is served, and of the one that was tried last.
        self._served = self._tried = contents
        self._current, self.number = model, number
        # Number -> (state, code and message of the error).
        self.states = {number: ("AVAILABLE", "OK", "")}

    @classmethod
    def of_folder(cls, folder: str | Path, name: str) -> "ServedVersions":
        """Loads the newest of the versions in a folder, and serves it when it can translate.

        Raises `UserError` if there is no version, or it cannot be loaded.
        """
        newest = newest_version(Path(folder))
        if not newest:
            raise UserError(
                f"{folder}: no numbered version of a model; write one with export.py "
                f"--model_dir=... --export_dir={folder}"
            )
        contents = _contents(newest)  # Before it is loaded: files may still be copied.

        def warm(closing):
            yield load_warm(newest, closing)

        return cls(
            name,
            load_first(newest),
            number=int(newest.name),
            folder=Path(folder),
            contents=contents,
            successors=warm,
        )

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
        await self.succeed()
        while self._folder:
            await asyncio.sleep(seconds)
            await self.refresh()

    async def succeed(self) -> None:
        """Lets the successors of the first model take its place when they are ready."""
        loop = asyncio.get_running_loop()
        try:
            while model := await loop.run_in_executor(self._thread, next, self._successors, None):
                self._replace(model, self.number)
        except Exception as error:  # The model before stays in service.
            reason = printable(" ".join(str(error).split()))[:500]
            print(f"warning: some answers stay slow: {reason}", flush=True)

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
            model = await asyncio.to_thread(load_warm, newest)
        except Exception as error:  # The old version stays in service.
            reason = printable(" ".join(str(error).split()))[:500]
            if number != self.number:
                self.states[number] = ("END", "UNKNOWN", reason)
            print(f"version {number} cannot be loaded: {reason}", flush=True)
            return
        self._served = contents
        self._replace(model, number)
        print(f"version {number} is served", flush=True)

    def _replace(self, model, number):
        self.states[self.number] = ("END", "OK", "")
        self._current, self.number = model, number
        self._users[model] = 0
        self.states[number] = ("AVAILABLE", "OK", "")
        self._close_unused()

    def _close_unused(self):
        for model in [m for m, users in self._users.items() if not users and m != self._current]:
            del self._users[model]
            model.close()

    def close(self) -> None:
        """Ends what runs behind the answers, and closes the model; no request may be running."""
        self._closing.set()
        self._thread.submit(self._successors.close)
        self._thread.shutdown()
        self._current.close()


def load_first(folder: Path) -> LoadedModel:
    """As `load_warm`, but soon: only the first request for a translation is answered.

    While another signature is called for the first time, TensorFlow answers nothing else.
    """
    requests = [request for request in read_requests(folder) if request.signature == FIRST]
    return _loaded(folder, requests[:1])


def load_warm(folder: Path, closing: threading.Event | None = None) -> LoadedModel:
    """Loads a version and answers its warm-up requests, until `closing` is set.

    Raises `UserError` if the version cannot be loaded, or fails to answer a request.
    """
    return _loaded(folder, read_requests(folder), closing)


def _loaded(folder, requests, closing=None):
    with silence():  # tensorflow_text prints that SentencePiece normalises nothing.
        model = ExportedModel(folder)
        try:
            model.warm_up(requests, closing)
        except UserError as error:
            model.close()
            raise UserError(f"{folder}: {error}") from None
    return model


def _contents(version):
    """Returns name, size and time of every file of a version."""
    found = []
    for path in sorted(version.rglob("*")):
        with contextlib.suppress(OSError):
            stat = path.stat()
            found.append((str(path), stat.st_size, stat.st_mtime_ns))
    return found
