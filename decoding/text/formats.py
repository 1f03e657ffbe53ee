"""Formats translations as lines of text."""

import json
import math


def plain_lines(window, results):
    """One line for each translation: its text alone."""
    return [best.text for best, *_ in results]


def tagged_lines(tag):
    """Returns a function as `plain_lines` that writes a tag before each text that is not empty.

    Empty lines stay empty, so that training leaves their pairs out.
    """
    return lambda window, results: [best.text and f"{tag} {best.text}" for best, *_ in results]


def scored_lines(window, results):
    r"""Lines `score \t translation`."""
    return [f"{best.score:.4f}\t{best.text}" for best, *_ in results]


def log_prob_lines(window, results):
    """One line for each translation: its log-probability alone."""
    return [f"{best.log_prob:.4f}" for best, *_ in results]


def n_best_lines(window, results):
    """Lines `line ||| translation ||| score`, lines counted from 0; several for each line."""
    return [
        f"{number} ||| {translation.text} ||| {translation.score:.4f}"
        for number, found in enumerate(results, start=window[0])
        for translation in found
    ]


class JsonLines:
    """One JSON object for each line, with everything that is known about its translations.

    Args:
        tokenizer: `Tokenizer` of the model.
        n_best: whether each object lists all translations of its line.
        aligner: `decoding.alignment.aligner.Aligner` for links between words, or None.

    Example:
        >>> JsonLines(tokenizer)((0, ["ein Haus"]), results)
        ['{"source": "ein Haus", "translation": "a house", "score": -0.1, ...}']
    """

    def __init__(self, tokenizer, n_best=False, aligner=None):
        self.tokenizer = tokenizer
        self.n_best = n_best
        self.aligner = aligner

    def __call__(self, window, results):
        """Formats the results of a window, see `plain_lines`."""
        _, lines = window
        links = [None] * len(lines)
        if self.aligner:
            links = self.aligner.links(lines, [best.text for best, *_ in results])
        return [
            json.dumps(self._record(*line), ensure_ascii=False, allow_nan=False)
            for line in zip(lines, results, links, strict=True)
        ]

    def _record(self, source, found, links):
        record = {"source": source, **self._values(found[0])}
        if links is not None:
            record["alignment"] = links
        if self.n_best:
            record["n_best"] = [self._values(translation) for translation in found]
        if found[0].problem:
            record["problem"] = found[0].problem
        return record

    def _values(self, translation):
        return {
            "translation": translation.text,
            "score": _finite(translation.score),
            "log_prob": _finite(translation.log_prob),
            "finished": translation.finished,
            "tokens": self.tokenizer.target.pieces(translation.ids),
        }


def _finite(number):
    """Returns None for infinity, which JSON does not have."""
    return number if math.isfinite(number) else None
