"""DPSyn (Li, Zhang, Wang): the contest's pipeline on fire calls, its scores, GUM against flows, Figure 2, PriView.

`design.py` says what is recoded and measured, `pipeline.py` runs it, `cells.py` are the runs; `python -m
experiments.papers dpsyn` runs everything.
"""
