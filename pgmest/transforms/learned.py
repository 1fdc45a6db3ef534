"""Transforms learned from the records, through a curator: each pays for what it measures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from pgmest._base.errors import ArgumentError
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.privacy.allocation import least_error_weights
from pgmest.privacy.budgets import Budget
from pgmest.privacy.curator import Curator
from pgmest.tables.domain import Domain
from pgmest.transforms.public import bucketize, check_new, fill, unchanged
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
    """Measure one-way marginals, and put all rare values of an attribute into one, its last code.

    `threshold=4.5, at_least=800, drop=True` are DPSyn's in the contest (section 5.3).

    >>> import pgmest as pg
    >>> from pgmest.privacy import Rho
    >>> census = pg.datasets.load("census").select(["native-country", "sex"])
    >>> curator = pg.privacy.Curator(census, Rho(0.01), backend="simulation", seed=0)
    >>> compress_rare(curator, Rho(0.005)).after["native-country"] < census.domain["native-country"]
    True

    Args:
        curator: has the records.
        spend: for the one-way marginals together.
        attributes: which; by default all.
        threshold, at_least, drop: which values are rare, see `rare_values`.

    Raises:
        ArgumentError: a threshold that is no number.
        BudgetExceeded, BudgetTypeError: as for `Curator.measure`.
    """
    _check_threshold(threshold)
    names = curator.domain.attributes if attributes is None else curator.domain.clique(attributes)
    one_way = [(name,) for name in names]
    weights = least_error_weights(curator.domain, one_way, type(curator.budget))
    measured = curator.measure_all(one_way, spend, weights=weights)
    return rare_values(curator.domain, measured, threshold, at_least=at_least, drop=drop)


def rare_values(
    domain: Domain,
    one_way: Sequence[LinearMeasurement],
    threshold: float = 3.0,
    *,
    at_least: float = 0.0,
    drop: bool = False,
) -> Transform:
    """As `compress_rare`, from one-way marginals that were measured already.

    An attribute with a single rare value keeps it, unless that is dropped. A rare value's share of its code is its
    noisy count where that is positive, plus one standard deviation of the noise, so that none is excluded.

    >>> measured = LinearMeasurement([5000.0, 900.0, 300.0, 200.0], "a", stddev=10.0)
    >>> kept = rare_values(Domain({"a": 4}), [measured], 4.5, at_least=800)
    >>> dropped = rare_values(Domain({"a": 4}), [measured], 4.5, at_least=800, drop=True)
    >>> kept.after["a"], dropped.after["a"], dropped.columns["a"].shares.tolist()
    (3, 2, [1.0, 1.0, 0.0, 0.0])

    Args:
        domain: the attributes.
        one_way: what was measured of them.
        threshold: values are rare whose noisy count is below this many standard deviations of its noise; -inf: none.
        at_least: ... or below this count: theta = max(threshold * sigma, at_least) (DPSyn section 5.3).
        drop: whether the rare values of an attribute are assigned 0 where their noisy counts together are below theta,
            too. Records that have one count as the attribute's most frequent value, and no record will have one.

    Raises:
        ArgumentError: a threshold that is no number.
    """
    _check_threshold(threshold)
    columns = unchanged(domain)
    for measurement in one_way:
        (name,) = measurement.clique
        columns[name] = _compressed(measurement, threshold, domain, at_least, drop)
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
    """Measure the marginal of some attributes and recode them into one: a code for each cell that is not rare, and one
    for all that are (`rare_values` says which).

    Raises:
        ArgumentError: `name` is an attribute that stays, or a threshold that is no number.
        BudgetExceeded, BudgetTypeError: as for `Curator.measure`.
    """
    _check_threshold(threshold)
    clique = curator.domain.clique(attributes)
    check_new(curator.domain, clique, name)
    column = _compressed(curator.measure(clique, spend), threshold, curator.domain, at_least, drop)
    return Transform(curator.domain, {**unchanged(curator.domain, clique), name: column})


def refine(curator: Curator, spend: Budget, starts: Mapping[str, int | Iterable[int]]) -> Transform:
    """Buckets as `bucketize` makes them, which are shared out again as the measured one-way marginals say.

    Raises:
        ArgumentError: starts that are not ascending codes from 0.
        BudgetExceeded, BudgetTypeError: as for `Curator.measure`.
    """
    bucketize(curator.domain, starts)
    measured = curator.measure_all([(name,) for name in starts], spend)
    shares = {m.clique[0]: np.maximum(m.values, 0.0) for m in measured}
    return bucketize(curator.domain, starts, shares)


def learn_mapping(curator: Curator, spend: Budget, name: str, of: Iterable[str]) -> Transform:
    """Measure the marginal of an attribute and others that (almost) determine it, and leave it out: it is filled in
    again with its most frequent code for each of their cells.

    Raises:
        UnknownAttributeError, DuplicateAttributeError: attributes that are none, or named twice.
        BudgetExceeded, BudgetTypeError: as for `Curator.measure`.
    """
    others = curator.domain.clique(of)
    clique = curator.domain.clique((*others, name))
    counts = curator.measure(clique, spend).values.reshape(curator.domain.project(clique).shape)
    return fill(curator.domain, name, others, counts.argmax(axis=-1))


def _compressed(
    measurement: LinearMeasurement, threshold: float, domain: Domain, at_least: float = 0.0, drop: bool = False
) -> Column:
    shape, values = domain.project(measurement.clique).shape, measurement.values
    stddev = np.broadcast_to(measurement.stddev, measurement.rows)
    common = values >= np.maximum(threshold * stddev, at_least or -np.inf)  # -inf: all
    rare = np.where(common, 0.0, values)
    theta = max(threshold * float(stddev.max()), at_least)
    if drop and common.any() and not common.all() and rare.sum() < theta:
        codes = np.where(common, np.cumsum(common) - 1, np.cumsum(common)[np.argmax(values)] - 1)
        shares = np.where(common, np.maximum(values, 0.0) + stddev, 0.0)
        return Column(measurement.clique, codes.reshape(shape), shares.reshape(shape))
    if common.sum() >= common.size - 1:
        return Column(measurement.clique, np.arange(common.size).reshape(shape))
    codes = np.where(common, np.cumsum(common) - 1, common.sum())
    shares = np.maximum(values, 0.0) + stddev
    return Column(measurement.clique, codes.reshape(shape), shares.reshape(shape))


def _check_threshold(threshold: float) -> None:
    if math.isnan(threshold):
        raise ArgumentError.of("threshold", threshold, "a number, such as 3, or -inf")
