"""The cliques of a calibrated junction tree as tables of conditional probabilities, in the order records are made."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from pgmest._base.errors import ImpossibleModelError
from pgmest.inference.exact.belief_propagation import ExactOracle
from pgmest.inference.exact.kernel_loading import load_kernels
from pgmest.tables.domain import Clique, Domain


@dataclass(frozen=True, eq=False)
class CliqueTable:
    """A clique as a table: a row per cell of its separator, a column per cell of its new attributes.

    Attributes:
        parent: position of the clique's parent, -1 for a root.
        separator, new: the attributes of the rows and of the columns; each attribute is new in one clique.
        weights: shape (rows, columns), the clique's marginal; each row is proportional to the conditional distribution.
        protected: attribute sets inside the clique whose margins matter most, most important first.
    """

    parent: int
    separator: Clique
    new: Clique
    weights: np.ndarray
    protected: tuple[Clique, ...]

    @property
    def attributes(self) -> Clique:
        """The axes of the cells in row-major order."""
        return self.separator + self.new


@dataclass(frozen=True, eq=False)
class Places:
    """Where a clique's attributes stand among the columns of records; the arguments of the record kernels.

    Attributes:
        separator, strides: the columns that make up the row of a table, and what a step of each adds to it.
        new: the columns to fill.
        codes: shape (columns of the table, new attributes), the codes that a column of the table stands for.
    """

    separator: np.ndarray
    strides: np.ndarray
    new: np.ndarray
    codes: np.ndarray

    @classmethod
    def of(cls, domain: Domain, table: CliqueTable, codes_type: np.dtype[Any]) -> Places:
        """The places in an array of one row per attribute of the domain, of the given type."""
        strides = [domain.size(table.separator[position + 1 :]) for position in range(len(table.separator))]
        shape = domain.project(table.new).shape
        codes = np.indices(shape, dtype=codes_type).reshape(len(shape), domain.size(table.new))
        return cls(
            separator=np.array(domain.axes(table.separator), dtype=np.int64),
            strides=np.array(strides, dtype=np.int64),
            new=np.array(domain.axes(table.new), dtype=np.int64),
            codes=np.ascontiguousarray(codes.T),
        )


def clique_tables(oracle: ExactOracle) -> list[CliqueTable]:
    """The cliques of a calibrated oracle's junction tree, parents first.

    Protected are the separators toward children, whose errors would be passed on, then the measured cliques, then
    single attributes.

    Raises:
        ImpossibleModelError: the oracle's tables sum to 0, so that they hold no distribution.
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
                f"the table over {clique} sums to 0, so there is nothing to sample from. "
                "Run the oracle with a positive total before sampling."
            )
        tables.append(CliqueTable(tree.parents[index], separators[index], new, weights, protected))
    return tables


def project(domain: Domain, clique: Clique, cells: np.ndarray, attributes: Clique) -> np.ndarray:
    """The sums of a clique's cells (row-major) over all but `attributes`; flat, row-major in `attributes`."""
    values = cells.reshape(domain.project(clique).shape)
    dropped = tuple(axis for axis, name in enumerate(clique) if name not in attributes)
    kept = [name for name in clique if name in attributes]
    return values.sum(axis=dropped).transpose([kept.index(name) for name in attributes]).reshape(-1)


def sampling_kernels() -> ModuleType:
    """The compiled kernels, imported when first needed."""
    load_kernels()
    from pgmest.sampling import kernels as sampling_kernels

    return sampling_kernels
