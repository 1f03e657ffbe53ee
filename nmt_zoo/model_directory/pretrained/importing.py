"""Makes a model directory of a public pretrained model."""

import hashlib
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import read_bytes, write_text
from nmt_zoo.configuration.resolver import options_of
from nmt_zoo.data_pipeline.noise import NONE
from nmt_zoo.model_directory.directory import ModelDirectory, model_arrays, model_of
from nmt_zoo.model_directory.pretrained import hugging_face, marian
from nmt_zoo.model_directory.pretrained.entries import entries_of
from nmt_zoo.model_directory.weight_files import restore

PRESET = "transformer_base"  # All settings are the imported model's own.
_ENDINGS = (".safetensors", ".bin", ".npz", ".yml", ".spm")
_LICENCE = re.compile(r"^license: *[\"']?([^\"'\n]+)", re.MULTILINE)


def import_model(
    folder: Path, path: Path, *, origin: str, languages: tuple[str, str] = ("", "")
) -> dict[str, Any]:
    """Writes the model of a folder in a public form as the model directory `path`, atomically.

    `origin` says in the directory where the model is from; `languages`, of source and target, are
    those that are meant if a script asks for no others. Returns the configuration.
    Raises UserError: a file is missing or damaged, the model computes what ours cannot, or `path`
    is in use.
    """
    ModelDirectory(path).check_free()
    settings, listed, tensors = (
        marian.read_folder(folder)
        if (folder / marian.DECODER).exists()
        else hugging_face.read_folder(folder)
    )
    entries = [*map(entries_of, listed)]
    tokenizer = entries[0].tokenizer._replace(target=entries[-1].tokenizer.target)
    arrays = hugging_face.named_as_ours(tensors, settings, entries, folder)
    config = {
        "model": PRESET,
        "settings": settings,
        "tokenizer": "bpe",
        "vocab_sizes": [len(entries[0].rows), len(entries[-1].rows)],
        "options": dict(options_of(PRESET, "files", {"normalise": "none", "noise": NONE})),
        "imported": {"from": origin, "license": licence_of(folder), "files": _checksums(folder)},
    }
    if listed[0].languages:
        chosen = listed[0].languages._replace(source=languages[0], target=languages[1])
        config["languages"] = chosen._asdict()
        for language in filter(None, languages):
            if language not in chosen.signs:
                raise UserError(
                    f"{language!r} is no language of {origin}; its languages: "
                    f"{', '.join(sorted(chosen.signs))}"
                )
    elif any(languages):
        raise UserError(f"{origin} has one pair of languages; leave out --target_language")
    model = model_of(config)
    restore(model_arrays(model), arrays, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".unfinished-{path.name}-", dir=path.parent))
    try:
        directory = ModelDirectory(made)
        directory.start(config, tokenizer)
        directory.write_best(arrays, {"step": 0})
        if (folder / "README.md").is_file():
            write_text(
                made / "README.md", read_bytes(folder / "README.md").decode(errors="replace")
            )
        directory.lock.release()
        os.chmod(made, 0o755)
        if path.exists():
            shutil.rmtree(path)  # Nothing but what `check_free` allows.
        os.replace(made, path)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    return config


def licence_of(folder: Path) -> str:
    """Returns the licence that the head of README.md names; "" if there is none."""
    path = folder / "README.md"
    head = read_bytes(path).decode(errors="replace")[:5000] if path.is_file() else ""
    match = _LICENCE.search(head) if head.startswith("---") else None
    return match[1].strip() if match else ""


def _checksums(folder):
    """Returns the SHA-256 sums of the files that were read."""
    checksums = {}
    for path in sorted(folder.iterdir()):
        is_read = path.name in hugging_face.SMALL_FILES or path.suffix in _ENDINGS
        if is_read and path.is_file():
            digest = hashlib.sha256()
            with open(path, "rb") as file:
                for part in iter(lambda: file.read(1 << 20), b""):
                    digest.update(part)
            checksums[path.name] = digest.hexdigest()
    return checksums
