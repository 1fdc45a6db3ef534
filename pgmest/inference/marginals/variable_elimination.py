"""Variable elimination: one marginal or factored query, without materializing the table of the query (PGM Algorithm 3).

Only the subtree that connects the attributes takes part. Each of its cliques contributes P(clique | separator), summed
over the attributes that are neither asked for nor shared. A query matrix is one more table, whose axes are its
attribute and its rows. opt_einsum orders the contraction. A clique too large to be materialized contributes its factors
instead, if that is cheaper.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pgmest._base.memory import LARGEST_TABLE
from pgmest.errors import MOST_AXES, ModelTooLarge
from pgmest.inference.marginals.calibrated_tree import (
    CELLS_PER_OPERATION,
    MATERIALIZED_CELLS,
    SAFE_EXPONENT,
    CalibratedTree,
    Factors,
)
from pgmest.inference.marginals.contraction import (
    EXACT_SEARCH,
    Contraction,
    Label,
    Labels,
    Table,
    contraction,
)
from pgmest.inference.marginals.subtree import Subtree, connecting_subtree
from pgmest.queries import MatrixQuery
from pgmest.queries.matrices import Identity

SMALL_CELLS = 1 << 14
"""The most cells of a marginal inside one clique for which applying the query to the marginal is the fastest way."""

DENSE_ENTRIES = 1 << 20
"""The most entries of a query matrix that is materialized; a larger matrix is applied to the result by its products."""


def eliminate(
    calibrated: CalibratedTree,
    queries: Mapping[str, MatrixQuery | None],
    evidence: Mapping[str, int] | None = None,
) -> np.ndarray:
    """Return the answers to a factored query about probabilities.

    Args:
        calibrated: the model.
        queries: attribute -> its query matrix, or None for the identity. All other attributes are summed out.
        evidence: attribute -> code, for other attributes: only records with these codes count. The answers are not
            normalized.

    Returns:
        an array with one axis per query, in their order.

    Raises:
        ModelTooLarge: the answer, or an intermediate table of every way to compute it, has too many cells.
    """
    return _Elimination(calibrated, dict(queries), dict(evidence or {})).answer()


def eliminate_rows(
    calibrated: CalibratedTree, queries: Mapping[str, MatrixQuery], evidence: Mapping[str, int] | None = None
) -> np.ndarray:
    """Return the answers to many factored queries of one row each, in one contraction.

    Args:
        calibrated: the model.
        queries: attribute -> a matrix with a row for each of the queries.
        evidence: attribute -> code, as for `eliminate`.

    Returns:
        an array with one answer for each row.
    """
    return _Elimination(calibrated, dict(queries), dict(evidence or {}), together=True).contract()


@dataclass(frozen=True)
class _QueryRows:
    """The label of the axis of query rows: the rows of one attribute's matrix, or the common rows of all (None)."""

    attribute: str | None


