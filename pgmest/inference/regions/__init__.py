"""Approximate marginals where no junction tree fits: message passing on region graphs."""
