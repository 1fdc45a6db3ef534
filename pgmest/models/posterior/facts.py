r"""Facts in a posterior: exact answers, which every draw has.

Draws are made as if facts $A \mu = b$ had noise, as large as the finest other noise and at most the Poisson deviation
of b (`precise_measurements`), because chains mix badly along facts of less noise. The draws are then given the facts in
two steps:

1. `conditioned` moves them as a normal distribution of the curvature at the mode is conditioned on linear facts. For a
   normal posterior this is exact, because what the facts explain does not depend on their noise. With more than 500
   facts this step is left out, and the noise of facts is smaller instead.
2. `FactsMove` closes the rest of the distance, which is due to the curvature of the marginals. Potentials $\theta$ move
   to $\theta - A^T \nu$, where Newton's method finds the multipliers $\nu$ of the facts:

   .. math:: A C A^T \, \Delta\nu = A \mu - b ,

   with C the covariance of the marginals $\mu$ in counts. The result is the distribution with the facts that is closest
   to the draw in relative entropy (I-projection; Csiszar 1975). Facts of 0 about sums of cells are structural zeros.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from pgmest.errors import TotalError
from pgmest.inference.exact.belief_propagation import ExactOracle
from pgmest.inference.exact.functional_dependencies import CollapsedOracle
from pgmest.losses.base import dot
from pgmest.losses.residual import Residuals
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.solvers.total import estimate_total
from pgmest.tables.clique_vector import Layout
from pgmest.tables.domain import Domain

CONDITIONED_SHARE, MOVED_SHARE = 1.0, 0.1
"""The noise of facts while draws are made, as a share of the finest other noise and of the Poisson deviation: if draws
are conditioned on the facts, and if not. In simulations of small tables, chains have 3 to 50 times as many effective
draws at the former."""
MOST_CONDITIONED = 500
"""The largest number of facts on which draws are conditioned, each of which takes a system of equations."""

WHOLE_NOISE = 0.25
"""The noise of a fact, in records, that is small enough because counts are whole numbers."""
REDUNDANT = 1e-4
"""Eigenvalues below this share of the largest belong to facts that follow from others."""

HELD = 1e-11
"""Draws are moved until no fact is missed by more than this share of the number of records."""
STEPS = 60
"""The largest number of Newton steps."""
LONGEST = 2.0
"""The largest change of a multiplier in a Newton step, in nats."""
HALVINGS = 12
"""The largest number of times that a Newton step is halved."""

SOLVED = 1e-4
"""The relative residual to which conjugate gradients solve for a Newton step."""
SMALLEST_VARIANCE = 1e-300
"""Facts about cells whose variance is smaller have no multiplier."""


def precise_measurements(measurements: Sequence[LinearMeasurement]) -> tuple[LinearMeasurement, ...]:
    """Return the measurements, with exact answers replaced by precise normal ones.

    A table of which some answers are exact, such as one with suppressed cells, becomes two measurements.
    """
    facts = sum(int(measurement.exact_rows.sum()) for measurement in measurements)
    share = CONDITIONED_SHARE if facts <= MOST_CONDITIONED else MOVED_SHARE
    finest = min((noise for measurement in measurements for noise in _noise(measurement)), default=np.inf)
    found = []
    for measurement in measurements:
        exact = measurement.exact_rows
        if not exact.any():
            found.append(measurement)
            continue
        assert measurement.low is not None
        assert measurement.high is not None
        values = measurement.low[exact]
        unit = np.sqrt(measurement.weighted_column_squares(1.0).max())
        least = np.minimum(finest * unit, np.sqrt(np.abs(values) + 1.0))
        spread = np.maximum(share * least, np.minimum(CONDITIONED_SHARE * least, WHOLE_NOISE))
        found.append(LinearMeasurement(values, measurement.clique, spread, _some_rows(measurement, exact)))
        if not exact.all():
            low, high = measurement.low[~exact], measurement.high[~exact]
            found.append(LinearMeasurement.between(low, high, measurement.clique, _some_rows(measurement, ~exact)))
    return tuple(found)


def _noise(measurement: LinearMeasurement) -> Iterator[float]:
    """Yield the noise of an answer about one cell, in counts; the deviation of a uniform one between published ends."""
    if measurement.noisy:
        yield 1.0 / measurement.max_column_norm()
    elif measurement.low is not None and measurement.high is not None:
        widths = measurement.high - measurement.low
        positive = widths[np.isfinite(widths) & (widths > 0)]
        if len(positive):
            yield float(positive.min()) / np.sqrt(12.0)


def _some_rows(measurement: LinearMeasurement, chosen: np.ndarray) -> object:
    """Return the query of some of a measurement's answers."""
    if chosen.all():
        return measurement.query
    rows = np.flatnonzero(chosen)
    units = sparse.csr_array((np.ones(len(rows)), (np.arange(len(rows)), rows)), shape=(len(rows), len(chosen)))
    if measurement.query is None:
        return units
    return np.stack([measurement.transpose_cells(unit) for unit in units.toarray()])


def exact_total(measurements: Sequence[LinearMeasurement], domain: Domain) -> float | None:
    """Return the number of records if exact answers determine it, else None."""
    facts = [m for m in measurements if m.exact_rows.all()]
    try:
        return estimate_total(facts, domain).value if facts else None
    except TotalError:
        return None


