"""Surveys: weights calibrated to control totals (raking), variances by replicates, and weighted answers of models.

`rake` and `rake_households` are `pgmest.rake` and `pgmest.rake_households`, the first with one zone and no persons.
Both read totals (`margin_forms`, `margins`) and units (`seed`, `zones`), write the sparse system of totals (`problem`)
and solve it (`fit`) by `calibration`. `feasible_weights` has the linear programs that name contradicting totals.
`whole` rounds to whole numbers. `weighted` is for models whose records carry weights.
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
