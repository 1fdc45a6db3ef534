"""EstimatedModel: what every model of pgmest offers, whatever it is made of, so that any can stand in for another.

    kind of model         file                 made by                                   records
    Model                 exact.py             estimate                                  round, multinomial
    ApproximateModel      region.py            estimate(oracle="convex")                 round, multinomial
    SupportModel          support.py           estimate(prior=<public records>)          round, multinomial
    BayesianNetwork       bayesian_network.py  PrivBayes(estimator="original")           round, multinomial
    ViewModel             view.py              PriView(estimator="original")             round
    LeastSquaresModel     least_squares.py     HDMM(estimator="original")                none: it is no distribution

What takes a model should ask for this protocol and no more; what needs potentials, a junction tree or weights asks for
the kind that has them. `tests/models/test_protocol.py` checks all kinds by one run.
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
    """A model of a table of records: its marginals, its answers to linear queries, records, and a file."""

    @property
    def domain(self) -> Domain:
        """All the attributes."""
        ...

    @property
    def total(self) -> float:
        """The number of records, as estimated or given."""
        ...

    def project(self, attributes: Iterable[str] | str, /) -> Factor:
        """The marginal on any attributes, measured or not, in counts; axes in the order asked for.

        Raises:
            UnknownAttributeError, DuplicateAttributeError: attributes that are none, or named twice.
            ModelTooLarge: the marginal, or every way to it, has too many cells.
        """
        ...

    def project_many(self, cliques: Iterable[Clique | str], /) -> list[Factor]:
        """The marginals on many sets of attributes, in counts; raises as `project`."""
        ...

    def answer(self, query: Any, clique: Iterable[str] | str | None = None) -> Any:
        """The answers to linear queries, in counts: a Factor for a `pg.Kron`, a LinearMeasurement, or a matrix with the
        clique that it is about; a list of them for a list of Krons.

        Raises:
            QueryError, UnknownAttributeError: a query that does not fit.
            ModelTooLarge: the answer, or every way to it, has too many cells.
        """
        ...

    def sample(self, n: int | None = None, method: str = ..., seed: int | np.random.Generator | None = None) -> Dataset:
        """Synthetic records, in random order; the same seed gives the same records.

        Args:
            n: how many; by default `total`, rounded, and none where that is negative.
            method: "round" (counts as close to the model as integers can be), which every model has that draws
                records, or "multinomial" (independent records).
            seed: an integer, or a generator.

        Raises:
            ArgumentError: `n` is not an integer of at least 0, or the model has no such method.
            QueryError: the model is no distribution to draw from.
        """
        ...

    def save(self, path: str | Path, /) -> None:
        """Write the model to an npz file, which `pg.load` reads back.

        Raises:
            FileFormatError: the file cannot be written; what was there before is untouched.
        """
        ...
