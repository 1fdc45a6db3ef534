"""Posteriors over log-linear models: draws of all models that noisy answers allow, instead of one estimate.

posterior_of.py draws a posterior; posterior.py answers queries from its draws. The density is in density.py, with the
priors of prior.py and student_cells.py. Draws are made by draw.py, with mode.py (Laplace's approximation), and hmc.py,
metric.py and unidentified.py (Hamiltonian Monte Carlo); diagnostics.py and report.py judge them. Errors that cells have
in common are in common_error.py, from the unbiased answers of unbiased.py. strength.py learns how strongly attributes
depend on each other, and dependence.py draws the dependence of attributes that were not measured together, weighted by
the evidence of selections (lost_selections.py).
"""

from pgmest.models.posterior.posterior import Posterior
from pgmest.models.posterior.posterior_of import posterior_of
from pgmest.models.posterior.prior import InteractionPrior, NormalPrior
from pgmest.models.posterior.report import PosteriorReport

__all__ = ["InteractionPrior", "NormalPrior", "Posterior", "PosteriorReport", "posterior_of"]
