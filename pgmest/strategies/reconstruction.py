"""Least squares in closed form: the parts of a `LeastSquaresModel` from the measurements of a shared strategy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pgmest.measurements.measurement import LinearMeasurement
from pgmest.strategies.least_squares import LeastSquaresParts
from pgmest.strategies.shared import SharedStrategy
from pgmest.tables.domain import Clique, Domain


def least_squares_parts(
    domain: Domain, strategy: SharedStrategy, measurements: Sequence[LinearMeasurement]
) -> LeastSquaresParts:
    """Return the least-squares estimate from measurements; the joint table is not materialized.

    Args:
        domain: the attributes.
        strategy: the strategy that was measured.
        measurements: the noisy answers, in counts, in the order of the strategy's cliques.
    """
    precisions = [float(np.mean(m.stddev)) ** -2.0 for m in measurements]
    eigenvalues = dict(zip(strategy.parts, strategy.eigenvalues(precisions), strict=True))
    order = {name: place for place, name in enumerate(domain)}
    parts: dict[Clique, np.ndarray] = {}
    for measurement, precision in zip(measurements, precisions, strict=True):
        clique = measurement.clique
        cells = measurement.transpose_cells(measurement.values).reshape(domain.project(clique).shape)
        share = precision / np.sqrt(strategy.mass(clique))
        for part, eigenvalue in eigenvalues.items():
            if set(part) <= set(clique):
                named, table = _part_of(strategy, clique, part, cells)
                kept = tuple(sorted(named, key=order.__getitem__))
                table = table.transpose([named.index(name) for name in kept]) * (share / eigenvalue)
                parts[kept] = parts[kept] + table if kept in parts else table
    directions = {name: one.k for name, one in strategy.attributes.items() if one.matrix is not None}
    return LeastSquaresParts(domain, strategy.cliques, parts, directions)


def _part_of(strategy: SharedStrategy, clique: Clique, part: Clique, cells: np.ndarray) -> tuple[Clique, np.ndarray]:
    """Return the attributes of a part, in the clique's order, and the part of a table over the clique."""
    table = cells
    for axis, name in enumerate(clique):
        attribute = strategy.attributes[name]
        table = (attribute.centered if name in part else attribute.summed)(table, axis)
    named = tuple(name for name in clique if name in part)
    axes = tuple(axis for axis, name in enumerate(clique) if name not in part)
    return named, table.squeeze(axes)
