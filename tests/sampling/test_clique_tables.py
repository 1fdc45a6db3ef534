"""Clique tables: rows for the separator, columns for the new attributes, and what they mean in records."""

import numpy as np
import pytest

from pgmest.sampling.clique_tables import CliqueTable, ColumnMap, clique_tables, project
from pgmest.tables.domain import Domain


def test_a_chain_of_two_cliques(calibrated):
    model = calibrated({"a": 2, "b": 3, "c": 2}, ["ba", "bc", "c"], total=10.0)
    root, child = clique_tables(model.oracle)
    assert (root.parent, child.parent) == (-1, 0)
    assert (root.separator, child.separator) == ((), ("b",))
    assert set(root.new + child.new) == set("abc")
    for table in (root, child):
        expected = 10 * model.joint.project(table.attributes).values
        np.testing.assert_allclose(table.weights, expected.reshape(table.weights.shape))
    assert child.weights.shape == (3, model.domain.size(child.new))


def test_separators_to_children_come_first_among_the_protected(calibrated):
    model = calibrated({"a": 2, "b": 3, "c": 2, "d": 2}, ["ab", "bc", "bd", "b"])
    root, *children = clique_tables(model.oracle)
    assert root.protected[: len(children)] == (("b",),) * len(children)
    measured = [("a", "b"), ("b", "c"), ("b", "d")]
    assert [margin for margin in root.protected if len(margin) == 2] == [m for m in measured if set(m) == set(root.new)]
    assert set(root.protected[-2:]) == {(name,) for name in root.new}


def test_the_places_of_a_table_among_the_columns():
    domain = Domain({"a": 2, "b": 3, "c": 2, "d": 4})
    places = ColumnMap.of(domain, CliqueTable(0, ("b", "d"), ("c", "a"), np.ones((12, 4)), ()), np.dtype(np.uint8))
    assert (places.separator.tolist(), places.strides.tolist()) == ([1, 3], [4, 1])
    assert places.new.tolist() == [2, 0]
    assert places.codes.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]


@pytest.mark.parametrize("attributes", ["", "a", "c", "ca", "bac"])
def test_project_sums_out_the_rest(attributes):
    domain = Domain({"c": 2, "a": 2, "b": 3})
    cells = np.arange(12.0)
    expected = np.einsum(f"abc->{attributes}", cells.reshape(2, 3, 2))
    assert project(domain, ("a", "b", "c"), cells, tuple(attributes)).tolist() == expected.reshape(-1).tolist()
