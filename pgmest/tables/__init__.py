"""Attributes and tables over them: domains, factors, vectors of tables, evidence, and structural zeros."""
