"""Small linked tables for the tests of LinkedLAMP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.data.linked import LinkedDataset, LinkedTable
from pgmest.data.linked_rules import Rule
from pgmest.mechanisms.linked.families import Families, Layout
from pgmest.tables.domain import Domain


def random_table(rows: int, domain: Mapping[str, int], generator: np.random.Generator) -> Dataset:
    """Return a table of independent codes, the small ones more frequent."""
    if not domain:
        return Dataset.from_codes(np.empty((rows, 0), dtype=np.int64), {})
    return Dataset.from_codes([(generator.random(rows) ** 1.5 * size).astype(int) for size in domain.values()], domain)


def households(
    sizes: Sequence[int] | np.ndarray,
    parent: Mapping[str, int],
    child: Mapping[str, int],
    at_most: int,
    rules: Sequence[Rule] = (),
    seed: int = 0,
) -> LinkedDataset:
    """Return households of these sizes with random codes."""
    generator = np.random.default_rng(seed)
    rows = np.repeat(np.arange(len(sizes)), sizes)
    above = LinkedTable(random_table(len(sizes), parent, generator))
    below = LinkedTable(random_table(len(rows), child, generator), "households", rows, at_most)
    return LinkedDataset({"households": above, "persons": below}, rules)


def random_families(
    generator: np.random.Generator, count: int, at_most: int, ordered: bool = False, rising: str | None = None
) -> Families:
    """Return families with two attributes of a parent and two of a child."""
    domains = Domain({"r": 2, "d": 3}), Domain({"a": 3, "b": 2})
    layout = Layout(*domains, ("households", "persons"), at_most, ordered, rising)
    sizes = generator.integers(at_most + 1, size=count)
    parents = np.column_stack([generator.integers(2, size=count), generator.integers(3, size=count), sizes])
    number = int(sizes.sum())
    children = np.column_stack([generator.integers(3, size=number), generator.integers(2, size=number)])
    return Families(layout, parents, children.astype(np.int64))


def small_tree(seed: int = 0, rows: int = 50) -> LinkedDataset:
    """Return homes with two kinds of rows that hang on them, and one kind that hangs on these."""
    generator = np.random.default_rng(seed)
    homes, persons = random_table(rows, {"r": 2}, generator), random_table(rows, {"a": 2}, generator)
    cars, jobs = random_table(rows, {"k": 2}, generator), random_table(rows, {"j": 2}, generator)
    hung = LinkedTable(persons, "homes", np.arange(rows), 3), LinkedTable(cars, "homes", np.arange(rows), 3)
    below = LinkedTable(jobs, "persons", np.arange(rows), 2)
    return LinkedDataset({"homes": LinkedTable(homes), "persons": hung[0], "cars": hung[1], "jobs": below})
