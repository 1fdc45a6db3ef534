"""pgmest: one distribution over all attributes from noisy answers about a few marginals."""
# ruff: noqa: I001  the names are in the order that data flows through them

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from pgmest._base.version import __version__

if TYPE_CHECKING:
    from pgmest import errors
    from pgmest import zeros
    from pgmest.tables.domain import Domain
    from pgmest.tables.factor import Factor
    from pgmest.tables.hierarchy import Hierarchy
    from pgmest.tables.clique_vector import CliqueVector
    from pgmest import datasets, schema
    from pgmest.data.dataset import Dataset
    from pgmest.data.linked import LinkedDataset
    from pgmest.data.table_file import TableFile
    from pgmest.schema import LinkedSchema, Schema
    from pgmest import queries
    from pgmest import workloads
    from pgmest.queries import Kron
    from pgmest.measurements.known_errors import KnownErrors
    from pgmest.measurements.measurement import LinearMeasurement
    from pgmest.measurements.files import load_measurements, save_measurements
    from pgmest.graph.junction_tree import JunctionTree
    from pgmest.inference.kept_oracles import marginals
    from pgmest._base.threads import get_threads, set_threads
    from pgmest import losses, solvers
    from pgmest import uncertainty
    from pgmest.models.exact import Model
    from pgmest.mechanisms.files import load
    from pgmest.models.error_bars import interval
    from pgmest.models.region import ApproximateModel
    from pgmest.models.support import SupportModel
    from pgmest import priors
    from pgmest.estimation.estimate import estimate
    from pgmest.surveys.rake import rake
    from pgmest.surveys.rake_households import rake_households
    from pgmest.analyses.combine import combine
    from pgmest import privacy, transforms, strategies, surveys, synthesis, evaluation
    from pgmest import plots, simulation
    from pgmest import mechanisms
    from pgmest.synthesizer import HowMany, Synthesizer

__all__ = [
    "ApproximateModel",
    "CliqueVector",
    "Dataset",
    "Domain",
    "Factor",
    "Hierarchy",
    "HowMany",
    "JunctionTree",
    "KnownErrors",
    "Kron",
    "LinearMeasurement",
    "LinkedDataset",
    "LinkedSchema",
    "Model",
    "Schema",
    "SupportModel",
    "Synthesizer",
    "TableFile",
    "__version__",
    "combine",
    "datasets",
    "errors",
    "estimate",
    "evaluation",
    "get_threads",
    "interval",
    "load",
    "load_measurements",
    "losses",
    "marginals",
    "mechanisms",
    "plots",
    "priors",
    "privacy",
    "queries",
    "rake",
    "rake_households",
    "save_measurements",
    "schema",
    "set_threads",
    "simulation",
    "solvers",
    "strategies",
    "surveys",
    "synthesis",
    "transforms",
    "uncertainty",
    "workloads",
    "zeros",
]

_HOMES = {
    "pgmest.analyses.combine": ("combine",),
    "pgmest.data.dataset": ("Dataset",),
    "pgmest.data.linked": ("LinkedDataset",),
    "pgmest.schema": ("LinkedSchema", "Schema"),
    "pgmest.data.table_file": ("TableFile",),
    "pgmest.estimation.estimate": ("estimate",),
    "pgmest.graph.junction_tree": ("JunctionTree",),
    "pgmest._base.threads": ("get_threads", "set_threads"),
    "pgmest.inference.kept_oracles": ("marginals",),
    "pgmest.measurements.files": ("load_measurements", "save_measurements"),
    "pgmest.measurements.known_errors": ("KnownErrors",),
    "pgmest.measurements.measurement": ("LinearMeasurement",),
    "pgmest.mechanisms.files": ("load",),
    "pgmest.models.error_bars": ("interval",),
    "pgmest.models.exact": ("Model",),
    "pgmest.models.region": ("ApproximateModel",),
    "pgmest.models.support": ("SupportModel",),
    "pgmest.queries": ("Kron",),
    "pgmest.surveys.rake_households": ("rake_households",),
    "pgmest.surveys.rake": ("rake",),
    "pgmest.synthesizer": ("HowMany", "Synthesizer"),
    "pgmest.tables.clique_vector": ("CliqueVector",),
    "pgmest.tables.domain": ("Domain",),
    "pgmest.tables.factor": ("Factor",),
    "pgmest.tables.hierarchy": ("Hierarchy",),
}
"""The module of each public name that is not a module; it is imported when the name is first used."""


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:  # type checkers must not see this function, which would give misspelled names a type

    def __getattr__(name: str) -> object:
        """Return a public name, importing its module at the first use."""
        home = next((module for module, names in _HOMES.items() if name in names), None)
        if home is not None:
            value = getattr(_import_module(home), name)
        elif name in __all__:
            value = _import_module(f"pgmest.{name}")
        else:
            raise AttributeError(f"module 'pgmest' has no attribute {name!r}")
        globals()[name] = value
        return value
