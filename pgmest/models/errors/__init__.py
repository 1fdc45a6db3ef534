"""Errors: how far a model's tables may be from the true ones, from noise, shrinkage and dependence that it lacks."""
