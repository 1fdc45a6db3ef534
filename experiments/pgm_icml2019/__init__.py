"""The experiments of PGM (ICML 2019): Figure 1, with and without the graphical model, Figures 2 and 3, and A.3."""
