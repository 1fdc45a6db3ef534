"""Graphs of attributes: triangulation, elimination orders, junction trees, and what one more clique would cost."""
