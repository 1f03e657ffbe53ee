"""Names of attention maps: "decoder/0/cross", "encoder/0/self" and "decoder/0/self"; or "links"."""

import re
from collections.abc import Iterable

KINDS = {
    "encoder": "self-attention of the encoder",
    "decoder": "self-attention of the decoder",
    "cross": "attention to the source",
}


def layers_by_kind(maps: Iterable[str]) -> dict[str, dict[int, str]]:
    """Returns kind -> number of the layer, from 1 -> name of its map; both in rising order.

    Maps without attention, such as "links" and "phrases", count as layers of "cross".
    """
    layers = {kind: {} for kind in KINDS}
    for name in maps:
        if "/" not in name:
            layers["cross"][len(layers["cross"]) + 1] = name
        elif match := re.fullmatch(r"(encoder|decoder)/(\d+)/(self|cross)", name):
            kind = "cross" if match[3] == "cross" else match[1]
            layers[kind][int(match[2]) + 1] = name
    return {kind: dict(sorted(names.items())) for kind, names in layers.items() if names}
