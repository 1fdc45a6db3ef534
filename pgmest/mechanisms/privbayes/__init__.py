"""PrivBayes (Zhang et al. 2017)."""
