"""Which weights can meet control totals, against one linear program for each record and each control."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from pgmest.estimation.feasible_weights import contradicting_controls, possible_cells


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=80, deadline=None)
def test_against_one_program_for_each(seed):
    generator = np.random.default_rng(seed)
    records = int(generator.integers(1, 7))
    sizes = generator.integers(1, 4, int(generator.integers(1, 4)))
    cells = [generator.integers(0, size, records) for size in sizes]
    weights = generator.dirichlet(np.ones(records)) * (generator.random(records) < 0.6)
    weights = weights / weights.sum() if weights.any() else np.full(records, 1 / records)
    totals = [np.bincount(own, weights, minlength=size) for own, size in zip(cells, sizes, strict=True)]
    if generator.random() < 0.5:
        totals = [generator.permutation(total) for total in totals]
    matrix = np.array(
        [own == cell for own, size in zip(cells, sizes, strict=True) for cell in range(size)], dtype=float
    )
    right = np.concatenate(totals)

    def meets(rows, objective=None):
        objective = np.zeros(records) if objective is None else objective
        return linprog(objective, A_eq=matrix[rows], b_eq=right[rows], bounds=(0, None))

    every = np.arange(len(right))
    found = possible_cells(cells, totals)
    if found is None:
        assert meets(every).status == 2
        starts = np.cumsum([0, *sizes])
        named = np.array([starts[position] + cell for position, cell in contradicting_controls(cells, totals)])
        assert meets(named).status == 2
        assert all(meets(named[named != one]).status != 2 for one in named)
        return
    assert meets(every).status == 0
    largest = np.array([-meets(every, -unit).fun for unit in np.eye(records)])
    assert np.array_equal(found, largest > 1e-9)
