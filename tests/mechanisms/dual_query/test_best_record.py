"""DualQuery's hard step: against all possible records."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmest.mechanisms.dual_query.best_record import WeightedCell, best_record, gain
from pgmest.tables.domain import Domain

DOMAIN = Domain({"a": 3, "b": 2, "c": 4, "d": 1})
CLIQUES = [("a",), ("b", "a"), ("c", "b"), ("a", "b", "c"), ("d", "c")]


def random_cells(seed, count):
    rng = np.random.default_rng(seed)
    cells = {}
    for _ in range(count):
        clique = CLIQUES[rng.integers(len(CLIQUES))]
        codes = tuple(int(rng.integers(DOMAIN[name])) for name in clique)
        cells[clique, codes] = float(rng.choice([-2, -1, 1, 2, 3]))
    return [WeightedCell(clique, codes, weight) for (clique, codes), weight in cells.items()]


def most(cells):
    records = itertools.product(*map(range, DOMAIN.shape))
    return max(gain(cells, dict(zip(DOMAIN, codes, strict=True))) for codes in records)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(0, 12))
def test_no_record_is_better(seed, count):
    cells = random_cells(seed, count)
    record, exact = best_record(DOMAIN, cells, np.random.default_rng(seed), time_limit=60.0)
    assert exact
    assert list(record) == list(DOMAIN)
    assert all(0 <= record[name] < DOMAIN[name] for name in DOMAIN)
    assert gain(cells, record) == most(cells)


@pytest.mark.parametrize("incumbent", [False, True])
def test_when_time_runs_out_the_better_of_incumbent_and_greedy_is_taken(monkeypatch, incumbent):
    solve = scipy.optimize.milp

    def out_of_time(*args, **kwargs):
        return SimpleNamespace(x=0 * solve(*args, **kwargs).x if incumbent else None, status=1)

    monkeypatch.setattr(scipy.optimize, "milp", out_of_time)
    cells = [WeightedCell(("c", "b"), (1, 1), 2.0), WeightedCell(("a",), (2,), 1.0), WeightedCell(("c",), (0,), 1.0)]
    record, exact = best_record(DOMAIN, cells, np.random.default_rng(0), time_limit=60.0)
    assert not exact
    assert gain(cells, record) == 3.0


def test_codes_that_do_not_matter_are_drawn_from_the_generator():
    cells = [WeightedCell(("a",), (1,), 1.0)]
    seen = {best_record(DOMAIN, cells, np.random.default_rng(seed), 60.0)[0]["c"] for seed in range(40)}
    assert seen == {0, 1, 2, 3}
    first, second = (best_record(DOMAIN, cells, np.random.default_rng(5), 60.0) for _ in range(2))
    assert first == second
