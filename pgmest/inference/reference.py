"""MARGINAL-ORACLE (PGM Algorithms 1 and 2) in plain NumPy: belief propagation on a junction tree, to be read first.

The oracle takes the potentials of a model p(x) proportional to exp(sum_C theta_C(x_C)) to its marginals. On a junction
tree, each clique sends its parent one message: its table, summed over the attributes that the parent does not have.
Then each clique receives from its parent what the rest of the tree says. Now the table of each clique is the marginal
of the model on it (`calibrated`).

The same two passes answer three questions, which differ only in how a table loses attributes:

- by log-sum-exp, the tables are logarithms of the marginals (`marginal_oracle`);
- by the maximum, they hold the largest total potential of a record in each cell (`max_marginals`, `map_record`);
- by the mean under the marginals, they hold the expected change of the total potential, given each cell
  (`covariance`).

Everything is in logarithms, table by table, and nothing is fast. exact/belief_propagation.py computes the same on
compiled plans, and the tests compare each of its paths with this file.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pgmest.errors import ImpossibleModelError
from pgmest.graph.junction_tree import JunctionTree
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor

SumOut = Callable[[int, Factor, Clique], Factor]
"""A function that takes the position of a clique, its table and some attributes to the table without these."""


def marginal_oracle(theta: CliqueVector, total: float = 1.0) -> tuple[CliqueVector, float]:
    """Return the marginals on the cliques of the potentials, scaled to `total`, and the log-partition function.

    Raises:
        ImpossibleModelError: each record has some potential of -inf.

    >>> theta = CliqueVector.zeros(Domain({"a": 2, "b": 3}), [("a",), ("a", "b")])
    >>> marginal_oracle(theta, total=6.0)[0][("a",)].values
    array([3., 3.])
    """
    tree = _tree(theta)
    tables, log_partition = _log_marginals(theta, tree)
    return _on_cliques(theta, tree, [table.exp() * total for table in tables]), log_partition


def max_marginals(theta: CliqueVector) -> tuple[CliqueVector, float]:
    """Return the largest total potential of a record in each cell of the cliques, and of any record."""
    tree = _tree(theta)
    tables, top = calibrated(theta, tree, _largest)
    return _on_cliques(theta, tree, tables, Factor.max), top


def map_record(theta: CliqueVector) -> dict[str, int]:
    """Return a record of largest total potential: each clique takes its best cell, given the codes already chosen."""
    tree, codes = _tree(theta), dict[str, int]()
    for table in calibrated(theta, tree, _largest)[0]:
        left = table.condition({name: codes[name] for name in table.domain if name in codes})
        best = np.unravel_index(int(np.argmax(left.values)), left.domain.shape) if len(left.domain) else ()
        codes.update(zip(left.domain, map(int, best), strict=True))
    return {name: codes[name] for name in theta.domain}


def covariance(theta: CliqueVector, direction: CliqueVector, total: float = 1.0) -> CliqueVector:
    """Return the derivative of the marginals along a direction of the potentials."""
    tree = _tree(theta)
    marginals = [table.exp() for table in _log_marginals(theta, tree)[0]]

    def mean(position: int, change: Factor, attributes: Clique) -> Factor:
        return (marginals[position] * change).sum(attributes) / marginals[position].sum(attributes)

    changes, of_log_partition = calibrated(direction, tree, mean)
    moved = [p * (change - of_log_partition) * total for p, change in zip(marginals, changes, strict=True)]
    return _on_cliques(theta, tree, moved)


def calibrated(theta: CliqueVector, tree: JunctionTree, sum_out: SumOut) -> tuple[list[Factor], float]:
    """Return the table of each clique of the tree after both passes, and the value of the whole model.

    Args:
        theta: potentials, each on attributes of some clique of the tree.
        tree: a junction tree, parents before children.
        sum_out: the way in which a table loses attributes.
    """
    tables = [Factor.zeros(tree.domain.project(clique)) for clique in tree.cliques]
    for clique, potential in theta.items():
        holder = tree.containing(clique)
        assert holder is not None
        tables[holder] = tables[holder] + potential

    def message(position: int, neighbor: int) -> Factor:
        receiver = tree.cliques[neighbor] if neighbor >= 0 else ()
        return sum_out(position, tables[position], tuple(n for n in tree.cliques[position] if n not in receiver))

    sent = [Factor.zeros(Domain({}))] * len(tables)
    for position in reversed(range(len(tables))):  # to the roots, children first
        parent = tree.parents[position]
        sent[position] = message(position, parent)
        if parent >= 0:
            tables[parent] = tables[parent] + sent[position]
    value = sum((sent[root] for root, parent in enumerate(tree.parents) if parent < 0), Factor.zeros(Domain({})))
    for position, parent in enumerate(tree.parents):  # from the roots; the parent's table contains what was sent to it
        received = message(parent, position) if parent >= 0 else value
        tables[position] = tables[position] + (received - sent[position])
    return tables, float(value)


def _tree(theta: CliqueVector) -> JunctionTree:
    return JunctionTree.from_cliques(theta.domain, theta.cliques, effort="low")


def _log_marginals(theta: CliqueVector, tree: JunctionTree) -> tuple[list[Factor], float]:
    tables, log_partition = calibrated(theta, tree, lambda _, table, attributes: table.logsumexp(attributes))
    if not np.isfinite(log_partition):
        raise ImpossibleModelError(f"the log-partition function is {log_partition}; check the structural zeros.")
    return [table - log_partition for table in tables], log_partition


def _largest(position: int, table: Factor, attributes: Clique) -> Factor:
    return table.max(attributes)


def _on_cliques(
    theta: CliqueVector,
    tree: JunctionTree,
    tables: list[Factor],
    sum_out: Callable[[Factor, Clique], Factor] = Factor.sum,
) -> CliqueVector:
    """Return the tables of the cliques of the potentials, each summed out of a table of the tree."""
    found = {}
    for clique in theta.cliques:
        table = tables[tree.containing(clique) or 0]
        found[clique] = sum_out(table, tuple(n for n in table.domain if n not in clique)).transpose(clique)
    return CliqueVector(theta.domain, found)
