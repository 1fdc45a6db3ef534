"""DualQuery (Gaboardi et al. 2014; PGM appendix C.3)."""
