"""Descriptions of layers, of which models describe themselves; see `models.architecture`."""

from typing import Any

from nmt_zoo.models.architecture import Counter, Part

_CELLS = {
    "RNNCell": ("RNN", "h = tanh(A h' + B x + c)"),
    "ReLUCell": ("ReLU RNN", "h = max(0, A h' + B x + c)"),
    "GRUCell": ("GRU", "3 × {units}: gates r, z; n"),
    "LSTMCell": ("LSTM", "4 × {units}: gates i, f, o; g"),
}
_SCORES = {
    "dot": "score hᵀ m",
    "multiplicative": "score hᵀ W m",
    "reduced_rank": "score (U h)ᵀ (V m), k = {rank}",
    "additive": "score vᵀ tanh(W h + U m)",
}


def embedding(title: str, layer: Any, count: Counter, axis: str, *lines: str) -> Part:
    """Describes an embedding whose table is `[V, D]`; `axis` is the letter of the positions."""
    size, width = layer.weights[0].shape
    parameters = count(layer)
    shared = () if parameters else ("the same matrix as for the source",)
    shapes = (f"[V = {size:,}, {width}] → [{axis}, {width}]", *lines, *shared)
    return Part(title, "embedding", shapes, parameters)


def multi_head(title: str, layer: Any, count: Counter, *lines: str, **links: Any) -> Part:
    """Describes a `MultiHeadAttention`; `links` are fields of the part."""
    size = layer.width // layer.num_heads
    heads = f"{layer.num_heads} head{'s' if layer.num_heads > 1 else ''} of {size}"
    scores = f"softmax(Q Kᵀ / √{size}) V" if layer.attention.scaled else "softmax(Q Kᵀ) V"
    positions = {
        "relative": (f"relative positions up to {layer.max_distance}",),
        "rotary": ("rotary positions: Q, K turned",),
    }.get(layer.positions, ())
    shown = (*lines, heads, scores, *positions, f"joined, W_O: [{layer.width}, {layer.width}]")
    return Part(title, "attention", shown, count(layer), **links)


def feed_forward(layer: Any, count: Counter) -> Part:
    """Describes a `FeedForward`."""
    activation = layer.inner.activation
    name = getattr(activation, "func", activation).__name__.replace("silu", "swish")
    shown = (f"W₂ {name}(W₁ x + b₁) + b₂", f"{layer.width} → {layer.ffn_width} → {layer.width}")
    return Part("Feed-forward", "feed-forward", shown, count(layer))


def residual(layer: Any, inner: Part, count: Counter) -> tuple[Part, ...]:
    """Describes a `Residual` around a sub-layer, with its normalisation where it is computed."""
    if layer.pre_norm:
        norm = Part("Layer normalisation", "normalisation", (), count(layer.norm))
        return norm, inner, Part("Add", "normalisation", skip=2)
    title = "Add & Norm"
    return inner, Part(title, "normalisation", (), count(layer.norm), skip=1)


def encoder_layer(layer: Any) -> tuple[Part, ...]:
    """Describes the parts of an `EncoderLayer`."""
    count, d = Counter(), layer.self_attention.width
    inner = multi_head(
        "Self-attention", layer.self_attention, count, f"Q, K, V from below: [S, {d}]"
    )
    return (
        *residual(layer.around_attention, inner, count),
        *residual(layer.around_feed_forward, feed_forward(layer.feed_forward, count), count),
    )


def decoder_layer(layer: Any, memory: str) -> tuple[Part, ...]:
    """Describes the parts of a `DecoderLayer`; `memory` is the title of the end of the encoder."""
    count, d = Counter(), layer.self_attention.width
    lines = f"Q, K, V from below: [T, {d}]", "mask: no later words"
    inner = multi_head("Masked self-attention", layer.self_attention, count, *lines)
    lines = f"Q from below: [T, {d}]", f"K, V of encoder: [S, {d}]"
    cross = multi_head("Cross-attention", layer.cross_attention, count, *lines, reads=(memory,))
    return (
        *residual(layer.around_self, inner, count),
        *residual(layer.around_cross, cross, count),
        *residual(layer.around_feed_forward, feed_forward(layer.feed_forward, count), count),
    )


def last_norm(layer: Any, name: str, count: Counter) -> tuple[Part, ...]:
    """Describes the normalisation after what is called `name`; empty if the layer is None."""
    if layer is None:
        return ()
    return (Part(f"{name} normalisation", "normalisation", (), count(layer)),)


def output(layer: Any, count: Counter, *lines: str) -> Part:
    """Describes a dense output layer of logits."""
    width, size = layer.kernel.shape
    bias = " + b" if layer.use_bias else ""
    shown = (f"W o{bias}, W: [{width}, V = {size:,}]", *lines)
    return Part("Output layer", "output", shown, count(layer))


def stack(title: str, layers: Any, inner: tuple[Part, ...], count: Counter) -> Part:
    """Describes layers of one shape that follow each other; `inner` are the parts of one."""
    distinct = list(dict.fromkeys(layers))
    lines = ()
    if len(distinct) < len(layers):
        order = " ".join(str(distinct.index(layer)) for layer in layers)
        lines = (f"{len(distinct)} set{'s' * (len(distinct) > 1)} of weights: {order}",)
    return Part(title, "", lines, count(*layers), inner, len(layers))


def source_attention(title: str, layer: Any, count: Counter, *lines: str, **links: Any) -> Part:
    """Describes a `SourceAttention`, which has one head; `links` are fields of the part."""
    score = _SCORES[layer.score].format(rank=layer.rank or layer.query_width)
    shown = (*lines, score, f"a = softmax, c = Σ a {'W m' if layer.value else 'm'}")
    return Part(title, "attention", shown, count(layer), **links)


def recurrent_title(layer: Any, number: str) -> str:
    """Returns the title of a recurrent layer; `number` is its end."""
    both = hasattr(layer, "backward")
    cell = (layer.forward if both else layer).cell
    return f"{'Bidirectional ' if both else ''}{_CELLS[type(cell).__name__][0]}{number}"


def recurrent(
    layer: Any, number: str, axis: str, count: Counter, *lines: str, **links: Any
) -> Part:
    """Describes a `RecurrentLayer` or `BidirectionalLayer`; `number` is part of the title."""
    both = hasattr(layer, "backward")
    cell = (layer.forward if both else layer).cell
    equation = _CELLS[type(cell).__name__][1]
    title = recurrent_title(layer, number)
    units = f"{cell.units} + {cell.units} units" if both else f"{cell.units} units"
    width = cell.units * (2 if both else 1)
    fed = f"fed {cell.fed_width} + " if cell.fed_width else ""
    sizes = f"x {cell.input_width} + {fed}h {cell.units}"
    parameters = count(layer)
    shared = () if parameters else ("the same weights as for the source",)
    shape = f"{units}: [{axis}, {width}]"
    shown = (*lines, shape, equation.format(units=cell.units), sizes, *shared)
    links = {"next_step": (title,), **links}
    return Part(title, "recurrent", shown, parameters, **links)
