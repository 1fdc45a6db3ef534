"""Linked tables: LinkedLAMP beside simpler designs on three tables of households and persons."""
