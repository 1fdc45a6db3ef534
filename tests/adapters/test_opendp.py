"""OpenDP's contingency tables with our estimator: the contract of `opendp.extras.mbi`, with its own classes."""

from __future__ import annotations

import numpy as np
import pytest

import pgmest as pg

pytest.importorskip("mbi")
extras = pytest.importorskip("opendp.extras.mbi")
pytest.importorskip("polars")

import mbi  # noqa: E402

from pgmest.adapters.opendp import estimator, estimator_with, released_measurements  # noqa: E402

DOMAIN = mbi.Domain(["SEX", "AGE"], [2, 3])
SEX = mbi.LinearMeasurement(np.array([31.0, 29.0]), ("SEX",), 1.0)
BOTH = mbi.LinearMeasurement(np.array([11.0, 9.0, 10.0, 9.0, 12.0, 8.0]), ("SEX", "AGE"), 2.0)


def test_algorithms_take_the_estimator():
    for algorithm in (extras.MST(estimator=estimator), extras.AIM(estimator=estimator_with(method="mirror_flow"))):
        model = algorithm.estimator(DOMAIN, extras.Marginals().add(SEX, BOTH).flatten(), potentials=None)
        again = algorithm.estimator(DOMAIN, [SEX, BOTH], potentials=model.potentials)
        assert isinstance(model, mbi.MarkovRandomField)
        np.testing.assert_allclose(model.project(("SEX",)).values, again.project(("SEX",)).values, rtol=1e-2)


def test_a_contingency_table_holds_our_model_and_gives_back_its_answers():
    marginals = extras.Marginals().add(SEX, BOTH)
    model = estimator(DOMAIN, marginals.flatten())
    table = extras.ContingencyTable({"SEX": ["F", "M"], "AGE": [1, 2, 3]}, {}, marginals, model)
    assert table.project_melted(["SEX"])["len"].sum() == pytest.approx(60, abs=1)
    domain, measurements = released_measurements(table)
    assert domain == pg.Domain({"SEX": 2, "AGE": 3})
    assert [measurement.clique for measurement in measurements] == [("SEX",), ("SEX", "AGE")]
    ours = pg.estimate(measurements, domain)
    np.testing.assert_allclose(ours.project("AGE").values, table.project("AGE"), rtol=1e-3)


def test_answers_about_a_part_of_the_cells():
    part = mbi.LinearMeasurement(np.array([30.0]), ("SEX",), 1.0, extras._utilities.SelectPrefixQuery(1))
    model = estimator(DOMAIN, [part, BOTH])
    assert model.project(("SEX",)).values[0] == pytest.approx(30, abs=1)