@dataclass(frozen=True)
class _Elimination:
    """A query about some attributes of a calibrated tree, with evidence on others.

    With `together`, entry r of the answer combines row r of every matrix, instead of all combinations of rows.
    """

    calibrated: CalibratedTree
    queries: dict[str, MatrixQuery | None]
    evidence: dict[str, int]
    together: bool = False

    def answer(self) -> np.ndarray:
        """Return the answer, one axis per query: from the marginal if it is small, else by contraction."""
        shape = [query.rows if query else self.calibrated.domain[name] for name, query in self.queries.items()]
        if math.prod(shape) > LARGEST_TABLE:
            raise ModelTooLarge.of_answer(self.queries, math.prod(shape))
        if len(shape) > MOST_AXES:
            raise ModelTooLarge.of_axes(self.queries)
        tree = self.subtree
        if len(tree.cliques) == 1 and self.calibrated.cells(tree.kept[0]) <= SMALL_CELLS:
            table = self.calibrated.marginal(tree.cliques[0], tree.kept[0])
            return self.apply_in_turn(self.restricted(Table(tree.kept[0], table)), self.queries)
        result = Table(tuple(self.queries), self.contract())
        return self.apply_in_turn(result, {name: query for name, query in self.queries.items() if name in self.open})

    @cached_property
    def subtree(self) -> Subtree:
        """The subtree of cliques that take part."""
        return connecting_subtree(self.calibrated.tree, frozenset([*self.queries, *self.evidence]))

    @cached_property
    def open(self) -> set[str]:
        """The attributes that keep their axis in the contraction: without a query, or with a query too large for it."""
        return {
            name
            for name, query in self.queries.items()
            if query is None
            or (not self.together and (isinstance(query, Identity) or query.rows * query.cells > DENSE_ENTRIES))
        }

    def label(self, name: str) -> Label:
        """Return the label of the axis of an attribute in the result of the contraction."""
        if name in self.open:
            return name
        return _QueryRows(None if self.together else name)

    def restricted(self, table: Table) -> Table:
        """Return the slice of a table that agrees with the evidence."""
        if self.evidence.keys().isdisjoint(table.labels):
            return table
        index = tuple(self.evidence.get(str(name), slice(None)) for name in table.labels)
        return Table(self.without_evidence(table.labels), table.values[index])

    def without_evidence(self, labels: Labels) -> Labels:
        """Return the labels that a slice at the evidence keeps."""
        return tuple(label for label in labels if label not in self.evidence)

    def apply_in_turn(self, table: Table, queries: Mapping[str, MatrixQuery | None]) -> np.ndarray:
        """Apply queries along the axes of a table of all the attributes, those that shrink it most first."""
        names = tuple(self.queries)
        cells = table.values.transpose([table.labels.index(name) for name in names])
        matrices = [(names.index(name), query) for name, query in queries.items() if query]
        for axis, query in sorted(matrices, key=lambda pair: pair[1].rows / pair[1].cells):
            cells = query.apply(cells, axis)
        return cells

    # -- contraction --------------------------------------------------------------------------------------------

    def contract(self) -> np.ndarray:
        """Contract the tables of the subtree with the query matrices."""
        factored = self.factored()
        schedule = self.schedule(factored)
        if schedule.largest > LARGEST_TABLE:
            raise ModelTooLarge.of_answer([*self.queries, *self.evidence], schedule.largest)
        scale = math.exp(math.fsum(factors.log_scale for factors in factored.values()))
        return schedule.run(self.tables(factored)) * scale

    def factored(self) -> dict[int, Factors]:
        """Return the factors of cliques (by index in the subtree) to contract instead of tables, if that is cheaper.

        Underflow is excluded: if the factors of any wide clique are not accurate enough, all cliques use tables.
        """
        calibrated, tree = self.calibrated, self.subtree
        wide = [
            index
            for index, position in enumerate(tree.cliques)
            if min(calibrated.tree.sizes[position], calibrated.cells(tree.kept[index])) >= MATERIALIZED_CELLS
        ]
        found = {index: calibrated.factors(tree.cliques[index], tree.separators[index]) for index in wide}
        safe = {index: factors for index, factors in found.items() if factors}
        terms = math.fsum(math.log(calibrated.tree.sizes[tree.cliques[index]]) for index in wide)
        scale = math.fsum(factors.log_scale for factors in safe.values())
        if not wide or len(safe) < len(wide) or terms + scale > SAFE_EXPONENT:
            return {}
        tables = CELLS_PER_OPERATION * sum(calibrated.tree.sizes[tree.cliques[index]] for index in wide)
        return safe if self.schedule(safe).operations < self.schedule({}).operations + tables else {}

    def schedule(self, factored: Mapping[int, Factors]) -> EliminationSchedule:
        """Return the schedule of the contraction, with factors for those cliques and one table for each other one."""
        tree = self.subtree
        labels: list[list[Labels]] = [
            [table.labels for table in factored[index].tables] if index in factored else [kept]
            for index, kept in enumerate(tree.kept)
        ]
        for index, name in self.query_homes:
            labels[index].append((self.label(name), name))
        return EliminationSchedule.of(
            [[self.without_evidence(axes) for axes in part] for part in labels],
            tree.parents,
            [self.without_evidence(names) for names in tree.separators],
            tuple(dict.fromkeys(map(self.label, self.queries))),
            self.sizes,
        )

    def tables(self, factored: Mapping[int, Factors]) -> list[list[np.ndarray]]:
        """Return the arrays that the schedule contracts."""
        tree = self.subtree
        arrays: list[list[np.ndarray]] = []
        for index, position in enumerate(tree.cliques):
            if index in factored:
                tables = factored[index].tables
            else:
                values = self.calibrated.conditional(position, tree.kept[index], tree.separators[index])
                tables = [Table(tree.kept[index], values)]
            arrays.append([self.restricted(table).values for table in tables])
        for index, name in self.query_homes:
            query = self.queries[name]
            assert query is not None
            arrays[index].append(query.matrix())
        return arrays

    @cached_property
    def query_homes(self) -> list[tuple[int, str]]:
        """The clique nearest the root that has the attribute of each query matrix that takes part."""
        tree = self.subtree
        homes = {
            name: index
            for index in range(len(tree.cliques))
            for name in set(tree.kept[index]).difference(tree.separators[index])
        }
        return [(homes[name], name) for name in self.queries if name not in self.open]

    @cached_property
    def sizes(self) -> dict[Label, int]:
        """The length of every axis by its label."""
        rows = {self.label(name): query.rows for name, query in self.queries.items() if query and name not in self.open}
        return {**self.calibrated.domain, **rows}


