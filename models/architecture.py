"""A model's description of itself: a picture of its architecture is drawn from nothing else."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple


class Part(NamedTuple):
    """A part of a model, such as an embedding or a stack of layers.

    A model names title, kind, lines and layers; `describe` adds the shapes and the parameters.
    """

    title: str  # Its name in the papers.
    kind: str  # "input", "embedding", "attention", "recurrent", "layer", "table" or "output".
    lines: tuple[str, ...] = ()  # What it computes.
    layers: Sequence[Any] = ()  # Layers, weights or None.
    frame: str = ""  # Title of a frame around neighbouring parts, such as the layers of a stack.
    reads_source: bool = False  # Whether it also reads the output of the source side.
    parameters: int = 0


class Architecture(NamedTuple):
    """The parts that read the source, and the parts that predict the target, each in order.

    Parts without lines and layers are left out of pictures.
    """

    source: Sequence[Part]  # Empty: a single column holds all parts.
    target: Sequence[Part]

    @property
    def parameters(self) -> int:
        """Number of parameters of all parts, as `count_params` of the model."""
        return sum(part.parameters for part in (*self.source, *self.target))


SOURCE_WORDS = Part("Source words", "input", ("f_1 ... f_S, the last one is </s>",))
TARGET_WORDS = Part("Target words so far", "input", ("<s> e_1 ... e_T-1",))
SOFTMAX = Part("Softmax", "output", ("P(e_t | e_<t, f)",))


def describe(model: Any) -> Architecture:
    """Completes `model.architecture()` by shapes and numbers of parameters.

    Weights that two parts share count where they come first. Weights that no part has, such as
    those that a subclass adds, become a part of their own. The shapes are enough, so the weights of
    a `models.sketch` can be counted.
    """
    counted = set()

    def complete(part):
        layers = [layer for layer in part.layers if layer is not None]
        every = [weight for layer in layers for weight in getattr(layer, "weights", [layer])]
        weights = {id(weight): weight for weight in every if id(weight) not in counted}
        counted.update(weights)
        parameters = sum(math.prod(weight.shape) for weight in weights.values())
        shared = ("the weights of another part",) if every and not weights else ()
        lines = *part.lines, *_shapes(weights.values()), *shared
        return part._replace(lines=lines, parameters=parameters)

    source, target = ([complete(part) for part in side] for side in model.architecture())
    rest = complete(Part("Other weights", "layer", (), (model,)))
    if rest.parameters:
        target.insert(-1, rest)
    return Architecture(*([part for part in side if part.lines] for side in (source, target)))


def layers_of(model: Any) -> Architecture:
    """Describes a model by its Keras layers, in the order in which they were made."""
    titles = [layer.name.replace("_", " ").capitalize() for layer in model.layers]
    parts = [Part(t, "layer", (), (layer,)) for t, layer in zip(titles, model.layers, strict=True)]
    words = [SOURCE_WORDS] * model.reads_source
    return Architecture((), (*words, TARGET_WORDS, *parts, SOFTMAX))


def _shapes(weights: Iterable[Any]) -> list[str]:
    """Returns a line for each shape, with the names of the weights that have it.

    Vectors are left out beside matrices, and repeated names, as of the layers of a stack.
    """
    weights = list(weights)
    least = min(2, max((len(weight.shape) for weight in weights), default=0))
    names = {}
    for weight in weights:
        if len(weight.shape) >= least:
            *_, layer, name = ["", *weight.path.split("/")]
            name = layer if name in ("kernel", "embeddings") else name
            shape = ", ".join(f"{size:,}" for size in weight.shape)
            names.setdefault(f"[{shape}]", {})[name.replace("_", " ")] = None
    return [f"{', '.join(owners)} {shape}" for shape, owners in names.items()]
