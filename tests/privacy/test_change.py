"""The relation `Change`: one individual's records changed, removed or added, against all neighbors of small tables."""

import itertools

import numpy as np
import pytest

from pgmest import queries
from pgmest.errors import ArgumentError
from pgmest.privacy.neighbors import AddRemove, Change, Replace
from pgmest.privacy.relations import Relation

TABLES = [table for table in itertools.product(range(5), repeat=2) if sum(table) <= 4]
"""All tables of at most four rows with two values, as counts."""


def related(one, two, neighbors):
    """Return whether two tables are neighbors, by the definition."""
    apart = np.subtract(one, two)
    added, removed = apart[apart > 0].sum(), -apart[apart < 0].sum()
    if isinstance(neighbors, Replace):
        return added == removed <= neighbors.records
    if isinstance(neighbors, Change):
        return max(added, removed) <= neighbors.records
    return min(added, removed) == 0 and max(added, removed) <= neighbors.records


@pytest.mark.parametrize("query", [queries.identity(3), queries.prefix(3), queries.haar(4), queries.total(3)], ids=str)
def test_sensitivity_is_the_largest_distance_of_neighbors(query):
    columns = np.column_stack([query.matrix(), np.zeros(query.rows)])
    apart = [columns[:, i] - columns[:, j] for i, j in itertools.product(range(columns.shape[1]), repeat=2)]
    assert Change().l1_sensitivity(query) == pytest.approx(max(np.abs(one).sum() for one in apart))
    assert Change(3).l2_sensitivity(query) == pytest.approx(3 * max(np.linalg.norm(one) for one in apart))
    assert Change(2).count_sensitivity == 2


OTHERS = [kind(records) for kind in (AddRemove, Replace, Change) for records in (1, 2, 3)]


@pytest.mark.parametrize("records", [1, 2, 3])
@pytest.mark.parametrize("other", OTHERS, ids=repr)
def test_so_many_steps_join_any_two_tables(records, other):
    for run, ledger in ((Change(records), other), (other, Change(records))):
        steps = Relation(run).steps_to(Relation(ledger))
        near = np.array([[related(one, two, run) for two in TABLES] for one in TABLES])
        wanted = np.array([[related(one, two, ledger) for two in TABLES] for one in TABLES])
        reached = np.linalg.matrix_power(near.astype(float), 8 if steps is None else steps) > 0
        assert (reached | ~wanted).all() == (steps is not None)
        if steps is not None and steps > 1 and steps <= 4 // run.records:
            assert not (np.linalg.matrix_power(near.astype(float), steps - 1) > 0)[wanted].all()


def test_it_is_read_and_written_and_said():
    relation = Relation(Change(2))
    assert Relation.from_json(relation.to_json()) == relation
    assert str(relation) == "at most 2 rows of one person added, removed or changed"
    assert str(Relation(Change(), "persons")) == (
        "one row of 'persons' added, removed or changed, but not moved to another parent row"
    )
    assert Relation(Change(), "persons").steps_to(Relation(AddRemove(), "persons")) == 1
    with pytest.raises(ArgumentError):
        Change(0)
