"""The papers that pgmest builds on, item by item: the paper's number, ours, and a verdict.

`entry.py` says what an entry is, `pgm.py`, `ide.py`, ... declare those of a paper and the steps that make its results,
`page.py` writes them all to `experiments/papers.md`. Ours is always read from a file in `experiments/results`; the
verdict on a number is computed, and an entry that differs says why.
"""
