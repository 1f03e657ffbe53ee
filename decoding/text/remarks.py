"""Reports what a user may not expect of translations, such as lines that were cut."""

from decoding.translator import PROBLEMS, TOO_LONG, is_unknown

_MOST_NUMBERS = 10  # Most line numbers that a remark lists.


class Remarks:
    """Counts lines that are empty, long, cut or untranslated, and notes the first of each kind.

    Args:
        max_input_tokens: see `Translator`.
        max_length: longest source sentence in training, in tokens with `</s>`.
        n_best: number of translations that were asked for.
        replaces_unknowns: whether unknown words are replaced, see `Translator`.

    Example:
        remarks = Remarks(1024, 256)
        remarks.add([[5, 6, 3]], [[translation]])
        print(*remarks, sep="\\n")
    """

    def __init__(self, max_input_tokens, max_length, n_best=1, replaces_unknowns=False):
        limit = f"{max_input_tokens:,} tokens"
        self._num_lines = 0
        # (what, condition on source ids, best and all translations, whether to list line numbers)
        self._kinds = [
            ("empty lines, left empty", lambda ids, *_: len(ids) <= 1, False),
            (
                "lines without a word that the model knows; their translations mean nothing",
                lambda ids, *_: len(ids) > 1 and not replaces_unknowns and is_unknown(ids),
                True,
            ),
            *(
                (
                    f"lines left untranslated ({_reason(problem, limit)})",
                    lambda _, best, __, problem=problem: best.problem == problem,
                    True,
                )
                for problem in PROBLEMS
            ),
            (
                f"lines of more than {limit}, translated in parts"
                + (", with one translation each" if n_best > 1 else ""),
                lambda ids, best, _: len(ids) > max_input_tokens and not best.problem,
                True,
            ),
            (
                f"lines longer than any in training ({max_length:,} tokens), translated in full "
                "but perhaps badly",
                lambda ids, best, _: max_length < len(ids) <= max_input_tokens and not best.problem,
                False,
            ),
            (
                "translations cut at their length limit (see --max_length_factor)",
                lambda _, best, __: not best.finished,
                False,
            ),
            (
                "empty translations of lines that are not empty",
                lambda ids, best, _: len(ids) > 1 and not (best.text or best.problem),
                True,
            ),
            (
                f"lines with fewer than {n_best} different translations (see --beam_size; equal "
                "draws of --sample count once)",
                lambda ids, best, found: (
                    1 < len(ids) <= max_input_tokens and not best.problem and len(found) < n_best
                ),
                True,
            ),
        ]
        self._counts = [0] * len(self._kinds)
        self._numbers = [[] for _ in self._kinds]

    def add(self, sources, results):
        """Adds the next lines of a text.

        Args:
            sources: source ids of each line, with `</s>`.
            results: for each line, a list of `Translation`, the best first.
        """
        for ids, found in zip(sources, results, strict=True):
            self._num_lines += 1
            for i, (_, holds, _) in enumerate(self._kinds):
                if holds(ids, found[0], found):
                    self._counts[i] += 1
                    if len(self._numbers[i]) < _MOST_NUMBERS:
                        self._numbers[i].append(self._num_lines)

    def __iter__(self):
        """Yields a line of text for each kind of line that occurred."""
        for (what, _, numbered), count, numbers in zip(
            self._kinds, self._counts, self._numbers, strict=True
        ):
            if count:
                which = f" ({_listed(numbers, count)})" if numbered else ""
                yield f"{what}: {count:,} of {self._num_lines:,}{which}"


def _reason(problem, limit):
    return f"{problem} of {limit}; see --long_lines" if problem == TOO_LONG else problem


def _listed(numbers, count):
    """Formats the first of `count` line numbers: `line 1`, `lines 1, 3`."""
    listed = ", ".join([f"{n:,}" for n in numbers] + ["..."] * (count > len(numbers)))
    return f"line{'s' * (count != 1)} {listed}"
