"""A text and its translation, line by line."""

from collections.abc import Iterable
from typing import NamedTuple

from nmt_zoo.data_pipeline.lines import open_joined, open_split


class ParallelText(NamedTuple):
    names: tuple[str, str]  # Names of source and target, for errors.
    # (source lines, target lines), equally many; lists, or files that are read again.
    lines: tuple[Iterable[str], Iterable[str]]

    @classmethod
    def read(cls, source_path: str, target_path: str = "") -> "ParallelText":
        """Reads two files, or one file of lines `source ||| target` if there is no second path.

        If both paths name the same `.tsv` file, its lines are source, tab and target.
        Raises UserError as `open_split` and `open_joined`.
        """
        if target_path:
            return cls((source_path, target_path), open_split((source_path, target_path)))
        return cls((source_path, source_path), open_joined(source_path))

    def swapped(self) -> "ParallelText":
        """Returns the same text in the other direction."""
        return ParallelText(self.names[::-1], self.lines[::-1])
