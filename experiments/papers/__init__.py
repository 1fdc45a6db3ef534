"""The papers that pgmest builds on: what they say of their results, what comes out here, and a verdict.

`line.py` says what a line is, `pgm.py`, `ide.py`, ... declare those of a paper and the steps that make its results,
`report.py` writes the tables of results as Markdown, `page.py` all lines to `experiments/papers.md`.
"""
