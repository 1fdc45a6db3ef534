"""mbi (private-pgm): its domains, measurements and models to ours and back, and our estimation where it takes one.

Nothing here is imported by the rest of the package. mbi 2.0 is what it is tested with; of older releases the same
names are used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest._base.errors import ArgumentError, OptionalDependencyError, QueryError
from pgmest.estimation.estimate import estimate as pgmest_estimate
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.models.exact import Model
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Domain
from pgmest.tables.zeros import Function, impossible, only

MOST_ENTRIES = 1 << 26
"""A query that is a function becomes a matrix of at most so many entries (512 MB)."""

LOWEST = -1e6
"""The log-potential that stands for impossible."""


# -- domains --------------------------------------------------------------------------------------------------------


def from_mbi_domain(domain: Any) -> Domain:
    """An `mbi.Domain` as ours."""
    return Domain(zip(domain.attributes, domain.shape, strict=True))


def to_mbi_domain(domain: Domain) -> Any:
    """Our domain as an `mbi.Domain`."""
    return _mbi().Domain(domain.attributes, domain.shape)


# -- measurements ---------------------------------------------------------------------------------------------------


def from_mbi_measurement(measurement: Any, domain: Any) -> LinearMeasurement:
    """An `mbi.LinearMeasurement` as ours; a query that is a function becomes a matrix.

    Args:
        measurement: mbi's.
        domain: mbi's or ours.

    Raises:
        QueryError: its query is not linear, or its matrix would be too large.
    """
    mbi = _mbi()
    known = domain if isinstance(domain, Domain) else from_mbi_domain(domain)
    clique = tuple(measurement.clique)
    values = np.asarray(measurement.noisy_measurement, dtype=np.float64).reshape(-1)
    query = measurement.query
    plain = query == mbi.Factor.datavector or type(query).__name__ == "DatavectorQuery"
    matrix = None if plain else _matrix(query, known.project(clique), len(values))
    return LinearMeasurement(values, clique, float(measurement.stddev), matrix)


def to_mbi_measurement(measurement: LinearMeasurement, domain: Domain) -> Any:
    """Our measurement as an `mbi.LinearMeasurement`; answers of unequal noise are divided by it, and so is the query.

    Raises:
        QueryError: the matrix of its query would be too large.
    """
    mbi = _mbi()
    stddev = measurement.uniform_stddev
    cells = domain.size(measurement.clique)
    if measurement.query is None and stddev is not None:
        return mbi.LinearMeasurement(measurement.values, measurement.clique, stddev)
    _check_entries(measurement.rows, cells, measurement.clique)
    matrix = np.stack([measurement.transpose_cells(row) for row in np.eye(measurement.rows)])
    scale = np.ones(measurement.rows) if stddev is not None else np.asarray(measurement.stddev, dtype=np.float64)
    query = MatrixQuery(matrix.reshape(measurement.rows, cells) / scale[:, None])
    return mbi.LinearMeasurement(measurement.values / scale, measurement.clique, stddev or 1.0, query)


@dataclass(frozen=True, eq=False)
class MatrixQuery:
    """A query matrix as mbi takes it: a function of a factor.

    Attributes:
        matrix: shape (rows, cells).
    """

    matrix: np.ndarray

    def __call__(self, factor: Any) -> Any:
        return self.matrix @ factor.datavector()

    def op_norm_sq(self) -> float:
        """The largest squared singular value; mbi takes its step size from it."""
        return float(np.linalg.norm(self.matrix, 2) ** 2)


# -- models ---------------------------------------------------------------------------------------------------------


def from_mbi(model: Any) -> Model:
    """An `mbi.MarkovRandomField` as our Model, of the same potentials and total."""
    return Model(from_mbi_potentials(model.potentials), float(model.total))


def to_mbi(model: Model) -> Any:
    """Our Model as an `mbi.MarkovRandomField`, with the same potentials, marginals and total."""
    return _mbi().MarkovRandomField(
        potentials=to_mbi_tables(model.potentials), marginals=to_mbi_tables(model.marginals), total=model.total
    )


def from_mbi_potentials(potentials: Any) -> CliqueVector:
    """An `mbi.CliqueVector` as ours."""
    domain = from_mbi_domain(potentials.domain)
    tables = {}
    for clique in potentials.cliques:
        factor = potentials[clique]
        tables[tuple(factor.domain.attributes)] = np.asarray(factor.values, dtype=np.float64)
    return CliqueVector(domain, tables)


def to_mbi_tables(tables: CliqueVector) -> Any:
    """Our CliqueVector as an `mbi.CliqueVector`; potentials of -inf, which its oracles make NaN of, become -1e6."""
    mbi = _mbi()
    domain = to_mbi_domain(tables.domain)
    factors = {
        clique: mbi.Factor(domain.project(clique), np.maximum(factor.values, LOWEST))
        for clique, factor in tables.items()
    }
    return mbi.CliqueVector(domain, list(factors), factors)


# -- estimation -----------------------------------------------------------------------------------------------------


def estimate(
    domain: Any,
    loss_fn: Any,
    known_total: float | None = None,
    constraints: Sequence[Any] = (),
    iters: int = 5000,
    callback_fn: Callable[..., Any] | None = None,
    warm_start: Any = None,
    tol: float | None = None,
    *,
    potentials: Any = None,
    **options: Any,
) -> Any:
    """`pgmest.estimate` with the arguments of mbi's estimators, from mbi's types to an `mbi.MarkovRandomField`.

    Args:
        domain: an `mbi.Domain`.
        loss_fn: a list of `mbi.LinearMeasurement`, or the loss that `marginal_loss.from_linear_measurements` makes of
            one, l2 or l1, not normalized.
        known_total: the number of records; by default estimated.
        constraints: `mbi.Constraint` values; what they exclude has probability zero.
        iters: most iterations; it mostly stops well before, at its gap.
        callback_fn: called after each iteration with a `pgmest` progress, not with mbi's marginals.
        warm_start, potentials: a model or potentials of mbi's to start from.
        tol: the relative duality gap to stop at, by default 1e-3; mbi's is about something else.
        options: further arguments of `pgmest.estimate`, such as `method="mirror_flow"`.

    Raises:
        ArgumentError: another kind of loss.
        QueryError, MeasurementError, ModelTooLarge, ...: as for `pgmest.estimate`.
    """
    known = from_mbi_domain(domain)
    measurements, loss = _measurements(loss_fn, known)
    start = warm_start if warm_start is not None else potentials
    rules = [_rule(constraint) for constraint in constraints]
    model = pgmest_estimate(
        measurements,
        known,
        total=None if known_total is None else float(known_total),
        loss=loss,
        init=None if start is None else from_mbi_potentials(getattr(start, "potentials", start)),
        structural_zeros=rules or None,
        max_iterations=iters,
        tolerance=1e-3 if tol is None else tol,
        callback=callback_fn,
        **options,
    )
    return to_mbi(model)


mirror_descent = estimate
"""The name that code written for `mbi.estimation.mirror_descent(domain, loss_fn, ...)` looks for."""


@dataclass(frozen=True, kw_only=True)
class Estimator:
    """An estimator object as mbi 2 has them, for code that calls `estimator.estimate(domain, loss_fn, ...)`.

    Args:
        method: the solver of `pgmest.estimate`.
    """

    method: str = "auto"

    def estimate(self, domain: Any, loss_fn: Any, known_total: float | None = None, **options: Any) -> Any:
        """As the function `estimate` here; `patience`, which only mbi's loop needs, is ignored."""
        options.pop("patience", None)
        return estimate(domain, loss_fn, known_total, method=self.method, **options)


