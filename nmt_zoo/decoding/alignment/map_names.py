"""Names of attention maps: "decoder/0/cross", "encoder/0/self" and "decoder/0/self"."""

import re
from collections.abc import Iterable

_PATTERNS = {
    "cross": r"decoder/(\d+)/cross",
    "encoder": r"encoder/(\d+)/self",
    "decoder": r"decoder/(\d+)/self",
}
KINDS = tuple(_PATTERNS)  # Attention to the source, and self-attention of the two sides.


def layer_names(maps: Iterable[str], kind: str) -> dict[int, str]:
    """Returns the names of the maps of one kind by the number of their layer, from 1, in order."""
    matches = [re.fullmatch(_PATTERNS[kind], name) for name in maps]
    return dict(sorted((int(match[1]) + 1, match[0]) for match in matches if match))


def kind_and_layer(name: str) -> tuple[str, int]:
    """Returns the kind of a map, and its layer counted from 1."""
    ((kind, layers),) = ((k, layer_names([name], k)) for k in KINDS if layer_names([name], k))
    return kind, next(iter(layers))
