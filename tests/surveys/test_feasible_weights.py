"""Which weights can meet control totals, against one linear program for each record and each control."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import linprog

from pgmest.surveys.feasible_weights import WeightPolytope


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
    high = np.full(records, np.inf) if generator.random() < 0.5 else generator.uniform(0.1, 1.0, records)

    def meets(rows, objective=None, ends=high, low=0.0):
        objective = np.zeros(records) if objective is None else objective
        bounds = [(low, None if np.isinf(end) else end) for end in ends]
        return linprog(objective, A_eq=matrix[rows], b_eq=right[rows], bounds=bounds)

    every = np.arange(len(right))
    polytope = WeightPolytope(sparse.csr_array(matrix.T), right, np.zeros(records), high)
    found = polytope.possible()
    if found is None:
        assert meets(every).status == 2
        named, miss = polytope.contradiction()
        assert meets(named).status == 2
        assert all(meets([one for one in named if one != left]).status != 2 for left in named)
        rows = matrix[named]
        slack = linprog(
            np.append(np.zeros(records), 1.0),
            A_ub=np.block([[rows, -np.ones((len(named), 1))], [-rows, -np.ones((len(named), 1))]]),
            b_ub=np.concatenate([right[named], -right[named]]),
            bounds=[(0, None if np.isinf(end) else end) for end in high] + [(0, None)],
        )
        assert abs(miss - slack.fun) < 1e-7
        start = np.full(records, 1 / records)
        upper = polytope.least_upper_bound(start, 0.0)
        if upper is None:
            assert meets(every, ends=np.full(records, np.inf)).status == 2
        else:
            assert meets(every, ends=start * upper * (1 + 1e-6)).status == 0
            assert meets(every, ends=start * upper * (1 - 1e-4)).status == 2
        return
    assert meets(every).status == 0
    largest = np.array([-meets(every, -unit).fun for unit in np.eye(records)])
    assert np.array_equal(found, largest > 1e-9)
