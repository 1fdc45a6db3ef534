"""Tables that come with pgmest, for examples; `data/CENSUS.md` describes their origin and their use."""

from __future__ import annotations

import json
from importlib import resources

from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError
from pgmest.tables.domain import Domain

NAMES = ("census",)


def load(name: str = "census") -> Dataset:
    """Return an embedded table.

    "census" has 48,842 synthetic records like those of a census, with 14 attributes of 2 to 100 values each. They were
    sampled from a model that pgmest estimated, and describe no person.

    Raises:
        ArgumentError: there is no table of that name.
    """
    _check(name)
    folder = resources.files("pgmest") / "data"
    with (
        resources.as_file(folder / f"{name}-domain.json") as domain,
        resources.as_file(folder / f"{name}.csv.gz") as records,
    ):
        return Dataset.load(records, Domain.load(domain))


def labels(name: str = "census") -> dict[str, tuple[str, ...]]:
    """Return the labels of an embedded table's codes: attribute -> a label for each of its codes.

    Attributes whose codes are bins of unequal or unknown width are left out.

    >>> labels()["sex"]
    ('Female', 'Male')

    Raises:
        ArgumentError: there is no table of that name.
    """
    _check(name)
    text = (resources.files("pgmest") / "data" / f"{name}-labels.json").read_text(encoding="utf-8")
    return {attribute: tuple(values) for attribute, values in json.loads(text).items()}


def _check(name: str) -> None:
    if name not in NAMES:
        raise ArgumentError.of("name", name, NAMES)
