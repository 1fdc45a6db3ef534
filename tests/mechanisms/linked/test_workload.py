"""Tests of the workload of families."""

from __future__ import annotations

import pytest

from pgmest.mechanisms.linked.families import Layout
from pgmest.mechanisms.linked.workload import IMPORTANCE, SMALL_BUDGET, family_workload
from pgmest.tables.domain import Domain


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("parent", [{}, {"region": 4}, {"region": 4, "income": 5}], ids=len)
def test_the_only_table_of_a_parent_without_attributes_has_the_importance_of_all(parent: dict[str, int], small: bool):
    layout = Layout(Domain(parent), Domain({"age": 9, "sex": 2}), ("households", "persons"), 8)
    weights, importance = family_workload(layout, small), SMALL_BUDGET if small else IMPORTANCE
    of_parents = sum(weight for clique, weight in weights.items() if layout.is_above(clique))
    assert of_parents == pytest.approx(importance["number"] + importance["above"])
    assert sum(weights.values()) == pytest.approx(sum(importance.values()))
