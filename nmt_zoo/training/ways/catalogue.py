"""Lists the ways of training, and the ways that suit each model."""

from collections.abc import Iterable

from nmt_zoo import models
from nmt_zoo.common.errors import UserError
from nmt_zoo.configuration import rules
from nmt_zoo.configuration.options import AUTO
from nmt_zoo.models.fertility import FertilityModel
from nmt_zoo.models.ibm import AlignmentModel
from nmt_zoo.models.ngram import NgramLanguageModel
from nmt_zoo.models.phrases.table_model import TableModel
from nmt_zoo.training.ways.counting.counting_update import Counting
from nmt_zoo.training.ways.expectation_maximisation.em_update import ExpectationMaximisation
from nmt_zoo.training.ways.gradient.gradient import Gradient
from nmt_zoo.training.ways.phrases.tuning_update import Tuning
from nmt_zoo.training.ways.update import Options, WayOfTraining

UPDATES = {way.name: way for way in (Gradient, ExpectationMaximisation, Counting, Tuning)}

# Class of models -> names of their ways of training; the first class that a model belongs to
# decides. All other models train by gradient only.
_WAYS = {
    FertilityModel: ("em",),
    AlignmentModel: ("em", "gradient"),
    NgramLanguageModel: ("counting",),
    TableModel: ("tuning",),
}
# Name of a model -> names of further ways of training, which `nmt_zoo.register` adds.
OWN_WAYS: dict[str, list[str]] = {}


def ways_of(preset: str) -> tuple[str, ...]:
    """Returns the names of the ways in which the model of a preset can be trained."""
    model_class = models.model_class(preset)
    found = (names for base, names in _WAYS.items() if issubclass(model_class, base))
    return (*next(found, ("gradient",)), *OWN_WAYS.get(preset, ()))


def update_of(preset: str, options: Options) -> type[WayOfTraining]:
    """Returns the `WayOfTraining` that trains a model.

    Raises:
        UserError: the model cannot be trained in the way that the option `update` names.
    """
    name, ways = options["update"], ways_of(preset)
    if name not in ways:
        others = [other for other in models.preset_names() if name in ways_of(other)]
        raise UserError(
            f"--update={name}: {preset} is trained by {' or '.join(ways)}; models trained by "
            f"{name}: " + ", ".join(others)
        )
    return UPDATES[name]


def check_options(
    preset: str, options: Options, given: Options, undecided: Iterable[str] = ()
) -> None:
    """Raises `UserError` if training options contradict each other, or suit another way only.

    Arguments are as in `WayOfTraining.check`.
    """
    update = update_of(preset, options)
    update.check(preset, options, given, undecided)
    unread = [n for other in UPDATES.values() if other is not update for n in other.options]
    for name in filter(given.get, unread):
        if given[name] == AUTO:
            continue  # A choice of its own suits every way of training.
        raise UserError(
            f"--{name}={options[name]}: not with --model={preset} --update={update.name}; leave it "
            "out"
        )
    rules.check("train", options, given)
