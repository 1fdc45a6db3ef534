"""Graphs of attributes: triangulation, elimination orders, junction trees."""
