"""Downloads a model from Hugging Face's hub, or another one that answers the same addresses.

The hub's list of a model's files tells their sizes, SHA-256 sums of the large ones, and the
version, from which all files are taken. It is kept beside them, so that later calls need no
network.
"""

import re
from pathlib import Path
from typing import Any

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.downloads.remote_files import Downloads, RemoteFile
from nmt_zoo.model_directory.pretrained.hugging_face import (
    SMALL_FILES,
    WEIGHTS,
    read_json,
    weight_files,
)

HUB = "https://huggingface.co"
_LIST = "files.json"
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def is_name(text: str) -> bool:
    """Returns whether a text is a name such as `Helsinki-NLP/opus-mt-en-de`."""
    return bool(_NAME.fullmatch(text)) and ".." not in text


def download(name: str, data_dir: str, *, mirror: str = "", offline: bool = False) -> Path:
    """Returns the folder with the files of a model; downloads those that are missing.

    `mirror` is the address of another hub, "": `HUB`. With `offline`, nothing is downloaded.
    Raises UserError: there is no such model, or a file cannot be downloaded or is damaged.
    """
    hub, folder = (mirror or HUB).rstrip("/"), Path(data_dir, name)
    downloads = Downloads(data_dir, offline=offline)
    listing = RemoteFile(f"{name}/{_LIST}", (f"{hub}/api/models/{name}?blobs=true",))
    downloads.fetch([listing])
    about = read_json(folder / _LIST)
    files = _listed(about, folder / _LIST)
    base = f"{hub}/{name}/resolve/{about['sha']}"

    def remote(names):
        missing = [n for n in names if n not in files]
        if missing:
            raise UserError(f"{name}: the hub lists no file {missing[0]}")
        return [RemoteFile(f"{name}/{n}", (f"{base}/{n}",), *files[n]) for n in names]

    downloads.fetch(remote([n for n in SMALL_FILES if n in files]))
    for weights in WEIGHTS:
        if weights in files:
            downloads.fetch(remote([weights]))
            return folder
        if f"{weights}.index.json" in files:
            downloads.fetch(remote(weight_files(folder / f"{weights}.index.json")))
            return folder
    raise UserError(f"{name}: the hub lists no {' and no '.join(WEIGHTS)}")


def _listed(about: dict[str, Any], path: Path) -> dict[str, tuple[int | None, str | None]]:
    """Returns the size and the checksum, if known, of each file."""
    try:
        if not re.fullmatch("[0-9a-f]{7,64}", about["sha"]):
            raise ValueError
        files = {}
        for file in about["siblings"]:
            sha, size = (file.get("lfs") or {}).get("sha256"), file.get("size")
            if size is not None and (type(size) is not int or size < 0):
                raise ValueError
            files[str(file["rfilename"])] = size or None, f"sha256:{sha}" if sha else None
        return files
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UserError(
            f"{path}: not a list of a model's files; remove it to download it again"
        ) from None
