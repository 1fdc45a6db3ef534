"""Convex losses of marginals: the value, the gradient, and how fast the gradient can change.

A loss of your own needs two members, the cliques it reads and the value with its gradient:

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

from pgmest.loss.autodiff import jax_loss as jax_loss
from pgmest.loss.autodiff import torch_loss as torch_loss
from pgmest.loss.base import FlatLoss as FlatLoss
from pgmest.loss.base import Loss as Loss
from pgmest.loss.choose import make_loss as make_loss
from pgmest.loss.compose import FunctionLoss as FunctionLoss
from pgmest.loss.compose import SumLoss as SumLoss
from pgmest.loss.divergence import KLLoss as KLLoss
from pgmest.loss.dual_query import DualQueryLoss as DualQueryLoss
from pgmest.loss.dual_query import DualQueryTranscript as DualQueryTranscript
from pgmest.loss.l2 import L2Loss as L2Loss
from pgmest.loss.likelihood import NegativeLogLikelihood as NegativeLogLikelihood
from pgmest.loss.robust import HuberLoss as HuberLoss
from pgmest.loss.robust import L1Loss as L1Loss
