r"""Approximate marginals where the junction tree is too wide: message passing on a region graph.

The pseudo-marginals tau maximize <theta, tau> + sum_r c_r H(tau_r) over the local polytope (`region_graph`). Setting
the gradient of the Lagrangian to zero gives, with multipliers n_{io} for "outer region o agrees with inner region i",

    tau_o  is proportional to  exp[(theta_o + sum_i n_io) / c_o],
    tau_i  is proportional to  exp[(phi_i + sum_o (c_o log s_o - n_io)) / (c_i + sum_o c_o)],   s_o = tau_o summed to i.

A step takes one inner region, sets tau_i so, and rescales each tau_o around it by tau_i / s_o, as iterative
proportional fitting does, which moves n_io by c_o log(tau_i / s_o): one step of norm-product (Hazan and Shashua 2010).
A sweep is a step for each inner region. With Bethe's counting numbers the fixed points are those of loopy belief
propagation.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from pgmest._base.errors import ArgumentError, ImpossibleModelError
from pgmest.inference.outputs import checked_output
from pgmest.inference.regions.region_graph import RegionGraph
from pgmest.inference.regions.region_tables import Edge, RegionTables, Tables
from pgmest.tables.clique_vector import Layout

MOST_SWEEPS = 400
BOUND_SWEEPS = 10
SLOW = 20
"""Where the disagreement has not halved in this many sweeps, steps are made shorter."""

LARGEST_MOVE = 30.0
"""After a step by more than this (logs) a table is computed afresh, as cells may have underflowed."""

LEAST_SUM = 1e-250
"""Sums of a table's cells below this are taken again in logs: the terms may have underflowed."""


