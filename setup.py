"""Packs the rooms as subpackages of `nmt_zoo`; everything else is in pyproject.toml."""

from setuptools import find_packages, setup

ROOMS = (
    *("common", "configuration", "models", "data_pipeline", "model_directory", "decoding"),
    *("serving", "training", "command_line"),
)
FOUND = find_packages(include=[*ROOMS, *(f"{room}.*" for room in ROOMS)])

setup(
    packages=["nmt_zoo", *(f"nmt_zoo.{name}" for name in FOUND)],
    package_dir={f"nmt_zoo.{room}": room for room in ROOMS},
)
