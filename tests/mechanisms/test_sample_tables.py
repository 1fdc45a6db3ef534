"""`Result.sample_tables`: tables for analyses from the result of every mechanism that measures answers."""

from __future__ import annotations

import numpy as np
import pytest

from pgmest.analyses.combine import combine
from pgmest.errors import ArgumentError
from tests.mechanisms.auditing import DATA
from tests.mechanisms.every import EVERY, made

WITHOUT_ANSWERS = ("DualQuery",)
"""Mechanisms that select records or queries and measure nothing."""


@pytest.mark.parametrize("name", [name for name in EVERY if name not in WITHOUT_ANSWERS])
def test_every_result_has_tables(name: str) -> None:
    result = made(name).fit(DATA, seed=0, progress=False)
    tables = result.sample_tables(6, 500, seed=0)
    assert all(table.domain == DATA.domain and table.records == 500 for table in tables)
    attribute = DATA.domain.attributes[0]
    results = []
    for table in tables:
        share = table.column(attribute).mean()
        results.append((share, share * (1 - share) / table.records))
    found = combine(results, rule="multiple_imputation")
    assert found.between > 0
    assert np.isfinite(found.stddev)
    assert result.sample_tables(2, attributes=attribute, seed=0)[0].domain.attributes == (attribute,)


def test_a_result_without_answers_says_so() -> None:
    result = made("DualQuery").fit(DATA, seed=0, progress=False)
    with pytest.raises(ArgumentError, match="has no intervals here, since DualQuery publishes queries"):
        result.sample_tables(3)


def test_a_model_of_another_library_says_so() -> None:
    result = made("MST").fit(DATA, seed=0, progress=False)
    object.__setattr__(result, "model", object())
    with pytest.raises(ArgumentError, match="object has no such tables"):
        result.sample_tables(3)
