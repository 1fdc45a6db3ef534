"""ClassErrorModel: errors of a table over classes of codes, for queries that only ask about classes.

A query whose matrix has equal columns for two codes of an attribute does not tell them apart: they are one class. A
table over classes may have few cells where the table over codes has too many to be drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from scipy.linalg import null_space, solve_triangular
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from pgmest.measurements.known_errors import TiedCounts
from pgmest.models.errors.code_errors import CodeErrors
from pgmest.models.errors.error_model import Drawing, ErrorModel
from pgmest.models.errors.measured_tables import USUAL_WEIGHTS, ComparedTable, MeasuredTable, best_answer
from pgmest.models.errors.mixture import learned_weights
from pgmest.models.errors.model_tables import ModelTables
from pgmest.models.errors.table_answers import Side, TableAnswer, along, sums_by
from pgmest.models.errors.unseen import UnseenDependence
from pgmest.models.protocol import EstimatedModel
from pgmest.queries import Kron, identity
from pgmest.queries.matrices import Identity
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor

MOST_DRAWN = 6_000_000
"""The largest number of drawn errors, all draws together, of a pair over codes that is drawn before its classes. Of
larger tables, of which there are more, it is a tenth."""
MOST_ENTRIES = 4_000_000
"""The largest number of entries of a matrix whose columns are compared."""
SMALLEST = 1e-9
"""Singular values below this share of the largest are 0."""


def classes_of(matrix: Any, size: int) -> np.ndarray:
    """Return the class of each code: codes have the same class if the matrix has the same column for both.

    Args:
        matrix: the query's matrix over the codes of an attribute; None is the identity.
        size: the number of codes.
    """
    if matrix is None or isinstance(matrix, Identity) or matrix.rows * size > MOST_ENTRIES:
        return np.arange(size)
    return _by_first(np.unique(matrix.matrix(), axis=1, return_inverse=True)[1].reshape(-1))


def _by_first(labels: np.ndarray) -> np.ndarray:
    """Return labels numbered in the order in which they first appear."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse.reshape(-1)]


@dataclass(frozen=True, eq=False)
class ClassModel:
    """A model whose attributes have classes instead of codes.

    Attributes:
        model: the model over codes.
        labels: the class of each code, for attributes that are reduced.
    """

    model: EstimatedModel
    labels: Mapping[str, np.ndarray]

    @cached_property
    def domain(self) -> Domain:
        """All attributes, with their numbers of classes."""
        known = self.model.domain
        return Domain({name: _count(self.labels[name]) if name in self.labels else known[name] for name in known})

    @property
    def total(self) -> float:
        """The number of records."""
        return self.model.total

    def project(self, attributes: Iterable[str] | str) -> Factor:
        """Return a marginal over classes, by variable elimination where the model has it."""
        names = (attributes,) if isinstance(attributes, str) else tuple(attributes)
        if not self.labels.keys() & set(names):
            return self.model.project(names)
        domain = self.domain.project(names)
        query = Kron({name: self._matrix(name) for name in names})
        return Factor.owning(domain, np.asarray(self.model.answer(query).values).reshape(domain.shape))

    def _matrix(self, name: str) -> Any:
        if name not in self.labels:
            return identity(self.domain[name])
        labels = self.labels[name]
        members = np.zeros((_count(labels), len(labels)))
        members[labels, np.arange(len(labels))] = 1.0
        return members


def _count(labels: np.ndarray) -> int:
    return int(labels.max(initial=-1)) + 1


@dataclass(frozen=True, eq=False)
class ClassTables(ModelTables):
    """The marginals of a model over classes.

    Attributes:
        codes: the marginals over codes.
    """

    codes: ModelTables = field(kw_only=True)

    def possible(self, clique: Clique) -> np.ndarray:
        """Return the cells that may have records: those with a possible cell of codes."""
        even, model = self.codes._even, cast(ClassModel, self.model)
        if even is None:
            return np.ones(self.domain.project(clique).shape, dtype=bool)
        return ClassModel(even, model.labels).project(clique).values > 0


