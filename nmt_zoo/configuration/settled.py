"""Values by name, and where each of them comes from."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

# Sources, from the weakest to the strongest, in the words of train.py --dry_run.
DEFAULT = "default"
MODEL = "model"
CORPUS = "corpus"
BOTH = "model on this corpus"
SIZE = "size of the text"
WAY = "way of training"
ORIGIN = "model that it starts or learns from"
BEGUN = "beginning of the run"
FLAG = "flag"
FOLLOWS = "other options"
TIMING = "text and speed of this machine"


class Layer(NamedTuple):
    """Values that one source gives."""

    source: str
    values: Mapping[str, Any]


class Settled(Mapping):
    """Values by name; of several layers that have a name, the last one gives its value.

    Example:
        >>> options = Settled(Layer(DEFAULT, {"seed": 1, "patience": 10}), Layer(FLAG, {"seed": 2}))
        >>> options["seed"], options.source("seed"), options.chosen_by(DEFAULT)
        (2, 'flag', {'patience': 10})
    """

    def __init__(self, *layers: Layer):
        self.layers = layers
        self._found = {name: layer for layer in layers for name in layer.values}

    def __getitem__(self, name: str) -> Any:
        return self._found[name].values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def source(self, name: str) -> str:
        """Returns the source of a value."""
        return self._found[name].source

    def chosen_by(self, *sources: str) -> dict[str, Any]:
        """Returns name -> value of all that these sources give."""
        return {name: value for name, value in self.items() if self.source(name) in sources}

    def beyond(self, source: str) -> dict[str, Any]:
        """Returns name -> value of all that another source than this one gives."""
        return {name: value for name, value in self.items() if self.source(name) != source}

    def over(self, source: str, values: Mapping[str, Any]) -> "Settled":
        """Returns the same with one more layer, the strongest."""
        return Settled(*self.layers, Layer(source, values))

    def of(self, source: str) -> dict[str, Any]:
        """Returns name -> value of a source's layers, although stronger ones may have others."""
        layers = (layer.values for layer in self.layers if layer.source == source)
        return {name: value for values in layers for name, value in values.items()}

    def changed(self, source: str) -> dict[str, tuple[Any, Any]]:
        """Returns name -> (value before, value) of what a source's layer changes."""
        number = [layer.source for layer in self.layers].index(source)
        before, values = Settled(*self.layers[:number]), self.layers[number].values
        return {
            name: (before[name], value) for name, value in values.items() if before[name] != value
        }

    def table(self, title: str) -> Iterator[str]:
        """Yields a line for each name, with its value and source, under a heading."""
        rows = [(title, "value", "from"), *((n, str(v), self.source(n)) for n, v in self.items())]
        widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
        for name, value, source in rows:
            yield f"{name:{widths[0]}}  {value:{widths[1]}}  {source}"
