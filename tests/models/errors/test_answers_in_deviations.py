"""Answers about single codes that are written in deviations of their noise have the errors of the plain answers."""

import numpy as np
import pytest

import pgmest as pg
from pgmest.measurements.known_errors import KnownErrors
from pgmest.models.errors.error_model import ErrorModel
from pgmest.models.support import SupportModel
from pgmest.queries import Kron


def drawn(measurement: pg.LinearMeasurement, counts: np.ndarray) -> np.ndarray:
    """Return errors of a model with these counts of codes, of which the answers are known."""
    domain, stddev = pg.Domain({"a": len(counts)}), 300.0
    data = pg.Dataset.from_codes(np.repeat(np.arange(len(counts)), counts)[:, None], domain)
    base = pg.Dataset.from_codes(np.zeros((1, 1), dtype=np.int64), domain) if not data.records else data
    model = pg.estimate([], domain, prior=pg.priors.Support(base), total=float(data.records))
    assert isinstance(model, SupportModel)
    known = KnownErrors((measurement,), stddev, records=max(float(data.records), 1.0))
    return ErrorModel.of(model.knows(known), known).draws(("a",), 300)


@pytest.mark.parametrize("codes", [2, 40, 1_200])
@pytest.mark.parametrize("records", [0, 50])
def test_rare_codes_have_the_errors_of_their_noise(codes: int, records: int) -> None:
    rng = np.random.default_rng(codes)
    counts = np.zeros(codes, dtype=np.int64)
    counts[0] = records
    each = rng.uniform(90.0, 110.0, codes)
    values = counts + each * rng.standard_normal(codes)
    plain = drawn(pg.LinearMeasurement(values, "a", 100.0), counts)
    scaled = drawn(pg.LinearMeasurement(values / each, "a", 1.0, Kron({"a": np.diag(1 / each)})), counts)
    assert np.sqrt(np.mean(scaled**2)) == pytest.approx(np.sqrt(np.mean(plain**2)), rel=0.1)
    assert np.abs(scaled[:, 1]).mean() > 2.0
