"""The cliques of a calibrated junction tree as tables of conditional probabilities, in sampling order."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from pgmest.errors import ImpossibleModelError
from pgmest.inference.exact.belief_propagation import ExactOracle
from pgmest.inference.exact.kernel_loading import load_kernels
from pgmest.tables.domain import Clique, Domain


@dataclass(frozen=True, eq=False)
class CliqueTable:
    """A clique as a table with a row for each cell of its separator and a column for each cell of its new attributes.

    Attributes:
        parent: the position of the clique's parent; -1 for a root.
        separator: the attributes of the rows, which the parent has, too.
        new: the attributes of the columns; each attribute is new in exactly one clique.
        weights: shape (rows, columns), the clique's marginal; each row is proportional to a conditional distribution.
        protected: attribute sets inside the clique whose margins rounding should preserve, most important first.
    """

    parent: int
    separator: Clique
    new: Clique
    weights: np.ndarray
    protected: tuple[Clique, ...]

    @property
    def attributes(self) -> Clique:
        """The attributes of the axes of the cells in row-major order."""
        return self.separator + self.new


@dataclass(frozen=True, eq=False)
class ColumnMap:
    """The positions of a clique's attributes among the columns of records, for the record kernels.

    Attributes:
        separator: the positions of the separator's attributes.
        strides: for each of them, the distance in the clique's table between the rows of adjacent codes.
        new: the positions of the new attributes, which are to be filled.
        codes: shape (columns of the clique's table, new attributes), the new attributes' codes for each table column.
    """

    separator: np.ndarray
    strides: np.ndarray
    new: np.ndarray
    codes: np.ndarray

    @classmethod
    def of(cls, domain: Domain, table: CliqueTable, codes_type: np.dtype[Any]) -> ColumnMap:
        """Return the map for records that have one column per attribute of the domain, of the given type."""
        strides = [domain.size(table.separator[position + 1 :]) for position in range(len(table.separator))]
        shape = domain.project(table.new).shape
        codes = np.indices(shape, dtype=codes_type).reshape(len(shape), domain.size(table.new))
        return cls(
            separator=np.array(domain.axes(table.separator), dtype=np.int64),
            strides=np.array(strides, dtype=np.int64),
            new=np.array(domain.axes(table.new), dtype=np.int64),
            codes=np.ascontiguousarray(codes.T),
        )

    @property
    def arguments(self) -> tuple[np.ndarray, ...]:
        """The four arrays, in the order in which the record kernels take them."""
        return self.separator, self.strides, self.new, self.codes


def clique_tables(oracle: ExactOracle) -> list[CliqueTable]:
    """Return the cliques of a calibrated oracle's junction tree, parents first.

    The protected sets are the separators to the children, whose errors the children would inherit, then the measured
    cliques, then single attributes.

    Raises:
        ImpossibleModelError: a table sums to 0, so it defines no distribution.
    """
    tree = oracle.plan.tree
    separators: list[Clique] = [()] * len(tree.cliques)
    children: list[list[Clique]] = [[] for _ in tree.cliques]
    for (parent, child), separator in zip(tree.edges, tree.separators, strict=True):
        separators[child] = separator
        children[parent].append(separator)
    tables = []
    for index, clique in enumerate(tree.cliques):
        measured = [margin for margin in oracle.layout.cliques if set(margin) <= set(clique)]
        protected = (*children[index], *measured, *((name,) for name in clique))
        new = tuple(name for name in clique if name not in separators[index])
        values = oracle.clique_table(index).transpose(separators[index] + new).values
        weights = np.ascontiguousarray(values).reshape(-1, tree.domain.size(new))
        if not weights.any():
            raise ImpossibleModelError(
                f"the table over {clique} sums to 0, so records cannot be sampled from it. "
                "Run the oracle with a positive total before sampling."
            )
        tables.append(CliqueTable(tree.parents[index], separators[index], new, weights, protected))
    return tables


def project(domain: Domain, clique: Clique, cells: np.ndarray, attributes: Clique) -> np.ndarray:
    """Return the sums of a clique's cells (row-major) over all but `attributes`; flat, row-major in `attributes`."""
    values = cells.reshape(domain.project(clique).shape)
    dropped = tuple(axis for axis, name in enumerate(clique) if name not in attributes)
    kept = [name for name in clique if name in attributes]
    return values.sum(axis=dropped).transpose([kept.index(name) for name in attributes]).reshape(-1)


def sampling_kernels() -> ModuleType:
    """Return the compiled kernels, which are imported when first needed."""
    load_kernels()  # prints a notice if compilation takes time
    from pgmest.sampling import kernels as sampling_kernels

    return sampling_kernels
