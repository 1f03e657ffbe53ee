"""What a model is made of, as data: a picture of its architecture is drawn from nothing else.

A model describes itself in `architecture` (see `models.base.Searchable`), from its settings and its
built layers. `describe` adds what the description leaves out, so that no weight is missing.
"""

import math
from typing import Any, NamedTuple

import keras

# Kinds of parts, each with a colour of its own in pictures.
KINDS = (
    *("input", "embedding", "attention", "recurrent", "feed-forward", "normalisation", "table"),
    *("search", "output"),
)
# Piece of the name of a layer or its class -> kind, for models that do not describe themselves.
_HINTS = {
    "norm": "normalisation",
    "attention": "attention",
    "embedding": "embedding",
    "position": "embedding",
    "rnn": "recurrent",
    "lstm": "recurrent",
    "gru": "recurrent",
    "recurrent": "recurrent",
    "output": "output",
    "table": "table",
}


class Part(NamedTuple):
    """A part of a model, such as an embedding or a layer.

    In `lines`, shapes are in brackets, with S source tokens, T target tokens, V the size of the
    vocabulary, and sizes as numbers; the axis of sentences is left out.
    """

    title: str  # Its name in the papers.
    kind: str  # One of `KINDS`; "" if `parts` have kinds of their own.
    lines: tuple[str, ...] = ()  # What it computes.
    parameters: int = 0  # Number of its parameters that no part before it has; of all repeats.
    parts: tuple["Part", ...] = ()  # What one repeat consists of, from input to output.
    repeat: int = 1  # How often `parts` follow each other.
    # It also reads what the part so many places before it read; 0: no. -1: it reads what the part
    # before it reads, and not the output of that part.
    skip: int = 0
    reads: tuple[str, ...] = ()  # Titles of parts of the source side whose output it reads.
    next_step: tuple[str, ...] = ()  # Titles of its side that read its output one position later.


class Architecture(NamedTuple):
    """The parts that read the source, and the parts that predict the target, each in order."""

    source: tuple[Part, ...]  # Empty: a single column holds all parts.
    target: tuple[Part, ...]

    @property
    def parameters(self) -> int:
        """Number of parameters of all parts, as `count_params` of the model."""
        return sum(part.parameters for part in (*self.source, *self.target))


class Counter:
    """Counts parameters of layers and variables, each variable once: shared ones count as 0."""

    def __init__(self) -> None:
        self._counted: set[int] = set()

    def __call__(self, *owners: Any) -> int:
        """Returns the number of parameters of layers, variables or None that are not counted yet.

        The shapes are enough, so weights of a `models.sketch` can be counted.
        """
        total = 0
        for owner in owners:
            for weight in getattr(owner, "weights", [] if owner is None else [owner]):
                if id(weight) not in self._counted:
                    self._counted.add(id(weight))
                    total += math.prod(weight.shape)
        return total


def describe(model: Any) -> Architecture:
    """Returns the architecture of a model, whose parts have all parameters of the model.

    Weights that `model.architecture` does not mention, such as those that a subclass adds, become a
    part of their own.
    """
    count = Counter()
    found = model.architecture(count)
    rest = count(model)
    if not rest:
        return found
    other = Part("Other weights", "feed-forward", (), rest)
    return found._replace(target=(*found.target[:-1], other, found.target[-1]))


def of_layers(model: Any, count: Counter) -> Architecture:
    """Describes a model by its Keras layers, in the order in which they were made."""
    parts = [
        Part(_title(layer.name), _kind(layer), _shapes(layer), count(layer))
        for layer in model.layers
        if layer.weights
    ]
    source = ("source words [S]",) if model.reads_source else ()
    words = Part("Words", "input", (*source, "target words so far [T]"))
    return Architecture((), (words, *parts, softmax()))


def source_words(*lines: str) -> Part:
    """Returns the input of the source side."""
    return Part("Source words", "input", ("f [S], the last one is </s>", *lines))


def target_words(*lines: str) -> Part:
    """Returns the input of the target side: the translation, shifted right by `<s>`."""
    return Part("Target words so far", "input", ("<s>, e [T], shifted right", *lines))


def softmax(condition: str = "e_<t, f") -> Part:
    """Returns the prediction of the next word, which the loss compares with the text."""
    lines = (f"P(e_t | {condition}): [T, V]", "loss: cross-entropy")
    return Part("Softmax", "output", lines)


def _title(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _kind(layer: keras.layers.Layer) -> str:
    name = f"{layer.name} {type(layer).__name__}".lower()
    return next((kind for hint, kind in _HINTS.items() if hint in name), "feed-forward")


def _shapes(layer: keras.layers.Layer) -> tuple[str, ...]:
    """Returns the class of a layer, and the names and shapes of its first weights."""
    shapes = [f"{weight.name} {list(weight.shape)}" for weight in layer.weights]
    more = (f"and {len(shapes) - 4} more",) if len(shapes) > 4 else ()
    return (type(layer).__name__, *shapes[:4], *more)
