"""Support: weighted public records as a prior for a distribution over these records."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from pgmest.data.codes import code_type, read_only
from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError, DataError, plural
from pgmest.tables.domain import Domain

LARGEST_KEY = 2**62
"""The limit on record keys, which keeps them and their products within int64."""


class Support:
    """Distinct records with positive weights: the prior of a distribution that gives mass to these records only.

    Duplicates are merged and their weights added; records of weight 0 are left out. `pg.estimate(..., prior=support)`
    reweights the records so that their marginals match the measurements, and stays as close as possible, in relative
    entropy, to the weights given here.

    Such a distribution excludes every value that no public record has, even if private records have it.

    >>> data = Dataset.from_codes(np.array([[0, 1], [2, 1], [0, 1]]), {"age": 3, "sex": 2})
    >>> Support(data)
    Support(2 distinct records of weight 3, 2 attributes)
    >>> Support(data).weights
    array([2., 1.])

    Args:
        records: the public table, with or without weights.

    Attributes:
        domain: the attributes.
        codes: the codes of the distinct records, shape (attributes, records).
        weights: their weights, shape (records,).
        rows: for each row of the table, its position among the distinct records; -1 for a row without weight whose
            record has none.
        row_shares: for each row of the table, its share in the weight of its record.

    Raises:
        DataError: no record has a positive weight.
        ArgumentError: `records` is not a Dataset.
    """

    def __init__(self, records: Dataset):
        if not isinstance(records, Dataset):
            raise ArgumentError.of("records", records, "a Dataset of public records")
        weights = np.ones(records.records) if records.weights is None else records.weights
        if not np.any(weights > 0):
            raise DataError("the support is empty: no public record has a positive weight. Give at least one record.")
        keys = record_keys(records.columns, records.domain.shape) if records.columns else np.zeros(records.records)
        first, merged, places = _merge(keys, weights)
        self.rows: np.ndarray = read_only(places)
        with np.errstate(invalid="ignore"):
            shares = np.where(places >= 0, weights / merged[places], 0.0)
        self.row_shares: np.ndarray = read_only(shares)
        self.domain: Domain = records.domain
        kind = code_type(max(records.domain.shape, default=1))
        codes = np.empty((len(records.domain), len(first)), dtype=kind)
        for row, column in zip(codes, records.columns, strict=True):
            row[:] = column[first]
        self.codes: np.ndarray = read_only(codes)
        self.weights: np.ndarray = read_only(merged)

    @property
    def total(self) -> float:
        """The sum of the weights."""
        return float(self.weights.sum())

    @cached_property
    def log_weights(self) -> np.ndarray:
        """The log of the share of each record in the total weight, shape (records,)."""
        return read_only(np.log(self.weights / self.weights.sum()))

    @cached_property
    def zero_logs(self) -> np.ndarray:
        """The logs of unit weights: zeros, shape (records,)."""
        return read_only(np.zeros(len(self)))

    def weighted(self, weights: np.ndarray) -> Dataset:
        """Return the records with other weights, shape (records,)."""
        return Dataset(self.domain, self._columns, len(self), read_only(weights))

    @property
    def records(self) -> Dataset:
        """The distinct records with their weights."""
        return self.weighted(self.weights)

    @cached_property
    def _columns(self) -> tuple[np.ndarray, ...]:
        return tuple(
            read_only(row.astype(code_type(size), copy=False))
            for row, size in zip(self.codes, self.domain.shape, strict=True)
        )

    def __len__(self) -> int:
        return self.codes.shape[1]

    def __repr__(self) -> str:
        return (
            f"Support({plural(len(self), 'distinct record')} of weight {self.total:,.6g}, "
            f"{plural(len(self.domain), 'attribute')})"
        )


def record_keys(columns: Sequence[np.ndarray], shape: Sequence[int]) -> np.ndarray:
    """Return an integer per record, equal for equal records only and in lexicographic order; shape (records,).

    It is the row-major cell number in the joint table if that fits into 62 bits. Otherwise the numbers so far are
    replaced by their ranks before they would exceed the limit.
    """
    keys = np.zeros(len(columns[0]) if columns else 1, dtype=np.int64)
    span = 1
    for column, size in zip(columns, shape, strict=True):
        if span * size > LARGEST_KEY:
            distinct, keys = np.unique(keys, return_inverse=True)
            span = len(distinct)
        keys = keys * size + column
        span *= size
    return keys


def _merge(keys: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Merge the rows of equal keys.

    Returns:
        a row for each distinct key of positive weight, in key order; the sum of its weights; and for each row the
        position of its key, -1 if the key has no weight.
    """
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    sums = np.add.reduceat(weights[order], np.flatnonzero(starts))
    positive = sums > 0
    places = np.empty(len(keys), dtype=np.intp)
    places[order] = np.where(positive, np.cumsum(positive) - 1, -1)[np.cumsum(starts) - 1]
    return order[np.flatnonzero(starts)[positive]], sums[positive], places
