"""Weights of whole households that meet totals of households and of persons at once, zone by zone, and whole numbers.

`rake_households` is `pgmest.rake_households`. `seed` has the two tables, `zones` the areas, `margins` the totals by
label, `problem` the sparse system of pairs of households and zones, `fit` the weights, `contradictions` the totals that
no weights meet, `whole` the rounding, `result` what users hold.
"""

from pgmest.surveys.households.rake_households import rake_households

__all__ = ["rake_households"]
