"""`pg.interval` is one call for every kind of model; kinds without intervals say which call gives a model with them."""

from __future__ import annotations

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import ArgumentError
from pgmest.models.bayesian_network import BayesianNetwork
from pgmest.models.least_squares import LeastSquaresModel, LeastSquaresParts
from pgmest.models.view import ViewModel
from pgmest.priors import Support

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


def test_the_last_posterior_drawn_is_kept_for_intervals(model):
    posterior = model.posterior(40, chains=2, warm_up=20)
    assert model.kept.posterior is posterior
    one, other = pg.interval(model, "b", kind="posterior"), posterior.interval("b")
    np.testing.assert_array_equal(one.low.values, other.low.values)


@pytest.mark.parametrize("name", OTHERS)
def test_other_kinds_say_which_call_gives_intervals(name):
    make, remedy = OTHERS[name]
    other = make()
    if name in ("support", "approximate"):  # `estimate` made them, so they know their answers
        assert pg.interval(other, "a").kind == "errors"
    else:
        with pytest.raises(ArgumentError, match=f"a {type(other).__name__} has no intervals here, .*or a mechanism"):
            pg.interval(other, "a")
    with pytest.raises(ArgumentError, match=f"a {type(other).__name__} has no intervals: .*{remedy}"):
        other.interval("a", kind="noise")
