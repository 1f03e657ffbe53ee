"""Summaries of attention heads as a table of text and as records for JSON."""

import itertools
from collections.abc import Sequence
from typing import Any

from nmt_zoo.decoding.alignment.head_summaries import KINDS, Head, Summary


def table_of(heads: Sequence[Head]) -> list[str]:
    """Returns the lines of a text table of `Head`s, which names the best head if AER is known."""
    lines = []
    for kind, group in itertools.groupby(heads, key=lambda head: head.kind):
        group = list(group)
        mark = "<s>" if kind == "decoder" else "</s>"
        columns = ["layer", "head", "entropy", "distance", f"on {mark}"]
        scored = group[0].score is not None
        columns += ["AER", "precision", "recall"] if scored else []
        lines += [KINDS[kind], "  ".join(f"{name:>9}" for name in columns)]
        for head in group:
            values = (head.entropy, head.distance, head.share, *(head.score or ()))
            shown = [str(head.layer), str(head.head), *(f"{value:.4f}" for value in values)]
            lines.append("  ".join(f"{value:>9}" for value in shown))
    best = best_of(heads)
    if best:
        name = best.head if best.head == "mean" else f"head {best.head}"
        lines.append(f"aligns best: layer {best.layer}, {name} (AER {best.score.aer:.4f})")
    return lines


def best_of(heads: Sequence[Head]) -> Head | None:
    """Returns the first `Head` of lowest AER, or None if no head has one."""
    scored = [head for head in heads if head.score]
    return min(scored, key=lambda head: head.score.aer, default=None)


def record_of(summary: Summary) -> dict[str, Any]:
    """Returns a `Summary` as a dict for JSON."""
    heads = [head._asdict() for head in summary.heads]
    for head in heads:
        head["score"] = head["score"] and _rounded(head["score"]._asdict())
    return {"sentences": summary.pairs, "heads": [_rounded(head) for head in heads]}


def _rounded(values):
    return {k: round(v, 6) if isinstance(v, float) else v for k, v in values.items()}
