"""pgmest beside its peers: the same codes, the same budget, a process of its own for each run. See `__main__`."""
