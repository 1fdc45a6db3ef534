"""MWEM: its budget, what it chooses and measures, its three estimators, and what it refuses."""

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import ArgumentError
from pgmest.evaluation.workload_error import workload_error
from pgmest.mechanisms import MWEM
from pgmest.mechanisms.exponential_selection import distances
from pgmest.mechanisms.mwem.candidates import candidates_of
from pgmest.mechanisms.mwem.multiplicative_weights import MultiplicativeWeights
from pgmest.privacy import AddRemove, Epsilon, Replace, Rho
from pgmest.workloads import Item
from tests.mechanisms.auditing import audit_mechanism
from tests.privacy.interrupted import interrupted_after

DOMAIN = pg.Domain({"a": 3, "b": 2, "c": 4, "d": 2})
ESTIMATORS = [
    {"estimator": "pgm"},
    {"estimator": "original"},
    {"estimator": "original", "factored": False},
]


def records(count=2000, seed=0):
    """Records whose attributes depend on one another along a chain."""
    rng = np.random.default_rng(seed)
    a = rng.choice(3, count, p=[0.6, 0.3, 0.1])
    b = (rng.random(count) < np.array([0.9, 0.2, 0.5])[a]).astype(int)
    c = (b * 2 + rng.choice(2, count, p=[0.8, 0.2])) % 4
    d = (rng.random(count) < np.array([0.1, 0.5, 0.8, 0.9])[c]).astype(int)
    return pg.Dataset.from_codes(np.stack([a, b, c, d], axis=1), DOMAIN)


def mechanism(**changes):
    return MWEM(**{"epsilon": 1.0, "delta": 0, "backend": "simulation", **changes})


def fit(data=None, workload=None, seed=0, **changes):
    return mechanism(**changes).fit(records() if data is None else data, workload, seed=seed, progress=False)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("stated", [{}, {"delta": 1e-6}, {"epsilon": None, "delta": None, "rho": 0.1}])
@pytest.mark.parametrize("neighbors", [AddRemove(), Replace(records=2)])
def test_the_whole_budget_is_spent_and_no_more(estimator, stated, neighbors):
    result = fit(rounds=3, neighbors=neighbors, **estimator, **stated)
    assert result.ledger.total <= result.ledger.budget
    assert result.ledger.remaining / result.ledger.budget < 1e-9
    assert len(result.details["chosen"]) == 3
    assert float(result.project(())) == pytest.approx(2000, rel=0.3)


def test_rounds_default_to_the_fewer_of_items_and_attributes():
    assert fit().details["rounds"] == 4
    assert fit(workload=[("a", "b"), ("c", "d")]).details["rounds"] == 2


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_with_budget_to_burn_the_worst_item_is_chosen_first_and_learnt(estimator):
    data = records()
    uniform = pg.Model(pg.CliqueVector.zeros(DOMAIN, []), 2000.0)
    pairs = pg.workloads.all_kway(DOMAIN, 2)
    errors = {
        item.clique: np.abs(item.answer(uniform.project(item.clique)) - item.answer(data.project(item.clique)))
        for item in pairs
    }
    result = fit(data, pairs, epsilon=60.0, rounds=1, **estimator)
    assert result.details["chosen"] == [max(errors, key=lambda clique: errors[clique].sum())]
    full = fit(data, pairs, epsilon=60.0, rounds=12, **estimator)
    before = workload_error(data, uniform, pairs)
    assert workload_error(data, full, pairs) < (0.02 if estimator["estimator"] == "pgm" else 0.95) * before


