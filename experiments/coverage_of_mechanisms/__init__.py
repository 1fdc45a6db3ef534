"""Measure how often intervals hold after each mechanism, in two stages: fits, which are saved, and intervals of them.

`python -m experiments.coverage mechanisms` is the command (`command.py`); `report.py` says what its tables show.

    tables.py      the tables: thirteen of up to seven attributes, whole tables, hostile ones
    fits.py        stage 1: a mechanism on a table, once, saved in build/coverage/fits
    questions.py   the classes of answers, and their questions
    records.py     regressions of released records
    scores.py      stage 2: the rows of a fit, one for each class of answers
    report.py      the tables and the figure
"""
