"""The curator: charges before it looks, refuses with nothing spent, and answers with the noise that it states."""

import math

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import (
    ArgumentError,
    BudgetExceeded,
    BudgetTypeError,
    ChargeError,
    DataError,
    DuplicateAttributeError,
    MeasurementError,
    QueryError,
    ScoreError,
    ShapeError,
    UnknownAttributeError,
)
from pgmest.privacy import GDP, AddRemove, ApproxDP, Curator, Epsilon, Replace, Rho, least_error_weights
from pgmest.privacy.scores import Distance, Distances, TableScores
from pgmest.queries import Kron
from pgmest.workloads import Item
from tests.privacy.amounts import rho

DOMAIN = pg.Domain({"a": 3, "b": 4, "c": 2})
DATA = pg.Dataset.from_codes(np.random.default_rng(0).integers(0, DOMAIN.shape, (500, 3)), DOMAIN)
BACKENDS = pytest.mark.parametrize("backend", ["simulation", "opendp"])


def curator(budget, **options):
    return Curator(DATA, budget, **{"backend": "simulation", "seed": 0, **options})


class Sealed:
    """Stands for records that must not be looked at."""

    def __getattr__(self, name):
        raise AssertionError(f"the data was touched: {name}")


def seal(curator):
    domain = curator.domain
    curator._data = Sealed()
    object.__setattr__(curator._data, "domain", domain)
    return curator


@BACKENDS
@pytest.mark.parametrize(
    ("budget", "noise", "stddev"),
    [
        (Rho(0.02), "discrete_gaussian", 5.0),
        (Epsilon(0.5), "discrete_laplace", math.sqrt(0.5) / math.sinh(0.25)),
        (ApproxDP(1.0, 1e-5), "gaussian", 3.7306),
    ],
    ids=str,
)
def test_the_type_of_the_budget_says_which_noise(backend, budget, noise, stddev):
    measurement = curator(budget, backend=backend).measure(("b", "a"), budget)
    assert (measurement.noise, measurement.clique) == (noise, ("b", "a"))
    assert measurement.stddev == pytest.approx(stddev, rel=1e-4)
    residual = measurement.values - DATA.project(("b", "a")).datavector()
    assert 0 < np.abs(residual).max() < 12 * stddev


@BACKENDS
def test_queries_are_answered_about_the_marginal(backend):
    asked = curator(Rho(1e6), backend=backend)
    table = DATA.project(("a", "b"))
    for query in (np.eye(12)[:5], Kron({"b": pg.queries.prefix(4), "a": pg.queries.total(3)}), [[0.5] * 12]):
        measurement = asked.measure(("a", "b"), Rho(1e5), query)
        assert measurement.values == pytest.approx(measurement.answer(table), abs=0.1)
    assert asked.measure((), Rho(1e5)).values == pytest.approx([500], abs=0.1)
    assert asked.count(Rho(1e5)).values == pytest.approx([500], abs=0.1)
    assert [entry.kind for entry in asked.ledger] == ["measure"] * 4 + ["count"]
    assert asked.measurements[2].noise == "gaussian"
    assert asked.ledger[2].parameters["grid"] < 1e-6


def test_measurements_go_into_an_estimate():
    asked = curator(Rho(1.0), neighbors=Replace())
    asked.measure_all([("a", "b"), ("c",)], Rho(1.0))
    model = pg.estimate(asked.measurements, DOMAIN, total=asked.public_total)
    assert model.total == 500
    assert np.abs(model.project(("a",)).values - DATA.project(("a",)).values).max() < 30


def test_a_stddev_costs_what_it_takes():
    asked = curator(Rho(1.0))
    measurement = asked.measure("a", stddev=5.0)
    assert measurement.stddev == pytest.approx(5.0)
    assert rho(asked.spent) == pytest.approx(0.02)
    for options in ({}, {"spend": Rho(0.1), "stddev": 1.0}):
        with pytest.raises(ArgumentError, match="either spend= or stddev="):
            asked.measure("a", **options)


