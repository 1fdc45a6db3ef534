"""Posteriors over log-linear models: what noisy answers leave open, as many draws instead of one estimate.

`Model.posterior` draws from one. The density is in density.py, the priors in prior.py and student_cells.py, and how
draws are made in draw.py (Laplace's approximation) and hmc.py with metric.py and unidentified.py. What they say about
questions in posterior.py. What cells may have in common wrong is in common_error.py, by the unbiased answers of
unbiased.py. How strongly attributes depend on each other is learned in strength.py, and drawn for those not measured
together in dependence.py, weighted by what selections say that they lost (lost_selections.py).
"""

from pgmest.models.posterior.posterior import Posterior
from pgmest.models.posterior.prior import InteractionPrior, NormalPrior
from pgmest.models.posterior.report import PosteriorReport

__all__ = ["InteractionPrior", "NormalPrior", "Posterior", "PosteriorReport"]
