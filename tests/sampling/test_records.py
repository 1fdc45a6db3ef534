"""The two ways of making records, at the edges of their random numbers."""

import numpy as np
import pytest

from pgmest.sampling.clique_tables import CliqueTable, ColumnMap
from pgmest.sampling.records import IndependentRecords, RoundedRecords
from pgmest.tables.domain import Domain

SEED_OF_ZERO = 2**64 - 0x9E3779B97F4A7C15  # the first number after this seed is exactly 0


def made(kind, weights, n, seed):
    domain = Domain({"a": len(weights)})
    table = CliqueTable(-1, (), ("a",), np.array([weights]), ())
    columns = np.full((1, n), 99, dtype=np.uint8)
    kind(domain, [table], [ColumnMap.of(domain, table, columns.dtype)], n, seed).block(n)(columns, 0)
    return columns[0].tolist()


@pytest.mark.parametrize("kind", [RoundedRecords, IndependentRecords])
def test_the_smallest_random_number_makes_no_impossible_record(kind):
    assert made(kind, [0.0, 0.5, 0.0], 1, SEED_OF_ZERO) == [1]


def test_rounded_records_are_dealt_until_none_is_left():
    assert sorted(made(RoundedRecords, [0.25, 0.0, 0.75], 8, 0)) == [0, 0, 2, 2, 2, 2, 2, 2]


def test_blocks_share_out_the_counts_evenly():
    domain = Domain({"a": 2})
    table = CliqueTable(-1, (), ("a",), np.array([[0.3, 0.7]]), ())
    columns = np.empty((1, 100), dtype=np.uint8)
    records = RoundedRecords(domain, [table], [ColumnMap.of(domain, table, columns.dtype)], 100, 0)
    for first in range(0, 100, 10):
        records.block(10)(columns, first)
    assert (columns.reshape(10, 10) == 0).sum(axis=1).tolist() == [3] * 10
