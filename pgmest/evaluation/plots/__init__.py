"""Pictures of marginals, junction trees, convergence, budgets; they need matplotlib (`pip install matplotlib`).

All in one style (style.py) that can be read in gray. Every function returns a matplotlib figure, to be shown or saved.
"""

from pgmest.evaluation.plots.budgets import draw_errors, draw_noise_choices
from pgmest.evaluation.plots.convergence import History, draw_convergence
from pgmest.evaluation.plots.dependences import dependences, draw_dependences
from pgmest.evaluation.plots.distances import compare_distances
from pgmest.evaluation.plots.marginals import compare_marginals, draw_marginals, draw_pair_errors
from pgmest.evaluation.plots.trees import draw_junction_tree

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
