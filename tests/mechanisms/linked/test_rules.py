"""Violations of rules in families, counted for one child, and the repair of large families."""

from __future__ import annotations

import numpy as np
import pytest

from pgmest.data.linked_rules import AtLeast, AtMost, Exactly, Older
from pgmest.data.smallest_family import FamilyLimits
from pgmest.mechanisms.linked.families import Families, Layout
from pgmest.mechanisms.linked.rule_kernels import violations, violations_beside
from pgmest.mechanisms.linked.rules import FamilyRules
from pgmest.tables.domain import Domain
from tests.mechanisms.linked.examples import random_families

ENDS = (0.0, 1.0), (0.0, 1.0)
RULES = (
    Exactly("persons", "a", (0,), 1),
    AtMost("persons", "b", (1,), 2),
    AtLeast("persons", "a", (1, 2), 2),
    Older("persons", "a", (0,), (1, 2), 1.0, "b", *ENDS),
)


@pytest.mark.parametrize("rising", [None, "b"])
@pytest.mark.parametrize("seed", range(5))
def test_a_change_of_a_child_changes_what_is_counted_for_it_as_it_changes_the_violations(
    seed: int, rising: str | None
) -> None:
    generator = np.random.default_rng(seed)
    families = random_families(generator, 20, 5, rising is not None, rising)
    zeros = {
        ("households.r", "persons.a"): np.pad(generator.random((2, 3)) < 0.3, [(0, 0), (0, 1)]),
        ("persons.a", "persons.b"): np.pad(generator.random((3, 2)) < 0.3, [(0, 1), (0, 1)]),
    }
    rules = FamilyRules.of(RULES, families.layout, zeros)
    rows = families.rows
    moved = 0
    for child, family in enumerate(families.owners):
        before = violations(family, rows, rules.arrays), violations_beside(family, child, rows, rules.arrays)
        families.children[child] = generator.integers([3, 2])
        after = violations(family, rows, rules.arrays), violations_beside(family, child, rows, rules.arrays)
        assert after[0] - before[0] == after[1] - before[1]
        moved += after[0] != before[0]
    assert moved > 5


def test_a_family_of_thousands_is_repaired() -> None:
    generator = np.random.default_rng(0)
    layout = Layout(Domain({}), Domain({"a": 3, "b": 8}), ("households", "persons"), 2000)
    ends = tuple(map(float, range(8)))
    rules = (*RULES[:1], AtLeast("persons", "a", (1,), 900), Older("persons", "a", (0, 2), (1,), 3.0, "b", ends, ends))
    known, smallest = FamilyLimits(rules, layout.parent, layout.child, layout.at_most).smallest
    assert known
    found = FamilyRules.of(rules, layout, smallest=smallest)
    families = Families(layout, np.array([[2000]]), generator.integers([3, 8], size=(2000, 2)))
    assert found.broken(families).all()
    assert not found.broken(found.repaired(families, generator)).any()
