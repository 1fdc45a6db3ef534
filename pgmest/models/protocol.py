"""EstimatedModel: the contract of every kind of model, so that one kind can replace another.

    kind of model       module                                 made by                            records
    Model               models.exact                           estimate                           round, multinomial
    ApproximateModel    models.region                          estimate(oracle="convex")          round, multinomial
    SupportModel        models.support                         estimate(prior=<public records>)   round, multinomial
    BayesianNetwork     mechanisms.privbayes.bayesian_network  PrivBayes(estimator="original")    round, multinomial
    ViewModel           mechanisms.priview.view                PriView(estimator="original")      round
    LeastSquaresModel   strategies.least_squares               HDMM(estimator="original")         none: no distribution

A function that takes a model asks for this protocol if it can. A function that needs potentials, a junction tree or
weights asks for the kind that has them. `tests/models/test_protocol.py` runs the same checks on all kinds.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor


@runtime_checkable
class EstimatedModel(Protocol):
    """A model of a table of records: its marginals, answers to linear queries, records, and a file."""

    @property
    def domain(self) -> Domain:
        """All attributes."""
        ...

    @property
    def total(self) -> float:
        """The number of records, as estimated or given."""
        ...

    def project(self, attributes: Iterable[str] | str, /) -> Factor:
        """Return the marginal on any attributes, measured or not, in counts, with axes in the order of `attributes`.

        Raises:
            UnknownAttributeError, DuplicateAttributeError: an attribute is not in the domain, or is named twice.
            ModelTooLarge: the marginal, or every way to compute it, has too many cells.
        """
        ...

    def project_many(self, cliques: Iterable[Clique | str], /) -> list[Factor]:
        """Return the marginals on many sets of attributes, in counts; errors as for `project`."""
        ...

    def answer(self, query: Any, clique: Iterable[str] | str | None = None) -> Any:
        """Return the answers to linear queries, in counts.

        Args:
            query: a `pg.Kron`, a LinearMeasurement, or a matrix; or a list of Krons, which is answered by a list.
            clique: the attributes that a matrix is about.

        Raises:
            QueryError, UnknownAttributeError: a query that does not fit.
            ModelTooLarge: the answer, or every way to compute it, has too many cells.
        """
        ...

    def sample(self, n: int | None = None, method: str = ..., seed: int | np.random.Generator | None = None) -> Dataset:
        """Draw synthetic records, in random order; the same seed gives the same records.

        Args:
            n: the number of records; by default `total`, rounded, or 0 if that is negative.
            method: "round" (counts as close to the model as integers can be), which every distribution has, or
                "multinomial" (independent records).
            seed: an integer, or a generator.

        Raises:
            ArgumentError: `n` is not an integer of at least 0, or the model has no such method.
            QueryError: the model is no distribution.
        """
        ...

    def save(self, path: str | Path, /) -> None:
        """Write the model to an npz file, which `pg.load` reads back.

        Raises:
            FileFormatError: the file cannot be written. An earlier file is left unchanged.
        """
        ...
