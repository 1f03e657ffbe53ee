"""Reports what a user may not expect of translations, such as lines that were cut."""

import itertools

from decoding.translator import PROBLEMS, TOO_LONG


def remarks(results, lengths, max_input_tokens, max_length):
    """Counts lines that are empty, long, cut or untranslated; gives the numbers of lines to check.

    Args:
        results: for each line, a list of `Translation`, the best first.
        lengths: source tokens of each line, with `</s>`.
        max_input_tokens: see `Translator`.
        max_length: longest source sentence in training, in tokens with `</s>`.

    Returns:
        list of str.
    """
    lines = [(length, found[0]) for length, found in zip(lengths, results, strict=True)]
    limit = f"{max_input_tokens:,} tokens"

    def remark(what, holds, numbered=True):
        numbers = [n for n, (length, best) in enumerate(lines, start=1) if holds(length, best)]
        if numbers:
            which = f" ({_listed(numbers)})" if numbered else ""
            yield f"{what}: {len(numbers):,} of {len(lines):,}{which}"

    def untranslated(problem):
        reason = f"{problem} of {limit}; see --long_lines" if problem == TOO_LONG else problem
        yield from remark(
            f"lines left untranslated ({reason})", lambda _, best: best.problem == problem
        )

    return [
        *remark("empty lines, left empty", lambda length, _: length <= 1, numbered=False),
        *itertools.chain.from_iterable(map(untranslated, PROBLEMS)),
        *remark(
            f"lines of more than {limit}, translated in parts",
            lambda length, best: length > max_input_tokens and not best.problem,
        ),
        *remark(
            f"lines longer than any in training ({max_length:,} tokens), translated in full but "
            "perhaps badly",
            lambda length, _: max_length < length <= max_input_tokens,
            numbered=False,
        ),
        *remark(
            "translations cut at their length limit (twice the tokens of the source, plus 20)",
            lambda _, best: not best.finished,
            numbered=False,
        ),
        *remark(
            "empty translations of lines that are not empty",
            lambda length, best: length > 1 and not (best.text or best.problem),
        ),
    ]


def _listed(numbers, most=10):
    """Formats line numbers: `line 1`, `lines 1, 3`; shows at most the first `most` numbers."""
    listed = ", ".join([f"{n:,}" for n in numbers[:most]] + ["..."] * (len(numbers) > most))
    return f"line{'s' * (len(numbers) != 1)} {listed}"
