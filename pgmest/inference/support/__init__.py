"""Marginals of a distribution over given records: the same contract as over all records, by sweeps over them."""
