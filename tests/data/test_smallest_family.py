"""The smallest family that keeps all rules, beside every family of a small table; and rules that contradict."""

from __future__ import annotations

from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from pgmest.data.dataset import Dataset
from pgmest.data.linked import LinkedDataset, LinkedTable
from pgmest.data.linked_rules import AtLeast, AtMost, Exactly, Impossible, Older, Rule
from pgmest.data.smallest_family import FamilyLimits, contradiction
from pgmest.tables.domain import Domain

PARENT, CHILD, AT_MOST = {"r": 2}, {"role": 3, "age": 3}, 3


def every_family() -> list[tuple[int, np.ndarray]]:
    """Return the codes of the parent and of the children of all families, the small ones first."""
    children = list(product(range(3), range(3)))
    rows = [
        np.array(chosen, dtype=np.int64).reshape(-1, 2)
        for size in range(AT_MOST + 1)
        for chosen in combinations_with_replacement(children, size)
    ]
    return [(parent, chosen) for chosen in rows for parent in range(2)]


def linked(families: list[tuple[int, np.ndarray]], rules: tuple[Rule, ...]) -> LinkedDataset:
    """Return linked tables of some families."""
    owners = np.repeat(np.arange(len(families)), [len(rows) for _, rows in families])
    persons = Dataset.from_codes(np.concatenate([rows for _, rows in families]), CHILD)
    homes = Dataset.from_codes(np.array([[parent] for parent, _ in families]), PARENT)
    tables = {"homes": LinkedTable(homes), "persons": LinkedTable(persons, "homes", owners, AT_MOST)}
    return LinkedDataset(tables, rules)


def random_rule(generator: np.random.Generator) -> Rule:
    """Return a rule about the roles of persons."""

    def some(size: int) -> tuple[int, ...]:
        return tuple(np.flatnonzero(generator.permutation(size) <= generator.integers(size)).tolist())

    roles, kind = some(3), int(generator.integers(5))
    if kind < 3:
        return (Exactly, AtMost, AtLeast)[kind]("persons", "role", roles, int(generator.integers(3)))
    if kind == 3:
        one, other = generator.permutation(3)[:2].tolist()
        ends = (0.0, 10.0, np.nan), (9.0, 19.0, np.nan)
        return Older("persons", "role", (one,), (other,), float(generator.integers(-5, 20)), "age", *ends)
    beside = (("age", some(3)),) if generator.random() < 0.5 else ()
    above = (("r", some(2)),) if generator.random() < 0.5 else ()
    sizes = some(AT_MOST + 1) if generator.random() < 0.5 else None
    return Impossible("persons", "role", roles, beside, above, sizes)


@pytest.mark.parametrize("seed", range(60))
def test_the_smallest_family_is_that_of_all_families(seed: int) -> None:
    generator = np.random.default_rng(seed)
    rules = tuple(random_rule(generator) for _ in range(1 + seed % 5))
    above = {("r",): np.array([True, False])} if seed % 3 == 0 else {}
    inside = {("role", "age"): generator.random((3, 3)) < 0.3} if seed % 2 else {}
    families = [
        (parent, rows)
        for parent, rows in every_family()
        if not (above and parent == 0) and not (inside and inside["role", "age"][rows[:, 0], rows[:, 1]].any())
    ]
    tables = linked(families, rules)
    kept = [len(family[1]) for family, wrong in zip(families, _broken(tables), strict=True) if not wrong]
    known, found = FamilyLimits(rules, Domain(PARENT), Domain(CHILD), AT_MOST, above, inside).smallest
    assert known
    if not kept:
        assert found is None
        return
    assert found is not None
    assert len(found.children) == min(kept)
    assert not _broken(linked([(int(found.parent[0]), found.children)], rules)).any()
    assert any(np.array_equal(np.array(sorted(found.children.tolist())).reshape(-1, 2), rows) for _, rows in families)


def _broken(tables: LinkedDataset) -> np.ndarray:
    return np.any([rule.broken(tables) for rule in tables.rules], axis=0)


def test_a_contradiction_names_the_rules_that_it_needs_and_no_others() -> None:
    needed = (
        AtLeast("persons", "role", (0, 1), 2),
        AtMost("persons", "role", (0,), 0),
        AtMost("persons", "role", (1,), 1),
    )
    rules = (AtMost("persons", "role", (2,), 1), *needed)
    wrong = contradiction(FamilyLimits(rules, Domain(PARENT), Domain(CHILD), AT_MOST), "homes", "persons")
    assert wrong is not None
    assert all(str(rule) in wrong for rule in needed)
    assert str(rules[0]) not in wrong
    assert "constraints" not in wrong
    assert contradiction(FamilyLimits(rules[:3], Domain(PARENT), Domain(CHILD), AT_MOST), "homes", "persons") is None


def test_constraints_of_columns_are_named_where_rules_contradict_them() -> None:
    limits = FamilyLimits(
        (Exactly("persons", "role", (0,), 1),),
        Domain(PARENT),
        Domain(CHILD),
        AT_MOST,
        zeros_inside={("role",): np.array([True, False, False])},
    )
    wrong = contradiction(limits, "homes", "persons")
    assert wrong is not None
    assert "the constraints of the columns" in wrong


def test_numbers_of_rows_up_to_thousands_take_no_search() -> None:
    sizes = tuple(range(1, 31))
    rules = (
        Exactly("persons", "role", (0,), 1),
        AtLeast("persons", "role", (1,), 20),
        Impossible("persons", "role", (0,), sizes=sizes),
        Older("persons", "role", (0,), (1,), 5.0, "age", (0.0, 10.0, 20.0), (9.0, 19.0, 29.0)),
    )
    known, found = FamilyLimits(rules, Domain(PARENT), Domain(CHILD), 10_000).smallest
    assert known
    assert found is not None
    assert len(found.children) == 31
