"""Adds models, ways of training, options, datasets and decoding rules without a fork."""

import functools
from typing import Any

from nmt_zoo.common.errors import UserError
from nmt_zoo.configuration import recipes
from nmt_zoo.configuration.options import BY_NAME, Option, add_option

_OWN: set[tuple[str, str]] = set()  # (Kind, name) of what was added, which may be replaced.


def register(
    thing: Any = None,
    *,
    name: str = "",
    settings: dict[str, Any] | None = None,
    options: dict[str, Any] | None = None,
) -> Any:
    """Makes something of your own known to the zoo. Also a decorator of classes. Returns `thing`.

    Args:
        thing: a subclass of `TranslationModel`, of `WayOfTraining` or of `DecodingRule`; an
            `Option`; or a `Corpus` or `Included` dataset. Without it, a decorator is returned.
        name: its name; "": that of the class, way of training or option. A dataset needs one.
        settings: of a model: name -> value, where they differ from its constructor's.
        options: of a model: name -> value of training options, where other defaults suit it.

    Raises UserError: the zoo has another thing of this name, or has no use for such a thing.

    Example:
        @nmt_zoo.register(options={"learning_rate": 3e-3})
        class MyModel(TranslationModel): ...
    """
    if thing is None:
        return functools.partial(register, name=name, settings=settings, options=options)
    kind, table = _kind_of(thing)
    name = name or str(getattr(thing, "name", "") or getattr(thing, "__name__", ""))
    if not name:
        raise UserError(f"register: a {kind} needs a name")
    if name in table and (kind, name) not in _OWN:
        raise UserError(
            f"register: there is already a {kind} {name!r} in the zoo; give another name"
        )
    if kind == "training option":
        add_option(thing)
    elif kind == "model":
        import keras

        keras.saving.register_keras_serializable("own")(thing)
        about = f"{(thing.__doc__ or name).splitlines()[0]}; your own"
        table[name] = thing, settings or {}, about
        recipes.BY_MODEL[name] = options or {}
    else:
        table[name] = thing
    if kind == "way of training":
        update = BY_NAME["update"]
        add_option(update._replace(choices=tuple(dict.fromkeys([*update.choices, name]))))
        recipes.BY_WAY[name] = thing.defaults
    _OWN.add((kind, name))
    return thing


def _kind_of(thing: Any) -> tuple[str, dict[str, Any]]:
    """Returns (kind of a thing, the table of the zoo that things of this kind belong to)."""
    from nmt_zoo.data_pipeline.datasets import DATASETS, Corpus, Included

    if isinstance(thing, Option):
        return "training option", BY_NAME
    if isinstance(thing, Corpus | Included):
        return "dataset", DATASETS
    if isinstance(thing, type):
        from nmt_zoo.decoding.search.rules import RULES, DecodingRule
        from nmt_zoo.models import PRESETS, TranslationModel
        from nmt_zoo.training.ways.base import WayOfTraining
        from nmt_zoo.training.ways.catalogue import WAYS

        for base, kind, table in (
            (TranslationModel, "model", PRESETS),
            (WayOfTraining, "way of training", WAYS),
            (DecodingRule, "decoding rule", RULES),
        ):
            if issubclass(thing, base):
                return kind, table
    raise UserError(
        "register: expected a model, way of training, option, dataset or decoding rule, found "
        f"{thing!r}"
    )
