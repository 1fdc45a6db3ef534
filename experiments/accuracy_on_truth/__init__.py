"""Measure how close estimates are to the true marginals, for several ways of stopping or penalizing."""
