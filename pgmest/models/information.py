"""Information measures of calibrated models: log-probabilities of records, entropy, divergence, mutual information.

All are natural logs (nats). They come from the potentials and the marginals, never from the joint table: with
log p(x) = sum_C theta_C(x_C) - A, an expectation of log p needs the marginals on the cliques only.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from pgmest._base.errors import DomainError, listed
from pgmest.data.dataset import Dataset
from pgmest.queries.workloads.answers import LOOKUP_ROWS
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Domain
from pgmest.tables.factor import Factor
from pgmest.tables.information import mutual_information

__all__ = ["entropy", "kl_divergence", "log_probabilities", "mutual_information"]

if TYPE_CHECKING:
    from pgmest.inference.marginals.calibrated_tree import CalibratedTree

JOINED_CELLS = 1 << 16
"""Potentials are looked up as one table for each clique of the tree with at most this many cells: it stays in cache."""


def log_probabilities(model: CalibratedTree, records: Dataset) -> np.ndarray:
    """The natural log of each record's probability, -inf where the model has it impossible; shape (records,).

    Raises:
        DomainError: the records lack an attribute of the model, or have it with another number of values.
    """
    for name, size in model.domain.items():
        if records.domain.get(name) != size:
            raise DomainError(
                f"the records have {records.domain.get(name, 'no')} values of '{name}', the model has {size}; "
                "give records over the model's domain."
            )
    tables = [(factor.domain, factor.datavector()) for factor in _joined_potentials(model)]
    logs = np.full(records.records, -model.log_partition)
    for start in range(0, records.records, LOOKUP_ROWS):
        rows = slice(start, start + LOOKUP_ROWS)
        for domain, table in tables:
            logs[rows] += table[_cells(records, domain, rows)]
    return logs


def _cells(records: Dataset, domain: Domain, rows: slice) -> np.ndarray:
    """The row-major cell that each of these records falls into."""
    cells = np.zeros(len(range(*rows.indices(records.records))), dtype=np.intp)
    for name, size in domain.items():
        cells *= size
        cells += records.column(name)[rows]
    return cells


def _joined_potentials(model: CalibratedTree) -> list[Factor]:
    """Tables whose sum is the sum of the potentials, few of them, so that a record needs few look-ups."""
    tree = model.tree
    hosted: dict[int, list[Factor]] = defaultdict(list)
    for clique, factor in model.potentials.items():
        position = tree.containing(clique)
        assert position is not None
        hosted[position].append(factor)
    joined: list[Factor] = []
    for position, factors in hosted.items():
        if tree.sizes[position] <= JOINED_CELLS:
            joined.append(sum(factors, Factor.zeros(model.domain.project(tree.cliques[position]))))
        else:
            joined += factors
    return joined


def entropy(model: CalibratedTree) -> float:
    """-E[log p], in nats: A - <theta, mu>."""
    return max(0.0, model.log_partition - model.probabilities.dot(model.potentials))


def kl_divergence(model: CalibratedTree, other: CalibratedTree) -> float:
    """KL(p || q) = E_p[log p - log q], in nats; inf where q has a possible record of p impossible.

    Raises:
        DomainError: the models are over different attributes.
    """
    from pgmest.inference.marginals.propagation import propagate

    if dict(model.domain) != dict(other.domain):
        raise DomainError(
            f"the divergence of models over different domains ({listed(model.domain)} and {listed(other.domain)}) "
            "is not defined; both need the same attributes with the same numbers of values."
        )
    layout = other.potentials.layout
    expected = np.concatenate([np.zeros(0), *(table.ravel() for table in propagate(model, layout.cliques))])
    cross = CliqueVector.of(layout, expected).dot(other.potentials)
    return max(0.0, other.log_partition - cross - entropy(model))