def _measurements(loss_fn: Any, domain: Domain) -> tuple[list[LinearMeasurement], str]:
    loss = "l2"
    if not isinstance(loss_fn, list | tuple):
        kinds = {"_l2_loss": "l2", "_l1_loss": "l1"}
        name = getattr(getattr(loss_fn, "loss_fn", None), "__name__", "")
        if name not in kinds:
            allowed = "a list of mbi.LinearMeasurement, or what from_linear_measurements(..., normalize=False) makes"
            raise ArgumentError.of("loss_fn", loss_fn, f"{allowed}; pgmest.losses has losses of your own")
        loss, loss_fn = kinds[name], loss_fn.data
    return [from_mbi_measurement(measurement, domain) for measurement in loss_fn], loss


def _rule(constraint: Any) -> Any:
    """A structural zero as `pgmest.zeros` has it."""
    names = tuple(constraint.domain.attributes)
    if constraint.mapping is not None:
        fine, coarse = names
        return Function(coarse, fine, np.asarray(constraint.mapping).tolist())
    rows = constraint.valid if constraint.invalid is None else constraint.invalid
    combinations = [tuple(map(int, row)) for row in np.asarray(rows)]
    return only(names, combinations) if constraint.invalid is None else impossible(names, combinations)


def _matrix(query: Callable[[Any], Any], table: Domain, rows: int) -> np.ndarray:
    """The matrix of a linear function of a factor: its values at the unit tables."""
    mbi = _mbi()
    cells, domain = table.size(), to_mbi_domain(table)
    _check_entries(rows, cells, table.attributes)

    def answer(values: np.ndarray) -> np.ndarray:
        return np.asarray(query(mbi.Factor(domain, values.reshape(table.shape))), dtype=np.float64).reshape(-1)

    columns = [answer(unit) for unit in np.eye(cells)]
    matrix = np.stack(columns, axis=1) if columns else np.zeros((rows, 0))
    probe = np.arange(1.0, cells + 1)
    if not np.allclose(matrix @ probe, answer(probe), rtol=1e-4, atol=1e-6):
        raise QueryError(f"the query measured on {table.attributes} is not linear, so it has no matrix.")
    return matrix


def _check_entries(rows: int, cells: int, clique: Iterable[str]) -> None:
    if rows * cells > MOST_ENTRIES:
        raise QueryError(f"the query measured on {tuple(clique)} would be a matrix of {rows:,} x {cells:,} entries.")


def _mbi() -> Any:
    try:
        import mbi
    except ImportError:
        raise OptionalDependencyError.of("mbi", "converting to and from mbi") from None
    return mbi
