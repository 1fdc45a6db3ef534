"""Total variation: half the L1 distance, as a fraction of the true records."""

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import DataError, DomainError, UnknownAttributeError
from pgmest.tables.distances import total_variation


def test_equal_tables_are_at_zero_and_disjoint_ones_at_one():
    table = pg.Factor({"a": 2}, [3, 0])
    assert total_variation(table, table) == 0
    assert total_variation(table, pg.Factor({"a": 2}, [0, 3])) == 1


def test_is_the_share_of_records_to_move():
    assert total_variation(pg.Factor({"a": 3}, [5, 3, 2]), pg.Factor({"a": 3}, [3, 4, 3])) == pytest.approx(0.2)


def test_axis_order_does_not_matter():
    true = pg.Factor({"a": 2, "b": 3}, np.arange(6).reshape(2, 3))
    assert total_variation(true, true.transpose(("b", "a"))) == 0


def test_another_total_is_compared_in_counts():
    assert total_variation(pg.Factor({"a": 2}, [5, 5]), pg.Factor({"a": 2}, [5, 15])) == 0.5


def test_no_true_records():
    with pytest.raises(DataError, match="the true marginal holds no records"):
        total_variation(pg.Factor({"a": 2}, [0, 0]), pg.Factor({"a": 2}, [1, 1]))


def test_other_attributes():
    with pytest.raises(UnknownAttributeError, match="'a' is not an attribute"):
        total_variation(pg.Factor({"a": 2}, [1, 1]), pg.Factor({"b": 2}, [1, 1]))
    with pytest.raises(DomainError, match="cannot transpose"):
        total_variation(pg.Factor({"a": 2}, [1, 1]), pg.Factor({"a": 2, "b": 1}, [[1], [1]]))
