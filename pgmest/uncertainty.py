"""Standard errors and intervals of a model's answers, from the noise of its measurements.

This is the public name of `pgmest.models.uncertainty`.
"""

from pgmest.models.uncertainty import Replicates, Uncertainty, replicate, uncertainty_of

__all__ = ["Replicates", "Uncertainty", "replicate", "uncertainty_of"]
