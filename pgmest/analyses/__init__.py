"""Analyses of several tables, combined into one; `pgmest.inference.combine` is the public name."""
