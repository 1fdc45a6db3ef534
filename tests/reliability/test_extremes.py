"""Very wide, very narrow, empty, huge: ordinary answers, or an error of pgmest; nothing is charged for an error."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest.errors import MOST_AXES, ArgumentError, MeasurementError, ModelTooLarge, PgmestError
from pgmest.privacy import ApproxDP, Curator, Epsilon, Rho

HUGE = pg.Domain({f"x{i}": 10 for i in range(300)})
"""1e300 records are possible."""


@pytest.fixture(scope="module")
def chain() -> Any:
    """A model of HUGE."""
    names = HUGE.attributes
    values = np.full((10, 10), 5.0) + 20 * np.eye(10)
    return pg.estimate([pg.LinearMeasurement(values, pair) for pair in itertools.pairwise(names)], HUGE)


class TestHugeDomain:
    def test_what_is_small_about_it_is_answered(self, chain: Any) -> None:
        assert HUGE.size() == 10**300
        assert chain.project(("x0", "x299")).values.sum() == pytest.approx(chain.total)
        assert chain.sample(20, seed=0).codes.shape == (20, 300)
        assert len(chain.map_record()) == 300
        assert np.isfinite(chain.entropy())
        assert "300 attributes" in repr(chain)
        assert str(chain.junction_tree)

    @pytest.mark.parametrize(
        "ask",
        [
            lambda model: model.project(HUGE.attributes),
            lambda model: model.answer(pg.Kron({name: np.ones((1, 10)) for name in HUGE})),
            lambda model: pg.CliqueVector.zeros(HUGE, [HUGE.attributes]),
            lambda model: pg.marginals(pg.CliqueVector.zeros({"a": 2, "b": 10**30}, [("a",)])),
            lambda model: pg.estimate([pg.LinearMeasurement([1.0, 2.0], "a")], {"a": 2, "b": 10**30}),
            lambda model: pg.estimate(
                [pg.LinearMeasurement([5.0], HUGE.attributes, query=pg.Kron({n: np.ones((1, 10)) for n in HUGE}))],
                HUGE,
            ),
            lambda model: pg.Dataset.from_codes(np.zeros((2, 300), dtype=int), HUGE).project(HUGE.attributes),
        ],
    )
    def test_what_cannot_be_held_is_refused(self, chain: Any, ask: Callable[[Any], Any]) -> None:
        with pytest.raises(ModelTooLarge):
            ask(chain)


def test_a_huge_attribute_is_named_as_what_is_too_large() -> None:
    with pytest.raises(ModelTooLarge) as raised:
        pg.estimate([pg.LinearMeasurement([1.0, 2.0], "a")], {"a": 2, "b": 10**12})
    assert "\n  b: 1,000,000,000,000 cells (8 TB)\n" in str(raised.value)


def test_more_attributes_than_an_array_has_axes() -> None:
    domain = pg.Domain({f"x{i}": 1 for i in range(70)})
    data = pg.Dataset.from_codes(np.zeros((2, 70), dtype=int), domain)
    model = pg.estimate([pg.LinearMeasurement([5.0], "x0")], domain)
    for ask in (data.project, model.project):
        with pytest.raises(ModelTooLarge, match=f"would have 70 axes, and NumPy's arrays have at most {MOST_AXES}"):
            ask(domain.attributes)
        assert ask(domain.attributes[:MOST_AXES]).values.size == 1


def test_five_thousand_columns(tmp_path: Any) -> None:
    domain = pg.Domain({f"x{i}": 2 for i in range(5000)})
    codes = np.random.default_rng(0).integers(0, 2, (20, 5000))
    data = pg.Dataset.from_codes(codes, domain)
    domain.save(tmp_path / "domain.json")
    data.save(tmp_path / "wide.csv.gz")
    assert pg.Dataset.load(tmp_path / "wide.csv.gz", pg.Domain.load(tmp_path / "domain.json")) == data
    pairs = [domain.attributes[i : i + 2] for i in range(0, 5000, 50)]
    model = pg.estimate(
        [pg.LinearMeasurement(table.values, table.domain) for table in data.project_many(pairs)], domain
    )
    model.save(tmp_path / "model.npz")
    sample = pg.load(tmp_path / "model.npz").sample(10, seed=0)
    assert sample.codes.shape == (10, 5000)
    with pytest.raises(ModelTooLarge, match=r"10\^1505 cells"):
        model.project(domain.attributes)


@pytest.mark.parametrize("records", [0, 1])
@pytest.mark.parametrize("sizes", [{"a": 1}, {"a": 1, "b": 2}])
@pytest.mark.parametrize("mechanism", ["Independent", "MST", "AIM"])
def test_tables_of_no_or_one_record_and_columns_of_one_value(
    mechanism: str, sizes: dict[str, int], records: int
) -> None:
    data = pg.Dataset.from_codes(np.zeros((records, len(sizes)), dtype=int), sizes)
    result = getattr(pg.mechanisms, mechanism)(rho=1e6, backend="simulation").fit(data, seed=0, progress=False)
    np.testing.assert_allclose(result.project("a").values, [records], atol=1.01)  # no model has no records at all
    assert result.sample(3, seed=0).records == 3


def test_files_of_no_and_of_one_row(tmp_path: Any) -> None:
    domain = {"a": 2, "b": 1}
    for ending in ("csv", "csv.gz"):
        path = tmp_path / f"table.{ending}"
        pg.Dataset.from_codes(np.empty((0, 2), dtype=int), domain).save(path)
        assert pg.Dataset.load(path, domain).records == 0
        pg.Dataset.from_codes(np.array([[1, 0]]), domain).save(path)
        assert pg.Dataset.load(path, domain).codes.tolist() == [[1, 0]]


@pytest.mark.parametrize("value", [1e101, 1e160, 1e308, -1e308])
def test_numbers_whose_squares_are_infinite_are_refused(value: float) -> None:
    with pytest.raises(MeasurementError, match="values must be counts of at most 1e\\+100"):
        pg.LinearMeasurement([value, 1.0], "a")
    with pytest.raises(MeasurementError, match="stddev must be"):
        pg.LinearMeasurement([1.0, 1.0], "a", stddev=value)
    with pytest.raises(ArgumentError, match="total="):
        pg.estimate([pg.LinearMeasurement([3.0, 4.0], "a")], {"a": 2}, total=value)
    with pytest.raises(ArgumentError, match="total="):
        pg.Model(pg.CliqueVector.zeros({"a": 2}, ["a"]), value)


@pytest.mark.parametrize("tolerance", [0, 1e-320, 1e-200])
def test_tolerances_that_cannot_be_met(tolerance: float) -> None:
    measurements = [pg.LinearMeasurement([[3.0, 8.0], [1.0, 4.0]], ("a", "b")), pg.LinearMeasurement([9.0, 1.0], "b")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = pg.estimate(measurements, {"a": 2, "b": 2}, tolerance=tolerance, max_iterations=2000)
    assert model.report is not None
    assert model.report.gap < 1e-9


# -- budgets --------------------------------------------------------------------------------------------------------

DATA = pg.Dataset.from_codes(np.array([[0, 1], [1, 1], [1, 0]]), {"sex": 2, "income": 2})
AMOUNTS = st.floats(1e-300, 1.7e308) | st.sampled_from([700.0, 1e6, 1e15, 1e100, 1.7e308])
KINDS = {
    "epsilon": Epsilon,
    "rho": Rho,
    "gaussian": lambda amount: ApproxDP(amount, 1e-9),
    "pure": lambda amount: ApproxDP(amount, 0.0),
}


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=40)
@given(amount=AMOUNTS, query=st.sampled_from([None, [[0.3, 1.0]], [[1e-6, 2e-6]], [[1e6, 0.0]]]))
def test_any_budget_buys_an_answer_or_costs_nothing(kind: str, amount: float, query: Any) -> None:
    spend = KINDS[kind](amount)
    curator = Curator(DATA, spend, backend="simulation", seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            measurement = curator.measure("sex", spend, query)
        except PgmestError:
            assert len(curator.ledger) == 0
            return
    assert len(curator.ledger) == 1
    answers = measurement.values - np.asarray([[1, 0], [0, 1]] if query is None else query) @ [1, 2]
    assert np.abs(answers).max() <= 60 * np.max(measurement.stddev) + 1e-6 * np.abs(query or 1).max()


@pytest.mark.parametrize("backend", ["simulation", "opendp"])
@pytest.mark.parametrize("spend", [Epsilon(2000.0), Epsilon(1e300), Rho(1e300), ApproxDP(1e300, 1e-9)])
def test_budgets_so_large_that_there_is_no_noise(backend: str, spend: Any) -> None:
    if backend == "opendp":
        pytest.importorskip("opendp")
    measurement = Curator(DATA, spend, backend=backend, seed=0).measure("sex", spend)
    np.testing.assert_allclose(measurement.values, [1, 2], atol=1e-4)
    assert np.all(np.asarray(measurement.stddev) > 0)
    np.testing.assert_allclose(pg.estimate([measurement], DATA.domain).project("sex").values, [1, 2], atol=1e-3)
