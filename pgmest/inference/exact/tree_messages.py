"""The messages of belief propagation on a junction tree, in logarithms and plain NumPy.

Runs by contraction (contracted_sweeps.py) leave no messages behind and refuse potentials whose products underflow. This
file is slower and takes all potentials. It computes what few callers need: the tables of the cliques of the tree, their
factors, the derivative of the marginals, and the marginals of runs that were refused.

Each clique divides its table by the message to its parent, which gives P(clique | separator). From the roots down, the
marginal of a clique is this conditional times the marginal of the separator. Conditionals and marginals lie in [0, 1].
So they are linear numbers, and only potentials and messages are logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property, lru_cache

import numpy as np

from pgmest.errors import ImpossibleModelError
from pgmest.graph.junction_tree import JunctionTree
from pgmest.inference.marginals.contraction import Table, contraction, sum_axes
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique

WIDE = 1 << 16
"""The fewest cells of a clique whose factors are contracted, so that its table is not needed."""

RANGE = 600.0
"""The largest distance of logarithms that linear numbers hold: exp(-600) is far above the smallest number."""


class TreeMessages:
    """The messages to the roots, and the marginals of the separators, computed at their first use.

    Args:
        potentials: theta, in logs.
        tree: a junction tree that holds their cliques.

    Attributes:
        separators: the attributes that each clique shares with its parent.
    """

    def __init__(self, potentials: CliqueVector, tree: JunctionTree):
        shared = dict(zip((child for _, child in tree.edges), tree.separators, strict=True))
        self.tree = tree
        self.shapes = [tuple(tree.domain[name] for name in clique) for clique in tree.cliques]
        self.separators: list[Clique] = [shared.get(position, ()) for position in range(len(tree.cliques))]
        self.layout = potentials.layout
        self._potentials = [Table(clique, factor.values) for clique, factor in potentials.items()]
        self._hosted: list[list[int]] = [[] for _ in tree.cliques]
        self._below: list[list[int]] = [[] for _ in tree.cliques]
        for number, clique in enumerate(self.layout.cliques):
            self._hosted[tree.containing(clique) or 0].append(number)
        for position, parent in enumerate(tree.parents):
            if parent >= 0:
                self._below[parent].append(position)

    @cached_property
    def sent(self) -> list[Table]:
        """The log of the message of each clique to its parent."""
        sent = self.sent = [Table((), np.zeros(()))] * len(self.separators)
        for position in reversed(range(len(sent))):
            separator = self.separators[position]
            sent[position] = Table(separator, self._log_sum(position))
        return sent

    @cached_property
    def log_partition(self) -> float:
        """A(theta); not finite if the model is impossible."""
        roots = [sent for sent, parent in zip(self.sent, self.tree.parents, strict=True) if parent < 0]
        return math.fsum(float(sent.values) for sent in roots)

    @cached_property
    def above(self) -> list[np.ndarray]:
        """The marginal of the separator above each clique, with sum 1.

        Raises:
            ImpossibleModelError: no record has a finite total potential.
        """
        if not math.isfinite(self.log_partition):
            raise ImpossibleModelError(
                f"the log-partition function is {self.log_partition}: every record has some potential of -inf (or one "
                "is NaN or +inf). Check the structural zeros and the potentials."
            )
        above = self.above = [np.ones(())] * len(self.separators)
        for position, children in enumerate(self._below):
            names = [self.separators[child] for child in children]
            for child, marginal in zip(children, self._marginals(position, names), strict=True):
                above[child] = marginal
        return above

    def marginals(self) -> np.ndarray:
        """Return the marginals of the measured cliques, with sum 1, flat."""
        flat = np.empty(self.layout.cells)
        for position, numbers in enumerate(self._hosted):
            cliques = [self.layout.cliques[number] for number in numbers]
            for number, marginal in zip(numbers, self._marginals(position, cliques), strict=True):
                self._write(flat, number, marginal)
        return flat

    def covariance(self, tables: Sequence[np.ndarray], direction: CliqueVector) -> np.ndarray:
        """Return the derivative of the marginals along a direction of the potentials, flat.

        On the way to the roots, each clique computes the mean change of the potentials below it, given its separator.
        On the way back, the derivative of its marginal follows by the product rule from that of the separator.

        Args:
            tables: the marginal of each clique of the tree.
            direction: the change of the potentials.
        """
        cliques, separators = self.tree.cliques, self.separators
        changes = [Table(clique, factor.values) for clique, factor in direction.items()]
        means, given, slopes = ([Table((), np.zeros(()))] * len(cliques), [*tables], [*tables])
        for position in reversed(range(len(cliques))):
            clique, separator, table = cliques[position], separators[position], tables[position]
            some = [changes[number] for number in self._hosted[position]]
            change = self._added(position, [*some, *(means[child] for child in self._below[position])])
            above = _summed(table, clique, separator)
            mean = _quotient(_summed(table * change, clique, separator), above)
            means[position] = Table(separator, mean)
            given[position] = _quotient(table, _aligned(Table(separator, above), clique))
            slopes[position] = table * (change - _aligned(means[position], clique))
        flat, moved = np.empty(self.layout.cells), [np.zeros(())] * len(cliques)
        for position, clique in enumerate(cliques):
            rate = _aligned(Table(separators[position], moved[position]), clique)
            derivative = slopes[position] + given[position] * rate
            for child in self._below[position]:
                moved[child] = _summed(derivative, clique, separators[child])
            for number in self._hosted[position]:
                self._write(flat, number, _summed(derivative, clique, self.layout.cliques[number]))
        return flat

    def conditional(self, position: int) -> np.ndarray:
        """Return P(clique | separator); 0 where the separator is impossible."""
        table, _ = self._exponentials(position)
        clique, separator = self.tree.cliques[position], self.separators[position]
        return _quotient(table, _aligned(Table(separator, _summed(table, clique, separator)), clique))

    def clique_table(self, position: int) -> np.ndarray:
        """Return the marginal of a clique of the tree, with sum 1."""
        table = self.conditional(position)
        table *= _aligned(Table(self.separators[position], self.above[position]), self.tree.cliques[position])
        return table

    def log_factors(self, position: int) -> list[Table]:
        """Return the logs of tables whose product is the marginal of a clique."""
        sent, above = self.sent[position], self.above[position]
        received = np.full(above.shape, -np.inf)
        np.log(above, out=received, where=above > 0)
        np.subtract(received, sent.values, out=received, where=above > 0)
        return [*self._inputs(position), Table(sent.labels, received)]

    def _inputs(self, position: int) -> list[Table]:
        """Return the potentials in a clique and the messages that it receives from below."""
        potentials = [self._potentials[number] for number in self._hosted[position]]
        return potentials + [self.sent[child] for child in self._below[position]]

    def _added(self, position: int, tables: Sequence[Table]) -> np.ndarray:
        """Return the sum of tables, over all attributes of a clique."""
        total = np.zeros(self.shapes[position])
        for table in tables:
            total += _aligned(table, self.tree.cliques[position])
        return total

    def _log_sum(self, position: int) -> np.ndarray:
        """Return the log of the message of a clique."""
        inputs, separator = self._inputs(position), self.separators[position]
        if self.tree.sizes[position] >= WIDE:
            result = self._contracted(position, inputs, separator)
            if result is not None and (result[0].min() >= math.exp(-RANGE) or _range(inputs) <= RANGE):
                return _log(result[0]) + result[1]
        table, largest = self._exponentials(position)
        return _log(_summed(table, self.tree.cliques[position], separator)) + largest

    def _exponentials(self, position: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the exponentials of a clique's table, divided by their maxima given the separator, and these maxima.

        The logs of sums are only as exact as large potentials are. So conditionals are divided by the sums themselves.
        """
        separator = self.separators[position]
        table = self._added(position, self._inputs(position))
        order, axes = _alignment(separator, self.tree.cliques[position])
        largest = table.max(axis=axes)
        largest = _ordered(np.where(np.isneginf(largest), 0.0, largest), order)
        table -= _aligned(Table(separator, largest), self.tree.cliques[position])
        return np.exp(table, out=table), largest

    def _marginals(self, position: int, wanted: Sequence[Clique]) -> list[np.ndarray]:
        """Return marginals of attributes of a clique, with sum 1."""
        if not wanted:
            return []
        if self.tree.sizes[position] >= WIDE:
            factors = self.log_factors(position)
            results = [self._contracted(position, factors, attributes) for attributes in wanted]
            found = [values / values.sum() for values, scale in filter(None, results) if scale <= RANGE]
            if len(found) == len(wanted):  # lost terms are below exp(-744), and their sum does not matter
                return found
        table = self.clique_table(position)
        return [_summed(table, self.tree.cliques[position], attributes) for attributes in wanted]

    def _contracted(self, position: int, logs: list[Table], attributes: Clique) -> tuple[np.ndarray, float] | None:
        """Return sums of products, and the log of their scale; None if the table of the clique is no larger."""
        scales = [float(table.values.max()) for table in logs]
        if not all(map(math.isfinite, scales)):
            return None
        free = set(self.tree.cliques[position]).difference(*(table.labels for table in logs))
        tables = [Table(table.labels, np.exp(table.values - scale)) for table, scale in zip(logs, scales, strict=True)]
        tables += [Table((name,), np.ones(self.tree.domain[name])) for name in free]
        program = contraction(
            tuple(table.labels for table in tables), tuple(table.values.shape for table in tables), attributes
        )
        if program.largest >= self.tree.sizes[position]:
            return None
        return program.run([table.values for table in tables]), math.fsum(scales)

    def _write(self, flat: np.ndarray, number: int, table: np.ndarray) -> None:
        flat[self.layout.offsets[number] : self.layout.offsets[number + 1]] = table.reshape(-1)


