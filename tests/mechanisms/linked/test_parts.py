"""Tests of the part of the budget for tables of parents."""

from __future__ import annotations

import numpy as np
import pytest

from pgmest.mechanisms.lamp.allocation import ItemErrors
from pgmest.mechanisms.lamp.candidates import SHARE_GRID, CandidateMarginal, NoiseModel, one_way_candidate
from pgmest.mechanisms.linked import LinkedLAMP
from pgmest.mechanisms.linked.parts import ALONE, CLOSE, share_of_parents
from tests.mechanisms.linked.examples import households

COUNTS = np.array([500.0, 300.0, 150.0, 50.0])


def sizes_alone(known: float) -> tuple[list[CandidateMarginal], ItemErrors]:
    """Return the number of children as the only table of parents, already known with a standard deviation."""
    candidate = one_way_candidate(("n",), COUNTS, known, NoiseModel(100.0, 1.0))
    return [candidate], ItemErrors.of([[(("n",), 1.0, None)]], np.ones(1))


@pytest.mark.parametrize("known", [1e6, 100.0, 30.0])
@pytest.mark.parametrize("alone", [0.48, 0.1])
def test_parents_get_the_least_share_that_is_as_good_as_half_of_the_budget(known: float, alone: float):
    candidates, items = sizes_alone(known)
    share = share_of_parents(candidates, items, alone, 0.0)
    error = [float(np.interp(s, SHARE_GRID, candidates[0].errors)) for s in (share, 0.95 * share, alone)]
    assert 0 < share <= alone
    assert error[0] <= CLOSE * error[2] + 1e-9
    assert error[1] > CLOSE * error[2]


def test_parents_get_nothing_where_it_does_not_help():
    candidates, items = sizes_alone(1e-3)
    assert share_of_parents(candidates, items, 0.4, 0.0) == 0.0
    assert share_of_parents(candidates, items, -0.1, 0.0) == 0.0
    assert share_of_parents([], items, 0.4, 0.0) == 0.0


@pytest.mark.parametrize("parent", [{}, {"region": 4, "income": 5}], ids=len)
def test_a_run_spends_about_half_of_its_budget_on_parents(parent: dict[str, int]):
    data = households(np.random.default_rng(0).integers(5, size=400), parent, {"age": 6, "sex": 2, "work": 3}, 4)
    result = LinkedLAMP(epsilon=3.0, backend="simulation").fit(data, seed=0, progress=False).results["persons"]
    measured, layout = result.details["measured_marginals"], result.model.layout
    above = sum(one.share for one in measured if layout.is_above(one.clique))
    whole = sum(one.share for one in measured)
    assert 0.4 < above <= ALONE
    assert above < whole <= 1 + 1e-9


def test_items_are_those_of_some_attributes_and_the_others():
    rows = [
        [(("a",), 1.0, None), (("a", "b"), 0.5, "k")],
        [(("c",), 1.0, None)],
        [(("b", "c"), 1.0, "k"), ((), 1.0, None)],
    ]
    items = ItemErrors.of(rows, np.array([1.0, 2.0, 3.0]))
    above, others = items.inside_of({"a", "b"}), items.inside_of({"a", "b"}, other=True)
    assert above.importance.tolist() == [1.0]
    assert others.importance.tolist() == [2.0, 3.0]
    assert above.views == ((0, 1, "k"),)
    assert others.views == ((1, 0, "k"),)
    candidates = [CandidateMarginal((name,), np.linspace(9, 1, len(SHARE_GRID))) for name in "abc"]
    shares = [0.2, 0.0, 1.0]
    parts = [part.expected(candidates, shares) for part in (above, others, items)]
    assert parts[0] + parts[1] == pytest.approx(parts[2])
    assert others.expected(candidates, shares) == pytest.approx(2.0)  # of c, all of its share
