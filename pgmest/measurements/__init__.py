"""Noisy linear answers about marginals, and their files."""
