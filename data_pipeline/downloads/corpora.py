"""Makes a training corpus from published files: downloads, cleans, writes and reports."""

import hashlib
import itertools
import json
import sys
from pathlib import Path
from typing import NamedTuple

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import FilePath, atomic_path, check_writable, write_text
from nmt_zoo.common.progress import Progress
from nmt_zoo.data_pipeline.downloads.archives import name_of, stream_pairs
from nmt_zoo.data_pipeline.downloads.cleaning import Cleaner
from nmt_zoo.data_pipeline.downloads.remote_files import Downloads, RemoteFile

SPLITS = ("train", "valid", "test")
_VERSION = 2  # To be raised when the same definition makes other files than before.


class Split(NamedTuple):
    """The two files of a split; line n of the target translates line n of the source."""

    source: FilePath
    target: FilePath


class Text(NamedTuple):
    """The place of one side of parallel text: a file, or a member of an archive.

    Texts whose name ends in `.sgm` or `.xml` are test sets, those named `train.tags.` are talks.
    """

    file: RemoteFile  # text, text in gzip (`.gz`), or a tar archive, compressed or not
    member: str = ""  # of the archive; "" if `file` is not an archive

    def __str__(self):
        return name_of(self.file.path, self.member)


class Corpus(NamedTuple):
    """A parallel corpus that is published as files.

    Parts are (source, target) and joined in order; those of `valid` and `test` are mended, but
    never filtered. If `valid_every` is not 0, every so many-th pair of `train`, counted before any
    is dropped, is for validation and not for training, and is filtered like training text.
    """

    languages: tuple[str, str]  # codes of (source, target); the suffixes of the files made
    train: tuple[tuple[Text, Text], ...]
    valid: tuple[tuple[Text, Text], ...]  # () if `valid_every` holds out a part
    test: tuple[tuple[Text, Text], ...]  # () if there is no test set
    about: str  # one line: contents
    size: str  # one line: number of pairs, and bytes to download
    licence: str  # one line
    citation: str  # one line: papers to cite
    filters: bool = True  # whether training text is filtered, see `Cleaner`; False: written by hand
    valid_every: int = 0

    def files(self) -> list[RemoteFile]:
        """Returns every file once."""
        pairs = self.train + self.valid + self.test
        return list(dict.fromkeys(text.file for pair in pairs for text in pair))

    def pairs(self, name: str) -> tuple[tuple[Text, Text], ...]:
        """Returns the pairs of `Text` in which a split is found."""
        return self.train if name == "valid" and self.valid_every else getattr(self, name)

    def prepare(self, folder: FilePath, downloads: Downloads) -> dict[str, Split]:
        """Makes the files `train`, `valid` and `test` of both languages, and `report.json`.

        Files of an earlier call are used if they are complete and of the same definition.
        Raises UserError: a file cannot be downloaded, is damaged or cannot be written; the sides do
        not match; or no training pair is left.
        """
        folder = Path(folder)
        splits = {
            name: Split(*(folder / f"{name}.{language}" for language in self.languages))
            for name in SPLITS
            if self.pairs(name)
        }
        report_path = folder / "report.json"
        definition = _fingerprint(self)
        report = _read_report(report_path, definition, splits)
        if not report:
            check_writable(report_path)  # Before hours of downloading.
            downloads.fetch(self.files())
            # An old report must not describe the new files while they are written.
            report_path.unlink(missing_ok=True)
            report = {"definition": definition, "filters": self.filters}
            report |= {name: _write(self, name, s, downloads) for name, s in splits.items()}
            report["bytes"] = _sizes(splits)
            write_text(report_path, json.dumps(report, indent=2, ensure_ascii=False) + "\n")
        for name, split in splits.items():
            counts = report[name]
            lines = [
                f"{split.source} and {split.target}: {counts['kept']:,} of {counts['read']:,} pairs"
            ]
            lines += [f"  {n}: {_counts(counts[n])}" for n in ("dropped", "mended") if counts[n]]
            print("\n".join(lines), file=sys.stderr, flush=True)
        return splits


def _write(corpus, name, split, downloads):
    """Writes one split; returns its report."""
    cleaner, parts, number = Cleaner(corpus.filters), [], 0
    is_training_text = name == "train" or bool(name == "valid" and corpus.valid_every)
    with (
        atomic_path(split.source) as source_path,
        atomic_path(split.target) as target_path,
        open(source_path, "wb") as source_file,
        open(target_path, "wb") as target_file,
        Progress(f"preparing {name}", None, "pairs") as progress,
    ):
        for pair in corpus.pairs(name):
            before = cleaner.read, cleaner.kept
            sides = [(downloads.path(text.file), text.member) for text in pair]
            for whole in stream_pairs(*sides):
                block = _share(corpus, name, whole, number)
                number += len(whole[0])
                lines = cleaner.clean(*block, drops=is_training_text)
                for file, side in zip((source_file, target_file), lines, strict=True):
                    file.write("".join(f"{line}\n" for line in side).encode())
                progress.update(len(block[0]))
            counts = {"read": cleaner.read - before[0], "kept": cleaner.kept - before[1]}
            parts.append({"of": [*map(str, pair)], **counts})
        if not cleaner.kept:
            texts = ", ".join(map(str, itertools.chain(*corpus.pairs(name))))
            raise UserError(
                f"{split.source}: none of {cleaner.read:,} pairs is "
                f"left{': ' * bool(cleaner.dropped)}{_counts(cleaner.dropped)}; check the cleaning "
                f"rules of this corpus, and {texts}"
            )
    return {**cleaner.summary(), "parts": parts}


def _share(corpus, name, block, number):
    """Returns the pairs of a block, before which are `number` pairs, that belong to a split."""
    if name == "test" or not corpus.valid_every:
        return block
    numbers = range(number + 1, number + 1 + len(block[0]))
    wanted = [(i % corpus.valid_every == 0) == (name == "valid") for i in numbers]
    return tuple(list(itertools.compress(side, wanted)) for side in block)


def _fingerprint(corpus):
    """Hashes everything that determines the files of a corpus."""
    splits = [
        [[(t.file.path, t.file.checksum, t.member) for t in pair] for pair in pairs]
        for pairs in (corpus.train, corpus.valid, corpus.test)
    ]
    options = corpus.languages, corpus.filters, corpus.valid_every
    definition = json.dumps([_VERSION, options, splits])
    return hashlib.sha256(definition.encode()).hexdigest()[:32]


def _read_report(path, definition, splits):
    """Reads the report; None unless all files are complete and of this definition."""
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        if report["definition"] == definition and report["bytes"] == _sizes(splits):
            return report
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def _sizes(splits):
    return {path.name: path.stat().st_size for split in splits.values() for path in split}


def _counts(counts):
    return ", ".join(f"{count:,} {what}" for what, count in counts.items())