@lru_cache(maxsize=4096)
def _alignment(labels: Clique, clique: Clique) -> tuple[list[int], tuple[int, ...]]:
    """Return the axes of a table in the order of a clique, and the axes of the clique that it lacks."""
    lacking = tuple(axis for axis, name in enumerate(clique) if name not in labels)
    return sorted(range(len(labels)), key=lambda axis: clique.index(labels[axis])), lacking


def _aligned(table: Table, clique: Clique) -> np.ndarray:
    """Return a view of a table that broadcasts over the axes of a clique."""
    order, lacking = _alignment(table.labels, clique)
    return np.expand_dims(table.values.transpose(order), lacking)


def _summed(table: np.ndarray, clique: Clique, attributes: Clique) -> np.ndarray:
    """Return the sum of the table of a clique over all but some attributes, in their order."""
    order, axes = _alignment(attributes, clique)
    return _ordered(sum_axes(table, axes), order)


def _ordered(values: np.ndarray, order: list[int]) -> np.ndarray:
    """Undo a transposition of the axes."""
    return values if len(order) < 2 else values.transpose(np.argsort(order))


def _quotient(dividend: np.ndarray, divisor: np.ndarray) -> np.ndarray:
    """Return the quotient, with 0 / 0 = 0."""
    return np.divide(dividend, divisor, out=np.zeros(dividend.shape), where=divisor > 0)


def _log(values: np.ndarray) -> np.ndarray:
    return np.log(values, out=np.full(values.shape, -np.inf), where=values > 0)


def _range(logs: Sequence[Table]) -> float:
    """Return the largest distance of the finite logs of products of the tables."""
    return math.fsum(float(values.max() - values.min()) for values in (t.values[np.isfinite(t.values)] for t in logs))
