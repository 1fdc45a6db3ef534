"""Marginals beyond the cliques of a model: the calibrated tree, variable elimination, contraction, and batches."""
