"""Surveys: weights calibrated to control totals (raking), variances by replicates, and weighted answers of models.

`rake` has `pgmest.rake`. `calibration` has the distances and Newton's method, `controls` the control totals by label,
`targets` the arguments, `problem` the weights that meet them, `feasible_weights` the linear programs that name
contradicting totals, `whole_weights` rounds to whole numbers. `households` weighs whole households to totals of
households and persons at once. `weighted` is for models whose records carry weights.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgmest.surveys.replicates import ReplicateWeights, SurveyEstimate, bootstrap, jackknife
    from pgmest.surveys.weighted import WeightAttribute, WeightedTable

__all__ = [
    "ReplicateWeights",
    "SurveyEstimate",
    "WeightAttribute",
    "WeightedTable",
    "bootstrap",
    "jackknife",
]

_HOMES = {"WeightAttribute": "weighted", "WeightedTable": "weighted"}
"""The module of each public name; those that are not listed are in `replicates`. Schemas need no SciPy for weights."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Return a public name, importing its module at the first use."""
        if name not in __all__:
            raise AttributeError(f"module 'pgmest.surveys' has no attribute {name!r}")
        return getattr(import_module(f"pgmest.surveys.{_HOMES.get(name, 'replicates')}"), name)
