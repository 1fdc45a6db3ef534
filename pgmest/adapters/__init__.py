"""Adapters for other libraries: mbi (private-pgm), OpenDP's contingency tables, and scikit-learn.

A module imports its library only when it is used; docs/guides/coming_from_other_libraries.md has examples.
"""