def test_neighbors_set_the_noise():
    spend = Rho(0.5)
    assert curator(spend, neighbors=AddRemove(4)).measure("a", spend).stddev == pytest.approx(4.0)
    assert curator(spend, neighbors=Replace()).measure("a", spend).stddev == pytest.approx(math.sqrt(2))
    exact = curator(spend, neighbors=Replace()).measure("a", spend, pg.queries.total(3))
    assert exact.values == [500.0]
    assert curator(spend).public_total is None
    with pytest.raises(ArgumentError, match="public_total"):
        curator(spend, neighbors=Replace()).count(spend)


def refused_requests():
    return {
        "too much": (lambda c: c.measure("a", Rho(1.1)), BudgetExceeded),
        "too precise": (lambda c: c.measure("a", stddev=0.1), BudgetExceeded),
        "all too much": (lambda c: c.measure_all(["a", "b"], Rho(1.1)), BudgetExceeded),
        "select too much": (lambda c: c.select("xy", lambda data: [0, 1], 1.0, Rho(2.0)), BudgetExceeded),
        "count too much": (lambda c: c.count(Rho(2.0)), BudgetExceeded),
        "release too much": (lambda c: c.release(lambda data, rng: 0, Rho(2.0), label="x"), BudgetExceeded),
        "charge too much": (lambda c: c.charge(Rho(2.0), "x"), BudgetExceeded),
        "wrong type": (lambda c: c.measure("a", Epsilon(0.1)), BudgetTypeError),
        "a number": (lambda c: c.measure("a", 0.1), BudgetTypeError),
        "nothing": (lambda c: c.measure("a", Rho(0.0)), ArgumentError),
        "unknown": (lambda c: c.measure("z", Rho(0.1)), UnknownAttributeError),
        "unknown later": (lambda c: c.measure_all(["a", "z"], Rho(0.1)), UnknownAttributeError),
        "bad query later": (lambda c: c.measure_all(["a", "b"], Rho(0.1), queries=[None, np.eye(3)]), ShapeError),
        "another clique": (lambda c: c.measure("a", Rho(0.1), Kron({"b": np.eye(4)})), MeasurementError),
        "no matrix": (lambda c: c.measure("a", Rho(0.1), [1.0, "x"]), QueryError),
        "weights": (lambda c: c.measure_all(["a", "b"], Rho(0.1), weights=[1.0, 0.0]), ArgumentError),
        "few weights": (lambda c: c.measure_all(["a", "b"], Rho(0.1), weights=[1.0]), ArgumentError),
        "weights too far apart": (
            lambda c: c.measure_all(["a", "b"], Rho(0.1), weights=[1e300, 1e-300]),
            ArgumentError,
        ),
        "a share of nothing": (
            lambda c: c.measure_all(["a", "b"], Rho(0.1), weights=[1.7e308, 5e-324]),
            ArgumentError,
        ),
        "stddev untellable": (
            lambda c: c.measure("a", stddev=1e-160, query=[[1e-170, 0, 0]]),
            (ArgumentError, BudgetExceeded),
        ),
        "query untellable": (lambda c: c.measure("a", Rho(0.5), [[1e-170, 0, 0], [0, 1e-170, 0]]), ArgumentError),
        "query of tiny factors": (
            lambda c: c.measure(("a", "b"), Rho(0.5), Kron({"a": [[1e-100] * 3], "b": [[1e-100] * 4]})),
            ArgumentError,
        ),
        "query too large": (lambda c: c.measure("a", Rho(0.5), [[1e300, 0.5, 0]]), QueryError),
        "values of nothing": (lambda c: c.measure_values(lambda d: [], 0, 1.0, Rho(0.1), label="x"), ArgumentError),
        "values untellable": (
            lambda c: c.measure_values(lambda d: [0.0], 1, 1e-300, Rho(0.1), label="x"),
            ArgumentError,
        ),
        "draws cost more": (
            lambda c: c.draw(lambda d: np.zeros(2, int), 2, 2**20, -20, 5, Rho(0.1), label="x"),
            ChargeError,
        ),
        "draws of nothing": (
            lambda c: c.draw(lambda d: np.zeros(2, int), 2, 0, -20, 5, Rho(0.1), label="x"),
            ArgumentError,
        ),
        "few queries": (lambda c: c.measure_all(["a", "b"], Rho(0.1), queries=[None]), ArgumentError),
        "no candidates": (lambda c: c.select([], lambda data: [], 1.0, Rho(0.1)), ArgumentError),
        "sensitivity": (lambda c: c.select("xy", lambda data: [0, 1], 0.0, Rho(0.1)), ArgumentError),
    }


