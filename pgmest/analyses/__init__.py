"""Analyses of several tables, combined into one; `pg.combine` is the public name."""
