"""Models of pgmest that follow mbi's protocol, which estimation returns to code written for mbi.

`project`, `supports`, `synthetic_data`, `cliques`, `total`, `potentials`, `marginals`, `domain` and `constraints` are
as in mbi. pgmest computes the marginals and compiles nothing for a set of attributes. `model` is the pgmest model, with
its intervals, conditionals and files, and `report` describes the quality of the estimate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pgmest.adapters.mbi.constraints import constraint_tables
from pgmest.adapters.mbi.names import Names, to_mbi_dataset
from pgmest.adapters.mbi.peer import clique_list, installed, maximal_subset, mbi
from pgmest.adapters.mbi.tables import LOWEST, clique_vector, from_mbi_potentials, to_mbi_factor
from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError
from pgmest.inference.support.support import Support
from pgmest.models.distribution import Distribution
from pgmest.models.exact import Model
from pgmest.models.support import SupportModel
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Domain

METHODS = {"round": "round", "sample": "multinomial", "multinomial": "multinomial"}
"""The method of `pgmest.Model.sample` for each of mbi's methods."""


class EstimatedModel:
    """A distribution of pgmest that follows mbi's `Model` protocol.

    Args:
        model: a `pgmest.Model`, `SupportModel` or `ApproximateModel`.
        names: the names of mbi's attributes; by default the same as pgmest's.
        cliques: the cliques of `cliques` and `marginals`, in mbi's attributes; by default the maximal ones.
        constraints: mbi's constraints of the fit, which the model's probabilities already satisfy.
    """

    def __init__(
        self,
        model: Distribution,
        names: Names | None = None,
        cliques: Iterable[Sequence[Any]] | None = None,
        constraints: Iterable[Any] = (),
    ):
        self._keep(model, Names.plain(model.domain) if names is None else names, cliques, tuple(constraints))

    def _keep(self, model: Distribution, names: Names, cliques: Any, constraints: tuple[Any, ...]) -> None:
        if cliques is None:
            cliques = maximal_subset([names.back(clique) for clique in model.cliques])
        found = {
            "model": model,
            "_names": names,
            "_cliques": tuple(tuple(clique) for clique in cliques),
            "_constraints": constraints,
        }
        for name, value in found.items():
            object.__setattr__(self, name, value)

    model: Any
    _names: Names
    _cliques: tuple[tuple[Any, ...], ...]
    _constraints: tuple[Any, ...]

    @property
    def domain(self) -> Any:
        """mbi's domain, with its labels."""
        return self._names.theirs

    @property
    def cliques(self) -> Any:
        """The cliques of the loss, without those of constraints, in mbi's attributes."""
        return clique_list(self._cliques)

    @property
    def total(self) -> float:
        """The number of records."""
        return self.model.total

    @property
    def constraints(self) -> tuple[Any, ...]:
        """mbi's constraints."""
        return self._constraints

    @property
    def report(self) -> Any:
        """The report on the estimation and its accuracy (`pgmest.solvers.report.EstimationReport`)."""
        return self.model.report

    @property
    def marginals(self) -> Any:
        """The marginals on `cliques`, in counts, as an `mbi.CliqueVector`."""
        wanted = [self._names.clique(clique) for clique in self.cliques]
        tables = self.model.project_many(wanted)
        return clique_vector(self._names, zip(wanted, (table.values for table in tables), strict=True))

    def project(self, attrs: Any) -> Any:
        """Return the marginal on any attributes, in counts, as an `mbi.Factor` of float64.

        Raises:
            ArgumentError: an attribute is not in the domain.
        """
        return to_mbi_factor(self.model.project(self._names.clique(attrs)), self._names)

    def supports(self, attrs: Any) -> bool:
        """Return whether the domain has all of the attributes; the model has the marginal on any set of them."""
        wanted = (attrs,) if isinstance(attrs, str | int) else tuple(attrs)
        return all(attribute in self._names.of for attribute in wanted)

    def synthetic_data(self, rows: int | None = None, method: str = "round") -> Any:
        """Return synthetic records as an `mbi.Dataset`.

        Args:
            rows: the number of records; by default the total, rounded down, at least 1.
            method: "round" or "sample", as in mbi.

        Raises:
            ArgumentError: there is no such method.
        """
        if method not in METHODS:
            raise ArgumentError.of("method", method, METHODS)
        drawn = self.model.sample(max(1, int(rows or self.total)), METHODS[method], legacy_seed())
        return to_mbi_dataset(drawn, self.domain)

    def __repr__(self) -> str:
        return repr(self.model)