@pytest.mark.parametrize("name", refused_requests())
def test_a_refusal_spends_nothing_and_touches_nothing(name):
    request, error = refused_requests()[name]
    asked = seal(curator(Rho(1.0)))
    with pytest.raises(error):
        request(asked)
    assert len(asked.ledger) == 0
    assert asked.remaining == Rho(1.0)
    assert asked.measurements == ()


def test_the_ledger_is_charged_before_the_data_is_touched():
    for request in (
        lambda c: c.measure("a", Rho(0.1)),
        lambda c: c.count(Rho(0.1)),
        lambda c: c.select("xy", lambda data: [data.records, 0], 1.0, Rho(0.1)),
        lambda c: c.release(lambda data, rng: data.records, Rho(0.1), label="x"),
    ):
        asked = seal(curator(Rho(1.0)))
        with pytest.raises(AssertionError, match="touched"):
            request(asked)
        assert asked.spent == Rho(0.1)


def test_measure_all_shares_the_spend():
    asked = curator(Rho(1.0))
    first, second = asked.measure_all(["a", "b"], Rho(0.5), weights=[4, 1])
    assert first.stddev == pytest.approx(second.stddev / 2)
    asked.measure_all([("a", "b"), "c", "b"], asked.remaining)
    assert asked.remaining / asked.budget < 1e-12
    assert asked.measure_all([], Rho(0.1)) == []
    assert len(asked.ledger) == 5


def test_least_error_weights_give_the_least_error():
    cliques = [("a",), ("a", "b"), ("a", "b", "c")]
    for budget, power in ((Rho(1.0), 0.5), (Epsilon(1.0), 1.0)):
        best = np.array(least_error_weights(DOMAIN, cliques, type(budget), weights=[1.0, 2.0, 1.0]))
        sizes = np.array([3.0, 24.0, 24.0])

        def error(weights, sizes=sizes, power=power):
            return (sizes * (weights / weights.sum()) ** -power).sum()

        rng = np.random.default_rng(0)
        assert all(error(best) < error(best * np.exp(rng.normal(0, 0.1, 3))) for _ in range(50))
    with pytest.raises(BudgetTypeError):
        least_error_weights(DOMAIN, cliques, float)  # pyright: ignore[reportArgumentType]


@BACKENDS
def test_select_returns_the_element_with_the_high_score(backend):
    asked = curator(Rho(100.0), backend=backend)
    sizes = {"a": 0.0, ("b", "c"): 50.0, "c": 1.0}
    assert asked.select(sizes, lambda data: list(sizes.values()), 1.0, Rho(50.0), label="pair") == ("b", "c")
    assert asked.ledger[0].parameters == {"candidates": 3, "sensitivity": 1.0, "monotone": False}
    with pytest.raises(ShapeError):
        asked.select("xy", lambda data: [1.0], 1.0, Rho(1.0))


