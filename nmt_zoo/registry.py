"""Adds models, ways of training, options, datasets and decoding rules without a fork."""

import functools
from collections.abc import Callable, Iterable
from typing import Any

from nmt_zoo.common.errors import UserError

_OWN: set[tuple[str, str]] = set()  # (Kind, name) of what was added, which may be replaced.


def register(
    thing: Any = None,
    *,
    name: str = "",
    settings: dict[str, Any] | None = None,
    options: dict[str, Any] | None = None,
    trains: Iterable[str] = (),
) -> Any:
    """Makes something of your own known to the zoo. Also a decorator of classes.

    Args:
        thing: a subclass of `TranslationModel`, of `Update` or of `DecodingRule`; an `Option`; or
            a `Corpus` or `Generated` dataset.
        name: its name; "": that of the class, way of training or option. A dataset needs one.
        settings: of a model: name -> value, where they differ from its constructor's.
        options: of a model: name -> value of training options, where other defaults suit it.
        trains: of a way of training: names of the models that it trains.

    Returns:
        `thing`; without it, a decorator.

    Raises:
        UserError: the zoo has another thing of this name, or has no use for such a thing.

    Example:
        @nmt_zoo.register(options={"learning_rate": 3e-3})
        class MyModel(TranslationModel): ...
    """
    if thing is None:
        return functools.partial(
            register, name=name, settings=settings, options=options, trains=trains
        )
    kind, add = _adder(thing, settings or {}, options or {}, trains)
    name = name or getattr(thing, "name", "") or getattr(thing, "__name__", "")
    add(str(name))
    _OWN.add((kind, str(name)))
    return thing


def _adder(
    thing: Any, settings: dict[str, Any], options: dict[str, Any], trains: Iterable[str]
) -> tuple[str, Callable[[str], None]]:
    """Returns (kind of a thing, function of its name that adds it to the table of the zoo)."""
    from nmt_zoo.configuration.options import BY_NAME, Option, add_option
    from nmt_zoo.data_pipeline.datasets import DATASETS, Corpus, Generated

    if isinstance(thing, Option):
        return "option", lambda name: add_option(_free("option", name, BY_NAME) and thing)
    if isinstance(thing, Corpus | Generated):
        return "dataset", lambda name: _put("dataset", name, thing, DATASETS)
    if isinstance(thing, type):
        from nmt_zoo.decoding.search.rules import RULES, DecodingRule
        from nmt_zoo.models import TranslationModel
        from nmt_zoo.training.updates.update import Update

        if issubclass(thing, TranslationModel):
            return "model", lambda name: _add_model(name, thing, settings, options)
        if issubclass(thing, Update):
            return "way of training", lambda name: _add_way(name, thing, trains)
        if issubclass(thing, DecodingRule):
            return "decoding rule", lambda name: _put("decoding rule", name, thing, RULES)
    raise UserError(
        f"register: expected a model, way of training, option, dataset or decoding rule, found "
        f"{thing!r}"
    )


def _add_model(name: str, model: type, settings: dict[str, Any], options: dict[str, Any]) -> None:
    from nmt_zoo.configuration.recipes import BY_MODEL
    from nmt_zoo.models import PRESETS

    about = f"{(model.__doc__ or name).splitlines()[0]}; your own"
    _put("model", name, (model, settings, about), PRESETS)
    BY_MODEL[name] = options


def _add_way(name: str, way: Any, trains: Iterable[str]) -> None:
    from nmt_zoo.configuration.options import BY_NAME, add_option
    from nmt_zoo.training.ways import OWN_WAYS, UPDATES

    _put("way of training", name, way, UPDATES)
    update = BY_NAME["update"]
    add_option(update._replace(choices=tuple(dict.fromkeys([*update.choices, name]))))
    for model in trains:
        OWN_WAYS.setdefault(model, []).append(name)


def _put(kind: str, name: str, thing: Any, table: dict[str, Any]) -> None:
    _free(kind, name, table)
    table[name] = thing


def _free(kind: str, name: str, table: dict[str, Any]) -> bool:
    """Raises `UserError` if a table of the zoo has a name already, or there is none."""
    if not name:
        raise UserError(f"register: a {kind} needs a name")
    if name in table and (kind, name) not in _OWN:
        raise UserError(f"register: the zoo has a {kind} {name!r} already; give another name")
    return True
