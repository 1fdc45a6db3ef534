"""Draws from the prior of interactions, from which simulations make true tables."""

from __future__ import annotations

import numpy as np

from pgmest.models.posterior.student_cells import DEGREES, StudentCells

GIBBS_SWEEPS = 30


def drawn_from(prior: StudentCells, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw potentials and log scales from the prior of a small domain, as the projections are dense.

    The interactions of a table are t-distributed on condition that they have no additive part. Gibbs sampling over the
    t distribution's variances draws from this conditional distribution.
    """
    cells = len(prior.center)
    within = np.eye(cells) - (prior.effects.spread @ prior.effects.means.toarray())
    basis = np.linalg.svd(within)[0][:, : round(np.trace(within))]  # of interactions
    unit = basis @ generator.standard_normal(basis.shape[1])
    for _ in range(GIBBS_SWEEPS):
        rates = 0.5 * (DEGREES + unit**2)
        precision = generator.gamma(0.5 * (DEGREES + 1.0), 1.0 / rates)
        root = np.linalg.cholesky(basis.T @ (precision[:, None] * basis))
        unit = basis @ np.linalg.solve(root.T, generator.standard_normal(basis.shape[1]))
    scales = prior.log_scales + prior.width * generator.standard_normal(len(prior.free))
    additive = np.linalg.svd(np.eye(cells) - within)[0][:, : cells - basis.shape[1]]
    means = prior.effects.means @ additive
    root = np.linalg.cholesky(means.T @ (prior.effects.precision[:, None] * means))
    outer = additive @ np.linalg.solve(root.T, generator.standard_normal(additive.shape[1]))
    return prior.center + prior.spread(scales) * unit + outer, scales
