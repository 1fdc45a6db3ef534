"""Cells of margins, against sums of tables."""

import numpy as np
import pytest

import pgmest as pg
from pgmest.tables.margins import margin_cells, margin_sums

DOMAIN = pg.Domain({"a": 2, "b": 3, "c": 4})


@pytest.mark.parametrize("names", [(), ("b",), ("c", "a"), ("b", "a", "c")])
def test_sums_are_those_of_a_projection(names):
    table = pg.Factor.random(DOMAIN.project(("c", "b", "a")), seed=0)
    sums = margin_sums(DOMAIN, ("c", "b", "a"), names)
    np.testing.assert_allclose(sums @ table.datavector(), table.project(names).datavector())
    shifted = margin_sums(DOMAIN, ("c", "b", "a"), names, start=5, columns=40)
    np.testing.assert_allclose(shifted[:, 5:29].toarray(), sums.toarray())
    assert shifted.shape[1] == 40
    assert shifted.nnz == 24


def test_attributes_outside_of_the_cells_add_nothing():
    """Positions of parts of a margin add up to those of the whole."""
    parts = margin_cells(DOMAIN, ("a",), ("a", "c"))[:, None] + margin_cells(DOMAIN, ("c",), ("a", "c"))
    np.testing.assert_array_equal(parts.ravel(), margin_cells(DOMAIN, ("a", "c"), ("a", "c")))
