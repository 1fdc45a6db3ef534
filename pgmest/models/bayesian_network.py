"""BayesianNetwork: what PrivBayes was published with, a conditional table for each attribute given its parents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.models.exact import Model
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor


@dataclass(frozen=True, eq=False, repr=False)
class BayesianNetwork:
    """p(x) = prod_i p(x_i | parents of i), and a number of records.

    It samples records attribute by attribute. Its marginals are exact: the logs of its conditional tables are the
    potentials of a graphical model.

    >>> domain = Domain({"a": 2, "b": 2})
    >>> joint = Factor(domain, [[3.0, 1.0], [0.0, 4.0]])
    >>> network = BayesianNetwork.of(domain, {"a": (), "b": ("a",)}, {"a": joint, "b": joint}, total=80)
    >>> network.project(("b",)).values.round(6)
    array([30., 50.])
    >>> network.sample(5, seed=0).records
    5

    Attributes:
        domain: the attributes.
        conditionals: attribute -> p(attribute | parents), an axis for each parent and then one for the attribute;
            attributes come after their parents.
        total: the number of records.
    """

    domain: Domain
    conditionals: Mapping[str, Factor]
    total: float

    @classmethod
    def of(
        cls, domain: Domain, parents: Mapping[str, Clique], marginals: Mapping[str, Factor], total: float
    ) -> BayesianNetwork:
        """The network of noisy marginals.

        Args:
            domain: the attributes.
            parents: attribute -> its parents, which come before it.
            marginals: attribute -> a table of counts that covers it and its parents. Negative counts become zero;
                parents' codes that no record has give a uniform distribution.
            total: the number of records.
        """
        conditionals = {name: _conditional(marginals[name], (*given, name)) for name, given in parents.items()}
        return cls(domain, conditionals, total)

    @property
    def parents(self) -> dict[str, Clique]:
        """Attribute -> its parents, in an order in which parents come first."""
        return {name: table.domain.attributes[:-1] for name, table in self.conditionals.items()}

    @cached_property
    def model(self) -> Model:
        """The same distribution as a graphical model, for exact marginals."""
        tables = {table.domain.attributes: table.log() for table in self.conditionals.values()}
        return Model(CliqueVector(self.domain, tables), self.total)

    def project(self, attributes: Iterable[str] | str) -> Factor:
        """The marginal, in counts; raises as `Model.project`."""
        return self.model.project(attributes)

    def project_many(self, cliques: Iterable[Iterable[str] | str]) -> list[Factor]:
        """The marginals on many sets of attributes, in counts; raises as `Model.project_many`."""
        return self.model.project_many(cliques)

    def answer(self, query: Any, clique: Iterable[str] | str | None = None) -> Any:
        """The answers to linear queries, in counts; as `Model.answer`."""
        return self.model.answer(query, clique)

    def sample(self, n: int | None = None, *, seed: int | np.random.Generator | None = None) -> Dataset:
        """Independent records, drawn attribute by attribute given its parents; by default `total` of them."""
        count = round(self.total) if n is None else n
        rng, columns = np.random.default_rng(seed), {}
        for name, table in self.conditionals.items():
            *given, size = table.values.shape
            context = np.zeros(count, dtype=np.int64)
            for parent, values in zip(table.domain.attributes, given, strict=False):
                context = context * values + columns[parent]
            columns[name] = _draw(table.values.reshape(-1, size), context, rng)
        return Dataset.from_codes([columns[name] for name in self.domain], self.domain, trusted=True)

    def __repr__(self) -> str:
        lines = [f"BayesianNetwork: {self.total:,.1f} records, {len(self.domain)} attributes"]
        shown = [f"  {name} | {', '.join(given)}" if given else f"  {name}" for name, given in self.parents.items()]
        return "\n".join([*lines, *shown[:12], *([f"  ... {len(shown) - 12} more"] if len(shown) > 12 else [])])


def _conditional(marginal: Factor, family: Clique) -> Factor:
    """p(last of the family | the others), where the marginal covers the family."""
    counts = np.maximum(marginal.values, 0.0)
    joint = Factor(marginal.domain, counts).project(family)
    values = joint.values
    sums = values.sum(axis=-1, keepdims=True)
    uniform = 1.0 / values.shape[-1]
    return Factor(joint.domain, np.where(sums > 0, values / np.where(sums > 0, sums, 1.0), uniform))


def _draw(rows: np.ndarray, context: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A code for each record, from the row of probabilities (contexts, codes) that its context names."""
    cumulative = rows.cumsum(axis=1)
    cumulative /= cumulative[:, -1:]
    # Row r is shifted to the interval (r, r + 1], so that one search serves all records.
    ladder = (cumulative + np.arange(len(rows))[:, None]).reshape(-1)
    place = np.searchsorted(ladder, context + rng.random(len(context)), side="right")
    return np.minimum(place - context * rows.shape[1], rows.shape[1] - 1)
