"""Facts: every solver, oracle and kind of model meets exact answers to 1e-9 of the total, at the optimum."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import pgmest as pg
from pgmest.inference.support.support import Support
from pgmest.solvers import SOLVERS

exact = pg.LinearMeasurement.exact
HELD = 1e-9


def violation(model, facts):
    """Return the largest difference between a model's answers and the facts, as a share of the total."""
    off = [np.abs(fact.answer(model.project(fact.clique)) - fact.values)[fact.exact_rows].max() for fact in facts]
    return max(off) / max(model.total, 1.0)


@st.composite
def problems(draw):
    """Draw a domain, a true table with empty cells, facts about it (tables, parts of tables, queries), noisy tables."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=2, max_size=3))
    domain = pg.Domain({name: size for name, size in zip("abc", sizes, strict=False)})
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    counts = rng.poisson(draw(st.sampled_from([0.7, 5.0, 200.0])), domain.shape).astype(float)
    truth = pg.Factor(domain, counts if counts.any() else counts + 1.0)
    names = list(domain)
    cliques = [tuple(names[:2]), tuple(names[1:]), (names[0],), (names[-1],)]
    facts = []
    for clique in draw(st.lists(st.sampled_from(cliques), min_size=1, max_size=3, unique=True)):
        table = truth.project(clique)
        kind = draw(st.sampled_from(["table", "part", "query"]))
        if kind == "table":
            facts.append(exact(table.values, clique))
        elif kind == "part":
            known = np.union1d(np.flatnonzero(rng.random(table.values.size) < 0.5), [0])
            facts.append(exact(table.datavector()[known], clique, np.eye(table.values.size)[known]))
        else:
            query = rng.integers(0, 3, (2, table.values.size)).astype(float)
            facts.append(exact(query @ table.datavector(), clique, query))
    noise = float(draw(st.sampled_from([0.3, 3.0, 30.0])))
    noisy = [
        pg.LinearMeasurement(t + rng.normal(0, noise, t.shape), clique, noise)
        for clique in cliques[:2]
        for t in [truth.project(clique).values]
    ]
    return domain, truth, facts, noisy


def optimum(domain, total, facts, noisy):
    """Return the least loss over tables that meet the facts, by a quadratic program over the joint table."""

    def rows(measurement):
        units = np.eye(domain.size()).reshape(-1, *domain.shape)
        return np.stack([measurement.answer(pg.Factor(domain, unit)) for unit in units], axis=1)

    loss = [(rows(m) / m.stddev, m.values / m.stddev) for m in noisy]
    equal = np.vstack([rows(m) for m in facts] + [np.ones((1, domain.size()))])
    right = np.concatenate([m.values for m in facts] + [[total]])
    basis, values, _ = np.linalg.svd(equal, full_matrices=False)  # redundant equations stop SLSQP
    keep = values > 1e-9 * values.max()
    matrix = (basis[:, keep].T @ equal) / total
    target = basis[:, keep].T @ right / total

    def value(x):
        return sum(0.5 * np.sum((q @ x - y) ** 2) for q, y in loss)

    def gradient(x):
        return sum(q.T @ (q @ x - y) for q, y in loss)

    found = minimize(
        value,
        np.full(domain.size(), total / domain.size()),
        jac=gradient,
        bounds=[(0.0, None)] * domain.size(),
        constraints={"type": "eq", "fun": lambda x: matrix @ x - target, "jac": lambda x: matrix},
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
    )
    return found.fun if found.success else None


@settings(deadline=None, max_examples=25)
@given(problems())
def test_facts_hold_and_the_loss_is_that_of_the_quadratic_program(problem):
    domain, truth, facts, noisy = problem
    total = float(truth.values.sum())
    model = pg.estimate([*facts, *noisy], domain, total=total)
    assert violation(model, facts) <= HELD
    assert model.report.converged, model.report
    assert model.total == total
    best = optimum(domain, total, facts, noisy)
    if best is not None:
        assert model.report.loss - model.report.gap <= best * (1 + 1e-6) + 1e-6
        assert model.report.loss <= best * 1.01 + 0.02 * sum(m.rows for m in noisy)


@settings(deadline=None, max_examples=10)
@given(problems(), st.sampled_from([name for name in SOLVERS if name not in ("ipf", "smoothing")]))
def test_facts_hold_in_every_solver(problem, method):
    domain, truth, facts, noisy = problem
    total = float(truth.values.sum())
    try:
        model = pg.estimate([*facts, *noisy], domain, total=total, method=method, max_iterations=30)
    except pg.errors.ArgumentError:
        assert method == "proximal_point"
        assert any(fact.query is not None for fact in facts)
        return
    assert violation(model, facts) <= HELD


@pytest.mark.parametrize("loss", ["l2", "l1", "huber", "likelihood"])
def test_facts_hold_beside_every_loss(loss):
    rng = np.random.default_rng(0)
    table = rng.poisson(20, (4, 3)).astype(float)
    noisy = pg.LinearMeasurement(table + rng.laplace(0, 5, table.shape), ("a", "b"), 7.0, noise="laplace")
    fact = exact(table.sum(1), "a")
    model = pg.estimate([noisy, fact], {"a": 4, "b": 3}, loss=loss)
    assert violation(model, [fact]) <= HELD
    assert model.report.converged


def test_facts_hold_on_graphs_of_regions():
    rng = np.random.default_rng(1)
    truth = pg.Factor(pg.Domain({"a": 3, "b": 3, "c": 3}), rng.poisson(30, (3, 3, 3)).astype(float))
    noisy = [
        pg.LinearMeasurement(truth.project(c).values + rng.normal(0, 5, (3, 3)), c, 5.0)
        for c in (("a", "b"), ("b", "c"), ("a", "c"))
    ]
    facts = [exact(truth.project("a").values, "a"), exact(truth.project("c").values, "c")]
    model = pg.estimate([*noisy, *facts], truth.domain, oracle="convex")
    assert violation(model, facts) <= HELD


def test_facts_hold_on_a_support():
    rng = np.random.default_rng(2)
    domain = pg.Domain({"a": 4, "b": 3})
    codes = np.stack([rng.integers(0, 4, 200), rng.integers(0, 3, 200)])
    public = pg.Dataset(domain, tuple(codes), 200)
    facts = [exact([10, 20, 30, 40], "a"), exact([50, 25, 25], "b")]
    model = pg.estimate(facts, domain, prior=Support(public))
    assert violation(model, facts) <= HELD
    assert model.report.converged


def test_a_fact_that_no_record_of_a_support_gives_is_not_called_converged():
    domain = pg.Domain({"a": 2})
    public = pg.Dataset(domain, (np.zeros(5, dtype=np.int64),), 5)
    model = pg.estimate([exact([1, 2], "a")], domain, prior=Support(public))
    assert not model.report.converged
    assert "exact answers are not met" in str(model.report)


def test_an_exact_count_holds_beside_a_precise_answer():
    model = pg.estimate([exact([100, 200], "a"), pg.LinearMeasurement([110.0, 190.0], "a", stddev=1e-6)], {"a": 2})
    assert np.allclose(model.project("a").values, [100, 200], rtol=0, atol=1e-7)
    assert model.report.converged


@pytest.mark.parametrize("stddev", [0.0, 1e-4, 1e-2, 1.0])
def test_precise_totals_do_not_make_noisy_tables_worse(stddev):
    rng = np.random.default_rng(0)
    truth = rng.poisson(rng.lognormal(3, 2, (20, 30))).astype(float)
    states = truth.sum(1)
    noisy = [pg.LinearMeasurement(truth + rng.normal(0, 20, truth.shape), ("state", "race"), 20.0)]
    more = exact(states, "state") if stddev == 0 else pg.LinearMeasurement(states, "state", stddev)
    plain, model = (pg.estimate(noisy + added, {"state": 20, "race": 30}) for added in ([], [more]))
    error, before = (np.abs(m.project(("state", "race")).values - truth).mean() for m in (model, plain))
    assert error <= 1.02 * before
    assert model.report.converged


def test_contradicting_facts_are_named_before_anything_is_solved():
    called = []
    with pytest.raises(pg.errors.InconsistentMeasurementsError, match=r"measurements\[0\]") as caught:
        pg.estimate([exact([1, 3], "a"), exact([5, 10], "b")], {"a": 2, "b": 2}, callback=called.append)
    assert not called
    assert {position for position, _ in caught.value.answers} == {0, 1}


def test_facts_of_zero_are_structural_zeros():
    model = pg.estimate([exact([[0, 5], [5, 0]], ("a", "b"))], {"a": 2, "b": 2, "c": 2})
    assert model.project(("a", "b")).values[0, 0] == 0.0
    assert np.isneginf(model.potentials[("a", "b")].values[0, 0])


def test_a_zero_that_follows_from_facts_and_structural_zeros_is_met():
    zeros = [pg.zeros.impossible(("a", "b"), [(0, 1)])]
    facts = [exact([3, 4], "a"), exact([3, 4], "b")]  # so (1, 0) is empty, too
    model = pg.estimate(facts, {"a": 2, "b": 2}, structural_zeros=zeros)
    assert violation(model, facts) <= HELD
    assert np.allclose(model.project(("a", "b")).values, [[3, 0], [0, 4]], rtol=0, atol=1e-7)


def test_facts_alone_give_the_distribution_of_iterative_proportional_fitting():
    seed = np.array([[40.0, 30, 0, 10], [35, 50, 100, 75], [30, 80, 70, 120], [20, 30, 40, 50]])
    facts = [exact([150, 300, 400, 150], "r"), exact([200, 300, 400, 100], "c")]
    fitted = seed.copy()
    for _ in range(500):
        fitted *= (np.array([150, 300, 400, 150]) / fitted.sum(1))[:, None]
        fitted *= np.array([200, 300, 400, 100]) / fitted.sum(0)
    model = pg.estimate(facts, {"r": 4, "c": 4}, prior=pg.Factor(pg.Domain({"r": 4, "c": 4}), seed))
    assert np.allclose(model.project(("r", "c")).values, fitted, rtol=0, atol=1e-6)
    assert model.report.converged


def test_error_bars_by_refitting_keep_the_facts():
    rng = np.random.default_rng(3)
    table = rng.poisson(50, (3, 4)).astype(float)
    noisy = pg.LinearMeasurement(table + rng.normal(0, 10, table.shape), ("a", "b"), 10.0)
    fact = exact(table.sum(1), "a")
    model = pg.estimate([noisy, fact], {"a": 3, "b": 4})
    again, total, report = model.refit.repeat([noisy, fact], model.refit.oracle(), 1e-3)
    assert report.converged
    assert total == model.total
    assert np.allclose(pg.marginals(again, total)[("a",)].values, table.sum(1), rtol=0, atol=1e-6)


def test_a_saved_model_keeps_the_facts(tmp_path):
    facts = [exact([40, 60], "a"), exact([30, 70], "b")]
    model = pg.estimate(facts, {"a": 2, "b": 2})
    model.save(tmp_path / "m.npz")
    assert violation(pg.load(tmp_path / "m.npz"), facts) <= HELD


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e5])
def test_the_unit_and_the_signs_of_a_query_make_no_difference(unit):
    domain = {"a": 3, "b": 2}
    table = np.array([[1.0, 5.0], [4.0, 0.0], [2.0, 1.0]])
    rows = unit * np.array([[-1.0, 2.0, 0.0, 0.0, 0.0, 0.0], [-2.0, 2.0, -2.0, 0.0, 1.0, 0.0]])
    fact = exact(rows @ table.reshape(-1), ("a", "b"), rows)
    noisy = pg.LinearMeasurement(table + np.array([[1.0, -2.0], [3.0, 0.5], [0.0, -1.0]]), ("a", "b"), 1.0)
    model = pg.estimate([fact, noisy], domain, total=13.0)
    assert model.report.converged
    assert np.abs(fact.answer(model.project(("a", "b"))) - fact.values).max() <= 2 * unit * HELD * 13


def test_an_estimated_total_is_one_that_facts_allow():
    """Two facts of sums over part of the cells allow for at most 13 records, of which noisy answers report 15."""
    rows = np.array([[1.0, 1, 0, 0, 0, 1, 1, 1], [0, 1, 1, 1, 1, 1, 0, 1]])
    fact = exact([4.0, 9.0], ("a", "b"), rows)
    noisy = pg.LinearMeasurement([0.0, 9.7, 0.0, 5.3], "a", 0.1)
    model = pg.estimate([fact, noisy], {"a": 4, "b": 2})
    assert model.report.converged
    assert 9.0 <= model.total <= 13.0
    assert violation(model, [fact]) <= HELD


def test_facts_that_together_determine_the_total_overrule_noisy_ones():
    facts = [exact([27.0], "c", [[1.0, 1.0, 0.0]]), exact([9.0], ("a", "c"), [[0.0, 0.0, 1.0, 0.0, 0.0, 1.0]])]
    noisy = pg.LinearMeasurement([[7.1, 5.0, 6.0], [9.9, 5.6, 5.0]], ("a", "c"), 0.1)
    model = pg.estimate([*facts, noisy], {"a": 2, "c": 3})
    assert model.report.converged
    assert np.isclose(model.total, 36.0, rtol=1e-9)
    assert violation(model, facts) <= HELD


def test_cells_that_signed_facts_leave_empty_are_found():
    """Twice the second cell less the first is as low as it can be: the second cell is empty."""
    facts = [exact([3.0], ("a", "b"), [[1.0, 1.0]]), exact([-3.0], "b", [[-1.0, 2.0]])]
    model = pg.estimate(facts, {"a": 1, "b": 2})
    assert model.report.converged
    assert model.project("b").values[1] == 0.0
    assert violation(model, facts) <= HELD


@pytest.mark.parametrize("stddev", [1e-4, 1.0])
def test_noisy_answers_that_facts_determine_leave_nothing_to_minimize(stddev):
    fact = exact([[3.0, 1.0], [4.0, 0.0]], ("a", "b"))
    noisy = pg.LinearMeasurement([4.6, 3.5], "a", stddev)
    model = pg.estimate([fact, noisy, exact([-4.0], "a", [[0.0, -1.0]])], {"a": 2, "b": 2})
    assert model.report.converged
    assert model.report.iterations <= 1
    assert violation(model, [fact]) <= HELD


def test_facts_in_single_precision_are_reconciled():
    table = np.array([[13.0, 5.0], [4.0, 9.0], [9.0, 10.0]]) / 50 * 1234567
    facts = [exact(table.astype(np.float32), ("a", "b")), exact(table.sum(0).astype(np.float32), "b")]
    for noisy in ([], [pg.LinearMeasurement(np.array([[3e5, 4e5], [2e5, 3e5]]), ("b", "c"), 100.0)]):
        model = pg.estimate([*facts, *noisy], {"a": 3, "b": 2, "c": 2})
        assert model.report.converged
        assert violation(model, facts) <= 1e-7
        assert model.report.oracle_calls < 2000


def test_the_last_run_meets_facts_that_empty_a_cell():
    facts = [
        exact([[1.0, 0.0, 4.0]], ("a", "b")),
        exact([15.0], "b", [[3.0, -3.0, 3.0]]),
        exact([4.0, 5.0, 4.0], ("a", "b"), [[0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [0.0, 0.0, 1.0]]),
    ]
    noisy = pg.LinearMeasurement([1.3232531290929226, -0.5891523221435176, 4.434517618498518], "b", 0.1)
    model = pg.estimate([*facts, noisy], {"a": 1, "b": 3})
    assert model.report.converged
    assert violation(model, facts) <= HELD


def test_sums_that_end_with_all_records_are_as_easy_as_those_that_do_not():
    """The multiplier of the number of records changes nothing, so that steps along it are rounding errors."""
    domain = pg.Domain({"a": 5, "b": 2, "c": 3})
    counts = np.random.default_rng(0).poisson(20.0, domain.shape).astype(float)
    truth, sums, difference = pg.Factor(domain, counts), np.tril(np.ones((5, 5))), np.array([[1.0, -1.0]])
    noisy = [pg.LinearMeasurement(truth.project(pair).values + 3.0, pair, 3.0) for pair in (("a", "b"), ("b", "c"))]
    beside = exact(difference @ truth.project("b").values, ("b",), difference)
    calls = []
    for rows in (5, 4):
        known = [exact(sums[:rows] @ truth.project("a").values, ("a",), sums[:rows]), beside]
        model = pg.estimate([*known, *noisy], domain, total=counts.sum(), method="mirror_flow")
        assert violation(model, known) <= HELD
        calls.append(model.report.oracle_calls)
    assert calls[0] <= 1.5 * calls[1]
    with pytest.raises(pg.errors.InconsistentMeasurementsError):
        pg.estimate([*known, exact([1.0 + counts.sum()], ("a",), np.ones((1, 5))), *noisy], domain, total=counts.sum())
