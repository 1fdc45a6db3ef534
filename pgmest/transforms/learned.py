"""Transforms that are learned from the records through a curator, which charges their measurements."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from pgmest.errors import ArgumentError
from pgmest.inference.exact.structural_zeros import Rule
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.privacy.allocation import least_error_weights
from pgmest.privacy.budgets import Budget
from pgmest.privacy.curator import Curator
from pgmest.tables.domain import Clique, Domain
from pgmest.transforms.public import bucketize, check_new, fill, unchanged
from pgmest.transforms.structural_zeros import codes_alike
from pgmest.transforms.transform import Column, Transform


def compress_rare(
    curator: Curator,
    spend: Budget,
    *,
    attributes: Iterable[str] | None = None,
    threshold: float = 3.0,
    at_least: float = 0.0,
    drop: bool = False,
) -> Transform:
    """Measure one-way marginals, and merge all rare values of an attribute into one, its last code.

    DPSyn's choice in the contest was `threshold=4.5, at_least=800, drop=True` (section 5.3).

    >>> import pgmest as pg
    >>> from pgmest.privacy import Rho
    >>> census = pg.datasets.load("census").select(["native-country", "sex"])
    >>> curator = pg.privacy.Curator(census, Rho(0.01), backend="simulation", seed=0)
    >>> compress_rare(curator, Rho(0.005)).after["native-country"] < census.domain["native-country"]
    True

    Args:
        curator: the curator of the records.
        spend: the budget for all one-way marginals together.
        attributes: the attributes to compress; by default all of several values that no invariant is about.
        threshold, at_least, drop: the definition of rare values, see `rare_values`.

    Raises:
        ArgumentError: the threshold is NaN, or one of the given attributes is an invariant's.
        BudgetExceeded, BudgetTypeError: see `Curator.measure`.
    """
    _check_threshold(threshold)
    free = [name for name in curator.domain.varying if name not in curator.fixed_attributes]
    names = free if attributes is None else _recodable(curator, attributes)
    one_way = [(name,) for name in names]
    weights = least_error_weights(curator.domain, one_way, type(curator.budget))
    measured = curator.measure_all(one_way, spend, weights=weights)
    zeros = curator.structural_zeros
    return rare_values(curator.domain, measured, threshold, at_least=at_least, drop=drop, structural_zeros=zeros)


def rare_values(
    domain: Domain,
    one_way: Sequence[LinearMeasurement],
    threshold: float = 3.0,
    *,
    at_least: float = 0.0,
    drop: bool = False,
    structural_zeros: Iterable[Rule] = (),
) -> Transform:
    """Return the transform of `compress_rare` from one-way marginals that are already measured.

    An attribute with a single rare value keeps the value, unless `drop` removes it. The share of a rare value in the
    merged code is proportional to its noisy count, at least 0, plus one standard deviation of the noise, so that every
    value remains possible.

    >>> measured = LinearMeasurement([5000.0, 900.0, 300.0, 200.0], "a", stddev=10.0)
    >>> kept = rare_values(Domain({"a": 4}), [measured], 4.5, at_least=800)
    >>> dropped = rare_values(Domain({"a": 4}), [measured], 4.5, at_least=800, drop=True)
    >>> kept.after["a"], dropped.after["a"], dropped.columns["a"].shares.tolist()
    (3, 2, [1.0, 1.0, 0.0, 0.0])

    Args:
        domain: the attributes.
        one_way: the measured one-way marginals.
        threshold: the threshold in standard deviations of the noise; with -inf no value is rare.
        at_least: the smallest threshold as a count. A value is rare if its noisy count is below
            theta = max(threshold * sigma, at_least) (DPSyn section 5.3).
        drop: whether to drop an attribute's rare values if their noisy counts sum to less than theta. Records with a
            dropped value count as the attribute's most frequent value, and no decoded record has a dropped value.
        structural_zeros: rules of `pgmest.zeros`. Only values that they treat alike are merged, one group after the
            other, so that no record becomes impossible or loses a rule.

    Raises:
        ArgumentError: the threshold is NaN.
    """
    _check_threshold(threshold)
    columns, rules = unchanged(domain), tuple(structural_zeros)
    for measurement in one_way:
        (name,) = measurement.clique
        columns[name] = _compressed(measurement, threshold, domain, at_least, drop, rules)
    return Transform(domain, columns)


def merge_and_compress(
    curator: Curator,
    spend: Budget,
    attributes: Iterable[str],
    name: str,
    *,
    threshold: float = 3.0,
    at_least: float = 0.0,
    drop: bool = False,
) -> Transform:
    """Measure the marginal of some attributes, and merge them into one attribute.

    The new attribute has one code for each cell that is not rare, and one code for all rare cells.

    Args:
        curator: the curator of the records.
        spend: the budget for the marginal.
        attributes: the attributes to merge.
        name: the name of the new attribute.
        threshold, at_least, drop: the definition of rare cells, see `rare_values`.

    Raises:
        ArgumentError: `name` is an attribute that is not merged, one of the attributes is an invariant's, or the
            threshold is NaN.
        BudgetExceeded, BudgetTypeError: see `Curator.measure`.
    """
    _check_threshold(threshold)
    clique = _recodable(curator, attributes)
    check_new(curator.domain, clique, name)
    measured, zeros = curator.measure(clique, spend), curator.structural_zeros
    column = _compressed(measured, threshold, curator.domain, at_least, drop, zeros)
    return Transform(curator.domain, {**unchanged(curator.domain, clique), name: column})


def refine(curator: Curator, spend: Budget, starts: Mapping[str, int | Iterable[int]]) -> Transform:
    """Return the buckets of `bucketize`, whose codes have the shares of measured one-way marginals.

    Args:
        curator: the curator of the records.
        spend: the budget for the one-way marginals together.
        starts: the buckets, see `bucketize`.

    Raises:
        ArgumentError: the starts are not ascending codes from 0, or one of the attributes is an invariant's.
        BudgetExceeded, BudgetTypeError: see `Curator.measure`.
    """
    bucketize(curator.domain, starts)  # checks the arguments before the budget is spent
    _recodable(curator, starts)
    measured = curator.measure_all([(name,) for name in starts], spend)
    shares = {m.clique[0]: np.maximum(m.values, 0.0) for m in measured}
    return bucketize(curator.domain, starts, shares)


def learn_mapping(curator: Curator, spend: Budget, name: str, of: Iterable[str]) -> Transform:
    """Measure the marginal of an attribute and of others that (almost) determine it, and leave the attribute out.

    Decoding fills in the attribute's most frequent code for each cell of the others.

    Args:
        curator: the curator of the records.
        spend: the budget for the marginal.
        name: the attribute to leave out.
        of: the attributes that determine it.

    Raises:
        UnknownAttributeError, DuplicateAttributeError: the domain lacks an attribute, or one is named twice.
        ArgumentError: the attribute is an invariant's.
        BudgetExceeded, BudgetTypeError: see `Curator.measure`.
    """
    _recodable(curator, (name,))
    others = curator.domain.clique(of)
    clique = curator.domain.clique((*others, name))
    counts = curator.measure(clique, spend).values.reshape(curator.domain.project(clique).shape)
    return fill(curator.domain, name, others, counts.argmax(axis=-1))


def _compressed(
    measurement: LinearMeasurement,
    threshold: float,
    domain: Domain,
    at_least: float = 0.0,
    drop: bool = False,
    structural_zeros: Iterable[Rule] = (),
) -> Column:
    """Return the column of a marginal's cells after its rare cells are merged or dropped, see `rare_values`.

    Cells that are not alike under the structural zeros are compressed separately.
    """
    shape, values = domain.project(measurement.clique).shape, measurement.values
    stddev = np.broadcast_to(measurement.stddev, measurement.rows)
    common = values >= np.maximum(threshold * stddev, at_least or -np.inf)  # without at_least, threshold=-inf keeps all
    theta = max(threshold * float(stddev.max()), at_least)
    alike = codes_alike(structural_zeros, domain, measurement.clique).reshape(-1)
    head = np.arange(common.size)  # for each cell, the first cell that shares its code
    dropped = np.zeros(common.size, dtype=bool)
    for cells in (np.flatnonzero(alike == number) for number in range(int(alike.max()) + 1)):
        rare = cells[~common[cells]]
        if drop and 0 < len(rare) < len(cells) and values[rare].sum() < theta:
            head[rare], dropped[rare] = cells[np.argmax(values[cells])], True
        elif len(rare) > 1:
            head[rare] = rare[0]
    merged = np.isin(head, head[(head != np.arange(common.size)) & ~dropped])
    order = np.lexsort((head, merged))  # the codes of merged cells are the last ones
    codes = np.empty(common.size, dtype=np.int64)
    codes[order] = np.cumsum(np.diff(head[order], prepend=head[order[0]]) != 0)
    if (head == np.arange(common.size)).all():
        return Column(measurement.clique, codes.reshape(shape))
    shares = np.where(dropped, 0.0, np.maximum(values, 0.0) + stddev)
    return Column(measurement.clique, codes.reshape(shape), shares.reshape(shape))


def _recodable(curator: Curator, attributes: Iterable[str]) -> Clique:
    """Return attributes after checking, before anything is spent, that no invariant is about them."""
    clique = curator.domain.clique(attributes)
    for name in clique:
        if name in curator.fixed_attributes:
            raise ArgumentError(f"'{name}' is an attribute of invariants, which no step may recode: leave it out.")
    return clique


def _check_threshold(threshold: float) -> None:
    if math.isnan(threshold):
        raise ArgumentError.of("threshold", threshold, "a number, such as 3, or -inf")
