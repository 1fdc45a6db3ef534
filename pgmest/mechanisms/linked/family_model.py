"""FamilyModel: the families of a run, and models of its two tables that know the noisy answers, for intervals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.inference.support.support import Support
from pgmest.measurements.known_errors import KnownErrors
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.linked.families import Families, Layout
from pgmest.mechanisms.linked.lengths import RATIO_SPREAD, ChildCounts, MeasuredLengths
from pgmest.models.errors.drawn_intervals import error_model_of
from pgmest.models.support import SupportModel
from pgmest.queries import Kron
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique, Domain

DRAWS = 200
"""The number of draws of errors of parents from which those of their children are taken."""
MOST_CELLS = 100_000
"""The largest number of cells of a table of parents with the number of children whose errors are drawn."""
LEAST_SHARE, LEAST = 1e-3, 1e-6
"""The smallest standard error of a count, relative to the largest one of its table, and in counts."""


@dataclass(frozen=True, eq=False)
class FamilyModel:
    """The families of a run with the answers from which they were made.

    Attributes:
        families: as many families as the data is estimated to have.
        lengths: the noisy lengths of tables with attributes of children.
        above: the noisy tables of parents' attributes and of the number of children.
        total, total_stddev: the estimated number of families, and its standard error.
    """

    families: Families
    lengths: tuple[MeasuredLengths, ...]
    above: tuple[LinearMeasurement, ...]
    total: float
    total_stddev: float

    @property
    def layout(self) -> Layout:
        """The attributes."""
        return self.families.layout

    @property
    def parent_domain(self) -> Domain:
        """The attributes of the parent table, and the number of children."""
        return _with_trees(self.layout.domain.project(self.layout.parents), self.layout)

    @property
    def child_domain(self) -> Domain:
        """The attributes of the child table and of the parent of each row."""
        inside = dict(zip(self.layout.members, self.layout.child.shape, strict=True))
        return _with_trees(Domain({**self.parent_domain, **inside}), self.layout)

    @cached_property
    def parents(self) -> SupportModel:
        """The model of the parent table, with the number of children: it counts parents."""
        model = _model(self.families.parents, self.parent_domain, self.total)
        return model.knows(KnownErrors(self.above, self.total_stddev, records=max(self.total, 1.0)))

    @cached_property
    def children(self) -> SupportModel:
        """The model of the child table, with the attributes of the parent of each row: it counts children."""
        families, domain = self.families, self.child_domain
        rows = np.hstack([families.parents[families.owners], families.children])
        total = len(rows) * self.total / max(1, len(families.sizes))
        model = _model(rows, domain, total)
        found = list(self._of_children(domain))
        answers = (*self._of_parents(model), *(counts.measurement for counts in found))
        relative = RATIO_SPREAD * _spread(found, several=False), RATIO_SPREAD * _spread(found, several=True)
        known = KnownErrors(answers, self._children_stddev, records=max(total, 1.0), relative=relative)
        return model.knows(known)

    @cached_property
    def _children_stddev(self) -> float:
        """The standard error of the number of children: that of the answers, or of the model's if it is larger."""
        number, model = (self.layout.number,), error_model_of(self.parents)
        errors, sizes = model.draws(number, DRAWS), np.arange(self.layout.at_most + 1)
        root = model.code_errors(*number).root
        answers = 0.0 if root is None else float(np.linalg.norm(sizes @ root))
        return max(answers, float(np.sqrt(np.mean(np.square(errors @ sizes)))))

    def _of_children(self, domain: Domain) -> Iterator[ChildCounts]:
        """Yield what the lengths of tables of one child say about counts of children."""
        families, layout = self.families, self.layout
        scale = self.total / max(1, len(families.sizes))
        rows = np.hstack([families.parents[families.owners], families.children])
        for answer in self.lengths:
            if not layout.is_across(answer.clique):
                yield answer.counts(families, [rows[:, axis] for axis in domain.axes(answer.clique)], scale)

    def _of_parents(self, model: SupportModel) -> Iterator[LinearMeasurement]:
        """Yield the tables of parents' attributes, over children, with the errors that follow from those of parents.

        The errors of a table over children are those of the table of parents with the number of children, weighted by
        this number.
        """
        layout, errors = self.layout, error_model_of(self.parents)
        sizes = np.arange(layout.at_most + 1.0)
        measured = {answer.clique for answer in self.above if len(answer.clique) == 2}
        for clique in (*((name,) for name in layout.parents), *sorted(measured)):
            whole = layout.domain.ordered({*clique, layout.number})  # the number is the last of a parent's attributes
            if layout.domain.size(whole) > MOST_CELLS:
                continue
            drawn = errors.draws(whole, DRAWS) * sizes
            drawn = drawn if layout.number in clique else drawn.sum(axis=-1)
            clique = layout.domain.ordered(clique)
            yield _known(model.project(clique).values, clique, np.sqrt(np.mean(np.square(drawn), axis=0)))


def _with_trees(domain: Domain, layout: Layout) -> Domain:
    """Return attributes of families with the hierarchies that they have in their own tables."""
    trees = []
    for table, own in zip(layout.names, (layout.parent, layout.child), strict=True):
        named = ((f"{table}.{name}", tree) for name, tree in own.hierarchies.items())
        trees += [tree.recoded(name, np.arange(tree.values)) for name, tree in named if name in domain]
    return domain.with_hierarchies(*filter(None, trees)) if trees else domain


def _spread(found: list[ChildCounts], several: bool) -> float:
    """Return the root-mean-square spread of ratios in tables of one attribute, or of several."""
    spreads = [counts.spread for counts in found if (len(counts.measurement.clique) > 1) == several]
    return float(np.sqrt(np.mean(np.square(spreads)))) if spreads else 0.0


def _known(table: np.ndarray, clique: Clique, stddev: np.ndarray) -> LinearMeasurement:
    """Return a table with independent errors as a measurement; of one attribute, each code has its own error."""
    least = max(float(stddev.max()) * LEAST_SHARE, LEAST)
    if table.ndim > 1:
        return LinearMeasurement(table.ravel(), clique, max(float(np.sqrt(np.mean(np.square(stddev)))), least))
    each = np.maximum(stddev, least)
    return LinearMeasurement(table / each, clique, 1.0, Kron({clique[0]: np.diag(1 / each)}))


def _model(rows: np.ndarray, domain: Domain, total: float) -> SupportModel:
    """Return the model of rows of codes, or of a single row if there are none."""
    columns = list(np.ascontiguousarray((rows if len(rows) else np.zeros((1, len(domain)), dtype=np.int64)).T))
    data = Dataset.from_codes(columns, domain)
    return SupportModel(Support(data), CliqueVector.zeros(domain, []), total)
