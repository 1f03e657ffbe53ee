"""Where the value of each training option and model setting comes from, in one order.

The strongest source comes last: default, model, corpus or else the size of the text, way of
training, model of --init_from or --teacher, beginning of a resumed run, flags.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from nmt_zoo import models
from nmt_zoo.configuration import recipes
from nmt_zoo.configuration.options import AUTO, BY_NAME, DEFAULTS
from nmt_zoo.data_pipeline.noise import NONE

Values = Mapping[str, Any]
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


def way_of(model: str, given: Values) -> str:
    """Returns the name of the way of training, from the given options or else the model's."""
    of_model = recipes.BY_MODEL.get(model, {})
    return given.get("update", of_model.get("update", DEFAULTS["update"]))


def options_of(
    model: str,
    dataset: str,
    given: Values,
    *,
    size: recipes.TextSize | None = None,
    origin: Values | None = None,
    replicas: int | None = 1,
) -> Settled:
    """Settles the training options of a new run: a value for every entry of `DEFAULTS`.

    `dataset` is the name of a corpus, or "files"; `given` is what the user gave. `size` is None for
    a corpus with a recipe, or if it is to choose nothing. `origin` has the options that the model
    of --init_from or --teacher fixes. `replicas` is as `recipes.options_of_size`.
    """
    origin = origin or {}
    fixed = {**origin, **given}
    of_model, way = recipes.BY_MODEL.get(model, {}), way_of(model, given)
    of_corpus = recipes.BY_DATASET.get(dataset, {})
    if of_model.get("max_words") == 0:  # The model holds every word, whatever the corpus advises.
        of_corpus = {n: v for n, v in of_corpus.items() if n != "max_words"}
    of_text = [
        Layer(CORPUS, of_corpus),
        Layer(BOTH, recipes.BY_MODEL_AND_DATASET.get((model, dataset), {})),
    ]
    if size:
        of_text = [Layer(SIZE, recipes.options_of_size(model, size, fixed, replicas))]
    of_way = {
        **recipes.BY_WAY.get(way, {}),
        **recipes.BY_MODEL_AND_WAY.get((model, way), {}),
        "noise": of_model.get("noise", _noise(model, way, {**DEFAULTS, **of_model, **fixed})),
    }
    below = [Layer(DEFAULT, DEFAULTS), Layer(MODEL, of_model), *of_text, Layer(WAY, of_way)]
    return _completed(Settled(*below, Layer(ORIGIN, origin), Layer(FLAG, given)))


def options_of_resumed(model: str, given: Values, begun: Values) -> Settled:
    """Settles the training options of a resumed run: those of its beginning, unless a flag differs.

    `given` is what the user gives now, `begun` are the options in config.json.
    """
    below = options_of(model, "files", {n: begun[n] for n in ("update",) if n in begun})
    options = Settled(*(x for x in below.layers if x.source != FLAG), Layer(BEGUN, begun))
    given = {n: v for n, v in given.items() if v != AUTO}  # The run has chosen already.
    if "max_length" in given:
        given["max_length"] = min(given["max_length"], options["max_tokens_per_batch"])
    return _completed(options.over(FLAG, given))


def settings_of(
    model: str,
    dataset: str,
    given: Values,
    options: Values,
    *,
    size: recipes.TextSize | None = None,
    origin: Values | None = None,
) -> Settled:
    """Settles the settings of a new run's model.

    Arguments are as in `options_of`, but `given` and `origin` are settings (of the user, and of
    --init_from's model), and `options` are the settled training options.
    """
    valid = models.preset_settings(model)
    if size:
        of_size = recipes.settings_of_size(model, size.tokens, options["max_minutes"])
        of_text = [Layer(SIZE, of_size)]
    else:
        of_both = recipes.MODEL_SETTINGS_BY_MODEL_AND_DATASET.get((model, dataset), {})
        of_corpus = recipes.MODEL_SETTINGS_BY_DATASET.get(dataset, {})
        of_text = [Layer(CORPUS, of_corpus), Layer(BOTH, of_both)]
    of_text = [Layer(source, {n: v for n, v in x.items() if n in valid}) for source, x in of_text]
    if options["init_from"]:  # Weights suit the other settings they were trained with.
        of_text = [
            Layer(source, {n: v for n, v in x.items() if "dropout" in n}) for source, x in of_text
        ]
    below = [Layer(MODEL, valid), Layer(FOLLOWS, _settings_for(valid, options))]
    return Settled(*below, Layer(ORIGIN, origin or {}), *of_text, Layer(FLAG, given))


def _noise(model, way, options):
    """Returns the noise of the training pairs; ready pieces may lack bytes for strings to copy."""
    makes_pieces = options["tokenizer"] == "bpe" and not options["vocab_file"]
    by_gradient = way == "gradient" and models.model_class(model).predicts != "scores"
    return recipes.NOISE if makes_pieces and by_gradient else NONE


def _settings_for(valid, options):
    """Returns name -> value of the settings that follow from the training options."""
    settings = {}
    if options["tokenizer"] == "word" and valid.get("tie_embeddings") == "all":
        settings["tie_embeddings"] = "target"  # The two sides do not share a vocabulary.
    if options["guide"] and "alignment_head" in valid:
        settings["alignment_head"] = "first"  # The others stay free to attend to other words.
    return settings


def _completed(options):
    """Adds the options whose values follow from others.

    Decaying schedules store `decay_steps`, so that the learning rate does not change when a run is
    resumed with more --max_steps. A run without --max_steps ends where its learning rate is 0.
    """
    values = {}
    if options["max_length"] > options["max_tokens_per_batch"]:
        values["max_length"] = options["max_tokens_per_batch"]
    if BY_NAME["decay_steps"].applies(options):
        values["decay_steps"] = options["decay_steps"] or options["max_steps"]
        values["max_steps"] = options["max_steps"] or values["decay_steps"]
    changed = {n: v for n, v in values.items() if v != options[n]}
    return options.over(FOLLOWS, changed) if changed else options
