"""PPSyn (Zhang, Deng, Yin): Figures 2 to 9 on the paper's problems, and its algorithm with the leak closed.

`problems.py` has tables, workloads and ranges, `cells.py` the runs, `leak.py` the closed forms, `steps.py` the figures;
`python -m experiments.papers ppsyn` runs everything.
"""
