"""CalibratedTree: the junction tree of a model after one run of the oracle, from which any marginal can be computed.

On a calibrated tree the joint distribution is the product over cliques of P(clique | separator). All these numbers are
probabilities in [0, 1], for any potentials, and answers are sums of products of them. A clique too large to materialize
is kept as its *factors* (its potentials and the messages that it received), whose product is the clique's marginal.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pgmest.graph.junction_tree import JunctionTree
from pgmest.inference.exact.belief_propagation import ExactOracle
from pgmest.inference.exact.propagation_plan import PropagationPlan
from pgmest.inference.marginals.contraction import Table, contraction, sum_axes
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor, divide

KEPT_CELLS = 1 << 25
"""The most cells of all cached tables together (256 MB)."""

MATERIALIZED_CELLS = 1 << 20
"""The fewest cells of a clique, or of a tree, whose tables are materialized only if no cheaper way is known."""

CELLS_PER_OPERATION = 4
"""The number of multiplications of a contraction that take as long as writing and reading a cell of a clique."""

SAFE_EXPONENT = 700.0
"""The largest log scale of a product of factors: exp(-700) is still far from underflow."""


class Factors(NamedTuple):
    """Tables with entries in [0, 1] whose product times exp(log_scale) is a marginal or conditional of one clique."""

    tables: list[Table]
    log_scale: float


class _Tables:
    """A cache of tables by (clique, attributes, ...) that evicts the least recently used tables beyond a size limit."""

    def __init__(self, most_cells: int):
        self.most_cells = most_cells
        self.cells = 0
        self.by_key: OrderedDict[tuple, np.ndarray] = OrderedDict()
        self.of_clique: dict[int, dict[frozenset[str], np.ndarray]] = defaultdict(dict)

    def get(self, key: tuple) -> np.ndarray | None:
        found = self.by_key.get(key)
        if found is not None:
            self.by_key.move_to_end(key)
        return found

    def keep(self, key: tuple, values: np.ndarray) -> None:
        values.flags.writeable = False
        if values.size > self.most_cells or key in self.by_key:
            return
        self.by_key[key] = self.of_clique[key[0]][key[1]] = values
        self.cells += values.size
        while self.cells > self.most_cells:
            (position, names, *_), dropped = self.by_key.popitem(last=False)
            self.of_clique[position].pop(names, None)
            self.cells -= dropped.size

    def covering(self, position: int, attributes: frozenset[str]) -> Iterator[tuple[frozenset[str], np.ndarray]]:
        """Yield the tables of a clique that have all these attributes."""
        for names, values in self.of_clique[position].items():
            if attributes <= names:
                yield names, values


class CalibratedTree:
    """The probabilities of the cliques of a junction tree, computed once; tables are computed on demand and cached.

    All tables have their axes in domain order. Several threads may call the methods at the same time.

    Attributes:
        plan: the measured cliques and their tree; cliques are numbered as in `plan.tree`.
        oracle: the oracle with the result of the run. Use it under `lock` only, and do not run it again.
        probabilities: the marginals of the measured cliques.
        log_partition: A(theta).
        rank: the position of each attribute in the domain.
    """

    def __init__(self, potentials: CliqueVector, plan: PropagationPlan | None = None):
        self.plan: PropagationPlan = PropagationPlan.of(potentials.layout) if plan is None else plan
        self.tree: JunctionTree = self.plan.tree
        self.domain: Domain = potentials.domain
        self.potentials = potentials
        self.oracle: ExactOracle = ExactOracle(self.plan, contracts=self.tree.total_cells > MATERIALIZED_CELLS)
        self.lock: threading.RLock = threading.RLock()
        flat, log_partition = self.oracle.run(potentials.flat)
        self.log_partition: float = log_partition
        self.probabilities: CliqueVector = CliqueVector.of(potentials.layout, flat)
        self.rank: dict[str, int] = {name: rank for rank, name in enumerate(self.domain)}
        self._logs: dict[int, list[Factor]] = {}
        self._tables = _Tables(KEPT_CELLS)
        self._conditionals = _Tables(KEPT_CELLS)
        self._measured: list[list[Table]] = [[] for _ in self.tree.cliques]
        for clique, factor in self.probabilities.items():
            position = self.tree.containing(clique)
            assert position is not None
            ordered = factor.transpose(self.ordered(clique))
            self._measured[position].append(Table(ordered.domain.attributes, ordered.values))

    @cached_property
    def separators(self) -> tuple[Clique, ...]:
        """The attributes that each clique shares with its parent in `tree.parents`; () for a root."""
        shared = dict(zip((child for _, child in self.tree.edges), self.tree.separators, strict=True))
        return tuple(shared.get(position, ()) for position in range(len(self.tree.cliques)))

    def ordered(self, attributes: Iterable[str]) -> Clique:
        """Return the attributes in domain order."""
        return tuple(sorted(attributes, key=self.rank.__getitem__))

    def cells(self, attributes: Iterable[str]) -> int:
        """Return the number of cells of the table over these attributes."""
        return math.prod([self.domain[name] for name in attributes])

    def marginal(self, position: int, attributes: Iterable[str]) -> np.ndarray:
        """Return the probabilities of some attributes of the clique at `position`."""
        key = (position, frozenset(attributes))
        with self.lock:
            found = self._tables.get(key)
            if found is None:
                found = self._make(position, key[1])
                self._tables.keep(key, found)
        return found

    def conditional(self, position: int, attributes: Iterable[str], given: Iterable[str]) -> np.ndarray:
        """Return P(attributes | given) for attributes of one clique that include the given ones; 0/0 gives 0."""
        names, given = self.ordered(attributes), frozenset(given)
        if not given:
            return self.marginal(position, names)
        key = (position, frozenset(names), given)
        with self.lock:
            found = self._conditionals.get(key)
            if found is None:
                shape = [self.domain[name] if name in given else 1 for name in names]
                found = divide(self.marginal(position, names), self.marginal(position, given).reshape(shape))
                self._conditionals.keep(key, found)
        return found

    # -- tables -------------------------------------------------------------------------------------------------

    def _make(self, position: int, attributes: frozenset[str]) -> np.ndarray:
        """Return the marginal, summed from the smallest available table with these attributes, else from the clique."""
        cells = self.tree.sizes[position]
        source = self._smallest_cover(position, attributes)
        if source is None and cells >= MATERIALIZED_CELLS:
            made = self._from_factors(position, attributes)
            if made is not None:
                return made
        if source is None:
            source = Table(self.tree.cliques[position], self.oracle.clique_table(position).values)
            self._tables.keep((position, frozenset(self.tree.cliques[position])), source.values)
        axes = [axis for axis, name in enumerate(source.labels) if name not in attributes]
        return sum_axes(source.values, axes)

    def _smallest_cover(self, position: int, attributes: frozenset[str]) -> Table | None:
        covers = [table for table in self._measured[position] if attributes.issubset(table.labels)]
        covers += [Table(self.ordered(names), values) for names, values in self._tables.covering(position, attributes)]
        return min(covers, key=lambda table: table.values.size, default=None)

    # -- cliques too large to materialize -----------------------------------------------------------------------

    def _from_factors(self, position: int, attributes: frozenset[str]) -> np.ndarray | None:
        """Return a marginal contracted from the factors of a clique, None if that is inaccurate or slower."""
        factors = self.factors(position)
        if factors is None:
            return None
        output = self.ordered(attributes)
        program = contraction(
            tuple(table.labels for table in factors.tables),
            tuple(table.values.shape for table in factors.tables),
            output,
        )
        if program.operations > CELLS_PER_OPERATION * self.tree.sizes[position]:
            return None
        return program.run([table.values for table in factors.tables]) * math.exp(factors.log_scale)

    def factors(self, position: int, given: Clique = ()) -> Factors | None:
        """Return the probabilities of a clique, divided by the marginal of `given`, as a product of small tables.

        `given` is () or the separator from a neighbor. Every table is scaled to a largest entry of 1, so that terms
        below exp(-744) underflow. The result is None if the sum of such terms, scaled back, could matter.
        """
        with self.lock:
            logs = self._log_factors(position)
            if given:
                marginal = self.marginal(position, given)
                inverse = np.full(marginal.shape, -np.inf)  # 0/0 := 0, so an impossible value contributes nothing
                np.negative(np.log(marginal, out=inverse, where=marginal > 0), out=inverse, where=marginal > 0)
                logs = _multiplied_in(logs, Factor.owning(self.domain.project(given), inverse))
        scales = [float(factor.values.max()) for factor in logs]
        log_scale = math.fsum(scales)
        if math.log(self.tree.sizes[position]) + log_scale > SAFE_EXPONENT:
            return None
        tables = [
            Table(factor.domain.attributes, np.exp(factor.values - scale))
            for factor, scale in zip(logs, scales, strict=True)
        ]
        return Factors(tables, log_scale)

    def _log_factors(self, position: int) -> list[Factor]:
        """Return the logs of the factors, each merged into a larger factor that has all its attributes, if any."""
        found = self._logs.get(position)
        if found is None:
            found = []
            logs = self.oracle.messages.log_factors(position)
            free = set(self.tree.cliques[position]).difference(*(factor.domain for factor in logs))
            logs += [Factor.zeros(self.domain.project((name,))) for name in sorted(free)]  # each needs a table
            for factor in sorted(logs, key=lambda factor: -len(factor.domain)):
                found = _multiplied_in(found, factor.transpose(self.ordered(factor.domain)))
            self._logs[position] = found
        return found


def _multiplied_in(logs: list[Factor], factor: Factor) -> list[Factor]:
    """Return the logs with a factor added to the smallest one that has all its attributes, else appended."""
    covering = [other for other in logs if set(factor.domain) <= set(other.domain)]
    if not covering:
        return [*logs, factor]
    target = min(covering, key=lambda other: other.values.size)
    combined = target + factor.expand(target.domain)
    return [combined if other is target else other for other in logs]