def test_the_graphical_model_is_better_than_multiplicative_weights():
    data, workload = records(), pg.workloads.all_kway(DOMAIN, 2)
    errors = {
        estimator: [workload_error(data, fit(data, workload, seed, estimator=estimator), workload) for seed in range(6)]
        for estimator in ("pgm", "original")
    }
    assert np.mean(errors["pgm"]) < 0.8 * np.mean(errors["original"])


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_ranges_and_prefixes_are_learnt(estimator):
    data = records()
    workload = (
        pg.workloads.prefixes(DOMAIN, [("a", "b"), ("c", "d")], ["a", "c"])
        + pg.workloads.ranges(DOMAIN, ["c"])
        + pg.workloads.random_ranges(DOMAIN, 2, 5, seed=0)
    )
    uniform = pg.Model(pg.CliqueVector.zeros(DOMAIN, []), 2000.0)
    result = fit(data, workload, epsilon=20.0, rounds=6, **estimator)
    assert workload_error(data, result, workload) < 0.9 * workload_error(data, uniform, workload)
    single = [measurement for measurement in result.measurements if measurement.rows == 1 and measurement.clique]
    assert all(measurement.query is not None for measurement in single)


def test_what_is_measured_leaves_less_error_and_scores_move_by_their_sensitivity():
    items = [
        Item(("c",)),
        Item(("c",), pg.queries.prefix(4), weight=2.0),
        Item(("a", "c"), pg.Kron({"a": pg.queries.total(3), "c": [[1, 1, 0, 0]]})),
    ]
    found = candidates_of(items, DOMAIN, Epsilon(1.0), AddRemove(), penalty=True)
    assert [candidate.measured for candidate in found[:2]] == [None, None]
    assert found[2].measured is items[2].query
    assert [candidate.weight for candidate in found] == [1.0, 2.0 / 4.0, 1.0]
    assert [candidate.sensitivity for candidate in found] == [1.0, 2.0, 1.0]
    (distance,) = distances([found[1]], pg.Dataset.from_codes(np.zeros((0, 4), int), DOMAIN)).of.values()
    assert distance.score(np.full(4, found[1].expected_error / 4 + 2.0)) == pytest.approx(4.0)
    rng, trials = np.random.default_rng(0), 4000
    noise = rng.laplace(scale=1.0, size=(trials, 4))
    assert found[0].expected_error == pytest.approx(np.sqrt(4 / np.pi) * np.sqrt(2) / np.sqrt(2) * 4, rel=0.3)
    simulated = np.abs(np.cumsum(noise, axis=1)).sum(axis=1).mean()
    assert found[1].expected_error == pytest.approx(simulated, rel=0.1)
    assert not candidates_of([Item(("c",), weight=0.0)], DOMAIN, Rho(1.0), AddRemove(), penalty=True)
    assert candidates_of(items, DOMAIN, Rho(1.0), AddRemove(), penalty=False)[0].expected_error == 0


@pytest.mark.parametrize("estimator", ESTIMATORS[:2])
def test_tables_stay_within_the_limit(estimator):
    result = fit(rounds=8, epsilon=100.0, max_megabytes=20 * 8e-6, **estimator)
    assert result.model.junction_tree.total_cells <= 20


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_limit_that_no_item_fits_is_refused_before_anything_is_spent(estimator):
    charged = []
    with pytest.raises(ArgumentError) as error:
        mechanism(max_megabytes=1e-6, **estimator).fit(records(), None, seed=0, progress=charged.append)
    assert str(error.value) == "max_megabytes=1e-06 is not valid: it must be large enough for an item of the workload."
    assert not charged


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_seed_repeats_a_run_and_a_checkpoint_resumes_it(tmp_path, estimator):
    path = tmp_path / "run.jsonl"
    one, data = mechanism(rounds=4, **estimator), records()
    first = one.fit(data, seed=3, progress=False, checkpoint=path)
    interrupted_after(path, len(path.read_text().splitlines()) // 2)
    second = one.fit(data, seed=3, progress=False, checkpoint=path)
    assert first.details == second.details
    np.testing.assert_array_equal(first.project(("a", "d")).values, second.project(("a", "d")).values)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_an_interruption_keeps_what_was_paid_for(monkeypatch, estimator):
    measure, calls = pg.privacy.Curator.measure, []

    def interrupted(*args, **kwargs):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return measure(*args, **kwargs)

    monkeypatch.setattr(pg.privacy.Curator, "measure", interrupted)
    result = fit(rounds=4, epsilon=100.0, **estimator)
    assert result.interrupted
    measured = result.measurements[1].clique
    truth = records().project(measured).values
    uniform = 2000.0 / truth.size
    assert np.abs(result.project(measured).values - truth).sum() < 0.95 * np.abs(uniform - truth).sum()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"rounds": 0}, "rounds=0 is not valid: it must be a positive integer, or None."),
        ({"replays": 1.5}, "replays=1.5 is not valid: it must be a positive integer."),
        ({"measuring_share": 1.0}, "measuring_share=1.0 is not valid: it must be a share between 0 and 1."),
        ({"max_megabytes": 0}, "max_megabytes=0 is not valid: it must be a positive number."),
        ({"estimator": "lls"}, "estimator='lls' is not valid: it must be one of 'pgm', 'original'."),
    ],
)
def test_parameters_are_checked(changes, text):
    with pytest.raises(ArgumentError) as error:
        mechanism(**changes)
    assert str(error.value) == text


