"""A text and its translation, line by line, split into the words that alignments count."""

from typing import NamedTuple

from data_pipeline.datasets import Split, read_joined, read_split
from data_pipeline.text_form import split_words


class ParallelText(NamedTuple):
    """Both sides of a text.

    Attributes:
        names: names of source and target, for errors.
        lines: (source lines, target lines), equally many.
    """

    names: tuple[str, str]
    lines: tuple[list[str], list[str]]

    @classmethod
    def read(cls, source_path, target_path=""):
        """Reads two files, or one file of lines `source ||| target` if there is no second path.

        If both paths name the same `.tsv` file, its lines are source, tab and target.

        Raises:
            UserError: as `read_split` and `read_joined`.
        """
        if target_path:
            return cls((source_path, target_path), read_split(Split(source_path, target_path)))
        return cls((source_path, source_path), read_joined(source_path))

    def swapped(self):
        """Returns the same text in the other direction."""
        return ParallelText(self.names[::-1], self.lines[::-1])

    def words(self):
        """Returns the words of every line, (source, target), as `split_words` finds them."""
        return tuple([split_words(line) for line in side] for side in self.lines)
