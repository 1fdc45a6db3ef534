"""Convex losses of marginals: their values, gradients and Lipschitz constants.

A user-defined loss needs two members: the cliques that it reads, and a method that returns its value and gradient.

>>> import numpy as np
>>> from pgmest import CliqueVector, Domain
>>> class QuarticLoss:
...     def __init__(self, clique, target):
...         self.cliques = (clique,)
...         self.target = target
...     def value_and_gradient(self, marginals):
...         (clique,) = self.cliques
...         residual = marginals[clique].values - self.target
...         return np.sum(residual**4), {clique: 4 * residual**3}
>>> domain = Domain({"age": 85, "sex": 2})
>>> loss = make_loss(QuarticLoss(("sex",), np.array([10.0, 20.0])), [], domain)
>>> value, gradient = loss.value_and_gradient(CliqueVector(domain, {("sex",): [12.0, 19.0]}))
>>> value, gradient[("sex",)].values
(17.0, array([32., -4.]))
"""

from pgmest.losses.autodiff import jax_loss, torch_loss
from pgmest.losses.base import FlatLoss, Loss
from pgmest.losses.choose import make_loss
from pgmest.losses.compose import FunctionLoss, SumLoss
from pgmest.losses.divergence import KLLoss
from pgmest.losses.interval import IntervalLoss
from pgmest.losses.l2 import L2Loss
from pgmest.losses.likelihood import NegativeLogLikelihood
from pgmest.losses.robust import HuberLoss, L1Loss

__all__ = [
    "FlatLoss",
    "FunctionLoss",
    "HuberLoss",
    "IntervalLoss",
    "KLLoss",
    "L1Loss",
    "L2Loss",
    "Loss",
    "NegativeLogLikelihood",
    "SumLoss",
    "jax_loss",
    "make_loss",
    "torch_loss",
]
