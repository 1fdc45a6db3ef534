"""LeastSquaresModel: consistent answers to all marginals by least squares in closed form (HDMM's reconstruction).

`pgmest.strategies` makes it from measurements. The space of tables splits into orthogonal parts, one for each set of
attributes, and the estimate on each part is a weighted mean of the measurements that see it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NoReturn, Self

import numpy as np

from pgmest._base.npz import Unreadable, objects
from pgmest.errors import MOST_AXES, ArgumentError, ModelTooLarge, QueryError, count_text, memory_text, plural
from pgmest.models.base import ModelBase
from pgmest.models.files import read_cliques, read_tables, tables_tree
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.evidence import checked_evidence
from pgmest.tables.factor import Factor

PROJECTED_CELLS = 1 << 28
"""The largest marginal, in cells (2 GB), that is put together from its parts."""


@dataclass(frozen=True, eq=False)
class LeastSquaresParts:
    r"""The table of counts with the least squared residuals (of all such tables the one of least norm), split into
    parts.

    On an attribute of n values let A be its queries, K = A^T A, k = K^-1 1 and m = 1^T k (for identity, k = 1 and
    m = n). Vectors on the attribute split into a component along k, which the total determines, and the rest. The part
    of a set of attributes varies along all attributes of the set and along no others.

    Attributes:
        domain: all attributes.
        cliques: the measured cliques.
        parts: a set of attributes, in domain order -> its part, with an axis for each of them.
        directions: attribute -> k, shape (n,), for attributes whose queries were not the identity.
    """

    domain: Domain
    cliques: tuple[Clique, ...]
    parts: Mapping[Clique, np.ndarray]
    directions: Mapping[str, np.ndarray]

    def fit(self, clique: Iterable[str]) -> tuple[int, int]:
        """Return the rank of this group for a clique: most attributes in one measurement, then fewest others."""
        members = frozenset(clique)
        return max((len(members.intersection(measured)), -len(measured)) for measured in self.cliques)

    def project(self, names: Clique) -> Factor:
        """Return the marginal on checked attributes, in counts."""
        members = set(names)
        ordered = tuple(name for name in self.domain if name in members)
        place = {name: axis for axis, name in enumerate(ordered)}
        inside = [part for part in self.parts if members.issuperset(part)]
        total = np.zeros([self.domain[name] for name in ordered])
        for part in sorted(inside, key=lambda part: (len(part), [place[name] for name in part])):
            total += self._expanded(part, ordered)
        return Factor.owning(self.domain.project(ordered), total).transpose(names)

    def _expanded(self, part: Clique, clique: Clique) -> np.ndarray:
        """Return the contribution of a part to the marginal of a clique."""
        table = self.parts[part].reshape([self.domain[name] if name in part else 1 for name in clique])
        for axis, name in enumerate(clique):
            along = self.directions.get(name, np.ones(self.domain[name]))
            root = np.sqrt(float(along.sum()))
            table = table / root
            if name not in part:
                shape = [1] * len(clique)
                shape[axis] = len(along)
                table = table * (along / root).reshape(shape)
        return table


@dataclass(frozen=True, eq=False, repr=False)
class LeastSquaresModel(ModelBase):
    """Least squares by group of measurements; a marginal comes from the group that measured most of its attributes.

    Answers are unbiased and, within a group, consistent with each other. They may be negative: the model is no
    distribution, and no records can be drawn from it.

    Args:
        groups: at least one group.
    """

    refittable_by: ClassVar[str] = 'HDMM(estimator="pgm").fit'

    groups: tuple[LeastSquaresParts, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", tuple(self.groups))
        if not self.groups:
            raise ArgumentError.of("groups", self.groups, "at least one group")

    @property
    def domain(self) -> Domain:
        """All attributes."""
        return self.groups[0].domain

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The measured cliques."""
        return tuple(dict.fromkeys(clique for group in self.groups for clique in group.cliques))

    @property
    def total(self) -> float:
        """The least-squares estimate of the number of records, which may be negative."""
        return float(self.project(()))

    def _project(self, attributes: Iterable[str] | str, given: Mapping[str, int] | None = None) -> Factor:
        """Return the marginal on any attributes, in counts; `given` selects records by codes of other attributes.

        Raises:
            UnknownAttributeError: an attribute is not in the domain.
            CodeRangeError, QueryError: a given code is out of range, or of an attribute in `attributes`.
            ModelTooLarge: a table of more than 2^28 cells (2 GB).
        """
        names = self.domain.clique(attributes)
        if given:
            evidence = checked_evidence(self.domain, given, names)
            return self.project((*names, *evidence)).condition(evidence)
        if len(names) > MOST_AXES:
            raise ModelTooLarge.of_axes(names)
        cells = self.domain.size(names)
        if cells > PROJECTED_CELLS:
            raise ModelTooLarge(
                f"the marginal over {plural(len(names), 'attribute')} has {count_text(cells)} cells "
                f"({memory_text(8 * cells)}). Ask for fewer attributes at a time."
            )
        return max(self.groups, key=lambda group: group.fit(names)).project(names)

    def sample(
        self, n: int | None = None, method: str = "round", seed: int | np.random.Generator | None = None
    ) -> NoReturn:
        """Refuse to draw records: the model is no distribution.

        Raises:
            QueryError: always.
        """
        raise QueryError(
            "a least-squares model, whose marginals may be negative, is no distribution to draw records from: use "
            'estimator="pgm".'
        )

    def _saved(self) -> dict[str, Any]:
        return {"groups": [_group_tree(group) for group in self.groups]}

    @classmethod
    def _of_saved(cls, domain: Domain, tree: Mapping[str, Any]) -> Self:
        return cls(tuple(_read_group(domain, group) for group in objects(tree, "groups")))

    def with_constants(self, domain: Domain) -> Self:
        return replace(self, groups=tuple(replace(group, domain=domain) for group in self.groups))

    def __repr__(self) -> str:
        parts = sum(len(group.parts) for group in self.groups)
        return (
            f"LeastSquaresModel: {self.total:,.1f} records, {plural(len(self.domain), 'attribute')}, "
            f"{plural(parts, 'part')} in {plural(len(self.groups), 'group')}"
        )


def _group_tree(group: LeastSquaresParts) -> dict[str, Any]:
    """Describe a group for a file; directions are tables of one attribute."""
    domain = group.domain
    parts = [Factor.owning(domain.project(part), table) for part, table in group.parts.items()]
    along = [Factor.owning(domain.project((name,)), vector) for name, vector in group.directions.items()]
    measured = [list(clique) for clique in group.cliques]
    return {"measured": measured, "parts": tables_tree(parts), "directions": tables_tree(along)}


def _read_group(domain: Domain, tree: Mapping[str, Any]) -> LeastSquaresParts:
    """Return the group that `_group_tree` described."""
    measured = tuple(read_cliques(domain, tree["measured"]))
    parts, along = (read_tables(domain, tree[name]) for name in ("parts", "directions"))
    directions = {name: table.values for table in along for (name,) in [table.domain.attributes]}
    if not measured or any(vector.sum() <= 0 for vector in directions.values()):
        raise Unreadable("its cliques or directions are wrong")
    if any(part.domain.attributes != domain.ordered(part.domain) for part in parts):
        raise Unreadable("its parts are not in domain order")
    return LeastSquaresParts(domain, measured, {part.domain.attributes: part.values for part in parts}, directions)