def test_simulations_repeat_and_say_that_they_are_insecure():
    one, two = (curator(Rho(1.0)).measure_all(["a", "b"], Rho(1.0)) for _ in range(2))
    assert all(np.array_equal(first.values, second.values) for first, second in zip(one, two, strict=True))
    asked = curator(Rho(1.0))
    asked.measure("a", Rho(0.5))
    assert "INSECURE" in str(asked.ledger)
    assert not np.array_equal(asked.measure("a", Rho(0.5)).values, asked.measurements[0].values)


def test_a_mechanism_of_the_callers_own():
    asked = curator(Rho(1.0), backend="opendp")
    released = asked.release(lambda data, rng: data.records + rng.integers(10), Rho(0.1), label="count")
    assert 500 <= released < 510
    assert asked.ledger[0].insecure
    asked.release(lambda data, rng: 1, Rho(0.1), label="count", secure=True)
    assert not asked.ledger[1].insecure
    assert asked.charge(Rho(0.8), "elsewhere") == asked.ledger[2].cost


def test_progress_is_told_after_each_charge():
    seen = []
    asked = curator(Rho(1.0), on_charge=lambda c: seen.append(c.spent / c.budget))
    asked.measure_all(["a", "b"], Rho(1.0))
    assert seen == pytest.approx([0.5, 1.0])


def test_arguments_that_cannot_be():
    weighted = pg.Dataset.from_codes(DATA.codes, DOMAIN, weights=np.ones(500))
    with pytest.raises(DataError, match="weights"):
        Curator(weighted, Rho(1.0))
    with pytest.raises(ArgumentError, match="data='ndarray'"):
        Curator(DATA.codes, Rho(1.0))  # pyright: ignore[reportArgumentType]
    with pytest.raises(ArgumentError, match="neighbors="):
        Curator(DATA, Rho(1.0), neighbors="add")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ArgumentError, match="budget="):
        Curator(DATA, 1.0)  # pyright: ignore[reportArgumentType]


def test_records_in_an_engine_are_counted_there():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(dict(zip(DOMAIN, DATA.codes.T.tolist(), strict=True))).lazy()
    lazy = Curator(pg.Dataset.from_frame(frame, DOMAIN), Rho(1.0), backend="simulation", seed=0)
    here = curator(Rho(1.0))
    assert np.array_equal(lazy.measure(("a", "c"), Rho(0.5)).values, here.measure(("a", "c"), Rho(0.5)).values)


@BACKENDS
def test_a_query_of_small_entries_gets_the_noise_of_its_rounded_matrix(backend):
    """Entries whose squares underflow: released with noise, never as they are."""
    asked = curator(Rho(1.0), backend=backend)
    measurement = asked.measure("a", Rho(0.01), [[1e-140, 0, 0], [0, 1e-140, 0]])
    assert measurement.stddev == pytest.approx(1e-140 / math.sqrt(0.02), rel=1e-6)
    exact = measurement.answer(DATA.project("a"))
    assert np.abs(measurement.values - exact).min() > 0


@BACKENDS
def test_the_charge_is_compared_with_what_draws_the_noise(backend, monkeypatch):
    asked = seal(curator(Rho(1.0), backend=backend))
    kind = type(asked._backend)
    monkeypatch.setattr(kind, "price", lambda *given: 0.2)
    monkeypatch.setattr(kind, "selection_price", lambda *given: 0.2)
    for request in (
        lambda: asked.measure("a", Rho(0.1)),
        lambda: asked.measure_all(["a", "b"], Rho(0.1)),
        lambda: asked.count(Rho(0.1)),
        lambda: asked.select("xy", lambda data: [0, 1], 1.0, Rho(0.1)),
        lambda: asked.measure_values(lambda data: [0.0], 1, 1.0, Rho(0.1), label="x"),
    ):
        with pytest.raises(ChargeError, match=r"would cost rho 0\.2, but 0\.\d+ is charged"):
            request()
    assert len(asked.ledger) == 0


