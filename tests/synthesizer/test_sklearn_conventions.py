"""The conventions of scikit-learn: Synthesizer clones, and passes scikit-learn's own checks where they apply."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import pgmest as pg
from pgmest.errors import ArgumentError

pytest.importorskip("sklearn")

from sklearn import base
from sklearn.model_selection import ParameterGrid
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import check_is_fitted

clone: Any = base.clone  # of which its annotations say that it may return a collection

TABLE = pd.DataFrame({"age": [23, 41, 67, 35] * 50, "sex": ["F", "M", "F", "M"] * 50})
SCHEMA = {
    "columns": {
        "age": {"type": "integer", "min": 0, "max": 99, "width": 10},
        "sex": {"type": "categorical", "values": ["F", "M"], "other": "X"},
    }
}


def synthesizer(**parameters):
    return pg.Synthesizer("independent", epsilon=1.0, backend="simulation", **parameters)


class OfMatrices(pg.Synthesizer):
    """The Synthesizer for scikit-learn's checks, which fit matrices: all columns have the same schema."""

    def fit(self, X, y=None):  # type: ignore[override]
        frame = pd.DataFrame({f"x{place}": column for place, column in enumerate(np.asarray(X, dtype=float).T)})
        column = {"type": "real", "min": -10, "max": 10, "bins": 3}
        return super().fit(frame, {"columns": dict.fromkeys(frame, column)}, seed=0, progress=False)


NO_MATRIX = "fit takes a table with a schema, which decides which columns and values are allowed"
NO_ERROR = "an error about the number of rows would reveal it: no rows at all are fine"

DO_NOT_APPLY = {
    "check_complex_data": NO_MATRIX,
    "check_estimator_sparse_tag": NO_MATRIX,
    "check_estimator_sparse_array": NO_MATRIX,
    "check_estimator_sparse_matrix": NO_MATRIX,
    "check_estimators_empty_data_messages": NO_ERROR,
}
"""The checks of scikit-learn that do not apply, with the reasons."""


@pytest.mark.filterwarnings(
    "ignore:Estimator OfMatrices does not inherit from", "ignore::numpy.exceptions.ComplexWarning"
)
def test_scikit_learns_own_checks_where_they_apply():
    estimator = OfMatrices("independent", epsilon=1.0, backend="simulation")
    found = check_estimator(estimator, on_skip=None, on_fail=None, expected_failed_checks=DO_NOT_APPLY)
    assert not [(check["check_name"], check["exception"]) for check in found if check["status"] == "failed"]
    assert {check["check_name"] for check in found if check["status"] == "xfail"} == set(DO_NOT_APPLY)
    assert sum(check["status"] == "passed" for check in found) > 30


def test_the_constructor_keeps_its_arguments_as_they_are():
    made = synthesizer()
    params = made.get_params()
    assert params == {
        "mechanism": "independent",
        "epsilon": 1.0,
        "delta": 1e-9,
        "rho": None,
        "matters": None,
        "backend": "simulation",
    }
    assert pg.Synthesizer(**params).get_params() == params
    kept = pg.Synthesizer("magic", epsilon=-1.0, rho="much", thresold=2)  # pyright: ignore[reportArgumentType]
    assert kept.get_params()["thresold"] == 2


@pytest.mark.parametrize(
    "made",
    [synthesizer(), pg.Synthesizer(), pg.Synthesizer(pg.mechanisms.MST(rho=0.1)), pg.Synthesizer(rho=0.5, delta=None)],
    ids=repr,
)
def test_a_clone_has_the_same_arguments_and_is_not_fitted(made):
    copy = clone(made)
    assert copy is not made
    assert copy.get_params() == made.get_params()
    assert repr(copy) == repr(made)
    assert not hasattr(copy, "result_")


def test_parameters_are_set_by_name_and_checked_by_fit():
    made = synthesizer()
    assert made.set_params(mechanism="mst", epsilon=None, rho=0.5, threshold=2.0) is made
    assert made.fit(TABLE, SCHEMA, seed=0) is made
    check_is_fitted(made)
    assert isinstance(made.result_.mechanism, pg.mechanisms.MST)
    assert made.result_.mechanism.threshold == 2.0
    with pytest.raises(ArgumentError, match="'thresold' is not a parameter of MST"):
        clone(made).set_params(thresold=2).fit(TABLE, SCHEMA)
    with pytest.raises(ArgumentError, match="state the budget once"):
        clone(made).set_params(epsilon=1.0).fit(TABLE, SCHEMA)


def test_a_grid_of_parameters_can_be_tried():
    totals = [
        clone(synthesizer()).set_params(**params).fit(TABLE, SCHEMA, seed=0).model_.total
        for params in ParameterGrid({"mechanism": ["independent", "mst"], "epsilon": [1.0, 10.0]})
    ]
    assert len(totals) == 4


def test_the_repr_shows_the_budget_that_is_taken():
    assert repr(pg.Synthesizer(epsilon=1.0)) == "Synthesizer(mechanism='lamp', epsilon=1.0, delta=1e-09)"
    assert repr(pg.Synthesizer(rho=0.5)) == "Synthesizer(mechanism='lamp', rho=0.5)"
    assert repr(synthesizer()) == (
        "Synthesizer(mechanism='independent', epsilon=1.0, delta=1e-09, backend='simulation')"
    )
