"""Pictures of marginals, junction trees, convergence, budgets; they need matplotlib (`pip install 'pgmest[plot]'`).

All in one style (style.py) that can be read in grey. Every function returns a matplotlib figure, to be shown or saved.
"""

from pgmest.plots.budgets import draw_errors as draw_errors
from pgmest.plots.budgets import draw_noise_choices as draw_noise_choices
from pgmest.plots.convergence import History as History
from pgmest.plots.convergence import draw_convergence as draw_convergence
from pgmest.plots.distances import compare_distances as compare_distances
from pgmest.plots.marginals import compare_marginals as compare_marginals
from pgmest.plots.marginals import draw_marginals as draw_marginals
from pgmest.plots.marginals import draw_pair_errors as draw_pair_errors
from pgmest.plots.trees import draw_junction_tree as draw_junction_tree