def test_an_empty_table_under_replace_is_refused_and_otherwise_is_like_any_other():
    none, one = (pg.Dataset.from_codes(np.zeros((records, 3), int), DOMAIN) for records in (0, 1))
    with pytest.raises(ArgumentError, match="nothing to measure"):
        Curator(none, Rho(1.0), neighbors=Replace())
    for data in (none, one):
        asked = Curator(data, Rho(1e-3), backend="simulation", seed=0)
        assert asked.public_total is None
        asked.measure_all(["a", ("a", "b"), ()], Rho(1e-4))
        asked.select("xy", lambda data: [data.records, 0], 1.0, Rho(1e-4))
        asked.measure_values(lambda data: [float(data.records)], 1, 1.0, Rho(1e-4), label="x")
        asked.draw(lambda data: np.array([data.records, 0]), 2, 1, -20, 3, Rho(1e-4), label="x")


@pytest.mark.parametrize(
    "scores",
    [
        lambda data: [0.0, math.nan],
        lambda data: [np.float64(0.0) / data.records, 1.0],
        lambda data: [1 / data.records, 1.0],
        lambda data: [float(data.project("a").values.argmax()), max(data.project("a").values[:0])],
    ],
    ids=["always", "0 / 0", "1 / 0", "the largest of nothing"],
)
@pytest.mark.parametrize("how", ["select", "values"])
def test_scores_that_fail_for_an_empty_table_are_refused_before_anything_is_paid(scores, how):
    asked = seal(curator(Rho(1.0)))
    ask = {
        "select": lambda: asked.select("xy", scores, 1.0, Rho(0.25)),
        "values": lambda: asked.measure_values(scores, 2, 1.0, Rho(0.25), label="x"),
    }[how]
    with np.errstate(all="ignore"), pytest.raises(ArgumentError, match=r"of a table without records .*Nothing was sp"):
        ask()
    assert not asked.spent
    with pytest.raises(ShapeError):
        asked.select("xyz", lambda data: [0.0, 0.0], 1.0, Rho(0.25))
    assert not asked.spent


def test_scores_that_are_no_numbers_of_the_records_alone_are_paid_for_and_refused():
    """Before they are paid for nothing may look; the error says neither which score it was nor how many."""
    asked = curator(Rho(1.0))
    errors = []
    for bad in ([0.0, math.nan], [math.nan, math.nan]):
        with pytest.raises(ScoreError, match="one of 2 scores is not a number") as error:
            asked.select("xy", lambda data, bad=bad: bad if data.records else [0.0, 0.0], 1.0, Rho(0.25))
        errors.append(str(error.value))
    with pytest.raises(ScoreError):
        asked.measure_values(lambda data: [math.nan if data.records else 0.0], 1, 1.0, Rho(0.25), label="x")
    assert asked.spent == Rho(0.75)
    assert errors[0] == errors[1]


@pytest.mark.parametrize(
    "scores",
    [
        Distances(
            {"a": Distance(Item(("a",)), np.array([0.0, math.nan, 1.0])), "b": Distance(Item(("b",)), np.zeros(4))}
        ),
        Distances(
            {"a": Distance(Item(("a",)), np.zeros(3), weight=math.inf), "b": Distance(Item(("b",)), np.zeros(4))}
        ),
        Distances(
            {"a": Distance(Item(("a",)), np.zeros(3)), "b": Distance(Item(("b",)), np.zeros(4), None, 1.0, math.nan)}
        ),
        TableScores(lambda table: float(np.float64(0.0) / table.sum())),
        TableScores(lambda table: float(np.float64(0.0) / (table.max() - table.min()))),
    ],
    ids=["expected", "weight", "expected error", "empty", "even"],
)
def test_scores_that_the_curator_evaluates_are_numbers_of_whatever_records(scores):
    asked = seal(curator(Rho(1.0)))
    candidates = ["a", "b"] if isinstance(scores, Distances) else [("a", "b"), ("b", "c")]
    with np.errstate(all="ignore"), pytest.raises(ArgumentError, match="scores"):
        asked.select(candidates, scores, 1.0, Rho(0.25))
    assert not asked.spent


