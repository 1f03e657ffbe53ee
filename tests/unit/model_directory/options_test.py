"""The table of training options agrees with the code that the options choose from."""

import pytest

from nmt_zoo.configuration import recipes
from nmt_zoo.configuration.options import (
    BY_NAME,
    OPTIONS,
)
from nmt_zoo.configuration.resolver import options_of
from nmt_zoo.models import preset_names
from nmt_zoo.training.validation.evaluation import CRITERIA
from nmt_zoo.training.ways.gradient.precision import PRECISIONS
from nmt_zoo.training.ways.gradient.schedules import SCHEDULES


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("schedule", SCHEDULES),
        ("precision", PRECISIONS),
        ("keep_best_by", CRITERIA),
    ],
)
def test_choices_are_those_that_the_training_knows(name, known):
    assert list(BY_NAME[name].choices) == list(known)


def test_every_default_and_every_recipe_is_in_the_range_of_its_option():
    assert len(BY_NAME) == len(OPTIONS)
    for preset in preset_names():
        for dataset in ("files", *recipes.BY_DATASET):
            for name, value in options_of(preset, dataset, {}).items():
                assert BY_NAME[name].takes(value), (preset, dataset, name, value)
