"""OpenDP's contingency tables: `pgmest.estimate` as their estimator, and their released answers as measurements.

`dp.mbi.AIM`, `MST`, `Fixed` and `Sequential` take `estimator=`, a function of an mbi domain, a list of
`mbi.LinearMeasurement` and `potentials`, which returns an `mbi.MarkovRandomField`:

    from pgmest.adapters.opendp import estimator

    query.contingency_table(keys=..., algorithm=dp.mbi.MST(estimator=estimator))

`estimator_with(method="mirror_flow")` returns such a function with other arguments of `pgmest.estimate`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from pgmest.adapters import mbi
from pgmest.tables.domain import Domain

if TYPE_CHECKING:
    from pgmest.measurements.measurement import LinearMeasurement


def estimator(domain: Any, loss_fn: Any, *, potentials: Any = None) -> Any:
    """Estimate a model by `pgmest.estimate`, with the signature of `opendp.extras.mbi.mirror_descent`.

    Raises:
        ArgumentError, QueryError, MeasurementError, ...: as for `pgmest.adapters.mbi.estimate`.
    """
    return mbi.estimate(domain, loss_fn, potentials=potentials)


def estimator_with(**options: Any) -> Callable[..., Any]:
    """Return an estimator with further arguments of `pgmest.estimate`, such as `method` or `loss`."""
    return partial(mbi.estimate, **options)


def released_measurements(table: Any) -> tuple[Domain, list[LinearMeasurement]]:
    """Return the domain and the noisy answers of an OpenDP `ContingencyTable`, as arguments of `pgmest.estimate`.

    Codes are positions in `table.keys[name]`.

    Raises:
        QueryError: the table has an answer to a query that is not linear.
    """
    domain = mbi.from_mbi_domain(table.model.domain)
    return domain, [mbi.from_mbi_measurement(measurement, domain) for measurement in table.marginals.flatten()]