@pytest.mark.parametrize("sensitivity", [1e-320, 5e-324, 1e-305, 0.0, -1.0, math.inf, math.nan])
def test_a_sensitivity_by_which_scores_cannot_be_divided_is_refused(sensitivity):
    """A sensitivity of 1e-320 would make infinite steps, and 0 times these is not a number."""
    asked = seal(curator(Rho(1.0)))
    with pytest.raises(ArgumentError, match="sensitivity"):
        asked.select("xy", lambda data: [0.0, 1.0], sensitivity, Rho(0.25))
    assert not asked.spent
    fine = curator(Rho(1.0))
    assert fine.select("xy", lambda data: [0.0, 1e-140], 1e-150, Rho(0.5)) == "y"


@pytest.mark.parametrize("budget", [Rho(0.5), GDP(1.0), ApproxDP(1.0, 1e-5), Epsilon(1.0)], ids=str)
@BACKENDS
def test_values_get_the_noise_that_is_paid_for(backend, budget):
    exact = np.array([3.25, -17.0, 1e6])
    found = np.array(
        [
            curator(budget, backend=backend, seed=seed).measure_values(lambda d: exact, 3, 2.0, budget, label="x")
            for seed in range(150)
        ]
    )
    each = {Rho: math.sqrt(3) * 2, GDP: math.sqrt(3) * 2, Epsilon: 6 * math.sqrt(2)}.get(
        type(budget), math.sqrt(3) * 2 * 3.7306
    )
    assert (found - exact).std() == pytest.approx(each, rel=0.2)
    assert np.abs((found - exact).mean(axis=0)).max() < 5 * each / math.sqrt(150)


def test_a_gaussian_budget_takes_less_noise():
    one, two = GDP.of(1.0, 1e-9), Rho.of(1.0, 1e-9)
    less = curator(one).measure("a", one).stddev / curator(two).measure("a", two).stddev
    assert 0.93 < less < 0.96
    asked = curator(one)
    measurement = asked.measure("a", stddev=100.0)
    assert measurement.stddev == pytest.approx(100.0, rel=1e-4)
    assert isinstance(asked.spent, GDP)
    assert asked.spent.mu == pytest.approx(0.01, rel=1e-4)


@BACKENDS
def test_a_gaussian_budget_pays_for_choices_by_their_bounded_range(backend):
    """The choice of a range that is mu-GDP, which in rho would cost less than mu^2 / 2."""
    asked = curator(GDP(4.0), backend=backend)
    picked = [asked.select("xy", lambda data: [0.0, 30.0], 1.0, GDP(0.04), monotone=True) for _ in range(50)]
    assert picked.count("y") > 45  # epsilon 0.32, so a score of 30 is 14,000 times as likely
    assert isinstance(asked.spent, GDP)
    assert asked.spent.mu_squared == pytest.approx(50 * 0.04)
    drawn = asked.draw(lambda data: np.array([0, 2**20]), 2, 2**14, -20, 3, GDP(0.01), label="x")
    assert set(drawn) <= {0, 1}
    with pytest.raises(ChargeError):  # a range of 1 / 32 is 0.0196-GDP, and would be 0.0156 if all were normal
        asked.draw(lambda data: np.array([0, 1]), 2, 2**14, -20, 3, GDP(0.001), label="x")


def test_a_unit_raises_the_relation_of_a_curator():
    """Without a mechanism in between, too: one person's eight records are protected together."""
    codes = [np.array([0, 1, 1, 0])]
    data = pg.Dataset.from_codes(codes, {"sex": 2}, trusted=True, records_per_person=8)
    plain = Curator(pg.Dataset.from_codes(codes, {"sex": 2}), Rho(0.5), backend="simulation", seed=0)
    curator = Curator(data, Rho(0.5), backend="simulation", seed=0)
    assert curator.neighbors == AddRemove(8)
    asked, before = curator.measure("sex", Rho(0.5)), plain.measure("sex", Rho(0.5))
    assert asked.stddev == pytest.approx(8 * before.stddev)
    assert Curator(data, Rho(0.5), neighbors=AddRemove(20)).neighbors == AddRemove(20)
    with pytest.raises(ArgumentError, match="AddRemove where the schema has a unit"):
        Curator(data, Rho(0.5), neighbors=Replace())