class SupportField(EstimatedModel):
    """A distribution over public records, which its potentials reweight."""

    @property
    def potentials(self) -> Any:
        """The log-potentials that reweight the records, as an `mbi.CliqueVector`."""
        return _potentials(self.model.potentials, self._names, self.cliques)


class PseudoMarginals(EstimatedModel):
    """The consistent tables of a model whose junction tree would be too large; it has no potentials."""


class MarkovRandomField(EstimatedModel, mbi.MarkovRandomField):  # type: ignore[misc, name-defined]
    """An `mbi.MarkovRandomField` whose answers pgmest computes.

    The constructor takes potentials, marginals, total and constraints, as in mbi; `of` takes a `pgmest.Model`.

    Args:
        potentials: an `mbi.CliqueVector` of log-potentials.
        marginals: an `mbi.CliqueVector`; by default the marginals of the potentials.
        total: the number of records.
        constraints: mbi's constraints; the combinations they exclude have probability zero.
    """

    def __init__(self, potentials: Any = None, marginals: Any = None, total: Any = 1, constraints: Any = ()):
        object.__setattr__(self, "_given", (potentials, marginals, total, tuple(constraints)))

    @classmethod
    def of(
        cls,
        model: Model,
        names: Names | None = None,
        cliques: Iterable[Sequence[Any]] | None = None,
        constraints: Iterable[Any] = (),
    ) -> MarkovRandomField:
        """Return the field of a `pgmest.Model`; arguments as for `EstimatedModel`."""
        made = cls.__new__(cls)
        object.__setattr__(made, "_given", None)
        made._keep(model, Names.plain(model.domain) if names is None else names, cliques, tuple(constraints))
        return made

    def __getattr__(self, name: str) -> Any:
        """Create the model at the first use of an attribute, since a function that JAX traces has no numbers for it."""
        if name not in ("model", "_names", "_cliques", "_constraints"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        potentials, _, total, constraints = self._given
        names = Names(potentials.domain)
        tables = from_mbi_potentials(potentials, names)
        if constraints:
            tables = _with_zeros(tables, constraints, names)
        self._keep(Model(tables, float(total)), names, potentials.cliques, constraints)
        return self.__dict__[name]

    @property
    def potentials(self) -> Any:
        """The log-potentials, without those of constraints, as an `mbi.CliqueVector`."""
        if self._given is not None:
            return self._given[0]
        return _potentials(
            _without_zeros(self.model.potentials, self._names, self._constraints), self._names, self.cliques
        )

    @property
    def marginals(self) -> Any:
        """The marginals on `cliques`, in counts, as an `mbi.CliqueVector`."""
        if self._given is not None and self._given[1] is not None:
            return self._given[1]
        return EstimatedModel.marginals.fget(self)  # type: ignore[attr-defined]

    @property
    def total(self) -> Any:
        """The number of records."""
        return self._given[2] if self._given is not None else self.model.total

    @property
    def constraints(self) -> tuple[Any, ...]:
        """mbi's constraints."""
        return self._given[3] if self._given is not None else self._constraints

    @property
    def domain(self) -> Any:
        """mbi's domain, with its labels."""
        return self._given[0].domain if self._given is not None else self._names.theirs

    @property
    def cliques(self) -> Any:
        """The cliques of the potentials."""
        return self._given[0].cliques if self._given is not None else clique_list(self._cliques)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._given is not None:
            return type(self), self._given
        return _rebuilt, (type(self), self.model, self._names.theirs, self._cliques, self._constraints)


def _rebuilt(kind: Any, model: Model, domain: Any, cliques: Any, constraints: Any) -> MarkovRandomField:
    return kind.of(model, Names(domain), cliques, constraints)


def _flatten(field: MarkovRandomField) -> tuple[tuple[Any, ...], None]:
    return (field.potentials, field.marginals, field.total, field.constraints), None


installed("jax").tree_util.register_pytree_node(
    MarkovRandomField, _flatten, lambda _, children: MarkovRandomField(*children)
)


def to_mbi(model: Distribution) -> Any:
    """Return a pgmest model in mbi's protocol: a `MarkovRandomField` of a Model, an `EstimatedModel` of others.

    `mbi.MarkovRandomField(field.potentials, field.marginals, field.total)` is a field of mbi's own class.
    """
    return wrapped(model)


def wrapped(model: Distribution, names: Names | None = None, cliques: Any = None, constraints: Any = ()) -> Any:
    """Return the `EstimatedModel` of the kind that fits a distribution; arguments as for `EstimatedModel`."""
    if isinstance(model, Model):
        return MarkovRandomField.of(model, names, cliques, constraints)
    kind = SupportField if isinstance(model, SupportModel) else PseudoMarginals
    return kind(model, names, cliques, constraints)


def from_mbi(model: Any) -> Distribution:
    """Return a model of mbi as a model of pgmest.

    A field becomes a `pgmest.Model` of its potentials, and weighted records become a `SupportModel`. A mixture of
    products becomes a Model with one more attribute, named "component": given the component, all other attributes are
    independent, and marginals over the others are summed over it.

    Raises:
        ArgumentError: `model` has another type.
    """
    if isinstance(model, EstimatedModel):
        return model.model
    if hasattr(model, "potentials"):
        return MarkovRandomField(
            model.potentials, None, float(model.total), tuple(getattr(model, "constraints", ()))
        ).model
    if hasattr(model, "products"):
        return _mixture(model)
    if hasattr(model, "weights") and hasattr(model, "records"):
        return _weighted_records(model)
    raise ArgumentError.of("model", model, "an mbi.MarkovRandomField, MixtureOfProducts or JaxDataset")


def _mixture(model: Any) -> Model:
    names = Names(model.domain)
    component = "component"
    while component in names.domain:
        component += "'"
    products = {names.of[name]: np.asarray(table, dtype=np.float64) for name, table in model.products.items()}
    components = next(iter(products.values())).shape[0]
    domain = Domain({component: components, **dict(names.domain)})
    with np.errstate(divide="ignore"):
        tables = {(component, name): np.log(products[name]) for name in names.domain}
    return Model(CliqueVector(domain, tables), float(model.total))


def _weighted_records(model: Any) -> SupportModel:
    from pgmest.adapters.mbi.names import from_mbi_dataset

    records = from_mbi_dataset(model)
    weights = np.ones(len(records)) if records.weights is None else records.weights
    weighted = Dataset.from_codes(list(records.columns), records.domain, weights)
    return SupportModel(Support(weighted), CliqueVector.zeros(records.domain, [()]), float(weights.sum()))


def legacy_seed() -> int:
    """Return a seed from NumPy's global generator, which mbi uses: `np.random.seed` makes runs repeatable here, too."""
    return int(np.random.randint(2**31))  # noqa: NPY002


def _potentials(tables: CliqueVector, names: Names, cliques: Sequence[Sequence[Any]]) -> Any:
    """Return the potentials as mbi's, on mbi's cliques, and on further cliques if these do not cover all potentials."""
    wanted = list(dict.fromkeys(names.clique(clique) for clique in cliques))
    sets = [set(clique) for clique in wanted]
    if any(not any(set(clique) <= one for one in sets) for clique in tables.cliques):
        wanted = [*wanted, *(c for c in tables.cliques if not any(set(c) <= one for one in sets))]
    spread = tables.expand(wanted)
    return clique_vector(names, ((clique, np.maximum(table.values, LOWEST)) for clique, table in spread.items()))


def _with_zeros(tables: CliqueVector, constraints: Sequence[Any], names: Names) -> CliqueVector:
    zeros = constraint_tables(constraints, names)
    cliques = {frozenset(clique): clique for clique in (*zeros.cliques, *tables.cliques)}
    layout = list(cliques.values())
    return tables.expand(layout) + zeros.expand(layout)


def _without_zeros(tables: CliqueVector, names: Names, constraints: Sequence[Any]) -> CliqueVector:
    """Return the tables without those that only have the zeros of a constraint."""
    held = {frozenset(names.clique(constraint.domain.attributes)) for constraint in constraints}
    kept = {
        clique: table
        for clique, table in tables.items()
        if frozenset(clique) not in held or np.any(np.isfinite(table.values) & (table.values != 0))
    }
    return CliqueVector(tables.domain, kept)
