"""Pictures of marginals, junction trees, convergence and budgets; they need matplotlib (`pip install matplotlib`).

All pictures have one style (style.py), which is legible in gray. Every function returns a matplotlib figure.
"""

from pgmest.plots.budgets import draw_errors, draw_noise_choices
from pgmest.plots.convergence import History, draw_convergence
from pgmest.plots.dependences import dependences, draw_dependences
from pgmest.plots.distances import compare_distances
from pgmest.plots.marginals import compare_marginals, draw_marginals, draw_pair_errors
from pgmest.plots.trees import draw_junction_tree

__all__ = [
    "History",
    "compare_distances",
    "compare_marginals",
    "dependences",
    "draw_convergence",
    "draw_dependences",
    "draw_errors",
    "draw_junction_tree",
    "draw_marginals",
    "draw_noise_choices",
    "draw_pair_errors",
]
