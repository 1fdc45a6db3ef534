"""Information measures of calibrated models: log-probabilities of records, entropy, divergence, mutual information.

All are in nats. They are computed from the potentials and the marginals, never from the joint table: as
log p(x) = sum_C theta_C(x_C) - A, an expectation of log p needs only the marginals on the cliques.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.errors import DomainError, listed
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Domain
from pgmest.tables.factor import Factor
from pgmest.tables.information import mutual_information
from pgmest.workloads.answers import LOOKUP_ROWS

__all__ = ["entropy", "kl_divergence", "log_probabilities", "mutual_information"]

if TYPE_CHECKING:
    from pgmest.inference.marginals.calibrated_tree import CalibratedTree

JOINED_CELLS = 1 << 16
"""The potentials of a tree's clique with at most this many cells are added into one table, which stays in cache."""


def log_probabilities(model: CalibratedTree, records: Dataset) -> np.ndarray:
    """Return the natural log of each record's probability, -inf if it is impossible; shape (records,).

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
    """Return the row-major cell of each of these records in a table over the domain."""
    cells = np.zeros(len(range(*rows.indices(records.records))), dtype=np.intp)
    for name, size in domain.items():
        cells *= size
        cells += records.column(name)[rows]
    return cells


def _joined_potentials(model: CalibratedTree) -> list[Factor]:
    """Return few tables whose sum is the sum of the potentials, so that a record needs few look-ups."""
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
    """Return -E[log p] = A - <theta, mu>, in nats."""
    return max(0.0, model.log_partition - model.probabilities.dot(model.potentials))


def kl_divergence(model: CalibratedTree, other: CalibratedTree) -> float:
    """Return KL(p || q) = E_p[log p - log q], in nats; inf if a possible record of p is impossible in q.

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
