"""Workload errors, checked by hand on a table of four cells and against plain loops."""

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import ArgumentError, DataError
from pgmest.evaluation import marginal_errors, range_query_mse, total_variation, workload_error
from pgmest.workloads import all_kway, marginals, prefixes, ranges

DOMAIN = pg.Domain({"a": 2, "b": 2})
TRUE = pg.Dataset.from_codes(np.array([[0, 0], [0, 1], [1, 1], [1, 1]]), DOMAIN)  # table [[1, 1], [0, 2]]
ESTIMATE = pg.Dataset.from_codes(np.array([[0, 0], [0, 1], [0, 1], [1, 1]]), DOMAIN)  # table [[1, 2], [0, 1]]


def test_every_normalization_by_hand():
    workload = marginals([("a", "b"), ("b",)], [1.0, 3.0])  # L1 distances 2 and 0
    assert workload_error(TRUE, ESTIMATE, workload) == pytest.approx(2 / (1 * 4 + 3 * 2))
    assert workload_error(TRUE, ESTIMATE, workload, "tv") == pytest.approx(1 / (1 * 4 + 3 * 2))
    assert workload_error(TRUE, ESTIMATE, workload, "l1", "record") == pytest.approx(2 / 4 / (1 + 3))
    assert workload_error(TRUE, ESTIMATE, workload, "tv", "record") == pytest.approx(1 / 4 / (1 + 3))
    sums = prefixes(DOMAIN, ["a"], ["a"])  # true 2, 4; estimated 3, 4
    assert workload_error(TRUE, ESTIMATE, sums, "l1", "answer") == pytest.approx(1 / 6)
    assert workload_error(TRUE, ESTIMATE, sums, "l1", "record") == pytest.approx(1 / 4)


def test_tv_per_record_is_the_mean_total_variation():
    rng = np.random.default_rng(0)
    domain = pg.Domain({"a": 3, "b": 4, "c": 2})
    one, two = (
        pg.Dataset.from_codes(np.stack([rng.integers(0, n, 100) for n in domain.shape], axis=1), domain)
        for _ in range(2)
    )
    pairs = all_kway(domain, 2)
    expected = [total_variation(one.project(clique), two.project(clique)) for clique in pairs.cliques]
    assert workload_error(one, two, pairs, "tv", "record") == pytest.approx(np.mean(expected))
    errors = marginal_errors(one, two, pairs.cliques)
    assert list(errors.values()) == sorted(expected, reverse=True)
    assert errors[("b", "c")] == pytest.approx(total_variation(one.project(("b", "c")), two.project(("b", "c"))))


def test_range_query_mse_by_hand():
    workload = ranges(DOMAIN, ["a"])  # true 2, 4, 2; estimated 3, 4, 1
    assert range_query_mse(TRUE, ESTIMATE, workload) == pytest.approx(2 / 3 / 16)


def test_mistakes_are_named():
    with pytest.raises(ArgumentError, match="norm='l2'"):
        workload_error(TRUE, ESTIMATE, marginals(["a"]), norm="l2")
    with pytest.raises(ArgumentError, match="'query', 'record', 'answer'"):
        workload_error(TRUE, ESTIMATE, marginals(["a"]), per="cell")
    with pytest.raises(ArgumentError, match="positive weight"):
        workload_error(TRUE, ESTIMATE, 0 * marginals(["a"]))
    empty = pg.Dataset.from_codes(np.empty((0, 2), dtype=int), DOMAIN)
    assert workload_error(empty, ESTIMATE, marginals(["a"])) == 2.0
    for call in (
        lambda: workload_error(empty, TRUE, marginals(["a"]), per="record"),
        lambda: range_query_mse(empty, TRUE, marginals(["a"])),
        lambda: marginal_errors(empty, TRUE, ["a"]),
    ):
        with pytest.raises(DataError, match=r"cannot be (relative to|fractions of) them"):
            call()


def test_rescaled_errors_compare_distributions():
    true = pg.Dataset.from_codes(np.array([[0], [1], [1], [1]]), {"a": 2})
    twice = pg.Dataset.from_codes(np.array([[0], [1], [1], [1]] * 2), {"a": 2})
    opposite = pg.Dataset.from_codes(np.array([[0]] * 10), {"a": 2})
    assert marginal_errors(true, twice, ["a"]) == {("a",): 0.5}
    assert marginal_errors(true, twice, ["a"], rescale=True) == {("a",): 0.0}
    assert marginal_errors(true, opposite, ["a"], rescale=True) == {("a",): 0.75}
    empty = pg.Dataset.from_codes(np.empty((0, 1), dtype=int), {"a": 2})
    with pytest.raises(DataError, match="one of the two has no records"):
        marginal_errors(true, empty, ["a"], rescale=True)
