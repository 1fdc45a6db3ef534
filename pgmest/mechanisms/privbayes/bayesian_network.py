"""BayesianNetwork: a conditional table for each attribute given its parents, the model of PrivBayes as published."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from pgmest._base.memory import check_records
from pgmest.data.codes import code_type
from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError, DomainError
from pgmest.models.base import checked_total
from pgmest.models.distribution import Distribution
from pgmest.models.exact import Model
from pgmest.models.files import read_tables, tables_tree
from pgmest.queries import Kron
from pgmest.sampling.systematic import deal, systematic_rows
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor


@dataclass(frozen=True, eq=False, repr=False)
class BayesianNetwork(Distribution):
    """p(x) = prod_i p(x_i | parents of i), and a number of records.

    Records are sampled attribute by attribute. Marginals are exact: the logs of the conditional tables are the
    potentials of a graphical model.

    >>> domain = Domain({"a": 2, "b": 2})
    >>> joint = Factor(domain, [[3.0, 1.0], [0.0, 4.0]])
    >>> network = BayesianNetwork.of(domain, {"a": (), "b": ("a",)}, {"a": joint, "b": joint}, total=80)
    >>> network.project(("b",)).values.round(6)
    array([30., 50.])
    >>> network.sample(5, seed=0).records
    5

    Attributes:
        domain: all attributes.
        conditionals: attribute -> p(attribute | parents), with an axis for each parent and then one for the attribute;
            parents come before their children.
        total: the number of records.

    Raises:
        DomainError: an attribute has no table or is unknown, or a parent comes after its child.
        ArgumentError: `total` is negative or no number, or a table does not hold probabilities.
    """

    refittable_by: ClassVar[str] = 'PrivBayes(estimator="pgm").fit'

    domain: Domain
    conditionals: Mapping[str, Factor]
    total: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "conditionals", dict(self.conditionals))
        object.__setattr__(self, "total", checked_total(self.total))
        if sorted(self.conditionals) != sorted(self.domain):
            raise DomainError("a Bayesian network needs one conditional table for each attribute of its domain.")
        before: set[str] = set()
        for name, table in self.conditionals.items():
            *given, own = table.domain.attributes or ("",)
            if own != name or not before.issuperset(given) or table.domain != self.domain.project(table.domain):
                raise DomainError(
                    f"the table of '{name}' is over {table.domain.attributes}: give an axis for each parent, which "
                    f"must come before '{name}', then one for '{name}', with the numbers of values of the domain."
                )
            if not ((table.values >= 0).all() and np.allclose(table.values.sum(axis=-1), 1.0, atol=1e-6)):
                raise ArgumentError(f"the table of '{name}' does not hold probabilities that sum to 1 for each parent.")
            before.add(name)

    @classmethod
    def of(
        cls, domain: Domain, parents: Mapping[str, Clique], marginals: Mapping[str, Factor], total: float
    ) -> BayesianNetwork:
        """Build the network from noisy marginals.

        Args:
            domain: all attributes.
            parents: attribute -> its parents, which come before it.
            marginals: attribute -> a table of counts that contains it and its parents. Negative counts become zero.
                Given parents' codes without records, the distribution is uniform.
            total: the number of records.
        """
        conditionals = {name: _conditional(marginals[name], (*given, name)) for name, given in parents.items()}
        return cls(domain, conditionals, total)

    @property
    def parents(self) -> dict[str, Clique]:
        """The parents of each attribute, in an order in which parents come first."""
        return {name: table.domain.attributes[:-1] for name, table in self.conditionals.items()}

    @cached_property
    def model(self) -> Model:
        """A graphical model of this distribution, for exact marginals.

        Raises:
            ModelTooLarge: at the first question, if the families need too large a junction tree.
        """
        tables = {table.domain.attributes: table.log() for table in self.conditionals.values()}
        return Model(CliqueVector(self.domain, tables), self.total)

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """Each attribute with its parents."""
        return tuple(table.domain.attributes for table in self.conditionals.values())

    def _project(self, attributes: Iterable[str] | str, given: Mapping[str, int] | None = None) -> Factor:
        return self.model.project(attributes, given)

    def _project_many(self, cliques: Sequence[Clique]) -> list[Factor]:
        """Return the marginals on many sets of attributes, in counts; errors as for `Model.project_many`."""
        return self.model.project_many(cliques)

    def answer_krons(self, queries: Sequence[Kron], evidence: Mapping[str, int]) -> list[np.ndarray]:
        return self.model.answer_krons(queries, evidence)

    def log_prob(self, records: Dataset) -> np.ndarray:
        """Return the natural log of each record's probability, -inf if it is impossible; shape (records,).

        Raises:
            DomainError: the records lack an attribute of the network, or have it with another number of values.
        """
        return self.model.log_prob(records)

    def entropy(self) -> float:
        """Return -E[log p], in nats."""
        return self.model.entropy()

    def kl(self, other: Distribution) -> float:
        """Return KL(p || q) to another model q, in nats; errors as for `Model.kl`."""
        return self.model.kl(other)

    def kl_from(self, other: Model) -> float:
        """Return KL(other || self); see `kl`."""
        return self.model.kl_from(other)

    def sample(
        self, n: int | None = None, method: str = "multinomial", seed: int | np.random.Generator | None = None
    ) -> Dataset:
        """Draw synthetic records, attribute by attribute given its parents, without a junction tree.

        Args:
            n: the number of records; by default `total`, rounded.
            method: "multinomial" (independent records, the default as published), or "round": among the records with
                the same codes of the parents, every code occurs its expected number of times, rounded up or down.
            seed: the same seed gives the same records.

        Raises:
            ArgumentError: `n` is not an integer of at least 0, or there is no such method.
        """
        return super().sample(n, method, seed)

    def sample_batches(
        self,
        n: int | None = None,
        batch: int | None = None,
        method: str = "multinomial",
        seed: int | np.random.Generator | None = None,
    ) -> Iterator[Dataset]:
        """Draw synthetic records a batch at a time; arguments and errors as for `sample`."""
        return super().sample_batches(n, batch, method, seed)

    def _drawn(self, n: int, method: str, seed: int | np.random.Generator | None) -> Dataset:
        if method not in DRAWS:
            raise ArgumentError.of("method", method, DRAWS)
        check_records(n, 8 * (len(self.domain) + 4))
        rng, columns = np.random.default_rng(seed), {}
        for name, table in self.conditionals.items():
            *given, size = table.values.shape
            context = np.zeros(n, dtype=np.int64)
            for parent, values in zip(table.domain.attributes, given, strict=False):
                context = context * values + columns[parent]
            columns[name] = DRAWS[method](table.values.reshape(-1, size), context, rng)
        if not columns:
            return Dataset(self.domain, (), n)
        return Dataset.from_codes([columns[name] for name in self.domain], self.domain, trusted=True)

    def _saved(self) -> dict[str, Any]:
        return tables_tree(list(self.conditionals.values()))

    @classmethod
    def _of_saved(cls, domain: Domain, tree: Mapping[str, Any]) -> Self:
        tables = read_tables(domain, tree)
        return cls(domain, {table.domain.attributes[-1]: table for table in tables}, tree["total"])

    def with_constants(self, domain: Domain) -> Self:
        more = {name: Factor(domain.project((name,)), [1.0]) for name in domain if name not in self.domain}
        return replace(self, domain=domain, conditionals={**self.conditionals, **more})

    def __repr__(self) -> str:
        lines = [f"BayesianNetwork: {self.total:,.1f} records, {len(self.domain)} attributes"]
        shown = [f"  {name} | {', '.join(given)}" if given else f"  {name}" for name, given in self.parents.items()]
        return "\n".join([*lines, *shown[:12], *([f"  ... {len(shown) - 12} more"] if len(shown) > 12 else [])])


def _conditional(marginal: Factor, family: Clique) -> Factor:
    """Return p(last of the family | the others) from a marginal that contains the family."""
    counts = np.maximum(marginal.values, 0.0)
    joint = Factor.owning(marginal.domain, counts).project(family)
    values = joint.values
    sums = values.sum(axis=-1, keepdims=True)
    uniform = 1.0 / values.shape[-1]
    return Factor.owning(joint.domain, np.where(sums > 0, values / np.where(sums > 0, sums, 1.0), uniform))


def _draw(rows: np.ndarray, context: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw a code for each record from the row of probabilities (contexts, codes) that its context selects."""
    cumulative = rows.cumsum(axis=1)
    cumulative /= cumulative[:, -1:]
    # Row r is shifted to the interval (r, r + 1], so that one search serves all records.
    ladder = (cumulative + np.arange(len(rows))[:, None]).reshape(-1)
    place = np.searchsorted(ladder, context + rng.random(len(context)), side="right")
    return np.minimum(place - context * rows.shape[1], rows.shape[1] - 1)


def _deal(rows: np.ndarray, context: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw a code for each record so that in each context every code occurs as often as expected, rounded up or
    down.
    """
    counts = systematic_rows(rows, np.bincount(context, minlength=len(rows)), rng)
    return deal(context, counts, rng, code_type(rows.shape[1]))


DRAWS = {"multinomial": _draw, "round": _deal}
"""The ways to draw the codes of one attribute."""