@dataclass(frozen=True, eq=False)
class ClassDependence(UnseenDependence):
    """Dependence between classes that a model may lack: at most that between codes, of which nothing is taken off.

    Attributes:
        codes: the dependence between codes.
    """

    codes: UnseenDependence = field(kw_only=True)

    def distance(self, clique: Clique) -> float:
        """Return the expected l1 distance of a table from the model's, in counts, without sampling error."""
        return self.codes.distance(clique)

    def was_passed_over(self, clique: Clique) -> bool:
        """Return whether this is a pair that was not chosen where others were, and of which no more is known."""
        return self.codes.was_passed_over(clique)

    def is_like_measured(self, clique: Clique) -> bool:
        """Return whether this is a pair that was not measured, where others were, but not for their dependence."""
        return self.codes.is_like_measured(clique)

    def like_measured(self, pair: Clique, field: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Return drawn dependence of any size with l1 norms as those of measured pairs."""
        return self.codes.like_measured(pair, field, generator)

    def without_bound(self, pair: Clique) -> float:
        """Return the expected l1 distance of a pair that was passed over, but for what its selections say."""
        return self.codes.without_bound(pair)

    def selected_bound(self, clique: Clique) -> float:
        """Return a bound on the l1 distance of a table from the model's by the selections that it lost."""
        return self.codes.selected_bound(clique)

    @cached_property
    def spectrum(self) -> np.ndarray:
        """The mean shares of the squared dependence of measured pairs in the products of smooth functions."""
        return self.codes.spectrum


@dataclass(frozen=True, eq=False)
class ClassErrorModel(ErrorModel):
    """The errors of tables over classes.

    Tables of few codes are drawn over codes and added up, so that they are those of every other answer. For larger
    tables, the answers are reduced to classes, and unmeasured dependence is as large as that between codes.

    Attributes:
        codes: the errors over codes.
        labels: the class of each code, for attributes that are reduced.
        always: whether tables of few codes are drawn over classes, too. Answers about levels of a tree tell more about
            their groups than about the errors that the codes of a group share.
    """

    codes: ErrorModel = field(kw_only=True)
    labels: Mapping[str, np.ndarray] = field(kw_only=True)
    always: bool = False

    @classmethod
    def reduced(cls, codes: ErrorModel, labels: Mapping[str, np.ndarray], *, always: bool = False) -> ClassErrorModel:
        """Create the error model over classes."""
        tables = ClassTables(cast(EstimatedModel, ClassModel(codes.tables.model, labels)), codes=codes.tables)
        return cls(tables, codes.known, codes.answers, codes=codes, labels=labels, always=always)

    def _draw(self, clique: Clique, drawing: Drawing) -> np.ndarray:
        """Draw errors of a table, which agree with those of its margins that were drawn before."""
        if clique not in drawing.errors:
            drawing.over_codes[()] = drawing.errors[()]
            most = {1: math.inf, 2: MOST_DRAWN}.get(len(clique), MOST_DRAWN / 10)
            if self.always or self.codes.tables.domain.size(clique) * drawing.count > most:
                return super()._draw(clique, drawing)
            found = self.codes._draw(clique, replace(drawing, errors=drawing.over_codes, plausible={}))
            for axis, name in enumerate(clique):
                if name in self.labels:
                    found = sums_by(found, self.labels[name], self.tables.domain[name], axis + 1)
            drawing.errors[clique] = found
        return drawing.errors[clique]

    def published(self, clique: Clique) -> Clique | None:
        """Return None: published tables are drawn over codes."""
        return None

    def _tied(self, clique: Clique) -> TiedCounts | None:
        """Return the counts that follow from those of the rows above; None where codes are reduced to classes."""
        return None if self.labels.keys() & set(clique) else super()._tied(clique)

    def about(self, clique: Clique) -> list[TableAnswer]:
        """Return what the answers say about a table over classes."""
        found = [by_classes(answer, self.labels) for answer in self.codes.about(clique)]
        return [answer for answer in found if answer is not None]

    def code_errors(self, name: str) -> CodeErrors:
        """Return the errors of a one-way marginal over classes."""
        if name in self.labels and name not in self._codes:
            answers, counts = self.codes.about((name,)), self.tables.counts(name)
            known = (self.tables.total, self.known.total_stddev, self.codes.code_errors(name))
            found = CodeErrors.of_classes(answers, self.labels[name], counts, *known) if answers else None
            if found is not None:
                self._codes[name] = found
        return super().code_errors(name)

    def measured(self, clique: Clique) -> ComparedTable | None:
        """Return the measured table of two attributes or more; None if it was not measured."""
        if clique not in self._larger:
            answer = best_answer(self.about(clique))
            table = None if answer is None else MeasuredTable.of(answer, self.tables)
            before = None if table is None else learned_weights([table.mixture], USUAL_WEIGHTS)
            compared = None if table is None or before is None else table.compared(before, clique in self.known.strong)
            self._larger[clique] = compared
        return self._larger[clique]

    @cached_property
    def unseen(self) -> UnseenDependence:
        """The dependence that was not measured."""
        return ClassDependence(self.tables, {}, {}, {}, codes=self.codes.unseen)


# -- answers over classes ---------------------------------------------------------------------------------------------


def by_classes(answer: TableAnswer, labels: Mapping[str, np.ndarray]) -> TableAnswer | None:
    """Return what an answer says about a table over classes, with independent noise again; None if nothing.

    Classes whose codes were counted together with codes of other classes are one group.
    """
    values, sides = answer.values, []
    for axis, (name, side) in enumerate(zip(answer.clique, answer.sides, strict=True)):
        if name not in labels:
            sides.append(side)
            continue
        found = _side_by_classes(side, labels[name])
        if found is None:
            return None
        side, weights = found
        values = along([*[None] * axis, weights], values)
        sides.append(side)
    return TableAnswer(answer.clique, tuple(sides), values, answer.stddev)


def _side_by_classes(side: Side, labels: np.ndarray) -> tuple[Side, np.ndarray] | None:
    r"""Return the matrix over groups of classes, and the weights of the answers, shape (rows, answers).

    With groups' counts x, answers $M x$ and groups of classes $z = C x$, the answers tell $U z$ for the rows u of U for
    which $u C$ is a combination of rows of M. Its least-squares estimate $U C M^+ y$ is divided by a square root of its
    covariance.
    """
    classes, groups = _count(labels), side.groups
    edges = coo_array((np.ones(len(labels)), (labels, classes + side.labels)), shape=(classes + groups,) * 2)
    together = connected_components(edges, directed=False)[1]
    of_class = _by_first(together[:classes])  # each group of codes holds a code of a class
    member = np.zeros((_count(of_class), groups))
    member[of_class[labels], side.labels] = 1.0
    if side.matrix is None or side.inverse is None:
        roots = np.sqrt(member.sum(axis=1))
        return Side(of_class, np.diag(1 / roots)), member / roots[:, None]
    hidden = null_space(side.matrix, SMALLEST)
    left = member @ hidden
    left[np.abs(left) < SMALLEST] = 0.0  # as shares of the largest, rounding errors alone would have a rank
    known = null_space(left.T, SMALLEST).T if hidden.size else np.eye(len(member))
    if not len(known):
        return None
    weights = known @ member @ side.inverse
    root = np.linalg.cholesky(weights @ weights.T)
    matrix = solve_triangular(root, known, lower=True)
    return Side(of_class, matrix, deviations=len(known) < len(member)), solve_triangular(root, weights, lower=True)
