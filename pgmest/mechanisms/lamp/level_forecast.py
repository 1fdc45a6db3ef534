"""The errors to expect of tables by level of a hierarchy, such as diagnosis@chapter beside diagnosis."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from pgmest.mechanisms.emphasis import STRONG
from pgmest.mechanisms.lamp.candidates import interaction_fraction, one_way_candidate
from pgmest.mechanisms.lamp.forecast import NORMAL_95, ExpectedTable, Forecast
from pgmest.mechanisms.lamp.groups import branches
from pgmest.mechanisms.lamp.tree_counts import least_coarsest_share, level_parts, measured_levels
from pgmest.mechanisms.lamp.typical_tables import class_of, typical_counts
from pgmest.queries.levels import cliques_by_level
from pgmest.tables.domain import Clique

MOST_BY_LEVEL = 300
"""The largest number of tables by level whose errors are computed."""


def expected_by_level(forecast: Forecast, asked: Iterable[Clique]) -> dict[Clique, ExpectedTable]:
    """Return the errors to expect of single attributes at each coarser level, and of tables by level.

    Args:
        forecast: The forecast of a run; codes are in the order of their trees.
        asked: The tables by level that a workload asks for; without any, all levels of its tables are listed.
    """
    domain = forecast.first.domain
    one_way: dict[str, ExpectedTable] = {}
    for name in forecast.demand.attributes:
        finer = forecast.one_way[name]
        for (level,) in cliques_by_level(domain, (name,))[:0:-1]:
            one_way[level] = finer = _one_way(forecast, name, level, finer.error)
    found = {table.clique: table for table in list(one_way.values())[::-1]}
    named = {clique for clique in asked if len(clique) > 1 and domain.names_levels(clique)}
    for clique in forecast.tables:
        for names in cliques_by_level(domain, clique)[1:]:
            if len(found) < MOST_BY_LEVEL and (not named or names in named):
                found[names] = _together(forecast, clique, names, one_way)
    return found


def _one_way(forecast: Forecast, name: str, level: str, most: float) -> ExpectedTable:
    """Return the error to expect of an attribute at a level, which is at most that of the next finer level."""
    first, records = forecast.first, forecast.records
    groups = first.domain.level(level).size or 1
    share = first.shares[name,] + (forecast.chosen[name,][1] if (name,) in forecast.chosen else 0.0)
    stddev = math.sqrt(_variance(forecast, name, share, groups))
    typical, even = typical_counts(groups, records), np.full(groups, records / groups)
    error, worst = (
        forecast._left(one_way_candidate((name,), counts, stddev, first.noise_model), 0.0) for counts in (typical, even)
    )
    half_width = NORMAL_95 * math.sqrt(
        stddev**2 * interaction_fraction((groups,)) + forecast.total_variance / groups**2
    )
    error = min(error, most)
    return ExpectedTable((level,), groups, (groups,), share, error, half_width, max(error, worst))


def _variance(forecast: Forecast, name: str, share: float, groups: int) -> float:
    r"""Return the variance of the count of a group by least squares from the counts of all levels.

    In a tree whose groups of a level have equal numbers of codes it is
    $m_j / n_j \sum_{l \le j} (n_l - n_{l-1}) / \sum_{k \ge l} m_k s_k$ at level j (`tree_counts.level_parts`). A level
    that is not measured is a sum over the next finer one.
    """
    noise_model, size = forecast.first.noise_model, forecast.first.domain[name]
    levels = measured_levels(branches(forecast.first.domain, name), size)
    number = np.array([float(labels[-1]) + 1 for labels in levels])
    members = size / number
    known = np.cumsum((members * noise_model.precision(_level_shares(forecast, levels, share)))[::-1])[::-1]
    free = np.diff(np.minimum(number, max(groups, 1)), prepend=1.0)
    return float(size / groups**2 * (free / known).sum())


def _level_shares(forecast: Forecast, levels: list[np.ndarray], share: float) -> np.ndarray:
    """Return the shares of the levels of an attribute's tree, from the coarsest; see `coarsest_counts`."""
    domain, power = forecast.first.domain, forecast.first.noise_model.power
    shares = share * level_parts(levels, power)
    if forecast.demand.at_levels and power == 1 and len(levels) > 1:
        measured = (measured_levels(branches(domain, name), domain[name]) for name in forecast.demand.attributes)
        least = least_coarsest_share(len(levels), sum(len(found) > 1 for found in measured))
        shares[0] = max(shares[0], least)
    return shares


def _together(forecast: Forecast, clique: Clique, names: Clique, one_way: Mapping[str, ExpectedTable]) -> ExpectedTable:
    """Return the error to expect of a pair or triple by level, if the table of its attributes is measured.

    The share counts for less by the number of measured groups in a group of the level, whose noise adds up.
    """
    domain, noise_model = forecast.first.domain, forecast.first.noise_model
    measured = forecast.expected[clique]
    sizes = [domain.level(name).size or domain[name] for name in names]
    more = math.prod(max(1.0, own / size) for own, size in zip(measured.groups, sizes, strict=True))
    share = measured.share * more ** (-1 / noise_model.power)
    kind, parts = forecast.kind_of(sizes), [one_way.get(name) or forecast.one_way[name] for name in names]
    candidate = kind.candidate((class_of(STRONG),))
    own = forecast._left(candidate, share)
    width = NORMAL_95 * math.sqrt(forecast._variance(kind, candidate, share, STRONG))
    width = forecast.with_margins(width, parts)
    error, worst = (min(1.0, math.hypot(own, *ends)) for ends in zip(*((p.error, p.worst) for p in parts), strict=True))
    groups = tuple(min(own, size) for own, size in zip(measured.groups, sizes, strict=True))
    error, cells = min(error, measured.error), math.prod(sizes)
    return replace(measured, clique=names, cells=cells, groups=groups, error=error, half_width=width, worst=worst)
