"""Vectors of length at most 1 for each individual: their noise, their price and their rounding."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pgmest.data.dataset import Dataset
from pgmest.errors import BudgetExceeded
from pgmest.privacy import GDP, AddRemove, ApproxDP, Budget, Curator, Epsilon, Replace, Rho
from pgmest.privacy.requests import UnitVector

DATA = Dataset.from_codes(np.array([[0], [1], [1]]), {"a": 2})
VECTOR = UnitVector("halves", 3, lambda data: np.array([data.records / 3, 0.25, math.pi]))


@pytest.mark.parametrize(
    ("cost", "neighbors", "stddev"),
    [
        (Rho(0.5), AddRemove(), 1.0),
        (Rho(0.5), AddRemove(3), 3.0),
        (Rho(0.5), Replace(), math.sqrt(2)),
        (GDP.of(1.0, 1e-6), AddRemove(), 1 / math.sqrt(GDP.of(1.0, 1e-6).mu_squared)),
        (Epsilon(1.0), AddRemove(), math.sqrt(2)),
        (Epsilon(1.0), Replace(), 2 * math.sqrt(2)),
        (ApproxDP(1.0, 0.0), AddRemove(2), 2 * math.sqrt(2)),
    ],
)
def test_noise_is_calibrated_to_the_length_of_the_vector(cost: Budget, neighbors: AddRemove, stddev: float) -> None:
    curator = Curator(DATA, cost, neighbors=neighbors, backend="simulation", seed=0)
    ((values, found),) = curator.measure_vectors([VECTOR], cost, [1.0])
    assert values.shape == (3,)
    assert found == pytest.approx(stddev, rel=1e-4)
    assert found >= stddev * (1 - 1e-9)
    assert not curator.remaining
    with pytest.raises(BudgetExceeded):
        curator.measure_vectors([VECTOR], cost, [1.0])


def test_opendp_confirms_the_price_and_answers_are_on_the_grid() -> None:
    curator = Curator(DATA, Rho(1e6))
    ((values, _), (again, _)) = curator.measure_vectors([VECTOR, VECTOR], Rho(1e6), [3.0, 1.0])
    assert np.allclose(values, [1, 0.25, math.pi], atol=0.02)
    assert np.allclose(again, [1, 0.25, math.pi], atol=0.04)
    assert (values * 2.0**20 == np.rint(values * 2.0**20)).all()
    assert [entry.label for entry in curator.ledger] == ["halves", "halves"]


def test_nothing_is_paid_if_not_all_can_be() -> None:
    curator = Curator(DATA, Rho(1.0), backend="simulation")
    with pytest.raises(BudgetExceeded):
        curator.measure_vectors([VECTOR], Rho(2.0), [1.0])
    assert not curator.spent
