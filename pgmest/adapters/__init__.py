"""pgmest inside other libraries: mbi (private-pgm), OpenDP's contingency tables, and scikit-learn.

Each module needs its library only when it is used; docs/guides/coming_from_mbi.md shows them.
"""