@dataclass(frozen=True)
class EliminationSchedule:
    """A contraction over a tree: all tables at once if they are few, else clique by clique, children first.

    Attributes:
        programs: for each part (a clique, or all tables), the contraction of its tables and the results of its
            children; the last program joins the results of the roots.
        parents: the part that receives the result of each part; the last program for a root.
        operations: the number of multiplications.
        largest: the cells of the largest intermediate table.
    """

    programs: tuple[Contraction, ...]
    parents: tuple[int, ...]
    operations: int
    largest: int

    @classmethod
    def of(
        cls,
        parts: Sequence[Sequence[Labels]],
        parents: Sequence[int],
        separators: Sequence[Labels],
        output: Labels,
        sizes: Mapping[Label, int],
    ) -> EliminationSchedule:
        """Return the schedule for tables with these labels.

        Args:
            parts: the labels of the tables of each clique, parents before children.
            parents, separators: the parent of each clique (-1 for a root), and the labels that both share.
            output: the labels to keep.
            sizes: the length of each axis.
        """
        if sum(map(len, parts)) <= EXACT_SEARCH:
            parts, parents, separators = [[axes for part in parts for axes in part]], [-1], [()]
        wanted = set(output)
        received: list[list[Labels]] = [[] for _ in range(len(parts) + 1)]
        programs: list[Contraction] = []
        for index in reversed(range(len(parts))):
            inputs = (*parts[index], *received[index])
            present = dict.fromkeys(label for axes in inputs for label in axes)
            result = tuple(label for label in present if label in wanted or label in separators[index])
            programs.append(_contraction(inputs, result, sizes))
            received[parents[index]].append(result)
        programs.append(_contraction(tuple(received[-1]), output, sizes))
        return cls(
            tuple(programs),
            tuple(parents),
            sum(program.operations for program in programs),
            max(program.largest for program in programs),
        )

    def run(self, parts: Sequence[Sequence[np.ndarray]]) -> np.ndarray:
        """Return the result for the arrays of the parts, in the order of the labels given."""
        if len(self.parents) == 1:
            parts = [[array for part in parts for array in part]]
        received: list[list[np.ndarray]] = [[] for _ in range(len(self.parents) + 1)]
        for program, index in zip(self.programs, reversed(range(len(self.parents))), strict=False):
            received[self.parents[index]].append(program.run([*parts[index], *received[index]]))
        return self.programs[-1].run(received[-1])


def _contraction(inputs: tuple[Labels, ...], output: Labels, sizes: Mapping[Label, int]) -> Contraction:
    return contraction(inputs, tuple(tuple(sizes[label] for label in axes) for axes in inputs), output)
