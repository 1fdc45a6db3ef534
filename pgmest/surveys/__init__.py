"""Surveys: weights of respondents calibrated to control totals (raking), and variances by replicate weights.

`rake` is `pgmest.rake`. `calibration` has the distances and Newton's method, `controls` the control totals by label,
`targets` the arguments, `problem` the weights that meet them, `feasible_weights` the linear programs that name
contradicting totals, `whole_weights` rounds to whole numbers. `households` weighs whole households to totals of
households and persons at once.
"""

from pgmest.surveys.rake import rake
from pgmest.surveys.replicates import ReplicateWeights, SurveyEstimate, bootstrap, jackknife

__all__ = ["ReplicateWeights", "SurveyEstimate", "bootstrap", "jackknife", "rake"]