@pytest.mark.parametrize("budget", [{"epsilon": 2.0}, {"epsilon": None, "delta": None, "rho": 0.5}])
def test_an_audit_does_not_contradict_the_ledger(budget):
    audited = mechanism(rounds=2, replays=1, estimator="original", **budget)
    assert not audit_mechanism(audited, trials=70).contradicts(audited.budget())


# -- multiplicative weights -------------------------------------------------------------------------------------------


def test_updates_of_components_are_those_of_the_full_vector():
    """Attributes that no measurement connects stay independent in the full vector, too."""
    measurements = [
        pg.LinearMeasurement([[400, 90], [310, 10], [120, 70]], ("a", "b"), stddev=1.0),
        pg.LinearMeasurement([600, 1000], ("d",), stddev=1.0, query=[[1, 0], [1, 1]]),
        pg.LinearMeasurement([[500, 0], [200, 300]], ("d", "b"), stddev=1.0),
    ]
    factored = MultiplicativeWeights(DOMAIN, [(name,) for name in DOMAIN], 1000.0)
    full = MultiplicativeWeights(DOMAIN, [DOMAIN.attributes], 1000.0)
    for measurement in measurements:
        before = full.tables[0].copy()
        for weights in (factored, full):
            weights.update(measurement)
        marginal = pg.Factor(DOMAIN, before).project(measurement.clique)
        matrix = np.eye(marginal.values.size) if measurement.query is None else measurement.query.matrix()
        slope = matrix.T @ (measurement.values.reshape(-1) - matrix @ (1000 * marginal.datavector()))
        curvature = np.square(matrix).sum(axis=0).max()
        exponents = pg.Factor(marginal.domain, (slope / (2 * 1000 * curvature)).reshape(marginal.values.shape))
        by_hand = before * np.exp(exponents.expand(DOMAIN).values)
        np.testing.assert_allclose(full.tables[0], by_hand / by_hand.sum(), rtol=1e-12)
    for clique in (("a", "c"), ("b", "d"), ("a", "b", "c", "d")):
        np.testing.assert_allclose(
            factored.model().project(clique).values, full.model().project(clique).values, rtol=1e-9
        )
    assert factored.components == (("c",), ("a", "b", "d"))
    assert factored.cells_with(("c", "a")) == full.cells_with(("a",)) == 48


def test_weights_that_all_but_vanish_come_back():
    weights = MultiplicativeWeights(pg.Domain({"a": 2}), [("a",)], 1.0)
    for values in ([1e6, 0.0], [0.0, 1e6], [0.0, 1e6]):
        weights.update(pg.LinearMeasurement(values, ("a",), stddev=1.0))
    assert weights.model().project(("a",)).values == pytest.approx([0.0, 1.0])
