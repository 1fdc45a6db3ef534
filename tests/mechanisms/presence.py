"""Tables in which the presence of columns follows from another column, and the structural zeros that say so."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

import pgmest as pg
from pgmest import zeros
from pgmest.inference.exact.structural_zeros import Rule

Table = tuple[pg.Dataset, list[Rule]]


def households(count: int = 3000, slots: int = 6, seed: int = 0) -> Table:
    """Return one row for each household: its size, a region, and two columns for each member (0: no such member)."""
    rng = np.random.default_rng(seed)
    shares = np.array([0.30, 0.33, 0.16, 0.12, 0.06, 0.03, 0.02, 0.01])[:slots]
    size = rng.choice(slots, count, p=shares / shares.sum())
    old = rng.random(count) < np.where(size < 2, 0.45, 0.08)
    columns = {"size": (size, slots), "region": ((rng.integers(0, 5, count) + (size > 2)) % 5, 5)}
    rules: list[Rule] = []
    for member in range(slots):
        grown = np.where(old, 3 + (rng.random(count) < 0.5), 2 + (rng.random(count) < 0.3))
        age = grown if member < 2 else 1 + (rng.random(count) < 0.35) + (rng.random(count) < 0.1)
        role = np.minimum(3, 1 + (rng.random(count) < np.where(age >= 2, 0.4, 0.1)) + (age == 4))
        for name, codes, values in ((f"age{member + 1}", age, 5), (f"role{member + 1}", role, 4)):
            columns[name] = np.where(size >= member, codes, 0), values
            rules.append(present("size", slots, name, values, range(member, slots)))
    return _table(columns), rules


def questionnaire(count: int = 4000, seed: int = 0) -> Table:
    """Return answers to questions of which some are asked after certain answers only (0: not asked)."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 7, count)
    other = np.where(rng.random(count) < 0.8 - 0.1 * age, 0, rng.integers(2, 4, count))
    status = np.where(rng.random(count) < 0.1 + 0.1 * age, 1, other)
    years = 1 + np.clip(age + rng.integers(-3, 2, count), 0, 6)
    employed = rng.random(count) < np.where((age > 0) & (age < 6), 0.75, 0.1)
    job = np.where(employed, 1, np.where(age > 4, 2, 0))
    kids = np.where(rng.random(count) < 0.1 + 0.12 * age * (status != 0), rng.integers(1, 4, count), 0)
    columns = {
        "age": (age, 7),
        "status": (status, 4),
        "years": (np.where(status == 1, years, 0), 8),
        "job": (job, 3),
        "hours": (np.where(employed, 1 + np.minimum(4, rng.poisson(2.2, count)), 0), 6),
        "industry": (np.where(employed, 1 + (rng.geometric(0.3, count) + age) % 9, 0), 10),
        "kids": (kids, 4),
        "youngest": (np.where(kids > 0, 1 + np.clip(age - 2 + rng.integers(-1, 2, count), 0, 3), 0), 5),
        "region": (rng.integers(0, 6, count), 6),
    }
    rules = [
        present("status", 4, "years", 8, [1]),
        present("job", 3, "hours", 6, [1]),
        present("job", 3, "industry", 10, [1]),
        present("kids", 4, "youngest", 5, [1, 2, 3]),
    ]
    return _table(columns), rules


def present(parent: str, codes: int, name: str, values: int, asked: Any) -> Rule:
    """Return the rule that a column is present, so not 0, if and only if its parent has one of some codes."""
    there = np.isin(np.arange(codes), list(asked))
    return zeros.impossible((parent, name), there[:, None] == (np.arange(values) == 0))


def _table(columns: dict[str, tuple[np.ndarray, int]]) -> pg.Dataset:
    domain = pg.Domain({name: values for name, (_, values) in columns.items()})
    return pg.Dataset.from_codes([np.asarray(codes, dtype=np.int64) for codes, _ in columns.values()], domain)


def errors(records: pg.Dataset, data: pg.Dataset, names: list[str]) -> tuple[float, float]:
    """Return the mean total variation error of some one-way marginals, and that of all pairs."""
    pairs = list(combinations(data.domain.attributes, 2))
    found, true = (table.project_many([*((name,) for name in names), *pairs]) for table in (records, data))
    apart = [
        np.abs(one.values / records.records - other.values / data.records).sum() / 2
        for one, other in zip(found, true, strict=True)
    ]
    return float(np.mean(apart[: len(names)])), float(np.mean(apart[len(names) :]))
