"""Marginals of a distribution over given records: a marginal oracle that sweeps over the records."""