class RegionOracle:
    """Pseudo-marginals by message passing on a region graph; a `MarginalOracle` that is exact on trees only.

    Messages are kept from run to run, so that a run at nearby potentials takes few sweeps.

    Args:
        layout: the cliques whose marginals are asked for.
        counting: "convex" (one fixed point, whatever the start) or "loopy" (Kikuchi's: several, or it may not settle).
        tolerance: a run stops when no table disagrees with a neighbor by more than this (L1, of tables that sum to 1).
        sweeps: or after at most this many sweeps.

    Attributes:
        graph, tables: the regions, and where their cells lie.
        calls: how many runs and bounds so far.
        sweeps_run: how many sweeps these took.
        inconsistency: the largest L1 disagreement left by the last run.
    """

    def __init__(self, layout: Layout, counting: str = "convex", tolerance: float = 1e-8, sweeps: int = MOST_SWEEPS):
        if not tolerance > 0:
            raise ArgumentError.of("tolerance", tolerance, "a positive number")
        self.layout = layout
        self.graph: RegionGraph = RegionGraph.of(layout, counting)
        self.tables: RegionTables = RegionTables(layout, self.graph)
        self.tolerance = tolerance
        self.sweeps = sweeps
        self.calls: int = 0
        self.sweeps_run: int = 0
        self.inconsistency: float = 0.0
        self._messages = [[np.zeros(edge.shape) for edge in edges] for edges in self.tables.edges]
        self._bounding = [[np.zeros(edge.shape) for edge in edges] for edges in self.tables.edges]
        self._shortening = 0.0

    @cached_property
    def _hats(self) -> np.ndarray:
        """By inner region, its counting number and those of the outer ones around it."""
        counts, inner = self.graph.outer_counts, self.graph.inner_counts
        return np.array([c + counts[list(above)].sum() for c, above in zip(inner, self.graph.holders, strict=True)])

    def reset(self) -> None:
        """Forget the messages: the next run starts as the first one did."""
        for messages in (*self._messages, *self._bounding):
            for message in messages:
                message.fill(0.0)
        self._shortening = 0.0

    def run(self, theta: np.ndarray, total: float = 1.0, out: np.ndarray | None = None) -> tuple[np.ndarray, float]:
        """The pseudo-marginals scaled to `total`, and the approximate log-partition function.

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
                logs[i], apart = self._step(i, phi, outer, tables, logs[i])
                worst = max(worst, apart)
            residuals.append(worst)
            self.sweeps_run += 1
            if worst <= self.tolerance:
                break
            if len(residuals) % SLOW == 0:
                tables, log_sums = self._tables(outer)
                if len(residuals) > SLOW and worst > 0.5 * residuals[-SLOW]:
                    self._shortening = min(self._shortening + 0.5, 4.0)
        beliefs = list(map(np.exp, logs))
        self.calls += 1
        self.inconsistency = self.tables.disagreement(tables, beliefs)
        mu = checked_output(out, self.layout.cells)
        self.tables.write(mu, tables, beliefs, total)
        return mu, self._free_energy(inner, beliefs, log_sums) + self.tables.constant(theta)

    def potentials(self, outer: Tables, inner: Tables) -> np.ndarray:
        """Flat potentials of which these tables of the regions, if they agree, are the pseudo-marginals; A is 0 there.

        The gradient of minus the entropy, sum_r c_r log tau_r, with the part of each inner region shared out among the
        outer ones around it; -inf where a table is zero.
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
        """Not known: the fixed point is not differentiated.

        Raises:
            ArgumentError: always.
        """
        raise ArgumentError(
            'method="lbfgs" differentiates through the oracle, which only oracle="exact" can; use method="auto".'
        )

    def maximum(self, theta: np.ndarray) -> float:
        """An upper bound on the largest total potential of any record, by max-product message passing (MPLP).

        It bounds <theta, tau> over the local polytope, hence over all distributions, after any number of sweeps.
        """
        outer, inner = self._maximized(theta)
        return float(sum(table.max() for table in (*outer, *inner))) + self.tables.constant(theta)

    def max_marginals(self, theta: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """For each cell of the layout, an upper bound on the total potential of the records that fall into it."""
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
        """The outer tables at the present messages, each summing to one, and the logs of what they summed to."""
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
        """(theta_o + sum_i n_io) / c_o."""
        logs = theta.copy()
        for i, position in self.tables.inside[o]:
            logs += self.tables.edges[i][position].spread(self._messages[i][position])
        logs /= self.graph.outer_counts[o]
        return logs

    def _step(
        self, i: int, phi: np.ndarray, outer: Tables, tables: Tables, old: np.ndarray
    ) -> tuple[np.ndarray, float]:
        """Set tau_i and rescale the tables around it; log tau_i, and how far they were from it (L1)."""
        edges, messages, counts = self.tables.edges[i], self._messages[i], self.graph.outer_counts
        sums = [edge.project(tables[edge.outer]) for edge in edges]
        with np.errstate(divide="ignore"):
            logs = [
                np.log(s) if s.min() > LEAST_SUM else self._log_sum(edge, outer[edge.outer])
                for edge, s in zip(edges, sums, strict=True)
            ]
            pull = phi + sum(counts[edge.outer] * log - n for edge, log, n in zip(edges, logs, messages, strict=True))
            weight, hat = max(self._hats[i], 0.1), self._hats[i]
            shorter = self._shortening * counts[list(self.graph.holders[i])].sum() + weight - hat
            if shorter and old.size:
                pull = pull + shorter * old
                hat += shorter
            elif hat <= 0:
                hat = weight
            belief = pull / hat
        belief -= belief.max()
        belief -= np.log(np.exp(belief).sum())
        apart = 0.0
        for edge, log, s, message in zip(edges, logs, sums, messages, strict=True):
            apart = max(apart, float(np.abs(np.exp(belief) - s).sum()))
            move = np.subtract(belief, log, out=np.zeros_like(log), where=np.isfinite(belief) & np.isfinite(log))
            message += counts[edge.outer] * move
            if s.min() > LEAST_SUM and np.abs(move).max() < LARGEST_MOVE:
                tables[edge.outer] *= edge.spread(np.exp(move))
            else:
                table = self._logs(edge.outer, outer[edge.outer])
                np.exp(table - table.max(), out=table)
                tables[edge.outer] = table / table.sum()
        return belief, apart

    def _log_sum(self, edge: Edge, theta: np.ndarray) -> np.ndarray:
        """log of the table's sums, from logs."""
        logs = self._logs(edge.outer, theta)
        top = logs.max()
        peak = edge.project(logs, np.maximum.reduce)
        safe = np.where(np.isfinite(peak), peak, 0.0)
        sums = np.log(edge.project(np.exp(logs - edge.spread(safe)))) + safe
        return sums - (top + np.log(np.exp(logs - top).sum()))

    def _free_energy(self, inner: Tables, beliefs: Tables, log_sums: list[float]) -> float:
        """The Lagrangian: its error is of second order in that of the messages."""
        value = float(self.graph.outer_counts @ np.array(log_sums))
        for phi, belief, messages, count in zip(inner, beliefs, self._messages, self.graph.inner_counts, strict=True):
            possible = belief > 0
            b = belief[possible]
            value += float(b @ ((phi - sum(messages))[possible] - count * np.log(b)))
        return value

    # -- max-product --------------------------------------------------------------------------------------------------

    def _maximized(self, theta: np.ndarray) -> tuple[Tables, Tables]:
        """Potentials that sum to those of `theta` for each record, reparametrised so that their maxima are small."""
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
