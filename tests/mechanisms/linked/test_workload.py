"""Tests of the workload of families."""

from __future__ import annotations

import pytest

from pgmest.mechanisms.linked.families import Layout
from pgmest.mechanisms.linked.workload import IMPORTANCE, family_workload
from pgmest.tables.domain import Domain


@pytest.mark.parametrize("parent", [{}, {"region": 4}, {"region": 4, "income": 5}], ids=len)
def test_the_only_table_of_a_parent_without_attributes_has_the_importance_of_all(parent: dict[str, int]):
    layout = Layout(Domain(parent), Domain({"age": 9, "sex": 2}), ("households", "persons"), 8)
    weights = family_workload(layout)
    of_parents = sum(weight for clique, weight in weights.items() if layout.is_above(clique))
    assert of_parents == pytest.approx(IMPORTANCE["number"] + IMPORTANCE["above"])
    assert sum(weights.values()) == pytest.approx(sum(IMPORTANCE.values()))
