"""Synthesizer, from a raw table to a synthetic table of the same kind."""

from pgmest.synthesizer.synthesizer import Synthesizer

__all__ = ["Synthesizer"]
