"""The experiments of PGM (ICML 2019): Figure 1, with and without the graphical model, and Figure 2."""
