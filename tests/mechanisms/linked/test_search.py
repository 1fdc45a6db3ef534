"""The search over families: distances against a recount, changes that never raise it, and rules that hold."""

from __future__ import annotations

import numpy as np
import pytest

from pgmest.data.linked_rules import AtLeast, AtMost, Exactly, Older
from pgmest.mechanisms.linked.families import Families
from pgmest.mechanisms.linked.rules import FamilyRules
from pgmest.mechanisms.linked.search import FamilySearch, Target, without_absent
from pgmest.mechanisms.linked.workload import family_workload
from tests.mechanisms.linked.examples import random_families


def targets_of(families: Families) -> dict[tuple[str, ...], Target]:
    layout = families.layout
    found = {}
    for clique in family_workload(layout):
        if not layout.is_above(clique):
            groups = [np.arange(layout.domain[name]) for name in clique]
            averages = without_absent(families.tables(clique, groups)[1], layout, clique)
            found[clique] = Target(averages if layout.is_across(clique) else families.counts(clique), 0.0)
    return found


def numbers_of(families: Families) -> dict[str, Target]:
    return {name: Target(families.numbers(name)[1], 0.0) for name in families.layout.members}


@pytest.mark.parametrize("ordered", [False, True])
def test_search_finds_the_tables_of_other_families(ordered: bool) -> None:
    generator = np.random.default_rng(0)
    true = random_families(generator, 400, 4, ordered)
    targets = targets_of(true)
    mixed = Families(true.layout, true.parents, generator.permutation(true.children))
    search = FamilySearch.of(mixed, targets, FamilyRules.of((), true.layout), generator, numbers_of(true))
    before = search.distance
    made = search.run(3, 10)
    after = FamilySearch.of(made, targets, search.rules, generator, numbers_of(true))
    assert search.distance == pytest.approx(after.distance, rel=1e-6, abs=1e-6)
    assert after.distance < 0.01 * before
    assert np.array_equal(made.sizes, true.sizes)


ORDERS = {"no order": (False, None), "an order": (True, None), "rising codes": (True, "a")}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("at_most", [4, 15])
def test_no_step_raises_the_distance(seed: int, at_most: int, order: str) -> None:
    generator = np.random.default_rng(seed)
    true, start = (random_families(generator, 30, at_most, *ORDERS[order]) for _ in range(2))
    rules = FamilyRules.of((), true.layout)
    start = rules.repaired(start, generator)
    assert not rules.broken(start).any()
    true = rules.repaired(true, generator)
    targets, numbers = targets_of(true), numbers_of(true)
    search = FamilySearch.of(start, targets, rules, generator, numbers)
    distances = [search.distance]
    for _ in range(3):
        search._exchange()
        distances.append(search.distance)
        search._change_codes()
        distances.append(search.distance)
    assert (np.diff(distances) <= 1e-6).all()
    families = search.families
    assert not rules.broken(families).any()
    copied = Families(families.layout, families.parents, families.children)
    recounted = FamilySearch.of(copied, targets, search.rules, generator, numbers)
    assert search.distance == pytest.approx(recounted.distance, rel=1e-6, abs=1e-6)


def test_rules_hold_after_repair_and_after_every_search() -> None:
    rules = [
        Exactly("persons", "b", (1,), 1),
        AtMost("persons", "a", (2,), 1),
        AtLeast("persons", "a", (0, 1), 1),
        Older("persons", "b", (1,), (0,), 1.0, "a", (0.0, 1.0, 2.0), (0.5, 1.5, 2.5)),
    ]
    generator = np.random.default_rng(1)
    families = random_families(generator, 300, 4)
    known = FamilyRules.of(rules, families.layout)
    assert known.broken(families).mean() > 0.5
    repaired = known.repaired(families, generator)
    assert not known.broken(repaired).any()
    assert (repaired.sizes > 0).all()  # exactly one needs a child
    search = FamilySearch.of(repaired, targets_of(random_families(generator, 300, 4)), known, generator)
    before = search.distance
    made = search.run(2, 5)
    assert search.distance < before
    assert not known.broken(made).any()


def test_impossible_rules_leave_families_as_they_are_or_broken_without_an_endless_search() -> None:
    rules = [Exactly("persons", "b", (1,), 3), AtMost("persons", "b", (1,), 1)]
    generator = np.random.default_rng(1)
    families = random_families(generator, 50, 4)
    known = FamilyRules.of(rules, families.layout)
    assert known.broken(known.repaired(families, generator)).all()
