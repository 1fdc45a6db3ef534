"""Tables that come with pgmest, to try it on; `data/CENSUS.md` says how they were made and what they are good for."""

from __future__ import annotations

import json
from importlib import resources

from pgmest._base.errors import ArgumentError
from pgmest.data.dataset import Dataset
from pgmest.tables.domain import Domain

NAMES = ("census",)


def load(name: str = "census") -> Dataset:
    """An embedded table.

    "census": 48,842 synthetic records like those of a census, 14 attributes of 2 to 100 values each, sampled from a
    model that pgmest estimated. They describe no person.

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
    """What the codes of an embedded table stand for, for pictures: attribute -> a label for each of its codes.

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
