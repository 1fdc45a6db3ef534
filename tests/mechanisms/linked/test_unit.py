"""Rows of a child table as the protected unit: what one person more, less or changed moves, by brute force."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pgmest.data.linked import LinkedDataset
from pgmest.errors import ArgumentError
from pgmest.mechanisms.lamp.lamp import LAMP
from pgmest.mechanisms.linked import LinkedLAMP
from pgmest.mechanisms.linked.families import Families
from pgmest.mechanisms.linked.trees import family_table
from pgmest.privacy import Rho
from pgmest.privacy.dataset_ledger import DatasetLedger
from pgmest.privacy.neighbors import AddRemove, Change
from pgmest.schema import LinkedSchema
from tests.mechanisms.linked.examples import households
from tests.mechanisms.linked.test_families import all_cliques

SCHEMA = LinkedSchema.parse("""
unit: jobs
tables:
  homes:
    key: hid
    columns: {region: {type: categorical, values: [N, S], outside: clip}}
  persons:
    parent: homes
    key: {homes: hid, persons: hid}
    at_most: 2
    columns: {role: {type: categorical, values: [head, child], outside: clip}}
    within:
      - exactly: {role: head, count: 1}
  jobs:
    parent: persons
    key: {persons: [hid, pid], jobs: [hid, pid]}
    at_most: 2
    columns: {kind: {type: categorical, values: [a, b, c], outside: clip}}
    within:
      - at_least: {kind: a, count: 1}
""")
KEY = bytes(range(16))
pytestmark = pytest.mark.filterwarnings("ignore:rows of table")


def tables_of(jobs: list[tuple[int, int, str]]) -> LinkedDataset:
    """Return homes with persons and these jobs (home, person, kind)."""
    homes = pd.DataFrame({"hid": [1, 2, 3], "region": ["N", "S", "S"]})
    persons = pd.DataFrame({"hid": [1, 1, 1, 2], "pid": [1, 2, 3, 1], "role": ["head", "child", "child", "head"]})
    frame = pd.DataFrame(jobs, columns=["hid", "pid", "kind"])
    return SCHEMA.encode({"homes": homes, "persons": persons, "jobs": frame}, key=KEY)


def neighbors_of(jobs: list[tuple[int, int, str]]) -> Iterator[list[tuple[int, int, str]]]:
    """Yield the jobs with one more, one less, or another one in place of one; some have no person."""
    others = [(home, person, kind) for home, person in ((1, 1), (1, 2), (2, 1), (9, 9)) for kind in "abc"]
    for place in range(len(jobs) + 1):
        rest = jobs[:place] + jobs[place + 1 :]
        yield rest
        if place < len(jobs):
            yield from ([*rest, other] for other in others if other[:2] == jobs[place][:2])
    yield from ([*jobs, other] for other in others)


def moved(one: Families, other: Families) -> Iterator[tuple[float, float]]:
    """Yield how far each table moves: what is measured in l2, and averages in l1."""
    layout = one.layout
    above = [c for size in (1, 2) for c in itertools.combinations(layout.parents, size)]
    for clique in above:
        apart = one.above(clique) - other.above(clique)
        yield float(np.linalg.norm(apart)), float(np.abs(apart).sum())
    for clique in all_cliques(layout):
        groups = [np.arange(layout.domain[name]) for name in clique]
        both = zip(one.tables(clique, groups), other.tables(clique, groups), strict=True)
        lengths, averages = (mine - theirs for mine, theirs in both)
        free = np.triu(lengths) if layout.are_alike(clique, groups) else lengths
        yield float(np.linalg.norm(free)), float(np.abs(averages).sum())


def test_a_row_of_the_lowest_table_moves_every_table_by_no_more_than_a_changed_family() -> None:
    generator, most = np.random.default_rng(0), 0.0
    persons = [(1, 1), (1, 2), (2, 1), (9, 9)]
    for _ in range(2):
        jobs = [(*persons[generator.integers(4)], "abc"[generator.integers(3)]) for _ in range(generator.integers(7))]
        linked = tables_of(jobs)
        for changed in neighbors_of(jobs):
            other = tables_of(changed)
            for child in ("persons", "jobs"):
                for apart, sum_apart in moved(family_table(linked, child), family_table(other, child)):
                    assert apart <= Change().l2_sensitivity() + 1e-9
                    assert sum_apart <= Change().l1_sensitivity() + 1e-9
                    most = max(most, apart)
    assert most == pytest.approx(2**0.5)  # the bound is met


def test_each_run_has_the_noise_for_a_changed_family_and_rules_hold() -> None:
    jobs = [(1, 1, "a"), (1, 2, "b"), (2, 1, "a"), (2, 1, "c")] * 3
    result = LinkedLAMP(epsilon=1.0, delta=0.0, backend="simulation").fit(tables_of(jobs), seed=0, progress=False)
    assert {name: run.mechanism.neighbors for name, run in result.results.items()} == {
        "persons": Change(),
        "jobs": Change(),
    }
    assert not any(rule.broken(result.sample(seed=0)).any() for rule in SCHEMA.rules)


def test_noise_is_sqrt_2_times_that_for_households(tmp_path: Path) -> None:
    linked = households([2, 1, 0, 3] * 50, {"r": 3}, {"a": 4}, 3)
    ledger, noise = DatasetLedger.create(tmp_path / "ledger", Rho(2.0), unit="persons"), []
    for unit in ("households", "persons"):
        tables = LinkedDataset(linked.tables, unit=unit)
        result = LinkedLAMP(rho=0.5).fit(tables, seed=0, progress=False, ledger=ledger if unit == "persons" else None)
        noise.append([entry.parameters["stddev"] for entry in result.results["persons"].ledger.entries[:4]])
    assert np.allclose(np.array(noise[1]) / np.array(noise[0]), 2**0.5, rtol=1e-3)
    assert ledger.remaining.exact[0] == pytest.approx(1.5)


def test_what_the_unit_is_is_said_and_units_in_between_are_refused() -> None:
    assert SCHEMA.protection == (
        "one row of 'jobs', added, removed or changed, but not moved to another row of 'persons', with what that "
        "changes in the row of 'persons' to which it belongs"
    )
    linked = LinkedDataset(tables_of([(1, 1, "a")]).tables, unit="persons")
    with pytest.raises(ArgumentError, match="jobs"):
        LinkedLAMP(epsilon=1.0, backend="simulation").fit(linked, seed=0, progress=False)


def test_other_mechanisms_do_not_take_the_relation() -> None:
    with pytest.raises(ArgumentError, match="AddRemove"):
        LAMP(epsilon=1.0, neighbors=Change())
    assert LAMP(epsilon=1.0, neighbors=AddRemove(2)).neighbors.records == 2
