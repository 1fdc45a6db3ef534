"""The tables compatible with answers between ends, as linear constraints on the tables of a junction tree.

Tables on the cliques of a junction tree that agree on its separators are the marginals of some table over all
attributes. Therefore the constraints are exact for real-valued tables. Every answer is a variable, too, and an equation
ties it to the tables; so each constraint is either an equation or the two ends of a variable.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from pgmest.graph.junction_tree import JunctionTree
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.margins import margin_cells, margin_sums


@dataclass(frozen=True, eq=False)
class TablePolytope:
    """The set {(x, s): equations (x, s) = right, low <= (x, s) <= high}.

    x are the cells of the tree's tables, s the answers of all measurements, one after the other.

    Attributes:
        tree: the junction tree of the measured cliques and of the query's.
        equations: a sparse matrix with a column for each x, then for each s.
        right: the right-hand side, which is 0 except for the total's equation.
        low, high: the ends of all variables; -inf and inf for unbounded ones.
        answers: for each s, the position of its measurement and its row there.
        offsets: the first cell of each clique's table, and the number of cells.
        total: the number of records, if it is known; its equation is the last one before those of the answers.
    """

    tree: JunctionTree
    equations: sparse.csr_array
    right: np.ndarray
    low: np.ndarray
    high: np.ndarray
    answers: np.ndarray
    offsets: np.ndarray
    total: float | None = None

    @classmethod
    def of(
        cls,
        domain: Domain,
        measurements: Sequence[LinearMeasurement],
        ends: Sequence[tuple[np.ndarray, np.ndarray]],
        *,
        total: float | None = None,
        zeros: CliqueVector | None = None,
        extra: Iterable[Clique] = (),
        max_megabytes: float | None = None,
    ) -> TablePolytope:
        """Build the constraints.

        Args:
            domain: all attributes.
            measurements: measurements that fit the domain.
            ends: the ends of the answers of each measurement.
            total: the number of records, if it is known.
            zeros: potentials whose -inf cells are impossible.
            extra: the cliques of queries, each of which will be inside a clique of the tree.
            max_megabytes: refuse trees whose tables would take more.

        Raises:
            ModelTooLarge: the tables would take more.
        """
        cliques = [*(m.clique for m in measurements), *(zeros.cliques if zeros is not None else ()), *extra]
        tree = JunctionTree.from_cliques(domain, cliques, max_megabytes=max_megabytes)
        offsets = np.cumsum([0, *tree.sizes])
        blocks = _Blocks(domain, tree, offsets, sum(m.rows for m in measurements))
        for (parent, child), separator in zip(tree.edges, tree.separators, strict=True):
            blocks.equate(parent, child, separator)
        roots = [position for position, parent in enumerate(tree.parents) if parent < 0]
        for other in roots[1:]:
            blocks.equate(roots[0], other, ())
        if total is not None and roots:
            blocks.add(blocks.marginal(roots[0], ()), np.array([total]))
        for measurement in measurements:
            blocks.answer(measurement)
        low = np.zeros(blocks.columns)
        high = np.full(blocks.columns, np.inf)
        if zeros is not None:
            high[: offsets[-1]] = np.where(_impossible(blocks, zeros), 0.0, np.inf)
        start = int(offsets[-1])
        if ends:
            low[start:], high[start:] = (np.concatenate([pair[side] for pair in ends]) for side in (0, 1))
        answers = [(position, row) for position, m in enumerate(measurements) for row in range(m.rows)]
        matrix, right = blocks.assembled()
        rows = np.array(answers, dtype=np.int64).reshape(-1, 2)
        return cls(tree, matrix, right, low, high, rows, offsets, total if roots else None)

    @property
    def cells(self) -> int:
        """The number of table cells x."""
        return int(self.offsets[-1])

    def with_answers(self, answers: np.ndarray) -> TablePolytope:
        """Return the polytope of some of the answers."""
        first = len(self.right) - len(self.answers)
        rows = np.concatenate([np.arange(first), first + answers])
        columns = np.concatenate([np.arange(self.cells), self.cells + answers])
        matrix = sparse.csr_array(self.equations[rows][:, columns])
        ends = self.low[columns], self.high[columns]
        return replace(
            self, equations=matrix, right=self.right[rows], low=ends[0], high=ends[1], answers=self.answers[answers]
        )

    def total_row(self) -> np.ndarray:
        """Return the objective whose value is the number of records."""
        row = np.zeros(len(self.low))
        if len(self.offsets) > 1:
            row[: self.offsets[1]] = 1.0
        return row

    def marginal(self, names: Clique) -> sparse.csr_array:
        """Return the matrix whose rows sum the variables to the cells of the marginal on `names`, inside a clique."""
        position = self.tree.containing(names)
        assert position is not None
        clique, start = self.tree.cliques[position], int(self.offsets[position])
        return margin_sums(self.tree.domain, clique, names, start, len(self.low))


class _Blocks:
    """The equations of a polytope while they are collected."""

    def __init__(self, domain: Domain, tree: JunctionTree, offsets: np.ndarray, answers: int):
        self.domain, self.tree, self.offsets = domain, tree, offsets
        self.columns = int(offsets[-1]) + answers
        self._entries: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self._right: list[np.ndarray] = []
        self._rows = 0
        self._next_answer = int(offsets[-1])

    def marginal(self, position: int, names: Clique) -> sparse.csr_array:
        """Return the matrix that sums a clique's table to its marginal on `names`, in the columns of all variables."""
        clique, start = self.tree.cliques[position], int(self.offsets[position])
        return margin_sums(self.domain, clique, names, start, self.columns)

    def add(self, matrix: Any, right: np.ndarray) -> None:
        """Append equations."""
        entries = matrix.tocoo()
        self._entries.append((entries.row + self._rows, entries.col, entries.data))
        self._right.append(right)
        self._rows += len(right)

    def equate(self, one: int, other: int, names: Clique) -> None:
        """Require that two tables have the same marginal on `names`."""
        difference = self.marginal(one, names) - self.marginal(other, names)
        self.add(sparse.csr_array(difference), np.zeros(self.domain.size(names)))

    def answer(self, measurement: LinearMeasurement) -> None:
        """Tie the answers of a measurement to the tables: Q mu - s = 0."""
        position = self.tree.containing(measurement.clique)
        assert position is not None
        rows = measurement.rows
        columns = np.arange(self._next_answer, self._next_answer + rows)
        self._next_answer += rows
        own = sparse.csr_array((np.ones(rows), (np.arange(rows), columns)), shape=(rows, self.columns))
        answers = measurement.sparse_rows() @ self.marginal(position, measurement.clique)
        self.add(sparse.csr_array(answers - own), np.zeros(rows))

    def assembled(self) -> tuple[sparse.csr_array, np.ndarray]:
        """Return the matrix and the right-hand side."""
        rows, columns, values = (
            np.concatenate([np.zeros(0), *(entry[part] for entry in self._entries)]) for part in range(3)
        )
        matrix = sparse.csr_array(
            (values, (rows.astype(np.int64), columns.astype(np.int64))), shape=(self._rows, self.columns)
        )
        return matrix, np.concatenate([np.zeros(0), *self._right])


def _impossible(blocks: _Blocks, zeros: CliqueVector) -> np.ndarray:
    """Return which cells of the tree's tables are impossible."""
    found = np.zeros(int(blocks.offsets[-1]), dtype=bool)
    for clique, factor in zeros.items():
        barred = np.isneginf(factor.datavector())
        if barred.any():
            position = blocks.tree.containing(clique)
            assert position is not None
            index = margin_cells(blocks.domain, blocks.tree.cliques[position], clique)
            found[blocks.offsets[position] : blocks.offsets[position + 1]] |= barred[index]
    return found
