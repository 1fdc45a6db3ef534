"""The interface of mbi (private-pgm), computed by pgmest: code for mbi needs `import pgmest.adapters.mbi as mbi`.

Domains, records, factors, measurements, losses and constraints are mbi's own types. Estimation, inference, marginals
and synthetic records are pgmest's: `mbi.estimation`, `mbi.marginal_oracles` and `mbi.MarkovRandomField` below. Every
other name is that of the installed mbi; the tests run with releases 1.1 and 2.0.

For code that uses both libraries, `from_mbi...` and `to_mbi...` convert each type.
"""

from __future__ import annotations

from typing import Any

from pgmest.adapters.mbi import estimation, marginal_oracles
from pgmest.adapters.mbi import peer as _peer
from pgmest.adapters.mbi.estimation import (
    ApproxMirrorDescent,
    Estimator,
    MirrorDescent,
    estimate,
    mirror_descent,
    reweighted_records,
)
from pgmest.adapters.mbi.field import EstimatedModel, MarkovRandomField, PseudoMarginals, SupportField, from_mbi, to_mbi
from pgmest.adapters.mbi.measurements import from_mbi_measurement, from_mbi_measurements, to_mbi_measurement
from pgmest.adapters.mbi.names import from_mbi_dataset, from_mbi_domain, labels_of, to_mbi_dataset, to_mbi_domain
from pgmest.adapters.mbi.queries import MatrixQuery
from pgmest.adapters.mbi.replacement import replacing_mbi
from pgmest.adapters.mbi.tables import from_mbi_factor, from_mbi_potentials, to_mbi_factor, to_mbi_tables

__all__ = [
    "ApproxMirrorDescent",
    "EstimatedModel",
    "Estimator",
    "MarkovRandomField",
    "MatrixQuery",
    "MirrorDescent",
    "PseudoMarginals",
    "SupportField",
    "estimate",
    "estimation",
    "from_mbi",
    "from_mbi_dataset",
    "from_mbi_domain",
    "from_mbi_factor",
    "from_mbi_measurement",
    "from_mbi_measurements",
    "from_mbi_potentials",
    "labels_of",
    "marginal_oracles",
    "mirror_descent",
    "replacing_mbi",
    "reweighted_records",
    "to_mbi",
    "to_mbi_dataset",
    "to_mbi_domain",
    "to_mbi_factor",
    "to_mbi_measurement",
    "to_mbi_tables",
]


def __getattr__(name: str) -> Any:
    """Return mbi's own `Domain`, `Dataset`, `LinearMeasurement`, `callbacks`, `junction_tree`, ..."""
    found = getattr(_peer.mbi, name, None)
    if found is None:
        found = _peer.available(f"mbi.{name}")
    if found is None:
        raise AttributeError(f"neither pgmest.adapters.mbi nor mbi has {name!r}")
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(_peer.mbi)})
