"""Checks of structural zeros: before a run, that a record is possible; after it, that the model honors them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.inference.exact.structural_zeros import Rule
from pgmest.measurements.measured_tables import MEAN_ABSOLUTE
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.models.exact import Model
from pgmest.models.support import SupportModel
from pgmest.tables.domain import Domain

ZEROS = "structural_zeros"
"""The key of `Result.details` under which a run says whether its model honors the structural zeros."""

HONORED = "honored"
"""The entry of `Result.details` for a model that honors the structural zeros."""

MOVED_SHARE, MOST_DEVIATIONS = 0.05, 4.0
"""A one-way marginal counts as moved by the rules if it differs from its noisy answers by at least this share of the
records, and by more than this many standard deviations of their noise."""


REDRAWS = 5
"""The number of times that records get other codes, for each rule in turn, until they break none."""


def check_possible(rules: Sequence[Rule], domain: Domain) -> None:
    """Check that rules fit the domain and leave a possible record, before a budget is spent.

    Raises:
        UnknownAttributeError, CodeRangeError, ShapeError, ArgumentError: if the rules do not fit the domain.
        ImpossibleModelError: if the rules leave no possible record.
        ModelTooLarge: if the junction tree of the rules is too large.
    """
    from pgmest.estimation.estimate import estimate

    estimate([], domain, total=1.0, structural_zeros=rules, max_iterations=0)


def honored(model: Any, rules: Sequence[Rule], domain: Domain, measurements: Iterable[LinearMeasurement] = ()) -> str:
    """Return "honored" if records of a model never break the rules, and "not honored: " with the reason otherwise.

    The answer is read off the marginals of a `Model` or of weighted records. Other kinds of models count as not
    honoring the rules, since their marginals need not be those of their records. If the one-way marginals are far from
    the measured ones, "honored, but " is followed by the attribute that is farthest.

    Args:
        model: the model.
        rules: the structural zeros.
        domain: the attributes.
        measurements: the noisy answers, which are public.
    """
    if not isinstance(model, Model | SupportModel):
        return f"not honored: a {type(model).__name__} cannot exclude anything; the models of AIM and MST can"
    for rule in rules:
        if model.project(domain.clique(rule.attributes)).values[rule.mask(domain)].any():
            if isinstance(model, Model):
                return "not honored: together with what was measured the rules would make the model too large"
            return "not honored: some of the records that the model is made of are impossible"
    tied = {name for rule in rules for name in rule.attributes}
    share, name = max(
        ((moved_share(model, m, n), n) for m in measurements for n in m.clique if n in tied), default=(0, "")
    )
    if share < MOVED_SHARE:
        return HONORED
    return (
        f"{HONORED}, but {share:.0%} of the records have another '{name}' than its noisy answers say, beyond their "
        "noise. Either the structural zeros exclude records that exist, or the model cannot hold them together with "
        "what was measured: compare with a run without them"
    )


def possible_records(records: Dataset, rules: Sequence[Rule]) -> Dataset:
    """Return the records that violate no rule, or all records if all violate one."""
    broken = np.zeros(records.records, dtype=bool)
    for rule in rules:
        names = records.domain.clique(rule.attributes)
        broken |= np.asarray(rule.mask(records.domain))[tuple(np.asarray(records.column(name)) for name in names)]
    return records if broken.all() or not broken.any() else records.take(~broken)


def with_possible_codes(records: Dataset, rules: Sequence[Rule], generator: np.random.Generator) -> Dataset:
    """Return records that break no rule: those that break one get other codes of its attributes.

    A record takes the code of one attribute, chosen at random, from a random possible record that agrees with it on the
    rule's other attributes. Records that break a rule still are replaced by possible ones.

    Args:
        records: the records.
        rules: the structural zeros, which leave a possible record.
        generator: the random generator.
    """
    columns = [np.array(column) for column in records.columns]
    domain = records.domain
    wrong = _breaking(columns, domain, rules)
    possible = [column[~wrong] for column in columns]
    for _ in range(REDRAWS if wrong.any() and not wrong.all() else 0):
        for rule in rules:
            axes = domain.axes(domain.clique(rule.attributes))
            rows = np.flatnonzero(_breaking(columns, domain, [rule]))
            first = generator.permuted(np.tile(axes, (len(rows), 1)), axis=1)
            for choice in range(len(axes)):
                for axis in axes:
                    left = rows[first[:, choice] == axis]
                    left = left[_breaking([column[left] for column in columns], domain, [rule])]
                    _take_code(columns, possible, left, axis, [other for other in axes if other != axis], generator)
    left = np.flatnonzero(_breaking(columns, domain, rules))
    if len(left):
        if not len(possible[0]):
            possible = list(_any_possible(domain, rules, len(left)).columns)
        drawn = generator.integers(len(possible[0]), size=len(left))
        for column, other in zip(columns, possible, strict=True):
            column[left] = other[drawn]
    return Dataset.from_codes(columns, domain, trusted=True)


def _breaking(columns: Sequence[np.ndarray], domain: Domain, rules: Iterable[Rule]) -> np.ndarray:
    """Return which records break one of the rules."""
    broken = np.zeros(len(columns[0]), dtype=bool)
    for rule in rules:
        axes = domain.axes(domain.clique(rule.attributes))
        broken |= np.asarray(rule.mask(domain))[tuple(columns[axis] for axis in axes)]
    return broken


def _take_code(
    columns: Sequence[np.ndarray],
    possible: Sequence[np.ndarray],
    rows: np.ndarray,
    axis: int,
    same: Sequence[int],
    generator: np.random.Generator,
) -> None:
    """Give each of the records the code of an attribute that a random possible record with the same others has."""
    key, wanted = np.zeros(len(possible[0]), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
    for other in same:
        both = np.concatenate([possible[other], columns[other][rows]])
        names = np.unique(np.stack([np.concatenate([key, wanted]), both]), axis=1, return_inverse=True)[1].reshape(-1)
        key, wanted = names[: len(key)], names[len(key) :]
    order = np.argsort(key, kind="stable")
    start, stop = (np.searchsorted(key[order], wanted, side=side) for side in ("left", "right"))
    found = stop > start
    donors = order[generator.integers(start[found], stop[found])]
    columns[axis][rows[found]] = possible[axis][donors]


def _any_possible(domain: Domain, rules: Sequence[Rule], count: int) -> Dataset:
    """Return records that are drawn evenly from all possible ones."""
    from pgmest.estimation.estimate import estimate

    return estimate([], domain, total=1.0, structural_zeros=rules).sample(count, seed=0)


def moved_share(model: Any, measurement: LinearMeasurement, name: str) -> float:
    """Return the share of records by which a model's one-way marginal differs from a measured table, beyond its noise.

    It is 0 if the difference can be noise, and for measurements of other queries of several attributes.

    Args:
        model: the model.
        measurement: noisy answers about an attribute, or a noisy table of several.
        name: the attribute.
    """
    if measurement.query is None:
        table = model.domain.project(measurement.clique)
        others = tuple(axis for axis, other in enumerate(table) if other != name)
        noisy, found = measurement.values.reshape(table.shape).sum(axis=others), model.project((name,)).values
        variances = np.broadcast_to(np.square(measurement.stddev), measurement.rows).reshape(table.shape)
        stddev = np.sqrt(variances.sum(axis=others))
    elif measurement.clique == (name,):
        noisy, found, stddev = measurement.values, measurement.answer(model.project((name,))), measurement.stddev
    else:
        return 0.0
    noise = np.broadcast_to(stddev, np.shape(noisy))
    beyond = float(np.abs(noisy - found).sum()) - MEAN_ABSOLUTE * float(noise.sum())
    certain = beyond > MOST_DEVIATIONS * float(np.sqrt(np.square(noise).sum()))
    return beyond / (2 * model.total) if certain and model.total > 0 else 0.0