def conditioned(points: np.ndarray, missed: np.ndarray, slopes: np.ndarray, solved: np.ndarray) -> np.ndarray:
    """Return normal draws given linear facts, shape (draws, size): x - S J^T (J S J^T)^-1 (J x - b).

    These are exact draws given the facts, whatever the noise with which facts were drawn (kriging).

    Args:
        points: draws x, shape (draws, size).
        missed: J x - b for each draw, shape (draws, facts).
        slopes: J, shape (facts, size).
        solved: J S, where S is the covariance of the draws, shape (facts, size).
    """
    gram = solved @ slopes.T
    unit = np.sqrt(np.maximum(np.diag(gram), SMALLEST_VARIANCE))
    inverse = np.linalg.pinv(0.5 * (gram + gram.T) / np.outer(unit, unit), rcond=REDUNDANT, hermitian=True)
    return points - (missed / unit) @ inverse @ (solved / unit[:, None])


@dataclass(frozen=True, eq=False)
class FactsMove:
    """The move of potentials onto facts.

    Attributes:
        residuals: the measurements with exact answers, as a linear map of marginals in counts.
        kept: the answers that have a multiplier, among all answers of these.
        excluded: the cells, as positions in flat arrays, that facts of 0 make structural zeros.
    """

    residuals: Residuals
    kept: np.ndarray
    excluded: np.ndarray

    @classmethod
    def of(cls, measurements: Iterable[LinearMeasurement], layout: Layout) -> FactsMove | None:
        """Return the move onto the exact answers among measurements; None without such answers."""
        exact = [m for m in measurements if m.exact_rows.any()]
        if not exact:
            return None
        residuals = Residuals(exact, layout, [1.0] * len(exact))
        empty = np.concatenate([_empty_rows(m) for m in exact])
        excluded = np.flatnonzero(residuals.weighted_column_squares(empty.astype(np.float64)) > 0)
        kept = np.concatenate([m.exact_rows for m in exact]) & ~empty
        return cls(residuals, kept, excluded)

    def units(self) -> Iterator[np.ndarray]:
        """Yield A^T times a unit vector for each answer that has a multiplier."""
        unit = np.zeros(len(self.kept))
        for row in np.flatnonzero(self.kept):
            unit[row] = 1.0
            yield self.residuals.transpose(unit)
            unit[row] = 0.0

    def missed(self, counts: np.ndarray) -> np.ndarray:
        """Return A mu - b, and 0 for answers without a multiplier."""
        return np.where(self.kept, self.residuals.answers(counts) - self.residuals.targets, 0.0)

    def onto(self, theta: np.ndarray, total: float, oracle: ExactOracle | CollapsedOracle) -> np.ndarray:
        """Return the potentials theta - A^T nu whose marginals, scaled to `total`, have the facts."""
        counts, _ = oracle.run(theta, total)
        missed, variances = self.missed(counts), self._variances(counts, total)
        for _ in range(STEPS):
            off = float(np.abs(missed).max(initial=0.0))
            if off <= HELD * total:
                break
            move = self._newton(missed, variances, oracle)
            move *= LONGEST / max(LONGEST, float(np.abs(move).max()))
            for _ in range(HALVINGS):
                tried = theta - self.residuals.transpose(move)
                counts, _ = oracle.run(tried, total)
                missed_then = self.missed(counts)
                if float(np.abs(missed_then).max()) < off:
                    break
                move *= 0.5
            else:
                break
            theta, missed, variances = tried, missed_then, self._variances(counts, total)
        return theta

    def _variances(self, counts: np.ndarray, total: float) -> np.ndarray:
        """Return the diagonal of A C A^T."""
        answers = self.residuals.answers(counts)
        return np.where(self.kept, self.residuals.squared_answers(counts) - answers**2 / total, 0.0)

    def _newton(self, missed: np.ndarray, variances: np.ndarray, oracle: ExactOracle | CollapsedOracle) -> np.ndarray:
        """Return a Newton step by conjugate gradients, at the potentials of the oracle's last run."""
        usable = variances > SMALLEST_VARIANCE
        unit = np.divide(1.0, variances, out=np.zeros_like(variances), where=usable)
        found, residual = np.zeros_like(missed), np.where(usable, missed, 0.0)
        scaled = unit * residual
        direction, size = scaled.copy(), dot(residual, scaled)
        enough = SOLVED**2 * size
        for _ in range(2 * len(missed)):
            if size <= enough:
                break
            moved = oracle.covariance(self.residuals.transpose(direction))
            product = np.where(usable, self.residuals.answers(moved), 0.0)
            curved = dot(direction, product)
            if not curved > 0.0:
                break
            step = size / curved
            found += step * direction
            residual = residual - step * product
            scaled = unit * residual
            before, size = size, dot(residual, scaled)
            direction = scaled + (size / before) * direction
        return found


def _empty_rows(measurement: LinearMeasurement) -> np.ndarray:
    """Return which answers are facts of 0 about a sum of cells: none of these cells has a record."""
    rows = measurement.exact_rows & (measurement.values == 0.0)
    if measurement.query is not None:
        for row in np.flatnonzero(rows):
            unit = np.zeros(measurement.rows)
            unit[row] = 1.0
            rows[row] = bool(np.all(measurement.transpose_cells(unit) >= 0.0))
    return rows
