"""Errors of the counts of attributes that no answer is about."""

import numpy as np
import pytest

import pgmest as pg
from pgmest.inference.support.support import Support
from pgmest.measurements.known_errors import KnownErrors
from pgmest.models.errors.code_errors import CodeErrors
from pgmest.models.errors.error_model import ErrorModel
from pgmest.models.support import SupportModel

MODEL = np.array([60.0, 40.0, 0.0, 0.0, 0.0])
POSSIBLE = np.array([True, True, True, False, True])


@pytest.mark.parametrize("total_stddev", [0.0, 30.0])
def test_shares_may_be_any(total_stddev):
    """Squared errors, also of sums, are those of records whose shares have a uniform distribution over the simplex."""
    generator = np.random.default_rng(0)
    found = CodeErrors.without_answers(POSSIBLE, MODEL, 100.0, total_stddev)
    drawn = found.draws(40_000, generator)
    shares = np.zeros((40_000, 5))
    shares[:, POSSIBLE] = generator.dirichlet(np.ones(4), 40_000)
    true = shares * (100.0 + total_stddev * generator.standard_normal(40_000))[:, None]
    moments = [np.einsum("di,dj->ij", off, off) / 40_000 for off in (drawn, true - MODEL)]
    np.testing.assert_allclose(*moments, atol=0.03 * moments[1].max())
    assert np.all(found.stddev[POSSIBLE] > 0.0)
    assert found.stddev[3] == 0.0


def test_codes_that_no_record_of_a_model_has_may_have_records():
    """Half of the records have one code, half the other one; nothing says that there are none with the third."""
    records = pg.Dataset.from_codes(np.tile([[0, 0], [1, 1]], (50, 1)), {"a": 2, "b": 3})
    model = SupportModel(Support(records), pg.CliqueVector.zeros(records.domain, []), 100.0)
    answers = (pg.LinearMeasurement(np.array([50.0, 50.0]), ("a",), 2.0),)
    errors = ErrorModel.of(model, KnownErrors(answers)).draws(("b",), 2_000)
    np.testing.assert_allclose(errors.sum(axis=1), 0.0, atol=1e-6)
    expected = 100.0 * np.sqrt([1 / 18 + 1 / 36, 1 / 18 + 1 / 36, 1 / 18 + 1 / 9])
    np.testing.assert_allclose(np.sqrt(np.square(errors).mean(axis=0)), 1.05 * expected, rtol=0.1)


@pytest.mark.filterwarnings("error")
def test_a_table_without_records_may_come_from_a_population_with_some():
    answer, domain = pg.LinearMeasurement, pg.Domain({"a": 3, "b": 2, "c": 4})
    for measurements in ([answer.exact([0], ())], [answer.exact([0], ()), answer(np.zeros((3, 2)), ("a", "b"), 1.0)]):
        model = pg.estimate(measurements, domain)
        for query in (("a",), ("a", "b"), ("a", "b", "c")):
            found = model.interval(query, about="population")
            assert (found.low.values == 0).all()
            assert ((found.high.values > 0.5) & (found.high.values < 10)).all()
