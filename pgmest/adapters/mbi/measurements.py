"""Conversion of linear measurements between mbi and pgmest, and the number of records that they determine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from pgmest.adapters.mbi.names import Names
from pgmest.adapters.mbi.peer import is_plain, mbi
from pgmest.adapters.mbi.queries import MatrixQuery, from_mbi_query
from pgmest.errors import QueryError, TotalError
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.solvers.total import estimate_total
from pgmest.tables.domain import Domain

EXACT_SHARE = 1e-3
"""The stddev of exact answers (`stddev=0`), as a share of the least stddev of the others.

With this share, an exact answer outweighs a noisy one a million to one.
"""

ENTRIES = 1 << 26
"""The most entries of a query matrix that is materialized for mbi (512 MB)."""


def from_mbi_measurement(measurement: Any, domain: Any) -> LinearMeasurement:
    """Return an `mbi.LinearMeasurement` as a `pgmest.LinearMeasurement`; a query function becomes a matrix.

    An exact answer (`stddev=0`) gets a stddev of 1; `from_mbi_measurements` takes one relative to the others.

    Args:
        measurement: mbi's measurement.
        domain: a domain of mbi or pgmest.

    Raises:
        QueryError: the query is not linear.
        MeasurementError: the values are not numbers, or have another shape.
    """
    names = Names.plain(domain) if isinstance(domain, Domain) else Names(domain)
    return _converted(measurement, names, 1.0)


def from_mbi_measurements(measurements: Iterable[Any], domain: Any) -> list[LinearMeasurement]:
    """Return mbi's measurements as pgmest's; exact ones (`stddev=0`) get a thousandth of the least stddev of others.

    Raises:
        QueryError, MeasurementError: as for `from_mbi_measurement`.
    """
    given = list(measurements)
    names = Names.plain(domain) if isinstance(domain, Domain) else Names(domain)
    noisy = [float(measurement.stddev) for measurement in given if float(measurement.stddev) > 0]
    exact = EXACT_SHARE * min(noisy) if noisy else 1.0
    return [_converted(measurement, names, exact) for measurement in given]


def _converted(measurement: Any, names: Names, exact: float) -> LinearMeasurement:
    clique = names.clique(measurement.clique)
    values = np.asarray(measurement.noisy_measurement, dtype=np.float64).reshape(-1)
    query = from_mbi_query(measurement.query, clique, names, len(values))
    made = LinearMeasurement(values, clique, float(measurement.stddev) or exact, query)
    made.check(names.domain)
    return made


def to_mbi_measurement(measurement: LinearMeasurement, domain: Domain) -> Any:
    """Return a measurement as an `mbi.LinearMeasurement`; if the noise is unequal, answers and query are divided by it.

    Raises:
        QueryError: the matrix of the query would be too large.
    """
    from scipy import sparse

    from pgmest.queries.matrices import SparseQuery

    stddev = measurement.uniform_stddev
    if measurement.query is None and stddev is not None:
        return mbi.LinearMeasurement(measurement.values, measurement.clique, stddev)
    scale = np.ones(measurement.rows) if stddev is not None else np.asarray(measurement.stddev, dtype=np.float64)
    cells = domain.size(measurement.clique)
    if measurement.query is None:
        matrix: Any = sparse.diags(1.0 / scale).tocsr()
    elif isinstance(measurement.query, SparseQuery):
        matrix = sparse.diags(1.0 / scale) @ measurement.query.values
    else:
        if measurement.rows * cells > ENTRIES:
            raise QueryError(
                f"the query measured on {measurement.clique} would be a matrix of {measurement.rows:,} x {cells:,} "
                "entries, too many; mbi also takes a function of a factor: write one for this query."
            )
        rows = np.stack([measurement.transpose_cells(row) for row in np.eye(measurement.rows)])
        matrix = rows.reshape(measurement.rows, cells) / scale[:, None]
    return mbi.LinearMeasurement(measurement.values / scale, measurement.clique, stddev or 1.0, MatrixQuery(matrix))


def counts_for_total(measurement: Any) -> bool:
    """Return whether a measurement of mbi may be used to estimate the number of records."""
    return bool(getattr(measurement.query, "use_for_total_estimation", True))


def total_of(theirs: Iterable[Any], ours: Iterable[LinearMeasurement], domain: Domain) -> float:
    """Return the estimated number of records, at least 1; 1 if no measurement determines it, as in mbi."""
    used = [mine for their, mine in zip(theirs, ours, strict=True) if counts_for_total(their)]
    try:
        return max(1.0, estimate_total(used, domain).value)
    except TotalError:
        return 1.0


def minimum_variance_unbiased_total(measurements: Iterable[Any]) -> float:
    """Return the total estimated from the measurements of whole marginals, at least 1; 1 without any, as in mbi."""
    used = [m for m in measurements if is_plain(m.query) and counts_for_total(m)]
    found = [(np.asarray(m.noisy_measurement, dtype=np.float64), float(m.stddev)) for m in used]
    exact = [values.sum() for values, stddev in found if stddev == 0]
    if exact:
        return max(1.0, float(np.mean(exact)))
    weights = [1.0 / (stddev**2 * values.size) for values, stddev in found]
    if not weights:
        return 1.0
    return max(1.0, float(np.average([values.sum() for values, _ in found], weights=weights)))
