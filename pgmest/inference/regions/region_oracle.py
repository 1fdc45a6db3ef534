r"""Approximate marginals of models whose junction tree is too wide: message passing on a region graph.

The pseudo-marginals tau maximize <theta, tau> + sum_r c_r H(tau_r) over the local polytope (`region_graph`). Setting
the gradient of the Lagrangian to zero gives, with multipliers n_{io} for "outer region o agrees with inner region i",

    tau_o  is proportional to  exp[(theta_o + sum_i n_io) / c_o],
    tau_i  is proportional to  exp[(phi_i + sum_o (c_o log s_o - n_io)) / (c_i + sum_o c_o)],   s_o = tau_o summed to i.

A step updates tau_i of one inner region by this formula, and rescales each tau_o around it by tau_i / s_o, as iterative
proportional fitting does. This changes n_io by c_o log(tau_i / s_o) and is one step of norm-product (Hazan and Shashua
2010). A sweep is a step for each inner region.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from pgmest.errors import ArgumentError, ImpossibleModelError
from pgmest.inference.outputs import checked_output
from pgmest.inference.regions.region_graph import RegionGraph
from pgmest.inference.regions.region_tables import Edge, RegionTables, Tables
from pgmest.tables.clique_vector import Layout

MOST_SWEEPS = 400
BOUND_SWEEPS = 10
SLOW = 20
"""The number of sweeps in which the disagreement has to halve; otherwise steps are damped more."""

LARGEST_MOVE = 30.0
"""The largest change of a log message for which a table is rescaled; after a larger change it is recomputed from the
potentials, because cells may have underflowed."""

LEAST_SUM = 1e-250
"""The least sum of cells of a table that is used; a smaller one is recomputed in logs, because terms may have
underflowed."""


class RegionOracle:
    """A `MarginalOracle` of pseudo-marginals by message passing on a region graph, exact on trees only.

    Messages are kept from run to run, so that a run at nearby potentials takes few sweeps.

    Args:
        layout: the cliques whose marginals are asked for.
        tolerance: the disagreement between neighboring tables at which a run stops (L1, of tables that sum to 1).
        sweeps: the most sweeps of a run.

    Attributes:
        graph, tables: the regions, and the positions of their cells.
        calls: the number of runs and bounds so far.
        inconsistency: the largest L1 disagreement that the last run left.
    """

    def __init__(self, layout: Layout, tolerance: float = 1e-8, sweeps: int = MOST_SWEEPS):
        if not tolerance > 0:
            raise ArgumentError.of("tolerance", tolerance, "a positive number")
        self.layout = layout
        self.graph: RegionGraph = RegionGraph.of(layout)
        self.tables: RegionTables = RegionTables(layout, self.graph)
        self.tolerance = tolerance
        self.sweeps = sweeps
        self.calls: int = 0
        self.inconsistency: float = 0.0
        self._messages = [[np.zeros(edge.shape) for edge in edges] for edges in self.tables.edges]
        self._bounding = [[np.zeros(edge.shape) for edge in edges] for edges in self.tables.edges]
        self._damping = 0.0

    @cached_property
    def _total_counts(self) -> np.ndarray:
        """The counting number of each inner region plus those of the outer regions around it."""
        counts, inner = self.graph.outer_counts, self.graph.inner_counts
        return np.array([c + counts[list(above)].sum() for c, above in zip(inner, self.graph.holders, strict=True)])

    def reset(self) -> None:
        """Forget the messages, so that the next run starts like the first one."""
        for messages in (*self._messages, *self._bounding):
            for message in messages:
                message.fill(0.0)
        self._damping = 0.0

    def run(self, theta: np.ndarray, total: float = 1.0, out: np.ndarray | None = None) -> tuple[np.ndarray, float]:
        """Return the pseudo-marginals scaled to `total`, and the approximate log-partition function.

        Raises:
            ImpossibleModelError: a table has no possible cell.
        """
        outer, inner = self.tables.split(theta)
        tables, log_sums = self._tables(outer)
        logs = [np.empty(0)] * len(inner)
        residuals: list[float] = []
        for _ in range(self.sweeps):
            worst = 0.0
            for i, phi in enumerate(inner):
                logs[i], distance = self._step(i, phi, outer, tables, logs[i])
                worst = max(worst, distance)
            residuals.append(worst)
            if worst <= self.tolerance:
                break
            if len(residuals) % SLOW == 0:
                tables, log_sums = self._tables(outer)
                if len(residuals) > SLOW and worst > 0.5 * residuals[-SLOW]:
                    self._damping = min(self._damping + 0.5, 4.0)
        beliefs = list(map(np.exp, logs))
        self.calls += 1
        self.inconsistency = self.tables.disagreement(tables, beliefs)
        mu = checked_output(out, self.layout.cells)
        self.tables.write(mu, tables, beliefs, total)
        return mu, self._free_energy(inner, beliefs, log_sums) + self.tables.constant(theta)

    def potentials(self, outer: Tables, inner: Tables) -> np.ndarray:
        """Return flat potentials whose pseudo-marginals are these tables (if they agree) and whose A is 0.

        They are the gradient of minus the entropy, sum_r c_r log tau_r; the term of each inner region is split evenly
        among the outer regions around it. Cells where a table is zero get -inf.
        """
        graph, spaces = self.graph, self.tables
        with np.errstate(divide="ignore"):
            shares = [
                count / len(above) * np.log(np.where(table > 0, table, 1.0))
                for count, above, table in zip(graph.inner_counts, graph.holders, inner, strict=True)
            ]
            thetas = [count * np.log(table) for count, table in zip(graph.outer_counts, outer, strict=True)]
        for theta, inside in zip(thetas, spaces.inside, strict=True):
            for i, position in inside:
                theta += spaces.edges[i][position].spread(shares[i])
        flat = np.empty(self.layout.cells)
        spaces.write(flat, thetas, [np.zeros_like(table) for table in inner], 1.0)
        flat[[start for clique, start in zip(self.layout.cliques, self.layout.offsets, strict=False) if not clique]] = 0
        return flat

    def covariance(self, direction: np.ndarray) -> np.ndarray:
        """Raise ArgumentError: this oracle does not differentiate its fixed point."""
        raise ArgumentError(
            'method="lbfgs" differentiates through the oracle, which only oracle="exact" can; use method="auto".'
        )

    def maximum(self, theta: np.ndarray) -> float:
        """Return an upper bound on the largest total potential of any record, by max-product messages (MPLP).

        It bounds <theta, tau> over the local polytope, hence over all distributions, after any number of sweeps.
        """
        outer, inner = self._maximized(theta)
        return float(sum(table.max() for table in (*outer, *inner))) + self.tables.constant(theta)

    def max_marginals(self, theta: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Return, for each cell of the layout, an upper bound on the total potential of the records in that cell."""
        outer, inner = self._maximized(theta)
        top = float(sum(table.max() for table in (*outer, *inner)))
        best = checked_output(out, self.layout.cells)
        raised = [[table + (top - table.max()) for table in tables] for tables in (outer, inner)]
        self.tables.write(best, raised[0], raised[1], 1.0)
        constant = self.tables.constant(theta)
        for clique, start in zip(self.layout.cliques, self.layout.offsets, strict=False):
            if not clique:
                best[start] = top
        return best + constant if out is None else np.add(best, constant, out=best)

    # -- sum-product --------------------------------------------------------------------------------------------------

    def _tables(self, outer: Tables) -> tuple[Tables, list[float]]:
        """Return the outer tables at the present messages, each normalized to one, and the logs of their sums."""
        tables, log_sums = [], []
        for o, theta in enumerate(outer):
            table = self._logs(o, theta)
            top = table.max()
            if not np.isfinite(top):
                raise ImpossibleModelError(
                    f"the potentials on {self.graph.outer[o]} leave no possible cell; check the structural zeros."
                )
            np.exp(np.subtract(table, top, out=table), out=table)
            size = table.sum()
            table /= size
            tables.append(table)
            log_sums.append(float(top + np.log(size)))
        return tables, log_sums

    def _logs(self, o: int, theta: np.ndarray) -> np.ndarray:
        """Return (theta_o + sum_i n_io) / c_o."""
        logs = theta.copy()
        for i, position in self.tables.inside[o]:
            logs += self.tables.edges[i][position].spread(self._messages[i][position])
        logs /= self.graph.outer_counts[o]
        return logs

    def _step(
        self, i: int, phi: np.ndarray, outer: Tables, tables: Tables, old: np.ndarray
    ) -> tuple[np.ndarray, float]:
        """Update tau_i and rescale the tables around it; return log tau_i, and the largest L1 distance before."""
        edges, messages, counts = self.tables.edges[i], self._messages[i], self.graph.outer_counts
        sums = [edge.project(tables[edge.outer]) for edge in edges]
        with np.errstate(divide="ignore"):
            logs = [
                np.log(s) if s.min() > LEAST_SUM else self._log_sum(edge, outer[edge.outer])
                for edge, s in zip(edges, sums, strict=True)
            ]
            pull = phi + sum(counts[edge.outer] * log - n for edge, log, n in zip(edges, logs, messages, strict=True))
            weight, total = max(self._total_counts[i], 0.1), self._total_counts[i]
            damping = self._damping * counts[list(self.graph.holders[i])].sum() + weight - total
            if damping and old.size:  # damp towards the old belief, at least so much that the divisor is positive
                pull = pull + damping * old
                total += damping
            elif total <= 0:
                total = weight
            belief = pull / total
        belief -= belief.max()
        belief -= np.log(np.exp(belief).sum())
        distance = 0.0
        for edge, log, s, message in zip(edges, logs, sums, messages, strict=True):
            distance = max(distance, float(np.abs(np.exp(belief) - s).sum()))
            move = np.subtract(belief, log, out=np.zeros_like(log), where=np.isfinite(belief) & np.isfinite(log))
            message += counts[edge.outer] * move
            if s.min() > LEAST_SUM and np.abs(move).max() < LARGEST_MOVE:
                tables[edge.outer] *= edge.spread(np.exp(move))
            else:
                table = self._logs(edge.outer, outer[edge.outer])
                np.exp(table - table.max(), out=table)
                tables[edge.outer] = table / table.sum()
        return belief, distance

    def _log_sum(self, edge: Edge, theta: np.ndarray) -> np.ndarray:
        """Return the log of the sums of a table, computed from its logs."""
        logs = self._logs(edge.outer, theta)
        top = logs.max()
        peak = edge.project(logs, np.maximum.reduce)
        safe = np.where(np.isfinite(peak), peak, 0.0)
        sums = np.log(edge.project(np.exp(logs - edge.spread(safe)))) + safe
        return sums - (top + np.log(np.exp(logs - top).sum()))

    def _free_energy(self, inner: Tables, beliefs: Tables, log_sums: list[float]) -> float:
        """Return the Lagrangian, whose error is of second order in the error of the messages."""
        value = float(self.graph.outer_counts @ np.array(log_sums))
        for phi, belief, messages, count in zip(inner, beliefs, self._messages, self.graph.inner_counts, strict=True):
            possible = belief > 0
            b = belief[possible]
            value += float(b @ ((phi - sum(messages))[possible] - count * np.log(b)))
        return value

    # -- max-product --------------------------------------------------------------------------------------------------

    def _maximized(self, theta: np.ndarray) -> tuple[Tables, Tables]:
        """Return a reparametrization of `theta` (the same total for each record) with small maxima of the tables."""
        self.calls += 1
        outer, inner = self.tables.split(theta)
        for o, table in enumerate(outer):
            for i, position in self.tables.inside[o]:
                table += self.tables.edges[i][position].spread(self._bounding[i][position])
        inner = [phi - sum(messages) for phi, messages in zip(inner, self._bounding, strict=True)]
        for _ in range(BOUND_SWEEPS):
            for i, edges in enumerate(self.tables.edges):
                tops = [edge.project(outer[edge.outer], np.maximum.reduce) for edge in edges]
                share = (inner[i] + sum(tops)) / (len(edges) + 1)
                for edge, top, message in zip(edges, tops, self._bounding[i], strict=True):
                    move = np.subtract(share, top, out=np.zeros_like(top), where=np.isfinite(share) & np.isfinite(top))
                    message += move
                    outer[edge.outer] += edge.spread(move)
                inner[i] = share
        return outer, inner
