"""Synthesizer, from a raw table to a synthetic table of the same kind."""

from pgmest.synthesizer.how_many import HowMany
from pgmest.synthesizer.synthesizer import Synthesizer

__all__ = ["HowMany", "Synthesizer"]
