"""Scores of an estimate against the true counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from experiments.accuracy_on_truth.cases import Case
from pgmest.inference.marginals.calibrated_tree import CalibratedTree
from pgmest.inference.marginals.propagation import propagate
from pgmest.solvers.problem import Problem
from pgmest.tables.clique_vector import CliqueVector

BINS = ("zero", "small", "middle", "large")
"""True counts of 0, up to one standard deviation of the noise, up to ten, and more."""


@dataclass(frozen=True)
class Scores:
    """Mean total-variation errors, fractions; nan where there is nothing to score.

    Attributes:
        measured, pairs, triples: over the measured marginals, the unmeasured pairs, some unmeasured triples.
        by_bin: what the cells of each of BINS contribute to `measured`.
    """

    measured: float
    pairs: float = np.nan
    triples: float = np.nan
    by_bin: tuple[float, ...] = ()


class Judge:
    """Scores estimates of one case at one noise level."""

    def __init__(self, case: Case, problem: Problem, stddev: float):
        self.problem = problem
        self.total = problem.total
        self.pairs, self.triples = case.pairs, case.triples
        self.true_measured = np.concatenate([table.reshape(-1) for table in case.true_counts(problem.layout.cliques)])
        self.true_others = case.true_counts([*self.pairs, *self.triples])
        self.bin_of_cell = np.digitize(self.true_measured, [0.5, max(stddev, 0.5) + 1e-9, max(10 * stddev, 1.0)])
        self.scale = 0.5 / (self.total * len(problem.layout.cliques))

    def measured(self, p: np.ndarray) -> Scores:
        """Scores of marginals alone (fractions, in the problem's layout)."""
        errors = np.abs(p * self.total - self.true_measured) * self.scale
        by_bin = np.bincount(self.bin_of_cell, weights=errors, minlength=len(BINS))
        return Scores(float(errors.sum()), by_bin=tuple(by_bin.tolist()))

    def model(self, theta: np.ndarray, p: np.ndarray) -> Scores:
        """Scores of a model, unmeasured marginals included."""
        potentials = CliqueVector.of(self.problem.layout, theta.copy())
        estimates = propagate(CalibratedTree(potentials, self.problem.oracle.plan), [*self.pairs, *self.triples])
        errors = [
            0.5 * float(np.abs(table - true / self.total).sum())
            for table, true in zip(estimates, self.true_others, strict=True)
        ]
        scores = self.measured(p)
        pairs, triples = errors[: len(self.pairs)], errors[len(self.pairs) :]
        return Scores(scores.measured, _mean(pairs), _mean(triples), scores.by_bin)


def _mean(values: list[float]) -> float:
    return float(np.mean(values)) if values else np.nan
