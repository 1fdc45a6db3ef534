"""`pg.interval` is one call for every kind of model; kinds without intervals say which call gives a model with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import ArgumentError, QueryError
from pgmest.mechanisms.privbayes.bayesian_network import BayesianNetwork
from pgmest.mechanisms.priview.view import ViewModel
from pgmest.priors import Support
from pgmest.strategies.least_squares import LeastSquaresModel, LeastSquaresParts

DOMAIN = pg.Domain({"a": 2, "b": 3})
TABLE = pg.Factor(DOMAIN, [[30.0, 10.0, 20.0], [5.0, 25.0, 10.0]])
MEASURED = [pg.LinearMeasurement(TABLE.values + 0.5, ("a", "b"), stddev=2.0)]
RECORDS = pg.Dataset.from_codes(np.indices((2, 3)).reshape(2, -1).T, DOMAIN)

OTHERS = {
    "support": (lambda: pg.estimate(MEASURED, DOMAIN, prior=Support(RECORDS)), "without a support as prior"),
    "approximate": (lambda: pg.estimate(MEASURED, DOMAIN, oracle="convex"), 'oracle="exact"'),
    "network": (
        lambda: BayesianNetwork.of(DOMAIN, {"a": (), "b": ("a",)}, {"a": TABLE, "b": TABLE}, 100.0),
        "PrivBayes",
    ),
    "views": (lambda: ViewModel(DOMAIN, (TABLE,), 100.0), "PriView"),
    "least squares": (
        lambda: LeastSquaresModel((LeastSquaresParts(DOMAIN, (("a",),), {(): np.array(100.0)}, {}),)),
        "HDMM",
    ),
}


@pytest.fixture(scope="module")
def model() -> pg.Model:
    return pg.estimate(MEASURED, DOMAIN)


@pytest.mark.parametrize("kind", ["noise", "bounds"])
def test_the_function_and_the_method_are_one_call(model, kind):
    one, other = pg.interval(model, "b", level=0.9, kind=kind), model.interval("b", level=0.9, kind=kind)
    assert (one.kind, one.level) == (kind, 0.9)
    for end in ("low", "high"):
        np.testing.assert_array_equal(getattr(one, end).values, getattr(other, end).values)


@pytest.mark.parametrize("name", OTHERS)
def test_other_kinds_say_which_call_gives_intervals(name):
    make, remedy = OTHERS[name]
    other = make()
    if name in ("support", "approximate"):  # `estimate` made them, so they know their answers
        assert pg.interval(other, "a").kind == "errors"
    else:
        with pytest.raises(ArgumentError, match=f"a {type(other).__name__} has no intervals here, .*or a mechanism"):
            pg.interval(other, "a")
    with pytest.raises(ArgumentError, match=f"a {type(other).__name__} has no intervals of kind 'noise': .*{remedy}"):
        other.interval("a", kind="noise")


class TestAttributesOfOneCode:
    """All records have that code, whether or not an answer is about it."""

    DOMAIN = pg.Domain({"a": 2, "one": 1, "b": 3})

    def test_they_leave_the_interval_of_others_as_it_is(self):
        model = pg.estimate(MEASURED, self.DOMAIN)
        with_it, without = model.interval(("a", "one", "b")), model.interval(("a", "b"))
        assert (with_it.kind, without.kind) == ("errors", "errors")
        np.testing.assert_allclose(with_it.high.values[:, 0], without.high.values, rtol=0.3)
        alone, total = model.interval("one"), model.interval(())
        assert alone.width.values[0] == pytest.approx(float(total.width.values), rel=0.1)

    def test_functions_may_read_them(self):
        model = pg.estimate(MEASURED, self.DOMAIN)
        found = model.interval(lambda table: table.values[0, 0], clique=("one", "b"))
        assert found.kind == "errors"

    @pytest.mark.parametrize(
        "known",
        [
            pg.LinearMeasurement.exact([60.0, 40.0], "a"),
            pg.LinearMeasurement.between([55.0, 35.0], [65.0, 45.0], "a"),
        ],
        ids=["exact", "between"],
    )
    def test_with_published_answers_they_need_no_bounds(self, known):
        model = pg.estimate([*MEASURED, known], self.DOMAIN)
        assert model.interval(("one", "b")).kind == model.interval("b").kind == "errors"


def test_an_unmeasured_attribute_is_named_when_a_function_has_no_bounds():
    model = pg.estimate([pg.LinearMeasurement([60.0, 40.0], "a", 2.0)], DOMAIN)
    message = r'do not tell how many records have which b, .*choose kind="errors"'
    with pytest.raises(ArgumentError, match=message):
        model.interval(lambda table: table.values[0] / table.values.sum(), clique="b")
    with pytest.raises(ArgumentError, match="how a, b depend on each other"):
        model.interval(lambda one: one.conditional("b", "a"))
    assert model.interval(lambda table: table.values[0], clique="b", kind="errors").kind == "errors"


@pytest.fixture(scope="module")
def rounded() -> pg.Model:
    return pg.estimate([pg.LinearMeasurement.rounded([[30, 10, 20], [5, 25, 10]], ("a", "b"), 5)], DOMAIN)


class TestEndsOfSums:
    """Counts behind published ones, their sums and differences have whole ends; proven ends are not negative."""

    def test_a_marginal_is_a_kron_and_a_matrix(self, rounded):
        asked = rounded.interval(("a", "b"))
        kron = pg.Kron({"a": pg.queries.identity(2), "b": pg.queries.identity(3)})
        for other in (rounded.interval(kron), rounded.interval(np.eye(6), clique=("a", "b"))):
            np.testing.assert_allclose(other.low.values.ravel(), asked.low.values.ravel(), atol=1e-6)
            np.testing.assert_allclose(other.high.values.ravel(), asked.high.values.ravel(), atol=1e-6)

    def test_sums_and_differences_are_whole_and_others_are_not(self, rounded):
        for matrix in ([[1, 1, 0]], [[1, -1, 0]]):
            found = rounded.interval(pg.Kron({"b": matrix}))
            assert all(float(end.values[0]).is_integer() for end in found)
        half = rounded.interval(pg.Kron({"b": [[0.3, 0.3, 0]]}))
        assert not all(float(end.values[0]).is_integer() for end in half)

    def test_sums_are_not_negative_but_differences_may_be(self):
        model = pg.estimate([pg.LinearMeasurement([3.0, 2.0], "a", 5.0)], DOMAIN)
        for query in (pg.Kron({"a": [[1, 1]]}), pg.Kron({"b": [[0.5, 0, 0]]})):
            assert model.interval(query, kind="bounds").low.values[0] == 0.0
        assert model.interval(pg.Kron({"b": [[1, -1, 0]]}), kind="bounds").low.values[0] < 0


class TestMistakes:
    """The error names the argument, its value and what would be right."""

    @pytest.mark.parametrize("level", [95, "0.95", None, [0.9], True, np.nan])
    def test_levels(self, model, level):
        for call in (model.interval, lambda query, level: model.uncertainty(query, replicates=2).interval(level)):
            with pytest.raises(ArgumentError, match=r"level=.*a number between 0 and 1, such as 0\.95"):
                call("a", level=level)

    @pytest.mark.parametrize("given", [["b"], "b"])
    def test_conditions_without_codes(self, model, given):
        for call in (model.interval, model.project, model.answer):
            query = pg.Kron({"a": np.eye(2)}) if call == model.answer else "a"
            with pytest.raises(ArgumentError, match=r"given=.* a mapping of attributes to codes"):
                call(query, given=given)

    def test_a_level_without_its_name(self, model):
        with pytest.raises(ArgumentError, match=r"clique=0\.9 .* write level="):
            model.interval("a", 0.9)

    @pytest.mark.parametrize(
        ("function", "message"),
        [
            (lambda table: None, "not None"),
            (lambda table: "many", "not 'many'"),
            (lambda table: 1j, "not 1j"),
            (lambda table: table.values, r"not an array of shape \(2, 3\): return its ravel\(\), or a pg.Factor"),
            (lambda table: table.values[table.values > 19.0], "numbers for one table and . for another one"),
        ],
    )
    def test_values_of_functions(self, model, function, message):
        with pytest.raises(QueryError, match=message):
            model.interval(function, clique=("a", "b"))

    def test_something_else_than_a_model(self):
        others: list[Any] = [RECORDS, None, TABLE, pg]
        for other in others:
            with pytest.raises(ArgumentError, match=r"model=.* a model that pgmest\.estimate or a mechanism returned"):
                pg.interval(other, "a")


def test_a_result_is_as_good_as_its_model():
    mechanism = pg.mechanisms.LAMP(epsilon=1.0, delta=1e-9, backend="simulation")
    result: Any = mechanism.fit(RECORDS, seed=0, progress=False)
    np.testing.assert_array_equal(pg.interval(result, "a").high.values, result.interval("a").high.values)
    with pytest.raises(ArgumentError, match=r"a SupportModel has no replicates: .*pgmest\.estimate"):
        result.uncertainty("a", replicates=5)


@pytest.mark.parametrize("stddev", [1e-9, 1e-3, 0.04])
def test_answers_with_hardly_any_noise_beside_noisy_ones_have_intervals_that_hold(stddev):
    """Answers may be thousands of times as precise as others."""
    domain, held = pg.Domain({"a": 3, "b": 4}), []
    table = np.array([[90.0, 10, 12, 8], [11, 70, 9, 10], [14, 12, 80, 60]])
    for seed in range(5):
        noise = np.random.default_rng(seed).normal(0, 8, table.shape)
        precise = pg.LinearMeasurement(table.sum(axis=1), "a", stddev)
        model = pg.estimate([pg.LinearMeasurement(table + noise, ("a", "b"), 8.0), precise], domain)
        found = model.interval(("a", "b"))
        assert found.kind == "errors"
        held.append((found.low.values <= table) & (table <= found.high.values))
        assert model.interval("a").width.values.max() < 5 * stddev
        assert model.interval(()).width.values < 10 * stddev
    assert np.mean(held) >= 0.85


def test_conditions_on_an_unmeasured_attribute_need_bounds_as_its_table_does():
    model = pg.estimate([pg.LinearMeasurement([60.0, 40.0], "a", 2.0)], DOMAIN)
    whole, part = model.interval(("a", "b")), model.interval("a", given={"b": 1})
    assert (whole.kind, part.kind) == ("bounds", "bounds")
    np.testing.assert_allclose(part.high.values, whole.high.values[:, 1], atol=1e-6)
