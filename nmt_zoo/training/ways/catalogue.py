"""Lists the ways of training by name, and chooses the one of a model."""

from nmt_zoo import models
from nmt_zoo.common.errors import UserError
from nmt_zoo.configuration import rules
from nmt_zoo.configuration.options import AUTO, OPTIONS
from nmt_zoo.training.ways.base import Names, Options, WayOfTraining
from nmt_zoo.training.ways.counting.counting_update import Counting
from nmt_zoo.training.ways.expectation_maximisation.em_update import ExpectationMaximisation
from nmt_zoo.training.ways.gradient.gradient import Gradient
from nmt_zoo.training.ways.phrases.tuning_update import Tuning

WAYS = {way.name: way for way in (Gradient, ExpectationMaximisation, Counting, Tuning)}


def ways_of(preset: str) -> tuple[str, ...]:
    """Returns the names of the ways in which the model of a preset can be trained."""
    others = (name for name, way in WAYS.items() if preset in way.trains)
    return (*models.model_class(preset).trained_by, *others)


def way_of(preset: str, options: Options) -> type[WayOfTraining]:
    """Returns the `WayOfTraining` that trains a model.

    Raises:
        UserError: the model cannot be trained in the way that the option `update` names.
    """
    name, ways = options["update"], ways_of(preset)
    if name not in ways:
        others = [other for other in models.PRESETS if name in ways_of(other)]
        raise UserError(
            f"--update={name}: {preset} is trained by {' or '.join(ways)}; models trained by "
            f"{name}: " + ", ".join(others)
        )
    return WAYS[name]


def check_options(preset: str, options: Options, given: Options, undecided: Names = ()) -> None:
    """Raises `UserError` if training options contradict each other, or suit another way only.

    Arguments are as in `WayOfTraining.check`.
    """
    way = way_of(preset, options)
    way.check(preset, options, given, undecided)
    unread = [n for other in WAYS.values() for n in other.options if n not in way.options]
    for name in filter(given.get, unread):
        if given[name] == AUTO:
            continue  # A choice of its own suits every way of training.
        raise UserError(
            f"--{name}={options[name]}: not with --model={preset} --update={way.name}; leave it out"
        )
    rules.check(OPTIONS, options, given)
