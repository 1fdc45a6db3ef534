"""The four mechanisms of PGM section 4 as published, with their own estimators and with PGM's; for comparison only.

They are references: NumPy draws the noise and nothing guards a budget, so that each is a screen of code that can be
laid beside the paper. What pgmest offers for use is in `pgmest.mechanisms`. Neighbors differ in one replaced record
(PGM section 2), so that the number of records is public and a query set Q of counts has the sensitivity 2 ||Q||_1.

    HDMM         hdmm.py         local least squares, global least squares, PGM
    MWEM         mwem.py         equation (2) on tables of independent components, replayed; PGM
    PrivBayes    privbayes.py    half of the budget for each part, records by ancestral sampling; PGM
    DualQuery    dual_query.py   Algorithm 4; Algorithm 5's likelihood under PGM

and the two that estimate: algorithm1.py with the authors' line search, algorithm2.py with the paper's constant.
"""
