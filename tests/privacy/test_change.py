"""The relation `Change`: one individual's records changed, removed or added, against all neighbors of small tables."""

import itertools

import numpy as np
import pytest

from pgmest import queries
from pgmest.errors import ArgumentError
from pgmest.privacy.neighbors import AddRemove, Change
from pgmest.privacy.relations import Relation


@pytest.mark.parametrize("query", [queries.identity(3), queries.prefix(3), queries.haar(4), queries.total(3)], ids=str)
def test_sensitivity_is_the_largest_distance_of_neighbors(query):
    columns = np.column_stack([query.matrix(), np.zeros(query.rows)])
    apart = [columns[:, i] - columns[:, j] for i, j in itertools.product(range(columns.shape[1]), repeat=2)]
    assert Change().l1_sensitivity(query) == pytest.approx(max(np.abs(one).sum() for one in apart))
    assert Change(3).l2_sensitivity(query) == pytest.approx(3 * max(np.linalg.norm(one) for one in apart))
    assert Change(2).count_sensitivity == 2


def test_it_is_read_and_written_and_said():
    relation = Relation(Change(2))
    assert Relation.from_json(relation.to_json()) == relation
    assert str(relation) == "at most 2 rows of one person added, removed or changed"
    assert str(Relation(Change(), "persons")) == (
        "one row of 'persons' added, removed or changed, but not moved to another parent row"
    )
    assert Relation(Change(), "persons").implies(Relation(AddRemove(), "persons"))
    with pytest.raises(ArgumentError):
        Change(0)