TREE = pg.Hierarchy("b", {"half": [0, 0, 1, 1], "town": ["x", "x", "y", "z"]})
AREAS = pg.Domain({"a": 3, "b": 4, "c": 2}).with_hierarchies(TREE)
BY_AREA = pg.Dataset.from_codes(np.random.default_rng(0).integers(0, AREAS.shape, (500, 3)), AREAS)
BY_HALF = BY_AREA.project(("b", "c")).values.reshape(2, 2, 2).sum(axis=1)


def test_levels_are_measured_like_any_marginal_of_their_attribute():
    """The noise is that of a marginal, and so is the cost."""
    curator = Curator(BY_AREA, Rho(1.0), backend="simulation", seed=0)
    found = curator.measure(("b@half", "c"), Rho(0.3))
    assert found.clique == ("b", "c")
    assert found.stddev == curator.measure(("b", "c"), Rho(0.3)).stddev
    assert np.abs(found.values - BY_HALF.reshape(-1)).max() < 10
    swapped, contrast = curator.measure_all([("c", "b@half"), "b@town"], Rho(0.2), queries=[None, [[1, -1, 0]]])
    assert np.abs(swapped.values - BY_HALF.T.reshape(-1)).max() < 15
    assert contrast.values.shape == (1,)
    assert [entry.label for entry in curator.ledger] == ["b@half x c", "b x c", "c x b@half", "b@town"]
    assert curator.remaining == Rho(0.2)
    model = pg.estimate(curator.measurements, AREAS)
    assert np.abs(model.project(("b@half", "c")).values - BY_HALF).max() < 10


def test_the_noise_of_levels_is_enough_for_all_neighbors():
    """No record more moves the answers of a level by more than the sensitivity that the noise is made for."""
    query = Curator(BY_AREA, Rho(1.0), backend="simulation").measure(("b@town", "c"), Rho(0.1)).query
    moves = np.asarray(query.matrix())
    assert np.linalg.norm(moves, axis=0).max() == 1.0
    assert max(np.linalg.norm(one - other) for one in moves.T for other in moves.T) == pytest.approx(np.sqrt(2))


@pytest.mark.parametrize("fixed", [("b",), ("b@town",), ("c", "b@town"), ("b@half",)], ids=" x ".join)
def test_levels_that_invariants_determine_cost_nothing(fixed):
    curator = Curator(BY_AREA, Rho(1.0), neighbors=Replace(), backend="simulation", invariants=[fixed])
    found = curator.measure("b@half", Rho(0.1), [[2, 3]])
    assert found.values == pytest.approx([[2, 3] @ BY_HALF.sum(axis=1)])
    assert curator.remaining == Rho(1.0)
    finer = curator.measure(("b@town", "c"), Rho(0.1))
    assert finer.noisy == (fixed != ("c", "b@town"))
    assert curator.measure("b", Rho(0.1)).noisy == (fixed != ("b",))


@pytest.mark.parametrize("wrong", ["b@third", "a@half", ("b@half", "b"), ("b@half", "b@town")], ids=str)
def test_levels_that_do_not_fit_are_refused_before_anything_is_paid(wrong):
    curator = Curator(BY_AREA, Rho(1.0), backend="simulation")
    with pytest.raises((UnknownAttributeError, DuplicateAttributeError)):
        curator.measure(wrong, Rho(0.1))
    with pytest.raises((UnknownAttributeError, DuplicateAttributeError)):
        curator.measure_all(["a", wrong], Rho(0.1))
    assert curator.remaining == Rho(1.0)
