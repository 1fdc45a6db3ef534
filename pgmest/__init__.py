"""pgmest: one distribution over all attributes from noisy answers about a few marginals."""
# ruff: noqa: I001  the names are in the order that data flows through them

from importlib import import_module as _import_module
from typing import Any as _Any

from pgmest._base import errors
from pgmest._base.renamed import install as _install
from pgmest._base.version import __version__
from pgmest.tables import zeros
from pgmest.tables.domain import Domain
from pgmest.tables.factor import Factor
from pgmest.tables.clique_vector import CliqueVector
from pgmest.data import datasets, schema
from pgmest.data.dataset import Dataset
from pgmest.data.table_file import TableFile
from pgmest.data.schema import Schema
from pgmest import queries
from pgmest.queries import Kron, workloads
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.measurements.files import load_measurements, save_measurements
from pgmest.graph.junction_tree import JunctionTree
from pgmest.inference.kept_oracles import marginals
from pgmest._base.threads import get_threads, set_threads
from pgmest import losses, solvers
from pgmest.models import uncertainty
from pgmest.models.exact import Model
from pgmest.models.region import ApproximateModel
from pgmest.models.support import SupportModel
from pgmest.models.files import load
from pgmest import priors
from pgmest.estimation.estimate import estimate
from pgmest import privacy, transforms, strategies, synthesis, evaluation
from pgmest.evaluation import plots, simulation
from pgmest import mechanisms
from pgmest.synthesizer import Synthesizer

__all__ = [
    "ApproximateModel",
    "CliqueVector",
    "Dataset",
    "Domain",
    "Factor",
    "JunctionTree",
    "Kron",
    "LinearMeasurement",
    "Model",
    "Schema",
    "SupportModel",
    "Synthesizer",
    "TableFile",
    "__version__",
    "datasets",
    "errors",
    "estimate",
    "evaluation",
    "get_threads",
    "load",
    "load_measurements",
    "losses",
    "marginals",
    "mechanisms",
    "plots",
    "priors",
    "privacy",
    "queries",
    "save_measurements",
    "schema",
    "set_threads",
    "simulation",
    "solvers",
    "strategies",
    "synthesis",
    "transforms",
    "uncertainty",
    "workloads",
    "zeros",
]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> _Any:
    """The names of version 0.1, `pgmest.loss` and `pgmest.prior`, which warn."""
    if name not in ("loss", "prior"):
        raise AttributeError(f"module 'pgmest' has no attribute {name!r}")
    return _import_module(f"pgmest.{name}")


_install()
