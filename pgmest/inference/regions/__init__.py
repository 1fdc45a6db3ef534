"""Approximate marginals of models whose junction tree is too large: message passing on region graphs."""
