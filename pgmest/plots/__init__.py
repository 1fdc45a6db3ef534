"""Pictures of marginals, their errors and dependences; they need matplotlib (`pip install matplotlib`).

All pictures have one style (style.py), which is legible in gray. Every function returns a matplotlib figure.
"""

from pgmest.plots.dependences import dependences, draw_dependences
from pgmest.plots.marginals import compare_marginals, draw_marginals, draw_pair_errors

__all__ = [
    "compare_marginals",
    "dependences",
    "draw_dependences",
    "draw_marginals",
    "draw_pair_errors",
]
