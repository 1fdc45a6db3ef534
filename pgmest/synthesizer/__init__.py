"""From a raw table to a synthetic one of the same kind."""

from pgmest.synthesizer.synthesizer import Synthesizer

__all__ = ["Synthesizer"]
