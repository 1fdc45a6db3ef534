"""Schemas of linked tables: rows of one table hang on rows of another, such as persons on households.

The flow: reading.py reads `tables:` (within.py: what holds among the rows of one parent) -> encoding.py: tables to a
LinkedDataset (keys.py: columns that join; linking.py: which rows belong together and count) -> ... -> decoding.py:
codes to tables with new keys (older_draws.py: numbers that keep rules). check.py and draft.py serve the tables' owner.
"""
